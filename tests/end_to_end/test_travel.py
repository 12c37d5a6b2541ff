"""Snapshot stores, end to end: what `perdure travel` says of an epoch is what the program had then.

Always true here: the programs change their memory by a known schedule and say, by calls that end
epochs, where one epoch ends and the next begins; expected values come from that schedule alone.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import statistics
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command, Ended

import perdure
from perdure import Machine, PerdureError, toolchain

PACKAGES = ("python3",)
ROUNDS = 40

# Two threads take turns; fdatasync waits until everything so far is durable, so it ends an epoch.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile long counter;
volatile int squares[64];
volatile double half;
static volatile unsigned char small_ = 7;
char name[16];
const long never_touched[600] = {[300] = 1234567};
long *heap;
struct { char before[60]; volatile long across; char after[60]; }
    __attribute__((packed, aligned(64))) packed;
static pthread_barrier_t barrier;

__attribute__((noinline)) static void step(long round) {
    counter = round;
    squares[round % 64] = round * round;
    half = round / 2.0;
    packed.across = -round;
    heap[1000 + round] = round << 32;
    snprintf(name, sizeof name, "round %ld", round);
    fdatasync(1);
}

static void *work(void *mine) {
    for (long round = 1; round <= ROUNDS; round++) {
        if (round % 2 == (long)mine) step(round);
        pthread_barrier_wait(&barrier);
    }
    return mine;
}

int main(void) {
    pthread_t threads[2];
    heap = calloc(1 << 16, sizeof *heap);
    pthread_barrier_init(&barrier, 0, 2);
    for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, work, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%p %p %ld\\n", (void *)&counter, (void *)heap, counter + never_touched[0]);
    return 0;
}
"""


class Kept:
    """A program, the store of its run, and the result of that run."""

    def __init__(self, folder: Path, source: str, *flags: str, harts: int = 4) -> None:
        compiler = toolchain.installed()
        assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
        (folder / "program.c").write_text(source)
        self.program = compiler.build(folder / "program.c", folder / "program", ["-g", *flags])
        self.directory = folder / "store"
        machine = Machine(machine="nvoverlay", design="nvoverlay", harts=harts)
        self.result = machine.run([self.program], snapshots=self.directory)
        assert self.result.exit_code == 0
        self.store = perdure.open_snapshots(self.directory)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("travel"), PROGRAM, f"-DROUNDS={ROUNDS}")


@pytest.fixture(scope="module")
def ends(kept: Kept) -> dict[int, int]:
    """The first epoch at whose end each round's last store was there."""
    found: dict[int, int] = {}
    for version in kept.store.history("name", type="char[16]", changes=True):
        match = re.fullmatch(r"round (\d+)", str(version.value))
        if match:
            found.setdefault(int(match.group(1)), version.epoch)
    assert list(found) == list(range(1, ROUNDS + 1)), found
    return found


def test_every_round_is_read_back(kept: Kept, ends: dict[int, int]) -> None:
    read = kept.store.read
    for number, epoch in ends.items():
        assert read("counter", epoch, type="i64").value == number
        assert read("half", epoch, type="f64").value == number / 2
        assert read("packed+60", epoch, type="i64", count=1).value == -number
        squares = read("squares", epoch, type="i32").values
        known = range(1, number + 1)
        assert list(squares) == [i * i if i in known else 0 for i in range(64)]
        heap = int(read("heap", epoch).value)
        assert read(heap + 8 * (1000 + number), epoch, type="i64").value == number << 32
        assert read(heap + 8 * (1001 + number), epoch, type="i64").value == 0
        assert read("small_", epoch).value == 7
        assert read("never_touched+2400", epoch, type="i64", count=1).value == 1234567


def test_all_of_a_symbol_is_read_and_nothing_beyond_it(kept: Kept, command: Command) -> None:
    read = ("travel", kept.directory, "read", "never_touched")
    whole = json.loads(command(*read, "--json", "-").stdout)
    assert (whole["type"], len(whole["bytes"])) == ("hex[4800]", 2 * 4800)
    assert len(kept.store.read("never_touched", type="u8").values) == 4800
    assert len(kept.store.read("never_touched", type="i64", count=3).values) == 3
    assert_refused(command(*read, "-n", "2"), "4800 bytes are left there, for 1 of hex[4800]")
    assert_refused(command(*read, "-t", "i64", "-n", "601"), "for 600 of i64")
    assert "800 bytes of never_touched are not shown" in command(*read, "-t", "hex[1000]").stderr


def test_histories_are_the_schedule(kept: Kept, ends: dict[int, int]) -> None:
    for symbol, kind, expected in (
        ("counter", "i64", list(range(ROUNDS + 1))),
        ("half", "f64", [number / 2 for number in range(ROUNDS + 1)]),
        ("packed+60", "i64", [-number for number in range(ROUNDS + 1)]),
        ("squares+68", "i32", [0, 17 * 17]),
    ):
        versions = kept.store.history(symbol, type=kind, count=1, changes=True)
        values = [version.value for version in versions if version.values is not None]
        assert values == expected, symbol
        if len(values) == ROUNDS + 1:
            alive = [version for version in versions if version.values is not None]
            assert [version.epoch for version in alive[1:]] == list(ends.values()), symbol
            # Two threads took turns, on at least two of the harts.
            assert len({version.writer for version in alive[1:]}) >= 2
            assert {version.writer for version in alive[1:]} <= set(range(4))
    assert kept.store.history("counter")[-1].values is None, "the program ended"


def test_a_difference_is_what_the_rounds_did(kept: Kept, ends: dict[int, int]) -> None:
    (process,) = kept.store.diff(ends[10], ends[13])["processes"]
    symbols = {(one["name"], one["offset"]): one for one in process["symbols"]}
    assert (symbols["counter", 0]["old"], symbols["counter", 0]["new"]) == (10, 13)
    changed = {offset // 4 for name, offset in symbols if name == "squares"}
    assert changed == {11 // 2 * 2, 12 // 2 * 2}
    assert symbols["squares", 48]["new"] == 144 | 169 << 32
    heap = int(kept.store.read("heap", ends[13]).value)
    places = {int(line["address"], 16) for line in process["lines"]}
    assert {(heap + 8 * (1000 + number)) // 64 * 64 for number in (11, 12, 13)} <= places
    assert kept.store.diff(ends[10], ends[10])["lines"] == 0


def test_epochs_know_when_and_who(kept: Kept) -> None:
    epochs = kept.store.epochs()
    assert [epoch.epoch for epoch in epochs] == list(range(epochs[0].epoch, epochs[-1].epoch + 1))
    assert [epoch.virtual_ns for epoch in epochs] == sorted(epoch.virtual_ns for epoch in epochs)
    assert epochs[-1].processes == []
    assert epochs[-2].processes == [1]
    seconds = epochs[-1].virtual_ns / 1e9
    assert 0 < seconds <= kept.result.raw["sim"]["seconds"] * 1.01
    manifest = kept.store.manifest
    assert manifest["config_hash"] == kept.result.config_hash
    assert manifest["programs"][0]["path"] == str(kept.program)


def test_a_store_is_no_larger_than_what_the_design_wrote(kept: Kept) -> None:
    sizes = kept.store.manifest["sizes"]
    file = (kept.directory / "snapshots.nvm").stat().st_size
    written = kept.result.nvm.written_bytes.total
    assert sizes["nvm_written"] == written
    print(f"\nstore: {file} bytes, the design wrote {written}: {file / written:.2f} times that")
    assert file <= 1.3 * written + sizes["initial_image"]


def gdb(program: Path, core: Path, *asked: str) -> str:
    """What gdb answers."""
    debugger = shutil.which("gdb-multiarch")
    if debugger is None:
        pytest.skip("no gdb-multiarch")
    words = [debugger, "-batch", "-nx"]
    for one in asked:
        words += ["-ex", one]
    done = subprocess.run(
        [*words, program, core], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_store_that_cannot_be_is_refused_before_the_run(command: Command, kept: Kept) -> None:
    nowhere = Path("/proc/perdure")
    file = kept.directory / "store.json"
    for wrong in (nowhere, file, file / "below"):
        ended = command(
            "run",
            "--design",
            "nvoverlay",
            "--machine",
            "nvoverlay",
            "--snapshots",
            wrong,
            "--",
            kept.program,
        )
        assert_refused(ended, "--snapshots", str(wrong))


def test_a_core_file_that_fails_leaves_the_old_one(kept: Kept, tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.mkdir()
    with pytest.raises(perdure.PerdureError, match="writing"):
        kept.store.dump(core, 5)
    assert list(tmp_path.iterdir()) == [core]


def test_gdb_opens_a_dumped_epoch(kept: Kept, ends: dict[int, int], tmp_path: Path) -> None:
    number = 24
    core = tmp_path / "core"
    answer = kept.store.dump(core, ends[number])
    assert len(answer["threads"]) == 3
    header = struct.unpack_from("<HH", core.read_bytes()[:20], 16)
    assert header == (4, 243), "ET_CORE, EM_RISCV"
    said = gdb(
        kept.program,
        core,
        "print counter",
        "print squares[24]",
        "print half",
        "print (char *)name",
        "print never_touched[300]",
        "print packed.across",
        "print heap[1024] >> 32",
        "thread apply all backtrace",
    )
    for line in (
        f"$1 = {number}",
        f"$2 = {number * number}",
        f"$3 = {number // 2}",
        f'"round {number}"',
        "$5 = 1234567",
        f"$6 = -{number}",
        f"$7 = {number}",
    ):
        assert line in said, said
    # The thread whose turn it was is in the call that ended the epoch; main waits for both.
    assert re.search(r"fdatasync.*\n#1 .* step \(round=.*\) at .*program\.c", said), said
    assert re.search(r"#\d+ .* work \(mine=", said), said
    assert re.search(r"pthread_.*join.*\n(#.*\n)*?#\d+ .* main \(\) at .*program\.c", said), said


def assert_refused(ended: Ended, *said: str) -> None:
    assert ended.status == 2, ended
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    for word in said:
        assert word in ended.stderr, ended.stderr


def test_the_command_prints_what_the_package_says(
    kept: Kept, ends: dict[int, int], command: Command, tmp_path: Path
) -> None:
    travel = ("travel", kept.directory)
    listed = command(*travel, "epochs")
    assert listed.status == 0
    assert len(listed.stdout.splitlines()) > ends[ROUNDS]
    ended = command(*travel, "read", "counter", "--epoch", str(ends[9]), "--type", "i32")
    assert ended.stdout == "9\n0\n"
    assert f"written in epoch {ends[9]}" in ended.stderr
    raw = json.loads(command(*travel, "history", "counter", "--json", "-").stdout)
    assert raw["symbol"]["name"] == "counter"
    assert [1] in [version["values"] for version in raw["versions"]]
    shown = command(*travel, "history", "counter", "--changes").stdout
    assert re.search(rf"^\s*{ends[9]}\s+\d+\s+9\s*$", shown, re.MULTILINE), shown
    diff = command(*travel, "diff", str(ends[9]), str(ends[10])).stdout
    assert re.search(r"counter\s+9\s+10\s", diff), diff
    core = tmp_path / "core"
    dumped = command(*travel, "dump", str(ends[9]), core)
    assert dumped.status == 0, dumped.stderr
    assert "3 threads" in dumped.stdout
    assert core.read_bytes().startswith(b"\x7fELF")


def test_bad_questions(kept: Kept, command: Command, tmp_path: Path) -> None:
    travel = ("travel", kept.directory)
    assert_refused(command(*travel, "read", "countr"), "countr", "'counter'")
    assert_refused(command(*travel, "read", "counter", "-e", "9999"), "9999", "holds epochs 0 to")
    last = kept.store.epochs()[-1].epoch
    assert_refused(command(*travel, "read", "counter", "-e", str(last)), "no program lives")
    assert_refused(command(*travel, "read", "0x10"), "0x10", "not mapped")
    assert_refused(command(*travel, "read", "counter", "-t", "int"), "int", "i32")
    assert_refused(command(*travel, "read", "counter@libz.so"), "libz.so", "program")
    assert_refused(command(*travel, "diff", "1", "9999"), "9999")
    assert_refused(command(*travel, "dump", "3", tmp_path / "no" / "core"), "core")
    assert_refused(command("travel", tmp_path, "epochs"), "no snapshot store")
    assert_refused(command("travel", tmp_path / "nowhere", "epochs"), "nowhere")
    copy = tmp_path / "store"
    shutil.copytree(kept.directory, copy)
    archive = copy / "snapshots.nvm"
    content = archive.read_bytes()
    archive.write_bytes(content[:-100])
    ended = command("travel", copy, "epochs")
    assert_refused(ended, "snapshots.nvm", "cut short", str(len(content)))
    archive.write_bytes(content[:8] + b"\x09" + content[9:])
    assert_refused(command("travel", copy, "epochs"), "version 9", "version 1")
    # Of all pages that this reads, some.
    spoilt = bytearray(content)
    for at in range(5000, len(content) // 2, 20_000):
        spoilt[at] ^= 1
    archive.write_bytes(spoilt)
    refusals = 0
    for epoch in range(1, 40):
        right = kept.store.read("counter", epoch).value
        try:
            assert perdure.open_snapshots(copy).read("counter", epoch).value == right
        except PerdureError as refused:
            refusals += 1
            assert "damaged" in str(refused), refused
    assert refusals > 0


def test_two_processes_of_one_program_are_told_apart(tmp_path: Path) -> None:
    two = Kept(
        tmp_path,
        """
        #include <sys/wait.h>
        #include <unistd.h>
        volatile long mine = 1;
        int main(void) {
            int child = fork();
            mine = child ? 10 : 20;
            fdatasync(1);
            if (child) wait(0);
            return 0;
        }
        """,
        harts=2,
    )
    both = [epoch for epoch in two.store.epochs() if len(epoch.processes) == 2]
    assert both, "the child lived over the end of an epoch"
    epoch = both[-1]
    with pytest.raises(PerdureError, match=r"several processes.*--process"):
        two.store.read("mine", epoch.epoch)
    parent, child = epoch.processes
    values = [two.store.read("mine", epoch.epoch, process=one).value for one in (parent, child)]
    assert values[0] in (1, 10)
    assert values[1] in (1, 20)
    assert values != [1, 1]
    with pytest.raises(PerdureError, match="several processes"):
        two.store.dump(tmp_path / "core", epoch.epoch)
    two.store.dump(tmp_path / "core", epoch.epoch, process=child)


def test_a_symbol_that_two_files_keep_to_themselves_is_ambiguous(tmp_path: Path) -> None:
    (tmp_path / "other.c").write_text(
        "static volatile long hidden = 2; void other(void) { hidden++; }"
    )
    program = "static volatile long hidden = 1; void other(void); "
    program += (
        "#include <unistd.h>\nint main(void) { hidden += 10; other(); fdatasync(1); return 0; }"
    )
    program = program.replace("#include", "\n#include")
    one = Kept(tmp_path, program, str(tmp_path / "other.c"), harts=1)
    with pytest.raises(
        PerdureError, match=r"'hidden' is not unique: 0x\w+ in .*0x\w+ in"
    ) as refused:
        one.store.read("hidden")
    places = re.findall(r"0x\w+", str(refused.value))
    assert {one.store.read(place).value for place in places} == {11, 3}


def test_a_read_of_a_random_address_takes_less_than_a_millisecond(tmp_path: Path) -> None:
    """In a store of a thousand epochs; question and answer are JSON here, as they always are."""
    words = 1 << 16
    many = Kept(
        tmp_path,
        f"""
        #include <unistd.h>
        volatile unsigned long words[{words}];
        int main(void) {{
            unsigned long random = 88172645463325252;
            for (unsigned long round = 1; round <= 1000; round++) {{
                for (int i = 0; i < 100; i++) {{
                    random ^= random << 13; random ^= random >> 7; random ^= random << 17;
                    words[random % {words}] = round;
                }}
                fdatasync(1);
            }}
            return 0;
        }}
        """,
        harts=1,
    )
    state, mask = 88172645463325252, (1 << 64) - 1
    written: dict[int, list[int]] = {}
    for number in range(1, 1001):
        for _ in range(100):
            state ^= state << 13 & mask
            state ^= state >> 7
            state ^= state << 17 & mask
            written.setdefault(state % words, []).append(number)
    started = time.perf_counter()
    store = perdure.open_snapshots(many.directory)
    opened = time.perf_counter() - started
    epochs = store.epochs()
    assert len(epochs) >= 1000
    start = store.read("words", 1).address
    numbers = {
        version.epoch: version.value
        for version in store.history(start + 8 * max(written, key=lambda one: len(written[one])))
    }
    # The round that had ended when an epoch did.
    first = min(epoch for epoch, value in numbers.items() if value)
    offset = first - next(value for value in numbers.values() if value)  # type: ignore[operator]
    chance = random.Random(3)
    taken = []
    for _ in range(500):
        word, epoch = chance.randrange(words), chance.randrange(first, first + 900)
        started = time.perf_counter()
        value = store.read(start + 8 * word, epoch).value
        taken.append(time.perf_counter() - started)
        before = [number for number in written.get(word, []) if number + offset <= epoch]
        assert value == (before[-1] if before else 0), (word, epoch)
    print(
        f"\n{len(epochs)} epochs: opened in {opened * 1e3:.1f} ms; a random read takes "
        f"{statistics.median(taken) * 1e6:.0f} µs, at most {max(taken) * 1e6:.0f} µs"
    )
    # On a busy machine a few are interrupted; nine of ten must keep to it.
    assert statistics.quantiles(taken, n=10)[-1] < 1e-3


def test_an_unmodified_debian_program_with_its_symbols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    """Python names its version and its state in the dynamic symbols that Debian leaves it."""
    monkeypatch.chdir(tmp_path)
    machine = Machine(
        machine="nvoverlay",
        design="nvoverlay",
        harts=1,
        sysroot=root,
        set={"epoch.stores": 100_000},
    )
    script = "import sys, os; print(hex(sys.hexversion)); os.fdatasync(1)"
    python = root / "usr/bin/python3"
    result = machine.run(["/usr/bin/python3", "-I", "-S", "-c", script], snapshots="store")
    assert result.exit_code == 0
    assert python.exists()
    store = perdure.open_snapshots("store")
    assert len(store.epochs()) > 10
    version = int(store.read("Py_Version").value)
    assert version >> 24 == 3, hex(version)
    name = store.read("program_invocation_short_name@libc.so.6").value
    assert store.read(int(name), type="char[8]").value == "python3"
    initialized = [v.value for v in store.history("Py_IsInitialized+0", type="u32", count=1)]
    assert initialized
    threads = store.dump("core")["threads"]
    assert threads[0]["symbol"]


def test_an_interrupted_run_keeps_what_is_recoverable(
    command: Command, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compiled(
        "#include <unistd.h>\nvolatile long n;"
        "int main(void) { for (;;) { n++; if (n % 1000 == 0) fdatasync(1); } }"
    )
    words = ("--machine", "nvoverlay", "--design", "nvoverlay", "--harts", "1")
    store = tmp_path / "store"
    ended = command("run", *words, "--snapshots", store, "--stop-after", "300000", "--", program)
    assert ended.status == 0, ended.stderr
    opened = perdure.open_snapshots(store)
    newest = opened.epochs()[-1]
    assert newest.processes == [1]
    value = opened.read("n").value
    assert isinstance(value, int)
    assert value > 0
    assert value % 1000 == 0, "the newest epoch ends in fdatasync"

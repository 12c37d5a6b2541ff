"""The programs of workloads/strand, and the redo log of guest/wal.h that one of their back ends is.

Always true here: campaigns have the sizes of `tiny`; whether a pool is sound is said by the
program's own recovery and checker, at the next boot. Under qemu nothing is flushed: qemu-user has
none of the instructions for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from conftest import REPOSITORY, TIMES, Command, arguments_of, built, catalogue, seed, under_qemu

from perdure import CutReport, Machine, toolchain
from perdure.experiments.programs import UNSEEN

ENTRIES = catalogue("strand.toml")
arguments = arguments_of(ENTRIES)
SOURCES = REPOSITORY / "workloads/strand"
ACKNOWLEDGED = slice(512, 520)
"""Where a pool's head has how many operations the first thread acknowledged (`struct pool`)."""
SHARING = ("hash", "sdg", "sps", "ssca2")
"""Those whose threads write the same lines."""
MISTAKES = (
    "RECORD_BEFORE_ENTRIES",
    "RECORD_NOT_FLUSHED",
    "HOME_BEFORE_RECORD",
    "HOME_NOT_FLUSHED",
    "TRUNCATED_BEFORE_HOME",
    "TRUNCATION_NOT_FLUSHED",
    "UNCOMMITTED_APPLIED",
    "COMMITTED_DROPPED",
)
"""Of `enum wal_mistake`."""


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built programs."""
    return built("strand") / "strand"


@pytest.mark.parametrize("name", sorted(ENTRIES))
@pytest.mark.parametrize("threads", ["1", "4"])
def test_what_is_there_in_the_end_does_not_depend_on_the_back_end(
    name: str, threads: str, programs: Path, tmp_path: Path
) -> None:
    said = set()
    for back_end in ("none", "wal"):
        words: list[str | Path] = [programs / name, tmp_path / back_end, "--anywhere"]
        words += ["--primitive", "none", "--elements", "1000", "--operations", "1500"]
        words += ["--back-end", back_end, "--threads", threads]
        done = under_qemu(words)
        assert (done.returncode, done.stderr) == (0, "")
        said.add(done.stdout)
        again = under_qemu(words)
        assert again.returncode == 0
        recovered, *rest = again.stdout.splitlines(keepends=True)
        assert "0 of them behind a missing one" in recovered
        assert "".join(rest) == done.stdout, "there was nothing left to do"
    assert len(said) == 1
    assert "checksum" in said.pop()


@pytest.mark.parametrize("name", sorted(ENTRIES))
@pytest.mark.parametrize("back_end", ["none", "wal"])
def test_nor_on_how_many_operations_a_transaction_has(
    name: str, back_end: str, programs: Path, tmp_path: Path
) -> None:
    said = set()
    for number in ("1", "7", "64"):
        words: list[str | Path] = [programs / name, tmp_path / number, "--anywhere", "--drain"]
        words += ["--primitive", "none", "--elements", "1000", "--operations", "1500"]
        done = under_qemu([*words, "--back-end", back_end, "--per-strand", number])
        assert (done.returncode, done.stderr) == (0, "")
        said.add(done.stdout)
    assert len(said) == 1


@pytest.mark.parametrize("name", sorted(ENTRIES))
@pytest.mark.parametrize(("design", "back_end"), [("ideal", "wal"), ("spms", "strand")])
def test_what_is_said_to_show_in_no_pool_shows_in_none(
    name: str, design: str, back_end: str, programs: Path, tmp_path: Path
) -> None:
    """Points that differ in nothing else begin with the same pool."""
    more = [word for option, count in UNSEEN.items() for word in (option, *["4"] * count)]
    made = []
    for folder, words in ((tmp_path / "plain", []), (tmp_path / "more", more)):
        machine = Machine(machine="spms", design=design, pmem=folder)
        command: list[str | Path] = [programs / name, *arguments(name), "--back-end", back_end]
        assert machine.run([*command, *words, "--make"]).exit_code == 0
        made.append((folder / name).read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_damaged_pool_is_found(name: str, programs: Path, tmp_path: Path) -> None:
    words: list[str | Path] = [programs / name, tmp_path / "pool", "--anywhere"]
    assert under_qemu([*words, "--elements", "500", "--operations", "300"]).returncode == 0
    whole = (tmp_path / "pool").read_bytes()
    damaged = bytearray(whole)
    # A bit of the first word of every line behind the pool's head, of which most are in use.
    for line in range(4096, len(damaged), 64):
        damaged[line] ^= 1
    (tmp_path / "pool").write_bytes(damaged)
    found = under_qemu([*words, "--recover"])
    assert found.returncode == 1
    assert "WRONG" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    (tmp_path / "pool").write_bytes(whole)
    assert under_qemu([*words, "--recover"]).returncode == 0


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_what_recovery_finds_beyond_what_was_acknowledged_is_acknowledged(
    name: str, programs: Path, tmp_path: Path
) -> None:
    """Otherwise a second cut would find more than one operation that nobody was told of."""
    machine = Machine(machine="x86-pm", design="ideal", pmem=tmp_path)
    words: list[str | Path] = [programs / name, "/pmem/pool", *arguments(name)[1:]]
    words += ["--back-end", "wal"]
    assert machine.run(words).exit_code == 0
    pool = tmp_path / "pool"
    whole = pool.read_bytes()[:4096]
    told = int.from_bytes(whole[ACKNOWLEDGED], "little")
    assert told >= 100
    with pool.open("r+b") as file:
        file.seek(ACKNOWLEDGED.start)
        file.write((told - 1).to_bytes(8, "little"))
    assert machine.run(words).exit_code == 0
    assert pool.read_bytes()[:4096] == whole


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_the_machine_runs_it_as_qemu_does(
    name: str, programs: Path, tmp_path: Path, command: Command
) -> None:
    more = ["--back-end", "wal", "--threads", "4"]
    made = command(
        *("run", "--machine", "x86-pm", "--set", "harts=4", "--design", "ideal"),
        *("--pmem", tmp_path, "--", programs / name, *arguments(name), *more),
    )
    assert made.status == 0, made.stderr
    more += ["--primitive", "none", "--anywhere"]
    reference = under_qemu([programs / name, tmp_path / "pool", *arguments(name)[1:-2], *more])
    assert reference.stdout and reference.stdout in made.stdout


def cuts_of(
    program: Path,
    folder: Path,
    *more: str,
    cuts: int,
    schedule: Literal["random", "near-events"] = "random",
    during_recovery: bool = False,
    harts: int = 1,
) -> CutReport:
    """Cuts of the operations: the pool is made before."""
    overrides = {"persistence.domain": "adr", "harts": str(harts)}
    machine = Machine(machine="x86-pm", design="ideal", set=overrides, pmem=folder)
    words: list[str | Path] = [program, *arguments(program.name), *more]
    assert machine.run([*words, "--make"]).exit_code == 0
    return machine.cut(
        words,
        cuts=cuts * TIMES,
        seed=seed(5),
        schedule=schedule,
        during_recovery=during_recovery,
        restart=True,
    )


def messages(report: CutReport) -> list[tuple[str, str]]:
    """What went wrong, with the cuts' tokens."""
    return [(cut.raw["message"], cut.token) for cut in report.failures]


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_logged_operation_survives_every_cut_whole(
    name: str, programs: Path, tmp_path: Path
) -> None:
    report = cuts_of(programs / name, tmp_path, "--back-end", "wal", cuts=10)
    assert messages(report) == []
    assert report.verified == report.cuts


@pytest.mark.parametrize("name", SHARING)
def test_so_do_those_of_threads_that_write_the_same_lines(
    name: str, programs: Path, tmp_path: Path
) -> None:
    more = ("--back-end", "wal", "--threads", "4", "--primitive", "clflushopt")
    report = cuts_of(programs / name, tmp_path, *more, cuts=6, schedule="near-events", harts=4)
    assert messages(report) == []


def test_recovery_of_the_log_may_itself_be_cut(programs: Path, tmp_path: Path) -> None:
    more = ("--back-end", "wal", "--operations", "40", "--elements", "100")
    report = cuts_of(programs / "btree", tmp_path, *more, cuts=6, during_recovery=True)
    assert messages(report) == []


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_without_a_log_what_was_acknowledged_is_lost(
    name: str, programs: Path, tmp_path: Path
) -> None:
    report = cuts_of(programs / name, tmp_path, "--back-end", "none", cuts=12)
    # The others struck before anything was acknowledged.
    assert report.failed >= report.cuts // 4
    assert all("WRONG" in cut.last_lines[-1] for cut in report.failures)


SMALL_CACHES = {"l2.bytes": "65536", "llc.bytes_per_hart": "131072"}


@pytest.mark.parametrize("harts", [1, 4])
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_under_spms_each_strand_group_is_whole_or_not_there(
    name: str, harts: int, programs: Path, tmp_path: Path
) -> None:
    """Whether the program can go on from there is another question."""
    overrides = {"harts": str(harts), **SMALL_CACHES}
    machine = Machine(machine="spms", design="spms", set=overrides, pmem=tmp_path)
    words: list[str | Path] = [programs / name, *arguments(name), "--back-end", "strand"]
    words += ["--threads", str(harts)]
    assert machine.run([*words, "--make"]).exit_code == 0
    report = machine.cut(words, cuts=20 * TIMES, seed=seed(6), during_recovery=True)
    assert messages(report) == []
    assert report.verified == report.cuts


@pytest.mark.parametrize("harts", [1, 4])
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_under_hlog_each_wrap_is_whole_or_not_there_and_the_program_goes_on(
    name: str, harts: int, programs: Path, tmp_path: Path
) -> None:
    overrides = {"harts": str(harts), **SMALL_CACHES}
    machine = Machine(machine="spms", design="hlog", set=overrides, pmem=tmp_path)
    words: list[str | Path] = [programs / name, *arguments(name), "--back-end", "hlog"]
    words += ["--threads", str(harts)]
    assert machine.run([*words, "--make"]).exit_code == 0
    report = machine.cut(
        words,
        cuts=15 * TIMES,
        seed=seed(7),
        during_recovery=True,
        restart=True,
        then=[*words, "--recover"],
    )
    assert messages(report) == []
    assert report.verified == report.cuts


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_log_is_caught(mistake: str, tmp_path: Path) -> None:
    compiler = toolchain.installed()
    assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
    flags = ("-std=c11", "-D_GNU_SOURCE", f"-DWAL_MISTAKE=WAL_{mistake}")
    program = compiler.build(SOURCES / "rbtree.c", tmp_path / "rbtree", flags)
    (tmp_path / "pools").mkdir()
    more = ("--back-end", "wal", "--operations", "60", "--elements", "60")
    report = cuts_of(program, tmp_path / "pools", *more, cuts=25, schedule="near-events")
    assert report.failed > 0
    assert all("WRONG" in cut.last_lines[-1] for cut in report.failures)


def test_every_mistake_is_looked_for() -> None:
    header = (REPOSITORY / "guest/wal.h").read_text()
    listed = header.partition("enum wal_mistake {")[2].partition("}")[0]
    names = [line.split(",")[0].split()[0] for line in listed.splitlines() if "WAL_" in line]
    assert names == ["WAL_CORRECT", *(f"WAL_{one}" for one in MISTAKES)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "needs the path of its pool"),
        (["p"], "a pool lies below /pmem"),
        (["q", "--back-end", "undo"], '--back-end cannot be "undo"'),
        (["q", "--threads", "5"], "--threads is"),
        (["q", "--threads", "0"], "--threads is 0"),
        (
            ["q", "--back-end", "wal", "--threads", "2", "--per-strand", "2"],
            "--per-strand with the back end wal is for one thread",
        ),
        (["q", "--per-strand", "65"], "--per-strand is"),
        (["q", "--operations", "2002", "--elements", "1000"], "--operations deletes more"),
        (["q", "--element", "10"], 'takes no "--element"'),
        (["x"], "is no pool"),
        (["y"], "a pool of another program"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(
    words: list[str], says: str, programs: Path, tmp_path: Path
) -> None:
    meant = {"p": [str(tmp_path / "p")]} | {
        name: [str(tmp_path / name), "--anywhere"] for name in "qxy"
    }
    (tmp_path / "x").write_text("something else")
    if words == ["y"]:
        under_qemu([programs / "sps", *meant["y"], "--make"])
    ended = under_qemu([programs / "hash", *[word for w in words for word in meant.get(w, [w])]])
    assert ended.returncode == 2
    assert says in ended.stderr.splitlines()[-1]

"""The programs of workloads/nearpm, and the transactions of guest/libnearpm that they are made of.

Always true here: campaigns have about the sizes of `tiny`; whether a pool is sound is said by the
program's own recovery and checker, at the next boot, and under devices by their design's oracle as
well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from conftest import REPOSITORY, TIMES, RunGuest, arguments_of, built, catalogue, seed, under_qemu

from perdure import CutReport, Machine, toolchain

ENTRIES = catalogue("nearpm.toml")
arguments = arguments_of(ENTRIES)
SOURCES = REPOSITORY / "workloads/nearpm"
STRUCTURES = ("btree", "rbtree", "skiplist", "hashmap", "tpcc", "tatp")
THREADS = [(name, threads) for name in STRUCTURES for threads in (1, 4)]
"""Programs, and by how many threads they run: of servers, so many clients as well."""
THREADS += [("memcached", 2), ("redis", 2), ("pmemkv", 4)]
Mistaken = Callable[[str, str], Path]
MECHANISMS = ("undo", "redo", "checkpoint", "shadow")


@dataclass(frozen=True)
class Configuration:
    """Who does a mechanism's work: the design, what the machine is told, what the program is."""

    design: str
    machine: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ()


CONFIGURATIONS = {
    "cpu": Configuration("ideal"),
    "delayed": Configuration("nearpm", program=("--configuration", "nearpm")),
    "software": Configuration(
        "nearpm",
        {"nearpm.sync": "software"},
        ("--configuration", "nearpm", "--sync", "software"),
    ),
}


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built programs."""
    return built("nearpm") / "nearpm"


# ---- Without a cut ---------------------------------------------------------------------------


def last_line(text: str) -> str:
    """What a program says of all that is there."""
    return text.splitlines()[-1]


@pytest.mark.parametrize(("name", "threads"), THREADS)
def test_what_is_there_in_the_end_depends_on_nothing_else(
    name: str, threads: int, programs: Path, tmp_path: Path, run_guest: RunGuest
) -> None:
    """Neither on the mechanism, nor on who does its work, nor on who came first."""
    options = [*arguments(name)[1:], "--threads", str(threads)]
    said = set()
    for index, mechanism in enumerate(MECHANISMS):
        words = [*options, "--mechanism", mechanism]
        pool = tmp_path / mechanism
        # qemu-user has none of the instructions that flush, and acknowledging takes them.
        reference = under_qemu(
            [
                programs / name,
                pool,
                *words,
                "--acknowledge",
                "0",
                "--anywhere",
                "--primitive",
                "none",
            ]
        )
        assert (reference.returncode, reference.stderr) == (0, "")
        said.add(last_line(reference.stdout))
        for configuration in ("cpu", ("delayed", "software")[(index + threads // 4) % 2]):
            chosen = CONFIGURATIONS[configuration]
            machine = Machine(
                machine="nearpm",
                design=chosen.design,
                set={"harts": str(threads), **chosen.machine},
                pmem=tmp_path / f"{mechanism}-{configuration}",
            )
            run = run_guest(machine, [programs / name, "/pmem/pool", *words, *chosen.program])
            assert run.result.exit_code == 0
            said.add(last_line(run.stdout.decode()))
    assert len(said) == 1
    assert "checksum" in said.pop()


@pytest.mark.parametrize("configuration", ["cpu", "delayed"])
def test_copies_are_whole(
    configuration: str, programs: Path, tmp_path: Path, run_guest: RunGuest
) -> None:
    chosen = CONFIGURATIONS[configuration]
    machine = Machine(machine="nearpm", design=chosen.design, pmem=tmp_path / "pools")
    run = run_guest(machine, [programs / "copy", *arguments("copy"), *chosen.program])
    assert run.result.exit_code == 0
    assert last_line(run.stdout.decode()) == "copy: 50 copies are whole"


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_damaged_pool_is_found(name: str, programs: Path, tmp_path: Path) -> None:
    words: list[str | Path] = [programs / name, tmp_path / "pool", "--anywhere"]
    words += ["--primitive", "none"]
    assert under_qemu([*words, "--operations", "60", "--elements", "100"]).returncode == 0
    whole = (tmp_path / "pool").read_bytes()
    damaged = bytearray(whole)
    # A bit of the first word of every line behind the pool's head, of which many are in use.
    for line in range(4096, len(damaged), 64):
        damaged[line] ^= 1
    (tmp_path / "pool").write_bytes(damaged)
    found = under_qemu([*words, "--recover"])
    assert found.returncode == 1
    assert "WRONG" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    (tmp_path / "pool").write_bytes(whole)
    assert under_qemu([*words, "--recover"]).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "needs the path of its pool"),
        (["p"], "a pool lies below /pmem"),
        (["q", "--mechanism", "journal"], '--mechanism cannot be "journal"'),
        (["q", "--threads", "17"], "--threads is"),
        (["q", "--threads", "0"], "--threads is 0"),
        (["q", "--configuration", "nearpm"], "cannot use the device"),
        (["q", "--operation", "10"], 'takes no "--operation"'),
        (["x"], "is no pool"),
        (["y"], "a pool of another program"),
        (["z"], "another plan"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(
    words: list[str], says: str, programs: Path, tmp_path: Path
) -> None:
    meant = {"p": [str(tmp_path / "p")]} | {
        name: [str(tmp_path / name), "--anywhere"] for name in "qxyz"
    }
    (tmp_path / "x").write_text("something else")
    if words == ["y"]:
        under_qemu([programs / "rbtree", *meant["y"], "--make"])
    if words == ["z"]:
        under_qemu([programs / "hashmap", *meant["z"], "--make", "--seed", "2"])
    ended = under_qemu([programs / "hashmap", *[word for w in words for word in meant.get(w, [w])]])
    assert ended.returncode == 2
    assert says in ended.stderr.splitlines()[-1]


# ---- Cuts ------------------------------------------------------------------------------------

Schedule = Literal["random", "near-events"]


def cuts_of(
    command: list[str | Path],
    folder: Path,
    design: str,
    overrides: Mapping[str, str],
    *,
    cuts: int,
    schedule: Schedule = "random",
    during_recovery: bool = False,
    recovers_alone: bool = False,
) -> CutReport:
    """Cuts of the operations: the pool is made before."""
    machine = Machine(machine="nearpm", design=design, set=overrides, pmem=folder)
    assert machine.run([*command, "--make"]).exit_code == 0
    return machine.cut(
        command,
        cuts=cuts * TIMES,
        seed=seed(5),
        schedule=schedule,
        during_recovery=during_recovery,
        restart=True,
        then=[*command[:2], "--recover"] if recovers_alone else [],
    )


def messages(report: CutReport) -> list[tuple[str, str]]:
    """What went wrong, with the cuts' tokens."""
    return [(cut.raw["message"], cut.token) for cut in report.failures]


@pytest.mark.parametrize(
    ("name", "mechanism", "configuration", "threads", "during_recovery"),
    [
        ("btree", "undo", "cpu", 1, True),
        ("btree", "checkpoint", "delayed", 4, False),
        ("rbtree", "redo", "cpu", 4, False),
        ("rbtree", "undo", "delayed", 1, True),
        ("skiplist", "checkpoint", "cpu", 1, False),
        ("skiplist", "shadow", "delayed", 4, True),
        ("hashmap", "redo", "delayed", 1, True),
        ("hashmap", "undo", "software", 4, False),
        ("tpcc", "shadow", "cpu", 4, True),
        ("tpcc", "redo", "software", 4, False),
        ("tatp", "checkpoint", "software", 1, True),
        ("tatp", "shadow", "software", 1, False),
        ("memcached", "undo", "delayed", 2, False),
        ("memcached", "checkpoint", "software", 1, True),
        ("redis", "redo", "delayed", 2, True),
        ("redis", "shadow", "cpu", 1, False),
        ("pmemkv", "shadow", "delayed", 1, False),
        ("pmemkv", "checkpoint", "delayed", 4, True),
    ],
)
def test_every_transaction_survives_every_cut_whole(
    name: str,
    mechanism: str,
    configuration: str,
    threads: int,
    during_recovery: bool,
    programs: Path,
    tmp_path: Path,
) -> None:
    """Each mechanism in each configuration, and each program, by one thread or four."""
    chosen = CONFIGURATIONS[configuration]
    words: list[str | Path] = [programs / name, *arguments(name), "--threads", str(threads)]
    words += ["--operations", "40", "--mechanism", mechanism, *chosen.program]
    overrides = {"harts": str(threads), **chosen.machine}
    cuts = 6 if during_recovery else 12
    report = cuts_of(
        words, tmp_path, chosen.design, overrides, cuts=cuts, during_recovery=during_recovery
    )
    assert messages(report) == []
    assert report.verified == report.cuts


@pytest.mark.parametrize("name", ["hashmap", "copy"])
def test_a_pool_whose_making_was_cut_short_is_made_again(
    name: str, programs: Path, tmp_path: Path
) -> None:
    """Side by side: devices take no other."""
    machine = Machine(machine="nearpm", design="nearpm", pmem=tmp_path)
    words: list[str | Path] = [programs / name, *arguments(name), "--configuration", "nearpm"]
    report = machine.cut(words, cuts=15 * TIMES, seed=seed(5), restart=True)
    assert messages(report) == []


@pytest.mark.parametrize("configuration", ["cpu", "delayed"])
def test_a_copy_that_was_acknowledged_survives(
    configuration: str, programs: Path, tmp_path: Path
) -> None:
    chosen = CONFIGURATIONS[configuration]
    words: list[str | Path] = [programs / "copy", *arguments("copy"), *chosen.program]
    report = cuts_of(words, tmp_path, chosen.design, chosen.machine, cuts=12)
    assert messages(report) == []
    assert report.verified == report.cuts


# ---- Devices that are unlike, and mistakes ---------------------------------------------------

FAR = {"module.nearpm-1.link.latency_ns": "3000"}
"""What is sent to both devices comes to the second one microseconds later than to the first."""
FINE = FAR | {
    "nvm.row_bytes": "64",
    "module.nearpm-0.interleaving_bytes": "64",
    "module.nearpm-1.interleaving_bytes": "64",
}
"""The same, and of two lines each is on another module. Devices do not take granules so small."""
THIN = {f"module.nearpm-{module}.link.frequency_mhz": "20" for module in (0, 1)}
"""A line takes as long on its link as hundreds of instructions."""
OPERATIONS = ("--operations", "100", "--acknowledge", "1", "--no-check")
ORDERS = ("--operations", "60", "--elements", "1500", "--acknowledge", "1", "--no-check")
"""Transactions of many pages, whose places in the table of shadow paging are on several lines."""


@dataclass(frozen=True)
class Hunt:
    """A campaign: a mechanism's program and a machine on which mistakes in it show."""

    mechanism: str
    configuration: str
    machine: Mapping[str, str]
    name: str = "hashmap"
    options: tuple[str, ...] = OPERATIONS
    schedule: Schedule = "random"
    cuts: int = 40

    def report(self, program: Path, folder: Path, cuts: int = 0) -> CutReport:
        """Makes the cuts, after each of which the program recovers and checks."""
        chosen = CONFIGURATIONS[self.configuration]
        words: list[str | Path] = [program, "/pmem/pool", *self.options]
        words += ["--mechanism", self.mechanism, *chosen.program]
        overrides = {**self.machine, **chosen.machine}
        return cuts_of(
            words,
            folder,
            chosen.design,
            overrides,
            cuts=cuts or self.cuts,
            schedule=self.schedule,
            recovers_alone=True,
        )


HUNTS = {
    f"{mechanism}-cpu": Hunt(mechanism, "cpu", FINE) for mechanism in ("undo", "redo", "checkpoint")
}
HUNTS["undo-delayed"] = Hunt("undo", "delayed", FAR)
HUNTS["redo-delayed"] = Hunt("redo", "delayed", FAR, cuts=80)
HUNTS["checkpoint-delayed"] = Hunt("checkpoint", "delayed", FAR, schedule="near-events")
HUNTS["redo-software"] = Hunt("redo", "software", FAR)
# Four threads have so many pages that a transaction's places in the table are on two lines.
HUNTS["shadow-cpu"] = Hunt(
    "shadow",
    "cpu",
    {**FINE, "harts": "4"},
    options=(*OPERATIONS, "--threads", "4"),
    schedule="near-events",
)
HUNTS["shadow-delayed"] = Hunt("shadow", "delayed", THIN, "tpcc", ORDERS, "near-events", 80)
for _mechanism in ("undo", "checkpoint"):
    # The devices have the end of a transaction, and its last lines are on the way.
    HUNTS[f"{_mechanism}-thin"] = Hunt(_mechanism, "delayed", THIN, "tpcc", ORDERS, "near-events")

MISTAKES = {
    "ENTRY_NOT_PERSISTED": ("undo-cpu", "checkpoint-cpu"),
    "HEADER_BEFORE_DATA": ("undo-cpu", "checkpoint-cpu"),
    "HOME_NOT_PERSISTED": (
        *("undo-cpu", "redo-cpu", "checkpoint-cpu"),
        *("undo-delayed", "checkpoint-delayed"),
    ),
    "DELETED_BEFORE_HOME": (
        *("undo-cpu", "redo-cpu", "checkpoint-cpu"),
        *("undo-thin", "checkpoint-thin"),
    ),
    "HOME_BEFORE_RECORD": ("redo-cpu", "redo-delayed"),
    "SWITCH_NOT_PERSISTED": ("shadow-cpu", "shadow-delayed"),
    "SHADOW_NOT_PERSISTED": ("shadow-cpu", "shadow-delayed"),
    "OLD_PAGE_REUSED": ("shadow-cpu", "shadow-delayed"),
    "NOT_ROLLED_BACK": ("undo-cpu", "checkpoint-cpu", "undo-delayed", "checkpoint-delayed"),
    "NOT_REDONE": ("redo-cpu", "redo-delayed", "shadow-cpu", "shadow-delayed"),
    "TOLD_TOO_EARLY": (
        *("undo-cpu", "redo-cpu", "checkpoint-cpu"),
        *("undo-delayed", "checkpoint-delayed"),
    ),
    "OPERAND_NOT_WRITTEN_BACK": ("redo-cpu",),
    "COMMIT_WITHOUT_WAIT": ("redo-software",),
}
"""Of `enum np_mistake`, with the campaigns that find them."""
OFTEN = ("HOME_NOT_PERSISTED", "SHADOW_NOT_PERSISTED", "OLD_PAGE_REUSED")
"""Those that show after almost every cut."""
OFTEN_CUTS = 12
AT_ONCE = {"OPERAND_NOT_WRITTEN_BACK": ("redo",), "STALE_COPY": ("redo", "shadow")}
"""Those that on devices need no cut to be found."""


@pytest.fixture(scope="session")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Compiles a program whose library makes a mistake."""
    compiler = toolchain.installed()
    assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
    folder = tmp_path_factory.mktemp("mistakes")

    def build(name: str, mistake: str) -> Path:
        flags = ("-O1", "-std=c11", "-D_GNU_SOURCE", f"-DNP_MISTAKE=NP_{mistake}")
        program = folder / mistake / name
        return (
            program if program.exists() else compiler.build(SOURCES / f"{name}.c", program, flags)
        )

    return build


@pytest.mark.parametrize("hunt", sorted(HUNTS))
def test_the_library_without_a_mistake_is_not_accused(
    hunt: str, programs: Path, tmp_path: Path
) -> None:
    report = HUNTS[hunt].report(programs / HUNTS[hunt].name, tmp_path)
    assert messages(report) == []
    assert report.verified == report.cuts


@pytest.mark.parametrize("mechanism", ["undo", "checkpoint"])
def test_devices_that_do_not_synchronise_leave_half_a_transaction(
    mechanism: str, programs: Path, tmp_path: Path
) -> None:
    """One has deleted its log, and the other has not heard that it should.

    The same cuts of devices that synchronise are above.
    """
    clean = HUNTS[f"{mechanism}-delayed"]
    hunt = replace(clean, machine={**clean.machine, "nearpm.sync": "none"})
    report = hunt.report(programs / "hashmap", tmp_path)
    assert report.failed > 0
    assert {cut.verdict for cut in report.failures} == {"restart-failed"}
    assert all("WRONG: a table of" in cut.last_lines[-1] for cut in report.failures)


def test_a_redo_log_needs_no_devices_that_synchronise(programs: Path, tmp_path: Path) -> None:
    """What one device alone has ended is done again on both."""
    hunt = Hunt("redo", "delayed", {**FAR, "nearpm.sync": "none"})
    assert messages(hunt.report(programs / "hashmap", tmp_path)) == []


@pytest.mark.parametrize(
    ("mistake", "hunt"), [(mistake, hunt) for mistake, all_ in MISTAKES.items() for hunt in all_]
)
def test_a_mistake_of_the_library_is_caught(
    mistake: str, hunt: str, mistaken: Mistaken, tmp_path: Path
) -> None:
    program = mistaken(HUNTS[hunt].name, mistake)
    cuts = OFTEN_CUTS if mistake in OFTEN else HUNTS[hunt].cuts
    # A quarter of the cuts shows most of them; where it does not, all are made.
    for share in (cuts // 4, cuts):
        (folder := tmp_path / str(share)).mkdir()
        report = HUNTS[hunt].report(program, folder, share)
        if report.failed > 0:
            break
    assert report.failed > 0
    assert all("WRONG" in cut.last_lines[-1] for cut in report.failures)


@pytest.mark.parametrize(
    ("mistake", "mechanism"), [(mistake, one) for mistake, all_ in AT_ONCE.items() for one in all_]
)
def test_devices_that_work_on_other_bytes_than_the_processor_are_found_at_once(
    mistake: str, mechanism: str, mistaken: Mistaken, tmp_path: Path, run_guest: RunGuest
) -> None:
    program = mistaken("hashmap", mistake)
    machine = Machine(machine="nearpm", design="nearpm", pmem=tmp_path / "pools")
    words = [program, *arguments("hashmap"), "--mechanism", mechanism, "--configuration", "nearpm"]
    assert run_guest(machine, words).result.exit_code == 1


@pytest.mark.parametrize(
    ("mistake", "hunt"),
    [
        # What is told, or recorded, comes by the same links as the commands.
        ("TOLD_TOO_EARLY", Hunt("undo", "delayed", {})),
        # It is committed by its record, before there are commands.
        ("TOLD_TOO_EARLY", Hunt("redo", "delayed", FAR)),
        # The fence behind the homes comes behind the commands, too.
        ("COMMIT_WITHOUT_WAIT", Hunt("undo", "software", FAR)),
        # So does a load from a page that is being copied.
        ("COMMIT_WITHOUT_WAIT", Hunt("shadow", "software", FAR)),
    ],
    ids=["alike", "redo", "undo", "shadow"],
)
def test_where_commands_are_taken_before_anyway_nobody_need_wait(
    mistake: str, hunt: Hunt, mistaken: Mistaken, tmp_path: Path
) -> None:
    report = hunt.report(mistaken("hashmap", mistake), tmp_path)
    assert messages(report) == []


def test_every_mistake_is_looked_for() -> None:
    header = (SOURCES.parents[1] / "guest/libnearpm/nearpm_pool.h").read_text()
    listed = header.partition("enum np_mistake {")[2].partition("}")[0]
    names = [line.split()[0].rstrip(",") for line in listed.splitlines() if " NP_" in line]
    assert sorted(names) == sorted({"NP_CORRECT", *(f"NP_{one}" for one in {*MISTAKES, *AT_ONCE})})

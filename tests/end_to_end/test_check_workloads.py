"""The programs of workloads/check: correct ones survive cuts, and every planted bug has its place.

Always true here: campaigns have the sizes of `tiny`; what a program holds is compared with a model
of its operations that knows nothing of the program.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import REPOSITORY, TIMES, RunGuest, arguments_of, built, catalogue, seed

from perdure import CutReport, Machine, check_page, checking
from perdure.check_results import Check, Moment
from perdure.source_excerpts import Sources

ENTRIES = catalogue("check.toml")
NAMES = sorted(ENTRIES)
arguments = arguments_of(ENTRIES)
SOURCES = REPOSITORY / "workloads/check"
CUTS = 10 * TIMES
KEYS = {"hash-extendible": 64, "hash-level": 44, "list-lock-free": 6}
"""How many keys a program has, if not 24."""
THREADS = {"list-lock-free": 2}
ORDER_KINDS = {"missing-flush", "missing-fence", "wrong-line", "log-header-not-flushed"}
"""Where something is missing: then the store whose order is lost is marked, too."""
KINDS = {
    *ORDER_KINDS,
    "wrong-order",
    "non-atomic-change",
    "torn-update",
    "recovery-not-idempotent",
    "leak",
    "read-not-durable",
    "aba-after-recovery",
    "not-logged",
    "semantic",
}


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built programs."""
    return built("check") / "check"


def machine(name: str, pools: Path) -> Machine:
    """One hart for each thread."""
    return Machine(machine="x86-pm", design="ideal", pmem=pools, harts=THREADS.get(name, 1))


def command_of(name: str, programs: Path, *more: str) -> list[str | Path]:
    """A program, its pool, and what follows."""
    return [programs / name, arguments(name)[0], *more]


# ---- What must hold of the sources ------------------------------------------------------------


def source_of(name: str) -> str:
    """A program's text, with that of its library."""
    text = next(SOURCES.glob(f"{name}.c*")).read_text("utf-8")
    libraries = re.findall(r'#include "((?:un|re)do\.h)"', text)
    return text + "".join((SOURCES / one).read_text("utf-8") for one in libraries)


def marked(text: str, what: str) -> Counter[str]:
    """Names in comments `what: name, name`."""
    found = re.findall(rf"(?:/\*|//) {what}: ([\w, -]*\w)", text)
    return Counter(name for names in found for name in names.split(", "))


def listed(name: str, programs: Path, run_guest: RunGuest, pools: Path) -> dict[str, str]:
    """The kind of each bug, as the program tells."""
    ran = run_guest(machine(name, pools), [programs / name, "--bugs"])
    rows = [line.split("\t") for line in ran.stdout.decode().splitlines()]
    assert all(what for _, _, what in rows)
    return {bug: kind for bug, kind, _ in rows}


def test_each_bug_has_a_kind_and_marks_its_place(
    programs: Path, run_guest: RunGuest, tmp_path: Path
) -> None:
    kinds: Counter[str] = Counter()
    for name in NAMES:
        bugs = listed(name, programs, run_guest, tmp_path / "pools")
        kinds.update(bugs.values())
        text = source_of(name)
        assert len(bugs) >= 5, name
        assert marked(text, "bug") == dict.fromkeys(bugs, 1), name
        stores = marked(text, "store")
        assert set(stores) <= set(bugs), name
        ordered = {bug for bug, kind in bugs.items() if kind in ORDER_KINDS}
        assert ordered - set(stores) == set(), name
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 2, kinds


# ---- A model of the operations ----------------------------------------------------------------

MASK = (1 << 64) - 1


def mix(number: int) -> int:
    """The last steps of SplitMix64."""
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & MASK
    return number ^ number >> 31


def contents(count: int, of_seed: int, keys: int, threads: int) -> dict[int, int]:
    """What is there after all operations: half of them put, three of ten erase, the rest get."""
    held: dict[int, int] = {}
    for i in range(count):
        draw = mix((mix(of_seed + 1) + i) & MASK)
        key = draw % (keys // threads * threads)
        own = 1 + key - key % threads + i % threads
        if (draw >> 32) % 10 < 5:
            held[own] = i + 1
        elif (draw >> 32) % 10 < 8:
            held.pop(own, None)
    return held


def queued(count: int, of_seed: int, capacity: int) -> dict[int, int]:
    """The same of the queue, whose keys say which of all elements one is."""
    held: dict[int, int] = {}
    last = 0
    for i in range(count):
        draw = mix((mix(of_seed + 1) + i) & MASK) >> 32
        grows = not held or (len(held) < capacity and draw % 16 < 8)
        if draw % 8 == 7 and held:
            continue
        if grows:
            last += 1
            held[last] = i + 1
        else:
            del held[min(held)]
    return held


@pytest.mark.parametrize("name", NAMES)
def test_an_uncut_run_leaves_what_the_model_says(
    name: str, programs: Path, run_guest: RunGuest, tmp_path: Path
) -> None:
    count = 300
    for of_seed in (1, 2):
        pools = tmp_path / f"pools-{of_seed}"
        more = ("--operations", str(count), "--seed", str(of_seed))
        ran = run_guest(machine(name, pools), command_of(name, programs, *more))
        assert ran.result.exit_code == 0
        dump = run_guest(machine(name, pools), command_of(name, programs, "--dump"))
        held = (
            queued(count, of_seed, 32)
            if name == "queue"
            else contents(count, of_seed, KEYS.get(name, 24), THREADS.get(name, 1))
        )
        shown = "".join(f"{key} {value}\n" for key, value in sorted(held.items()))
        assert (dump.result.exit_code, dump.stdout.decode()) == (0, shown)


# ---- Cuts -------------------------------------------------------------------------------------


def cuts_of(
    name: str,
    programs: Path,
    pools: Path,
    *more: str,
    cuts: int = CUTS,
    goes_on: bool = False,
) -> CutReport:
    """Cuts of a whole run, the making of its pool included; then it recovers alone, or goes on."""
    words = command_of(name, programs, *arguments(name)[1:], *more)
    then: list[str | Path] = [] if goes_on else command_of(name, programs, "--recover")
    cut = machine(name, pools).cut
    return cut(words, cuts=cuts, seed=seed(3), restart=True, then=then)


@pytest.mark.parametrize("name", NAMES)
def test_a_correct_program_survives_every_cut_and_goes_on(
    name: str, programs: Path, tmp_path: Path
) -> None:
    once = cuts_of(name, programs, tmp_path / "once")
    assert [(cut.raw["message"], cut.token) for cut in once.failures] == []
    lives = cuts_of(name, programs, tmp_path / "lives", goes_on=True)
    assert [(cut.raw["message"], cut.token) for cut in lives.failures] == []
    assert once.cuts == lives.cuts == CUTS


FOUND_BY_CUTS = {
    "allocator": "block-not-flushed",
    "btree": "entry-not-flushed",
    "hash-chained": "node-not-flushed",
    "hash-extendible": "entry-not-flushed",
    "hash-level": "tokens-flushed",
    "list": "head-flushed",
    "list-lock-free": "node-flushed-again",
    "log-store": "header-not-flushed",
    "queue": "head-not-flushed",
    "radix": "first-line-of-node",
    "rbtree": "nodes-not-flushed",
    "redo-hash": "entries-not-flushed",
    "skiplist": "link-not-flushed",
    "undo-list": "taken-before",
}
"""A bug of each program that few cuts are enough for."""


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_seen(name: str, programs: Path, tmp_path: Path) -> None:
    report = cuts_of(name, programs, tmp_path, "--bug", FOUND_BY_CUTS[name], cuts=4 * CUTS)
    assert report.failed > 0, "its recovery finds what is wrong, or dies of it"


EPOCHS = {
    "picl": ("epoch.instructions=2000", "picl.acs_gap=0"),
    "nvoverlay": ("epoch.stores=300",),
}
"""The transparent designs, and what makes their epochs short: cuts go back to many of them."""


@pytest.mark.parametrize("design", EPOCHS)
@pytest.mark.parametrize("name", ["list", "undo-list"])
def test_a_transparent_design_forgives_a_missing_flush(
    name: str, design: str, programs: Path, tmp_path: Path
) -> None:
    bug = {"list": "node-not-flushed", "undo-list": "entry-not-flushed"}[name]
    words = command_of(name, programs, *arguments(name)[1:], "--bug", bug)
    on = Machine(machine=design, design=design, pmem=tmp_path, harts=1, set=EPOCHS[design])
    then = command_of(name, programs, "--recover")
    report = on.cut(words, cuts=CUTS, seed=seed(3), restart=True, then=then)
    assert [(cut.raw["message"], cut.token) for cut in report.failures] == []
    assert len({cut.raw["recovered_epoch"] for cut in report.results}) > CUTS // 4


@pytest.mark.parametrize("design", EPOCHS)
def test_a_transparent_design_forgives_whatever_comes_back_as_it_was(
    design: str, programs: Path, tmp_path: Path
) -> None:
    """Where the program is lost, and starts on its pool of one moment, its order counts."""
    bug = "taken-before"
    words = command_of("undo-list", programs, *arguments("undo-list")[1:], "--bug", bug)
    on = Machine(machine=design, design=design, harts=1, set=EPOCHS[design])
    resumed = replace(on, mounts=(f"{tmp_path}:/pmem",))
    assert resumed.cut(words, cuts=CUTS, seed=1, resume="all").failed == 0
    then = command_of("undo-list", programs, "--recover")
    restarted = replace(on, pmem=tmp_path)
    assert restarted.cut(words, cuts=4 * CUTS, seed=1, restart=True, then=then).failed > 0


# ---- What a program refuses -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "needs the path of its pool, below /pmem"),
        (["/tmp/x"], "it is not /tmp/x"),
        (["/pmem/x", "--bug", "node-not-flush"], '--bug cannot be "node-not-flush"'),
        (["/pmem/x", "--operations", "0"], '--operations is "0", but must be'),
        (["/pmem/x", "--operations"], "--operations needs a value"),
        (["/pmem/x", "--primitive", "clfush"], '--primitive cannot be "clfush"'),
        (["/pmem/x", "--threads", "2"], 'takes no "--threads"'),
        (["/pmem/x", "--seed", "2"], "was made with other options"),
        (["/pmem/y", "--recover"], "is a pool of another program"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(
    words: list[str],
    says: str,
    programs: Path,
    run_guest: RunGuest,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pools = tmp_path / "pools"
    run_guest(machine("list", pools), [programs / "list", "/pmem/x", "--operations", "3"])
    run_guest(machine("queue", pools), [programs / "queue", "/pmem/y", "--operations", "3"])
    ended = run_guest(machine("list", pools), [programs / "list", *words])
    assert ended.result.exit_code == 2
    assert says in capfd.readouterr().err.splitlines()[-1]


# ---- What perdure check says of them ----------------------------------------------------------


def checked(name: str, programs: Path, states: int, *mistake: str) -> Check:
    """What a check says after about so many recoveries."""
    words, recover, dump = (
        [str(word) for word in command_of(name, programs, *more)]
        for more in ([*arguments(name)[1:], *mistake], ["--recover"], ["--dump"])
    )
    on = Machine(machine="x86-pm", design="ideal")
    subject = checking.Subject(on, words, then=recover, dump=dump)
    return checking.check(subject, limits=checking.Limits(states=states))


@pytest.mark.parametrize("name", NAMES)
def test_a_check_accuses_nothing_correct(name: str, programs: Path) -> None:
    report = checked(name, programs, 100 * TIMES)
    assert report["bugs"] == []
    assert report["states"]["run"] >= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_check_finds_what_is_not_flushed(
    name: str, programs: Path, run_guest: RunGuest, tmp_path: Path
) -> None:
    kinds = listed(name, programs, run_guest, tmp_path / "pools")
    bug = next(bug for bug, kind in kinds.items() if kind == "missing-flush")
    report = checked(name, programs, 600, "--bug", bug)
    assert report["bugs"], bug
    places = [store["place"] for found in report["bugs"] for store in found["lost"]]
    assert all(place and place["line"] for place in places), bug


def told(moment: Moment) -> tuple[str, list[int], str | None]:
    """What happens, to which stores, in which function."""
    return moment["kind"], moment["stores"], (moment["place"] or {"function": None})["function"]


@pytest.mark.parametrize(
    ("bug", "happens", "said"),
    [
        (
            "node-not-flushed",
            [
                ("lost", [0], "fill"),
                ("missing-flush", [0], "fill"),
                ("fence", [], "fence"),
                ("kept", [1], "lead"),
                ("flush", [1], "flush"),
                ("power", [], "fence"),
            ],
            ["a flush of the line of A belongs here", "A was never flushed"],
        ),
        (
            "node-not-fenced",
            [
                ("lost", [0], "fill"),
                ("flush", [0], "flush"),
                ("missing-fence", [0], None),
                ("kept", [1], "lead"),
                ("flush", [1], "flush"),
                ("power", [], "fence"),
            ],
            ["a fence belongs here", "A was flushed, and no fence has waited for that"],
        ),
    ],
)
def test_flushes_and_fences_around_a_bug_are_told_in_order(
    bug: str,
    happens: list[tuple[str, list[int], str | None]],
    said: list[str],
    programs: Path,
) -> None:
    report = checked("list", programs, 600, "--bug", bug)
    (found,) = report["bugs"]
    timeline = found["timeline"]
    assert [told(moment) for moment in timeline] == happens
    moments = [moment["instruction"] for moment in timeline]
    assert moments == sorted(moments)
    stores = [*found["lost"], *found["kept"]]
    for moment in timeline:
        if moment["kind"] == "flush":
            (store,) = moment["stores"]
            offset = stores[store]["offset"] or 0
            assert (moment["by"], moment["offset"]) == ("clwb", offset - offset % 64)
            assert moment["caller"] and moment["caller"]["line"]
        if moment["kind"] == "fence":
            assert (moment["by"], moment["waits"]) == ("sfence", True)
    page = check_page.page(report, set(), sources=Sources([REPOSITORY]))
    assert all(words in page for words in said)

"""The programs of workloads/flush: what they keep in a pool survives if they flush, and not else.

Always true here: campaigns have the sizes of `tiny`; whether a pool is sound is said by the
program's own recovery and checker, at the next boot.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import TIMES, arguments_of, built, catalogue, seed, under_qemu

from perdure import CutReport, Machine

ENTRIES = catalogue("flush.toml")
arguments = arguments_of(ENTRIES)
ATOMIC = sorted(set(ENTRIES) - {"lru", "lru-data", "lru-meta"})
"""Those whose operations or transactions are failure-atomic: the others have no log."""
CUTS = 10 * TIMES


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built programs."""
    return built("flush") / "flush"


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_pool_is_checked_under_qemu(name: str, programs: Path, tmp_path: Path) -> None:
    """In an ordinary file, without flushes and acknowledgements, which qemu-user 7.2 has not."""
    program = programs / ENTRIES[name].text("program")
    words: list[str | Path] = [program, tmp_path / "pool", "--anywhere"]
    words += arguments(name, "quick")[1:]
    if ENTRIES[name].text("program") != "lru":
        words += ["--mix", "50:50", "--inserts", "1000", "--operations", "1500"]
    assert under_qemu(words).returncode == 0
    checked = under_qemu([*words[:3], "--recover"])
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "recovered" in checked.stdout
    assert under_qemu(words).returncode == 0, "it goes on from there"
    damaged = bytearray((tmp_path / "pool").read_bytes())
    # A bit of the first word of every line behind the pool's head, of which some are in use.
    for line in range(4096, len(damaged), 64):
        damaged[line] ^= 1
    (tmp_path / "pool").write_bytes(damaged)
    found = under_qemu([*words[:3], "--recover"])
    assert found.returncode == 1
    assert "WRONG" in found.stderr


def cuts_of(
    name: str, programs: Path, folder: Path, primitive: str, domain: str, *more: str
) -> CutReport:
    """Cuts of the operations: the pool is made before."""
    machine = Machine(
        machine="x86-pm", design="ideal", set={"persistence.domain": domain}, pmem=folder
    )
    words: list[str | Path] = [programs / ENTRIES[name].text("program"), *arguments(name)]
    words += ["--primitive", primitive, *more]
    made = machine.run([*words, "--make"])
    assert made.exit_code == 0
    return machine.cut(words, cuts=CUTS, seed=seed(5), restart=True)


@pytest.mark.parametrize("name", ATOMIC)
def test_what_is_flushed_survives_every_cut_and_the_program_goes_on(
    name: str, programs: Path, tmp_path: Path
) -> None:
    report = cuts_of(name, programs, tmp_path, "clwb", "adr")
    assert [(cut.raw["message"], cut.token) for cut in report.failures] == []
    assert report.verified == report.cuts == CUTS


@pytest.mark.parametrize("name", ATOMIC)
def test_what_is_not_flushed_does_not_unless_the_caches_are_kept(
    name: str, programs: Path, tmp_path: Path
) -> None:
    kept = cuts_of(name, programs, tmp_path / "eadr", "none", "eadr")
    assert [(cut.raw["message"], cut.token) for cut in kept.failures] == []
    lost = cuts_of(name, programs, tmp_path / "adr", "none", "adr")
    # The others struck before anything was acknowledged.
    assert lost.failed >= lost.cuts // 3
    assert all("WRONG" in cut.last_lines[-1] for cut in lost.failures)


@pytest.mark.parametrize(("primitive", "sound"), [("clwb", True), ("none", False)])
def test_an_undo_log_may_be_stored_around_the_caches(
    primitive: str, sound: bool, programs: Path, tmp_path: Path
) -> None:
    stored = ("--log-stores", "movnt")
    report = cuts_of("lru-undo", programs, tmp_path, primitive, "adr", *stored)
    assert (report.failed == 0) == sound


@pytest.mark.parametrize(
    ("memory_type", "primitive", "sound"),
    [
        ("wt", "none", True),
        ("uc", "none", True),
        ("wc", "none", False),
        ("wc", "sfence", True),
        ("wb", "sfence", False),
    ],
)
def test_a_memory_type_spares_the_flush_and_write_combining_not_the_fence(
    memory_type: str, primitive: str, sound: bool, programs: Path, tmp_path: Path
) -> None:
    mapped = ("--memory-type", memory_type)
    # A redo log's entries come word by word; a line that is full leaves the buffers at once.
    report = cuts_of("lru-redo", programs, tmp_path, primitive, "adr", *mapped)
    assert (report.failed == 0) == sound


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "needs the path of its pool"),
        (["p"], "a pool lies below /pmem"),
        (["q", "--primitive", "clfush"], '--primitive cannot be "clfush"'),
        (["q", "--mix", "1:2"], '--mix cannot be "1:2"'),
        (["q", "--inserts", "many"], "--inserts is"),
        (["q", "--inserts", "10", "--operations", "100"], "--operations erases more"),
        (["q", "--insert", "10"], 'takes no "--insert"'),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(
    words: list[str], says: str, programs: Path, tmp_path: Path
) -> None:
    pool = str(tmp_path / "pool")
    meant = {"p": [pool], "q": [pool, "--anywhere"]}
    ended = under_qemu([programs / "bst", *[word for w in words for word in meant.get(w, [w])]])
    assert ended.returncode == 2
    assert says in ended.stderr.splitlines()[-1]

"""The threaded programs of workloads/parallel: they check themselves, on one hart and on several.

Always true here: a program's last line does not depend on how its threads interleave, so it is the
same under Perdure as under qemu-riscv64; every program of the folder is in the catalogue and the
reverse; the sizes are those of `tiny`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REPOSITORY, RunGuest, built, catalogue, under_qemu

from perdure import Machine

ENTRIES = catalogue("parallel.toml")
SOURCES = REPOSITORY / "workloads/parallel"
SIZES = ("full", "quick", "tiny")
HARTS = 4


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built programs."""
    return built("parallel") / "parallel"


def test_every_program_is_in_the_catalogue() -> None:
    sources = [path.stem for path in SOURCES.iterdir() if path.suffix in (".c", ".cpp")]
    assert sorted(ENTRIES) == sorted(sources)
    assert len(sources) == 12


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_the_catalogue_is_sound(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.text("kind") == "parallel"
    assert entry.text("program") == name
    assert entry.text("stands_for") and entry.text("summary")
    for size in SIZES:
        table = entry.table(size)
        assert table.texts("arguments")
        assert table.integer("threads") == (HARTS if size == "tiny" else 16)
        # Counting the whole of labyrinth's `full` would take hours.
        if (name, size) != ("labyrinth", "full"):
            assert (table.number("instructions_millions") or 0) > 0


@pytest.mark.parametrize("name", ["kmeans", "hash-map"])
def test_a_region_is_the_whole_parallel_phase(name: str, programs: Path) -> None:
    """The same stores under two designs but for the kernel's, and less than the whole run."""
    words: list[str | Path] = [programs / name, *ENTRIES[name].table("tiny").texts("arguments")]
    stores = []
    for design in ("ideal", "nvoverlay"):
        machine = Machine(machine="nvoverlay", design=design, harts=HARTS)
        result = machine.run(words, measure_threads=True)
        assert result.region is not None and result.region.whole_phase
        assert 0 < result.region.cycles < result.sim.cycles
        assert result.exit_code is None, "the check comes after the region"
        stores.append(result.region.statistics["l1d.stores"].value)
    assert stores[0] == pytest.approx(stores[1], rel=0.01)


@pytest.mark.parametrize("name", sorted(ENTRIES))
@pytest.mark.parametrize("harts", [1, HARTS])
def test_output_is_that_under_qemu(
    name: str, harts: int, programs: Path, run_guest: RunGuest
) -> None:
    words: list[str | Path] = [programs / name, *ENTRIES[name].table("tiny").texts("arguments")]
    run = run_guest(Machine(design="picl", harts=harts), words)
    reference = under_qemu(words)
    assert reference.returncode == 0, reference.stderr
    assert run.stdout.decode() == reference.stdout
    assert run.result.exit_code == 0
    assert run.result.unknown_system_calls == []


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_bad_options_are_refused(name: str, programs: Path) -> None:
    for bad in (["-tx"], ["-t", "-1"], ["-Z1"], ["stray"]):
        done = under_qemu([programs / name, *bad])
        assert done.returncode == 2, bad
        assert done.stdout == ""
        assert f"{name}: " in done.stderr


def test_entries_of_harts_that_log_side_by_side_leave_no_hole_behind_the_window(
    programs: Path,
) -> None:
    """With a window that looked at one entry alone, two of these cuts could not be recovered."""
    small: dict[str, str | int | float | bool] = {
        "l1i.bytes": "4KiB",
        "l1d.bytes": "2KiB",
        "l2.bytes": "8KiB",
        "llc.bytes_per_hart": "32KiB",
        "epoch.stores": 4000,
        "nvm.bytes": "512MiB",
    }
    machine = Machine(machine="nvoverlay", design="software-logging", harts=HARTS, set=small)
    words: list[str | Path] = [programs / "hash-map", "-t", str(HARTS), "-n", "10000"]
    report = machine.cut(words, cuts=400, seed=7, resume="none")
    assert (report.verified, report.failed) == (400, 0)

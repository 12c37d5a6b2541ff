"""The kernels of workloads/kernels: the same output under Perdure as under qemu-riscv64.

Always true here: a kernel checks its own result, so a wrong one ends with status 1; every kernel
of the folder is in the catalogue and the reverse; the sizes are those of `tiny`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REPOSITORY, RunGuest, built, catalogue, under_qemu

from perdure import Machine

ENTRIES = catalogue("kernels.toml")
SOURCES = REPOSITORY / "workloads/kernels"
SIZES = ("full", "quick", "tiny")


def arguments(name: str, size: str) -> list[str]:
    """The arguments of one kernel."""
    return list(ENTRIES[name].table(size).texts("arguments"))


@pytest.fixture(scope="session")
def kernels() -> Path:
    """The folder of the built programs."""
    return built("kernels") / "kernels"


def test_every_kernel_is_in_the_catalogue() -> None:
    assert sorted(ENTRIES) == sorted(path.stem for path in SOURCES.glob("*.c"))
    assert len(ENTRIES) >= 15


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_the_catalogue_is_sound(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.text("kind") == "kernel"
    assert entry.text("program") == name
    assert entry.text("stands_for") and entry.text("summary")
    for size in SIZES:
        table = entry.table(size)
        assert table.texts("arguments")
        warm_up = table.integer("warm_up_instructions")
        assert warm_up > 0
        assert warm_up <= 25_000_000 or size == "full"
    assert entry.table("full").integer("measure_instructions") == 1_000_000_000
    assert entry.table("quick").integer("measure_instructions") == 37_500_000


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_output_is_that_under_qemu(name: str, kernels: Path, run_guest: RunGuest) -> None:
    words: list[str | Path] = [kernels / name, *arguments(name, "tiny")]
    run = run_guest(Machine(design="ideal"), words)
    reference = under_qemu(words)
    assert reference.returncode == 0, reference.stdout
    assert reference.stdout.endswith(", verified\n")
    assert run.stdout.decode() == reference.stdout
    assert run.result.exit_code == 0
    assert run.result.unknown_system_calls == []
    table = ENTRIES[name].table("tiny")
    region_end = table.integer("warm_up_instructions") + table.integer("measure_instructions")
    assert region_end < run.result.sim.instructions


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_bad_arguments_are_refused(name: str, kernels: Path) -> None:
    good = arguments(name, "tiny")
    for bad in ([], [*good[:-1], "-1"], [*good[:-1], "1x"], [*good, "1"]):
        done = under_qemu([kernels / name, *bad])
        assert done.returncode == 2, bad
        assert done.stdout == ""
        assert done.stderr.startswith(f"{name}: ")

"""The Debian workloads: the same output and files under Perdure as under qemu-riscv64.

Always true here: programs, arguments and inputs are those of `workloads/debian.toml` at its scale
`tiny`; the packages are kept where `test_debian.py` keeps its own ($PERDURE_SYSROOT, or the user's
cache); where there is no mirror, every test that needs packages is skipped and says why. Inputs
and scratch are named relative to the working directory, so that a program that prints a file's
name prints the same under both.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, TIMEOUT_SECONDS, RunGuest, files

from perdure import Machine, inputs
from perdure.experiments.programs import Entry, catalogue

ENTRIES = [entry for entry in catalogue() if entry.kind == "debian"]
PACKAGES = sorted({name for entry in ENTRIES for name in entry.packages})

TIMES = re.compile(rb"(?m)^# (?:Render Date:|times @).*$")
"""Lines that say when a program ran and how long: they differ between any two machines."""

each_workload = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def prepared(folder: Path, entry: Entry) -> Path:
    """A new working directory with the workload's inputs and an empty scratch folder."""
    (folder / "scratch").mkdir(parents=True)
    inputs.write_inputs(entry.inputs, "tiny", folder / "inputs")
    return folder


def words(entry: Entry) -> list[str]:
    """The command line inside the guest."""
    places = {"{inputs}": "inputs", "{scratch}": "scratch"}
    filled = list(entry.sizes["tiny"].arguments)
    for place, folder in places.items():
        filled = [word.replace(place, folder) for word in filled]
    return [entry.program, *filled]


def under_qemu(root: Path, command: list[str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs a guest's command line on this host's Linux.

    qemu-riscv64 would look for the program of an execve on the host; so a shell that only replaces
    itself is replaced here.
    """
    given = Path(os.devnull)
    replaced = re.fullmatch(r"exec (.*) < (\S+)", command[-1])
    if replaced is not None:
        command = replaced.group(1).split()
        given = cwd / replaced.group(2)
    with given.open("rb") as stdin:
        return subprocess.run(
            ["qemu-riscv64", "-L", root, f"{root}{command[0]}", *command[1:]],
            cwd=cwd,
            env=ENVIRONMENT,
            stdin=stdin,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )


@each_workload
def test_output_and_files_are_linux_s(
    entry: Entry, root: Path, tmp_path: Path, run_guest: RunGuest
) -> None:
    linux = prepared(tmp_path / "qemu", entry)
    reference = under_qemu(root, words(entry), linux)
    assert reference.returncode == 0, reference.stderr
    ours = prepared(tmp_path / "ideal", entry)
    before = files(ours)
    run = run_guest(Machine(design="ideal", sysroot=root), words(entry), cwd=ours)
    assert run.result.exit_code == 0
    assert run.result.unknown_system_calls == []
    assert TIMES.sub(b"", run.stdout) == TIMES.sub(b"", reference.stdout)
    assert files(ours) == files(linux)
    assert run.stdout or files(ours) != before, "the workload leaves no trace of its work"
    # The measured region must lie inside the run.
    size = entry.sizes["tiny"]
    assert run.result.sim.instructions >= size.warm_up + size.measure


def test_two_instances_at_once_do_not_disturb_each_other(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every workload that is quick to start, twice in one machine, ends as it does alone."""
    starts_soon = [entry for entry in ENTRIES if entry.sizes["tiny"].warm_up <= 8_000_000]
    assert len(starts_soon) >= 6
    folder = tmp_path / "both"
    for entry in starts_soon:
        inputs.write_inputs(entry.inputs, "tiny", folder / "inputs")
    (folder / "scratch").mkdir()
    monkeypatch.chdir(folder)
    programs = [words(entry) for entry in starts_soon[:4] for _ in range(2)]
    result = Machine(design="ideal", sysroot=root).run(programs=programs)
    ended = result.raw["programs"]
    assert [program["exit_code"] for program in ended] == [0] * len(programs)


def test_every_workload_has_every_scale() -> None:
    assert len(ENTRIES) >= 12
    for entry in ENTRIES:
        assert set(entry.sizes) == set(inputs.SCALES), entry.name
        for scale, size in entry.sizes.items():
            assert size.warm_up > 0, (entry.name, scale)
        assert entry.sizes["full"].measure == 1_000_000_000, entry.name
        assert entry.sizes["quick"].measure == 37_500_000, entry.name

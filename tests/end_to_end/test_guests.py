"""Every case of tests/guests/cases.txt, and the engines against each other.

Always true here: what is expected was recorded under qemu-riscv64, not under Perdure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from conftest import REPOSITORY, RunGuest, without_host_time

from perdure import Machine, catalogue
from perdure.api import Engine

GUESTS = REPOSITORY / "tests/guests"


@dataclass(frozen=True)
class Case:
    """One line of cases.txt."""

    name: str
    status: int
    program: str
    arguments: tuple[str, ...]

    @property
    def stdout(self) -> bytes:
        """What the program must write."""
        return (GUESTS / f"expected/{self.name}.txt").read_bytes()


def cases() -> list[Case]:
    """Reads cases.txt."""
    lines = (GUESTS / "cases.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return [Case(name, int(status), program, tuple(more)) for name, status, program, *more in rows]


def pairs() -> list[tuple[Case, str, int]]:
    """Each case on one hart and on four, under two designs of the registry.

    Every case and every design appears often, without their product: what a guest prints is the
    kernel's affair, and designs are tried by cuts.
    """
    designs = [one.name for one in catalogue().designs]

    def design(index: int) -> str:
        return designs[index % len(designs)]

    listed = list(enumerate(cases()))
    alone = [(case, design(index), 1) for index, case in listed]
    return [*alone, *((case, design(index + len(designs) // 2), 4) for index, case in listed)]


PRESETS = {"nvoverlay": "nvoverlay", "spms": "spms", "hlog": "spms", "nearpm": "nearpm"}
"""The machines of designs that do not run on PiCL's."""


@pytest.mark.parametrize(
    ("case", "design", "harts"),
    pairs(),
    ids=lambda one: one.name if isinstance(one, Case) else str(one),
)
def test_output_and_status(
    case: Case, design: str, harts: int, programs: Path, run_guest: RunGuest
) -> None:
    preset = PRESETS.get(design, "picl")
    machine = Machine(preset, design=design, harts=harts, set={"llc.inclusion": "by-design"})
    run = run_guest(machine, [programs / case.program, *case.arguments])
    assert run.stdout.decode() == case.stdout.decode()
    assert run.result.exit_code == case.status
    assert run.result.unknown_system_calls == []
    assert run.result.refused_output is None


def test_there_are_cases_and_each_design_has_some() -> None:
    assert len(cases()) > 30
    often = Counter(design for _, design, _ in pairs())
    assert set(often) == {one.name for one in catalogue().designs}
    assert min(often.values()) > 5
    # A case meets two designs.
    met = {(case.name, design) for case, design, _ in pairs()}
    assert len(met) == 2 * len(cases())


@pytest.mark.parametrize("harts", [1, 3])
@pytest.mark.parametrize("guest", ["sharing", "threads", "files", "fp"])
def test_the_engines_agree_on_everything(
    guest: str, harts: int, programs: Path, run_guest: RunGuest
) -> None:
    def run(engine: str) -> tuple[dict[str, object], bytes]:
        ended = run_guest(
            Machine(harts=harts, engine=cast(Engine, engine)), [programs / "guests" / guest]
        )
        return without_host_time(ended.result.raw), ended.stdout

    fast, plain = run("fast"), run("plain")
    assert fast == plain
    assert run("compiled") == fast
    # These are too short for it to compile anything; this one does at once.
    assert run("eager") == fast
    # Nor does the fast engine differ from itself.
    assert run("fast") == fast


def test_harts_take_turns_where_none_may_run_ahead(programs: Path, run_guest: RunGuest) -> None:
    machine = Machine(design="ideal", harts=2, set={"scheduling.lookahead_cycles": 0})
    run = run_guest(machine, [programs / "guests" / "sharing"])
    assert run.stdout == (GUESTS / "expected/sharing.txt").read_bytes()


@pytest.mark.parametrize("harts", [1, 2, 4])
@pytest.mark.parametrize("design", ["ideal", "picl", "frm"])
def test_a_loop_takes_its_instructions_by_every_clock(
    design: str, harts: int, programs: Path, run_guest: RunGuest
) -> None:
    run = run_guest(Machine(design=design, harts=harts), [programs / "guests/clocks", "loop"])
    alone = run_guest(Machine(design="ideal", harts=1), [programs / "guests/clocks", "loop"])
    assert run.stdout == alone.stdout
    # Four instructions a round, at 2 GHz.
    assert all(2_000_000 <= int(time) < 2_001_000 for time in run.stdout.split())

"""What `perdure check` costs the host: states per second, and a state beside a power cut.

Always true here: everything is measured in one call, on the same program; costs are the processor's
time, for which others that wait their turn do not count, and rates are by the clock. The price of a
state, or of a cut, is that of each further one: what the larger of two campaigns takes more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from perdure import PerdureError, api, bench_cases, checking, progress
from perdure.bench_cases import StoppedError
from perdure.calibration import own_seconds
from perdure.fields import Instructions, Seconds
from perdure.tables import judged, number, table

if TYPE_CHECKING:
    from perdure.check_results import Check

MACHINE = "x86-pm"
POOL = "/pmem/x"
CUTS = 300
"""Of the larger campaign, unless told otherwise."""
LIMIT_SECONDS = 600.0
"""A check of a hundred million instructions with ten thousand failure points may take so long."""


@dataclass(frozen=True)
class Case:
    """A program that recovers by itself, told to do nothing else by the word `recover`."""

    name: str
    source: str
    arguments: Sequence[str] = ()


CASES = (Case("transfers with an undo log", "bench/transfers.c"),)


@dataclass(frozen=True, kw_only=True)
class Checked(Case):
    """A case, measured.

    `seconds` are of the clock; all other times are the processor's: of a check that ends with its
    first failure point, of the whole one, of a campaign of one cut, and of one of `cuts`.
    """

    instructions: Instructions
    points: int
    explored: int
    coverage: float
    states: int
    state_instructions: float
    jobs: int
    seconds: Seconds
    first_states: int
    first_seconds: Seconds
    check_seconds: Seconds
    cuts: int
    first_cut_seconds: Seconds
    cuts_seconds: Seconds

    @property
    def states_per_second(self) -> float:
        """By the clock, on so many host threads, with all that a check does beside."""
        return self.states / self.seconds

    @property
    def state_seconds(self) -> float:
        """What each further state takes."""
        more = max(self.check_seconds - self.first_seconds, 0.0)
        return more / max(self.states - self.first_states, 1)

    @property
    def cut_seconds(self) -> float:
        """What each further cut takes, with recovery behind it."""
        return max(self.cuts_seconds - self.first_cut_seconds, 0.0) / (self.cuts - 1)

    @property
    def cut_states(self) -> float | None:
        """A cut, in states; none where a state takes too little to be measured."""
        return self.cut_seconds / self.state_seconds if self.state_seconds > 0 else None

    def as_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {
            **asdict(self),
            "states_per_second": self.states_per_second,
            "state_seconds": self.state_seconds,
            "cut_seconds": self.cut_seconds,
            "cut_states": self.cut_states,
        }


@dataclass(frozen=True)
class CheckReport:
    """All cases of one call."""

    machine: str
    interrupted: bool
    cases: Sequence[Checked]

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {**asdict(self), "cases": [one.as_json() for one in self.cases]}


def checks(out: Path, campaign: tuple[int, int], console: Console) -> CheckReport:
    """Builds the programs in `out`; of each measures a check and so many cuts, by so many jobs."""
    measured, stopped = bench_cases.measured(
        CASES, out, console, lambda case, program: measure(case, program, campaign, console)
    )
    return CheckReport(MACHINE, stopped, measured)


def measure(case: Case, program: Path, campaign: tuple[int, int], console: Console) -> Checked:
    """Measures a case."""
    count, jobs = campaign
    machine = api.Machine(machine=MACHINE, design="ideal")
    words, then = [str(program), POOL, *case.arguments], [str(program), POOL, "recover"]
    subject = checking.Subject(machine, words, then=then, jobs=jobs)

    def check(what: str, limits: checking.Limits) -> tuple[float, Check]:
        begun = own_seconds()
        with progress.bar(console, f"{case.name}: {what}") as show:
            report = checking.check(subject, limits=limits, progress=show)
        if report["interrupted"]:
            raise StoppedError
        return own_seconds() - begun, report

    def cut(cuts: int) -> float:
        begun = own_seconds()
        with (
            tempfile.TemporaryDirectory(prefix="perdure-bench-") as pools,
            progress.bar(console, f"{case.name}: cuts of {MACHINE}") as show,
        ):
            folder = api.Machine(machine=MACHINE, design="ideal", pmem=Path(pools))
            report = folder.cut(words, then=then, restart=True, cuts=cuts, progress=show)
        if report.interrupted:
            raise StoppedError
        return own_seconds() - begun

    first_seconds, first = check("a state", checking.Limits(states=1))
    check_seconds, whole = check("all states", checking.Limits())
    if whole["bugs"]:
        raise PerdureError(
            f"{case.name}: perdure check finds a bug in it, so that what it costs says nothing; "
            f"'perdure check -- {' '.join(words)} --then {' '.join(then)}' shows it"
        )
    points, states = whole["points"], whole["states"]
    return Checked(
        **asdict(case), instructions=whole["uncut"]["instructions"], points=points["found"],
        explored=points["explored"], coverage=states["coverage"], states=states["run"],
        state_instructions=states["instructions"] / max(states["run"], 1), jobs=jobs,
        seconds=whole["host"]["seconds"], first_states=first["states"]["run"],
        first_seconds=first_seconds, check_seconds=check_seconds, cuts=count,
        first_cut_seconds=cut(1), cuts_seconds=cut(count),
    )  # fmt: skip


def tables(report: CheckReport) -> RenderableType:
    """The report for people."""
    names = (
        "instructions",
        "failure points",
        "states",
        "coverage",
        "seconds",
        "limit",
        "states/s",
        "a state (instructions)",
        "a state (µs)",
        "a cut (µs)",
        "a cut (states)",
    )
    made = table(f"what perdure check costs, and power cuts of {MACHINE}", "program", *names)
    for one in report.cases:
        made.add_row(
            one.name,
            number(one.instructions),
            number(one.points),
            number(one.states),
            f"{one.coverage:.1%}",
            f"{one.seconds:.1f}",
            judged(f"{LIMIT_SECONDS:g}", one.seconds <= LIMIT_SECONDS),
            f"{one.states_per_second:,.0f}",
            f"{one.state_instructions:,.0f}",
            f"{one.state_seconds * 1e6:,.0f}",
            f"{one.cut_seconds * 1e6:,.0f}",
            "–" if one.cut_states is None else f"{one.cut_states:.1f}",
        )
    notes = [
        "Seconds and states/s are by the clock, with everything that a check does; a state and a "
        "cut are what each further one takes of the processor.",
        "A cut is one of `cut --restart` at random, with its recovery on the timed machine.",
    ]
    return Group(made, *(Text(note, style="dim") for note in notes))

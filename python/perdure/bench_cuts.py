"""What power cuts cost the host, in runs of the same program that nobody cuts.

Always true here: all is the processor's time, for which others that wait their turn do not count;
of several repeats the fastest counts; a campaign's price is that of its first cut and of each
further one, measured by two campaigns of different size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from perdure import PerdureError, api, bench_cases, progress
from perdure.bench_cases import StoppedError
from perdure.calibration import own_seconds
from perdure.fields import Cycles, Seconds
from perdure.tables import judged, table

MACHINE = "picl"
CUTS = 100
"""Of the larger campaign, unless told otherwise."""
TOLD = 1000
"""For so many cuts a campaign's price is told."""
EXACT_FLOOR_RUNS, EXACT_AIM_RUNS = 1.2, 1.05
"""An exact cut or a replay, in runs to that cycle: at most, and hoped for."""


@dataclass(frozen=True)
class Case:
    """A program, and in how many of its runs a thousand cuts are to be made."""

    name: str
    source: str
    floor_runs: float
    aim_runs: float
    arguments: Sequence[str] = ()


CASES = (
    Case("integer compute", "bench/compute.c", 2, 1.5),
    Case("B+tree, 1 M random inserts", "bench/btree.c", 5, 2),
)


@dataclass(frozen=True, kw_only=True)
class Cuts(Case):
    """A case, measured: processor seconds of a run, of campaigns that resume nothing, and of a cut.

    `until_seconds` is a run that ends with the cycle `at`, `exact_seconds` the one cut there, and
    `replay_seconds` its replay, each ending with the cut.
    """

    run_seconds: Seconds
    first_seconds: Seconds
    cuts: int
    cuts_seconds: Seconds
    at: Cycles
    until_seconds: Seconds
    exact_seconds: Seconds
    replay_seconds: Seconds

    @property
    def cut_seconds(self) -> float:
        """What each further cut of a campaign takes."""
        return max(self.cuts_seconds - self.first_seconds, 0.0) / (self.cuts - 1)

    @property
    def runs(self) -> float:
        """A campaign of `TOLD` cuts, in runs."""
        return (self.first_seconds + (TOLD - 1) * self.cut_seconds) / self.run_seconds

    def as_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {
            **asdict(self),
            "first_runs": self.first_seconds / self.run_seconds,
            "cut_seconds": self.cut_seconds,
            "thousand_runs": self.runs,
            "exact_runs": self.exact_seconds / self.until_seconds,
            "replay_runs": self.replay_seconds / self.until_seconds,
        }


@dataclass(frozen=True)
class CutsReport:
    """All cases of one call."""

    machine: str
    repeat: int
    interrupted: bool
    cases: Sequence[Cuts]

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {**asdict(self), "cases": [one.as_json() for one in self.cases]}


def cuts(out: Path, *, count: int, repeat: int, console: Console) -> CutsReport:
    """Builds the programs in `out`, and measures every case by one cut and by `count`."""
    measured, stopped = bench_cases.measured(
        CASES, out, console, lambda case, program: measure(case, program, (count, repeat), console)
    )
    return CutsReport(MACHINE, repeat, stopped, measured)


def measure(case: Case, program: Path, campaign: tuple[int, int], console: Console) -> Cuts:
    """Measures a case."""
    machine = api.Machine(machine=MACHINE, design=MACHINE, harts=1)
    count, repeat = campaign
    command = [str(program), *case.arguments]

    def campaign_of(many: int) -> Callable[[api.Progress | None], api.CutReport]:
        return lambda show: machine.cut(command, cuts=many, resume="none", progress=show)

    def timed(what: str, work: Callable[[api.Progress | None], Any]) -> tuple[float, Any]:
        seconds, done = [], None
        for _ in range(repeat):
            begun = own_seconds()
            with progress.bar(console, f"{case.name}: {what}") as show:
                done = work(show)
            seconds.append(own_seconds() - begun)
            _refuse(case, done)
        return min(seconds), done

    run, whole = timed("uncut", lambda show: machine.run(command, progress=show))
    first, _ = timed("one cut", campaign_of(1))
    all_of_them, _ = timed(f"{count} cuts", campaign_of(count))
    # Where half of the instructions are through.
    until, half = timed(
        "half of it",
        lambda show: machine.run(command, stop_after=whole.sim.instructions // 2, progress=show),
    )
    at = half.sim.cycles
    exact, cut = timed(
        "one exact cut", lambda show: machine.cut(command, at=at, until_cut=True, progress=show)
    )
    token = cut.results[0].token
    again, _ = timed("its replay", lambda show: api.replay(token, until_cut=True, progress=show))
    return Cuts(
        **asdict(case), run_seconds=run, first_seconds=first, cuts=count, cuts_seconds=all_of_them,
        at=at, until_seconds=until, exact_seconds=exact, replay_seconds=again,
    )  # fmt: skip


def _refuse(case: Case, done: api.RunResult | api.CutReport) -> None:
    """A run or a campaign that did not go well measures nothing."""
    if done.interrupted:
        raise StoppedError
    if isinstance(done, api.CutReport) and done.verified < done.cuts:
        raise PerdureError(
            f"{case.name}: {done.cuts - done.verified} of {done.cuts} cuts were not verified, so "
            "what they cost says nothing; 'perdure cut' on the same program shows them"
        )


def tables(report: CutsReport) -> RenderableType:
    """The report for people."""
    names = (
        "a run (s)",
        "one cut (runs)",
        "each further one (ms)",
        f"{TOLD:,} cuts (runs)",
        "floor",
        "aim",
        "exact cut (runs to it)",
        "replay (runs to it)",
    )
    made = table(f"what power cuts cost, under {report.machine}", "program", *names)
    for one in report.cases:
        made.add_row(
            one.name,
            f"{one.run_seconds:.2f}",
            f"{one.first_seconds / one.run_seconds:.2f}",
            f"{one.cut_seconds * 1e3:.2f}",
            f"{one.runs:.2f}",
            _mark(one.floor_runs, one.runs),
            _mark(one.aim_runs, one.runs),
            _exact(one.exact_seconds / one.until_seconds),
            _exact(one.replay_seconds / one.until_seconds),
        )
    notes = [
        "Random cuts, no resumed ones, one job; a campaign runs the program once to know its "
        "length, and once to cut it. All is the processor's time.",
        "Exact cut and replay end with the cut (--until-cut), half way through: "
        f"at most {EXACT_FLOOR_RUNS} (aim {EXACT_AIM_RUNS}).",
    ]
    return Group(made, *(Text(note, style="dim") for note in notes))


def _mark(limit: float, value: float) -> Text:
    return judged(f"{limit:g}", value <= limit)


def _exact(runs: float) -> Text:
    return judged(f"{runs:.2f}", runs <= EXACT_FLOOR_RUNS)

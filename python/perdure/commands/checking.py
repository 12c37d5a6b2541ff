"""The command `perdure check`: the crash-consistency bugs of a program that uses persistent memory.

Always true here: exit status 1 says that there is a bug that the baseline does not have.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure import (
    PerdureError,
    check_reports,
    checking,
    outputs,
    progress,
    render,
    terminal,
    tokens,
)
from perdure.commands.cutting import split_then
from perdure.commands.shared import finish, machine_of, told
from perdure.options import (
    Engine,
    GuestWithCopies,
    JobsOption,
    JsonOption,
    MachineOption,
    count,
    grouped,
    processors,
)

if TYPE_CHECKING:
    from perdure.check_results import Check


class Model(str, Enum):
    """By whose rules persistent memory keeps what was stored."""

    px86 = "px86"
    arm = "arm"
    perdure = "perdure"
    machine = "machine"


def _positive(text: str) -> int:
    return count(text, least=1)


Checked = Annotated[
    list[str],
    typer.Argument(
        metavar="-- PROGRAM ARG... [--then PROGRAM ARG...]",
        help="A RISC-V Linux program that keeps data below /pmem, and what recovers it, if that is "
        "not the same program again.",
    ),
]


@dataclass(frozen=True)
class Judges:
    """What else is asked of a recovered pool."""

    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="'PROGRAM ARG...'",
            help="Run this guest program on the recovered pool: it has to exit with 0, too.",
        ),
    ] = None
    dump: Annotated[
        str | None,
        typer.Option(
            "--dump",
            metavar="'PROGRAM ARG...'",
            help="A guest program that recovers and prints what the pool has: as before the "
            "operation under way (perdure_op_begin), or as after it.",
        ),
    ] = None


@dataclass(frozen=True)
class Bounds:
    """How far a check goes."""

    states: Annotated[
        int | None,
        typer.Option(
            "--states", parser=_positive, metavar="N", help="Recoveries, about, then stop."
        ),
    ] = None
    minutes: Annotated[float | None, typer.Option("--minutes", metavar="N", help="Or so long.")] = (
        None
    )
    states_of_a_point: Annotated[
        int | None,
        typer.Option(
            "--states-of-a-point",
            parser=_positive,
            metavar="N",
            help="Recoveries at one failure point; beyond, they are drawn.",
            show_default="500",
        ),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(
            "--patience",
            parser=_positive,
            metavar="INSTRUCTIONS",
            help="A recovery that takes more hangs.",
            show_default="50 times what one takes on the whole pool",
        ),
    ] = None
    schedules: Annotated[
        int | None,
        typer.Option(
            "--schedules",
            parser=_positive,
            metavar="N",
            help="Orders in which a program's threads take turns.",
            show_default="4",
        ),
    ] = None

    def limits(self) -> checking.Limits:
        """The same, as calls take it."""
        return checking.Limits(**vars(self))


@dataclass(frozen=True)
class Reports:
    """In which forms the result is written, beside the text."""

    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write it as SARIF, too.")
    ] = None
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML, too.")
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Bugs in this file are known: no failure."),
    ] = None
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the bugs that were found to it.")
    ] = False

    def known(self) -> set[str]:
        """The bugs that are no failure."""
        if self.update_baseline and self.baseline is None:
            raise PerdureError("--update-baseline: say by --baseline FILE where it is")
        return checking.known_in(self.baseline)

    def write(self, report: Check, new: set[str]) -> None:
        """Writes what is asked for."""
        texts = [(self.sarif, check_reports.sarif), (self.junit, check_reports.junit)]
        for path, text in texts:
            if path is not None:
                outputs.store(path.parent, path.name, text(report, new))
        if self.update_baseline and self.baseline is not None:
            bugs = checking.baseline_of(report["bugs"])
            outputs.store(self.baseline.parent, self.baseline.name, bugs)


@grouped
def check(
    program: Checked,
    machine: MachineOption = "x86-pm",
    *,
    guest: GuestWithCopies,
    model: Annotated[
        Model,
        typer.Option(
            "--model",
            metavar="NAME",
            help="The persistence model: px86, arm, perdure; or machine: what it holds when cut.",
        ),
    ] = Model.px86,
    judges: Judges,
    bounds: Bounds,
    nested: Annotated[
        bool, typer.Option("--nested/--no-nested", help="Let power fail in recovery, too.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every random choice.")] = 1,
    cuts: Annotated[
        int | None,
        typer.Option(
            "--cuts",
            parser=_positive,
            metavar="N",
            help="Cut the machine so often; beside another model, and near each bug's point, too.",
            show_default="400 by the model machine, else none",
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help="Recover from this one, of a report, alone."),
    ] = None,
    reports: Reports,
    jobs: JobsOption = None,
    json_file: JsonOption = None,
    then: Annotated[str | None, typer.Option("--then", hidden=True)] = None,
) -> None:
    """Find what a power failure can break in a program; exit 1 if there is such a bug."""
    if then is not None:
        raise PerdureError("--then stands behind the program: -- ./program ARG --then ./other ARG")
    known = reports.known()
    words, recovers = split_then(program)
    subject = checking.Subject(
        machine_of(machine, "ideal", guest, None, Engine.fast),
        words,
        then=recovers,
        checker=_words("--check", judges.check),
        dump=_words("--dump", judges.dump),
        model=model.value,
        seed=seed,
        jobs=jobs or processors(),
    )
    if state is not None:
        once = checking.again(subject, state)
        told(check_reports.lines_again(once), json_file)
        render.write_json(once, json_file)
        finish(0)
    with progress.bar(terminal.errors(), "failure points") as show:
        report = checking.check(
            subject, nested=nested, cuts=cuts, limits=bounds.limits(), progress=show
        )
    tokens.remember(checking.tokens_of(report))
    new = {bug["id"] for bug in report["bugs"]} - known
    reports.write(report, new)
    told(check_reports.lines(report, new), json_file)
    render.write_json(report, json_file)
    finish(int(bool(new)), report["interrupted"])


def _words(option: str, text: str | None) -> list[str]:
    """A guest's command line, as a shell splits it."""
    if text is None:
        return []
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PerdureError(f"{option} {text}: {error}") from error
    if not words:
        raise PerdureError(f"{option} names no program: write it as {option} './program argument'")
    return words

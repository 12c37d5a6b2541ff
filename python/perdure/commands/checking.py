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

from perdure import PerdureError, checking, outputs, progress, render, tables, terminal
from perdure.commands.cutting import split_then
from perdure.commands.shared import finish, machine_of
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

    def write(self, report: Check, new: set[str]) -> None:
        """Writes what is asked for."""
        texts = [(self.sarif, checking.sarif), (self.junit, checking.junit)]
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
        typer.Option("--model", metavar="NAME", help="The persistence model: px86, arm, perdure."),
    ] = Model.px86,
    checker: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="'PROGRAM ARG...'",
            help="Run this guest program on the recovered pool: it has to exit with 0, too.",
        ),
    ] = None,
    dump: Annotated[
        str | None,
        typer.Option(
            "--dump",
            metavar="'PROGRAM ARG...'",
            help="A guest program that recovers and prints what the pool has: as before the "
            "operation under way (perdure_op_begin), or as after it.",
        ),
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(
            "--states", parser=_positive, metavar="N", help="Recoveries, about, then stop."
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="N", help="Or so long.")
    ] = None,
    states_of_a_point: Annotated[
        int | None,
        typer.Option(
            "--states-of-a-point",
            parser=_positive,
            metavar="N",
            help="Recoveries at one failure point; beyond, they are drawn.",
            show_default="500",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            "--patience",
            parser=_positive,
            metavar="INSTRUCTIONS",
            help="A recovery that takes more hangs.",
            show_default="50 times what one takes on the whole pool",
        ),
    ] = None,
    schedules: Annotated[
        int | None,
        typer.Option(
            "--schedules",
            parser=_positive,
            metavar="N",
            help="Orders in which a program's threads take turns.",
            show_default="4",
        ),
    ] = None,
    nested: Annotated[
        bool, typer.Option("--nested/--no-nested", help="Let power fail in recovery, too.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every random choice.")] = 1,
    reports: Reports,
    jobs: JobsOption = None,
    json_file: JsonOption = None,
    then: Annotated[str | None, typer.Option("--then", hidden=True)] = None,
) -> None:
    """Find what a power failure can break in a program; exit 1 if there is such a bug."""
    if then is not None:
        raise PerdureError("--then stands behind the program: -- ./program ARG --then ./other ARG")
    if reports.update_baseline and reports.baseline is None:
        raise PerdureError("--update-baseline: say by --baseline FILE where it is")
    known = checking.known_in(reports.baseline)
    chosen = machine_of(machine, "ideal", guest, None, Engine.fast)
    words, recovers = split_then(program)
    with progress.bar(terminal.errors(), "failure points") as show:
        report = checking.check(
            chosen,
            words,
            model=model.value,
            then=recovers,
            checker=_words("--check", checker),
            dump=_words("--dump", dump),
            nested=nested,
            limits=checking.Limits(states, states_of_a_point, minutes, patience, schedules),
            seed=seed,
            jobs=jobs or processors(),
            progress=show,
        )
    new = {bug["id"] for bug in report["bugs"]} - known
    reports.write(report, new)
    _print(report, new, json_file)
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


def _print(report: Check, new: set[str], json_file: str | None) -> None:
    """The report for a person."""
    console = terminal.tables(json_file)

    def say(text: str, style: str = "") -> None:
        console.print(tables.line(text, style), highlight=False)

    points, states = report["points"], report["states"]
    say(f"{' '.join(report['program'])}: {report['model']}", "bold")
    say(
        f"  {points['explored']:,} of {points['found']:,} failure points, from "
        f"{points['call_stacks']:,} call stacks; {points['exhaustively']:,} of them exhaustively"
    )
    if points["in_recoveries"]:
        say(f"  {points['in_recoveries']:,} failure points of recoveries")
    say(
        f"  {states['run']:,} recoveries that differ, {states['wrong']:,} of them wrong; coverage "
        f"at these points {states['coverage']:.1%}"
    )
    for notice in report["notices"]:
        say(f"  note: {notice}")
    for number, bug in enumerate(report["bugs"], 1):
        known = "" if bug["id"] in new else " (in the baseline)"
        say(f"\nbug {number}{known}: {checking.title(bug)}", "bold red" if not known else "bold")
        for text in checking.lines_of(bug):
            say(f"  {text}")
    if report["unexplained"]:
        say(f"\n{report['unexplained']:,} kinds of failures more, whose causes are not known")
    if report["waste"]:
        say("\nfor nothing:", "bold")
    for row in report["waste"]:
        what = str(row["what"]).replace("-", " ")
        say(f"  {what}, {row['count']:,} times: {checking.where(row['place'])}")
    if not report["bugs"]:
        say("\nno bug found" + ("" if not report["limited"] else ", as far as was looked"))

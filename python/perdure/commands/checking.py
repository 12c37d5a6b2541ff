"""The command `perdure check`: the crash-consistency bugs of a program that uses persistent memory.

Always true here: exit status 1 says that there is a bug that the baseline does not have, or that
recovery goes wrong on the one state that is asked for.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from perdure import (
    PerdureError,
    check_reports,
    check_watch,
    checking,
    outputs,
    progress,
    statuses,
    terminal,
    tokens,
)
from perdure.commands.check_reporting import Reports
from perdure.commands.cutting import split_then
from perdure.commands.shared import finish, machine_of, say, told
from perdure.options import (
    GuestWithCopies,
    JsonOption,
    MachineOption,
    Shared,
    count,
    grouped,
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
    invariant: Annotated[
        Path | None,
        typer.Option(
            "--invariant",
            metavar="FILE.c",
            help="A C function that looks at the recovered pools, in place of --check "
            "(guest/perdure_invariant.h).",
        ),
    ] = None
    operations: Annotated[
        list[str] | None,
        typer.Option(
            "--operations",
            metavar="NAME[,NAME...]",
            help="Calls of these functions are operations, in place of what the program says; "
            "* and ? stand for any letters.",
        ),
    ] = None

    def names(self) -> list[str]:
        """The functions whose calls are operations."""
        names = [name for given in self.operations or () for name in given.split(",")]
        if not all(name.strip() for name in names):
            raise PerdureError("--operations names no function between two commas, or at all")
        return [name.strip() for name in names]


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
    memory: Annotated[
        int | None,
        typer.Option(
            "--memory",
            parser=_positive,
            metavar="MIB",
            help="Recoveries for which there is no room in so much are run again, later.",
        ),
    ] = None
    keep: Annotated[
        Path | None,
        typer.Option(
            "--continue",
            metavar="FILE",
            help="Keep there what was explored; the same command goes on from it.",
        ),
    ] = None

    def limits(self) -> checking.Limits:
        """The same, as calls take it."""
        return checking.Limits(**vars(self))


@dataclass(frozen=True)
class Asked:
    """A check, and what is to be made of what it finds."""

    subject: checking.Subject
    nested: bool
    limits: checking.Limits
    cuts: int | None
    reports: Reports
    json_file: str | None

    def run(self) -> Check:
        """Checks the program as it is now."""
        with progress.bar(terminal.errors(), "failure points") as show:
            report = checking.check(
                self.subject,
                nested=self.nested,
                cuts=self.cuts,
                limits=self.limits,
                progress=show,
            )
        tokens.remember(checking.tokens_of(report))
        return report

    def tell(self, report: Check, before: Check | None = None) -> int:
        """Writes what was found, and says it, first what was not so before; the exit status."""
        new = {bug["id"] for bug in report["bugs"]} - self.reports.known()
        # Files are there when somebody reads that they are, and where nobody reads on.
        with outputs.each() as write:
            self.reports.write(report, new, write)
            write(lambda: outputs.write_json(report, self.json_file))
            if before is not None:
                told(check_watch.difference(before, report), self.json_file)
            told(check_reports.lines(report, new), self.json_file)
        return 2 if check_reports.is_empty(report) else int(bool(new))

    def follow(self) -> NoReturn:
        """Checks the program whenever it was built anew, until Ctrl-C."""
        files = check_watch.watched(self.subject)
        before: Check | None = None
        status = 0
        while True:
            stamps = check_watch.stamps(files)
            try:
                report = self.run()
            except PerdureError as error:
                if before is None or statuses.was_interrupted(error):
                    raise
                # Half a build, or a program that fails: the next one may be better.
                terminal.tell([str(error)])
                status = 2
            else:
                status = self.tell(report, before)
                if report["interrupted"]:
                    finish(status, interrupted=True)
                before = report
            try:
                say(f"waiting for changes of {', '.join(map(str, files))}; Ctrl-C ends it")
                said = ", ".join(map(str, check_watch.changed(files, stamps)))
            except KeyboardInterrupt:
                finish(status)
            say(f"{said} has changed")


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
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again whenever the program was built anew.")
    ] = False,
    shared: Shared,
    json_file: JsonOption = None,
    then: Annotated[str | None, typer.Option("--then", hidden=True)] = None,
) -> None:
    """Find what a power failure can break in a program; exit 1 if there is such a bug."""
    if then is not None:
        raise PerdureError("--then stands behind the program: -- ./program ARG --then ./other ARG")
    reports.refuse()
    if watch and (state is not None or json_file == "-"):
        raise PerdureError("--watch writes a report each time: not of one --state, nor --json -")
    words, recovers = split_then(program)
    subject = checking.Subject(
        replace(machine_of(machine, "ideal", guest, None), pmem=guest.pmem),
        words,
        then=recovers,
        checker=_words("--check", judges.check),
        dump=_words("--dump", judges.dump),
        operations=judges.names(),
        invariant=judges.invariant,
        model=model.value,
        seed=seed,
        **shared.asked(),
    )
    if state is not None:
        once = checking.again(subject, state)
        outputs.write_json(once, json_file)
        told(check_reports.lines_again(once), json_file)
        finish(int(once["wrong"] is not None))
    asked = Asked(subject, nested, bounds.limits(), cuts, reports, json_file)
    if watch:
        asked.follow()
    report = asked.run()
    finish(asked.tell(report), report["interrupted"])


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

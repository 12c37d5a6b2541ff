"""The command `perdure replay`, and what becomes of a failure: printed, as cores, as a page.

Always true here: a failure's page and its core files are of the first failure that is reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from perdure import (
    PerdureError,
    api,
    check_reports,
    checking,
    explanation_page,
    outputs,
    progress,
    reports,
    terminal,
    tokens,
)
from perdure.commands import attaching, shared
from perdure.options import (
    Afterwards,
    CheckOption,
    CheckSecondsOption,
    JsonOption,
    UntilCutOption,
    checker,
    grouped,
)

if TYPE_CHECKING:
    from perdure.explained import Explanation


@dataclass(frozen=True)
class Explained:
    """Where the first failure's explanation goes, beside the terminal."""

    cores: Annotated[
        Path | None,
        typer.Option(
            "--cores",
            metavar="DIR",
            help="Write two core files of the first failure for gdb: expected.core, found.core.",
        ),
    ] = None
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the first failure as a page, too."),
    ] = None

    def __post_init__(self) -> None:
        """Refuses what could not be written at the end."""
        if self.html is not None:
            outputs.check_file(self.html, "--html")
        if self.cores is not None:
            outputs.check_folder(self.cores, "--cores", files=("expected.core", "found.core"))


@grouped
def replay(
    token: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN",
            help="The token that a report printed for a cut or a bug, or its short name.",
        ),
    ],
    check: CheckOption = None,
    check_seconds: CheckSecondsOption = None,
    until_cut: UntilCutOption = False,
    json_file: JsonOption = None,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Debug it: gdb stands where the power fails next."),
    ] = False,
    *,
    debugger: attaching.Debugger,
    explained: Explained,
) -> None:
    """Repeat exactly the power cut that a token names, and explain it if it fails.

    Of a bug of perdure check, recovery runs on its state again.
    """
    more = {
        "--check": check is not None,
        "--check-seconds": check_seconds is not None,
        "--until-cut": until_cut,
        "--cores": explained.cores is not None,
        "--html": explained.html is not None,
    }
    given = [option for option, is_given in more.items() if is_given]
    if debug or debugger.starts_gdb:
        given += ["--json"] if json_file is not None else []
        if given:
            raise PerdureError(
                f"{', '.join(given)}: a cut that is debugged is not judged, and nothing is written "
                "of it; leave out what debugs, or these"
            )
        debug_token(tokens.full(token), debugger)
    if tokens.is_of_check(tokens.full(token)):
        if given:
            raise PerdureError(
                f"{', '.join(given)}: for tokens of cuts; this one is of a check, and knows what "
                "judges it"
            )
        _recover_again(tokens.full(token), json_file)
    with progress.bar(terminal.errors(), "replay") as show:
        report = api.replay(
            tokens.full(token),
            check=checker(check),
            check_seconds=check_seconds,
            cores=explained.cores,
            until_cut=until_cut,
            progress=show,
        )
    made, now = (report.raw.get(key) for key in ("made_by_build", "build"))
    if made != now:
        terminal.tell(
            [
                f"the token was made by build {made}, and this is {now}: "
                "what is cut may be another moment of the run"
            ]
        )
    finish(report, json_file, explained)


def _recover_again(token: str, json_file: str | None) -> NoReturn:
    """Lets recovery run on the state of a check's bug once more; status 1 if it goes wrong."""
    once = checking.replay(token)
    outputs.write_json(once, json_file)
    shared.told(check_reports.lines_again(once), json_file)
    shared.finish(int(once["wrong"] is not None))


def debug_token(token: str, debugger: attaching.Debugger) -> NoReturn:
    """Debugs a cut; or, of a check's bug, what recovers, on the pools of the bug's state."""
    if not tokens.is_of_check(token):
        attaching.serve({"token": token}, debugger)
    with tempfile.TemporaryDirectory(prefix="perdure-state-") as pools:
        once = checking.replay(token, Path(pools))
        attaching.serve({"request": once["request"]}, debugger)


def with_cores(token: str, cores: Path, afterwards: Afterwards | None = None) -> Explanation | None:
    """Makes a failure again for its core files; returns its explanation, which names them.

    None where that fails in its turn, which is told: what was found stays to be reported.
    """
    judged: dict[str, Any] = {}
    if afterwards is not None:
        judged["check"] = checker(afterwards.check)
        judged["check_seconds"] = afterwards.check_seconds
    with progress.bar(terminal.errors(), "core files") as show:
        try:
            again = api.replay(token, **judged, cores=cores, progress=show)
        except PerdureError as error:
            terminal.tell([f"there are no core files of the failure: {error}"])
            return None
    return cast("Explanation | None", again.results[0].raw.get("explanation"))


def _with_cores(
    report: api.CutReport, explained: Explained, afterwards: Afterwards
) -> api.CutReport:
    """Makes the first failure of a report again, for its core files, where these are wanted."""
    bad = next((one for one in report.results if not one.verified), None)
    if explained.cores is None or bad is None:
        return report
    made = with_cores(bad.token, explained.cores, afterwards)
    results = [
        {**one, "explanation": made} if made and one["token"] == bad.token else one
        for one in report.raw["results"]
    ]
    return api.CutReport.from_json({**report.raw, "results": results})


def finish(
    report: api.CutReport,
    json_file: str | None,
    explained: Explained,
    afterwards: Afterwards | None = None,
    refused: Sequence[str] = (),
) -> NoReturn:
    """Writes and prints a report of cuts (a campaign with its `afterwards`), exits accordingly.

    Raises:
        PerdureError: what was `refused` before, or is now, when all else is written.
    """
    if afterwards is not None:
        report = _with_cores(report, explained, afterwards)
    tokens.remember(result.token for result in reports.shown(report))
    # What was lost without a promise is no failure of the command, and explained as well.
    bad = next((one for one in report.results if not one.verified), None)
    failure = None if bad is None else bad.raw
    with outputs.each(refused) as each:
        each(lambda: write(explained, lambda: explanation_page.of_report(report.raw), failure))
        each(lambda: outputs.write_json(report.raw, json_file))
        terminal.tables(json_file).print(reports.cut(report), crop=False)
    shared.finish(int(report.failed > 0), report.interrupted)


NOT_EXPLAINED = "the failure is not one of memory at a cut"
"""Why there is nothing to write of a failure, as where the design broke its contract."""


def write(
    explained: Explained, page: Callable[[], str | None], failure: Mapping[str, Any] | None
) -> None:
    """Writes the page of a failure, where it is wanted; says what is wanted and not there."""
    wanted = {"--html": explained.html, "--cores": explained.cores}
    if failure is None and any(wanted.values()):
        options = " and ".join(option for option, place in wanted.items() if place is not None)
        terminal.tell([f"nothing failed, so there is nothing for {options} to write"])
    if failure is None:
        return
    if explained.html is not None:
        _write_page(explained.html, page())
    explanation = failure.get("explanation")
    if explained.cores is not None and not (explanation and explanation["cores"]):
        terminal.tell([f"{NOT_EXPLAINED}, so --cores wrote no core files"])


def _write_page(file: Path, text: str | None) -> None:
    """Writes the page of a failure, if there is one."""
    if text is None:
        terminal.tell([f"{NOT_EXPLAINED}, so --html wrote no page"])
        return
    outputs.write_result(file, text, "--html")

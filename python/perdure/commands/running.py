"""The commands that run a program with the power on: `run` and `replicate`.

Always true here: a program's output and exit status are passed through, and what this command says
goes to standard error; with `--json -` the program's output does, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from perdure import PerdureError, endings, outputs, progress, replication, statuses, terminal
from perdure.api import RunResult
from perdure.commands.shared import (
    Program,
    despite_folder,
    finish,
    finish_run,
    machine_of,
    programs,
)
from perdure.options import (
    DEFAULT_ENGINE,
    DesignOption,
    EngineOption,
    FilesOption,
    Guest,
    GuestWithPools,
    JsonOption,
    MachineOption,
    Measured,
    OutOption,
    ProbeCutsOption,
    Repeated,
    StopAfterOption,
    WriteThroughOption,
    count,
    grouped,
)


@dataclass(frozen=True)
class Kept:
    """What is kept of a run, and where."""

    out: OutOption = None
    files: FilesOption = None
    write_through: WriteThroughOption = None

    def asked(self) -> dict[str, Any]:
        """The same, as `api.Machine.run` takes it."""
        return {**vars(self), "write_through": self.write_through or ()}

    def told(
        self, result: RunResult, json_file: str | None, pmem: Path | None = None
    ) -> Iterator[str]:
        """What a run that Ctrl-C ended has left, and where."""
        through = self.write_through or ()
        yield from endings.kept(result, self.out, self.files, json_file, through, pmem)


@dataclass(frozen=True)
class Watched:
    """What is looked at more closely in a run."""

    watch: Annotated[
        list[str] | None,
        typer.Option(
            "--watch",
            metavar="SYMBOL|ADDRESS[:BYTES]",
            help="A store there starts a burst of short epochs.",
        ),
    ] = None
    burst_stores: Annotated[
        int | None,
        typer.Option(
            "--burst-stores",
            parser=count,
            metavar="STORES",
            help="Stores in an epoch of a burst.",
            show_default="10000 with --watch",
        ),
    ] = None
    burst_instructions: Annotated[
        int | None,
        typer.Option(
            "--burst-instructions",
            parser=count,
            metavar="INSTRUCTIONS",
            help="How long a burst lasts.",
            show_default="10000000",
        ),
    ] = None
    sample_cycles: Annotated[
        int | None,
        typer.Option(
            "--sample-cycles",
            parser=count,
            metavar="CYCLES",
            help="Note every so many cycles what was written (series in --json).",
        ),
    ] = None

    def asked(self) -> dict[str, Any]:
        """The same, as `api.Machine.run` takes it."""
        return {**vars(self), "watch": self.watch or ()}


@grouped
def run(
    program: Program,
    machine: MachineOption = "picl",
    design: DesignOption = "picl",
    *,
    guest: GuestWithPools,
    stop_after: StopAfterOption = None,
    repeated: Repeated,
    measured: Measured,
    engine: EngineOption = DEFAULT_ENGINE,
    json_file: JsonOption = None,
    kept: Kept,
    snapshots: Annotated[
        Path | None,
        typer.Option(
            "--snapshots", metavar="DIR", help="Keep the run's snapshots, for perdure travel."
        ),
    ] = None,
    watched: Watched,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="Draw the run's timeline (perdure trace says more)."
        ),
    ] = None,
    probe_cuts: ProbeCutsOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every statistic at the end.")
    ] = False,
) -> None:
    """Run a program; its output and exit status are passed through."""
    if trace is not None:
        outputs.check_file(trace, "--trace")
    chosen = machine_of(machine, design, guest, kept.out, engine)
    with (
        programs(program) as asked,
        terminal.guests(json_file),
        progress.status_line() as show,
    ):
        result, refused = despite_folder(
            chosen.run,
            RunResult.from_json,
            **asked,
            repeat=repeated.repeat,
            **asdict(measured),
            stop_after=stop_after,
            **kept.asked(),
            snapshots=snapshots,
            **watched.asked(),
            trace=trace,
            probe_cuts=probe_cuts,
            passthrough=True,
            progress=show,
        )
    with outputs.each(refused) as write:
        write(lambda: outputs.write_json(result.raw, json_file))
        if verbose:
            from perdure import render

            terminal.errors().print(render.run(result), render.statistics(result))
        if result.cut_cost is not None:
            from perdure import reports

            terminal.errors().print(reports.cut_costs({result.design: result.cut_cost}))
        terminal.tell([*endings.ending(result), *kept.told(result, json_file, guest.pmem)])
    finish_run(result)


def _send_on(source: Path, to: str, secret_file: Path | None, json_file: str | None) -> NoReturn:
    """Sends what a replica holds to another one."""
    with progress.bar(terminal.errors(), "copying epochs") as show:
        answer = replication.replicate(source, to, secret_file=secret_file, report=show)
    outputs.write_json(answer, json_file)
    sent = answer["epochs_sent"]
    terminal.tell([f"replica {to}: {sent} epochs sent, up to {answer['epoch']}"])
    finish(0)


@grouped
def replicate(
    to: Annotated[
        str,
        typer.Option("--to", metavar="DIR|HOST:PORT", help="A folder, or a replica that listens."),
    ],
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- PROGRAM ARG...", help="What to run.", show_default=False),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Run nothing: send what this replica holds."),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option("--secret-file", metavar="FILE", help="The secret that the replica has."),
    ] = None,
    patience: Annotated[
        int,
        typer.Option(
            "--patience",
            min=0,
            metavar="SECONDS",
            help="How long the end of the run waits for a replica that is away.",
        ),
    ] = 10,
    machine: MachineOption = "nvoverlay",
    design: DesignOption = "nvoverlay",
    *,
    guest: Guest,
    stop_after: StopAfterOption = None,
    engine: EngineOption = DEFAULT_ENGINE,
    json_file: JsonOption = None,
    kept: Kept,
) -> None:
    """Run a program and copy each epoch that becomes recoverable to a replica.

    Exits as the program does, or with 2 if the replica lacks epochs at the end.
    """
    if source is not None:
        if program:
            raise PerdureError("--from sends what a replica holds: it takes no program")
        _send_on(source, to, secret_file, json_file)
    chosen = machine_of(machine, design, guest, kept.out, engine)
    with (
        programs(program or []) as asked,
        terminal.guests(json_file),
        progress.status_line() as show,
    ):
        result, refused = despite_folder(
            chosen.run,
            RunResult.from_json,
            **asked,
            stop_after=stop_after,
            **kept.asked(),
            replicate_to=to,
            secret_file=secret_file,
            patience=patience,
            passthrough=True,
            progress=show,
        )
    with outputs.each(refused) as write:
        write(lambda: outputs.write_json(result.raw, json_file))
        terminal.tell([*endings.ending(result), *kept.told(result, json_file)])
    lacking = result.raw["replication"]["trouble"] is not None
    if lacking:
        finish(statuses.REFUSED, result.interrupted)
    finish_run(result)

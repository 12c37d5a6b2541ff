"""The command `trace`: a run whose timeline is drawn.

Always true here: the run is the one that `perdure run` makes of the same options.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from perdure import endings, outputs, progress, terminal, timelines
from perdure.commands.running import Watched
from perdure.commands.shared import Program, finish_run, machine_of, names, programs
from perdure.options import (
    DEFAULT_ENGINE,
    DesignOption,
    EngineOption,
    GuestWithPools,
    JsonOption,
    MachineOption,
    Measured,
    Repeated,
    StopAfterOption,
    WriteThroughOption,
    count,
    grouped,
)

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def one_in(text: str) -> int:
    """The N of 1/N."""
    found = re.fullmatch(r"1/([1-9][0-9]*)", text)
    if found is None:
        raise typer.BadParameter(f"'{text}' is not 1/N, as in 1/100")
    return int(found[1])


def size(text: str) -> int:
    """Bytes, or as in 256MiB."""
    found = re.fullmatch(r"([0-9]+)(KiB|MiB|GiB|)", text)
    if found is None:
        raise typer.BadParameter(f"'{text}' is no size, as in 256MiB")
    return int(found[1]) * UNITS[found[2]]


@dataclass(frozen=True)
class Traced:
    """What is traced, and where it goes."""

    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="The trace: .pftrace or .json, perhaps with .gz behind."
        ),
    ] = Path("trace.pftrace")
    from_cycle: Annotated[
        int | None,
        typer.Option("--from", parser=count, metavar="CYCLE", help="Trace from this cycle on."),
    ] = None
    to_cycle: Annotated[
        int | None,
        typer.Option("--to", parser=count, metavar="CYCLE", help="Trace what is before this one."),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option("--sample", parser=one_in, metavar="1/N", help="Keep one window in N."),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(
            "--window",
            parser=count,
            metavar="CYCLES",
            help="How long a window is.",
            show_default="100000",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-bytes",
            parser=size,
            metavar="SIZE",
            help="Stop tracing, and go on running, when the file has so many.",
            show_default="1GiB",
        ),
    ] = None
    tracks: Annotated[
        list[str] | None,
        typer.Option(
            "--tracks", metavar="A,B,...", help=f"Only some of: {', '.join(timelines.KINDS)}."
        ),
    ] = None

    persist_order: Annotated[
        Path | None,
        typer.Option(
            "--persist-order",
            metavar="FILE.parquet",
            help="Also every write of the run to persistent media, in the order of durability.",
        ),
    ] = None
    champsim: Annotated[
        Path | None,
        typer.Option(
            "--champsim", metavar="FILE.xz", help="Also the instructions, as ChampSim reads them."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuses what could not be written at the end."""
        for option, file in (
            ("--out", self.out),
            ("--persist-order", self.persist_order),
            ("--champsim", self.champsim),
        ):
            if file is not None:
                outputs.check_file(file, option)

    def asked(self) -> timelines.Timeline:
        """The same, as `api.Machine.run` takes it."""
        given = None if self.tracks is None else names(self.tracks, "", "--tracks", "harts,epochs")
        return timelines.Timeline(
            file=self.out,
            from_cycle=self.from_cycle,
            to_cycle=self.to_cycle,
            sample=self.sample,
            window_cycles=self.window,
            max_bytes=self.max_bytes,
            tracks=given or (),
            persist_order=self.persist_order,
            champsim=self.champsim,
        )


@grouped
def trace(
    program: Program,
    machine: MachineOption = "picl",
    design: DesignOption = "picl",
    *,
    traced: Traced,
    guest: GuestWithPools,
    stop_after: StopAfterOption = None,
    repeated: Repeated,
    measured: Measured,
    engine: EngineOption = DEFAULT_ENGINE,
    json_file: JsonOption = None,
    files: Annotated[
        Path | None, typer.Option("--files", metavar="DIR", help="Keep the guest's files.")
    ] = None,
    write_through: WriteThroughOption = None,
    watched: Watched,
) -> None:
    """Run a program and draw what the machine does, for the Perfetto viewer."""
    chosen = machine_of(machine, design, guest, None, engine)
    with (
        programs(program) as asked,
        terminal.guests(json_file),
        progress.status_line() as show,
    ):
        result = chosen.run(
            **asked,
            repeat=repeated.repeat,
            **asdict(measured),
            stop_after=stop_after,
            files=files,
            write_through=write_through or (),
            **watched.asked(),
            trace=traced.asked(),
            passthrough=True,
            progress=show,
        )
    outputs.write_json(result.raw, json_file)
    left = endings.kept(result, None, files, json_file, write_through or ())
    terminal.tell([*endings.ending(result), *left])
    finish_run(result)

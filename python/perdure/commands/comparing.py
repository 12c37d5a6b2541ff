"""The commands that compare designs: `compare`, `sweep`, `reproduce` and `sensitivity`.

Always true here: what is finished when Ctrl-C comes is printed and written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from perdure import (
    PerdureError,
    api,
    completion,
    experiments,
    outputs,
    pools,
    progress,
    render,
    reproductions,
    sweeps,
    terminal,
)
from perdure.commands.shared import Program, despite_folder, finish, names, programs, say
from perdure.options import (
    DEFAULT_ENGINE,
    DesignsOption,
    EngineOption,
    GuestWithCopies,
    JsonOption,
    MachineOption,
    Measured,
    OnlyDesignOption,
    OnlyPlaceOption,
    OnlySubjectOption,
    OutOption,
    ProbeCutsOption,
    Repeated,
    SchedulerOption,
    StopAfterOption,
    SysrootOption,
    WorkersOption,
    grouped,
)

DESIGNS = "ideal,picl"
"""What is compared if nobody says it; the first is the measure."""


@grouped
def compare(
    program: Program,
    design: DesignsOption = None,
    machine: MachineOption = "picl",
    *,
    guest: GuestWithCopies,
    stop_after: StopAfterOption = None,
    engine: EngineOption = DEFAULT_ENGINE,
    probe_cuts: Annotated[
        bool,
        typer.Option(
            "--probe-cuts/--no-probe-cuts",
            help="Measure what power cuts would cost, at random moments of each run.",
        ),
    ] = True,
    json_file: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Run one program under several designs; exit 1 if its exit status differs between them."""
    designs = names(design, DESIGNS, "--design", DESIGNS)
    if out is not None:
        from perdure import figures

        outputs.check_folder(out, files=("result.json", "compare.png", "compare.html"))
        for name in designs:
            outputs.check_folder(out / name, files=api.KEPT)
    world = guest.world(out)
    results: list[api.RunResult] = []
    refused: list[str] = []
    with programs(program) as asked, progress.bar(terminal.errors(), "compare") as show:
        for name in designs:
            chosen = api.Machine(
                machine=machine, design=name, set=guest.set_ or (), engine=engine.value, **world
            )
            folder = None if out is None else out / name
            with pools.copied(guest.pmem) as pmem:
                result, not_kept = despite_folder(
                    replace(chosen, pmem=pmem).run,
                    api.RunResult.from_json,
                    **asked,
                    stop_after=stop_after,
                    probe_cuts=probe_cuts,
                    out=folder,
                    progress=show,
                )
            results.append(result)
            refused += not_kept
            if results[-1].interrupted:
                break
    document = {"program": program, "results": [result.raw for result in results]}
    with outputs.each(refused) as write:
        if out is not None:
            write(lambda: outputs.store(out, "result.json", json.dumps(document, indent=2)))
            figure = figures.cost(results, Path(program[0]).name)
            write(lambda: _say_where(figures.save(figure, out / "compare")))
        write(lambda: outputs.write_json(document, json_file))
        terminal.tables(json_file).print(render.compare(results), crop=False)
    differ = len({result.exit_code for result in results}) > 1
    finish(int(differ), results[-1].interrupted)


def _say_where(paths: Iterable[Path]) -> None:
    say("figure: " + " and ".join(map(str, paths)))


@grouped
def sweep(
    program: Program,
    design: DesignsOption = None,
    machine: MachineOption = "picl",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=A,B,...",
            help="Values of the configuration to try; repeatable.",
            autocompletion=completion.keys,
        ),
    ] = None,
    *,
    guest: GuestWithCopies,
    stop_after: StopAfterOption = None,
    repeated: Repeated,
    measured: Measured,
    probe_cuts: ProbeCutsOption = False,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Results, figures, a report, and finished points."
        ),
    ] = sweeps.OUT,
    json_file: JsonOption = None,
) -> None:
    """Run a program for all designs × values; exit 1 if a point failed."""
    with programs(program) as asked, progress.points(terminal.errors(), "sweep") as watch:
        done = sweeps.sweep(
            **asked,
            designs=names(design, DESIGNS, "--design", DESIGNS),
            set=_choices(set_ or ()),
            machine=machine,
            **guest.world(out),
            pmem=guest.pmem,
            repeat=repeated.repeat,
            **asdict(measured),
            stop_after=stop_after,
            probe_cuts=probe_cuts,
            out=out,
            scheduler=scheduler,
            workers=workers,
            watch=watch,
            say=say,
        )
    outputs.write_json(
        {"points": done.data.to_dicts(), "failures": done.failures.to_dicts()}, json_file
    )
    terminal.tables(json_file).print(render.sweep(done), crop=False)
    say(f"kept: {done.out / 'results.parquet'}, and figures in {done.out / 'figures'}")
    say(f"report: {done.report}")
    finish(int(len(done.failures) > 0), done.interrupted)


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help=f"The paper: {', '.join(experiments.papers())}.",
            autocompletion=completion.papers,
        ),
    ],
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIGURE]...",
            help="Of its experiments, as perdure list papers has them, for instance fig9; all.",
            autocompletion=completion.figures,
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's own lengths, or a scaled machine.")
    ] = False,
    subject: OnlySubjectOption = None,
    design: OnlyDesignOption = None,
    at: OnlyPlaceOption = None,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    sysroot: SysrootOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Everything.", show_default="out/PAPER-SCALE"),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run a paper's experiments and judge its claims; exit 1 if a point failed."""
    with progress.points(terminal.errors(), paper) as watch:
        done = reproductions.reproduce(
            paper,
            figures or (),
            scale="full" if full else "quick",
            subjects=subject or (),
            designs=[] if design is None else names(design, "", "--design", "picl"),
            at=at or (),
            out=out,
            scheduler=scheduler,
            workers=workers,
            sysroot=sysroot,
            watch=watch,
            say=say,
        )
    outputs.write_json(done.results, json_file)
    terminal.tables(json_file).print(render.reproduction(done), crop=False)
    say(f"report: {done.report}")
    finish(int(len(done.failures) > 0), done.interrupted)


def sensitivity(
    preset: Annotated[
        str,
        typer.Argument(
            metavar="PRESET",
            help=f"The machine: {', '.join(experiments.presets_varied())}.",
            autocompletion=completion.presets_varied,
        ),
    ],
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Everything.", show_default="out/PRESET-sensitivity"
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Vary what a paper leaves open of its machine, a key at a time; exit 1 if a point failed."""
    from perdure.experiments import sensitivity as tables

    with progress.points(terminal.errors(), preset) as watch:
        done = tables.run(
            preset,
            Path(f"out/{preset}-sensitivity") if out is None else out,
            scheduler=scheduler,
            workers=workers,
            watch=watch,
            say=say,
        )
    outputs.write_json(done.table, json_file)
    terminal.tables(json_file).print(render.sensitivity(done), crop=False)
    finish(int(len(done.failures) > 0), done.interrupted)


def _choices(assignments: Sequence[str]) -> dict[str, list[str]]:
    """`KEY=A,B` texts as the values of each key."""
    chosen: dict[str, list[str]] = {}
    for text in assignments:
        key, equals, listed = text.partition("=")
        found = [value for value in listed.split(",") if value]
        if not (key and equals and found):
            raise PerdureError(f"--set {text}: write KEY=VALUE, or KEY=A,B,... for several")
        chosen.setdefault(key, []).extend(found)
    for key, values in chosen.items():
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise PerdureError(f"--set {key} names {twice} twice: name each once")
    return chosen

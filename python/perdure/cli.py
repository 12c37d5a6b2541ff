"""The command `perdure`.

Always true here: a command parses its options, makes one call of `perdure.api`, and prints what
came back. Exit status 0 means that all is well, 1 that a promise was broken, 2 that the request
cannot be carried out (one message on standard error), 130 that Ctrl-C ended it after the finished
results were written; `run` exits as the guest's program did.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn, TypedDict

import typer
from rich.console import Console
from rich.syntax import Syntax

import perdure
from perdure import (
    PerdureError,
    api,
    bench,
    hunting,
    litmus,
    outputs,
    pools,
    progress,
    render,
    replays,
    replication,
    reports,
    reproductions,
    sweeps,
    travel,
    workloads,
)
from perdure.options import (
    Afterwards,
    DesignOption,
    Engine,
    EngineOption,
    FilesOption,
    Guest,
    GuestWithCopies,
    GuestWithPools,
    HartsOption,
    JobsOption,
    JsonOption,
    MachineOption,
    Measured,
    OnlyDesignOption,
    OnlyPlaceOption,
    OnlySubjectOption,
    OutOption,
    PlantedBugOption,
    ProbeCutsOption,
    Repeated,
    Schedule,
    SchedulerOption,
    SetOption,
    Shared,
    StopAfterOption,
    SysrootOption,
    WorkersOption,
    WriteThroughOption,
    count,
    grouped,
    processors,
    split_then,
)

INTERRUPTED = 130

app = typer.Typer(
    help="A computer whose memory survives losing power: run a program on it, cut the power, and "
    "see what comes back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench.app, name="bench")
app.add_typer(travel.app, name="travel")
app.add_typer(replication.app, name="replica")
app.command()(litmus.litmus)
app.command()(replays.replay)

stderr = Console(stderr=True)


class Listed(str, Enum):
    """What can be listed."""

    designs = "designs"
    machines = "machines"
    workloads = "workloads"


Program = Annotated[
    list[str],
    typer.Argument(
        metavar="-- PROGRAM ARG... [-- PROGRAM ARG...]...",
        help="A RISC-V Linux program, or several that run at once, on a hart each.",
    ),
]
GUEST_CONTEXT = {"allow_interspersed_args": False}


@app.command(context_settings=GUEST_CONTEXT)
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
    engine: EngineOption = Engine.fast,
    json_file: JsonOption = None,
    out: OutOption = None,
    files: FilesOption = None,
    write_through: WriteThroughOption = None,
    snapshots: Annotated[
        Path | None,
        typer.Option(
            "--snapshots", metavar="DIR", help="Keep the run's snapshots, for perdure travel."
        ),
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option(
            "--watch",
            metavar="SYMBOL|ADDRESS[:BYTES]",
            help="A store there starts a burst of short epochs.",
        ),
    ] = None,
    burst_stores: Annotated[
        int | None,
        typer.Option(
            "--burst-stores",
            parser=count,
            metavar="STORES",
            help="Stores in an epoch of a burst.  [default: 10000 with --watch]",
        ),
    ] = None,
    burst_instructions: Annotated[
        int | None,
        typer.Option(
            "--burst-instructions",
            parser=count,
            metavar="INSTRUCTIONS",
            help="How long a burst lasts.  [default: 10000000]",
        ),
    ] = None,
    sample_cycles: Annotated[
        int | None,
        typer.Option(
            "--sample-cycles",
            parser=count,
            metavar="CYCLES",
            help="Note every so many cycles what was written (series in --json).",
        ),
    ] = None,
    probe_cuts: ProbeCutsOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every statistic at the end.")
    ] = False,
) -> None:
    """Run a program; its output and exit status are passed through."""
    chosen = _machine(machine, design, guest, out, engine)
    with progress.status_line() as show:
        result = chosen.run(
            **_programs(program),
            repeat=repeated.repeat,
            **asdict(measured),
            stop_after=stop_after,
            out=out,
            files=files,
            write_through=write_through or (),
            snapshots=snapshots,
            watch=watch or (),
            burst_stores=burst_stores,
            burst_instructions=burst_instructions,
            sample_cycles=sample_cycles,
            probe_cuts=probe_cuts,
            passthrough=True,
            progress=show,
        )
    render.write_json(result.raw, json_file)
    if verbose:
        stderr.print(render.run(result), render.statistics(result))
    if result.cut_cost is not None:
        stderr.print(reports.cut_costs({result.design: result.cut_cost}))
    for line in render.ending(result):
        print(f"perdure: {line}", file=sys.stderr)
    _exit(result.exit_code or 0, result.interrupted)


@app.command(context_settings=GUEST_CONTEXT)
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
    engine: EngineOption = Engine.fast,
    json_file: JsonOption = None,
    out: OutOption = None,
    files: FilesOption = None,
    write_through: WriteThroughOption = None,
) -> None:
    """Run a program and copy each epoch that becomes recoverable to a replica.

    Exits as the program does, or with 2 if the replica lacks epochs at the end.
    """
    if source is not None:
        if program:
            raise PerdureError("--from sends what a replica holds: it takes no program")
        with progress.bar(stderr, "copying epochs") as show:
            answer = replication.replicate(source, to, secret_file=secret_file, report=show)
        render.write_json(answer, json_file)
        sent = answer["epochs_sent"]
        print(
            f"perdure: replica {to}: {sent} epochs sent, up to {answer['epoch']}", file=sys.stderr
        )
        _exit(0)
    chosen = _machine(machine, design, guest, out, engine)
    with progress.status_line() as show:
        result = chosen.run(
            **_programs(program or []),
            stop_after=stop_after,
            out=out,
            files=files,
            write_through=write_through or (),
            replicate_to=to,
            secret_file=secret_file,
            patience=patience,
            passthrough=True,
            progress=show,
        )
    render.write_json(result.raw, json_file)
    for line in render.ending(result):
        print(f"perdure: {line}", file=sys.stderr)
    lacking = result.raw["replication"]["trouble"] is not None
    _exit(2 if lacking else result.exit_code or 0, result.interrupted)


@app.command(context_settings=GUEST_CONTEXT)
@grouped
def cut(
    program: Program,
    machine: MachineOption = "picl",
    design: DesignOption = "picl",
    *,
    guest: GuestWithPools,
    stop_after: StopAfterOption = None,
    repeated: Repeated,
    engine: EngineOption = Engine.fast,
    json_file: JsonOption = None,
    out: OutOption = None,
    at: Annotated[
        int | None,
        typer.Option("--at", parser=count, metavar="CYCLE", help="Cut once, exactly here."),
    ] = None,
    cuts: Annotated[
        int | None, typer.Option("--cuts", min=1, help="How many cuts.  [default: 100]")
    ] = None,
    schedule: Annotated[
        Schedule, typer.Option("--schedule", help="How their moments are chosen.")
    ] = Schedule.random,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every random choice.")] = 1,
    during_recovery: Annotated[
        bool, typer.Option("--during-recovery", help="Cut recovery itself, too.")
    ] = False,
    replica: Annotated[
        bool,
        typer.Option("--replica", help="Follow with a replica; judge what each cut leaves there."),
    ] = False,
    afterwards: Afterwards,
    shared: Shared,
    planted_bug: PlantedBugOption = None,
    explained: replays.Explained,
    write_through: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
) -> None:
    """Cut the power, recover from what survived, and judge; exit 1 if a promise was broken."""
    if write_through:
        raise PerdureError(
            "--write-through: a program whose power is cut runs many times over, so the host is "
            "read-only to it; leave the option out"
        )
    if at is not None and cuts is not None:
        raise PerdureError("--at names the one cut and --cuts a number of them: give one of both")
    chosen = _machine(machine, design, guest, out, engine)
    program, then = split_then(program)
    with progress.bar(stderr, "power cuts") as show:
        report = chosen.cut(
            **_programs(program),
            repeat=repeated.repeat,
            at=at,
            cuts=cuts or 100,
            schedule=schedule.value,
            seed=seed,
            during_recovery=during_recovery,
            replica=replica,
            then=then,
            **afterwards.asked(),
            **shared.asked(),
            planted_bug=planted_bug,
            stop_after=stop_after,
            out=out,
            progress=show,
        )
    if guest.stdin == "-" and out is None:
        print(
            "perdure: the standard input that these cuts' tokens need is not kept; "
            "--out DIR keeps it",
            file=sys.stderr,
        )
    replays.finish(report, json_file, explained, afterwards)


@app.command(context_settings=GUEST_CONTEXT)
@grouped
def compare(
    program: Program,
    designs: Annotated[
        str, typer.Option("--designs", metavar="A,B,...", help="The first is the measure.")
    ] = "ideal,picl",
    machine: MachineOption = "picl",
    *,
    guest: GuestWithCopies,
    stop_after: StopAfterOption = None,
    engine: EngineOption = Engine.fast,
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
    names = [name for name in designs.split(",") if name]
    if not names:
        raise PerdureError("--designs names no design: give some, as in --designs ideal,picl")
    if out is not None:
        outputs.check_folder(out, files=("result.json", "compare.png", "compare.html"))
        for name in names:
            outputs.check_folder(out / name, files=api.KEPT)
    world = guest.world(out)
    results: list[api.RunResult] = []
    with progress.bar(stderr, "compare") as show:
        for name in names:
            chosen = api.Machine(
                machine=machine, design=name, set=guest.set_ or (), engine=engine.value, **world
            )
            folder = None if out is None else out / name
            with pools.copied(guest.pmem) as pmem:
                results.append(
                    replace(chosen, pmem=pmem).run(
                        **_programs(program),
                        stop_after=stop_after,
                        probe_cuts=probe_cuts,
                        out=folder,
                        progress=show,
                    )
                )
            if results[-1].interrupted:
                break
    _console(json_file).print(render.compare(results))
    document = {"program": program, "results": [result.raw for result in results]}
    render.write_json(document, json_file)
    if out is not None:
        from perdure import figures

        outputs.store(out, "result.json", json.dumps(document, indent=2))
        paths = figures.save(figures.cost(results, Path(program[0]).name), out / "compare")
        stderr.print("figure: " + " and ".join(map(str, paths)), highlight=False)
    differ = len({result.exit_code for result in results}) > 1
    _exit(int(differ), results[-1].interrupted)


@app.command(context_settings=GUEST_CONTEXT)
@grouped
def sweep(
    program: Program,
    designs: Annotated[
        str, typer.Option("--design", metavar="A,B,...", help="The first is the measure.")
    ] = "ideal,picl",
    machine: MachineOption = "picl",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=A,B,...", help="Values of the configuration to try."),
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
        Path, typer.Option("--out", metavar="DIR", help="Results, figure, and finished points.")
    ] = sweeps.OUT,
    json_file: JsonOption = None,
) -> None:
    """Run a program for all designs × values; exit 1 if a point failed."""
    with progress.points(stderr, "sweep") as watch:
        done = sweeps.sweep(
            **_programs(program),
            designs=[name for name in designs.split(",") if name],
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
            say=lambda line: stderr.print(line, highlight=False, markup=False, soft_wrap=True),
        )
    _console(json_file).print(render.sweep(done))
    render.write_json(
        {"points": done.data.to_dicts(), "failures": done.failures.to_dicts()}, json_file
    )
    kept = [str(path) for path in (done.out / "results.parquet", *done.figures)]
    stderr.print("kept: " + " and ".join(kept), highlight=False, markup=False, soft_wrap=True)
    _exit(int(len(done.failures) > 0), done.interrupted)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="The paper: picl, nvoverlay, flush, spms.")],
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIGURE]...", help="Of its experiments, for instance fig9; all."),
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
        typer.Option("--out", metavar="DIR", help="Everything.  [default: out/PAPER-SCALE]"),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run a paper's experiments and judge its claims; exit 1 if a point failed."""
    with progress.points(stderr, paper) as watch:
        done = reproductions.reproduce(
            paper,
            figures or (),
            scale="full" if full else "quick",
            subjects=subject or (),
            designs=design or (),
            at=at or (),
            out=out,
            scheduler=scheduler,
            workers=workers,
            sysroot=sysroot,
            watch=watch,
            say=lambda line: stderr.print(line, highlight=False, markup=False, soft_wrap=True),
        )
    _console(json_file).print(render.reproduction(done))
    render.write_json(done.results, json_file)
    stderr.print(f"report: {done.report}", highlight=False, markup=False, soft_wrap=True)
    _exit(int(len(done.failures) > 0), done.interrupted)


@app.command()
def sensitivity(
    preset: Annotated[str, typer.Argument(help="The machine: picl or nvoverlay.")],
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Everything.  [default: out/PRESET-sensitivity]"),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Vary what a paper leaves open of its machine, a key at a time; exit 1 if a point failed."""
    from perdure.experiments import sensitivity as tables

    with progress.points(stderr, preset) as watch:
        done = tables.run(
            preset,
            Path(f"out/{preset}-sensitivity") if out is None else out,
            scheduler=scheduler,
            workers=workers,
            watch=watch,
            say=lambda line: stderr.print(line, highlight=False, markup=False, soft_wrap=True),
        )
    _console(json_file).print(render.sensitivity(done))
    render.write_json(done.table, json_file)
    _exit(int(len(done.failures) > 0), done.interrupted)


@app.command()
def mutants(
    design: Annotated[
        str | None, typer.Option("--design", metavar="NAME", help="Only this design's bugs.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Only this design's, or machine, persistence, replication, verifier, state.",
        ),
    ] = None,
    guests: Annotated[
        Path | None,
        typer.Option(
            "--guests",
            metavar="FOLDER",
            help="Compiled guests of tests/guests, for what restoring may lose (state).",
        ),
    ] = None,
    unnoticed: Annotated[
        Path | None,
        typer.Option("--unnoticed", metavar="FILE", help="What they cannot notice, and why."),
    ] = None,
    jobs: JobsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Plant known bugs; exit 0 only if every one is caught and no clean design accused."""
    designs = api.catalogue().designs
    known = [entry.name for entry in designs if entry.raw.get("planted_bugs")]
    if (design or only) in {entry.name for entry in designs} - set(known):
        raise PerdureError(
            f"--design {design or only}: it has no planted bugs, for it promises nothing; designs "
            f"that have some: {', '.join(known)}"
        )
    if design is not None and only is not None and design != only:
        raise PerdureError("--design and --only name different things: give one of both")
    design = design or only
    if unnoticed is not None and guests is None:
        raise PerdureError("--unnoticed lists what programs of --guests cannot notice: give both")
    if guests is not None and design not in (None, api.STATE_MUTANTS):
        raise PerdureError(
            f"--guests is for {api.STATE_MUTANTS}, what restoring may lose, and not for {design}"
        )
    reports: list[api.MutantsReport] = []
    of_state = {"guests": guests, "unnoticed": unnoticed}
    state = [api.STATE_MUTANTS] if guests is not None else []
    for name in [design] if design is not None else [*known, *api.MUTANT_GROUPS, *state]:
        with progress.bar(stderr, f"planted bugs of {name}") as show:
            paths = of_state if name == api.STATE_MUTANTS else {}
            report = api.mutants(name, jobs=jobs or processors(), progress=show, **paths)
        reports.append(report)
        _console(json_file).print(render.mutants(reports[-1]), crop=False)
        if reports[-1].interrupted:
            break
    raw = [report.raw for report in reports]
    render.write_json(raw[0] if design is not None else {"designs": raw}, json_file)
    passed = all(report.passed for report in reports)
    _exit(int(not passed), any(report.interrupted for report in reports))


@app.command(context_settings=GUEST_CONTEXT)
@grouped
def hunt(
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- PROGRAM...", help="After --; without one, programs are drawn, too."
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option("--machine", metavar="NAME", help="The preset to draw around."),
    ] = None,
    design: DesignOption = "picl",
    *,
    guest: Guest,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="N", min=0, help="How long.  [default: 1]")
    ] = None,
    cuts: Annotated[
        int | None, typer.Option("--cuts", metavar="N", min=1, help="Or how many cuts, at least.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=1, help="The first seed.")] = 1,
    planted_bug: PlantedBugOption = None,
    shared: Shared,
    json_file: JsonOption = None,
) -> None:
    """Cut machines drawn at random until something fails; exit 1 if anything did."""
    known = {entry.name: entry for entry in api.catalogue().designs}
    promise = known[design].raw.get("promise") if design in known else None
    preset = machine or ("nvoverlay" if promise == "causal-cut" else "picl")
    chosen = _machine(preset, design, guest, None, Engine.fast)
    with progress.bar(stderr, f"hunting in {design}") as show:
        report = hunting.hunt(
            chosen,
            **_programs(program or []),
            minutes=minutes if minutes is not None or cuts is not None else 1.0,
            cuts=cuts,
            first_seed=seed,
            planted_bug=planted_bug,
            **shared.asked(),
            progress=show,
        )
    _console(json_file).print(render.hunt(report), crop=False)
    render.write_json(report, json_file)
    _exit(int(report["found"] is not None), report["interrupted"])


@app.command("list")
def list_(
    what: Annotated[Listed, typer.Argument(help="What to list.")],
    json_file: JsonOption = None,
) -> None:
    """List designs, machines or workloads."""
    console = _console(json_file)
    if what is Listed.workloads:
        found = workloads.catalogue()
        console.print(render.workloads(found))
        rows = [{"name": w.name, "summary": w.summary, "source": str(w.source)} for w in found]
        render.write_json({"workloads": rows}, json_file)
        return
    known = api.catalogue()
    entries = known.designs if what is Listed.designs else known.machines
    show = render.designs if what is Listed.designs else render.machines
    console.print(show(known))
    render.write_json({what.value: [entry.raw for entry in entries]}, json_file)


@app.command()
def config(
    machine: MachineOption = "picl",
    design: DesignOption = "picl",
    set_: SetOption = None,
    harts: HartsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Print the effective configuration and its hash."""
    chosen = api.Machine(machine=machine, design=design, set=set_ or (), harts=harts)
    effective = chosen.configuration()
    if json_file != "-":
        # The plain text can be saved and used as --machine.
        text = f"# configuration {effective.hash}\n{effective.toml.rstrip()}\n"
        if sys.stdout.isatty():
            Console().print(Syntax(text, "toml", background_color="default"))
        else:
            sys.stdout.write(text)
    render.write_json(effective.raw, json_file)


@app.command("sysroot")
def sysroot_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to fill.")],
    packages: Annotated[
        str, typer.Option("--packages", metavar="A,B,...", help="Debian package names.")
    ],
    mirror: Annotated[
        str | None,
        typer.Option("--mirror", metavar="URI", help="Instead of the configured Debian mirror."),
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", help="The Debian release.  [default: trixie]")
    ] = None,
) -> None:
    """Fill a folder with unmodified Debian riscv64 packages, for --sysroot."""
    from perdure import sysroot

    names = [name for name in packages.split(",") if name]
    if not names:
        raise PerdureError("--packages names no package: give some, as in --packages sqlite3,xz")
    fresh = sysroot.make(
        directory,
        names,
        mirror=mirror,
        suite=suite or sysroot.SUITE,
        report=lambda line: stderr.print(line, highlight=False, markup=False),
    )
    stderr.print(f"{len(fresh)} packages unpacked into {directory}", highlight=False, markup=False)


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the figure and results go.")
    ] = Path("out/demo"),
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the cut's moment; else chosen.")
    ] = None,
    sqlite: Annotated[
        bool, typer.Option(help="Also with Debian's sqlite3, where a mirror is configured.")
    ] = True,
) -> None:
    """Show the whole story: a program, a power cut, and the machine coming back."""
    from perdure import demo as story

    outputs.check_folder(out)
    _exit(story.tell(out, seed=seed, sqlite=sqlite))


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and the timing version.")
    ] = False,
) -> None:
    """Options of every command."""
    if version:
        typer.echo(f"perdure {perdure.__version__}, timing version {perdure.TIMING_VERSION}")
        raise typer.Exit


def main() -> NoReturn:
    """The entry point: a refusal is one message and status 2, never a traceback."""
    try:
        app(prog_name="perdure")
    except PerdureError as error:
        sys.stdout.flush()
        print(f"perdure: {outputs.told(str(error), sys.argv)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)


def _machine(
    machine: str, design: str, guest: Guest, folder: Path | None, engine: Engine
) -> api.Machine:
    """The machine that the options describe, whose results are kept in that folder."""
    found = guest.found(folder)
    return api.Machine(machine=machine, design=design, engine=engine.value, **found)


def _choices(assignments: Sequence[str]) -> dict[str, list[str]]:
    """`KEY=A,B` texts as the values of each key."""
    chosen: dict[str, list[str]] = {}
    for text in assignments:
        key, equals, listed = text.partition("=")
        found = [value for value in listed.split(",") if value]
        if not (key and equals and found):
            raise PerdureError(f"--set {text}: write KEY=VALUE, or KEY=A,B,... for several")
        chosen.setdefault(key, []).extend(found)
    return chosen


class _Programs(TypedDict, total=False):
    """One program, or several at once, as `api.Machine` takes them."""

    program: list[str]
    programs: list[list[str]]


def _programs(words: Sequence[str]) -> _Programs:
    """The programs of a command line, which `--` stands between."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    if len(commands) == 1:
        return {"program": commands[0]}
    if not all(commands):
        raise PerdureError("-- stands between programs, and one of these is empty")
    return {"programs": commands}


def _console(json_file: str | None) -> Console:
    """Where tables go: to standard error while standard output carries JSON."""
    return stderr if json_file == "-" else Console()


def _exit(status: int, interrupted: bool = False) -> NoReturn:
    sys.stdout.flush()
    raise typer.Exit(INTERRUPTED if interrupted else status)


if __name__ == "__main__":
    main()

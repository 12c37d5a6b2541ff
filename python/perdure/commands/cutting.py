"""The commands that cut the power: `cut`, `mutants` and `hunt`.

Always true here: exit status 1 says that a promise was broken, or that a planted bug was not
noticed; the tokens of cuts that are shown are kept under their short names.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from perdure import (
    PerdureError,
    api,
    completion,
    explanation_page,
    hunting,
    outputs,
    progress,
    render,
    statuses,
    streams,
    terminal,
    tokens,
)
from perdure.commands import replaying
from perdure.commands.shared import Program, despite_folder, finish, machine_of, programs
from perdure.options import (
    DEFAULT_ENGINE,
    Afterwards,
    DesignOption,
    EngineOption,
    Guest,
    GuestWithPools,
    JobsOption,
    JsonOption,
    MachineOption,
    OutOption,
    PlantedBugOption,
    Repeated,
    Schedule,
    Shared,
    StopAfterOption,
    UntilCutOption,
    count,
    grouped,
    processors,
)

INPUT_NOT_KEPT = "the standard input that these cuts' tokens need is not kept; --out DIR keeps it"


@grouped
def cut(
    program: Program,
    machine: MachineOption = "picl",
    design: DesignOption = "picl",
    *,
    guest: GuestWithPools,
    stop_after: StopAfterOption = None,
    repeated: Repeated,
    engine: EngineOption = DEFAULT_ENGINE,
    json_file: JsonOption = None,
    out: OutOption = None,
    at: Annotated[
        int | None,
        typer.Option("--at", parser=count, metavar="CYCLE", help="Cut once, exactly here."),
    ] = None,
    cuts: Annotated[
        int | None, typer.Option("--cuts", min=1, help="How many cuts.", show_default="100")
    ] = None,
    schedule: Annotated[
        Schedule | None,
        typer.Option(
            "--schedule",
            metavar="HOW",
            help=f"How their moments are chosen: {', '.join(one.value for one in Schedule)}.",
            show_default=Schedule.random.value,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every random choice.")] = 1,
    during_recovery: Annotated[
        bool, typer.Option("--during-recovery", help="Cut recovery itself, too.")
    ] = False,
    replica: Annotated[
        bool,
        typer.Option("--replica", help="Follow with a replica; judge what each cut leaves there."),
    ] = False,
    afterwards: Afterwards,
    until_cut: UntilCutOption = False,
    shared: Shared,
    planted_bug: PlantedBugOption = None,
    explained: replaying.Explained,
    write_through: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
) -> None:
    """Cut the power, recover from what survived, and judge; exit 1 if a promise was broken."""
    _refuse_cut(write_through, at, cuts, schedule)
    chosen = machine_of(machine, design, guest, out, engine)
    program, then = split_then(program)
    with programs(program) as asked, progress.bar(terminal.errors(), "power cuts") as show:
        report, refused = despite_folder(
            chosen.cut,
            api.CutReport.from_json,
            **asked,
            repeat=repeated.repeat,
            at=at,
            cuts=cuts,
            schedule=(schedule or Schedule.random).value,
            seed=seed,
            during_recovery=during_recovery,
            replica=replica,
            then=then,
            **afterwards.asked(),
            until_cut=until_cut,
            **shared.asked(),
            planted_bug=planted_bug,
            stop_after=stop_after,
            out=out,
            progress=show,
        )
    if guest.stdin == "-" and out is None:
        terminal.tell([INPUT_NOT_KEPT])
    replaying.finish(report, json_file, explained, afterwards, refused)


def mutants(
    design: Annotated[
        str | None,
        typer.Option(
            "--design",
            metavar="NAME",
            help="Only this design's bugs.",
            autocompletion=completion.bugs_of(()),
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help=f"Only this design's, or {', '.join((*api.MUTANT_GROUPS, api.STATE_MUTANTS))}.",
            autocompletion=completion.bugs_of((*api.MUTANT_GROUPS, api.STATE_MUTANTS)),
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
    known = _with_bugs(design or only)
    if design is not None and only is not None and design != only:
        raise PerdureError("--design and --only name different things: give one of both")
    design = design or only
    _refuse_guests(guests, unnoticed, design)
    found: list[api.MutantsReport] = []
    interrupted = False
    of_state = {"guests": guests, "unnoticed": unnoticed}
    state = [api.STATE_MUTANTS] if guests is not None else []
    for name in [design] if design is not None else [*known, *api.MUTANT_GROUPS, *state]:
        with progress.bar(terminal.errors(), f"planted bugs of {name}") as show:
            paths = of_state if name == api.STATE_MUTANTS else {}
            try:
                report = api.mutants(name, jobs=jobs or processors(), progress=show, **paths)
            except PerdureError as error:
                if not (found and statuses.was_interrupted(error)):
                    raise
                terminal.tell([f"interrupted at the planted bugs of {name}, which are left out"])
                interrupted = True
                break
        found.append(report)
        tokens.remember(bug.token for bug in report.mutants)
        try:
            terminal.tables(json_file).print(render.mutants(report), crop=False)
        except streams.OutputError:
            # As after Ctrl-C: what is finished is written, and the rest is not begun.
            _write_mutants(found, design, json_file)
            raise
        if report.interrupted:
            break
    _write_mutants(found, design, json_file)
    passed = all(report.passed for report in found)
    finish(int(not passed), interrupted or any(report.interrupted for report in found))


def _with_bugs(chosen: str | None) -> list[str]:
    """The designs that have planted bugs; refuses one without."""
    designs = api.catalogue().designs
    known = [entry.name for entry in designs if entry.raw.get("planted_bugs")]
    if chosen in {entry.name for entry in designs} - set(known):
        raise PerdureError(
            f"--design {chosen}: it has no planted bugs, for it promises nothing; designs that "
            f"have some: {', '.join(known)}"
        )
    return known


def _write_mutants(
    found: list[api.MutantsReport], design: str | None, json_file: str | None
) -> None:
    """Writes what is known of planted bugs, of one design or of all that are finished."""
    raw = [report.raw for report in found]
    outputs.write_json(raw[0] if design is not None else {"designs": raw}, json_file)


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
        typer.Option(
            "--machine",
            metavar="NAME",
            help="The preset to draw around.",
            show_default="picl, or nvoverlay for nvoverlay",
            autocompletion=completion.machines,
        ),
    ] = None,
    design: DesignOption = "picl",
    *,
    guest: Guest,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", metavar="N", min=0, help="How long.", show_default="1"),
    ] = None,
    cuts: Annotated[
        int | None, typer.Option("--cuts", metavar="N", min=1, help="Or how many cuts, at least.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=1, help="The first seed.")] = 1,
    planted_bug: PlantedBugOption = None,
    shared: Shared,
    explained: replaying.Explained,
    json_file: JsonOption = None,
) -> None:
    """Cut machines drawn at random until something fails; exit 1 if anything did."""
    known = {entry.name: entry for entry in api.catalogue().designs}
    promise = known[design].raw.get("promise") if design in known else None
    preset = machine or ("nvoverlay" if promise == "causal-cut" else "picl")
    chosen = machine_of(preset, design, guest, None)
    with (
        programs(program or []) as asked,
        progress.bar(terminal.errors(), f"hunting in {design}") as show,
    ):
        report = hunting.hunt(
            chosen,
            **asked,
            minutes=minutes if minutes is not None or cuts is not None else 1.0,
            cuts=cuts,
            first_seed=seed,
            planted_bug=planted_bug,
            **shared.asked(),
            progress=show,
        )
    found = report["found"]
    # What no cut shows has no memory to make cores of.
    if found is not None and found["explanation"] and explained.cores is not None:
        made = replaying.with_cores(found["token"], explained.cores)
        found["explanation"] = made or found["explanation"]
    tokens.remember([found["token"] if found else None])
    with outputs.each() as write:
        page = partial(explanation_page.of_hunt, report, preset)
        write(lambda: replaying.write(explained, page, found))
        write(lambda: outputs.write_json(report, json_file))
        terminal.tables(json_file).print(render.hunt(report), crop=False)
    finish(int(report["found"] is not None), report["interrupted"])


def _refuse_guests(guests: Path | None, unnoticed: Path | None, design: str | None) -> None:
    """Refuses options of `mutants` that are for what restoring may lose, and go nowhere else."""
    if unnoticed is not None and guests is None:
        raise PerdureError("--unnoticed lists what programs of --guests cannot notice: give both")
    if guests is not None and design not in (None, api.STATE_MUTANTS):
        raise PerdureError(
            f"--guests is for {api.STATE_MUTANTS}, what restoring may lose, and not for {design}"
        )
    # Known now, and not behind the bugs of all designs.
    if guests is not None and not guests.is_dir():
        raise PerdureError(f"--guests {guests}: there is no such folder")
    if unnoticed is not None and not unnoticed.exists():
        raise PerdureError(f"--unnoticed {unnoticed}: there is no such file")


def _refuse_cut(
    write_through: list[str] | None, at: int | None, cuts: int | None, schedule: Schedule | None
) -> None:
    """Refuses options of `cut` that do not go together."""
    if write_through:
        raise PerdureError(
            "--write-through: a program whose power is cut runs many times over, so the host is "
            "read-only to it; leave the option out"
        )
    if at is not None and cuts is not None:
        raise PerdureError("--at names the one cut and --cuts a number of them: give one of both")
    if at is not None and schedule is not None:
        raise PerdureError(
            f"--at names the one cut, so --schedule {schedule.value} has nothing to choose: "
            "give one of both"
        )


def split_then(words: list[str]) -> tuple[list[str], list[str]]:
    """What a command line cuts, and what it starts then, if it says that."""
    if "--then" not in words:
        return words, []
    at = words.index("--then")
    if at + 1 == len(words):
        raise PerdureError("--then names no program: write it as --then ./program argument")
    return words[:at], words[at + 1 :]

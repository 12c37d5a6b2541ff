"""Options that several of the commands have, each declared once, and groups of such options.

Always true here: an option says the same in the help of every command that has it; the options of a
group stand in a command's help one by one, where the command names the group.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_type_hints

import typer

from perdure import PerdureError, api, completion, outputs, standard_input


class Engine(str, Enum):
    """What runs the guest."""

    fast = "fast"
    compiled = "compiled"
    plain = "plain"


class Schedule(str, Enum):
    """How the moments of power cuts are chosen."""

    random = "random"
    every_event = "every-event"
    near_events = "near-events"
    every_fence = "every-fence"
    every_stack = "every-stack"
    stratified = "stratified"


class Resume(str, Enum):
    """After which cuts the program is run to its end."""

    all = "all"
    sample = "sample"
    none = "none"


def count(text: str, least: int = 0) -> int:
    """A whole number as people write large ones: 30000000, 30_000_000 or 3e7."""
    try:
        number = Decimal(text)
        good = number.is_finite() and least <= number < 2**63 and number == int(number)
    except InvalidOperation:
        good = False
    if not good:
        raise typer.BadParameter(
            f"'{text}' is not a whole number of at least {least}, as in 30000000 or 3e7"
        )
    return int(number)


def _positive(text: str) -> int:
    return count(text, least=1)


MachineOption = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME|FILE",
        help="A preset, or a TOML file.",
        autocompletion=completion.machines,
    ),
]
DesignOption = Annotated[
    str,
    typer.Option(
        "--design",
        metavar="NAME",
        help="The crash-consistency design.",
        autocompletion=completion.designs,
    ),
]
DesignsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--design",
        metavar="A,B,...",
        help="Designs; repeatable. The first is the measure.",
        show_default="ideal,picl",
        autocompletion=completion.designs,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one value of the configuration; repeatable.",
        autocompletion=completion.keys,
    ),
]
HartsOption = Annotated[
    int | None,
    typer.Option(
        "--harts",
        min=1,
        help="Hardware threads.",
        show_default="the machine's own, or one for each of several programs",
    ),
]
StopAfterOption = Annotated[
    int | None,
    typer.Option(
        "--stop-after", parser=_positive, metavar="INSTRUCTIONS", help="End the run there."
    ),
]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Interpreted fast, compiled where hot, or plainly.")
]
DEFAULT_ENGINE = Engine(api.ENGINE)
ProbeCutsOption = Annotated[
    bool,
    typer.Option(
        "--probe-cuts", help="Measure what power cuts would cost, at random moments of the run."
    ),
]
PlantedBugOption = Annotated[
    str | None,
    typer.Option(
        "--planted-bug",
        metavar="NAME",
        help="Plant this bug first.",
        autocompletion=completion.bugs,
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="'PROGRAM ARG...'",
        help="Let this program of the host's judge what a resumed run leaves behind.",
    ),
]
CheckSecondsOption = Annotated[
    int | None,
    typer.Option("--check-seconds", min=1, help="How long it may take.", show_default="60"),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, as tcp://host:8786."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Points at a time here (all processors)."),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Host threads (all processors); changes no result."),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep results, configuration and the guest's files."),
]
JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the result as JSON.",
        callback=outputs.check_json,
    ),
]
FilesOption = Annotated[
    Path | None,
    typer.Option(
        "--files", metavar="DIR", help="Keep the guest's files.", show_default="OUT/files"
    ),
]
WriteThroughOption = Annotated[
    list[str] | None,
    typer.Option(
        "--write-through", metavar="HOST:GUEST", help="Let the guest change a folder of the host."
    ),
]
EpochOption = Annotated[
    int | None,
    typer.Option("--epoch", "-e", min=0, help="Which one (the newest in which a program lives)."),
]
OnlySubjectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subject",
        metavar="NAME",
        help="Only this workload or mix, for a first look or a point at full size; repeatable.",
    ),
]
OnlyDesignOption = Annotated[
    list[str] | None,
    typer.Option(
        "--design",
        metavar="A,B,...",
        help="Only these designs and their baseline; repeatable.",
        autocompletion=completion.designs,
    ),
]
OnlyPlaceOption = Annotated[
    list[float] | None,
    typer.Option("--at", metavar="NUMBER", help="Only this place of an axis; repeatable."),
]
SysrootOption = Annotated[
    Path | None,
    typer.Option("--sysroot", metavar="DIR", help="Where dynamic programs find their libraries."),
]


class _Shares(TypedDict):
    """What calls name those who share the work."""

    jobs: int
    scheduler: str | None


class _World(TypedDict):
    """What `api.Machine` and `sweeps.sweep` call what a guest finds."""

    harts: int | None
    sysroot: Path | None
    mounts: list[str]
    environment: list[str]
    stdin: str | None


@dataclass(frozen=True)
class Guest:
    """How the machine differs from its preset, and what programs find on it."""

    set_: SetOption = None
    harts: HartsOption = None
    sysroot: SysrootOption = None
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="HOST:GUEST", help="Show the guest a folder of the host."),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="KEY=VALUE", help="Set one of the guest's variables."),
    ] = None
    stdin: Annotated[
        str | None,
        typer.Option(
            "--stdin", metavar="FILE|-", help="The guest's standard input; - is this one's."
        ),
    ] = None

    def world(self, folder: Path | None) -> _World:
        """What programs find, where results are kept in that folder."""
        return {
            "harts": self.harts,
            "sysroot": self.sysroot,
            "mounts": self.mount or [],
            "environment": self.env or [],
            "stdin": self._input(folder),
        }

    def found(self, folder: Path | None) -> dict[str, Any]:
        """The same for one machine, and how that differs from its preset."""
        return {"set": self.set_ or (), **self.world(folder)}

    def _input(self, folder: Path | None) -> str | None:
        """The file that `--stdin` names.

        This command's own input is kept in the folder of its results; without one, in a file that
        goes with the command.
        """
        if self.stdin != "-":
            return self.stdin
        return standard_input.kept(folder)


@dataclass(frozen=True)
class GuestWithPools(Guest):
    """The same, with pools."""

    pmem: Annotated[
        Path | None,
        typer.Option(
            "--pmem",
            metavar="DIR",
            help="The pools below /pmem: taken from here, and what survives is put here.",
        ),
    ] = None

    def found(self, folder: Path | None) -> dict[str, Any]:
        """What programs find, pools included."""
        return {**super().found(folder), "pmem": self.pmem}


@dataclass(frozen=True)
class GuestWithCopies(Guest):
    """The same, with pools that every run has as they were."""

    pmem: Annotated[
        Path | None,
        typer.Option(
            "--pmem",
            metavar="DIR",
            help="The pools below /pmem: every run begins with a copy, and they stay as they are.",
        ),
    ] = None


@dataclass(frozen=True)
class Repeated:
    """Whether programs that have finished start again."""

    repeat: Annotated[
        bool,
        typer.Option("--repeat", help="Start a finished program again until all have finished."),
    ] = False


@dataclass(frozen=True)
class Measured:
    """The part of a run that is measured."""

    warm_up: Annotated[
        int | None,
        typer.Option(
            "--warm-up", parser=count, metavar="INSTRUCTIONS", help="Of each program, first."
        ),
    ] = None
    measure: Annotated[
        int | None,
        typer.Option(
            "--measure", parser=_positive, metavar="INSTRUCTIONS", help="Of each program, then."
        ),
    ] = None
    measure_threads: Annotated[
        bool,
        typer.Option(
            "--measure-threads", help="Of each program, its parallel phase (and at most --measure)."
        ),
    ] = False


def processors() -> int:
    """How many host threads share the work if nobody says a number."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Shared:
    """Who shares the work, which changes no result."""

    jobs: JobsOption = None
    scheduler: SchedulerOption = None

    def asked(self) -> _Shares:
        """The same, as calls take it."""
        if self.jobs is not None and self.scheduler is not None:
            raise PerdureError(
                "--jobs is how many threads of this host share the work, and --scheduler hands it "
                "to a cluster: give one of both"
            )
        return {"jobs": self.jobs or processors(), "scheduler": self.scheduler}


UntilCutOption = Annotated[
    bool, typer.Option("--until-cut", help="End the run with the cut: nothing goes on after it.")
]


@dataclass(frozen=True)
class Afterwards:
    """What comes after a power cut: the program goes on, or is started again."""

    resume: Annotated[
        Resume | None,
        typer.Option(
            "--resume",
            help="After which cuts the program is run to its end.",
            show_default="sample",
        ),
    ] = None
    generations: Annotated[
        int | None,
        typer.Option(
            "--generations",
            min=1,
            metavar="N",
            help="Cut so often in a row, each time in the machine that came back.",
            show_default="3 for half of the resumed cuts",
        ),
    ] = None
    check: CheckOption = None
    check_seconds: CheckSecondsOption = None
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Start the program again on the pools that survived, or what stands after --then "
            "behind its arguments: it has to exit with 0.",
        ),
    ] = False
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="FILE|TEXT", help="And to print this."),
    ] = None
    then: Annotated[str | None, typer.Option("--then", hidden=True)] = None

    def asked(self) -> dict[str, Any]:
        """The same, as `api.Machine.cut` takes it."""
        if self.then is not None:
            raise PerdureError(
                "--then stands behind the program that is cut, as in "
                "perdure cut --restart -- ./program argument --then ./other argument"
            )
        return {
            "resume": None if self.resume is None else self.resume.value,
            "generations": self.generations,
            "check": checker(self.check),
            "check_seconds": self.check_seconds,
            "restart": self.restart,
            "expect": self.expect,
        }


def checker(words: str | None) -> list[str]:
    """The words of `--check`, as a shell splits them; a path is one from here."""
    if words is None:
        return []
    try:
        found = shlex.split(words)
    except ValueError as error:
        raise PerdureError(f"--check {words}: {error}") from error
    if not found:
        raise PerdureError("--check names no program: write it as --check './checker argument'")
    if "/" in found[0]:
        found[0] = str(Path(found[0]).absolute())
    return found


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the options of its groups one by one, each result in its own file.

    A group is a parameter whose type is a dataclass of options. What the command declares itself
    stays its own, and the group's option of that name is left at its default.
    """
    declared = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, tuple[Any, list[str]]] = {}
    taken: list[inspect.Parameter] = []
    for parameter in declared.values():
        if not dataclasses.is_dataclass(parameter.annotation):
            taken.append(parameter)
            continue
        hints = get_type_hints(parameter.annotation, include_extras=True)
        options = [
            field
            for field in dataclasses.fields(parameter.annotation)
            if field.name not in declared
        ]
        groups[parameter.name] = (parameter.annotation, [option.name for option in options])
        for option in options:
            annotation = hints[option.name]
            taken.append(
                parameter.replace(name=option.name, default=option.default, annotation=annotation)
            )

    @functools.wraps(command)
    def ungrouped(**given: Any) -> None:
        outputs.check_apart(outputs.of_options(taken, given))
        for name, (group, options) in groups.items():
            given[name] = group(**{option: given.pop(option) for option in options})
        command(**given)

    ungrouped.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    ungrouped.__annotations__ = {one.name: one.annotation for one in taken}
    return ungrouped

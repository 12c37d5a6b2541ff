"""What several commands do alike.

Always true here: a refusal names what was refused, and here also how the command line is meant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn, TypedDict, TypeVar

import typer

from perdure import PerdureError, api, outputs, terminal
from perdure.fields import Json
from perdure.options import DEFAULT_ENGINE, Engine, Guest
from perdure.results import RunResult
from perdure.statuses import INTERRUPTED, of_run

Result = TypeVar("Result")

GUEST_CONTEXT = {"allow_interspersed_args": False}

Program = Annotated[
    list[str],
    typer.Argument(
        metavar="-- PROGRAM ARG... [-- PROGRAM ARG...]...",
        help="A RISC-V Linux program, or several that run at once, on a hart each.",
    ),
]


def machine_of(
    machine: str, design: str, guest: Guest, folder: Path | None, engine: Engine = DEFAULT_ENGINE
) -> api.Machine:
    """The machine that the options describe, whose results are kept in that folder."""
    if "," in design:
        raise PerdureError(
            f"--design {design}: one design, as in --design {design.split(',')[0] or 'picl'}; "
            "perdure compare takes several"
        )
    found = guest.found(folder)
    return api.Machine(machine=machine, design=design, engine=engine.value, **found)


def names(values: Sequence[str] | None, default: str, option: str, example: str) -> list[str]:
    """The names that an option lists, with commas between them or given several times."""
    given = [default] if values is None else values
    found = [name for value in given for name in value.split(",") if name]
    if not found:
        raise PerdureError(f"{option} names nothing: give some, as in {option} {example}")
    return found


def told(lines: Iterable[tuple[str, str]], json_file: str | None) -> None:
    """Prints lines for a person, each in its style."""
    from perdure import tables

    console = terminal.tables(json_file)
    for text, style in lines:
        console.print(tables.line(text, style), highlight=False)


class Programs(TypedDict, total=False):
    """One program, or several at once, as `api.Machine` takes them."""

    program: list[str]
    programs: list[list[str]]


@contextmanager
def programs(words: Sequence[str]) -> Iterator[Programs]:
    """The programs of a command line, which `--` stands between, for a call that runs them."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    if len(commands) == 1:
        yield {"program": commands[0]}
        return
    if not all(commands):
        raise PerdureError("-- stands between programs, and one of these is empty")
    try:
        yield {"programs": commands}
    except PerdureError as error:
        later = tuple(f"{command[0]}: no such program" for command in commands[1:])
        if not str(error).startswith(later):
            raise
        first = [*commands[0], *commands[1]]
        raise PerdureError(
            f"{error}\n  a second -- begins another program, to run beside the first; if these are "
            f"arguments of it, write: -- {' '.join(first)}"
        ) from error


def despite_folder(
    call: Callable[..., Result], of: Callable[[Json], Result], **asked: object
) -> tuple[Result, list[str]]:
    """What a call answers, though its folder did not take it; with the refusal, to be told last."""
    try:
        return call(**asked), []
    except outputs.NotKeptError as error:
        return of(error.result), [str(error)]


def say(line: str) -> None:
    """A line about what is being done."""
    terminal.errors().print(line, highlight=False, markup=False, soft_wrap=True)


def finish_run(result: RunResult) -> NoReturn:
    """Ends a command that ran a program."""
    finish(of_run(result.exit_code, result.refused_output, result.interrupted))


def finish(status: int, interrupted: bool = False) -> NoReturn:
    """Ends the command."""
    sys.stdout.flush()
    raise typer.Exit(INTERRUPTED if interrupted else status)

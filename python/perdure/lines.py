"""Command lines of every kind, read by typer, and their help.

Always true here: a command's module is loaded when the command is first asked for.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from perdure import completion, plain, values
from perdure.commands import COMMANDS, OPTIONS, SAYS, Entry
from perdure.commands.shared import GUEST_CONTEXT

SPELLINGS = {"designs": "design"}
"""Other spellings of options, which are understood and not documented."""

LISTING: dict[str, object] = {"token_normalize_func": str}
"""Of `list`, whose kinds are no options: `designs` is not another spelling there."""


class Commands(Mapping[str, Any]):
    """The commands by name; the module of one is loaded when it is first asked for."""

    def __getitem__(self, name: str) -> Any:
        return _made(name, COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _made(name: str, entry: Entry) -> Any:
    """The command, or the group of commands, that stands at `MODULE:NAME`."""
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(f"perdure.{module}"), attribute)
    holder = typer.Typer(add_completion=False)
    holder.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        settings = GUEST_CONTEXT if entry.has_guest else LISTING if name == "list" else None
        holder.command(name, context_settings=settings)(found)
    made = _helped(values.said(cast(Any, get_command(holder)).commands[name]))
    _loaded()
    return made


def _loaded() -> None:
    """Garbage is looked for again, and never among what was loaded (see `perdure.__main__`)."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _helped(command: Any) -> Any:
    """A command, or a group of them, with the help of `perdure.helping`."""
    command.format_help = lambda context, _formatter: _show_help(command, context)
    for one in command.params:
        if one.param_type_name == "argument":
            one.get_usage_pieces = _without_braces(one.get_usage_pieces)
    for name in getattr(command, "commands", ()):
        _helped(command.commands[name])
    return command


def _without_braces(pieces: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """What a usage has of an argument; typer has one that has to be given in braces."""
    return lambda context: [piece.strip("{}") for piece in pieces(context)]


def _show_help(command: Any, context: Any) -> None:
    """What prints it is loaded when somebody asks for it."""
    from perdure import helping

    helping.show(command, context)


class Perdure(TyperGroup):
    """The whole command."""

    COMMANDS = COMMANDS

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast(Any, Commands())

    def format_help(self, ctx: Any, _formatter: Any) -> None:
        """Of all commands, from their table."""
        _show_help(self, ctx)


app = typer.Typer(
    cls=Perdure,
    help=SAYS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: SPELLINGS.get(name, name),
    },
)


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[bool, typer.Option("--version", help=OPTIONS["--version"])] = False,
) -> None:
    """Options of every command."""
    if version:
        typer.echo(plain.version())
        raise typer.Exit


def answer() -> None:
    """Does what this process's command line asks for, and ends it."""
    completion.whole(get_command(app))(prog_name="perdure")

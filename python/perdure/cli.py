"""The command `perdure`.

Always true here: a command parses its options, makes one call of `perdure.api`, and prints what
came back. Exit status 0 means that all is well, 1 that a promise was broken, 2 that the request
cannot be carried out (one message on standard error), 130 that Ctrl-C ended it after the finished
results were written, 141 that nobody reads standard output any more (the files that were asked for
are written before anything is printed); `run` exits as the guest's program did. With `--json -`,
standard output has the result as JSON and nothing else. The commands themselves stand in
`perdure.commands`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

import perdure
from perdure import PerdureError, completion, helping, outputs, streams, values
from perdure.commands.shared import GUEST_CONTEXT, INTERRUPTED, was_interrupted

RUN, CUT, COMPARE, SHOW = "Run", "Cut the power", "Compare and measure", "Look and prepare"

SPELLINGS = {"designs": "design"}
"""Other spellings of options, which are understood and not documented."""

LISTING: dict[str, object] = {"token_normalize_func": str}
"""Of `list`, whose kinds are no options: `designs` is not another spelling there."""

# In the order of the help; the arguments of commands with a guest are that guest's.
COMMANDS: Mapping[str, tuple[str, str, bool]] = {
    "run": ("commands.running:run", RUN, True),
    "trace": ("commands.tracing:trace", RUN, True),
    "debug": ("commands.debugging:debug", RUN, True),
    "replicate": ("commands.running:replicate", RUN, True),
    "travel": ("travel:app", RUN, False),
    "replica": ("replication:app", RUN, False),
    "cut": ("commands.cutting:cut", CUT, True),
    "replay": ("commands.replaying:replay", CUT, False),
    "hunt": ("commands.cutting:hunt", CUT, True),
    "mutants": ("commands.cutting:mutants", CUT, False),
    "check": ("commands.checking:check", CUT, True),
    "litmus": ("litmus:litmus", CUT, False),
    "compare": ("commands.comparing:compare", COMPARE, True),
    "sweep": ("commands.comparing:sweep", COMPARE, True),
    "reproduce": ("commands.comparing:reproduce", COMPARE, False),
    "sensitivity": ("commands.comparing:sensitivity", COMPARE, False),
    "bench": ("bench:app", COMPARE, False),
    "list": ("commands.showing:list_", SHOW, False),
    "config": ("commands.showing:config", SHOW, False),
    "demo": ("commands.showing:demo", SHOW, False),
    "sysroot": ("commands.showing:sysroot_", SHOW, False),
    "man": ("commands.showing:man", SHOW, False),
    "new-design": ("new_design:new_design", SHOW, False),
}


class Commands(Mapping[str, Any]):
    """The commands by name; the module of one is loaded when it is first asked for."""

    def __getitem__(self, name: str) -> Any:
        return _made(name, *COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _made(name: str, place: str, panel: str, has_guest: bool) -> Any:
    """The command, or the group of commands, that stands at `MODULE:NAME`."""
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"perdure.{module}"), attribute)
    holder = typer.Typer(add_completion=False)
    holder.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name, rich_help_panel=panel)
    else:
        settings = GUEST_CONTEXT if has_guest else LISTING if name == "list" else None
        holder.command(name, context_settings=settings, rich_help_panel=panel)(found)
    return helping.whole(values.said(cast(Any, get_command(holder)).commands[name]))


class Perdure(TyperGroup):
    """The whole command."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast(Any, Commands())
        cast(Any, self).format_help = lambda context, _formatter: helping.show(self, context)


app = typer.Typer(
    cls=Perdure,
    help="A computer whose memory survives losing power: run a program on it, cut the power, and "
    "see what comes back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: SPELLINGS.get(name, name),
    },
)


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
    """The command: a refusal is one message and status 2, never a traceback."""
    with streams.watched():
        try:
            completion.whole(get_command(app))(prog_name="perdure")
        except PerdureError as error:
            sys.stdout.flush()
            message = values.of_setting(str(error), sys.argv)
            print(f"perdure: {outputs.told(message, sys.argv)}", file=sys.stderr)
            sys.exit(INTERRUPTED if was_interrupted(error) else 2)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
    sys.exit(0)


if __name__ == "__main__":
    main()

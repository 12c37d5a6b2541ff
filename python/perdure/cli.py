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
from typing import Annotated, Any, NamedTuple, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

import perdure
from perdure import PerdureError, completion, outputs, streams, values
from perdure.commands.shared import GUEST_CONTEXT, INTERRUPTED, was_interrupted

RUN, CUT, COMPARE, SHOW = "Run", "Cut the power", "Compare and measure", "Look and prepare"

SPELLINGS = {"designs": "design"}
"""Other spellings of options, which are understood and not documented."""

LISTING: dict[str, object] = {"token_normalize_func": str}
"""Of `list`, whose kinds are no options: `designs` is not another spelling there."""


class Entry(NamedTuple):
    """A command: where it stands, and what the help of all of them says, which so loads none."""

    place: str
    panel: str
    says: str
    has_guest: bool = False


# In the order of the help; the arguments of commands with a guest are that guest's.
COMMANDS: Mapping[str, Entry] = {
    "run": Entry(
        "commands.running:run",
        RUN,
        "Run a program; its output and exit status are passed through.",
        True,
    ),
    "trace": Entry(
        "commands.tracing:trace",
        RUN,
        "Run a program and draw what the machine does, for the Perfetto viewer.",
        True,
    ),
    "debug": Entry(
        "commands.debugging:debug",
        RUN,
        "Debug a program with gdb, forward and backward in time, and across power cuts.",
        True,
    ),
    "replicate": Entry(
        "commands.running:replicate",
        RUN,
        "Run a program and copy each epoch that becomes recoverable to a replica.",
        True,
    ),
    "travel": Entry(
        "travel:app",
        RUN,
        "Look at memory as it was at the end of any epoch of a finished run.",
    ),
    "replica": Entry(
        "replication:app",
        RUN,
        "Hold the epochs of a machine that runs elsewhere, and go on from any of them.",
    ),
    "cut": Entry(
        "commands.cutting:cut",
        CUT,
        "Cut the power, recover from what survived, and judge; exit 1 if a promise was broken.",
        True,
    ),
    "replay": Entry(
        "commands.replaying:replay",
        CUT,
        "Repeat exactly the power cut that a token names, and explain it if it fails.",
    ),
    "hunt": Entry(
        "commands.cutting:hunt",
        CUT,
        "Cut machines drawn at random until something fails; exit 1 if anything did.",
        True,
    ),
    "mutants": Entry(
        "commands.cutting:mutants",
        CUT,
        "Plant known bugs; exit 0 only if every one is caught and no clean design accused.",
    ),
    "check": Entry(
        "commands.checking:check",
        CUT,
        "Find what a power failure can break in a program; exit 1 if there is such a bug.",
        True,
    ),
    "litmus": Entry(
        "litmus:litmus",
        CUT,
        "Decide litmus tests by their models and run them on the machine.",
    ),
    "compare": Entry(
        "commands.comparing:compare",
        COMPARE,
        "Run one program under several designs; exit 1 if its exit status differs between them.",
        True,
    ),
    "sweep": Entry(
        "commands.comparing:sweep",
        COMPARE,
        "Run a program for all designs × values; exit 1 if a point failed.",
        True,
    ),
    "reproduce": Entry(
        "commands.comparing:reproduce",
        COMPARE,
        "Run a paper's experiments and judge its claims; exit 1 if a point failed.",
    ),
    "sensitivity": Entry(
        "commands.comparing:sensitivity",
        COMPARE,
        "Vary what a paper leaves open of its machine, a key at a time; exit 1 if a point failed.",
    ),
    "bench": Entry(
        "bench:app",
        COMPARE,
        "Measure the simulator itself.",
    ),
    "list": Entry(
        "commands.showing:list_",
        SHOW,
        "List designs, machines, workloads, papers with their experiments, planted bugs, or keys.",
    ),
    "config": Entry(
        "commands.showing:config",
        SHOW,
        "Print the effective configuration and its hash.",
    ),
    "demo": Entry(
        "commands.showing:demo",
        SHOW,
        "Show the whole story: a program, a power cut, and the machine coming back.",
    ),
    "sysroot": Entry(
        "commands.showing:sysroot_",
        SHOW,
        "Fill a folder with unmodified Debian riscv64 packages, for --sysroot.",
    ),
    "man": Entry(
        "commands.showing:man",
        SHOW,
        "Print the manual page, made from the commands: perdure man | man -l -.",
    ),
    "new-design": Entry(
        "new_design:new_design",
        SHOW,
        "Begin a design in a source tree: a module that works, test, page and registration.",
    ),
}


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
    return _helped(values.said(cast(Any, get_command(holder)).commands[name]))


def _helped(command: Any) -> Any:
    """A command, or a group of them, with the help of `perdure.helping`."""
    command.format_help = lambda context, _formatter: _show_help(command, context)
    for name in getattr(command, "commands", ()):
        _helped(command.commands[name])
    return command


def _show_help(command: Any, context: Any) -> None:
    """What prints it is loaded when somebody asks for it."""
    from perdure import helping

    helping.show(command, context)


class Perdure(TyperGroup):
    """The whole command."""

    entries = COMMANDS

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast(Any, Commands())

    def format_help(self, ctx: Any, _formatter: Any) -> None:
        """Of all commands, from their table."""
        _show_help(self, ctx)


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

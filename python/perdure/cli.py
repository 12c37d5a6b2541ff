"""The command `perdure`.

Always true here: a command parses its options, makes one call of `perdure.api`, and prints what
came back. Exit status 0 means that all is well, 1 that a promise was broken, 2 that the request
cannot be carried out (one message on standard error), 130 that Ctrl-C ended it after the finished
results were written; `run` exits as the guest's program did. With `--json -`, standard output has
the result as JSON and nothing else. The commands themselves stand in `perdure.commands`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

import perdure
from perdure import (
    PerdureError,
    bench,
    completion,
    litmus,
    new_design,
    outputs,
    replication,
    travel,
)
from perdure.commands import comparing, cutting, replaying, running, showing
from perdure.commands.shared import GUEST_CONTEXT, INTERRUPTED

RUN, CUT, COMPARE, SHOW = "Run", "Cut the power", "Compare and measure", "Look and prepare"

SPELLINGS = {"designs": "design"}
"""Other spellings of options, which are understood and not documented."""

app = typer.Typer(
    help="A computer whose memory survives losing power: run a program on it, cut the power, and "
    "see what comes back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: SPELLINGS.get(name, name),
    },
)
# In the order of the help; the arguments of commands with a guest are that guest's.
COMMANDS: tuple[tuple[str, Callable[..., None], str, bool], ...] = (
    ("run", running.run, RUN, True),
    ("replicate", running.replicate, RUN, True),
    ("cut", cutting.cut, CUT, True),
    ("replay", replaying.replay, CUT, False),
    ("hunt", cutting.hunt, CUT, True),
    ("mutants", cutting.mutants, CUT, False),
    ("litmus", litmus.litmus, CUT, False),
    ("compare", comparing.compare, COMPARE, True),
    ("sweep", comparing.sweep, COMPARE, True),
    ("reproduce", comparing.reproduce, COMPARE, False),
    ("sensitivity", comparing.sensitivity, COMPARE, False),
    ("list", showing.list_, SHOW, False),
    ("config", showing.config, SHOW, False),
    ("demo", showing.demo, SHOW, False),
    ("sysroot", showing.sysroot_, SHOW, False),
    ("man", showing.man, SHOW, False),
    ("new-design", new_design.new_design, SHOW, False),
)
LISTING: dict[str, object] = {"token_normalize_func": str}
"""Of `list`, whose kinds are no options: `designs` is not another spelling there."""
for name, command, panel, has_guest in COMMANDS:
    settings = GUEST_CONTEXT if has_guest else LISTING if name == "list" else None
    app.command(name, context_settings=settings, rich_help_panel=panel)(command)
app.add_typer(bench.app, name="bench", rich_help_panel=COMPARE)
app.add_typer(travel.app, name="travel", rich_help_panel=RUN)
app.add_typer(replication.app, name="replica", rich_help_panel=RUN)


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
        completion.whole(get_command(app))(prog_name="perdure")
    except PerdureError as error:
        sys.stdout.flush()
        print(f"perdure: {outputs.told(str(error), sys.argv)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)


if __name__ == "__main__":
    main()

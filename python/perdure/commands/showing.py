"""The commands that show and prepare: `list`, `config`, `sysroot`, `man` and `demo`.

Always true here: nothing is simulated, except by the demonstration.
"""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.syntax import Syntax

from perdure import api, listing, manual, outputs, terminal
from perdure.commands.shared import finish, names, say
from perdure.options import DesignOption, HartsOption, JsonOption, MachineOption, SetOption

Listed = Enum("Listed", {kind: kind for kind in listing.KINDS}, type=str)  # type: ignore[misc]
"""What can be listed."""


def list_(
    what: Annotated[
        Listed | None,
        typer.Argument(
            metavar="KIND", help=f"One of {', '.join(listing.KINDS)}; without, of what there is."
        ),
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """List designs, machines, workloads, papers with their experiments, planted bugs, or keys."""
    kinds = list(listing.KINDS) if what is None else [what.value]
    found = {kind: listing.KINDS[kind].rows() for kind in kinds}
    outputs.write_json(found, json_file)
    console = terminal.tables(json_file)
    console.print(
        listing.overview(found) if what is None else listing.shown(what.value, found[what.value])
    )


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
    outputs.write_json(effective.raw, json_file)
    if json_file != "-":
        # The plain text can be saved and used as --machine.
        text = f"# configuration {effective.hash}\n{effective.toml.rstrip()}\n"
        if sys.stdout.isatty():
            terminal.output().print(Syntax(text, "toml", background_color="default"))
        else:
            sys.stdout.write(text)


def sysroot_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to fill.")],
    packages: Annotated[
        list[str],
        typer.Option("--packages", metavar="A,B,...", help="Names of Debian packages; repeatable."),
    ],
    mirror: Annotated[
        str | None,
        typer.Option("--mirror", metavar="URI", help="Instead of the configured Debian mirror."),
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", help="The Debian release.", show_default="trixie")
    ] = None,
) -> None:
    """Fill a folder with unmodified Debian riscv64 packages, for --sysroot."""
    from perdure import sysroot

    wanted = names(packages, "", "--packages", "sqlite3,xz")
    fresh = sysroot.make(
        directory,
        wanted,
        mirror=mirror,
        suite=suite or sysroot.SUITE,
        report=say,
    )
    say(f"{len(fresh)} packages unpacked into {directory}")


def man(context: typer.Context) -> None:
    """Print the manual page, made from the commands: perdure man | man -l -."""
    sys.stdout.write(manual.page(context.find_root()))


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
    finish(story.tell(out, seed=seed, sqlite=sqlite))

"""The help of a command, as `--help` prints it.

Always true here: the name of an option and of what stands behind it is whole, however narrow the
terminal; what an entry means stands beside it where there is room, and else below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perdure import manual

BESIDE = 28
"""Columns of the names of options, where what they mean stands beside them."""
LONGEST_COMMAND = 14


def show(command: Any, context: Any) -> None:
    """Prints it."""
    console = Console(highlight=False)
    console.print(Padding(Text(_usage(command, context)), 1))
    for at, paragraph in enumerate(re.split(r"\n\s*\n", (command.help or "").strip())):
        console.print(Padding(Text(" ".join(paragraph.split()), "dim" if at else ""), (0, 1, 1, 1)))
    parts = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        entries = [_entry(one) for one in parts if one.param_type_name == kind]
        _print(console, title, entries, BESIDE)
    for title, listed in _panels(command).items():
        _print(console, title, listed, LONGEST_COMMAND)


def _usage(command: Any, context: Any) -> str:
    """The usage; arguments that have to be given, which typer has in braces, by their names."""

    def name(found: re.Match[str]) -> str:
        return found[1].upper() if found[1].islower() else found[1]

    return re.sub(r"\{([^{}]+)\}", name, command.get_usage(context))


def _print(console: Console, title: str, entries: Iterable[tuple[Text, Text]], beside: int) -> None:
    lines = [
        line for names, meaning in entries for line in _lines(names, meaning, beside, console.width)
    ]
    if lines:
        console.print(Panel(Group(*lines), title=title, title_align="left", border_style="dim"))


def _lines(names: Text, meaning: Text, beside: int, width: int) -> Iterator[RenderableType]:
    """The names with what they mean beside them, or below where they are too long for that."""
    names.no_wrap, names.overflow = True, "ignore"
    beside = min(beside, width // 3 + 2)
    if names.cell_len > beside:
        yield names
        names = Text()
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=beside, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(names, meaning)
    yield row


def _entry(parameter: Any) -> tuple[Text, Text]:
    """What an option or argument is called, and what it means."""
    meaning = Text(parameter.help or "")
    if parameter.param_type_name == "argument":
        names = Text(manual.argument(parameter), "bold yellow")
    else:
        names = Text(", ").join(
            Text(one, "bold cyan")
            for one in (*sorted(parameter.opts, key=len, reverse=True), *parameter.secondary_opts)
        )
        if not parameter.is_flag:
            names = Text.assemble(names, " ", (manual.value(parameter), "yellow"))
        meaning.append(_default(parameter), "dim")
    if parameter.required:
        meaning.append(" [required]", "dim red")
    return names, meaning


def _default(option: Any) -> str:
    if option.is_flag and option.secondary_opts:
        chosen = (option.opts if option.default else option.secondary_opts)[0]
        return f" [default: {chosen.removeprefix('--')}]"
    return manual.default(option).replace("  [", " [")


def _panels(command: Any) -> dict[str, list[tuple[Text, Text]]]:
    """The commands of a group with what they do, under the heading of each."""
    found: dict[str, list[tuple[Text, Text]]] = {}
    for name, heading, says in _listed(command):
        found.setdefault(heading, []).append((Text(name, "bold cyan"), Text(says)))
    return found


def _listed(command: Any) -> Iterator[tuple[str, str, str]]:
    """Each command's name, heading and first paragraph; a group that has a table loads none."""
    entries = getattr(command, "entries", None)
    if entries is not None:
        yield from ((name, entry.panel, entry.says) for name, entry in entries.items())
        return
    for name, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            heading = getattr(one, "rich_help_panel", None)
            yield name, heading if isinstance(heading, str) else "Commands", first(one.help)


def first(help_text: str | None) -> str:
    """The first paragraph."""
    paragraph = re.split(r"\n\s*\n", (help_text or "").strip())[0]
    return " ".join(paragraph.split())

"""The help of a command, as `--help` prints it.

Always true here: the name of an option and of what stands behind it is whole, however narrow the
terminal; what an entry means stands beside it where there is room, and else below it. It is drawn
here and not by rich, which alone takes longer to be loaded than all else that the help of all
commands needs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from perdure import commands, manual

BESIDE = 28
"""Columns of the names of options, where what they mean stands beside them."""
LONGEST_COMMAND = 14
ELSEWHERE_COLUMNS = 80
"""How wide a page is that goes to no terminal."""

STYLES = {
    "": ("", ""),
    "dim": ("2", ""),
    "dim red": ("2", "31"),
    "bold cyan": ("1", "36"),
    "bold yellow": ("1", "33"),
    "yellow": ("", "33"),
}
"""What terminals call a style: how strong, and the colour."""

Line: TypeAlias = "list[tuple[str, str]]"
"""Texts behind one another, each with its style."""


class Entry(NamedTuple):
    """Names, and what they mean."""

    names: Line
    meaning: Line


class Panel(NamedTuple):
    """Entries under a heading, whose names stand in a column of this width."""

    title: str
    entries: list[Entry]
    beside: int = BESIDE


class Page(NamedTuple):
    """The help of a command."""

    usage: str
    paragraphs: list[str]
    panels: list[Panel]


def show(command: Any, context: Any) -> None:
    """Prints the help of a command of typer's."""
    parts = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    panels = [
        Panel(title, [_entry(one) for one in parts if one.param_type_name == kind])
        for title, kind in (("Arguments", "argument"), ("Options", "option"))
    ]
    panels += _panels(_listed(command))
    draw(Page(_usage(command, context), paragraphs(command.help), panels))


def of_all() -> Page:
    """The help of all commands, of which none is loaded."""
    options = [
        Entry([(name, "bold cyan")], [(says, "")]) for name, says in commands.OPTIONS.items()
    ]
    return Page(
        "Usage: perdure [OPTIONS] COMMAND [ARGS]...",
        [commands.SAYS],
        [Panel("Options", options), *_panels(_listed(commands))],
    )


def _usage(command: Any, context: Any) -> str:
    """The usage, as wide as a page is within its margins."""
    formatter = context.make_formatter()
    formatter.width -= 2
    command.format_usage(context, formatter)
    return str(formatter.getvalue()).rstrip()


def _entry(parameter: Any) -> Entry:
    """What an option or argument is called, and what it means."""
    meaning = [(parameter.help or "", "")]
    if parameter.param_type_name == "argument":
        names = [(manual.argument(parameter), "bold yellow")]
    else:
        names = []
        spelled = sorted(parameter.opts, key=len, reverse=True)
        for one in (*spelled, *parameter.secondary_opts):
            names += [(", ", ""), (one, "bold cyan")] if names else [(one, "bold cyan")]
        if not parameter.is_flag:
            names += [(" ", ""), (manual.value(parameter), "yellow")]
        meaning.append((_default(parameter), "dim"))
    if parameter.required:
        meaning.append(("[required]", "dim red"))
    return Entry(names, meaning)


def _default(option: Any) -> str:
    if option.is_flag and option.secondary_opts:
        chosen = (option.opts if option.default else option.secondary_opts)[0]
        return f"[default: {chosen.removeprefix('--')}]"
    return manual.default(option)


def _panels(listed: Iterable[tuple[str, str, str]]) -> list[Panel]:
    """Commands with what they do, under the heading of each."""
    found: dict[str, Panel] = {}
    for name, heading, says in listed:
        panel = found.setdefault(heading, Panel(heading, [], LONGEST_COMMAND))
        panel.entries.append(Entry([(name, "bold cyan")], [(says, "")]))
    return list(found.values())


def _listed(command: Any) -> Iterator[tuple[str, str, str]]:
    """Each command's name, heading and first paragraph; where there is a table, none is loaded."""
    table = getattr(command, "COMMANDS", None)
    if table is not None:
        yield from ((name, entry.panel, entry.says) for name, entry in table.items())
        return
    for name, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            heading = getattr(one, "rich_help_panel", None)
            yield name, heading if isinstance(heading, str) else "Commands", first(one.help)


def paragraphs(help_text: str | None) -> list[str]:
    """A text's paragraphs, each in one line."""
    return [" ".join(one.split()) for one in re.split(r"\n\s*\n", (help_text or "").strip()) if one]


def first(help_text: str | None) -> str:
    """The first paragraph."""
    return "".join(paragraphs(help_text)[:1])


def draw(page: Page) -> None:
    """Prints a page, as wide as the terminal."""
    styled = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    for line in lines(page, _columns()):
        text = "".join(_painted(text, style) if styled else text for text, style in line)
        print(text.rstrip())


def lines(page: Page, columns: int) -> Iterator[Line]:
    """A page line by line, none longer than so many columns unless a name is."""
    yield []
    yield from ([(" ", ""), (line, "")] for line in page.usage.splitlines())
    yield []
    for at, paragraph in enumerate(page.paragraphs):
        text = folded([(paragraph, "dim" if at else "")], columns - 2)
        yield from ([(" ", ""), *line] for line in text)
        yield []
    for panel in page.panels:
        if panel.entries:
            yield from _framed(panel, columns)


def _framed(panel: Panel, columns: int) -> Iterator[Line]:
    inside = columns - 4
    title = f"─ {panel.title} "
    yield [(f"╭{title}{'─' * (columns - 2 - len(title))}╮", "dim")]
    for entry in panel.entries:
        for line in _rows(entry, min(panel.beside, columns // 3 + 2), inside):
            yield [("│ ", "dim"), *line, (" " * (inside - width(line)), ""), (" │", "dim")]
    yield [(f"╰{'─' * (columns - 2)}╯", "dim")]


def _rows(entry: Entry, beside: int, inside: int) -> Iterator[Line]:
    """The names with what they mean beside them, or below where they are too long for that."""
    names = entry.names
    if width(names) > beside:
        yield names
        names = []
    for meaning in folded(entry.meaning, inside - beside - 2) or [[]]:
        yield [*names, (" " * (beside + 2 - width(names)), ""), *meaning]
        names = []


def folded(text: Line, columns: int) -> list[Line]:
    """A text in lines of so many columns; a word that is longer goes on in the next line."""
    found: list[Line] = []
    left = 0
    for said, style in text:
        for whole in said.split():
            word = whole
            if found and len(word) < left:
                found[-1].append((" ", ""))
                left -= 1
            else:
                found.append([])
                left = columns
            while len(word) > left:
                found[-1].append((word[:left], style))
                word, left = word[left:], columns
                found.append([])
            found[-1].append((word, style))
            left -= len(word)
    return found


def width(line: Line) -> int:
    """Columns of a line; nothing that a help says takes two for a character."""
    return sum(len(text) for text, _ in line)


def _painted(text: str, style: str) -> str:
    strength, colour = STYLES[style]
    codes = ";".join(filter(None, [strength, "" if os.environ.get("NO_COLOR") else colour]))
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _columns() -> int:
    """What COLUMNS says, or how wide the terminal is."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    for descriptor in range(3):
        try:
            return os.get_terminal_size(descriptor).columns or ELSEWHERE_COLUMNS
        except OSError:
            continue
    return ELSEWHERE_COLUMNS

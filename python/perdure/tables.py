"""Numbers and tables as people read them.

Always true here: a number loses no digit that counts, and a size has its unit; a table breaks no
number, no unit and no name, however narrow the terminal: it changes its shape.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rich.box import HEAVY_HEAD, Box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PROSE_COLUMNS = 24
"""Of a column of sentences, at least."""

INDENT = 4

UNLIMITED = 10_000
"""Columns of what is no terminal, where nobody has said how wide it is."""


def number(value: int | float) -> str:
    """A number in full, thousands separated; fractions with four significant digits."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.4g}"


def size(count: int | float) -> str:
    """A number of bytes, in the largest decimal unit that keeps a leading digit."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count:,.0f} B"


def judged(text: str, reached: bool) -> Text:
    """A figure with whether it is as wanted."""
    return Text(f"{text} {'✓' if reached else '✗'}", style="green" if reached else "red")


def line(text: str = "", style: str = "") -> Text:
    """Text that is never broken at the width of the terminal, so that it can be copied whole.

    A token with a line break in it repeats nothing.
    """
    return Text(text, style=style, no_wrap=True, overflow="ignore")


@dataclass
class Sheet:
    """A table that has a row for each thing, and another shape where that is too wide.

    Its first columns are text, of which the first `keys` say what a row is about; the others are
    numbers. Only the columns of `prose`, which hold sentences, are broken, between words. Where the
    rest is too wide, the rows become columns, or the columns are dealt out to several tables,
    whichever takes fewer lines; with sentences, each row becomes an entry of several lines.
    """

    title: str
    columns: list[str]
    left: int = 1
    keys: int = 1
    prose: frozenset[str] = frozenset()
    rows: list[list[Text]] = field(default_factory=list)
    sections: set[int] = field(default_factory=set)
    frame: Box = HEAVY_HEAD

    def add_column(self, name: str) -> None:
        """One more column, of numbers."""
        self.columns.append(name)

    def add_row(self, *cells: str | Text) -> None:
        """One more row; text may have markup."""
        self.rows.append(
            [Text.from_markup(cell) if isinstance(cell, str) else cell for cell in cells]
        )

    def put_column(self, name: str, cells: Iterable[str]) -> None:
        """One more column, of numbers, to rows that are there."""
        self.columns.append(name)
        for row, cell in zip(self.rows, cells, strict=True):
            row.append(Text(cell))

    def add_section(self) -> None:
        """A line under the rows so far."""
        self.sections.add(len(self.rows))

    def fits(self, width: int) -> bool:
        """Whether a row for each thing fits."""
        return _framed(self._least()) <= width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The title, and the shape that fits."""
        if self.title:
            yield Text(self.title, style="bold")
        yield from self._shaped(options.max_width)

    def _shaped(self, width: int) -> Iterator[RenderableType]:
        if self.fits(width):
            yield self._drawn(width)
        elif self.prose:
            yield from self._entries(width)
        elif self._has_groups:
            for group in self._apart():
                yield Text(group.title)
                yield from group._shaped(width)
        else:
            shapes = (self._dealt(width), self._turned(width))
            fitting = [parts for parts in shapes if all(part.fits(width) for part in parts)]
            if fitting:
                for part in min(fitting, key=lambda parts: sum(map(_lines, parts))):
                    yield part._drawn(width)
            else:
                yield from self._entries(width)

    def _natural(self) -> list[int]:
        """The width of each column if nothing is broken."""
        return [
            max([cell_len(name), *(row[index].cell_len for row in self.rows)])
            for index, name in enumerate(self.columns)
        ]

    def _least(self) -> list[int]:
        """The width of each column if all is broken that may be: headings, sentences."""
        found = []
        for index, name in enumerate(self.columns):
            cells = [row[index] for row in self.rows]
            heading = max(map(cell_len, name.split()), default=0)
            if name in self.prose:
                words = (cell_len(word) for cell in cells for word in cell.plain.split())
                within = max([heading, PROSE_COLUMNS, *words])
                found.append(min(within, max([heading, *(cell.cell_len for cell in cells)])))
            else:
                found.append(max([heading, *(cell.cell_len for cell in cells)]))
        return found

    def _drawn(self, width: int) -> Table:
        """A row for each thing; what room is left goes to sentences, then to headings."""
        widths, natural = self._least(), self._natural()
        room = width - _framed(widths)
        order = sorted(range(len(widths)), key=lambda at: self.columns[at] not in self.prose)
        for at in order:
            more = max(0, min(room, natural[at] - widths[at]))
            widths[at], room = widths[at] + more, room - more
        made = Table(header_style="bold", box=self.frame)
        for index, (name, wide) in enumerate(zip(self.columns, widths, strict=True)):
            heading = "\n".join(textwrap.wrap(name, wide, break_long_words=False))
            is_number = index >= self.left and name not in self.prose
            made.add_column(
                Text(heading),
                justify="right" if is_number else "left",
                min_width=wide,
                max_width=wide,
            )
        for at, row in enumerate(self.rows):
            made.add_row(*([Text(), *row[1:]] if self._is_said(at) and width < UNLIMITED else row))
            if at + 1 in self.sections:
                made.add_section()
        return made

    def _is_said(self, at: int) -> bool:
        """Whether a row's first cell stands above it, in a section that has it in common."""
        if not self._has_groups or at == 0 or at in self.sections:
            return False
        return self.rows[at][0].plain == self.rows[at - 1][0].plain

    @property
    def _has_groups(self) -> bool:
        """Whether each section is about one thing, which its rows' first cells name."""
        return bool(self.sections) and self.keys > 1

    def _apart(self) -> Iterator[Sheet]:
        """A table for each section, under the name of what it is about."""
        for start, end in pairwise(sorted({0, *self.sections, len(self.rows)})):
            rows = [row[1:] for row in self.rows[start:end]]
            title = self.rows[start][0].plain
            yield Sheet(
                title, self.columns[1:], self.left - 1, self.keys - 1, rows=rows, frame=self.frame
            )

    def _dealt(self, width: int) -> list[Sheet]:
        """Its columns in several tables, each with the keys."""
        widths = self._least()
        groups: list[list[int]] = [[]]
        for at in range(self.keys, len(widths)):
            taken = [*range(self.keys), *groups[-1], at]
            if groups[-1] and _framed([widths[one] for one in taken]) > width:
                groups.append([])
            groups[-1].append(at)
        parts = []
        for group in groups:
            chosen = [*range(self.keys), *group]
            rows = [[row[at] for at in chosen] for row in self.rows]
            names = [self.columns[at] for at in chosen]
            left = sum(at < self.left for at in chosen)
            parts.append(
                Sheet(
                    "", names, left, self.keys, rows=rows, sections=self.sections, frame=self.frame
                )
            )
        return parts

    def _turned(self, width: int) -> list[Sheet]:
        """A column for each row, in as many tables as that takes."""
        heads = [Text(name) for name in self.columns[1:]]
        label = max([cell_len(self.columns[0]), *(head.cell_len for head in heads)])
        ends = [0]
        for at in range(len(self.rows)):
            shown = [_widest(row) for row in self.rows[ends[-1] : at + 1]]
            if len(shown) > 1 and _framed([label, *shown]) > width:
                ends.append(at)
        parts = []
        for start, end in pairwise([*ends, len(self.rows)]):
            mine = self.rows[start:end]
            names = [self.columns[0], *(row[0].plain for row in mine)]
            rows = [[head, *(row[at] for row in mine)] for at, head in enumerate(heads, 1)]
            parts.append(Sheet("", names, rows=rows, frame=self.frame))
        return parts

    def _entries(self, width: int) -> Iterator[RenderableType]:
        """Each row in several lines: what it is about, then sentences, then the rest."""
        several = len(self.prose) > 1
        for row in self.rows:
            cells = list(zip(self.columns, row, strict=True))
            about = [cell.plain for _, cell in cells[1 : self.keys] if cell.plain]
            yield Text.assemble((row[0].plain, "bold"), *(f"  {one}" for one in about))
            rest = [(name, cell) for name, cell in cells[self.keys :] if cell.plain]
            for name, cell in rest:
                if name in self.prose:
                    said = Text.assemble(f"{name}: ", cell) if several else cell
                    yield Padding(said, (0, 0, 0, INDENT), expand=False)
            short = [
                Text.assemble(f"{name}: ", cell) for name, cell in rest if name not in self.prose
            ]
            for packed in _packed(short, width - INDENT):
                if any(len(word) > width - INDENT for word in packed.plain.split()):
                    yield line(" " * INDENT).append_text(packed)
                else:
                    yield Padding(packed, (0, 0, 0, INDENT), expand=False)


@dataclass(frozen=True)
class FirstThatFits:
    """Tables of the same: the first that has room for its rows; else the first, in its shape."""

    sheets: Sequence[Sheet]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """That table."""
        fitting = (one for one in self.sheets if one.fits(options.max_width))
        yield next(fitting, self.sheets[0])


def table(
    title: str, *columns: str, left: int = 1, keys: int = 1, prose: Sequence[str] = ()
) -> Sheet:
    """An empty table whose first `left` columns are text and the others numbers."""
    return Sheet(title, list(columns), left, keys, frozenset(prose))


def _framed(widths: Sequence[int]) -> int:
    """The width of a table whose columns are so wide."""
    return sum(widths) + 3 * len(widths) + 1


def _lines(part: Sheet) -> int:
    """How many lines a table takes, about."""
    return len(part.rows) + 4


def _widest(row: Sequence[Text]) -> int:
    """The width of a row that has become a column."""
    return max(cell.cell_len for cell in row)


def _packed(parts: Sequence[Text], width: int) -> Iterator[Text]:
    """As many of some texts in a line as fit."""
    held: list[Text] = []
    for part in parts:
        if held and cell_len("; ".join(one.plain for one in [*held, part])) > width:
            yield Text("; ").join(held)
            held = []
        held.append(part)
    if held:
        yield Text("; ").join(held)

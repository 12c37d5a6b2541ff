"""Numbers and tables as people read them.

Always true here: a number loses no digit that counts, and a size has its unit.
"""

from __future__ import annotations

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text


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


def table(title: str, *columns: str, left: int = 1) -> Table:
    """An empty table whose first `left` columns are text and the others numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for index, column in enumerate(columns):
        justify: JustifyMethod = "left" if index < left else "right"
        made.add_column(column, justify=justify, overflow="fold")
    return made


def line(text: str = "", style: str = "") -> Text:
    """Text that is never broken at the width of the terminal, so that it can be copied whole.

    A token with a line break in it repeats nothing.
    """
    return Text(text, style=style, no_wrap=True, overflow="ignore")

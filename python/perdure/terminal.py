"""Where this command writes for people: standard output and standard error.

Always true here: on a terminal, lines are as long as it is wide; elsewhere, as in a pipe or a file,
they are as long as they need to be, unless COLUMNS says how wide they may be. A word that is longer
than a line, as a path may be, is not cut off: the terminal breaks it, and it can be copied whole.
What draws tables (`perdure.consoles`) is loaded when somebody draws.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure import capture

if TYPE_CHECKING:
    from rich.console import Console


def output() -> Console:
    """Standard output."""
    from perdure import consoles

    return consoles.output()


def errors() -> Console:
    """Standard error: what is no result."""
    from perdure import consoles

    return consoles.errors()


def tables(json_file: str | None) -> Console:
    """Where tables go: to standard error while standard output carries JSON alone."""
    return errors() if json_file == "-" else output()


@contextmanager
def guests(json_file: str | None) -> Iterator[None]:
    """Lets what a guest prints go to standard error while standard output carries JSON alone."""
    if json_file != "-":
        yield
        return
    with capture.redirected(2):
        yield


def tell(lines: Iterable[str]) -> None:
    """Remarks of this command itself, on standard error."""
    for line in lines:
        print(f"perdure: {line}", file=sys.stderr)

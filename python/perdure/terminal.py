"""Where this command writes for people: standard output and standard error.

Always true here: on a terminal, lines are as long as it is wide; elsewhere, as in a pipe or a file,
they are as long as they need to be, unless COLUMNS says how wide they may be. A word that is longer
than a line, as a path may be, is not cut off: the terminal breaks it, and it can be copied whole.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from rich.console import Console

from perdure import capture
from perdure.tables import UNLIMITED


class Whole(Console):
    """Prints lines as they are."""

    def print(self, *objects: Any, crop: bool = False, **given: Any) -> None:
        """Without cutting off what is longer than a line."""
        super().print(*objects, crop=crop, **given)


def output() -> Console:
    """Standard output."""
    return Whole(width=_width(sys.stdout))


def errors() -> Console:
    """Standard error: what is no result."""
    return Whole(stderr=True, width=_width(sys.stderr))


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


def _width(stream: IO[str]) -> int | None:
    """None: what rich finds, on a terminal or in COLUMNS."""
    return None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else UNLIMITED

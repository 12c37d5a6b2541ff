"""What draws tables on this command's standard output and standard error (`perdure.terminal`).

Always true here: a word that is longer than a line is not cut off.
"""

from __future__ import annotations

import os
import sys
from typing import IO, Any

from rich.console import Console

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
    """Standard error."""
    return Whole(stderr=True, width=_width(sys.stderr))


def _width(stream: IO[str]) -> int | None:
    """None: what rich finds, on a terminal or in COLUMNS."""
    return None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else UNLIMITED

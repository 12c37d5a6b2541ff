"""Keeping what a guest writes to standard output.

Always true here: file descriptor 1 is back in its place when the block ends, however it ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


class Captured:
    """What was written; complete once the block has ended."""

    def __init__(self) -> None:
        self.content = b""

    @property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return self.content.decode(errors="replace").splitlines()


@contextmanager
def standard_output() -> Iterator[Captured]:
    """Keeps what this process, and so a guest run with `passthrough`, writes to descriptor 1."""
    captured = Captured()
    sys.stdout.flush()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield captured
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)
            file.seek(0)
            captured.content = file.read()

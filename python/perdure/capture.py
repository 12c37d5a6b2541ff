"""Keeping what a guest writes to its standard streams.

Always true here: file descriptor 1 is back in its place when the block ends, however it ends; of a
stream no more is kept than `KEPT_BYTES`.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

KEPT_BYTES = 64 << 20
"""Of each stream; what a guest writes beyond that is not kept."""


class Heard:
    """What programs wrote, as the core hands it on; with `shown` also to this process's streams.

    Those are Python's, which a notebook's cell shows, and not the descriptors.
    """

    def __init__(self, shown: bool = False) -> None:
        self._shown = shown
        self._kept = {1: bytearray(), 2: bytearray()}
        # A character may come in two parts.
        self._decoders = {
            one: codecs.getincrementaldecoder("utf-8")("replace") for one in self._kept
        }

    def __call__(self, descriptor: int, data: bytes) -> None:
        """Takes what was released."""
        kept = self._kept[descriptor]
        kept += data[: max(0, KEPT_BYTES - len(kept))]
        if self._shown:
            stream = sys.stderr if descriptor == 2 else sys.stdout
            stream.write(self._decoders[descriptor].decode(data))
            stream.flush()

    @property
    def texts(self) -> dict[str, str]:
        """Both streams as text, under the names that results have for them."""
        names = {1: "stdout", 2: "stderr"}
        return {names[one]: kept.decode(errors="replace") for one, kept in self._kept.items()}


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
    import tempfile

    captured = Captured()
    with tempfile.TemporaryFile() as file:
        try:
            with redirected(file.fileno()):
                yield captured
        finally:
            file.seek(0)
            captured.content = file.read()


@contextmanager
def redirected(target: int) -> Iterator[None]:
    """Lets what this process, and so a guest, writes to descriptor 1 go to another one."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(target, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)

"""Standard output and standard error of the command, where they are closed, full or not read.

Always true here: the first thing that standard output refuses ends the command, whoever wrote it:
with status 141 and no word where nobody reads it any more, else with one line and status 2. What
standard error refuses is dropped: it is no result, and changes no exit status. Descriptors 1 and 2
are open, so that no file of the command's gets such a number, and with it what a guest prints.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from perdure.statuses import GONE, REFUSED


class _Errors(io.FileIO):
    """Standard error; what it does not take counts as written."""

    def write(self, data: Any, /) -> int:
        """Writes it, or drops it."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


class _Output(io.FileIO):
    """Standard output."""

    ends = False
    """The command ends for what was refused: what is left in buffers is dropped."""

    def write(self, data: Any, /) -> int:
        """Writes it.

        Raises:
            OutputError: it was refused.
        """
        # Whether one can write at all is tried with nothing (by typer), and no error of the user's.
        if self.ends or not data:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(self, error) from error


class OutputError(Exception):
    """Standard output has refused something; no OSError, of which typer and rich make status 1."""

    def __init__(self, output: _Output, refusal: OSError) -> None:
        super().__init__(f"standard output: {refusal.strerror}")
        self.output = output
        self.status = GONE if refusal.errno == errno.EPIPE else REFUSED


@contextmanager
def watched() -> Iterator[None]:
    """What a command does, which ends as this module says where standard output refuses it."""
    before = sys.stdout, sys.stderr
    sys.stderr = _over(sys.stderr, 2, _Errors)
    sys.stdout = _over(sys.stdout, 1, _Output)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as error:
        error.output.ends = True
        if error.status != GONE:
            print(f"perdure: {error}", file=sys.stderr)
        sys.exit(error.status)
    finally:
        sys.stdout, sys.stderr = before


def _over(stream: TextIO | None, descriptor: int, kind: type[io.FileIO]) -> TextIO:
    """A stream like the given one; where that is no file, as in some tests, itself."""
    if stream is None:
        _open_null(descriptor)
        return io.TextIOWrapper(io.BufferedWriter(kind(descriptor, "w", closefd=False)), "utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        raw = kind(stream.fileno(), "w", closefd=False)
    except OSError:
        return stream
    stream.flush()
    # Without buffers, as Python is where PYTHONUNBUFFERED is set, there is none below, either.
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _open_null(descriptor: int) -> None:
    """Lets a descriptor that was closed when Python started lead nowhere, for children as well."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    else:
        os.set_inheritable(descriptor, True)

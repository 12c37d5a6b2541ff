"""A command's own standard input, which `--stdin -` hands to a guest.

Always true here: it is read once, before anything runs, and not without an end.
"""

from __future__ import annotations

import atexit
import os
import stat
import sys
import tempfile
from pathlib import Path

from perdure._core import PerdureError

MOST_BYTES = 1 << 30
"""Of what is no regular file, and so may have no end."""


def kept(folder: Path | None) -> str:
    """The file that it is kept in: in a folder of results, or one that goes with the command."""
    content = _content()
    if folder is None:
        descriptor, name = tempfile.mkstemp(prefix="perdure-stdin-")
        atexit.register(Path(name).unlink, missing_ok=True)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return name
    path = folder / "standard-input"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise PerdureError(f"{path}: {error.strerror}") from error
    return str(path)


def _content() -> bytes:
    stream = sys.stdin.buffer
    if _has_an_end():
        return stream.read()
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise PerdureError(
            f"--stdin -: standard input goes on after {MOST_BYTES >> 30} GiB: give a file"
        )
    return content


def _has_an_end() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):
        return False

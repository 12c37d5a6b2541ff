"""JSON files of the user's, which may hold anything.

Always true here: what cannot be read is a refusal of one line that says what is wrong with the
file, whatever the file holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perdure._core import PerdureError

MOST_OF_A_STREAM = 1 << 26
"""Bytes of what is no regular file, and so may have no end."""


def read(path: Path, named: str, remedy: str) -> Any:
    """What a JSON file holds; a refusal begins with how the file is named, and ends with a remedy.

    Raises:
        PerdureError: it cannot be read, or is not JSON.
    """
    has_an_end = path.is_file()
    try:
        with path.open("rb") as file:
            content = file.read(-1 if has_an_end else MOST_OF_A_STREAM + 1)
    except OSError as error:
        raise PerdureError(f"{named} cannot be read: {error.strerror}; {remedy}") from error
    if not has_an_end and len(content) > MOST_OF_A_STREAM:
        most = MOST_OF_A_STREAM >> 20
        raise PerdureError(f"{named} is longer than {most} MiB, and no regular file")
    return parsed(content, named, remedy)


def parsed(content: bytes, named: str, remedy: str) -> Any:
    """The same of what a file held."""
    try:
        return json.loads(content)
    except RecursionError:
        why = "its lists and objects are nested too deeply"
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    except ValueError as error:
        why = str(error)
    raise PerdureError(f"{named} is not JSON: {why}; {remedy}")

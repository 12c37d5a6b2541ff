"""Short names for tokens of power cuts and of checks' bugs, which are too long to be typed.

Always true here: a token says everything, wherever it is replayed; a short name is the beginning of
its digest, and says nothing where the token was not kept. Tokens are kept in one folder, a file
each, of which the newest stay; where that folder cannot be written, only the short names are gone.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

from perdure import PerdureError, outputs

KEPT = 1000
"""Tokens in the folder, the newest."""

OF_CHECK = "c1-"
"""What the tokens of a check's bugs begin with."""

SHORT = re.compile(r"[a-z2-7]{8}")
"""What a short name looks like; a token is longer, and has capitals."""


def folder() -> Path | None:
    """Where tokens are kept: `$XDG_STATE_HOME/perdure/tokens`, `~/.local/state` without it."""
    root = os.environ.get("XDG_STATE_HOME", "")
    try:
        state = Path(root) if Path(root).is_absolute() else Path.home() / ".local/state"
    except RuntimeError:
        return None
    return state / "perdure/tokens"


def short(token: str) -> str:
    """The short name of a token: small letters and digits, the same wherever it is made."""
    digest = hashlib.sha256(token.encode()).digest()
    return base64.b32encode(digest).decode().lower()[:8]


def is_token(text: str | None) -> TypeGuard[str]:
    """Whether this is a token: what ends a run at once has a message in its place, or nothing."""
    return text is not None and text.startswith(("p2-", OF_CHECK))


def is_of_check(text: str) -> bool:
    """Whether this is the token of a bug that `perdure check` has found."""
    return text.startswith(OF_CHECK)


def remember(found: Iterable[str | None]) -> None:
    """Keeps those that are tokens under their short names, where that can be done."""
    kept = folder()
    if kept is None:
        return
    with suppress(OSError):
        for token in filter(is_token, found):
            kept.mkdir(parents=True, exist_ok=True)
            outputs.write_text(kept / short(token), token)
        forget(kept, KEPT)


def full(name: str) -> str:
    """The token of a short name; a token is one already.

    Raises:
        PerdureError: no token is kept under that name.
    """
    if SHORT.fullmatch(name) is None:
        return name
    kept = folder()
    if kept is not None:
        with suppress(OSError, UnicodeDecodeError):
            return (kept / name).read_text("utf-8")
    raise PerdureError(
        f"no token is kept here as '{name}' (in {kept}, the newest {KEPT:,}); give the whole "
        "token, from its mark (p2- or c1-) to its last character"
    )


def found(text: str) -> str | None:
    """The token that a word names, unless it is a file: in a place where programs may stand."""
    if is_token(text):
        return text
    kept = folder()
    if SHORT.fullmatch(text) is None or kept is None or Path(text).exists():
        return None
    return full(text) if (kept / text).is_file() else None


def shown(token: str) -> str:
    """A token as it is told: by its short name, if it is kept under that."""
    kept = folder()
    with suppress(OSError):
        if kept is not None and (kept / short(token)).is_file():
            return short(token)
    return token


def again(token: str) -> list[str]:
    """How to see a cut again, a line each: short if its token is kept, and whole."""
    name = shown(token)
    if name == token:
        return [f"again: perdure replay {token}"]
    return [f"again: perdure replay {name}", f"anywhere else: perdure replay {token}"]


def forget(kept: Path, most: int) -> None:
    """Removes the oldest files of a folder beyond so many."""
    found = sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found[most:]:
        path.unlink(missing_ok=True)

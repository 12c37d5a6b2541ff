"""What a value of an option may be, and what is said of one that it may not be.

Always true here: a message has the value as it was given, what is allowed, and, where one is
spelled nearly so, the nearest; a number that is taken is one that the core can be asked for.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

MOST = 2**64 - 1
"""The largest whole number that requests have."""

UNKNOWN = re.compile(
    r"configuration: (?:\[.*\] )?unknown variant `(.*)`, expected (?:one of )?(`.*`) in `.*`"
)
"""What the core says of a word that a key of the configuration cannot have."""


def nearest(given: str, known: Iterable[str], quote: str = "'") -> str:
    """The end of a message: which of the known words is spelled nearly so, if one is."""
    from difflib import get_close_matches

    near = get_close_matches(given, list(known), 1)
    return f"; the nearest is {quote}{near[0]}{quote}" if near else ""


def none_of(given: str, known: Iterable[str]) -> str:
    """That a word is none of those that there are."""
    words = list(known)
    return f"'{given}' is not one of {', '.join(words)}{nearest(given, words)}"


def of_setting(message: str, words: Iterable[str]) -> str:
    """A refusal of the core's with the key to which a command line gave the word, if one did."""
    found = UNKNOWN.fullmatch(message)
    if found is None:
        return message
    known = re.findall(r"`([^`]*)`", found[2])
    settings = [word.removeprefix("--set=").partition("=") for word in words]
    keys = {key for key, _, listed in settings if found[1] in listed.split(",")}
    if len(keys) != 1:
        return message
    return f"--set {keys.pop()}={found[1]}: {none_of(found[1], known)}"


def said(command: Any) -> Any:
    """A command, or a group of them, whose options say in these words what they refuse."""
    for one in command.params:
        kind = one.type
        if hasattr(kind, "choices"):
            one.type = _taken(kind, _word)
        elif kind.name.startswith("int"):
            one.type = _taken(kind, _whole)
        elif kind.name.startswith("float"):
            one.type = _taken(kind, _number)
    for name in getattr(command, "commands", ()):
        said(command.commands[name])
    return command


def _taken(kind: Any, wrong: Callable[[Any, Any], str | None]) -> Any:
    """The same type of values, which refuses what is wrong in these words."""
    found = copy.copy(kind)

    def convert(value: Any, parameter: Any, context: Any) -> Any:
        message = wrong(kind, value)
        if message is not None:
            kind.fail(message, parameter, context)
        return kind.convert(value, parameter, context)

    found.convert = convert
    return found


def _word(kind: Any, value: Any) -> str | None:
    known = [str(getattr(one, "value", one)) for one in kind.choices]
    given = str(getattr(value, "value", value))
    return None if given in known else none_of(given, known)


def _whole(kind: Any, value: Any) -> str | None:
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    try:
        number = int(value)
    except ValueError:
        number = None
    if number is not None and (least is None or number >= least):
        if number <= (MOST if most is None else most):
            return None
        return f"{value} is more than {MOST if most is None else most:,}"
    return f"'{value}' is not a whole number" + ("" if least is None else f" of at least {least}")


def _number(kind: Any, value: Any) -> str | None:
    least = getattr(kind, "min", None)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isfinite(number) and (least is None or number >= least):
        return None
    return f"'{value}' is not a number" + ("" if least is None else f" of at least {least:g}")

"""Why a power cut failed, typed: what `explanation` of a result has.

Always true here: dictionaries, as in the JSON, with typed keys; addresses are hexadecimal text, and
words and lines are hexadecimal numbers of eight bytes.
"""

from __future__ import annotations

from typing import TypedDict

from perdure.fields import Bytes, Cycles


class Place(TypedDict):
    """Where a line's bytes were when the power went; which it `has`: newest, expected, found."""

    place: str
    state: str
    version: int | None
    survives: bool
    has: list[str]


class WrongWord(TypedDict):
    """A word of a line, by its number, with the `part` of the variable that it is."""

    word: int
    part: str | None
    expected: str
    found: str
    newest: str


class CodePlace(TypedDict):
    """Where an instruction lies; the function and the line are null where nobody knows them."""

    address: str
    function: str | None
    offset: int | None
    file: str | None
    line: int | None


class LastStore(TypedDict):
    """Who stored to a line last: in which epoch, where there are any; and by which instruction.

    Where the `kernel` stored, it says what that was doing, and the instruction is the one on whose
    behalf, if there is one.
    """

    hart: int
    at: Cycles
    epoch: int | None
    kernel: str | None
    instruction: CodePlace | None


class WrongLine(TypedDict):
    """A line that is wrong, and how: older, newer, mixed or neither; `says` has it in words."""

    physical_address: str
    address: str | None
    kind: str
    says: str
    words: list[WrongWord]
    expected: str
    found: str
    stores: int
    last_store: LastStore | None
    places: list[Place] | None


Thing = TypedDict(
    "Thing",
    {
        "class": str,
        "name": str,
        "file": str | None,
        "process": int | None,
        "address": str,
        "bytes": Bytes,
        "lines": int,
        "words": int,
        "kinds": dict[str, int],
        "shown": list[WrongLine],
    },
)
Thing.__doc__ = (
    """What lies at wrong lines: a variable, a pool, a heap, with some of these lines."""
)


class WriteInFlight(TypedDict):
    """A write that memory had accepted and that was not durable; its `fate` is torn or lost."""

    module: str
    physical_address: str
    address: str | None
    bytes: Bytes
    name: str | None
    begins: Cycles
    durable: Cycles
    fate: str


class InFlight(TypedDict):
    """How many writes were in flight, and the first of them."""

    writes: int
    shown: list[WriteInFlight]


class _EveryEvent(TypedDict):
    at: Cycles
    what: str


class Event(_EveryEvent, total=False):
    """Something that happened before the cut, with what belongs to it."""

    hart: int
    address: str | None
    name: str | None
    cause: str
    module: str
    physical_address: str
    bytes: Bytes
    begins: Cycles
    durable: Cycles
    epoch: int
    state: str


class Cores(TypedDict):
    """Core files that were written, and whether registers of `found` are what came back."""

    expected: str
    found: str
    process: int
    executable: str
    program: str | None
    restored: bool


class Explanation(TypedDict):
    """Why a cut failed: wrong lines by what lies there, where their bytes were, what happened."""

    cycle: Cycles
    life: int
    against: str
    marks: str
    epoch: int | None
    executing_epoch: int | None
    refused: str | None
    lines: int
    kinds: dict[str, int]
    lines_not_followed: int
    things: list[Thing]
    in_flight: InFlight
    timeline: list[Event]
    cores: Cores | None

"""What is said of a bug that `perdure check` has found: titles, places, and what belongs where.

Always true here: a place whose source is not known is named by its function, or else its address;
nothing is said that the report does not know.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perdure import _core
from perdure.explanation import plural

if TYPE_CHECKING:
    from perdure.check_results import Bug, Moment, Place, Store

ADVICE = {
    "missing-flush": "flush the line behind this store, and wait for that with a fence, before "
    "anything that relies on it",
    "flush-too-early": "flush the line again behind this store, or flush it only then, and wait "
    "for that with a fence",
    "missing-fence": "the line is flushed; wait for that with a fence before anything that relies "
    "on it",
    "wrong-order": "make this store durable before the one that leads to it, or that relies on it",
    "torn": "these stores have to be seen together: put them into one store of eight bytes, write "
    "a copy and switch to it, or log them first",
    "not-recoverable": "nothing has to be lost for this: do not make that store before all that it "
    "stands for is durable, or log the change first, so that recovery can finish or undo it",
}
"""What would mend each kind of defect."""

MEANING = {
    "missing-flush": "nothing flushes the line of a store",
    "flush-too-early": "a line is flushed before a store to it, and not since",
    "missing-fence": "nothing waits for a flush before something relies on it",
    "wrong-order": "what relies on a store is durable first",
    "torn": "stores that belong together are found apart",
    "not-recoverable": "recovery fails on all that was stored",
}
"""Each kind of defect in a line."""


@dataclass(frozen=True)
class Mark:
    """What is said of a place: that something happens in it, or belongs before or behind it."""

    place: Place
    kind: Literal["lost", "kept", "power", "missing"]
    text: str
    beside: Literal["at", "behind", "before"] = "at"


def printable(text: str) -> str:
    """A program's own words in a line, in which nothing moves a cursor or ends a document."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def name_of(place: Place) -> str:
    """A place's function as its author wrote it, or else its address."""
    function = place["function"]
    return _core.demangled(function) if function else place["pc"]


def file_of(place: Place) -> str | None:
    """A place's file, without steps that lead nowhere."""
    return posixpath.normpath(place["file"]) if place["file"] else None


def where(place: Place | None) -> str:
    """A place of the program, in few words."""
    if place is None:
        return "somewhere"
    source = place["file"]
    line = f" ({Path(source).name}:{place['line']})" if source and place["line"] else ""
    return f"{name_of(place)}{line}"


def title(bug: Bug) -> str:
    """A bug in a line."""
    defect = str(bug["defect"]).replace("-", " ")
    places = sorted({where(one["place"]) for one in bug["lost"] or bug["kept"]})
    if not places:
        when = "before" if bug["cut"] is None else "behind the store in"
        return f"{defect}: power fails {when} {where(bug['point']['place'])}"
    return f"{defect}: {', '.join(places)}"


def at_point(bug: Bug) -> str:
    """When power fails, in words."""
    point = bug["point"]
    reason = str(point["reason"])
    during = "" if point["operation"] is None else f", during operation {point['operation']}"
    if point["in_recovery"]:
        during = f" of {point['in_recovery']}, after it had failed{during}"
    if reason.startswith("cut at"):
        return f"power is {reason}{during}, behind the store in {where(point['place'])}"
    if point["instructions"] is not None:
        during += f", {plural(point['instructions'], 'instruction')} after the start"
    if reason == "end":
        return f"power fails when the program has ended{during}"
    what = {"fence": "before the fence in", "flush": "before the flush in"}.get(
        reason, f"before {reason.replace(' begins', '')} begins in"
    )
    return f"power fails {what} {where(point['place'])}{during}"


def callers(one: Store) -> str:
    """The calls that a store was made in, the innermost first."""
    return " < ".join(where(frame) for frame in (one["stack"] or [])[1:4])


def kept_words(bug: Bug) -> str:
    """What the stores are that should not be there."""
    return "yet durable" if bug["lost"] else "too early"


def belongs(bug: Bug) -> Iterator[Mark]:
    """What is missing, and where it would go: only where that is known."""
    if bug["defect"] in ("missing-flush", "flush-too-early"):
        for one in bug["lost"]:
            if one["behind"] is not None:
                yield Mark(one["behind"], "missing", "a flush belongs", "behind")
    if bug["defect"] == "missing-fence":
        if (flush := flushed_by_another(bug)) is None:
            for place in _orders(bug, later=True):
                yield Mark(place, "missing", "a fence belongs", "before")
        elif flush["place"] is not None:
            yield Mark(flush["place"], "missing", "a fence belongs", "behind")
    if bug["defect"] == "wrong-order":
        store = where(bug["lost"][0]["place"]) if bug["lost"] else "the store"
        for later, what in (
            (False, f"the store in {store}, its flush and a fence belong"),
            (True, f"a flush of the line of the store in {store} and a fence belong"),
        ):
            for place in _orders(bug, later=later):
                yield Mark(place, "missing", what, "before")


def flushed_by_another(bug: Bug) -> Moment | None:
    """Where a fence belongs that only the thread which flushed can make, and another one stored."""
    kept = {moment["thread"] for moment in bug["timeline"] if moment["kind"] == "kept"}
    missing = (moment for moment in bug["timeline"] if moment["kind"] == "missing-fence")
    return next((moment for moment in missing if moment["thread"] not in kept), None)


def _orders(bug: Bug, later: bool) -> Iterator[Place]:
    """Where those stores come from that are kept, and were made behind all lost ones, or before."""
    lost = [one["instruction"] for one in bug["lost"]]
    found: dict[tuple[str | None, int | None], Place] = {}
    for kept in bug["kept"]:
        at = kept["instruction"]
        if lost and (at > max(lost) if later else at < min(lost)):
            place = _parting(bug["lost"][0]["stack"] or [], kept["stack"] or []) or kept["place"]
            if place is not None:
                found.setdefault((file_of(place), place["line"]), place)
    yield from found.values()


def _parting(lost: list[Place], kept: list[Place]) -> Place | None:
    """The line from which the kept store is reached, of the function that both stores are made for.

    There an order is to be seen, and not in the function that makes the store, which may be called
    for other things, too.
    """
    for one, other in zip(reversed(lost), reversed(kept), strict=False):
        same = (one["function"], one["file"]) == (other["function"], other["file"])
        if not same or one["line"] is None or other["line"] is None:
            return None
        if one["line"] != other["line"]:
            return other
    return None


def marks(bug: Bug) -> Iterator[Mark]:
    """All that is to be shown in the program's source."""
    kinds: tuple[tuple[list[Store], Literal["lost", "kept"], str], ...] = (
        (bug["lost"], "lost", "recovery does not find this store"),
        (bug["kept"], "kept", "recovery finds this store"),
    )
    for stores, kind, text in kinds:
        for one in stores:
            if one["place"] is not None:
                yield Mark(one["place"], kind, text)
    yield from belongs(bug)
    if bug["point"]["place"] is not None:
        reason = bug["point"]["reason"]
        words = {"fence": "before this fence", "flush": "before this flush", "end": "at the end"}
        yield Mark(
            bug["point"]["place"], "power", f"power fails {words.get(reason, 'before this')}"
        )

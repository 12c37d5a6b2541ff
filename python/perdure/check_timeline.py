"""A bug of `perdure check` in the order in which it happens, in words.

Always true here: stores have letters, those that are lost first; nothing is said of what the report
has left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure import check_reports
from perdure.check_words import at_point, belongs, where

if TYPE_CHECKING:
    from perdure.check_results import Bug, Moment

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORD_BYTES = 8


@dataclass(frozen=True)
class Step:
    """What happens, `later` instructions after the step before."""

    kind: str
    what: str
    where: str = ""
    letter: str = ""
    later: int | None = None


def letter(store: int) -> str:
    """What a store is called."""
    return LETTERS[store] if store < len(LETTERS) else f"{store + 1}"


def steps(bug: Bug) -> Iterator[Step]:
    """What happens, in order, and what would have happened then."""
    threads = {moment["thread"] for moment in bug["timeline"]}
    before: int | None = None
    for moment in bug["timeline"]:
        kind, _, missing = moment["kind"].partition("-")
        later = None
        if not missing:
            # Stores of a machine that is cut are numbered, and not by instructions.
            known = before is not None and bug["cut"] is None
            later = moment["instruction"] - (before or 0) if known else None
            before = moment["instruction"]
        what = _what(bug, moment)
        if len(threads) > 1 and moment["times"] is None:
            what = f"thread {moment['thread']}: {what}"
        yield Step(
            kind if moment["times"] is None else "more",
            what,
            _where(bug, moment),
            letter(moment["stores"][0]) if kind in ("lost", "kept") else "",
            later,
        )
    for number, one in enumerate(bug["lost"]):
        if one["durable_at"] is not None:
            place = where(one["durable_at"])
            yield Step("late", f"{letter(number)} would be durable", place)


def _where(bug: Bug, moment: Moment) -> str:
    """Where it happens; or when power fails, which the point says, what is lacking then."""
    if moment["kind"] == "power":
        return "; ".join(lacking(bug))
    if moment["kind"] in ("missing-fence", "missing-order", "missing-flush-and-fence"):
        found = [f"{mark.beside} {where(mark.place)}" for mark in belongs(bug)]
        return found[0] if len(found) == 1 else ""
    places = (moment["place"], moment["caller"])
    return " ← ".join(where(place) for place in places if place is not None)


def _what(bug: Bug, moment: Moment) -> str:
    """What happens, without where."""
    stores, by = moment["stores"], moment["by"]
    names = _all_of([letter(store) for store in stores])
    match moment["kind"]:
        case "lost":
            return f"store to {_target(bug, stores[0])}, which recovery does not find"
        case "kept":
            return f"store to {_target(bug, stores[0])}, which recovery finds"
        case "missing-flush":
            return f"a flush of the line of {names} belongs here"
        case "missing-fence":
            return f"a fence belongs here, which waits for the flush of {names}"
        case "missing-flush-and-fence":
            return f"a flush of the line of {names} and a fence belong here"
        case "missing-order":
            belong = "belongs" if len(stores) == 1 else "belong"
            return f"{names} {belong} here, with flush and fence"
        case "power":
            return at_point(bug)
    if moment["times"] is not None:
        more = f"… {moment['times']:,} more "
        one = "fence" if moment["kind"] == "fence" else "flush"
        return more + one + ("" if moment["times"] == 1 else "s" if one == "fence" else "es")
    if moment["kind"] == "fence":
        what = "the kernel waits" if by == "kernel" else by or "a fence"
        return what if moment["waits"] else f"{what}, which waits for no flush"
    who = "the kernel" if by == "kernel" else by or "the machine"
    return f"{who} flushes the line of {names}"


def lacking(bug: Bug) -> Iterator[str]:
    """Of lost stores, what has not happened when power fails, as far as all of it is known."""
    said: dict[str, list[str]] = {}
    for store in range(len(bug["lost"])):
        lacks = _lacks(bug["timeline"], store)
        if lacks is not None:
            said.setdefault(lacks, []).append(letter(store))
    for lacks, letters in said.items():
        yield f"{_all_of(letters)} {'was' if len(letters) == 1 else 'were'} {lacks}"


def _lacks(timeline: Sequence[Moment], store: int) -> str | None:
    """What has not happened to a lost store."""
    flushes = [
        number
        for number, moment in enumerate(timeline)
        if moment["kind"] == "flush" and store in moment["stores"]
    ]
    (made,) = [
        number
        for number, moment in enumerate(timeline)
        if moment["kind"] == "lost" and store in moment["stores"]
    ]
    behind = [number for number in flushes if number > made]
    left_out = {moment["kind"] for moment in timeline[made:] if moment["times"] is not None}
    if not behind:
        if "flush" in left_out:
            return None
        return "flushed too early, and not since" if flushes else "never flushed"
    thread = timeline[behind[0]]["thread"]
    waited = any(
        moment["kind"] == "fence" and moment["waits"] and moment["thread"] == thread
        for moment in timeline[behind[0] :]
    )
    if waited or left_out:
        return None
    return "flushed, and no fence has waited for that"


def _target(bug: Bug, store: int) -> str:
    """Where a store goes, and what that is to the program."""
    one = [*bug["lost"], *bug["kept"]][store]
    place = check_reports.place_of(one)
    if one["offset"] is None:
        return place
    start = one["offset"] % check_reports.LINE_BYTES // WORD_BYTES * WORD_BYTES
    parts = [word["part"] for word in one["words"] if word["offset"] == start and word["part"]]
    return " ".join([place, *parts])


def _all_of(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

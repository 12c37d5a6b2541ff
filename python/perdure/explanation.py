"""Why a power cut failed, for people: bytes, versions, places, and what was on its way.

Always true here: nothing is computed that the explanation does not say; a number, a name and a word
of memory stand whole in one line, so that they can be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from perdure.api import Json
from perdure.tables import number

THINGS_SHOWN = 4
LINES_SHOWN = 2
WORDS_SHOWN = 4
WRITES_SHOWN = 4
EVENTS_SHOWN = 3
EVENT_LINES = 4
"""Of the lines that come first, the events are told."""
PART_COLUMNS = 22
COLUMNS = 80

CLASSES = {
    "data": "data",
    "pool": "a pool",
    "heap": "heap",
    "anonymous": "mapped without a file",
    "stack": "stack",
    "file": "mapped file",
    "code": "code",
    "context": "saved by the system",
    "kernel": "saved by the system",
    "other": "beside all programs",
}
"""What a thing is, by its class."""

AREA = "the design's area"
"""How places begin that are a design's own in memory: its logs and tables."""

EVENTS = {
    "store": "store",
    "eviction": "eviction",
    "write": "write to memory",
    "log-write": "log",
    "table-write": "table",
    "epoch-ended": "epoch ends",
    "epoch-persisted": "epoch persisted",
    "design-state": "design",
}
"""What an event of the timeline is called."""


def plural(count: int, what: str) -> str:
    """A number of things."""
    return f"{number(count)} {what}" + ("" if count == 1 else "s")


def compared(explained: Json) -> str:
    """What memory was compared with, and what came of that."""
    if explained["against"] == "newest":
        what = "the pools, against what the program had stored"
    elif explained["epoch"] is None:
        what = "memory, against what was promised"
    else:
        end = f"the end of epoch {explained['epoch']}" if explained["epoch"] else "the start"
        what = f"memory, against {end} (the cut came in epoch {explained['executing_epoch']})"
    if not explained["lines"]:
        return f"{what}: every byte is right"
    kinds = explained["kinds"]
    said = ", ".join(f"{number(count)} {kind}" for kind, count in kinds.items())
    if len(kinds) == 1 and not explained["lines_not_followed"]:
        said = next(iter(kinds))
    return f"{what}: {plural(explained['lines'], 'wrong line')}, {said}"


def base_name(path: str) -> str:
    """The last part of a path, as a name."""
    return path.rsplit("/", 1)[-1]


def thing_title(thing: Json) -> str:
    """A thing, what it is and where."""
    where = f" of {base_name(thing['file'])}" if thing["file"] else ""
    at = f", {number(thing['bytes'])} bytes at {thing['address']}" if thing["bytes"] else ""
    wrong = plural(thing["lines"], "wrong line")
    return f"{CLASSES.get(thing['class'], thing['class'])}{where}{at}: {wrong}"


def place_name(place: Json) -> str:
    """A place, with its state and the version that its bytes carry."""
    more = [str(place["state"])] if place["state"] else []
    if place["version"] is not None:
        more.append(f"version {place['version']}")
    return f"{place['place']} ({', '.join(more)})" if more else str(place["place"])


def where(line: Json) -> Iterator[tuple[str, str]]:
    """Where the newest, the expected and the found bytes of a line were when the power was cut."""
    places: Sequence[Json] = line["places"] or ()
    for key, label in (("newest", "newest"), ("expected", "expected")):
        has = [place for place in places if key in place["has"]]
        if key == "expected" and any("newest" in place["has"] for place in has):
            continue
        if has:
            lost = "" if any(place["survives"] for place in has) else "; lost with the power"
            more = f" and {plural(len(has) - 1, 'other place')}" if len(has) > 1 else ""
            yield label, f"{place_name(has[0])}{more}{lost}"
        elif places:
            yield label, "in no place that was looked at (logs and tables may have it)"
    sources = [
        place for place in places if "found" in place["has"] and place["place"].startswith(AREA)
    ]
    if sources:
        yield "found", f"also in {place_name(sources[0])}"
    others = [place_name(place) for place in places if not place["has"]]
    if others:
        yield "also", ", ".join(others) + ": other versions"


def part(thing: Json, line: Json, word: Json) -> str:
    """What of a thing a word is: its part, itself, or where in its line."""
    if word["part"]:
        return str(word["part"])
    return base_name(thing["name"]) if line["address"] else f"+{8 * word['word']:#x}"


def writer(store: Json) -> str:
    """The instruction that made a store, or what the kernel did when it made it."""
    at = code_place(store["instruction"]) if store["instruction"] else ""
    if store["kernel"] is None:
        return at or "an instruction"
    return f"the kernel ({store['kernel']}{' at ' if at else ''}{at})"


def code_place(place: Json) -> str:
    """Where an instruction lies, as far as that is known."""
    function = f" <{place['function']}+{place['offset']}>" if place["function"] else ""
    line = f" {place['file']}:{place['line']}" if place["file"] else ""
    return f"{place['address']}{function}{line}"


def last_store(line: Json) -> str:
    """Who stored to a line last."""
    last = line["last_store"]
    if last is None:
        return "none since the start"
    epoch = "" if last["epoch"] is None else f", in epoch {last['epoch']}"
    times = plural(line["stores"], "store")
    when = f"hart {last['hart']}, cycle {number(last['at'])}{epoch} ({times} in all)"
    return f"{writer(last)}, {when}"


def event_text(event: Json) -> str:
    """An event of the timeline, in words."""
    what = event["what"]
    if what == "store":
        return f"hart {event['hart']} to {event['name']}, {event['address']}"
    if what == "eviction":
        return f"{event['name']}, {event['address']}, by {event['cause']}"
    if what == "design-state":
        return str(event["state"])
    if what.startswith("epoch"):
        return f"epoch {event['epoch']}"
    named = f"{event['name']}, {event['address']}" if what == "write" else event["physical_address"]
    return f"{event['bytes']} bytes, {named}; durable at {number(event['durable'])}"


def differing(expected: str, found: str) -> Iterator[tuple[str, bool]]:
    """The digits of a word that was found, byte by byte, and whether each byte is wrong."""
    for at in range(0, len(found), 2):
        yield found[at : at + 2], found[at : at + 2] != expected[at : at + 2]


class Told:
    """Text that grows line by line."""

    def __init__(self) -> None:
        """Begins with nothing."""
        self.text = Text(no_wrap=True, overflow="ignore")

    def line(self, text: str = "", style: str = "", indent: int = 2) -> None:
        """Adds a line."""
        self.text.append(" " * indent)
        self.text.append(text, style)
        self.text.append("\n")

    def folded(self, words: str, style: str = "", indent: int = 2, hang: int = 2) -> None:
        """Adds text in lines that an 80-column terminal shows whole, broken between words."""
        for text in textwrap.wrap(
            words,
            COLUMNS,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        ):
            self.line(text, style, indent=0)

    def word(self, part: str, word: Json) -> None:
        """Adds a wrong word: its part, as it should be, and as it was found."""
        if len(part) > PART_COLUMNS:
            self.line(part, indent=6)
            part = ""
        self.text.append(f"      {part:<{PART_COLUMNS}}  {word['expected']}  ")
        for digits, is_wrong in differing(word["expected"], word["found"]):
            self.text.append(digits, "bold red" if is_wrong else "")
        self.text.append("\n")


def _line(told: Told, thing: Json, line: Json) -> None:
    address = line["address"] or f"physical {line['physical_address']}"
    told.folded(f"{address}  {line['says']}", "yellow", indent=4)
    if line["words"]:
        told.line(f"      {'part':<{PART_COLUMNS}}  {'expected':<16}  found", "dim", indent=0)
    for word in line["words"][:WORDS_SHOWN]:
        told.word(part(thing, line, word), word)
    rest = len(line["words"]) - WORDS_SHOWN
    if rest > 0:
        told.line(f"… and {plural(rest, 'more word')}", indent=6)
    for label, place in where(line):
        told.folded(f"{label + ':':<10}{place}", indent=6, hang=10)
    told.folded(f"{'stored:':<10}{last_store(line)}", indent=6, hang=10)


def _things(told: Told, things: Sequence[Json]) -> None:
    for thing in things[:THINGS_SHOWN]:
        told.line(base_name(str(thing["name"])), "bold")
        told.folded(thing_title(thing), indent=4)
        shown = thing["shown"][:LINES_SHOWN]
        for line in shown:
            _line(told, thing, line)
        if len(shown) < thing["lines"]:
            told.line(f"… and {plural(thing['lines'] - len(shown), 'more line')}", indent=4)
    rest = things[THINGS_SHOWN:]
    if rest:
        lines = sum(thing["lines"] for thing in rest)
        names = ", ".join(str(thing["name"]) for thing in rest[:4])
        more = ", …" if len(rest) > 4 else ""
        told.folded(f"and {plural(lines, 'wrong line')} in {names}{more}")


def _in_flight(told: Told, flight: Json) -> None:
    if not flight["writes"]:
        return
    told.line(f"{plural(flight['writes'], 'write')} accepted and not durable at the cut", "bold")
    for write in flight["shown"][:WRITES_SHOWN]:
        at = write["address"] or write["physical_address"]
        told.folded(
            f"{write['fate']}: {write['bytes']} bytes of {base_name(write['name'])} at {at}, "
            f"durable from {number(write['durable'])}",
            indent=4,
        )
    if flight["writes"] > WRITES_SHOWN:
        told.line(f"… and {number(flight['writes'] - WRITES_SHOWN)} more", indent=4)


def _timeline(told: Told, explained: Json) -> None:
    cut = explained["cycle"]
    shown = [line for thing in explained["things"][:THINGS_SHOWN] for line in thing["shown"]]
    addresses = {line["address"] or line["physical_address"] for line in shown[:EVENT_LINES]}
    events = [
        event for event in explained["timeline"] if event.get("address") in {None, *addresses}
    ]
    if not events:
        return
    told.line("what happened last (cycles before the cut)", "bold")
    by_kind: dict[str, list[int]] = {}
    for place, event in enumerate(events):
        by_kind.setdefault(event["what"], []).append(place)
    chosen = sorted(place for kind in by_kind.values() for place in kind[-EVENTS_SHOWN:])
    for event in (events[place] for place in chosen):
        label = EVENTS.get(event["what"], event["what"])
        before = f"{cut - event['at']:,}"
        indent = 2 + max(0, 10 - len(before))
        told.folded(f"{before}  {label}: {event_text(event)}", indent=indent, hang=14 - indent)


def cores_lines(cores: Mapping[str, Any]) -> Iterator[str]:
    """What to type for the core files."""
    program = cores["program"] or "PROGRAM"
    for key in ("expected", "found"):
        yield f"{key}: gdb-multiarch {program} {cores[key]}"
    if not cores["restored"]:
        yield "registers and mappings are the expected ones in both; memory alone differs"


def terminal(explained: Json) -> Text:
    """An explanation as a terminal of 80 columns shows it."""
    told = Told()
    told.folded(compared(explained))
    if explained["lines_not_followed"]:
        rest = plural(explained["lines_not_followed"], "line")
        told.line(f"(versions of {rest} more were not followed)")
    _things(told, explained["things"])
    _in_flight(told, explained["in_flight"])
    _timeline(told, explained)
    if explained["cores"]:
        told.line("core files", "bold")
        for said in cores_lines(explained["cores"]):
            told.line(said, indent=4)
    told.text.right_crop(1)
    return told.text

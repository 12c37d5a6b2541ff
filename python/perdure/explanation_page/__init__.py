"""A failed power cut as a page: wrong bytes, where the right ones were, what happened before.

Always true here: the page needs nothing but itself, and says nothing that the explanation does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure import explanation, extras
from perdure.api import Json
from perdure.tables import number

FOLDER = Path(__file__).parent
LANES_OF_LINES = 8
WIDTH, LABELS, ROW, TOP = 1000, 210, 26, 26
"""Of the drawing: its width, its labels' width, a lane's height, where the first lane begins."""


@dataclass(frozen=True)
class Mark:
    """Something at a time: a point, or from one time to another."""

    kind: str
    x: float
    width: float
    title: str


@dataclass(frozen=True)
class Lane:
    """A row of the drawing."""

    label: str
    y: int
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Drawing:
    """The timeline: lanes, ticks of the axis, and where the cut is."""

    lanes: Sequence[Lane]
    ticks: Sequence[tuple[float, str]]
    cut: float
    height: int


def of_report(report: Json) -> str | None:
    """The page of the first failure that has an explanation; None if there is none."""
    for result in report["results"]:
        if result.get("explanation"):
            return page(result, {"design": report["design"], "machine": report["machine"]})
    return None


def of_hunt(report: Json, machine: str) -> str | None:
    """The page of what a hunt around a machine found; None if it found nothing to explain."""
    found = report["found"]
    if found is None or not found["explanation"]:
        return None
    drawn = f" with {', '.join(found['set'])}" if found["set"] else ""
    return page(found, {"design": report["design"], "machine": machine + drawn})


def page(result: Json, of: Json) -> str:
    """The page of one failed cut of a `design` on a `machine`."""
    with extras.need_reports("a page"):
        import jinja2

    loader = jinja2.FileSystemLoader(FOLDER)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    explained = result["explanation"]
    environment.filters["number"] = number
    return environment.get_template("page.html").render(
        style=(FOLDER / "page.css").read_text("utf-8"),
        result=result,
        of=of,
        explained=explained,
        compared=explanation.compared(explained),
        drawing=drawing(explained),
        say=explanation,
        LABELS=LABELS,
        ROW=ROW,
        TOP=TOP,
        WIDTH=WIDTH,
    )


def _lines(explained: Json) -> list[str]:
    """The lines that have a lane each: the first of those that are shown and that were heard of."""
    happened = {event.get("address") for event in explained["timeline"]}
    shown = [line for thing in explained["things"] for line in thing["shown"]]
    known = [line["address"] or line["physical_address"] for line in shown]
    return [address for address in known if address in happened][:LANES_OF_LINES]


def _begin(explained: Json, lines: Sequence[str]) -> int:
    """Where the axis begins: what happened last to the lines, and the end of an epoch before it."""
    cut: int = explained["cycle"]
    last = {
        event["address"]: event["at"]
        for event in explained["timeline"]
        if event.get("address") in lines[: LANES_OF_LINES // 2]
    }
    earliest = min(last.values(), default=max(0, cut - 100_000))
    ends = [event["at"] for event in explained["timeline"] if event["what"] == "epoch-ended"]
    before = [at for at in ends if at <= earliest]
    begin = max(before) if before else earliest
    return max(0, begin - max(1, (cut - begin) // 20))


def drawing(explained: Json) -> Drawing | None:
    """The timeline as positions; None where nothing happened that was kept."""
    events: Sequence[Json] = explained["timeline"]
    if not events:
        return None
    cut: int = explained["cycle"]
    lines = _lines(explained)
    begin = _begin(explained, lines)
    until = cut + max(1, (cut - begin) // 12)

    def x(at: int) -> float:
        share = min(max(at - begin, 0) / (until - begin), 1.0)
        return round(LABELS + share * (WIDTH - LABELS - 10), 1)

    def mark(event: Json) -> Mark:
        title = f"cycle {event['at']:,}: {explanation.EVENTS[event['what']]}, "
        title += explanation.event_text(event)
        width = x(event["durable"]) - x(event["at"]) if "durable" in event else 0.0
        late = "durable" in event and event["durable"] > cut
        kind = f"{event['what']} late" if late else str(event["what"])
        return Mark(kind, x(event["at"]), max(width, 0.0), title)

    grouped: dict[str, list[Json]] = {}
    for event in events:
        if event["at"] >= begin:
            grouped.setdefault(_lane(event), []).append(event)
    order = [name for name in ("epochs", *lines, "log", "tables") if name in grouped]
    lanes = [
        Lane(_label(name, grouped[name]), TOP + row * ROW, [mark(event) for event in grouped[name]])
        for row, name in enumerate(order)
    ]
    ticks = [(x(at), f"{at - cut:,}") for at in _ticks(begin, cut)]
    return Drawing(lanes, ticks, x(cut), TOP + len(lanes) * ROW + 22)


def _lane(event: Json) -> str:
    lanes = {"log-write": "log", "table-write": "tables", "design-state": "design"}
    if event["what"].startswith("epoch"):
        return "epochs"
    return lanes.get(event["what"]) or str(event["address"])


def _label(name: str, events: Sequence[Json]) -> str:
    thing = events[0].get("name")
    if thing is None:
        return name
    short = explanation.base_name(thing)
    return f"{short if len(short) < 17 else short[:15] + '…'} {name}"


def _ticks(begin: int, cut: int) -> Iterator[int]:
    """Round numbers of cycles before the cut."""
    step = 1
    while (cut - begin) / step > 5:
        step = step * 5 if str(step)[0] == "1" else step * 2
    for before in range(step, cut - begin + 1, step):
        yield cut - before

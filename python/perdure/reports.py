"""Reports of power cuts as tables for people.

Always true here: a failure stands with what was wrong first and with the token that repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from perdure import explanation, tokens
from perdure.api import CutCost, CutReport, CutResult, Spread
from perdure.tables import Sheet, line, number, table

FAILURES_SHOWN = 10
WHERE = "where the cut struck"


def cut(report: CutReport) -> RenderableType:
    """A report of power cuts: by place, coverage, and what failed."""
    parts: list[RenderableType] = [_cuts_by_place(report)]
    if report.cost is not None:
        parts.append(cut_costs({report.design: report.cost}))
    after = report.after_the_end
    if report.restarted is not None:
        ended = "has not ended" if after is None else f"ends with {after['exit_code']}"
        parts.append(line(f"what is started again after the run that nobody cut {ended}"))
    coverage = list(_flattened(report.coverage))
    if coverage:
        made = table(
            "coverage: what the cuts hit",
            "design state or path",
            "count",
            prose=("design state or path",),
        )
        for name, value in coverage:
            made.add_row(escape(name), value)
        parts.append(made)
    for results, what in ((report.failures, "failures"), (report.losses, "losses")):
        parts += map(_failure, results[:FAILURES_SHOWN])
        if len(results) > FAILURES_SHOWN:
            parts.append(line(f"… and {len(results) - FAILURES_SHOWN} more {what}"))
    parts.append(cut_verdict(report))
    return Group(*parts)


def shown(report: CutReport) -> list[CutResult]:
    """The cuts of which a report says what was wrong."""
    return [*report.failures[:FAILURES_SHOWN], *report.losses[:FAILURES_SHOWN]]


def cut_verdict(report: CutReport) -> Text:
    """The last line of a report: whether the promise held."""
    if report.interrupted:
        return line(f"interrupted after {report.cuts} cuts", style="bold yellow")
    if report.lost:
        return line(
            f"{report.design} promises nothing: {report.lost:,} of {report.cuts:,} cuts lost "
            "something",
            style="bold yellow",
        )
    resumed = sum(result.resumed for result in report.results)
    if report.failed == 0 and report.restarted is not None:
        return line(
            f"{report.design}: {report.verified:,} of {report.cuts:,} cuts verified: what was "
            "started again after each ended as it has to",
            style="bold green",
        )
    if report.failed == 0:
        timing = sum(result.depends_on_timing for result in report.results)
        checked = report.raw.get("checked", False)
        ended = "to the checker's satisfaction" if checked else "with identical output"
        if timing:
            ended = f"{resumed - timing:,} of them {ended} and {timing:,} with one that depends on "
            ended += "timing and not on the power cut"
        return line(
            f"{report.design}: {report.verified:,} of {report.cuts:,} cuts verified; {resumed:,} "
            f"resumed to the program's end, {ended}",
            style="bold green",
        )
    broke = "broke the promise"
    if report.restarted is not None:
        broke = "failed: what was started again did not end as it has to, or a promise was broken"
    return line(
        f"{report.design}: {report.failed:,} of {report.cuts:,} cuts {broke}",
        style="bold red",
    )


CUT_COSTS: tuple[tuple[str, str, Callable[[CutCost], Spread]], ...] = (
    ("work lost", "instructions", lambda cost: cost.lost_instructions),
    ("work lost", "cycles", lambda cost: cost.lost_cycles),
    ("recovery", "cycles", lambda cost: cost.recovery_cycles),
    ("  read", "bytes", lambda cost: cost.recovery_read_bytes),
    ("  written", "bytes", lambda cost: cost.recovery_written_bytes),
)
"""What a power cut can cost: its name, its unit, and where a summary has it."""


def cut_costs(costs: Mapping[str, CutCost]) -> Sheet:
    """What power cuts cost under each design."""
    cuts = "; ".join(f"{cost.cuts:,} under {design}" for design, cost in costs.items())
    made = table(
        f"what a power cut costs ({cuts})",
        *("design", "what", "unit", "median", "99 %", "worst"),
        left=3,
        keys=3,
    )
    for design, cost in costs.items():
        for name, unit, spread in CUT_COSTS:
            found = spread(cost)
            cells = (found.median, found.percentile_99, found.worst)
            made.add_row(escape(design), name, unit, *map(number, cells))
        made.add_section()
    return made


def _cuts_by_place(report: CutReport) -> Sheet:
    """Cuts counted by where the power went away, and by what came of them."""
    counted: dict[str, Callable[[CutResult], bool]] = {
        "verified": lambda result: result.verified,
        "lost": lambda result: result.lost,
        "failed": lambda result: not (result.verified or result.lost),
        "resumed": lambda result: result.resumed,
        "restarted": lambda result: result.restarted,
    }
    del counted["resumed" if report.restarted is not None else "restarted"]
    if not report.lost:
        del counted["lost"]
    title = f"power cuts: {report.design} on {report.machine}"
    made = table(title, WHERE, "cuts", *counted, prose=(WHERE,))
    places: dict[str, list[CutResult]] = {}
    for result in report.results:
        places.setdefault(place_of(result), []).append(result)

    def add(name: str, results: Sequence[CutResult]) -> None:
        sums = (sum(map(counts, results)) for counts in counted.values())
        made.add_row(escape(name), *map(number, (len(results), *sums)))

    for place, results in sorted(places.items(), key=lambda item: (-len(item[1]), item[0])):
        add(place, results)
    if len(places) > 1:
        made.add_section()
    if len(places) != 1:
        add("all", report.results)
    return made


def place_of(result: CutResult) -> str:
    """Where a cut struck, in words: the design's state and the code that was running."""
    known = (result.raw.get("design_state"), result.raw.get("location"))
    return ", in ".join(str(part) for part in known if part) or "anywhere"


def _failure(result: CutResult) -> Text:
    """One broken promise: what was wrong first, and how to see it again."""
    text = line()
    text.append(f"cycle {result.cycle:,}: {result.verdict}", style="bold red")
    epoch = "nothing" if result.recovered_epoch is None else f"epoch {result.recovered_epoch}"
    text.append("\n" if result.restarted else f" (recovered {epoch})\n")
    for said in difference(result.raw):
        text.append(f"  {said}\n")
    if result.raw.get("explanation"):
        text.append(explanation.terminal(result.raw["explanation"]))
        text.append("\n")
    for said in result.last_lines:
        text.append(f"  | {said}\n")
    text.append("\n".join(f"  {said}" for said in tokens.again(result.token)))
    return text


def difference(result: Mapping[str, Any]) -> Iterator[str]:
    """The first lost or mixed line of a failed cut, in words."""
    for known in ("message", "without_loaded", "without_before"):
        if result.get(known):
            yield str(result[known])
    first = result.get("first_difference")
    if isinstance(first, Mapping):
        symbol = f" ({first['symbol']})" if first.get("symbol") else ""
        kind = first.get("kind") or "first wrong line"
        place = first.get("address") or f"physical {_address(first.get('physical_address'))}"
        yield f"{kind} at {_address(place)}{symbol}"
        for name in () if result.get("explanation") else ("expected", "found"):
            if first.get(name) is not None:
                yield f"  {name + ':':<10}{first[name]}"


def _address(value: object) -> str:
    return f"{value:#x}" if isinstance(value, int) else str(value)


def _flattened(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested counts as rows: `outer · inner` and the number."""
    if isinstance(value, Mapping):
        if isinstance(value.get("count"), int):
            yield name, number(value["count"])
            return
        for key, inner in value.items():
            yield from _flattened(inner, f"{name} · {key}" if name else str(key))
    elif isinstance(value, bool):
        yield name, "hit" if value else "not hit"
    elif isinstance(value, int | float):
        yield name, number(value)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value)

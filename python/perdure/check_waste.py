"""What a program does for nothing, as lines of a report of `perdure check`.

Always true here: cycles are those of the machine that the report names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perdure.check_words import where
from perdure.explanation import plural

if TYPE_CHECKING:
    from perdure.check_results import Check


def rows(report: Check) -> Iterator[str]:
    """What was done for nothing, a line for each place; the dearest first."""
    counts: dict[tuple[str, str], int] = {}
    cycles: dict[tuple[str, str], int] = {}
    for row in report["waste"]:
        named = (row["what"], where(row["place"]))
        counts[named] = counts.get(named, 0) + row["count"]
        cycles[named] = cycles.get(named, 0) + (row["cycles"] or 0)
    for (what, place), spent in sorted(cycles.items(), key=lambda one: -one[1]):
        count = counts[what, place]
        times = "once" if count == 1 else f"{count:,} times"
        of = plural(count, "byte") if what == "never-read" else times
        cost = f", {spent:,} cycles" if spent else ""
        yield f"{what.replace('-', ' ')}, {of}{cost}: {place}"


def costs(report: Check) -> Iterator[str]:
    """What flushes and fences take of the program's time."""
    spent = report["uncut"]["costs"]
    if spent is None or not spent["cycles"]:
        return
    share = (spent["flush_cycles"] + spent["fence_cycles"]) / spent["cycles"]
    flushes = f"{spent['flushes']:,} flushes {spent['flush_cycles']:,}"
    fences = f"{plural(spent['fences'], 'fence')} {spent['fence_cycles']:,}"
    yield (
        f"on {report['machine']}: {spent['cycles']:,} cycles, of which {flushes} and {fences} "
        f"({share:.1%})"
    )
    if spent["domain"] == "eadr":
        yield "its caches outlive the power (eADR): all these flushes are for nothing"
    elif spent["flushes"]:
        yield "where caches outlive the power (eADR), all these flushes would be for nothing"

"""Figures of a sweep: time, wear, and what power cuts cost, over the first key that was set.

Always true here: each figure says which direction is better; a value that was not measured is not
drawn; the first design is what others are relative to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair

from perdure.experiments import charts

LINES_FROM = 4
"""How many numbers a key must have tried for lines; fewer values are groups of bars."""
LOGARITHMIC_FROM = 8.0
"""The ratio between a key's values from which on its axis is logarithmic."""
WHOLE_BELOW = 100_000
"""From which value on a key's axis says 1M and not 1000000."""
LABEL = 10
BAR = 10
LETTER = 7


@dataclass(frozen=True)
class Figure:
    """What a figure of a sweep shows: the column of a row, and in words what it is.

    With `worst`, the column of the worst case, which is drawn as the end of a line.
    """

    name: str
    title: str
    column: str
    label: str
    unit: str
    meaning: str
    worst: str | None = None

    @property
    def better(self) -> str:
        """Which direction is better: all of these are costs."""
        return "lower"


FIGURES = (
    Figure(
        "relative", "Relative time", "relative", "time", "×",
        "cycles over those of the first design with the same values",
    ),
    Figure("sweep", "Time", "cycles", "time", "cycles", "of the measured region, or the whole run"),
    Figure(
        "wear", "Wear", "nvm.written_bytes.total", "written to the NVM", "bytes",
        "everything that wears the memory out: data, log, metadata and context",
    ),
    Figure(
        "work-lost", "Work lost", "cut_cost.lost_cycles.median", "work lost", "cycles",
        "from the recovered point to a power cut: the median of the cuts probed, and a line to the "
        "worst; nothing where it is 0",
        "cut_cost.lost_cycles.worst",
    ),
    Figure(
        "recovery-time", "Recovery time", "cut_cost.recovery_cycles.median", "recovery", "cycles",
        "what recovery's own reads and writes take after a power cut: the median of the cuts "
        "probed, and a line to the worst; nothing where it is 0",
        "cut_cost.recovery_cycles.worst",
    ),
)  # fmt: skip
"""In the order in which they are shown; one without values is left out."""


def save(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], designs: Sequence[str], out: Path
) -> dict[str, dict[str, Path]]:
    """Draws what was measured; the files by the figure's name and their kind."""
    return {
        one.name: charts.save(drawn, out / "figures" / one.name)
        for one in FIGURES
        if (drawn := draw(one, rows, keys, designs)) is not None
    }


def draw(
    figure: Figure,
    found: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    designs: Sequence[str],
) -> altair.TopLevelMixin | None:
    """One figure of a sweep's rows, or None where nothing of it was measured."""
    rows = list(_rows(figure, found, keys))
    if not rows:
        return None
    measured = [design for design in designs if any(row["design"] == design for row in rows)]
    places = charts.seen(rows, "at")
    numbers = _numbers(places)
    group = LABEL + BAR * len(measured)
    width = len(places) * group
    if not keys:
        x, width, narrowest = _by_design(measured, 3)
    elif numbers is not None:
        rows = [{**row, "at": float(row["at"])} for row in rows]
        x, width, narrowest = _by_number(keys[0], numbers), 420, charts.NARROWEST
    elif width <= charts.PAGE_WIDTH:
        x = {
            "x": altair.X("at:N", title=keys[0], sort=places, axis=_slanted(places, group)),
            "xOffset": altair.XOffset("design:N", sort=measured),
        }
        width, narrowest = max(160, width), len(places) * (LABEL + 4 * len(measured))
    else:
        # Too many places for one axis: a panel for each.
        rows = [{**row, "panel": _together(f"{keys[0]}={row['at']}", row["panel"])} for row in rows]
        x, width, narrowest = _by_design(measured, 1)
    base = altair.Chart().encode(
        **x,
        color=charts.colour("design:N", measured, "design", designs),
        tooltip=["design:N", "at:N", "panel:N", "value:Q", *(["worst:Q"] if figure.worst else [])],
    )
    lines = numbers is not None and bool(keys)
    layers = _layers(figure, base, lines, rows)
    title = altair.TitleParams(
        f"{figure.title}: {', '.join(dict.fromkeys(row['name'] for row in found))}",
        subtitle=[_subtitle(figure, designs)],
        anchor="start",
    )
    layered = altair.layer(*layers, data=charts.values(rows)).properties(width=width, height=220)
    drawn = charts.panels(layered, rows, "panel", width).properties(title=title)
    return charts.fitting(drawn, narrowest)


def _rows(
    figure: Figure, found: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> Iterable[dict[str, Any]]:
    for one in found:
        if one.get(figure.column) is None:
            continue
        row = {
            "design": one["design"],
            "at": one[keys[0]] if keys else one["name"],
            "panel": ", ".join(f"{key}={one[key]}" for key in keys[1:]),
            "value": one[figure.column],
        }
        if figure.worst:
            # A cut's cost is drawn on a logarithmic axis, which has no zero.
            if one[figure.worst] == 0:
                continue
            row |= {"value": max(row["value"], 1), "worst": one[figure.worst]}
        yield row


def _numbers(places: Sequence[str]) -> list[float] | None:
    """The values as numbers, if they are such, and enough for lines."""
    try:
        found = sorted(float(place) for place in places)
    except ValueError:
        return None
    return found if len(found) >= LINES_FROM else None


def _slanted(names: Sequence[str], room: int) -> altair.Axis:
    """An axis of names, which lie flat where each has room."""
    return altair.Axis(labelAngle=0 if max(map(len, names)) * LETTER <= room else -40)


def _by_number(key: str, numbers: Sequence[float]) -> dict[str, Any]:
    """A key's axis where its values are numbers."""
    logarithmic = numbers[0] > 0 and numbers[-1] / numbers[0] >= LOGARITHMIC_FROM
    scale = altair.Scale(type="log" if logarithmic else "linear", nice=False, zero=False)
    label = f"format(datum.value, abs(datum.value) < {WHOLE_BELOW} ? '~r' : '~s')"
    axis = altair.Axis(values=list(numbers), labelExpr=label, labelOverlap="greedy")
    return {"x": altair.X("at:Q", title=key, scale=scale, axis=axis)}


def _by_design(designs: Sequence[str], wide: int) -> tuple[dict[str, Any], int, int]:
    """An axis of designs: its encoding, its width, and how narrow it can be."""
    step = 12 + 6 * wide
    axis = _slanted(designs, step)
    encoded = {"x": altair.X("design:N", title=None, sort=list(designs), axis=axis)}
    return encoded, max(60 * wide, step * len(designs)), 14 * len(designs)


def _layers(
    figure: Figure, base: altair.Chart, lines: bool, rows: Sequence[Mapping[str, Any]]
) -> list[altair.Chart]:
    """A line or bars; for what a cut costs, dots with lines to the worst."""
    unit = f" ({figure.unit})" if figure.unit != "×" else ""
    axis = altair.Axis(format="~s") if figure.unit != "×" else altair.Axis()
    if figure.worst is None:
        scale = altair.Scale(zero=not lines)
        y = altair.Y("value:Q", title=f"{figure.label}{unit}", axis=axis, scale=scale)
        return [(base.mark_line(point=True) if lines else base.mark_bar()).encode(y=y)]
    # Ten times as much from line to line: Vega's own lines between these are a grey field.
    digits = range(len(str(int(max(row["worst"] for row in rows)))) + 1)
    axis = altair.Axis(format="~s", values=[10**power for power in digits])
    scale = altair.Scale(type="log")
    y = altair.Y("value:Q", title=f"{figure.label}{unit}: median and worst", axis=axis, scale=scale)
    return charts.dots(base, y, "worst")


def _subtitle(figure: Figure, designs: Sequence[str]) -> str:
    relative = f"relative to {designs[0]}; " if figure.column == "relative" else ""
    return f"{relative}{charts.direction(figure.better)}"


def _together(*parts: str) -> str:
    return ", ".join(part for part in parts if part)

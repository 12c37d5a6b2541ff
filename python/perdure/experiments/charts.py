"""Figures of experiments and sweeps: one Vega-Lite specification each, drawn as SVG and PNG.

Always true here: a figure shows measured values only, apart from the paper's values, which are
drawn as such and labelled; it needs no display and no network; equal values give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair
import polars as pl

from perdure import PerdureError

PIXELS_PER_POINT = 2.0
PALETTE = ("#4c78a8", "#e45756", "#72b7b2", "#f2a33a", "#54a24b", "#b279a2")


def save(chart: altair.TopLevelMixin, stem: Path) -> dict[str, Path]:
    """Writes `stem`.svg, .png and .json, and returns the paths by kind."""
    paths = {kind: stem.with_suffix(f".{kind}") for kind in ("svg", "png", "json")}
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        specification = chart.to_dict()
        paths["json"].write_text(json.dumps(specification, indent=1, sort_keys=True) + "\n")
        chart.save(str(paths["svg"]))
        chart.save(str(paths["png"]), scale_factor=PIXELS_PER_POINT)
    except OSError as error:
        raise PerdureError(f"cannot draw {stem}: {error}") from error
    return paths


def save_sweep(
    data: pl.DataFrame, keys: Sequence[str], designs: Sequence[str], out: Path
) -> list[Path]:
    """The figure of a sweep: time over the first key, one line or bar for each design."""
    chart = sweep(data, keys, designs)
    return list(save(chart, out / "figures" / "sweep").values())


def sweep(data: pl.DataFrame, keys: Sequence[str], designs: Sequence[str]) -> altair.Chart:
    """Time in cycles over the first key that was set; further keys side by side."""
    rows = [
        {
            "design": one["design"],
            "cycles": one["cycles"],
            "at": one[keys[0]] if keys else one["name"],
            "panel": ", ".join(f"{key}={one[key]}" for key in keys[1:]),
        }
        for one in data.iter_rows(named=True)
    ]
    chart: altair.Chart = (
        altair.Chart(values(rows))
        .mark_bar()
        .encode(
            x=altair.X("at:N", title=keys[0] if keys else None, sort=_seen(rows, "at")),
            xOffset=altair.XOffset("design:N", sort=list(designs)),
            y=altair.Y("cycles:Q", title="time (cycles)", axis=altair.Axis(format="~s")),
            color=colour("design:N", designs, "design"),
            tooltip=["design:N", "at:N", "panel:N", "cycles:Q"],
        )
        .properties(title=", ".join(dict.fromkeys(data["name"])))
    )
    if len(keys) > 1:
        chart = chart.encode(column=altair.Column("panel:N", title=None, sort=_seen(rows, "panel")))
    return chart


def colour(field: str, names: Sequence[str], title: str) -> altair.Color:
    """One colour for each name, the same in every figure with the same names."""
    repeated = [PALETTE[index % len(PALETTE)] for index in range(len(names))]
    return altair.Color(field, title=title, scale=altair.Scale(domain=list(names), range=repeated))


def values(rows: Iterable[Mapping[str, Any]]) -> altair.InlineData:
    """Rows as a figure's own data."""
    return altair.InlineData(values=list(rows))


def _seen(rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))

"""Figures of experiments: one Vega-Lite specification each, drawn as SVG and PNG.

Always true here: a figure shows measured values only, apart from the paper's values, which are
drawn as such and labelled; it needs no display and no network; equal values give equal bytes.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair
import vl_convert

from perdure import PerdureError, outputs
from perdure.experiments.claims import Average, expected
from perdure.experiments.declaration import Experiment, Paper
from perdure.experiments.measured import Metric
from perdure.experiments.metrics import metric
from perdure.experiments.plan import Value

LOGARITHMIC_FROM = 50.0
"""The ratio between bars from which on they are drawn on a logarithmic scale."""
PANELS_IN_A_ROW = 8
PAGE_WIDTH = 1060
"""Pixels that a figure's axes may take: what a page has room for, beside the words around them."""
PANEL_GAP = 20
NARROWEST = 200
"""Pixels that lines need to be read."""
SUBTITLE_LETTERS = 160
PIXELS_PER_POINT = 2.0
VEGA_LITE = "_".join(altair.SCHEMA_VERSION.split(".")[:2])
"""The version that specifications are written for, as the drawing library names it."""
PALETTE = (
    *("#79706e", "#4c78a8", "#72b7b2", "#e45756", "#b279a2", "#54a24b", "#eeca3b"),
    *("#9c755f", "#ff9da6", "#f58518", "#5f5fc4", "#a0c75b", "#d33682", "#2f8f7f"),
)


def save(chart: altair.TopLevelMixin, stem: Path) -> dict[str, Path]:
    """Writes `stem`.svg, .png and .json, and returns the paths by kind."""
    chart = _with_whole_labels(chart)
    paths = {kind: stem.with_suffix(f".{kind}") for kind in ("svg", "png", "json")}
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        specification = chart.to_dict()
        text = json.dumps(specification, indent=1, sort_keys=True) + "\n"
        outputs.write_text(paths["json"], text)
        # Described once and drawn once: altair's own way does both for each of the two pictures.
        picture = vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE)
        outputs.write_text(paths["svg"], picture)
        with outputs.written(paths["png"]) as file:
            file.write_bytes(vl_convert.svg_to_png(picture, scale=PIXELS_PER_POINT))
    except OSError as error:
        raise PerdureError(f"cannot draw {stem}: {error}") from error
    return paths


def _with_whole_labels(chart: Any) -> altair.TopLevelMixin:
    """A figure none of whose labels is cut off: Vega would end a long one with dots."""
    made: altair.TopLevelMixin = (
        chart.configure_axis(labelLimit=0, titleLimit=0)
        .configure_legend(labelLimit=0, titleLimit=0)
        .configure_header(labelLimit=0, titleLimit=0)
    )
    return made


def experiment(
    found: Sequence[tuple[str | None, Experiment, Sequence[Value], Sequence[Average]]],
    paper: Paper,
    *,
    factor: int,
    scale: str,
) -> altair.TopLevelMixin:
    """An experiment's figure, in its paper's layout; one for each model, where there are several.

    `found` has for each model its label, the experiment as it is there, values and averages.
    """
    panels: list[Any] = [_panel(*one, paper, factor, scale) for one in found]
    narrowest = max(_narrowest(declared, values) for _, declared, values, _ in found)
    # What is wide stands one below the other.
    beside = found[0][1].chart == "lines"
    several = altair.hconcat if beside else altair.vconcat
    return fitting(panels[0] if len(panels) == 1 else several(*panels), narrowest)


def _panel(
    model: str | None,
    declared: Experiment,
    values: Sequence[Value],
    averages: Sequence[Average],
    paper: Paper,
    factor: int,
    scale: str,
) -> altair.TopLevelMixin:
    """An experiment's figure in one model."""
    lines = _paper_lines(declared, factor)
    draw = {"bars": _bars, "stacked": _stacked, "lines": _lines}[declared.chart]
    if draw is _bars and _bars_width(declared, values) > PAGE_WIDTH:
        draw = _multiples
    # Where there is no room for words beside a line, they stand here.
    dashed = "; ".join(dict.fromkeys(line["said"] for line in lines))
    dashed = f"; dashed, the paper: {dashed}" if dashed and draw in (_stacked, _multiples) else ""
    where = f", {model}" if model else ""
    better = direction(metric(declared.metric).better)
    title = altair.TitleParams(
        f"{declared.figure}: {declared.title}",
        subtitle=textwrap.wrap(f"{paper.name}, {scale}{where}; {better}{dashed}", SUBTITLE_LETTERS),
        anchor="start",
    )
    made: altair.TopLevelMixin = draw(declared, paper, values, averages, lines).properties(
        title=title
    )
    return made


def _paper_lines(declared: Experiment, factor: int) -> list[dict[str, Any]]:
    """The values that the paper's text gives, once each, with what they say."""
    found: dict[float, str] = {}
    for claim in declared.claims:
        divisor = factor if claim.scaled else 1
        part = "" if divisor == 1 else f", divided by {divisor}"
        place = claim.section if claim.section[0] not in "IVX" else f"§{claim.section}"
        said = f"{claim.paper} ({place}){part}"
        for limit in dict.fromkeys(expected(claim, divisor) if claim.drawn else ()):
            if limit is not None:
                found[limit] = f"{found[limit]}; {said}" if limit in found else said
    return [{"value": value, "said": said} for value, said in sorted(found.items())]


def _bars(
    declared: Experiment,
    paper: Paper,
    found: Sequence[Value],
    averages: Sequence[Average],
    lines: Sequence[Mapping[str, Any]],
) -> altair.LayerChart:
    """A group of bars for each subject, and one for the average."""
    average = declared.average.replace("-", " ")
    rows = [_row(paper, one.subject, one) for one in found]
    rows += [_row(paper, average, one) for one in averages]
    order = [*dict.fromkeys(one.subject for one in found), average]
    labels = [paper.label(design) for design in declared.designs]
    chosen = metric(declared.metric)
    floor = _floor([row["value"] for row in rows])
    bars = (
        altair.Chart(values(rows))
        .mark_bar()
        .encode(
            x=altair.X("subject:N", title=None, sort=order, axis=altair.Axis(labelAngle=-40)),
            xOffset=altair.XOffset("design:N", sort=labels),
            y=_quantity(chosen, floor),
            color=colour("design:N", labels, "design", [one.label for one in paper.designs]),
            tooltip=["subject:N", "design:N", altair.Tooltip("value:Q", format=".4")],
        )
    )
    if floor is not None:
        bars = bars.encode(y2=altair.datum(floor))
    width = max(320, _bars_width(declared, found))
    layers = [bars, *_deviations(bars, rows), *_rules(lines, chosen, floor)]
    made: altair.LayerChart = altair.layer(*layers).properties(width=width, height=260)
    return made


def _bars_width(declared: Experiment, found: Sequence[Value], bar: int = 9) -> int:
    """What groups of bars need: one for each subject, and one for the average."""
    subjects = len({one.subject for one in found}) + 1
    return subjects * (10 + bar * len(declared.designs))


def _narrowest(declared: Experiment, found: Sequence[Value]) -> int:
    """How narrow a figure can be drawn and still be read."""
    return NARROWEST if declared.chart == "lines" else _bars_width(declared, found, bar=4)


def _multiples(
    declared: Experiment,
    paper: Paper,
    found: Sequence[Value],
    averages: Sequence[Average],
    lines: Sequence[Mapping[str, Any]],
) -> altair.LayerChart | altair.FacetChart:
    """Bars of more subjects than one chart has room for: a panel for each, and for the average."""
    average = declared.average.replace("-", " ")
    said = {f"paper{index}": line["value"] for index, line in enumerate(lines)}
    rows = [{**_row(paper, one.subject, one), **said} for one in found]
    rows += [{**_row(paper, average, one), **said} for one in averages]
    labels = [paper.label(design) for design in declared.designs]
    chosen = metric(declared.metric)
    floor = _floor([row["value"] for row in rows])
    bars = (
        altair.Chart()
        .mark_bar()
        .encode(
            x=altair.X("design:N", sort=labels, axis=None),
            y=_quantity(chosen, floor),
            color=colour("design:N", labels, "design", [one.label for one in paper.designs]),
            tooltip=["subject:N", "design:N", altair.Tooltip("value:Q", format=".4")],
        )
    )
    if floor is not None:
        bars = bars.encode(y2=altair.datum(floor))
    layers = [bars, *_deviations(bars, rows), *_rules_of_panels(said, chosen)]
    longest = max(len(row["subject"]) for row in rows)
    width = max(84, 12 * len(labels), 6 * longest)
    layered = altair.layer(*layers, data=values(rows)).properties(width=width, height=130)
    return panels(layered, rows, "subject", width)


def _rules_of_panels(fields: Iterable[str], chosen: Metric) -> list[altair.Chart]:
    """The paper's values, dashed, where panels share one table: a field of each row has one."""
    return [
        altair.Chart()
        .mark_rule(color="#555", strokeDash=[5, 3])
        .encode(y=altair.Y(f"min({field}):Q", title=_titled(chosen)))
        for field in fields
    ]


def _lines(
    declared: Experiment,
    paper: Paper,
    _found: Sequence[Value],
    averages: Sequence[Average],
    lines: Sequence[Mapping[str, Any]],
) -> altair.LayerChart:
    """The average over the axis, a line for each design."""
    axis = declared.axis
    assert axis is not None, "a figure of lines has an axis"
    labels = [paper.label(design) for design in declared.designs]
    chosen = metric(declared.metric)
    rows = [{**_row(paper, declared.average, one), "axis": one.axis} for one in averages]
    unit = f" ({axis.unit})" if axis.unit else ""
    scale = altair.Scale(type="log", nice=False) if axis.logarithmic else altair.Scale(nice=False)
    drawn = (
        altair.Chart(values(rows))
        .mark_line(point=True)
        .encode(
            x=altair.X(
                "axis:Q",
                title=f"{axis.label}{unit}",
                scale=scale,
                axis=altair.Axis(values=list(axis.shown), format="~g"),
            ),
            y=_quantity(chosen, None),
            color=colour("design:N", labels, "design", [one.label for one in paper.designs]),
            tooltip=["design:N", "axis:Q", altair.Tooltip("value:Q", format=".4")],
        )
    )
    layers = [drawn, *_deviations(drawn, rows), *_rules(lines, chosen, None)]
    made: altair.LayerChart = altair.layer(*layers).properties(width=460, height=260)
    return made


def _stacked(
    declared: Experiment,
    paper: Paper,
    found: Sequence[Value],
    _averages: Sequence[Average],
    lines: Sequence[Mapping[str, Any]],
) -> altair.FacetChart:
    """A bar for each subject and design, made of parts; the designs by their letters."""
    chosen = metric(declared.metric)
    letters = {design: paper.design(design).letter for design in declared.designs}
    # Panels share one table, so the paper's values stand in every row of it.
    said = {f"paper{index}": line["value"] for index, line in enumerate(lines)}
    rows = [
        {
            **_row(paper, one.subject, one),
            **said,
            "letter": letters[one.design],
            "part": one.part,
            "order": chosen.parts.index(one.part or ""),
        }
        for one in found
    ]
    bars = (
        altair.Chart()
        .mark_bar()
        .encode(
            x=altair.X(
                "letter:N",
                title=None,
                sort=[letters[design] for design in declared.designs],
                axis=altair.Axis(labelAngle=0),
            ),
            y=_quantity(chosen, None),
            color=colour("part:N", chosen.parts, "operations"),
            order="order:Q",
            tooltip=["subject:N", "design:N", "part:N", altair.Tooltip("value:Q", format=".4")],
        )
    )
    made: altair.FacetChart = (
        altair.layer(bars, *_rules_of_panels(said, chosen), data=values(rows))
        .properties(width=15 * len(declared.designs), height=190)
        .facet(
            altair.Facet("subject:N", title=None, sort=seen(rows, "subject")),
            columns=PANELS_IN_A_ROW,
        )
    )
    return made


def _row(paper: Paper, subject: str, one: Value | Average) -> dict[str, Any]:
    found = {"subject": subject, "design": paper.label(one.design), "value": one.value}
    if one.deviation is not None:
        found.update(low=one.value - one.deviation, high=one.value + one.deviation)
    return found


def _deviations(drawn: altair.Chart, rows: Sequence[Mapping[str, Any]]) -> list[altair.Chart]:
    """A line from a deviation below to one above, where there were several seeds."""
    if not any("low" in row for row in rows):
        return []
    ends = {"y": altair.Y("low:Q"), "y2": "high:Q", "color": altair.value("#222")}
    rule = drawn.mark_rule().encode(**ends, detail="design:N")
    return [rule.transform_filter("isValid(datum.low)")]


def _quantity(chosen: Metric, floor: float | None) -> altair.Y:
    """The value's axis: logarithmic from `floor` on, or linear."""
    if floor is not None:
        scale = altair.Scale(type="log", domainMin=floor, nice=False)
    else:
        scale = altair.Scale(zero=bool(chosen.parts) or chosen.unit != "×")
    return altair.Y("value:Q", title=_titled(chosen), scale=scale)


def _titled(chosen: Metric) -> list[str]:
    """A metric's label with its unit, broken where it says what it is relative to."""
    unit = "" if chosen.unit in ("", "×", chosen.label.split()[0]) else f" ({chosen.unit})"
    return f"{chosen.label}{unit}".replace(", ", ",\n").split("\n")


def _floor(numbers: Sequence[float]) -> float | None:
    """Where a logarithmic axis begins: the power of ten below; None where a linear one does."""
    if not numbers or min(numbers) <= 0 or max(numbers) / min(numbers) <= LOGARITHMIC_FROM:
        return None
    return float(10.0 ** math.floor(math.log10(min(numbers))))


def _rules(
    lines: Sequence[Mapping[str, Any]], chosen: Metric, floor: float | None
) -> list[altair.Chart]:
    """The paper's values, dashed, with the paper's words beside them."""
    if not lines:
        return []
    base = altair.Chart(values(lines)).encode(
        y=_quantity(chosen, floor), tooltip=["said:N", "value:Q"]
    )
    rule = base.mark_rule(color="#555", strokeDash=[5, 3])
    text = base.mark_text(align="left", dx=4, color="#555", fontSize=9)
    return [rule, text.encode(text="said:N", x=altair.value("width"))]


def cut_costs(costs: Sequence[Mapping[str, Any]]) -> altair.LayerChart:
    """What a power cut costs under each design: a dot at the median, a line to the worst."""
    designs, parts = seen(costs, "design"), seen(costs, "part")
    # A logarithmic axis has no zero.
    rows = [
        {**one, **{key: max(one[key], 1) for key in ("median", "percentile_99", "worst")}}
        for one in costs
    ]
    base = altair.Chart(values(rows)).encode(
        x=altair.X("design:N", title=None, sort=designs),
        xOffset=altair.XOffset("part:N", sort=parts),
        color=colour("part:N", parts, "after a power cut"),
        tooltip=["design:N", "part:N", "median:Q", "percentile_99:Q", "worst:Q", "programs:Q"],
    )
    axis = altair.Y(
        "median:Q",
        title="cycles: median and worst",
        scale=altair.Scale(type="log"),
        axis=altair.Axis(format="~s"),
    )
    title = altair.TitleParams(
        "What a power cut costs", subtitle=[direction("lower")], anchor="start"
    )
    made: altair.LayerChart = altair.layer(*dots(base, axis, "worst")).properties(
        title=title, width={"step": 28}
    )
    return made


def dots(base: altair.Chart, y: altair.Y, worst: str) -> list[altair.Chart]:
    """A dot at a value, and a line from there to the worst."""
    return [
        base.mark_rule(strokeWidth=2).encode(y=y, y2=f"{worst}:Q"),
        base.mark_tick(thickness=2, size=8).encode(y=altair.Y(f"{worst}:Q")),
        base.mark_circle(size=60, opacity=1).encode(y=y),
    ]


def panels(
    chart: altair.LayerChart, rows: Sequence[Mapping[str, Any]], field: str, width: int
) -> altair.LayerChart | altair.FacetChart:
    """Small multiples: a panel for each value of a field, as many in a row as a page has room for.

    One chart where there is but one value.
    """
    names = seen(rows, field)
    if len(names) < 2:
        return chart
    made: altair.FacetChart = chart.facet(
        altair.Facet(f"{field}:N", title=None, sort=names),
        columns=max(1, min(len(names), PAGE_WIDTH // (width + PANEL_GAP))),
    )
    return made


def fitting(chart: Any, narrowest: int) -> altair.TopLevelMixin:
    """A figure that says how narrow a page may draw it (see page.js)."""
    made: altair.TopLevelMixin = chart.properties(usermeta={"narrowest": narrowest})
    return made


def direction(better: str | None) -> str:
    """Which direction of a figure is better, in words."""
    return f"{better} is better" if better else "neither direction is better"


def colour(
    field: str, names: Sequence[str], title: str, order: Sequence[str] | None = None
) -> altair.Color:
    """A colour for each name, by its place in `order`: the same in every figure of one order."""
    places = [list(order or names).index(name) for name in names]
    return altair.Color(
        field,
        title=title,
        scale=altair.Scale(
            domain=list(names), range=[PALETTE[place % len(PALETTE)] for place in places]
        ),
        legend=altair.Legend(orient="top"),
    )


def values(rows: Iterable[Mapping[str, Any]]) -> altair.InlineData:
    """Rows as a figure's own data."""
    return altair.InlineData(values=list(rows))


def seen(rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """The values of a key, once each, in the order in which they come."""
    return list(dict.fromkeys(row[key] for row in rows))

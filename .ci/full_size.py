"""Writes the page of points at full size: docs/evaluations/PAPER-full.md and .json.

    full_size.py QUICK FULL...

`QUICK` and each `FULL` are folders of `perdure reproduce`: the whole evaluation at `--quick`, and
some subjects of some figures at `--full --subject NAME`. A line of a table is one figure's value of
one subject under one design, at both scales.

Always true: every number is from those folders, and the JSON file beside the page has all of them;
what has no counterpart at the other scale is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tables import rows

from perdure.experiments.declaration import SCALES, experiments

DOCS = Path(__file__).parents[1] / "docs/evaluations"
Key = tuple[str, str, str, str, float | None, str]


def results(folder: Path) -> dict[str, Any]:
    """What one command left."""
    return dict(json.loads((folder / "results.json").read_text("utf-8")))


def values(found: dict[str, Any]) -> dict[Key, float]:
    """By figure, subject, design, model, place of the axis and part."""
    return {
        (
            one["name"],
            value["subject"],
            value["design"],
            value["model"] or "",
            value["axis"],
            value["part"] or "",
        ): value["value"]
        for one in found["experiments"]
        for value in one["values"]
        if value["value"] is not None
    }


def compared(large: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
    """Results whose mixes are quick's: with other programs at hand, others are drawn."""
    if large["mixes"] != small["mixes"]:
        sys.exit(
            "a folder's mixes are of other programs than quick's: run it with quick's --sysroot"
        )
    return large


def places(paper: str) -> dict[str, dict[float, float]]:
    """By figure, where quick shows each place of an axis that is shown at full size.

    An axis is scaled place for place, or by one factor, 1 before others, with some places left out.
    """
    quick, full = (experiments(paper, scale) for scale in SCALES)
    found = {}
    for name, one in full.items():
        if one.axis is None or quick[name].axis is None:
            continue
        large, small = one.axis.shown, quick[name].axis.shown
        if len(large) == len(small):
            found[name] = dict(zip(large, small, strict=True))
            continue
        factors = (1, *(small[0] / place for place in large if place))
        scaled = ({place: place * factor for place in large} for factor in factors)
        found[name] = next((one for one in scaled if set(small) <= set(one.values())), {})
    return found


def aligned(large: dict[str, Any], where: dict[str, dict[float, float]]) -> dict[str, Any]:
    """With quick's places of every axis."""
    for one in large["experiments"]:
        known = where.get(one["name"], {})
        for value in one["values"]:
            value["axis"] = known.get(value["axis"], value["axis"])
    return large


def number(value: float) -> str:
    """Four digits that count."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def place_of(place: float) -> str:
    """A place of an axis, as figures show it."""
    return f"{place:,.0f}" if place >= 1000 else f"{place:g}"


def table(
    figure: str,
    labels: dict[str, str],
    own: dict[float, float],
    quick: dict[Key, float],
    full: dict[Key, float],
) -> str:
    """One figure: designs across, both scales of a subject under one another.

    `own` says where the paper's scale shows a place of quick's axis.
    """
    designs = list(dict.fromkeys(key[2] for key in full if key[0] == figure))
    places = list(dict.fromkeys((key[1], *key[3:]) for key in full if key[0] == figure))
    body = []
    for subject, model, axis, part in places:
        for scale, known, place in (("quick", quick, axis), ("full", full, own.get(axis, axis))):
            words = (subject, labels.get(model), place and place_of(place), part)
            name = ", ".join(word for word in words if word)
            cells = [known.get((figure, subject, design, model, axis, part)) for design in designs]
            body.append([name, scale, *("–" if one is None else number(one) for one in cells)])
    return rows(["subject", "scale", *designs], body)


def main() -> int:
    """Writes page and data."""
    small, *large = (results(Path(folder)) for folder in sys.argv[1:])
    quick = values(small)
    full: dict[Key, float] = {}
    figures: dict[str, dict[str, Any]] = {}
    where = places(small["paper"]["name"])
    for one in (aligned(compared(one, small), where) for one in large):
        full |= {key: value for key, value in values(one).items() if key in quick}
        figures |= {figure["name"]: figure for figure in one["experiments"]}
    shown = [name for name in figures if any(key[0] == name for key in full)]
    paper = small["paper"]
    labels = {model["name"]: model["label"] for model in small["models"]}
    text = [
        f"# {paper['title']}: points at full size",
        "",
        f"{paper['reference']}. The evaluation of [{paper['name']} at `--quick`]"
        f"({paper['name']}-quick.md) is of a machine made smaller. Here are the same values of "
        "single workloads at the paper's own sizes and lengths (`perdure reproduce "
        f"{paper['name']} FIGURE --full --subject NAME`) beside quick's: what of a verdict is the "
        f"scale's. A claim is about all workloads, and is not judged by one. [{paper['name']}"
        f"-full.json]({paper['name']}-full.json) has the data.",
        "",
    ]
    for name in shown:
        figure = figures[name]
        label = f"{figure['metric']['label']}, in {figure['metric']['unit']}"
        text += [f"## {figure['figure']}: {figure['title']}", "", f"{label}.", ""]
        own = {small: large for large, small in where.get(name, {}).items()}
        text += [table(name, labels, own, quick, full).strip(), ""]
    data = [
        {
            "experiment": key[0],
            "subject": key[1],
            "design": key[2],
            "model": key[3] or None,
            "axis": key[4],
            "part": key[5] or None,
            "quick": quick[key],
            "full": value,
        }
        for key, value in full.items()
    ]
    stem = DOCS / f"{paper['name']}-full"
    stem.with_suffix(".md").write_text("\n".join(text).rstrip() + "\n", "utf-8")
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

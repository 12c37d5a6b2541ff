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


def aligned(large: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
    """With quick's places for an axis that is scaled place for place, as a buffer's sizes are."""
    places = {one["name"]: one["axis"]["values"] for one in small["experiments"] if one["axis"]}
    for one in large["experiments"]:
        scaled, own = places.get(one["name"], []), one["axis"]["values"] if one["axis"] else []
        if len(own) == len(scaled):
            for value in one["values"]:
                if value["axis"] in own:
                    value["axis"] = scaled[own.index(value["axis"])]
    return large


def number(value: float) -> str:
    """Four digits that count."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(
    figure: str, labels: dict[str, str], quick: dict[Key, float], full: dict[Key, float]
) -> str:
    """One figure: designs across, both scales of a subject under one another."""
    designs = list(dict.fromkeys(key[2] for key in full if key[0] == figure))
    places = list(dict.fromkeys((key[1], *key[3:]) for key in full if key[0] == figure))
    body = []
    for subject, model, axis, part in places:
        name = ", ".join(
            word for word in (subject, labels.get(model), axis and f"{axis:,.0f}", part) if word
        )
        for scale, known in (("quick", quick), ("full", full)):
            cells = [known.get((figure, subject, design, model, axis, part)) for design in designs]
            body.append([name, scale, *("–" if one is None else number(one) for one in cells)])
    return rows(["subject", "scale", *designs], body)


def main() -> int:
    """Writes page and data."""
    small, *large = (results(Path(folder)) for folder in sys.argv[1:])
    quick = values(small)
    full: dict[Key, float] = {}
    figures: dict[str, dict[str, Any]] = {}
    for one in (aligned(one, small) for one in large):
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
        text += [table(name, labels, quick, full).strip(), ""]
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

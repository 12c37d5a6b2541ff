"""`report.html`: a reproduction's claims, figures, tables and configurations in one file.

A sweep's (`of_sweep`) is made in the same way: `render`.

Always true here: the page is made from what lies in the output folder (see `docs/experiments.md`)
and from nothing else; it needs no network, as its own content security policy says; everything that
came from data is escaped; equal results give equal bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from perdure import PerdureError, documents, outputs
from perdure.experiments import charts
from perdure.experiments.claim import paper_says

HERE = Path(__file__).parent
VERDICTS = ("holds", "differs", "not comparable")


def write(out: Path) -> Path:
    """Writes `report.html` into an output folder that holds a finished or interrupted reproduction.

    Raises `PerdureError` where results are missing or cannot be read.
    """
    return store(page(_read_json(out / "results.json"), out), out)


def store(text: str, out: Path) -> Path:
    """Keeps a page as the folder's `report.html`."""
    path = out / "report.html"
    try:
        outputs.write_text(path, text)
    except OSError as error:
        raise PerdureError(f"cannot write {path}: {error}") from error
    return path


def page(results: Mapping[str, Any], out: Path) -> str:
    """The page's text."""
    costs = {"name": "cuts", "figure_files": results["tables"]["cut_costs_figure"]}
    drawn = {
        one["name"]: (out / one["figure_files"]["vega_lite"], out / one["figure_files"]["svg"])
        for one in [*results["experiments"], costs]
        if one["figure_files"] is not None
    }
    return render(
        "page.html",
        drawn,
        _configurations(results["points"], out),
        results=results,
        tallies=_tallies(results),
        claims=_claims(results),
        models=results["models"] or [{"name": None, "label": None}],
        machines=bool(results["models"]),
        points=_points(results["points"]),
        failures=results["failures"],
        cuts=_cuts_table(results["tables"]["cuts"]),
    )


def render(
    template: str,
    drawn: Mapping[str, tuple[Path, Path]],
    configurations: Mapping[str, str],
    **words: Any,
) -> str:
    """A page that has everything in it: what the template says, styles, scripts and data.

    `drawn` has each figure's specification and picture by its name.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["direction"] = charts.direction
    environment.filters["paper_says"] = paper_says
    environment.globals["VERDICTS"] = VERDICTS
    specifications, pictures = _figures(drawn)
    return environment.get_template(template).render(
        **words,
        pictures=pictures,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
        vega=vl_convert.javascript_bundle(),  # type: ignore[call-arg]
        data=script_json({"figures": specifications, "configurations": configurations}),
    )


def script_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def number(value: float | None) -> str:
    """A number as people read it: four significant digits, thousands grouped."""
    if value is None:
        return "–"
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}".replace(",", "\u202f")


def _tallies(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How many claims have which verdict, in each model."""
    claims = [claim for one in results["experiments"] for claim in one["claims"]]
    tallies = []
    for model in results["models"] or [{"name": None, "label": None}]:
        counts = dict.fromkeys(VERDICTS, 0)
        for claim in claims:
            if claim["model"] == model["name"]:
                counts[claim["verdict"]] += 1
        tallies.append({"label": model["label"], "counts": counts})
    return tallies


def _claims(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every claim once, with what came of it in each model."""
    found: dict[str, dict[str, Any]] = {}
    for place, experiment in enumerate(results["experiments"]):
        for claim in experiment["claims"]:
            row = {**claim, "place": place, "experiment": experiment, "judged": []}
            found.setdefault(claim["id"], row)["judged"].append(claim)
    return list(found.values())


def _figures(drawn: Mapping[str, tuple[Path, Path]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Each figure's specification, and the same figure as a picture for before scripts run."""
    specifications, pictures = {}, {}
    for name, (specification, picture) in drawn.items():
        specifications[name] = _read_json(specification)
        encoded = base64.b64encode(_read(picture)).decode("ascii")
        pictures[name] = f"data:image/svg+xml;base64,{encoded}"
    return specifications, pictures


def _points(points: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, **point} for key, point in sorted(points.items(), key=_point_order)]


def _point_order(item: tuple[str, Mapping[str, Any]]) -> tuple[str, str, list[str], str]:
    key, point = item
    return point["name"], point["design"], list(point["overrides"]), key


def _configurations(points: Mapping[str, Any], out: Path) -> dict[str, str]:
    """The text of each effective configuration, by its hash."""
    paths = {point["config_hash"]: point["configuration"] for point in points.values()}
    return {key: _read(out / path).decode("utf-8") for key, path in sorted(paths.items())}


def _cuts_table(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Design × program, with the cuts verified of the cuts made."""
    cells: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        cells[row["design"], row["program"]] = row
    designs = list(dict.fromkeys(design for design, _ in cells))
    programs = list(dict.fromkeys(program for _, program in cells))
    return {"designs": designs, "programs": programs, "cells": cells}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PerdureError(f"the report needs {path}: {error.strerror}") from error


def _read_json(path: Path) -> Any:
    return documents.parsed(_read(path), str(path), "delete it and run again")

"""`report.html` of a sweep: its results, figures, runs and configurations in one file.

Always true here: it shows what the sweep's data frame has, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure import __version__
from perdure.experiments import report, sweep_charts

if TYPE_CHECKING:
    from perdure.sweeps import Sweep

WRITTEN = "nvm.written_bytes.total"
COLUMNS = {
    "cycles": "time (cycles)",
    "relative": "relative time (×)",
    WRITTEN: "written to the NVM (bytes)",
    "relative_wear": "relative wear (×)",
    "cut_cost.lost_cycles.median": "work lost, median (cycles)",
    "cut_cost.lost_cycles.worst": "work lost, worst",
    "cut_cost.recovery_cycles.median": "recovery, median (cycles)",
    "cut_cost.recovery_cycles.worst": "recovery, worst",
    "nvm.written_bytes.data": "written: data",
    "nvm.written_bytes.log": "written: log",
    "nvm.written_bytes.metadata": "written: metadata",
    "nvm.written_bytes.context": "written: context",
}
"""What the table of results has of a row, where any row has it."""


def write(
    done: Sweep, drawn: Mapping[str, Mapping[str, Path]], told: Mapping[str, tuple[str, str]]
) -> Path:
    """Writes the page into the sweep's folder. `told` is unit and meaning of its keys."""
    text = report.render(
        "sweep.html",
        {name: (files["json"], files["svg"]) for name, files in drawn.items()},
        done.configurations(),
        title=" · ".join(dict.fromkeys(done.data["name"])) or "no point",
        facts=_facts(done),
        keys=[
            {"name": key, "unit": told.get(key, ("", ""))[0], "meaning": told.get(key, ("", ""))[1]}
            for key in done.keys
        ],
        base=done.designs[0],
        interrupted=done.interrupted,
        probed=any(name.startswith("cut_cost.") for name in done.data.columns),
        **_table(done),
        figures=[one for one in sweep_charts.FIGURES if one.name in drawn],
        machines=done.data["machine"].n_unique() > 1,
        points=[{**row, "configuration": None} for row in done.data.iter_rows(named=True)],
        failures=[{**row, "reason": row["error"]} for row in done.failures.iter_rows(named=True)],
    )
    return report.store(text, done.out)


def _facts(done: Sweep) -> list[tuple[str, str]]:
    machines = ", ".join(Path(one).name for one in dict.fromkeys(done.data["machine"]))
    return [
        ("designs", ", ".join(done.designs)),
        ("points", f"{len(done.data)}"),
        *([("machine", machines)] if machines else []),
        ("version", __version__),
    ]


def _table(done: Sweep) -> dict[str, Any]:
    """The columns of which any row has something, and the rows."""
    rows = [{**row, "relative_wear": None} for row in done.rows()]
    base = {_place(row, done): row.get(WRITTEN) for row in rows if row["design"] == done.designs[0]}
    for row in rows:
        first = base.get(_place(row, done))
        if first and row.get(WRITTEN) is not None:
            row["relative_wear"] = row[WRITTEN] / first
    shown = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    words = [{"label": name, "numeric": False} for name in [*done.keys, "design"]]
    numbers = [{"label": COLUMNS[name], "numeric": True} for name in shown]
    names = [*done.keys, "design", *shown]
    return {
        "columns": words + numbers,
        "rows": [{"cells": [row.get(name) for name in names]} for row in rows],
    }


def _place(row: Mapping[str, Any], done: Sweep) -> tuple[str, ...]:
    """The values that a row was measured with."""
    return tuple(row[key] for key in done.keys)

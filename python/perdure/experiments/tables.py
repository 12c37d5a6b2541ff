"""Tables of a reproduction: what class each workload is of, and which cuts were verified.

Always true here: the numbers are measured, on the default machine of the scale; the limits of the
classes are ours, and stand below.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.experiments import dataset
from perdure.experiments.cache import Stored
from perdure.experiments.declaration import Paper, ScaleOf
from perdure.experiments.measured import Measured, statistic
from perdure.experiments.metrics import amount_of_work
from perdure.experiments.plan import Planned, epochs, heeded, merged
from perdure.experiments.point import Point
from perdure.experiments.programs import Provided

LINE_BYTES = 64
INTENSIVE_MISSES = 5.0
"""Misses and write-backs of the last level in 1,000 instructions: from here on, intensive."""
LOCAL_LINES = 16.0
"""Lines written in each written 4 KiB page (of 64) from which its writes are called local."""
COMPUTE_MISSES = 0.5
"""Below so many of them, compute-bound."""


def classes(
    planned: Sequence[Planned],
    provided: Provided,
    stored: Mapping[str, Stored],
    scale: ScaleOf,
    paper: Paper,
) -> list[dict[str, Any]]:
    """Write set, spatial locality and intensity of every workload that ran alone.

    Intensity is measured under the paper's baseline; the write set under `tags`, a design whose
    epoch tags see which lines an epoch stores to.
    """
    baseline, tags = paper.baseline, paper.tags
    if tags is None:
        return []
    regions = _alone(planned, provided, stored, scale, paper)
    found = []
    for name, entry in provided.entries.items():
        base, tagged = regions.get((name, baseline)), regions.get((name, tags))
        if base is None or tagged is None:
            continue
        thousands = base[1]["instructions"] / 1000
        length = epochs(tagged[1], tagged[2], scale)
        lines = statistic(tagged[1], "versions.cross_stores")
        pages = statistic(tagged[1], "versions.pages_written")
        misses = statistic(base[1], "llc.misses") / thousands
        written = statistic(base[1], "llc.write_backs") / thousands
        locality = lines / pages if pages else None
        found.append(
            {
                "workload": name,
                "stands_for": entry.stands_for,
                "kind": entry.kind,
                "design": baseline,
                "write_set_bytes_per_epoch": round(lines / length * LINE_BYTES) if length else 0,
                "lines_per_written_page": locality,
                "llc_misses_per_kilo_instruction": misses,
                "llc_write_backs_per_kilo_instruction": written,
                "class": class_of(misses + written, locality),
                "points": [base[0], tagged[0]],
            }
        )
    return found


def _alone(
    planned: Sequence[Planned],
    provided: Provided,
    stored: Mapping[str, Stored],
    scale: ScaleOf,
    paper: Paper,
) -> dict[tuple[str, str], tuple[str, Measured, Point]]:
    """Key, region and point of each workload that ran alone on the usual machine, by design."""
    found: dict[tuple[str, str], tuple[str, Measured, Point]] = {}
    for one in planned:
        point = one.point
        # A figure with an axis varies the machine, or what of a run is measured.
        if one.subject not in provided.entries or one.axis is not None:
            continue
        own = provided.entries[one.subject].sizes[scale.name]
        usual = heeded(paper, one.design, merged(scale.overrides, own.overrides))
        usual = merged(usual, paper.design(one.design).overrides)
        if point.machine != paper.machine or set(point.overrides) != set(usual):
            continue
        if point.repeat or point.campaign is not None:
            continue
        key = point.key()
        if key in stored:
            found[one.subject, one.design] = key, dataset.measured(stored[key]), point
    return found


def class_of(traffic: float, locality: float | None) -> str:
    """A workload's class, in words."""
    if traffic < COMPUTE_MISSES:
        return "compute-bound"
    intensity = "intensive" if traffic >= INTENSIVE_MISSES else "moderate"
    if locality is None:
        return intensity
    return f"{intensity}, {'local' if locality >= LOCAL_LINES else 'scattered'} writes"


def bounds(
    planned: Sequence[Planned], stored: Mapping[str, Stored], paper: Paper
) -> list[dict[str, Any]]:
    """Workload × model: what the paper's `bound` design sends, and what the NVM's banks can take.

    `load` is the time that the banks need for all of its row writes, if these are spread evenly,
    over the time that the work takes without snapshots: above 1, the banks cannot keep up with the
    program.
    """
    rows: dict[tuple[str, str | None], dict[str, Any]] = {}
    if paper.bound is None:
        return []
    alone = [one for one in planned if one.axis is None and one.point.campaign is None]
    bases = {
        (one.experiment, one.subject, one.model): one.point.key()
        for one in alone
        if one.design == paper.baseline and not one.compared_with
    }
    for one in alone:
        base = bases.get((one.experiment, one.subject, one.model))
        key = one.point.key()
        if one.design != paper.bound or base is None or not {base, key} <= set(stored):
            continue
        region, plain = dataset.measured(stored[key]), dataset.measured(stored[base])
        configured = one.point.configuration().values
        values = {name: entry["value"] for name, entry in configured.items()}
        write_cycles = values["nvm.row_write_ns"] * values["core.frequency_mhz"] / 1000
        lines_a_cycle = values["nvm.banks"] / write_cycles
        writes = statistic(region, "nvm.writes")
        work, plain_work = amount_of_work(region), amount_of_work(plain)
        if not work or not plain_work or region["whole_phase"] != plain["whole_phase"]:
            continue
        sent = writes / work / (plain["cycles"] / plain_work)
        row = {
            "workload": one.subject,
            "model": one.model,
            "design": one.design,
            "banks": values["nvm.banks"],
            "row_bytes": values["nvm.row_bytes"],
            "row_write_ns": values["nvm.row_write_ns"],
            "banks_lines_a_cycle": lines_a_cycle,
            "writes": round(writes),
            "cycles_without": plain["cycles"],
            "lines_a_cycle": sent,
            "load": sent / lines_a_cycle,
            "points": [key, base],
        }
        rows.setdefault((one.subject, one.model), row)
    return list(rows.values())


COST_PARTS = {"lost_cycles": "work lost", "recovery_cycles": "recovery"}
"""What of a cut's cost is a time, and what it is called."""


def cut_costs(cuts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Design × part of what a cut costs, in cycles, over all programs: see `cuts`.

    `median` and `percentile_99` are the medians of the programs'; `worst` is the worst of all.
    """
    rows = []
    for design in dict.fromkeys(row["design"] for row in cuts):
        costs = [row["cut_cost"] for row in cuts if row["design"] == design and row["cut_cost"]]
        for key, part in COST_PARTS.items() if costs else ():
            spreads = [cost[key] for cost in costs]
            rows.append(
                {
                    "design": design,
                    "part": part,
                    "unit": "cycles",
                    "median": statistics.median(one["median"] for one in spreads),
                    "percentile_99": statistics.median(one["percentile_99"] for one in spreads),
                    "worst": max(one["worst"] for one in spreads),
                    "programs": len(spreads),
                }
            )
    return rows


def cuts(
    planned: Sequence[Planned], stored: Mapping[str, Stored], paper: Paper
) -> list[dict[str, Any]]:
    """Design × program × cuts verified. Under designs that are broken, some have to fail."""
    rows = []
    for one in planned:
        key = one.point.key()
        if key not in stored:
            continue
        result = stored[key]["result"]
        coverage = result.get("coverage", {})
        failed = [cut for cut in result["results"] if cut["verdict"] != "verified"]
        rows.append(
            {
                "design": one.design,
                "program": one.subject,
                "programs": [program.name for program in one.point.programs],
                "cuts": result["cuts"],
                "verified": result["verified"],
                "failed": result["failed"],
                "expected": "broken" if paper.design(one.design).broken else "sound",
                "resumed": sum(bool(cut["resumed"]) for cut in result["results"]),
                "restarted": sum(bool(cut.get("restarts")) for cut in result["results"]),
                "cut_cost": result.get("cut_cost"),
                "cuts_during_recovery": coverage.get("cuts_during_recovery", 0),
                "tokens": [cut["token"] for cut in failed],
                "points": [key],
            }
        )
    return rows

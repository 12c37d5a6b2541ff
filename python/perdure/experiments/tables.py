"""Tables of a reproduction: what class each workload is of, and which cuts were verified.

Always true here: the numbers are measured, on the default machine of the scale; the limits of the
classes are ours, and stand below.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.experiments import dataset
from perdure.experiments.cache import Stored
from perdure.experiments.declaration import Paper, ScaleOf
from perdure.experiments.measured import Measured, statistic
from perdure.experiments.metrics import amount_of_work, metric
from perdure.experiments.plan import Planned, Probing, epochs, heeded, merged, values
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


def probes(
    probings: Sequence[Probing], paper: Paper, scale: ScaleOf, stored: Mapping[str, Stored]
) -> list[dict[str, Any]]:
    """What each probe changes, and its figure's number without and with that."""
    rows = []
    for probing in probings:
        probe = probing.probe
        model = next((one for one in paper.models if one.name == probe.model), None)
        row: dict[str, Any] = {
            "name": probe.name,
            "says": probe.says,
            "model": probe.model,
            "figure": probe.figure,
            "subject": probe.subject,
            "design": probe.design,
            "changed": [
                *probe.overrides,
                *([" ".join(probe.arguments)] if probe.arguments else []),
            ],
            "unit": metric(probing.plain.in_model(model).metric).unit,
        }
        for key, experiment in (("before", probing.plain), ("after", probing.changed)):
            own = experiment.in_model(model)
            mine = [one for one in probing.planned if one.experiment == experiment.name]
            found = [
                value
                for value in values(own, paper, scale, mine, stored)
                if probe.at in (None, value.axis) and probe.part in (None, value.part)
            ]
            row[key] = found[0].value if found else None
            row[f"{key}_points"] = list(found[0].points) if found else []
        rows.append(row)
    return rows


PROGRAM_BROKEN = ("restart-failed", "output-unexpected")
"""Verdicts on a program that was started again, where the design's own judge had nothing to say."""
WITHOUT = ("without_loaded", "without_before")
"""What a cut may say of a state that has something, and not what came before it."""


def cuts(
    planned: Sequence[Planned], stored: Mapping[str, Stored], paper: Paper
) -> list[dict[str, Any]]:
    """Design × program × cuts verified. Under designs that are broken, some have to fail.

    `program_broken` are those of the failed ones at which the design kept its promise and the
    program did not come back, `example` is the earliest of them; `without` says how many states
    have something without what it had loaded, or without what its thread had done before.
    """
    rows = []
    for one in planned:
        key = one.point.key()
        if key not in stored:
            continue
        result, named = stored[key]["result"], paper.design(one.design)
        coverage = result.get("coverage", {})
        failed = [cut for cut in result["results"] if cut["verdict"] != "verified"]
        broken = [cut for cut in failed if cut["verdict"] in PROGRAM_BROKEN]
        rows.append(
            {
                "design": one.design,
                "program": one.subject,
                "programs": [program.name for program in one.point.programs],
                "cuts": result["cuts"],
                "verified": result["verified"],
                "failed": result["failed"],
                "program_broken": len(broken),
                "expected": "broken" if named.broken else "kept" if named.less else "sound",
                "resumed": sum(bool(cut["resumed"]) for cut in result["results"]),
                "restarted": sum(bool(cut.get("restarts")) for cut in result["results"]),
                "cut_cost": result.get("cut_cost"),
                "cuts_during_recovery": coverage.get("cuts_during_recovery", 0),
                "paths": coverage.get("paths", {}),
                "without": {
                    kind: sum(kind in cut for cut in result["results"]) for kind in WITHOUT
                },
                "example": _example(one.point, broken) if broken else None,
                "tokens": [cut["token"] for cut in failed],
                "points": [key],
            }
        )
    return rows


def _example(point: Point, broken: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The earliest cut after which the program was broken, and how its pool was made.

    With it goes what was there without what came before.
    """
    cut = min(broken, key=lambda one: one["cycle"])
    said = (cut.get("restarts") or [{}])[-1].get("output")
    return {
        "cycle": cut["cycle"],
        "said": said,
        "token": cut["token"],
        "machine": Path(point.machine).name,
        "design": point.design,
        # As in the folder of the results: programs/KIND/NAME.
        "made": [["/".join(Path(first).parts[-3:]), *words] for first, *words in point.made],
        **{kind: cut.get(kind) for kind in WITHOUT},
    }


def beside_cuts(
    cuts: Sequence[Mapping[str, Any]], experiments: Sequence[Mapping[str, Any]], paper: Paper
) -> list[dict[str, Any]]:
    """Design × program: what cuts of them came to, and what figures measured of them.

    The figures are the paper's `beside_cuts`; the designs those that promise less than programs
    may need. Cuts of one program, by one thread or several, are added up.
    """
    chosen = [one for one in experiments if one["name"] in paper.beside_cuts]
    measured = {
        (value["subject"], value["design"], one["name"]): value["value"]
        for one in chosen
        for value in one["values"]
    }
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for row in cuts:
        if row["expected"] != "kept":
            continue
        (program,), design = row["programs"], row["design"]
        found = rows.setdefault(
            (program, design),
            {
                "program": program,
                "design": design,
                "cuts": 0,
                "promise_broken": 0,
                "program_broken": 0,
                "without": dict.fromkeys(WITHOUT, 0),
                "measured": {
                    one["name"]: measured.get((program, design, one["name"])) for one in chosen
                },
            },
        )
        found["cuts"] += row["cuts"]
        found["program_broken"] += row["program_broken"]
        found["promise_broken"] += row["failed"] - row["program_broken"]
        for kind, count in row["without"].items():
            found["without"][kind] += count
    return list(rows.values())

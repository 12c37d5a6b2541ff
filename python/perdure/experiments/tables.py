"""Tables of a reproduction: what class each workload is of, and which cuts were verified.

Always true here: the numbers are measured, under the baseline and the default machine of the scale;
the limits of the classes are ours, and stand below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.experiments import dataset
from perdure.experiments.cache import Stored
from perdure.experiments.declaration import ScaleOf
from perdure.experiments.metrics import statistic
from perdure.experiments.plan import Planned, epoch_length, merged
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
    baseline: str,
) -> list[dict[str, Any]]:
    """Write set, spatial locality and intensity of every workload that ran alone."""
    found: dict[str, dict[str, Any]] = {}
    usual = set(merged(scale.overrides))
    for one in planned:
        key = one.point.key()
        alone = one.subject in provided.entries and set(one.point.overrides) == usual
        if one.design != baseline or not alone or one.subject in found or key not in stored:
            continue
        if one.point.restart or one.point.campaign is not None:
            continue
        entry = provided.entries[one.subject]
        region = dataset.measured(stored[key])
        thousands = region["instructions"] / 1000
        epochs = region["instructions"] / epoch_length(one.point.overrides, scale)
        pages = statistic(region, "versions.pages_written")
        lines = statistic(region, "versions.cross_stores")
        misses = statistic(region, "llc.misses") / thousands
        written = statistic(region, "llc.write_backs") / thousands
        locality = lines / pages if pages else None
        found[one.subject] = {
            "workload": one.subject,
            "stands_for": entry.stands_for,
            "kind": entry.kind,
            "design": baseline,
            "write_set_bytes_per_epoch": round(lines / epochs * LINE_BYTES),
            "lines_per_written_page": locality,
            "llc_misses_per_kilo_instruction": misses,
            "llc_write_backs_per_kilo_instruction": written,
            "class": class_of(misses + written, locality),
            "points": [key],
        }
    return [found[name] for name in provided.entries if name in found]


def class_of(traffic: float, locality: float | None) -> str:
    """A workload's class, in words."""
    if traffic < COMPUTE_MISSES:
        return "compute-bound"
    intensity = "intensive" if traffic >= INTENSIVE_MISSES else "moderate"
    if locality is None:
        return intensity
    return f"{intensity}, {'local' if locality >= LOCAL_LINES else 'scattered'} writes"


def cuts(planned: Sequence[Planned], stored: Mapping[str, Stored]) -> list[dict[str, Any]]:
    """Design × program × cuts verified."""
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
                "resumed": sum(bool(cut["resumed"]) for cut in result["results"]),
                "cuts_during_recovery": coverage.get("cuts_during_recovery", 0),
                "tokens": [cut["token"] for cut in failed],
                "points": [key],
            }
        )
    return rows

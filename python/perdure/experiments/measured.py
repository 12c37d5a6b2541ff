"""What is measured of a run, and what a metric is.

Always true here: a counter that a design does not have is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Measured: TypeAlias = Mapping[str, Any]
"""`dataset.measured`: cycles, instructions, programs, statistics."""
Parts: TypeAlias = dict[str | None, float]
"""A value for each part of a bar; one for None where there are no parts."""


@dataclass(frozen=True)
class Metric:
    """What a figure shows: its name, unit and meaning, and how it is computed."""

    name: str
    label: str
    unit: str
    meaning: str
    better: str | None
    relative: bool
    parts: tuple[str, ...]
    compute: Callable[[Measured, Measured | None, int], Parts | None]


def rounded(value: float) -> float:
    """Twelve significant digits: the last ones of logarithms differ between C libraries."""
    return float(f"{value:.12g}")


def statistic(region: Measured, name: str) -> float:
    """One of the region's counters; 0 where the design does not have it."""
    entry = region["statistics"].get(name)
    return 0.0 if entry is None else float(entry["value"])


def told(region: Measured, name: str) -> float:
    """A number that the program measured of itself; 0 where it told none of that name."""
    return float(region.get("told", {}).get(name, 0))


def execution_time(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    """Cycles of each program over those of the baseline's, as a geometric mean."""
    if base is None:
        return None
    ratios = [
        math.log(one["cycles"] / other["cycles"])
        for one, other in zip(region["programs"], base["programs"], strict=True)
    ]
    return {None: math.exp(math.fsum(ratios) / len(ratios))}

"""Metrics: from measured regions to the numbers of a figure.

Always true here: a metric is a pure function of one region, of the baseline's where it is relative
to that, and of the epoch's configured length; where it has no value (nothing to relate to) it
says so with None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from perdure import PerdureError

Measured: TypeAlias = Mapping[str, Any]
"""`dataset.measured`: cycles, instructions, programs, statistics."""
Parts: TypeAlias = dict[str | None, float]
"""A value for each part of a bar; one for None where there are no parts."""

EPOCHS_OF_LOG = 8
SEQUENTIAL, RANDOM, WRITE_BACK = "sequential", "random", "write-back"


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


def _execution_time(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    if base is None:
        return None
    ratios = [
        math.log(one["cycles"] / other["cycles"])
        for one, other in zip(region["programs"], base["programs"], strict=True)
    ]
    return {None: math.exp(math.fsum(ratios) / len(ratios))}


def _commits(region: Measured, _base: Measured | None, epoch: int) -> Parts | None:
    epochs = region["instructions"] / epoch
    return {None: statistic(region, "epoch.committed") / epochs}


def _epoch_length(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    commits = max(statistic(region, "epoch.committed"), 1.0)
    return {None: region["instructions"] / commits / 1e6}


def _operations(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    evicted = 0.0 if base is None else statistic(base, "nvm.operations.write_back")
    if evicted == 0:
        return None
    return {
        SEQUENTIAL: statistic(region, "nvm.operations.sequential") / evicted,
        RANDOM: statistic(region, "nvm.operations.random") / evicted,
        WRITE_BACK: statistic(region, "nvm.operations.write_back") / evicted,
    }


def _log_bytes(region: Measured, _base: Measured | None, epoch: int) -> Parts | None:
    epochs = region["instructions"] / epoch
    written = statistic(region, "nvm.written_bytes.log")
    return {None: written / epochs * EPOCHS_OF_LOG / 1e6}


def _written_bytes(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    total = 0.0 if base is None else statistic(base, "nvm.written_bytes.total")
    return {None: statistic(region, "nvm.written_bytes.total") / total} if total else None


def _scanned_lines(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    scans = statistic(region, "picl.acs_scans")
    return {None: statistic(region, "picl.acs_lines") / scans} if scans else None


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "execution-time",
            "execution time, normalised to ideal NVM",
            "×",
            "cycles until a program had retired its measured instructions, over those under ideal; "
            "for a mix the geometric mean over its programs",
            "lower",
            True,
            (),
            _execution_time,
        ),
        Metric(
            "commits",
            "commits per configured epoch length",
            "commits",
            "epochs that ended, for each configured epoch length of instructions",
            "lower",
            False,
            (),
            _commits,
        ),
        Metric(
            "nvm-operations",
            "operations at the NVM, normalised to ideal's write traffic",
            "×",
            "row operations at the NVM by kind, over the evicted lines that ideal wrote",
            "lower",
            True,
            (SEQUENTIAL, RANDOM, WRITE_BACK),
            _operations,
        ),
        Metric(
            "log-bytes",
            f"undo log written in {EPOCHS_OF_LOG} epochs",
            "MB",
            f"bytes written to the log in the region, scaled to {EPOCHS_OF_LOG} epochs",
            "lower",
            False,
            (),
            _log_bytes,
        ),
        Metric(
            "epoch-length",
            "observed epoch length",
            "M instructions",
            "instructions retired in the region for each epoch that ended in it",
            "higher",
            False,
            (),
            _epoch_length,
        ),
        Metric(
            "written-bytes",
            "bytes written to the NVM, normalised to NVOverlay",
            "×",
            "all bytes that were written to the NVM in the region, over those that NVOverlay wrote",
            "lower",
            True,
            (),
            _written_bytes,
        ),
        Metric(
            "scanned-lines",
            "in-place writes by the cache scan, relative to a gap of zero",
            "×",
            "lines that one asynchronous cache scan wrote in place, over those with a gap of zero",
            "lower",
            False,
            (),
            _scanned_lines,
        ),
    )
}


def metric(name: str) -> Metric:
    """A metric by its name.

    Raises:
        PerdureError: there is none of this name.
    """
    found = METRICS.get(name)
    if found is None:
        raise PerdureError(f"there is no metric {name!r}: metrics are {', '.join(METRICS)}")
    return found

"""Metrics of the flush study: what flushes and fences cost, and what they do to caches and commit.

Always true here: as in `metrics`, of which these are a part.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.experiments.measured import Measured, Metric, Parts, execution_time, statistic


def _first_program(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    if base is None:
        return None
    here, there = (one["cycles"] / one["programs"][0]["instructions"] for one in (region, base))
    return {None: here / there}


def _pool_reads(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    thousands = region["instructions"] / 1000
    return {None: statistic(region, "nvm.reads") / thousands} if thousands else None


def _miss_rate(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    accesses = statistic(region, "l1d.accesses")
    return {None: 100 * statistic(region, "l1d.misses") / accesses} if accesses else None


def _misses(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    there = 0.0 if base is None else statistic(base, "l1d.misses")
    return {None: statistic(region, "l1d.misses") / there} if there else None


def _head_stalls(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return {None: statistic(region, "window.head_stalls")}


def _reserve(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    peak = statistic({"statistics": region["ended"]}, "persistence.reserve_peak")
    return {None: peak / 1024}


METRICS: Sequence[Metric] = (
    Metric(
        "slowdown",
        "slowdown, normalised to no flush and no fence",
        "×",
        "cycles of the whole run on a pool that was made before, over those of the same run with "
        "neither flushes nor fences",
        "lower",
        True,
        (),
        execution_time,
    ),
    Metric(
        "first-program",
        "slowdown of the program beside",
        "×",
        "cycles of the region for each instruction that the first program retired in it, over "
        "those beside programs that neither flush nor fence",
        "lower",
        True,
        (),
        _first_program,
    ),
    Metric(
        "pool-reads",
        "lines read from persistent memory in 1,000 instructions",
        "MPKI",
        "misses of the last level that persistent memory served, those of the prefetcher included, "
        "in 1,000 instructions of the whole run",
        "lower",
        False,
        (),
        _pool_reads,
    ),
    Metric(
        "l1d-miss-rate",
        "miss rate of the L1-D",
        "%",
        "accesses of the data cache that missed, those of the kernel included, of all",
        "lower",
        False,
        (),
        _miss_rate,
    ),
    Metric(
        "l1d-misses",
        "misses of the L1-D, normalised to no log",
        "×",
        "accesses of the data cache that missed, each of which replaces a line of a full cache, "
        "over those with no log",
        "lower",
        True,
        (),
        _misses,
    ),
    Metric(
        "head-stalls",
        "commit stalls at the head of the reorder buffer",
        "stalls",
        "fences, flushes, atomics and others that waited at the head of the reorder buffer",
        "lower",
        False,
        (),
        _head_stalls,
    ),
    Metric(
        "reserve",
        "energy reserve",
        "KiB",
        "most bytes that were not durable by themselves at one moment of the run: what a reserve "
        "of energy has to drain",
        "lower",
        False,
        (),
        _reserve,
    ),
)

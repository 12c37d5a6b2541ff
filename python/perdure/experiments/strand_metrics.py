"""Metrics of SPMS's evaluation: throughput and traffic of the same operations, and what strands do.

Always true here: as in `metrics`, of which these are a part; both runs of a ratio do the same
operations, on pools that were made before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.experiments.measured import Measured, Metric, Parts, execution_time, statistic

LINE_BYTES = 64
CYCLES_IN_A_MICROSECOND = 2500.0
"""Of the machine `spms`."""


def _ended(region: Measured, name: str) -> float:
    """A counter of the whole run: a size as it was at its end."""
    return statistic({"statistics": region["ended"]}, name)


def _throughput(region: Measured, base: Measured | None, epoch: int) -> Parts | None:
    slower = execution_time(region, base, epoch)
    return None if slower is None else {part: 1 / value for part, value in slower.items()}


def _written_bytes(region: Measured) -> float:
    """What was written home, and what the strand buffer still has, which is written as well."""
    left = statistic(region, "spms.buffer.arrivals") - sum(
        statistic(region, f"spms.buffer.{how}") for how in ("coalesced", "superseded", "drained")
    )
    return statistic(region, "nvm.written_bytes.total") + LINE_BYTES * left


def _write_traffic(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    here, there = (0.0 if one is None else _written_bytes(one) for one in (region, base))
    return {None: here / there} if there else None


def _written(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return {None: _written_bytes(region) / 1e6}


def _flushed(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    writes = statistic(region, "nvm.writes")
    return {None: 100 * statistic(region, "cache_block.cleaned") / writes} if writes else None


def _group_size(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    groups = statistic(region, "spms.groups")
    return {None: statistic(region, "spms.strands.committed") / groups} if groups else None


def _largest_group(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    largest = _ended(region, "spms.groups.largest")
    return {None: largest} if largest else None


def _forced(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    arrivals = statistic(region, "spms.buffer.arrivals")
    return {None: 100 * statistic(region, "spms.forced.lines") / arrivals} if arrivals else None


def _coalesced(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    arrivals = statistic(region, "spms.buffer.arrivals")
    saved = sum(statistic(region, f"spms.buffer.{one}") for one in ("coalesced", "superseded"))
    return {None: 100 * saved / arrivals} if arrivals else None


def _buffer_reads(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    answered = statistic(region, "spms.buffer.reads")
    reads = answered + statistic(region, "nvm.reads")
    return {None: 100 * answered / reads} if reads else None


def _occupied(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return {None: _ended(region, "spms.buffer.peak") * LINE_BYTES / 1024}


def _energy(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return {None: _ended(region, "spms.energy_peak") / 1024}


def _lag(rank: str) -> Callable[[Measured, Measured | None, int], Parts | None]:
    def compute(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
        committed = statistic(region, "spms.strands.committed")
        lag = _ended(region, f"spms.lag.{rank}")
        return {None: lag / CYCLES_IN_A_MICROSECOND} if committed else None

    return compute


def _lag_metric(name: str, label: str, rank: str, meaning: str) -> Metric:
    return Metric(name, label, "µs", meaning, "lower", False, (), _lag(rank))


METRICS: Sequence[Metric] = (
    Metric(
        "throughput",
        "throughput, normalised to no protection",
        "×",
        "operations in a cycle of the whole run on a pool that was made before, over those of the "
        "same operations without protection",
        "higher",
        True,
        (),
        _throughput,
    ),
    Metric(
        "write-traffic",
        "bytes written to persistent memory, normalised to no protection",
        "×",
        "bytes that were written to persistent memory until the run ended, and those that the "
        "strand buffer had then, over those of the same operations without protection",
        "lower",
        True,
        (),
        _write_traffic,
    ),
    Metric(
        "written",
        "bytes written to persistent memory",
        "MB",
        "bytes that were written to persistent memory until the run ended, and those that the "
        "strand buffer had then",
        "lower",
        False,
        (),
        _written,
    ),
    Metric(
        "flushed",
        "lines that flushes wrote",
        "%",
        "dirty lines that flushes sent to persistent memory, of all lines that were written there",
        "lower",
        False,
        (),
        _flushed,
    ),
    Metric(
        "group-size",
        "strands in a group",
        "strands",
        "strands that were committed, over groups that were",
        "lower",
        False,
        (),
        _group_size,
    ),
    Metric(
        "largest-group",
        "strands in the largest group",
        "strands",
        "strands of the largest group that was committed",
        "lower",
        False,
        (),
        _largest_group,
    ),
    Metric(
        "forced-lines",
        "lines that were forced out of the caches",
        "%",
        "lines that walks for a free entry, and instructions that wait for strands, evicted, over "
        "lines that arrived at the strand buffer",
        "lower",
        False,
        (),
        _forced,
    ),
    Metric(
        "coalesced",
        "writes that the strand buffer saves",
        "%",
        "lines that took the place of an older one of their group or of a committed one, of all "
        "that arrived at the strand buffer",
        "higher",
        False,
        (),
        _coalesced,
    ),
    Metric(
        "strand-buffer-reads",
        "reads that the strand buffer answers",
        "%",
        "misses of the last level that the strand buffer answered, of all for persistent memory",
        "higher",
        False,
        (),
        _buffer_reads,
    ),
    Metric(
        "strand-buffer-peak",
        "most that the strand buffer held",
        "KiB",
        "lines in the strand buffer at the fullest moment of the run",
        "lower",
        False,
        (),
        _occupied,
    ),
    Metric(
        "energy",
        "energy that ultra-capacitors need",
        "KiB",
        "most bytes at one moment of the run that they would have had to write",
        "lower",
        False,
        (),
        _energy,
    ),
    _lag_metric(
        "lag-median",
        "durability lag, median",
        "median",
        "time from a strand's end to its commit: half of them took less",
    ),
    _lag_metric(
        "lag-p99",
        "durability lag, 99th percentile",
        "p99",
        "time from a strand's end to its commit: 99 in 100 took less",
    ),
    _lag_metric(
        "lag-worst",
        "durability lag, worst",
        "worst",
        "time from a strand's end to its commit: the longest",
    ),
)

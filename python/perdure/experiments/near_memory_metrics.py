"""Metrics of NearPM's evaluation: what crash consistency costs, and what devices take off it.

Always true here: as in `metrics`, of which these are a part; cycles are those that the programs
measured of themselves, of all threads together unless they are `elapsed`: making and opening the
pool, and the check at the end, are outside of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.experiments.measured import Measured, Metric, Parts, statistic, told


def _faster(name: str) -> Callable[[Measured, Measured | None, int], Parts | None]:
    """The baseline's cycles over these."""

    def compute(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
        here, there = told(region, name), 0.0 if base is None else told(base, name)
        return {None: there / here} if here and there else None

    return compute


def _percent(name: str, of: str) -> Callable[[Measured, Measured | None, int], Parts | None]:
    def compute(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
        whole = told(region, of)
        return {None: 100 * told(region, name) / whole} if whole else None

    return compute


def _in_parallel(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    """Both at work: a unit, and a processor that does not wait for one."""
    elapsed, devices = told(region, "elapsed_cycles"), told(region, "devices")
    if not elapsed or not devices:
        return None
    working = statistic(region, "nearpm.active") / devices
    waiting = told(region, "wait_cycles") + sum(
        statistic(region, f"nearpm.{queue}") for queue in ("wait.fifo", "host.delayed_wait")
    )
    return {None: 100 * max(working - waiting, 0.0) / elapsed}


METRICS: Sequence[Metric] = (
    Metric(
        "consistency-share",
        "time in code for crash consistency",
        "%",
        "cycles in the functions that log, checkpoint, copy to shadows and commit, of those of all "
        "transactions",
        "lower",
        False,
        (),
        _percent("consistency_cycles", "total_cycles"),
    ),
    Metric(
        "movement-share",
        "of it, for moving data",
        "%",
        "cycles in which old or new data is copied and the copy written back, of those in code for "
        "crash consistency",
        None,
        False,
        (),
        _percent("copy_cycles", "consistency_cycles"),
    ),
    Metric(
        "consistency-speedup",
        "speedup of code for crash consistency, over the processor alone",
        "×",
        "the cycles that the processor alone has in functions that log, checkpoint, copy to "
        "shadows and commit, over those here",
        "higher",
        True,
        (),
        _faster("consistency_cycles"),
    ),
    Metric(
        "transaction-speedup",
        "speedup of all transactions, over the processor alone",
        "×",
        "the cycles from the first transaction to the last one's end that the processor alone has, "
        "over those here",
        "higher",
        True,
        (),
        _faster("elapsed_cycles"),
    ),
    Metric(
        "copy-speedup",
        "speedup of copying persistent data, over the processor alone",
        "×",
        "the cycles of the same copies, each durable before the next, by the processor, over those "
        "here",
        "higher",
        True,
        (),
        _faster("total_cycles"),
    ),
    Metric(
        "in-parallel",
        "processor and devices at work at once",
        "%",
        "time in which a unit of a device copies, the mean of the devices, less that for which the "
        "processor waits for them (for completion, for room in a FIFO, for bytes that a unit works "
        "on), of the time of all transactions",
        "higher",
        False,
        (),
        _in_parallel,
    ),
)

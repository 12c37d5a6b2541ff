"""Metrics: from measured regions to the numbers of a figure.

Always true here: a metric is a pure function of one region, of the baseline's where it is relative
to that, and of the epoch's configured length; where it has no value (nothing to relate to) it
says so with None.
"""

from __future__ import annotations

from collections.abc import Mapping

from perdure import PerdureError
from perdure.experiments import flush_metrics, near_memory_metrics, strand_metrics
from perdure.experiments.measured import Measured, Metric, Parts, execution_time, statistic

EPOCHS_OF_LOG = 8
LINE_BYTES = 64
CYCLES_IN_A_MILLISECOND = 2e6
"""Of the papers' 2 GHz."""
INNER_BYTES, INNER_SLOTS = 4096, 512
LEAF_BYTES, LEAF_SLOTS = 512, 64
"""Nodes of NVOverlay's master table."""
ENTRY_BYTES = 72
"""A log entry as NVOverlay's evaluation counts it: a line and its address."""
SEQUENTIAL, RANDOM, WRITE_BACK = "sequential", "random", "write-back"
INNER, LEAF = "inner", "leaf"
CAPACITY, COHERENCE, STORE_EVICTION, TAG_WALK = (
    "capacity",
    "coherence",
    "store eviction",
    "tag walk",
)


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


def amount_of_work(region: Measured) -> float:
    """Work done in a region of threads.

    A whole parallel phase is one piece of work, whatever it took. Of a part of one, stores are
    counted: threads that wait by spinning retire instructions, but no stores.
    """
    return 1.0 if region.get("whole_phase") else statistic(region, "l1d.stores")


def _for_equal_work(here: float, region: Measured, there: float, base: Measured) -> Parts | None:
    """A ratio of amounts, for equal work; None where the works cannot be compared."""
    alike = bool(region.get("whole_phase")) == bool(base.get("whole_phase"))
    if not alike or not amount_of_work(region) or not amount_of_work(base) or not there:
        return None
    return {None: here / amount_of_work(region) / (there / amount_of_work(base))}


def _cycles_of_work(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    if base is None:
        return None
    return _for_equal_work(region["cycles"], region, base["cycles"], base)


def _bytes_of_work(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    if base is None:
        return None
    here, there = (statistic(one, "nvm.written_bytes.total") for one in (region, base))
    return _for_equal_work(here, region, there, base)


def _counted_bytes(region: Measured) -> float:
    """As NVOverlay's evaluation counts them: all that the caches send, absorbed by a buffer or not.

    Neither headers of log blocks nor contexts are in it.
    """
    absorbed = statistic(region, "nvoverlay.buffer_hits") * LINE_BYTES
    data = statistic(region, "nvm.written_bytes.data") + absorbed
    entries = statistic(region, "picl.undo_entries")
    if entries:
        return data + entries * ENTRY_BYTES
    return data + statistic(region, "nvm.written_bytes.metadata")


def _counted_bytes_of_work(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    if base is None:
        return None
    return _for_equal_work(_counted_bytes(region), region, _counted_bytes(base), base)


def _cycles(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    work = amount_of_work(region)
    return {None: region["cycles"] / work} if work else None


def _writes(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    work = amount_of_work(region)
    return {None: statistic(region, "nvm.writes") / work} if work else None


def _bandwidth(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    cycles = region["cycles"]
    return {None: statistic(region, "nvm.written_bytes.total") / cycles} if cycles else None


def _master_table(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    ended = {"statistics": region["ended"]}
    mapped = statistic(ended, "nvoverlay.master_lines") * LINE_BYTES
    if not mapped:
        return None
    return {None: statistic(ended, "nvoverlay.master_bytes_now") / mapped * 100}


def _table_slots(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    ended = {"statistics": region["ended"]}
    leaves = statistic(ended, "nvoverlay.master_leaves")
    inner = (statistic(ended, "nvoverlay.master_bytes_now") - leaves * LEAF_BYTES) / INNER_BYTES
    if not leaves or inner <= 0:
        return None
    return {
        INNER: 100 * leaves / (inner * INNER_SLOTS),
        LEAF: 100 * statistic(ended, "nvoverlay.master_lines") / (leaves * LEAF_SLOTS),
    }


def _lines_of_work(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    if base is None:
        return None
    return _for_equal_work(_lines_sent(region), region, _lines_sent(base), base)


def _lines_sent(region: Measured) -> float:
    """Lines of data that left for the NVM, whether or not NVOverlay's buffer absorbed them."""
    written = statistic(region, "nvm.written_bytes.data") / LINE_BYTES
    return written + statistic(region, "nvoverlay.buffer_hits")


def _compaction_bytes(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    copied = statistic(region, "nvoverlay.compaction_bytes")
    other = statistic(region, "nvm.written_bytes.total") - copied
    return {None: 100 * copied / other} if other > 0 else None


def _snapshot_interval(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    merged = statistic(region, "nvoverlay.epochs_merged")
    return {None: region["cycles"] / merged / 1e6} if merged else None


def _recovery_of_line(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    lines = statistic({"statistics": region["ended"]}, "nvoverlay.master_lines")
    longest = region["cut_cost"].get("recovery_cycles", {}).get("worst")
    return {None: longest / lines} if lines and longest else None


def _buffer_hits(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    versions = statistic(region, "nvoverlay.versions")
    return {None: statistic(region, "nvoverlay.buffer_hits") / versions * 100} if versions else None


def _departed(region: Measured) -> dict[str, float]:
    """Under NVOverlay why versions left; under PiCL what its scan wrote, and what evictions did."""
    coherence = ("downgrade", "invalidation", "cache_block")
    counted = {
        CAPACITY: statistic(region, "versions.departed.capacity"),
        COHERENCE: sum(statistic(region, f"versions.departed.{reason}") for reason in coherence),
        STORE_EVICTION: statistic(region, "versions.departed.store_eviction"),
        TAG_WALK: statistic(region, "versions.departed.walk"),
    }
    if statistic(region, "picl.undo_entries"):
        kinds = ("data", "context")
        written = sum(statistic(region, f"nvm.written_bytes.{kind}") for kind in kinds)
        scanned = statistic(region, "picl.acs_lines")
        evicted = max(written / LINE_BYTES - scanned, 0.0)
        counted = {**dict.fromkeys(counted, 0.0), CAPACITY: evicted, TAG_WALK: scanned}
    return counted


def _departures(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    counted = _departed(region)
    total = sum(counted.values())
    return {part: 100 * count / total for part, count in counted.items()} if total else None


def _versions(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    work = amount_of_work(region)
    return {None: sum(_departed(region).values()) / work} if work else None


def _scanned_lines(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    scans = statistic(region, "picl.acs_scans")
    return {None: statistic(region, "picl.acs_lines") / scans} if scans else None


def _milliseconds(cycles: float) -> float:
    return cycles / CYCLES_IN_A_MILLISECOND


def _flush_time(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    lines, stall = (statistic(region, f"flush.{one}") for one in ("lines", "stall"))
    return {None: _milliseconds(stall / lines * (2 << 20) / LINE_BYTES)} if lines else None


def _share_of_time(region: Measured, name: str) -> Parts | None:
    cycles = region["cycles"]
    return {None: 100 * statistic(region, name) / cycles} if cycles else None


def _flush_share(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return _share_of_time(region, "flush.stall")


def _epoch_wait(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return _share_of_time(region, "epoch.wait")


def _lines_in_place(region: Measured) -> float:
    kinds = ("data", "context")
    return sum(statistic(region, f"nvm.written_bytes.{kind}") for kind in kinds) / LINE_BYTES


def _operations_per_line(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    kinds = ("sequential", "random", "write_back")
    operations = sum(statistic(region, f"nvm.operations.{kind}") for kind in kinds)
    lines = _lines_in_place(region)
    return {None: operations / lines} if lines else None


def _of_evictions(region: Measured, name: str) -> Parts | None:
    evicted = statistic(region, "llc.write_backs")
    return {None: 100 * statistic(region, name) / evicted} if evicted else None


def _forced_flushes(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return _of_evictions(region, "picl.undo_flushes.forced")


def _false_matches(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    return _of_evictions(region, "picl.bloom_false_matches")


def _undo_from_clean(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    entries = statistic(region, "picl.undo_entries")
    clean = statistic(region, "picl.undo_entries.from_clean")
    return {None: 100 * clean / entries} if entries else None


def _persist_latency(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    persisted, ended = (statistic(region, f"epoch.{what}") for what in ("persisted", "committed"))
    if not persisted or not ended:
        return None
    return {None: statistic(region, "epoch.to_persisted") / persisted / (region["cycles"] / ended)}


def _output_commit(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    forced = statistic(region, "epoch.forced")
    waited = statistic(region, "core.persist_stall")
    return {None: _milliseconds(waited / forced)} if forced else None


def _longest_recovery(region: Measured) -> float | None:
    found = region["cut_cost"].get("recovery_cycles")
    return None if found is None else float(found["worst"])


def _recovery_time(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    longest = _longest_recovery(region)
    return None if longest is None else {None: _milliseconds(longest)}


def _recovery_multiple(region: Measured, base: Measured | None, _epoch: int) -> Parts | None:
    here = _longest_recovery(region)
    there = None if base is None else _longest_recovery(base)
    return {None: here / there} if here is not None and there else None


def _stores_per_line(region: Measured, _base: Measured | None, _epoch: int) -> Parts | None:
    lines = _lines_in_place(region) + statistic(region, "picl.undo_entries")
    return {None: statistic(region, "l1d.stores") / lines} if lines else None


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
            execution_time,
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
            "cycles-of-work",
            "cycles for the same work, normalised to no snapshots",
            "×",
            "cycles of the parallel phase, over those without snapshots; where a region is only a "
            "part of it, cycles for each store in the region",
            "lower",
            True,
            (),
            _cycles_of_work,
        ),
        Metric(
            "bytes-of-work",
            "bytes written to the NVM for the same work, normalised to NVOverlay",
            "×",
            "all bytes that were written to the NVM in the parallel phase, over those under "
            "NVOverlay; where a region is only a part of it, bytes for each store in the region",
            "lower",
            True,
            (),
            _bytes_of_work,
        ),
        Metric(
            "counted-bytes-of-work",
            "bytes written to the NVM, as the paper counts them, normalised to NVOverlay",
            "×",
            f"data, tables, what the OMC buffer absorbed, {ENTRY_BYTES} bytes for each entry of "
            "PiCL's log, over those under NVOverlay, in the parallel phase",
            "lower",
            True,
            (),
            _counted_bytes_of_work,
        ),
        Metric(
            "cycles",
            "cycles for the same work, relative to the first",
            "×",
            "cycles of the parallel phase",
            "lower",
            False,
            (),
            _cycles,
        ),
        Metric(
            "writes",
            "writes to the NVM for the same work, relative to the first",
            "×",
            "row writes at the NVM in the parallel phase",
            "lower",
            False,
            (),
            _writes,
        ),
        Metric(
            "bandwidth",
            "bytes written to the NVM in a cycle",
            "B",
            "all bytes that were written to the NVM, over the cycles of that time",
            "lower",
            False,
            (),
            _bandwidth,
        ),
        Metric(
            "bandwidth-change",
            "bytes written to the NVM in a cycle, relative to before",
            "×",
            "bandwidth, over that of the part of the run that the figure names",
            "lower",
            False,
            (),
            _bandwidth,
        ),
        Metric(
            "master-table",
            "master table, relative to the write set",
            "%",
            "bytes of NVOverlay's master tables at the end, over those of the lines that they map",
            "lower",
            False,
            (),
            _master_table,
        ),
        Metric(
            "table-slots",
            "slots of the master table in use",
            "%",
            "leaves for each slot of all inner nodes, and mapped lines for each slot of all "
            "leaves, at the end",
            None,
            False,
            (INNER, LEAF),
            _table_slots,
        ),
        Metric(
            "lines-of-work",
            "lines that left for the NVM for the same work, normalised to HW Shadow",
            "×",
            "lines of data that left the caches for the NVM in the parallel phase, whether or not "
            "NVOverlay's buffer absorbed them, over those under HW Shadow",
            "lower",
            True,
            (),
            _lines_of_work,
        ),
        Metric(
            "compaction-bytes",
            "bytes that compaction writes, of all others",
            "%",
            "copies, base indexes and master entries of compactions, over all other bytes that "
            "were written to the NVM",
            "lower",
            False,
            (),
            _compaction_bytes,
        ),
        Metric(
            "snapshot-interval",
            "time between snapshots",
            "M cycles",
            "cycles of the parallel phase for each epoch that became recoverable and was merged",
            "lower",
            False,
            (),
            _snapshot_interval,
        ),
        Metric(
            "recovery-of-line",
            "longest recovery, for each line of the write set",
            "cycles",
            "the longest recovery that a power cut would have cost, over the lines that the master "
            "table maps at the end",
            "lower",
            False,
            (),
            _recovery_of_line,
        ),
        Metric(
            "buffer-hits",
            "hit rate of the OMC buffer",
            "%",
            "versions that found an older one of their epoch in the buffer, of all that arrived",
            "higher",
            False,
            (),
            _buffer_hits,
        ),
        Metric(
            "departures",
            "why versions left the caches",
            "%",
            "under NVOverlay, versions by the reason why they left their domain; under PiCL, lines "
            "that were evicted to the NVM and lines that the scan wrote in place",
            None,
            False,
            (CAPACITY, COHERENCE, STORE_EVICTION, TAG_WALK),
            _departures,
        ),
        Metric(
            "versions",
            "versions that left the caches for the same work, relative to the first",
            "×",
            "what departures counts, in the parallel phase",
            "lower",
            False,
            (),
            _versions,
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
        Metric(
            "flush-time",
            "time to write 2 MB back",
            "ms",
            "time that the machine stood still for flushes and commits, for each line that they "
            "wrote, times the lines of 2 MB",
            "lower",
            False,
            (),
            _flush_time,
        ),
        Metric(
            "flush-share",
            "time standing still for flushes",
            "%",
            "time that all harts stood still for synchronous flushes and commits, of all time",
            "lower",
            False,
            (),
            _flush_share,
        ),
        Metric(
            "operations-per-line",
            "operations at the NVM for each line written in place",
            "operations",
            "row operations of design and evictions, over lines of data and contexts written",
            "lower",
            False,
            (),
            _operations_per_line,
        ),
        Metric(
            "forced-flushes",
            "evictions that force the undo buffer out",
            "%",
            "flushes of the undo buffer that an eviction forced, of all lines that were evicted",
            "lower",
            False,
            (),
            _forced_flushes,
        ),
        Metric(
            "false-matches",
            "evictions that match the bloom filter wrongly",
            "%",
            "evictions that matched a filter although no undo entry was for their line, of all",
            "lower",
            False,
            (),
            _false_matches,
        ),
        Metric(
            "undo-from-clean",
            "undo entries of clean lines",
            "%",
            "undo entries that were made when a clean line was first modified, of all",
            None,
            False,
            (),
            _undo_from_clean,
        ),
        Metric(
            "epoch-wait",
            "waiting for too many epochs",
            "%",
            "time that the machine stood still for epochs that were not persisted yet, of all time",
            "lower",
            False,
            (),
            _epoch_wait,
        ),
        Metric(
            "persist-latency",
            "time from commit to persistence",
            "epochs",
            "time from an epoch's end until it was persisted, over the time of an epoch",
            "lower",
            False,
            (),
            _persist_latency,
        ),
        Metric(
            "output-commit",
            "waiting for an output commit",
            "ms",
            "time that harts waited for an epoch to be persisted, for each epoch ended for that",
            "lower",
            False,
            (),
            _output_commit,
        ),
        Metric(
            "recovery-time",
            "longest recovery",
            "ms",
            "the longest recovery of the power cuts probed",
            "lower",
            False,
            (),
            _recovery_time,
        ),
        Metric(
            "recovery-multiple",
            "longest recovery, relative to a simple undo log's",
            "×",
            "the longest recovery of the power cuts probed, over that under FRM",
            "lower",
            True,
            (),
            _recovery_multiple,
        ),
        Metric(
            "stores-per-line",
            "stores for each line written to the NVM",
            "stores",
            "stores, over undo entries and lines written in place",
            None,
            False,
            (),
            _stores_per_line,
        ),
        *flush_metrics.METRICS,
        *strand_metrics.METRICS,
        *near_memory_metrics.METRICS,
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

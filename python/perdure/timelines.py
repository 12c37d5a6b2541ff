"""What is traced of a run, and what a run says of its trace.

Always true here: a run is the same, traced or not; a trace says of itself which part of the run it
has, and the result what was left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path as HostPath
from typing import Any, TypeAlias

import msgspec

from perdure import persist_order
from perdure.fields import Bytes, Cycles, Instructions

Path: TypeAlias = str | PathLike[str]

KINDS = ("harts", "caches", "requests", "banks", "links", "epochs", "design")
"""What tracks may be about."""


@dataclass(frozen=True)
class Timeline:
    """A timeline to draw of a run: into `file`, whose name says the format.

    `.pftrace` is Perfetto's own, `.json` Chrome's; both may have `.gz` behind. `from_cycle` is the
    first cycle that is traced, `to_cycle` the first one that is not; where a region is measured,
    and nothing else is said, that is traced. Of this, one window of `window_cycles` (100 000) in
    `sample` is kept. The file gets no larger than `max_bytes` (1 GiB): then nothing more is
    written, and the run goes on. `tracks` are some of `KINDS`, if not all.

    `persist_order` is a Parquet file of the whole run's writes to persistent media
    (`perdure.persist_order`), `champsim` one of its instructions as ChampSim reads them, for each
    hart, compressed if its name ends in `.xz` or `.gz`.
    """

    file: Path | None = None
    from_cycle: int | None = None
    to_cycle: int | None = None
    sample: int | None = None
    window_cycles: int | None = None
    max_bytes: int | None = None
    tracks: Sequence[str] = ()
    persist_order: Path | None = None
    champsim: Path | None = None

    def request(self) -> dict[str, Any]:
        """The same, in the words of the core."""
        order = self.order()
        said = {
            "file": None if self.file is None else os.fspath(self.file),
            "from": self.from_cycle,
            "to": self.to_cycle,
            "sample": self.sample,
            "window_cycles": self.window_cycles,
            "max_bytes": self.max_bytes,
            "tracks": list(self.tracks) or None,
            "persist_order": None if order is None else os.fspath(persist_order.raw(order)),
            "champsim": None if self.champsim is None else os.fspath(self.champsim),
        }
        return {key: value for key, value in said.items() if value is not None}

    def order(self) -> HostPath | None:
        """Where the persist order goes, if it is wanted."""
        return None if self.persist_order is None else HostPath(self.persist_order)


def requested(asked: Timeline | Path | None) -> dict[str, Any]:
    """What a request says of a timeline, if it says anything."""
    if asked is None:
        return {}
    timeline = asked if isinstance(asked, Timeline) else Timeline(asked)
    if timeline.persist_order is not None:
        persist_order.check()
    return {"trace": timeline.request()}


def finished(asked: Timeline | Path | None, result: dict[str, Any]) -> dict[str, Any]:
    """A run's result when its persist order, if there is one, is the file that was asked for."""
    order = asked.order() if isinstance(asked, Timeline) else None
    if order is None or "persist_order" not in (result.get("trace") or {}):
        return result
    known = ("design", "machine", "config_hash", "state_hash")
    about = {f"perdure.{name}": str(result[name]) for name in known}
    modules = [one["name"] for one in result.get("modules", ())] or ["nvm"]
    size = persist_order.convert(order, modules, about)
    result["trace"]["persist_order"].update(file=str(order), bytes=size)
    return result


class SampledWindows(msgspec.Struct, frozen=True):
    """Which windows a trace has: of so many cycles, one in so many."""

    one_in: int
    window_cycles: Cycles


class TraceTrack(msgspec.Struct, frozen=True):
    """A track of a trace: of which part of the machine, and how many `events` it has."""

    part: str
    track: str
    events: int


class PersistOrderReport(msgspec.Struct, frozen=True):
    """The persist order of a run: `left_out` are rows that came when the file was full."""

    file: str
    rows: int
    data_bytes: Bytes
    left_out: int
    bytes: Bytes = 0


class ChampSimReport(msgspec.Struct, frozen=True):
    """A hart's instructions for ChampSim, with how many `branches` there are of each kind."""

    file: str
    hart: int
    bytes: Bytes
    instructions: Instructions
    branches: Mapping[str, int]
    branches_taken: int
    left_out: int


class TraceReport(msgspec.Struct, frozen=True):
    """The trace that a run has left.

    `left_out` are events that came when the file was full, which it was from `full_at_cycle` on;
    `from_cycle` and `to_cycle` are what was asked for, and `sample`, if only some windows were.
    `persist_order` and `champsim` are there if they were asked for, the latter for each hart.
    """

    file: str | None = None
    bytes: Bytes = 0
    events: int = 0
    left_out: int = 0
    full_at_cycle: Cycles | None = None
    from_cycle: Cycles | None = None
    to_cycle: Cycles | None = None
    sample: SampledWindows | None = None
    tracks: Sequence[TraceTrack] = ()
    persist_order: PersistOrderReport | None = None
    champsim: Sequence[ChampSimReport] = ()


def kept(report: TraceReport | None) -> Iterator[str]:
    """The files of a trace, each with what it is."""
    if report is None:
        return
    if report.file is not None:
        yield f"{report.file} (trace)"
    if report.persist_order is not None:
        yield f"{report.persist_order.file} (persist order)"
    for hart in report.champsim:
        yield f"{hart.file} (ChampSim trace)"


def told(report: TraceReport | None, cycles: int) -> Iterator[str]:
    """What there is to say of a trace after a run of so many cycles, line by line."""
    if report is None:
        return
    for order in () if report.persist_order is None else (report.persist_order,):
        yield f"persist order {order.file}: {order.rows:,} writes, {order.data_bytes:,} bytes"
        if order.left_out:
            yield f"  {order.left_out:,} writes are left out: give a larger --max-bytes"
    for hart in report.champsim:
        yield f"ChampSim trace {hart.file}: {hart.instructions:,} instructions of hart {hart.hart}"
        if hart.left_out:
            yield f"  {hart.left_out:,} are left out: give a larger --max-bytes, or --from and --to"
    if report.file is None:
        return
    made = f"{report.events:,} events on {len(report.tracks)} tracks, {report.bytes:,} bytes"
    yield f"trace {report.file}: {made}; open it at https://ui.perfetto.dev"
    if report.from_cycle is not None and report.from_cycle >= cycles:
        yield (
            f"  the run ended at cycle {cycles:,}, before cycle {report.from_cycle:,}, from which "
            "on it was to be traced"
        )
    if report.left_out:
        yield (
            f"  it was full at cycle {report.full_at_cycle:,}, and {report.left_out:,} events are "
            "left out: give a larger --max-bytes, or trace less (--from, --to, --sample, --tracks)"
        )

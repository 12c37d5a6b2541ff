"""What is traced of a run, and what a run says of its trace.

Always true here: a run is the same, traced or not; a trace says of itself which part of the run it
has, and the result what was left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

from perdure.fields import Bytes, Cycles

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
    """

    file: Path
    from_cycle: int | None = None
    to_cycle: int | None = None
    sample: int | None = None
    window_cycles: int | None = None
    max_bytes: int | None = None
    tracks: Sequence[str] = ()

    def request(self) -> dict[str, Any]:
        """The same, in the words of the core."""
        said = {
            "file": os.fspath(self.file),
            "from": self.from_cycle,
            "to": self.to_cycle,
            "sample": self.sample,
            "window_cycles": self.window_cycles,
            "max_bytes": self.max_bytes,
            "tracks": list(self.tracks) or None,
        }
        return {key: value for key, value in said.items() if value is not None}


def requested(asked: Timeline | Path | None) -> dict[str, Any]:
    """What a request says of a timeline, if it says anything."""
    if asked is None:
        return {}
    timeline = asked if isinstance(asked, Timeline) else Timeline(asked)
    return {"trace": timeline.request()}


@dataclass(frozen=True)
class SampledWindows:
    """Which windows a trace has: of so many cycles, one in so many."""

    one_in: int
    window_cycles: Cycles


@dataclass(frozen=True)
class TraceTrack:
    """A track of a trace: of which part of the machine, and how many `events` it has."""

    part: str
    track: str
    events: int


@dataclass(frozen=True)
class TraceReport:
    """The trace that a run has left.

    `left_out` are events that came when the file was full, which it was from `full_at_cycle` on;
    `from_cycle` and `to_cycle` are what was asked for, and `sample`, if only some windows were.
    """

    file: str
    bytes: Bytes
    events: int
    left_out: int
    full_at_cycle: Cycles | None
    from_cycle: Cycles | None
    to_cycle: Cycles | None
    sample: SampledWindows | None
    tracks: Sequence[TraceTrack]


def told(report: TraceReport | None) -> Iterator[str]:
    """What there is to say of a trace after a run, line by line."""
    if report is None:
        return
    made = f"{report.events:,} events on {len(report.tracks)} tracks, {report.bytes:,} bytes"
    yield f"trace {report.file}: {made}; open it at https://ui.perfetto.dev"
    if report.left_out:
        yield (
            f"  it was full at cycle {report.full_at_cycle:,}, and {report.left_out:,} events are "
            "left out: give a larger --max-bytes, or trace less (--from, --to, --sample, --tracks)"
        )

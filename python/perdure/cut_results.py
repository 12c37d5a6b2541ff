"""What power cuts come to, typed.

Always true here: as in `perdure.results`: fields are the keys of the JSON, but for those in
`fields.BESIDE`. What was a dictionary in results of old stays one, with typed keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

import msgspec

from perdure import cells, frames
from perdure.explained import Explanation
from perdure.fields import Bytes, Cycles, Instructions, Json, Seconds, unit

if TYPE_CHECKING:
    import polars as pl


class Spread(msgspec.Struct, frozen=True):
    """One quantity over several power cuts; the percentiles are by nearest rank."""

    median: int
    percentile_99: int
    worst: int


InInstructions: TypeAlias = Annotated[Spread, unit("instructions")]
InCycles: TypeAlias = Annotated[Spread, unit("cycles")]
InBytes: TypeAlias = Annotated[Spread, unit("bytes")]


class CutCost(msgspec.Struct, frozen=True):
    """What power cuts cost: the work that is lost, and what recovery takes.

    Work is lost from the recovered point to the cut: `lost_instructions` of all harts, and
    `lost_cycles` of the hart that goes back furthest. `recovery_cycles` is the time of recovery's
    own reads and writes (`recovery_reads`, `recovery_read_bytes`, …) on the machine's memory.
    """

    cuts: int
    lost_instructions: InInstructions
    lost_cycles: InCycles
    recovery_cycles: InCycles
    recovery_reads: Spread
    recovery_read_bytes: InBytes
    recovery_writes: Spread
    recovery_written_bytes: InBytes
    recovery_loaded_lines: Spread


class CutHost(TypedDict):
    """What the simulation cost: wall-clock `seconds`."""

    seconds: Seconds


class _EveryCoverage(TypedDict):
    design_states: dict[str, int]
    locations: dict[str, int]
    paths: dict[str, int]
    cuts_with_torn_writes: int
    cuts_with_lost_writes: int
    cuts_during_recovery: int
    cuts_of_later_lives: int


class Coverage(_EveryCoverage, total=False):
    """How often the cuts hit which design state, place in the code and overflow path.

    The last three are there where they apply: devices with a reserve of energy, and strands.
    """

    cuts_with_saved_bytes: int
    cuts_without_loaded: int
    cuts_without_before: int


class _EveryRestart(TypedDict):
    exit_code: int | None
    cycles: Cycles


class Restart(_EveryRestart, total=False):
    """How a life ended that began by starting a program again; with the last lines it wrote."""

    output: str


class Life(msgspec.Struct, frozen=True):
    """One life of several that power cuts ended: when, and what came back."""

    cycle: Cycles
    recovered_epoch: int | None
    verdict: str


class CutResult(msgspec.Struct, frozen=True, kw_only=True):
    """One power cut: when (`cycle`), what came back, and whether the design kept its promise.

    `recovered_epoch` is the epoch to which memory came back (None where nothing did), `resumed`
    whether the program was then run to its end, and `token` repeats exactly this cut.
    `design_state` is what the design was doing and `location` which function ran;
    `first_difference` is the first line that is wrong, `explanation` tells of all of them, and
    `message` says what is. The cost is as in `CutCost`; the rest is there where it applies.
    """

    cycle: Cycles
    recovered_epoch: int | None
    resumed: bool
    verdict: str
    token: str
    design_state: str | None = None
    location: str | None = None
    writes_in_flight: int | None = None
    writes_lost: int | None = None
    cuts_during_recovery: int | None = None
    lost_instructions: Instructions | None = None
    lost_cycles: Cycles | None = None
    recovery_cycles: Cycles | None = None
    recovery_reads: int | None = None
    recovery_read_bytes: Bytes | None = None
    recovery_writes: int | None = None
    recovery_written_bytes: Bytes | None = None
    recovery_loaded_lines: int | None = None
    saved_bytes: Bytes | None = None
    lives: Sequence[Life] = ()
    restarts: Sequence[Restart] = ()
    depends_on_timing: bool = False
    replica_epoch: int | None = None
    without_loaded: str | None = None
    without_before: str | None = None
    message: str | None = None
    first_difference: Mapping[str, Any] | None = None
    explanation: Explanation | None = None
    resumed_output: str | None = None
    resumed_cycles: Cycles | None = None
    raw: Json

    @property
    def verified(self) -> bool:
        """Whether the design kept its promise at this cut."""
        return self.verdict == "verified"

    @property
    def lost(self) -> bool:
        """Whether something is gone that the design had not promised to keep."""
        return self.verdict == "lost"

    @property
    def restarted(self) -> bool:
        """Whether a program was then started again on the pools that survived."""
        return bool(self.restarts)

    @property
    def last_lines(self) -> Sequence[str]:
        """What the program that was started again last said, where it did not end as it has to."""
        if self.verified or not self.restarts:
            return ()
        return self.restarts[-1].get("output", "").splitlines()

    def __repr__(self) -> str:
        return cells.one_line("CutResult", cells.of_cut(self))

    def _repr_html_(self) -> str:
        return cells.html(f"power cut at cycle {self.cycle:,}", cells.of_cut(self))


class CutReport(frames.Framed, msgspec.Struct, frozen=True, kw_only=True):
    """Power cuts of one program: `cuts` made, of them `verified`, `lost` and `failed`.

    Those that `failed` broke a promise; `lost` are those at which something is gone that was not
    promised, under a design that promises nothing. `coverage` counts how often the cuts hit each
    design state and overflow path, and `cut_cost` (or `cost`) says what they cost. Of the cuts
    that were `resumed`, some end as the program does with the timing that it then has
    (`depends_on_timing`); `checked`: a checker decided. `generations` is the most cuts in a row.
    After `restarted` cuts a program was started again (None: that was not asked for);
    `after_the_end` says how it ends, if it does, after the run that nobody cut, which took
    `run_cycles` and ended with `exit_code` and `state_hash`. `deterministic`: the run that was cut
    ended as the one before it. `build` made this, `made_by_build` the token that was replayed.
    """

    design: str
    machine: str
    config_hash: str
    state_hash: str | None = None
    exit_code: int | None = None
    build: str | None = None
    made_by_build: str | None = None
    deterministic: bool = True
    run_cycles: Cycles | None = None
    cuts: int
    verified: int
    lost: int = 0
    failed: int
    resumed: int = 0
    depends_on_timing: int = 0
    checked: bool = False
    generations: int | None = None
    coverage: Coverage
    cut_cost: CutCost | None = None
    results: Sequence[CutResult]
    restarted: int | None = None
    after_the_end: Restart | None = None
    interrupted: bool = False
    host: CutHost | None = None
    raw: Json

    @property
    def cost(self) -> CutCost | None:
        """What the cuts cost."""
        return self.cut_cost

    @property
    def failures(self) -> list[CutResult]:
        """The cuts at which the design broke its promise."""
        return [result for result in self.results if not (result.verified or result.lost)]

    @property
    def losses(self) -> list[CutResult]:
        """The cuts at which something is gone that nobody had promised to keep."""
        return [result for result in self.results if result.lost]

    @classmethod
    def from_json(cls, report: Json) -> CutReport:
        """Reads the core's report."""
        results = [{**one, "raw": one} for one in report["results"]]
        return msgspec.convert({**report, "results": results, "raw": report}, cls)

    def to_frame(self) -> pl.DataFrame:
        """One row for each cut, with those fields of `CutResult` that are one value."""
        return frames.of_rows(CutResult, self.results)

    def __repr__(self) -> str:
        return cells.one_line("CutReport", cells.of_cuts(self))

    def _repr_html_(self) -> str:
        shown = [*self.failures, *self.losses]
        return cells.html(cells.title(self), cells.of_cuts(self), cells.cuts(shown))

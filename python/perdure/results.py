"""What a run and a hunt for planted bugs come to, typed.

Always true here: the fields of a class are the keys of its JSON, with names and units, but for
those in `fields.BESIDE`, which the JSON does not have; `raw` keeps the whole of it. `docs/schemas`
is made of these classes (`perdure.schemas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from perdure import cells, frames
from perdure.cut_results import CutCost
from perdure.fields import Bytes, Cycles, Instructions, Json, Mips, Seconds, units
from perdure.timelines import TraceReport

if TYPE_CHECKING:
    import polars as pl


class Statistic(msgspec.Struct, frozen=True):
    """One counter of a run."""

    value: int | float
    unit: str
    meaning: str


Statistics: TypeAlias = Mapping[str, Statistic]


class Simulated(msgspec.Struct, frozen=True):
    """What the simulated machine did: `instructions` retired, on all `harts`, in `cycles`.

    `harts_used` are those of the harts that have retired any.
    `seconds` are the same time; `cycles_until_durable` is to the moment when everything is
    persisted, and for `drain_cycles` after the program's end the NVM goes on.
    """

    instructions: Instructions
    cycles: Cycles
    seconds: Seconds | None = None
    cycles_until_durable: Cycles | None = None
    drain_cycles: Cycles | None = None
    harts: int | None = None
    harts_used: int | None = None


class Host(msgspec.Struct, frozen=True):
    """What the simulation cost: wall-clock `seconds`, and million instructions a second."""

    seconds: Seconds
    mips: Mips


class WrittenBytes(msgspec.Struct, frozen=True):
    """Bytes written to the NVM media, by what they were for. `total` is the sum of the others."""

    data: Bytes
    log: Bytes
    metadata: Bytes
    context: Bytes
    total: Bytes


class Nvm(msgspec.Struct, frozen=True):
    """Traffic of the NVM media, in bytes."""

    written_bytes: WrittenBytes
    read_bytes: Bytes


class MemoryModule(msgspec.Struct, frozen=True):
    """One of several memory modules: what it is, what it keeps, and what it has done."""

    name: str
    kind: str
    persistence: str
    statistics: Statistics


class FatalSignal(msgspec.Struct, frozen=True):
    """The signal that ended a program: by which instruction, at which `pc`, for what `cause`.

    Addresses are in hexadecimal. `symbol` is the function; `address` is what was accessed, and
    `instruction` the disassembly, where there are any.
    """

    signal: str
    cause: str
    pc: str
    symbol: str | None = None
    address: str | None = None
    instruction: str | None = None


class SystemCall(msgspec.Struct, frozen=True):
    """A system call's number, and its name where it has one."""

    number: int
    name: str | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Something that a program asked for and the kernel refuses on purpose.

    `kind` is `system call` (answered with ENOSYS), or the call whose command it is; `expected`
    calls are made by every program's start, which does without.
    """

    kind: str
    number: int
    name: str
    expected: bool


class RegionProgram(msgspec.Struct, frozen=True):
    """One program in the measured region: `cycles` until it had retired its share of it."""

    cycles: Cycles
    instructions: Instructions


class Region(msgspec.Struct, frozen=True):
    """The measured part of a run.

    `statistics` are differences over the region; `programs` stand in the order of the request;
    `drain_cycles` is how long the NVM goes on after it; `complete` says that no program ended too
    early, and `whole_phase` that it is every program's parallel phase, from begin to end.
    """

    cycles: Cycles
    instructions: Instructions
    statistics: Statistics
    programs: Sequence[RegionProgram]
    drain_cycles: Cycles = 0
    complete: bool = True
    whole_phase: bool = False


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that the guest wrote: its guest path, and whether the host has it now.

    `refused`: it would have it, but did not take all of it.
    """

    path: str
    size: Bytes
    kept: bool
    refused: bool = False


class ProgramReport(msgspec.Struct, frozen=True):
    """One of the programs that ran together: `runs` finished, `exit_code` of the first of them."""

    arguments: Sequence[str]
    exit_code: int | None
    runs: int
    instructions: Instructions
    program: str | None = None


class Pool(msgspec.Struct, frozen=True):
    """A pool that survived: the name of its file, and its size."""

    name: str
    size: Bytes


class Pools(msgspec.Struct, frozen=True):
    """The pools after a run: those that survived, and names of those that are not as they were.

    `not_synchronised` were changed after the last table of them was written.
    """

    survived: Sequence[Pool] = ()
    not_synchronised: Sequence[str] | None = None


class Sample(msgspec.Struct, frozen=True):
    """The run so far, at one moment: everything since its start."""

    cycle: Cycles
    instructions: Instructions
    nvm_written_bytes: Bytes
    nvm_written_bytes_data: Bytes
    nvm_written_bytes_log: Bytes
    nvm_written_bytes_metadata: Bytes
    epochs_ended: int
    persisted_epoch: int
    nvm_written_bytes_context: Bytes = 0


class Replication(msgspec.Struct, frozen=True):
    """How far a replica is: the newest `epoch` that it holds, and why it lacks something, if so."""

    to: str
    epoch: int | None
    recoverable_epoch: int
    epochs_sent: int
    bytes_sent: Bytes
    connections: int
    trouble: str | None


class EpochRange(msgspec.Struct, frozen=True):
    """The epochs of a snapshot store."""

    oldest: int
    newest: int


class StoreSizes(msgspec.Struct, frozen=True):
    """What a snapshot store takes, beside what the design wrote in the run (`nvm_written`)."""

    nvm_written: Bytes
    initial_image: Bytes
    snapshots: Bytes
    files: Bytes


class KeptSnapshots(msgspec.Struct, frozen=True):
    """The snapshot store that a run has left."""

    directory: str
    epochs: EpochRange
    sizes: StoreSizes


class OutputPlace(msgspec.Struct, frozen=True):
    """Where in a stream of a resumed program its output here begins."""

    program: int
    descriptor: int
    offset: Bytes


class RunResult(frames.Framed, msgspec.Struct, frozen=True, kw_only=True):
    """One program, or several at once, run on one machine under one design.

    `exit_code` is the program's exit status, 128 + signal where a signal ended it, or None where
    the run was stopped before the program's end; `remarks` is what the design says then.
    `stdout` and `stderr` are what all programs wrote there and the design released, as text, the
    first 64 MiB of each; `output` the last lines of the first program's.
    `unknown_system_calls` are those that the kernel does not have, `refused` what it refuses on
    purpose; `refused_output` says why the host did not take a file of the guest's. `files` are
    those that the guest wrote, by guest path, `removed_files` the host's that it removed for
    itself. `region` is there if a measured region was asked for, `series` if samples were,
    `trace` if it was traced, `cut_cost` if power cuts were probed, `pools` with `pmem`,
    `snapshots` and `replication` where they were kept, `modules` if there are several memory
    modules, `restored_epoch` and `output_from` of a resumed replica.
    Equal configurations and programs give equal `config_hash`, `state_hash` and `statistics`.
    """

    design: str
    machine: str
    config_hash: str
    state_hash: str
    exit_code: int | None
    sim: Simulated
    host: Host
    nvm: Nvm
    statistics: Statistics
    stdout: str = ""
    stderr: str = ""
    output: str = ""
    fatal_signal: FatalSignal | None = None
    remarks: Sequence[str] = ()
    unknown_system_calls: Sequence[SystemCall] = ()
    refused: Sequence[Refusal] = ()
    refused_output: str | None = None
    files: Sequence[WrittenFile] = ()
    removed_files: Sequence[str] = ()
    region: Region | None = None
    series: Sequence[Sample] | None = None
    programs: Sequence[ProgramReport] = ()
    modules: Sequence[MemoryModule] = ()
    pools: Pools | None = None
    trace: TraceReport | None = None
    cut_cost: CutCost | None = None
    snapshots: KeptSnapshots | None = None
    replication: Replication | None = None
    restored_epoch: int | None = None
    output_from: Sequence[OutputPlace] = ()
    interrupted: bool = False
    raw: Json

    @property
    def lost_pools(self) -> Sequence[str]:
        """A line for each pool that is as it was when last synchronised, or not there."""
        lost = (self.pools and self.pools.not_synchronised) or ()
        return [f"pool {name}: only what was synchronised is kept" for name in lost]

    @classmethod
    def from_json(cls, result: Json, *, stdout: str = "", stderr: str = "") -> RunResult:
        """Reads the core's result; beside it what programs wrote."""
        beside = {"raw": result, "stdout": stdout, "stderr": stderr}
        return msgspec.convert({**result, **beside}, cls)

    def to_frame(self) -> pl.DataFrame:
        """One row for each statistic: `design`, `machine`, `statistic`, `value`, `unit`, `meaning`.

        What `sim` has stands before the counters, as `sim.cycles` and so on. Frames of several
        results can be concatenated.
        """
        import polars

        told = units(Simulated)
        simulated = {
            f"sim.{name}": Statistic(value, told.get(name, ""), "the whole run")
            for name, value in msgspec.structs.asdict(self.sim).items()
            if value is not None
        }
        everything = {**simulated, **self.statistics}
        return polars.DataFrame(
            {
                "design": [self.design] * len(everything),
                "machine": [self.machine] * len(everything),
                "config_hash": [self.config_hash] * len(everything),
                "statistic": list(everything),
                "value": [float(one.value) for one in everything.values()],
                "unit": [one.unit for one in everything.values()],
                "meaning": [one.meaning for one in everything.values()],
            }
        )

    def __repr__(self) -> str:
        return cells.one_line("RunResult", cells.of_run(self))

    def _repr_html_(self) -> str:
        return cells.html(cells.title(self), cells.of_run(self), cells.statistics(self))


class BugReport(msgspec.Struct, frozen=True):
    """One planted bug: whether verification caught it, by what and where, after how many cuts."""

    name: str
    summary: str
    caught: bool
    cuts: int
    by: str | None = None
    token: str | None = None
    place: str | None = None


class Clean(msgspec.Struct, frozen=True):
    """The design without a bug: of how many `cuts` it was accused at some (`false_alarms`)."""

    cuts: int
    false_alarms: int
    token: str | None = None


class MutantsReport(frames.Framed, msgspec.Struct, frozen=True, kw_only=True):
    """A design's planted bugs, and the design without any of them for comparison.

    `unnoticeable` are losses of saved state that nobody can notice, with the reasons.
    """

    design: str
    mutants: Sequence[BugReport]
    clean: Clean
    unnoticeable: Mapping[str, str] = {}
    interrupted: bool = False
    raw: Json

    @property
    def clean_cuts(self) -> int:
        """At how many cuts the clean design was judged."""
        return self.clean.cuts

    @property
    def false_alarms(self) -> int:
        """At how many of them it was accused."""
        return self.clean.false_alarms

    @property
    def passed(self) -> bool:
        """Whether every bug was caught, the clean design never accused, and nothing cut short."""
        caught = all(bug.caught for bug in self.mutants)
        return caught and self.false_alarms == 0 and not self.interrupted

    @classmethod
    def from_json(cls, report: Json) -> MutantsReport:
        """Reads the core's report."""
        return msgspec.convert({**report, "raw": report}, cls)

    def to_frame(self) -> pl.DataFrame:
        """One row for each planted bug, with the fields of `BugReport`."""
        return frames.of_rows(BugReport, self.mutants)

    def __repr__(self) -> str:
        return cells.one_line("MutantsReport", cells.of_mutants(self))

    def _repr_html_(self) -> str:
        return cells.html(f"planted bugs of {self.design}", cells.of_mutants(self))

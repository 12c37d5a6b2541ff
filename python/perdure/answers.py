"""The answers that stay plain dictionaries, typed key by key.

Always true here: what is returned is the core's JSON itself; these types say which keys it has.
Those that are there only sometimes stand in a class of their own, with `total=False`. Addresses are
in hexadecimal.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from perdure.explained import Explanation
from perdure.fields import Bytes, Cycles, Instructions, Nanoseconds
from perdure.known import KnownDesign, KnownMachine
from perdure.results import MutantsReport, RunResult

# ---- Hunts ------------------------------------------------------------------------------------


class HuntCoverage(TypedDict):
    """How often the cuts of a hunt hit which design state and overflow path."""

    design_states: dict[str, int]
    paths: dict[str, int]
    cuts_during_recovery: int


class Drawn(TypedDict):
    """What a seed had drawn before it was made small."""

    set: list[str]
    program: list[str]


class Found(TypedDict):
    """What a hunt found: a failure that was made small, with the command that shows it."""

    seed: int
    verdict: str
    message: str | None
    cycle: Cycles
    token: str
    drawn: Drawn
    set: list[str]
    program: list[str]
    command: list[str]
    shrinking_runs: int
    explanation: Explanation | None


class OfSeed(TypedDict):
    """What one seed came to; `new` are design states and paths that no earlier one had reached."""

    seed: int
    cuts: int
    gave_up: bool
    new: list[str]


class Hunt(TypedDict):
    """Machines drawn by seeds and cut, until one failed or it was enough."""

    design: str
    planted_bug: str | None
    first_seed: int
    seeds: int
    cuts: int
    resumed: int
    gave_up: int
    interrupted: bool
    coverage: HuntCoverage
    found: Found | None
    by_seed: list[OfSeed]


# ---- Litmus tests -----------------------------------------------------------------------------


class Stated(TypedDict):
    """How what a model allows compares with what the file states."""

    agrees: bool
    not_in_model: list[str]
    not_stated: list[str]


class OnPreset(TypedDict):
    """What one machine left."""

    machine: str
    design: str
    runs: int
    cuts: int
    contents: list[str]


class Unsound(TypedDict):
    """Contents that a machine left and the model forbids, and how to see them again."""

    contents: str
    machine: str
    design: str
    settings: list[str]
    run: int
    cycle: Cycles


class OnMachines(TypedDict):
    """What all machines left of a test, beside what its model allows."""

    presets: list[OnPreset]
    cuts: int
    contents: list[str]
    unsound: list[Unsound]
    not_reached: list[str]


class LitmusTest(TypedDict):
    """One litmus test: what its model allows, and what machines left."""

    file: str
    name: str
    model: str
    source: str
    contents: list[str]
    states: int
    stated: Stated | None
    machine: OnMachines | None


class Litmus(TypedDict):
    """Litmus tests, decided."""

    tests: list[LitmusTest]
    interrupted: bool


# ---- Snapshots --------------------------------------------------------------------------------


class StoreProgram(TypedDict):
    """A program that ran: its path on the host, and its arguments."""

    path: str
    arguments: list[str]


class StoreFile(TypedDict):
    """The copy of a program's or library's file in a store."""

    name: str
    mount: int
    path: str
    copy: str
    bytes: Bytes
    checksum: str


class StoreLayout(TypedDict):
    """Start and end of each part of the NVM."""

    contexts: list[int]
    kernel: list[int]
    frames: list[int]
    log_area: list[int]


class StoreEpochs(TypedDict):
    """The epochs of a store."""

    oldest: int
    newest: int


class StoreBytes(TypedDict):
    """What a store takes, beside what the design wrote in the run (`nvm_written`)."""

    nvm_written: Bytes
    initial_image: Bytes
    snapshots: Bytes
    files: Bytes


class Manifest(TypedDict):
    """What a snapshot store is of: `store.json`."""

    schema: str
    version: int
    written_by: str
    design: str
    machine: str
    config_hash: str
    harts: int
    frequency_mhz: int
    nvm_bytes: Bytes
    layout: StoreLayout
    programs: list[StoreProgram]
    exit_code: int | None
    instructions: Instructions
    cycles: Cycles
    epochs: StoreEpochs
    sizes: StoreBytes
    files: list[StoreFile]


class EpochEntry(TypedDict):
    """An epoch: the lines that were written in it, by whom, and which processes live at its end."""

    epoch: int
    versions: int
    program_lines: int
    machine_lines: int
    writers: list[int]
    virtual_ns: Nanoseconds
    processes: list[int]


class Epochs(TypedDict):
    """The epochs of a store, and the one that is read where none is named."""

    store: str
    manifest: Manifest
    default_epoch: int
    epochs: list[EpochEntry]


class SymbolPlace(TypedDict):
    """The symbol in which something lies."""

    name: str
    offset: Bytes
    bytes: Bytes
    file: str


class Written(TypedDict):
    """Who wrote the newest version of something, in which epoch."""

    epoch: int
    writer: int


class Read(TypedDict):
    """What a place held at the end of an epoch."""

    epoch: int
    address: str
    physical: str | None
    process: int | None
    symbol: SymbolPlace | None
    type: str
    written: Written | None
    values: Any
    bytes: str


class VersionEntry(TypedDict):
    """One version of a place; `values` and `bytes` are null where it is not mapped from here on."""

    epoch: int
    writer: int | None
    changed: bool
    values: Any
    bytes: str | None


class History(TypedDict):
    """Every version of a place."""

    address: str
    process: int | None
    symbol: SymbolPlace | None
    type: str
    versions: list[VersionEntry]


class ChangedSymbol(TypedDict):
    """A symbol that differs, or a word of a larger one."""

    name: str
    offset: Bytes
    address: str
    file: str
    type: str
    old: Any
    new: Any


class ChangedLine(TypedDict):
    """A line with changes outside all symbols."""

    address: str
    old: str
    new: str
    region: str | None


class Mapped(TypedDict):
    """A part of an address space."""

    start: str
    end: str
    name: str


class _EveryProcess(TypedDict):
    process: int
    executable: str
    state: Literal["lives", "began", "ended"]


class ChangedProcess(_EveryProcess, total=False):
    """A process at two ends of epochs; what changed is said of one that lives at both."""

    symbols: list[ChangedSymbol]
    lines: list[ChangedLine]
    mapped: list[Mapped]
    unmapped: list[Mapped]


Diff = TypedDict(
    "Diff",
    {
        "from": int,
        "to": int,
        "processes": list[ChangedProcess],
        "lines": int,
        "context_lines": int,
        "kernel_lines": int,
        "other_lines": int,
    },
)
"""What differs between the ends of two epochs."""


class DumpedThread(TypedDict):
    """A thread in a core file."""

    thread: int
    name: str
    hart: int | None
    pc: str
    symbol: str | None


class Dump(TypedDict):
    """The ELF core file that was written."""

    epoch: int
    file: str
    process: int
    executable: str
    bytes: Bytes
    threads: list[DumpedThread]


# ---- Replication, and what commands write -----------------------------------------------------


Forwarded = TypedDict("Forwarded", {"from": str, "to": str, "epoch": int, "epochs_sent": int})
"""What one replica sent to another."""


class Compare(TypedDict):
    """`perdure compare`: one program's runs, a result for each design."""

    program: list[str]
    results: list[RunResult]


class AllMutants(TypedDict):
    """`perdure mutants` without a design: a report for each design and group."""

    designs: list[MutantsReport]


class ListedDesigns(TypedDict):
    """`perdure list designs`."""

    designs: list[KnownDesign]


class ListedMachines(TypedDict):
    """`perdure list machines`."""

    machines: list[KnownMachine]


class ListedWorkload(TypedDict):
    """A program that comes with Perdure."""

    name: str
    summary: str
    source: str


class ListedWorkloads(TypedDict):
    """`perdure list workloads`."""

    workloads: list[ListedWorkload]

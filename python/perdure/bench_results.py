"""What `perdure bench` writes, typed key by key.

Always true here: these are the keys of its JSON; `docs/schemas` is made of them.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from perdure.fields import Bytes, Cycles, Instructions, Mips, Seconds


class CalibratedRun(TypedDict):
    """What a run took of a processor, and what the calibration took before it and after it."""

    seconds: Seconds
    before_seconds: Seconds
    after_seconds: Seconds


class SpeedOfDesign(TypedDict):
    """How fast one case was simulated under one design; the fastest of `runs` counts."""

    instructions: Instructions
    seconds: Seconds
    mips: Mips
    ns_per_instruction: float
    l1_misses: int
    ns_per_l1_miss: float | None
    runs: list[CalibratedRun]


class SpeedOfQemu(TypedDict):
    """How fast plain qemu ran a case."""

    seconds: Seconds
    mips: Mips
    runs: list[CalibratedRun]


SpeedOfCase = TypedDict(
    "SpeedOfCase",
    {
        "name": str,
        "source": str,
        "arguments": list[str],
        "harts": int,
        "floor_mips": Mips,
        "aim_mips": Mips,
        "ideal": SpeedOfDesign,
        "picl": SpeedOfDesign,
        "out-of-order": SpeedOfDesign,
        "qemu": "SpeedOfQemu | None",
        "picl_over_ideal": float,
        "floor_reached": bool,
        "aim_reached": bool,
        "window_floor_reached": bool,
        "window_aim_reached": bool,
    },
)
"""One case of `perdure bench speed`: how fast, and whether that is enough."""


class SpeedHost(TypedDict):
    """What a measurement was made on and with; `processors` may be used by this process."""

    processor: str
    processors: int
    python: str
    build: str
    timing_version: int


class SpeedCalibration(TypedDict):
    """The calibration of one call, in processor time.

    `spread` is from its least to its greatest, over the median.
    """

    times: int
    median_seconds: Seconds
    spread: float


class SpeedCompared(TypedDict):
    """One figure beside the earlier one.

    Ratios are the processor time of a billion instructions in calibrations; `change` is what this
    one has over the earlier one, as a part of it; `noise` both calls' spreads together.
    """

    name: str
    under: str
    earlier_ratio: float
    ratio: float
    change: float
    noise: float
    moved: Literal["slower", "faster"] | None


class SpeedComparison(TypedDict):
    """`--against`: every figure that both calls have, and what else differs between them."""

    against: str
    remarks: list[str]
    figures: list[SpeedCompared]


class BenchSpeed(TypedDict):
    """`perdure bench speed`."""

    machine: str
    compiler: str
    engine: str
    repeat: int
    interrupted: bool
    host: SpeedHost
    calibration: SpeedCalibration
    cases: list[SpeedOfCase]
    comparison: SpeedComparison | None


class Misses(TypedDict):
    """What accesses of one kind cost the host, by where they are answered."""

    name: str
    order: str
    kind: str
    kib: int
    machine: str
    design: str
    harts: int
    accesses: int
    instructions: Instructions
    seconds: Seconds
    l1_misses: int
    l2_misses: int
    llc_misses: int
    llc_write_backs: int
    nvm_written_bytes: Bytes
    ns_per_access: float
    ns_per_l1_miss: float | None


class BenchMisses(TypedDict):
    """`perdure bench misses`."""

    repeat: int
    interrupted: bool
    host_dram_ns: float | None
    cases: list[Misses]


class Fork(TypedDict):
    """What a fork of a machine cost the host."""

    name: str
    design: str
    instructions: Instructions
    memory_bytes: Bytes
    fork_seconds: Seconds
    end_seconds: Seconds
    stretch_cycles: Cycles
    beside_seconds: Seconds
    alone_seconds: Seconds


class BenchFork(TypedDict):
    """`perdure bench fork`."""

    forks: list[Fork]


class Cuts(TypedDict):
    """What power cuts of a program cost the host: processor seconds, and the same in runs.

    `first_seconds` is a campaign of one cut, `cuts_seconds` one of `cuts`, and `cut_seconds` each
    further one; `thousand_runs` is what a thousand cuts take. `until_seconds` is a run up to the
    cycle `at`, `exact_seconds` one cut there, and `replay_seconds` its replay, which end there.
    """

    name: str
    source: str
    floor_runs: float
    aim_runs: float
    arguments: list[str]
    run_seconds: Seconds
    first_seconds: Seconds
    cuts: int
    cuts_seconds: Seconds
    at: Cycles
    until_seconds: Seconds
    exact_seconds: Seconds
    replay_seconds: Seconds
    first_runs: float
    cut_seconds: Seconds
    thousand_runs: float
    exact_runs: float
    replay_runs: float


class BenchCuts(TypedDict):
    """`perdure bench cuts`."""

    machine: str
    repeat: int
    interrupted: bool
    cases: list[Cuts]


class Checked(TypedDict):
    """What a check of a program costs the host, and power cuts of the same program beside it.

    `seconds` and `states_per_second` are by the clock, on `jobs` host threads. Of the processor's
    time, `first_seconds` is a check that ends with its first failure point, `check_seconds` the
    whole one, `first_cut_seconds` a campaign of one cut, and `cuts_seconds` one of `cuts`;
    `state_seconds` and `cut_seconds` are each further one, and `cut_states` is their ratio.
    """

    name: str
    source: str
    arguments: list[str]
    instructions: Instructions
    points: int
    explored: int
    coverage: float
    states: int
    state_instructions: float
    jobs: int
    seconds: Seconds
    first_states: int
    first_seconds: Seconds
    check_seconds: Seconds
    cuts: int
    first_cut_seconds: Seconds
    cuts_seconds: Seconds
    states_per_second: float
    state_seconds: Seconds
    cut_seconds: Seconds
    cut_states: float | None


class BenchCheck(TypedDict):
    """`perdure bench check`."""

    machine: str
    interrupted: bool
    cases: list[Checked]

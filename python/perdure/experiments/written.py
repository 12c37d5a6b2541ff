"""What experiments write as JSON, typed: `results.json`, `sensitivity.json`.

Always true here: docs/experiments.md says what the keys mean; keys that are there only sometimes
stand in a class of their own, with `total=False`.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from perdure.cut_results import CutCost
from perdure.fields import Bytes, Cycles, Instructions, Seconds


class Paper(TypedDict):
    """The paper that is reproduced."""

    name: str
    title: str
    reference: str


class Scaled(TypedDict):
    """What a smaller scale changes, and why."""

    what: str
    full: str
    quick: str
    reason: str


class Model(TypedDict):
    """One of the models in which everything is measured."""

    name: str
    label: str
    machine: str
    assumptions: list[str]


class Design(TypedDict):
    """A design as figures name it."""

    name: str
    label: str
    summary: str


class Mix(TypedDict):
    """Programs that run together."""

    name: str
    programs: list[str]


class Workload(TypedDict):
    """A program, what it stands for, and why it did not run, if so."""

    name: str
    stands_for: str
    kind: str
    summary: str
    available: bool
    reason: str | None


class Metric(TypedDict):
    """What a figure measures."""

    name: str
    label: str
    unit: str
    meaning: str
    better: Literal["lower", "higher"] | None


class Axis(TypedDict):
    """What a figure varies."""

    key: str
    label: str
    unit: str
    values: list[float]


class Files(TypedDict):
    """A figure's files, relative to the folder."""

    svg: str
    png: str
    vega_lite: str


class _EveryNumber(TypedDict):
    model: str | None
    design: str
    axis: float | None
    part: str | None
    value: float


class Average(_EveryNumber, total=False):
    """A number over all subjects; with several seeds, its deviation."""

    deviation: float


class _EveryValue(_EveryNumber):
    subject: str
    points: list[str]


class Value(_EveryValue, total=False):
    """A number of a figure, with all points that it is made of."""

    deviation: float


class Expected(TypedDict):
    """What a claim expects of a number."""

    at_least: float | None
    at_most: float | None
    tolerance: float


class Claim(TypedDict):
    """A claim of the paper in one model, and what came of it."""

    id: str
    model: str | None
    says: str
    quotation: str
    section: str
    kind: Literal["value", "ordering"]
    paper: str
    scaled_by: int | None
    expected: Expected
    measured: float | None
    measured_text: str
    verdict: Literal["holds", "differs", "not comparable"]
    reason: str | None
    mechanism: str | None
    shown_by: list[str]


class Experiment(TypedDict):
    """A figure or table of the paper."""

    name: str
    figure: str
    title: str
    summary: str
    metric: Metric
    subject: Literal["workload", "mix"]
    axis: Axis | None
    parts: list[str]
    notes: list[str]
    figure_files: Files | None
    metrics: dict[str, str]
    values: list[Value]
    average: str
    averages: list[Average]
    claims: list[Claim]


Class = TypedDict(
    "Class",
    {
        "workload": str,
        "stands_for": str,
        "kind": str,
        "design": str,
        "write_set_bytes_per_epoch": Bytes,
        "lines_per_written_page": "float | None",
        "llc_misses_per_kilo_instruction": float,
        "llc_write_backs_per_kilo_instruction": float,
        "class": str,
        "points": list[str],
    },
)
"""What a workload is like."""


class Bound(TypedDict):
    """What a design sends, and what the NVM's banks can take."""

    workload: str
    model: str | None
    design: str
    banks: int
    row_bytes: Bytes
    row_write_ns: float
    banks_lines_a_cycle: float
    writes: int
    cycles_without: Cycles
    lines_a_cycle: float
    load: float
    points: list[str]


class Probe(TypedDict):
    """A figure's number without and with one thing changed."""

    name: str
    says: str
    model: str | None
    figure: str
    subject: str
    design: str
    changed: list[str]
    unit: str
    before: float | None
    before_points: list[str]
    after: float | None
    after_points: list[str]


class Without(TypedDict):
    """How many states have something without what came before it."""

    without_loaded: int
    without_before: int


class Example(TypedDict):
    """The earliest cut after which a program is broken."""

    cycle: Cycles
    said: str | None
    token: str
    machine: str
    design: str
    made: list[list[str]]
    without_loaded: str | None
    without_before: str | None


class Cuts(TypedDict):
    """Power cuts of a design and a program."""

    design: str
    program: str
    programs: list[str]
    cuts: int
    verified: int
    failed: int
    program_broken: int
    expected: Literal["sound", "broken", "kept"]
    resumed: int
    restarted: int
    cut_cost: CutCost | None
    cuts_during_recovery: int
    paths: dict[str, int]
    without: Without
    example: Example | None
    tokens: list[str]
    points: list[str]


class BesideCuts(TypedDict):
    """Power cuts of a design that promises less, beside what figures measured of it."""

    program: str
    design: str
    cuts: int
    promise_broken: int
    program_broken: int
    without: Without
    measured: dict[str, float | None]


class CutCosts(TypedDict):
    """What a part of a cut's cost is over all programs, in `unit`."""

    design: str
    part: Literal["work lost", "recovery"]
    unit: str
    median: float
    percentile_99: float
    worst: int
    programs: int


class Tables(TypedDict):
    """What is no figure of the paper."""

    classes: list[Class]
    bounds: list[Bound]
    probes: list[Probe]
    cuts: list[Cuts]
    beside_cuts: list[BesideCuts]
    cut_costs: list[CutCosts]
    cut_costs_figure: Files | None


class PointSummary(TypedDict):
    """A finished point; `configuration` is its file."""

    name: str
    design: str
    machine: str
    overrides: list[str]
    config_hash: str
    configuration: str
    cycles: Cycles
    instructions: Instructions


class Failure(TypedDict):
    """A point that failed, and why."""

    name: str
    design: str
    overrides: list[str]
    experiments: list[str]
    reason: str | None


class ReproductionHost(TypedDict):
    """What it cost; no part of the results."""

    seconds: Seconds
    workers: int
    computed: int
    cached: int


class Results(TypedDict):
    """`results.json` of a reproduction."""

    schema: int
    paper: Paper
    scale: Literal["quick", "full"]
    only: list[str]
    scaled: list[Scaled]
    notes: list[str]
    models: list[Model]
    version: str
    core: str
    seed: int
    designs: list[Design]
    mixes: list[Mix]
    workloads: list[Workload]
    experiments: list[Experiment]
    tables: Tables
    points: dict[str, PointSummary]
    failures: list[Failure]
    interrupted: bool
    host: ReproductionHost


class SensitivityScale(TypedDict):
    """The scale at which a preset's sensitivity was looked at."""

    name: str
    set: list[str]


class LabelledDesign(TypedDict):
    """A design and what tables call it."""

    name: str
    label: str


class NamedMetric(TypedDict):
    """What is measured."""

    name: str
    meaning: str


class ChosenWorkload(TypedDict):
    """A workload, and why it is this one."""

    name: str
    why: str


class Varied(TypedDict):
    """A key that was varied, and the preset's own value of it."""

    key: str
    label: str
    preset: str | None


class OfDesign(TypedDict):
    """A design's times at one setting, their mean, and its rank among the designs."""

    mean: float | None
    rank: int | None
    subjects: dict[str, float]


class Setting(TypedDict):
    """One setting: the preset's, or one key at another value."""

    key: str
    value: str
    designs: dict[str, OfDesign]


class Sensitivity(TypedDict):
    """`sensitivity.json`: how far the order of designs hangs on a preset's values."""

    schema: int
    preset: str
    version: str
    scale: SensitivityScale
    harts: int
    baseline: str
    designs: list[LabelledDesign]
    metric: NamedMetric
    workloads: list[ChosenWorkload]
    mix: list[str]
    measure_instructions: Instructions
    varied: list[Varied]
    settings: list[Setting]

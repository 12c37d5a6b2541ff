"""Experiments as they are declared: one TOML file each, read strictly.

Always true here: a declaration is data and names no result; what a scale changes stands beside what
it changes; a claim quotes its paper and says where.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from perdure import PerdureError
from perdure.experiments.toml import Table

Scale: TypeAlias = Literal["quick", "full"]
SCALES: tuple[Scale, Scale] = ("quick", "full")

FOLDER = Path(__file__).resolve().parent
PAPER = "paper.toml"
REASONS = "reasons.toml"
CUTS = "cuts.toml"
REGIONS = "regions.toml"

REDUCTIONS = ("maximum", "minimum", "mean", "median", "geometric-mean", "share-below")


@dataclass(frozen=True)
class Design:
    """A design as the paper's figures name it.

    `of` is the core's name for it. A design may be another one with `overrides` of its own:
    `ideal` that writes early, for instance.
    """

    name: str
    label: str
    letter: str
    of: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One thing that a scale changes, and why that keeps what matters."""

    what: str
    full: str
    scaled: str
    reason: str


@dataclass(frozen=True)
class ScaleOf:
    """A scale: its overrides of the machine, lengths, and what they change of the paper's.

    `factor` is by how much sizes and lengths are divided. Without `mix_warm_up`, a mix warms up as
    long as the longest of its programs' warm-ups. `measure` is for workloads of which neither the
    catalogue nor the paper's regions say what is measured. Where an epoch is so many stores of a
    hart, `epoch_instructions` is 0.
    """

    name: Scale
    factor: int
    overrides: tuple[str, ...]
    epoch_instructions: int
    mix_warm_up: int | None
    mix_measure: int
    measure: int
    changes: Sequence[Change]


@dataclass(frozen=True)
class Paper:
    """A paper: its designs, its machine, and how it is scaled.

    `baseline` is the design that others are relative to, `tags` one whose tags see write sets.
    `catalogues` are files of workloads; none for those that stand for SPEC CPU2006. A machine has
    as many harts as programs, unless `harts` are given. With `measure_threads`, what is measured of
    a workload is its parallel phase.
    """

    name: str
    title: str
    reference: str
    machine: str
    baseline: str
    tags: str
    seed: int
    catalogues: tuple[str, ...]
    harts: int | None
    measure_threads: bool
    designs: Sequence[Design]
    notes: Sequence[str]
    scales: Mapping[Scale, ScaleOf]

    def design(self, name: str) -> Design:
        """A design by the name that figures give it; others stand for themselves."""
        found = (one for one in self.designs if one.name == name)
        return next(found, Design(name, name, name[:1].upper(), name))

    def label(self, design: str) -> str:
        """What figures call a design."""
        return self.design(design).label


@dataclass(frozen=True)
class Axis:
    """A key of the configuration that an experiment varies.

    `shown` are the numbers that figures and claims use for the `settings`, one for one.
    """

    key: str
    label: str
    unit: str
    logarithmic: bool
    settings: tuple[str, ...]
    shown: tuple[float, ...]


@dataclass(frozen=True)
class Slices:
    """A run over time: `count` parts of so many instructions of all harts, from its begin on.

    They are cut out of a series with a sample every so many cycles. Without `instructions`, they
    are equal parts of each run, however many that retires.
    """

    count: int
    sample_cycles: int
    instructions: int | None


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    What is measured: the values of `designs` (at the axis value `at`, of the `part`) are reduced
    over the subjects, or those that are `of`, or all that are not `apart_from`, by `over` (`limit`
    belongs to `share-below`), over an axis by `along` (without it, the worst counts), and then over
    the designs by `among`; with `change`, what is reduced is the rise from the axis' first value to
    its last.
    A `value` claim holds if that is within [`at_least`, `at_most`], each widened by the fraction
    `tolerance`. An `ordering` claim holds if each of the designs in `ordering` has at least as much
    as the one before it, or if `greatest` (`least`) has at least (at most) as much as every other,
    give or take the tolerance.
    With `not_comparable`, which says why, nothing is judged; then there may be nothing measured.
    """

    name: str
    says: str
    quotation: str
    section: str
    paper: str
    kind: Literal["value", "ordering"]
    designs: tuple[str, ...]
    over: str
    among: str
    limit: float | None
    at: float | None
    part: str | None
    change: bool
    at_least: float | None
    at_most: float | None
    tolerance: float
    ordering: tuple[str, ...]
    greatest: str | None
    least: str | None
    drawn: bool
    scaled: bool
    not_comparable: str | None
    of: tuple[str, ...] = ()
    apart_from: tuple[str, ...] = ()
    along: str | None = None


@dataclass(frozen=True)
class Experiment:
    """One figure: what runs, what is measured of it, how it is drawn, what the paper claims.

    `baseline` is the paper's unless the figure has its own. With `slices`, a workload's run is
    divided into parts, which are the axis. `epoch_divisors` are of designs whose epochs have so
    many times fewer stores than the configuration says, `epochs_of` of those that are measured for
    another number of epochs than `measure_epochs`. `size` is whose arguments programs get: those of
    the scale, unless a figure at `quick` needs the paper's own. Without designs nothing runs: such
    an experiment has claims that cannot be judged.
    """

    name: str
    figure: str
    title: str
    summary: str
    subject: Literal["workload", "mix"]
    designs: tuple[str, ...]
    metric: str
    baseline: str
    average: str
    chart: str
    slices: Slices | None
    axis: Axis | None
    relative_to: float | None
    overrides: tuple[str, ...]
    subjects: tuple[str, ...]
    warm_up_epochs: int | None
    measure_epochs: float | None
    restart: bool
    baseline_at_least: float
    notes: tuple[str, ...]
    claims: Sequence[Claim]
    epoch_divisors: Mapping[str, int] = field(default_factory=dict)
    epochs_of: Mapping[str, int] = field(default_factory=dict)
    warm_up: int | None = None
    measure: int | None = None
    size: Scale | None = None
    probe_cuts: bool = False


def papers() -> list[str]:
    """The papers that can be reproduced."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{PAPER}"))


def paper(name: str) -> Paper:
    """A paper's declaration."""
    if name not in papers():
        raise PerdureError(
            f"there are no experiments of {name!r}: papers that can be reproduced: "
            f"{', '.join(papers())}"
        )
    table = Table.read(FOLDER / name / PAPER)
    designs = []
    for one in table.list_of_tables("design"):
        design = one.text("name")
        designs.append(
            Design(
                name=design,
                label=one.text("label"),
                letter=one.text("letter"),
                of=one.text("design", design),
                overrides=tuple(one.texts("set", ())),
            )
        )
        one.finish()
    scales = table.table("scale")
    made = Paper(
        name=name,
        title=table.text("title"),
        reference=table.text("reference"),
        machine=table.text("machine"),
        baseline=table.text("baseline"),
        tags=table.text("tags"),
        seed=table.integer("seed"),
        catalogues=tuple(table.texts("catalogues", ())),
        harts=table.integer("harts", 0) or None,
        measure_threads=table.flag("measure_threads"),
        designs=designs,
        notes=table.texts("notes", ()),
        scales={scale: _scale(scale, scales.table(scale)) for scale in SCALES},
    )
    table.finish()
    return made


def _scale(name: Scale, table: Table) -> ScaleOf:
    changes = []
    for one in table.list_of_tables("change"):
        changes.append(
            Change(one.text("what"), one.text("full"), one.text("scaled"), one.text("reason"))
        )
        one.finish()
    made = ScaleOf(
        name=name,
        factor=table.integer("factor"),
        overrides=tuple(table.texts("set", ())),
        epoch_instructions=table.integer("epoch_instructions", 0),
        mix_warm_up=table.integer("mix_warm_up_instructions", 0) or None,
        mix_measure=table.integer("mix_measure_instructions", 0),
        measure=table.integer("measure_instructions", 0),
        changes=changes,
    )
    table.finish()
    return made


def experiments(name: str, scale: Scale) -> dict[str, Experiment]:
    """A paper's experiments at one scale, by name, in the order of their figures."""
    special = {PAPER, REASONS, CUTS, REGIONS}
    files = [path for path in (FOLDER / name).glob("*.toml") if path.name not in special]
    usual = paper(name).baseline
    found = [_experiment(path, scale) for path in files]
    found = [replace(one, baseline=one.baseline or usual) for one in found]
    found.sort(key=lambda one: _in_order(one.name))
    return {one.name: one for one in found}


def _in_order(name: str) -> tuple[int, str]:
    """Where a figure stands among others: fig9, fig14a, fig14b, fig100, and what is none."""
    number = re.search(r"\d+", name)
    return int(number.group()) if number else sys.maxsize, name


def _experiment(path: Path, scale: Scale) -> Experiment:
    table = Table.read(path)
    at_scale = {one: table.optional_table(one) for one in SCALES}
    for one in at_scale.values():
        _scaled_keys(one)
    chosen = at_scale[scale]
    axis = table.optional_table("axis")
    designs = tuple(table.texts("designs"))
    subject = table.choice("subject", ("workload", "mix"))
    slices = _slices(table.optional_table("slices"), scale)
    divisors, epochs = (table.optional_table(key) for key in ("epoch_divisors", "epochs_of"))
    made = Experiment(
        name=path.stem,
        figure=table.text("figure"),
        title=table.text("title"),
        summary=table.text("summary"),
        subject="mix" if subject == "mix" else "workload",
        designs=designs,
        metric=table.text("metric"),
        baseline=table.text("baseline", ""),
        average=table.choice("average", REDUCTIONS, "geometric-mean"),
        chart=table.choice("chart", ("bars", "stacked", "lines"), "bars"),
        slices=slices,
        axis=_sliced(slices) if axis is None else _axis(axis, scale),
        relative_to=table.number("relative_to", None),
        overrides=tuple([] if chosen is None else chosen.texts("set", ())),
        subjects=tuple([] if chosen is None else chosen.texts("subjects", ())),
        warm_up_epochs=table.integer("warm_up_epochs", 0) or None,
        measure_epochs=table.number("measure_epochs", None),
        restart=table.flag("restart"),
        baseline_at_least=table.number("baseline_at_least", 0.0) or 0.0,
        notes=(*table.texts("notes", ()), *(chosen.texts("notes", ()) if chosen else ())),
        warm_up=None if chosen is None else chosen.integer("warm_up_instructions", 0) or None,
        measure=None if chosen is None else chosen.integer("measure_instructions", 0) or None,
        size=_size(chosen),
        probe_cuts=table.flag("probe_cuts"),
        claims=[_claim(one, designs, scale) for one in table.list_of_tables("claim")],
        epoch_divisors=_integers(divisors),
        epochs_of=_integers(epochs),
    )
    table.finish()
    return made


def _integers(table: Table | None) -> dict[str, int]:
    return {} if table is None else {key: table.integer(key) for key in table.names()}


def _scaled_keys(table: Table | None) -> None:
    if table is not None:
        for key in ("set", "subjects", "notes"):
            table.texts(key, ())
        for key in ("warm_up_instructions", "measure_instructions"):
            table.integer(key, 0)
        _size(table)
        table.finish()


def _size(table: Table | None) -> Scale | None:
    chosen = "" if table is None else table.choice("size", ("", *SCALES), "")
    return next((size for size in SCALES if size == chosen), None)


def _slices(table: Table | None, scale: Scale) -> Slices | None:
    if table is None:
        return None
    found = {}
    for size in SCALES:
        one = table.table(size)
        count, sample_cycles = one.integer("count"), one.integer("sample_cycles")
        found[size] = Slices(count, sample_cycles, one.integer("instructions", 0) or None)
        one.finish()
    table.finish()
    return found[scale]


def _sliced(slices: Slices | None) -> Axis | None:
    """The axis of a run's slices: up to where each one goes, in percent of all of them."""
    if slices is None:
        return None
    shown = tuple(100 * (place + 1) / slices.count for place in range(slices.count))
    return Axis("", "of the run", "%", False, ("",) * slices.count, shown)


def _axis(table: Table, scale: Scale) -> Axis:
    at_scale = {one: table.optional_table(one) for one in SCALES}
    found: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {}
    for name, one in at_scale.items():
        if one is not None:
            settings = tuple(one.texts("settings"))
            found[name] = settings, tuple(one.numbers("shown"))
            if len(settings) != len(found[name][1]):
                raise one.wrong("shown", "has not as many members as `settings`")
            one.finish()
    if scale not in found:
        raise table.wrong(scale, "is missing")
    settings, shown = found[scale]
    made = Axis(
        key=table.text("key"),
        label=table.text("label"),
        unit=table.text("unit", ""),
        logarithmic=table.flag("logarithmic"),
        settings=settings,
        shown=shown,
    )
    table.finish()
    return made


def _claim(table: Table, designs: Sequence[str], scale: Scale) -> Claim:
    never = table.text("not_comparable", "")
    not_comparable = {one: table.text(f"not_comparable_{one}", "") or never for one in SCALES}
    ordering = tuple(table.texts("ordering", ()))
    extreme = table.text("greatest", "") or table.text("least", "")
    value = table.number("value", None)
    made = Claim(
        name=table.text("id"),
        says=table.text("says"),
        quotation=table.text("quotation"),
        section=table.text("section"),
        paper=table.text("paper"),
        kind="ordering" if ordering or extreme else "value",
        designs=tuple(table.texts("designs", ordering if ordering else designs)),
        of=tuple(table.texts("of", ())),
        apart_from=tuple(table.texts("apart_from", ())),
        over=table.choice("over", REDUCTIONS, "geometric-mean"),
        along=table.choice("along", ("", *REDUCTIONS), "") or None,
        among=table.choice("among", REDUCTIONS, "maximum"),
        limit=table.number("limit", None),
        at=table.number("at", None),
        part=table.text("part", "") or None,
        change=table.flag("change"),
        at_least=value if value is not None else table.number("at_least", None),
        at_most=value if value is not None else table.number("at_most", None),
        tolerance=table.number("tolerance", 0.0) or 0.0,
        ordering=ordering,
        greatest=table.text("greatest", "") or None,
        least=table.text("least", "") or None,
        drawn=table.flag("drawn"),
        scaled=table.flag("scaled"),
        not_comparable=not_comparable[scale] or None,
    )
    bounded = made.at_least is not None or made.at_most is not None
    if made.kind == "value" and not bounded and made.not_comparable is None:
        raise table.wrong(
            "at_most", "or `at_least`, `value`, `ordering`, `greatest` or `least` must be given"
        )
    table.finish()
    return made


def reasons(name: str, scale: Scale) -> dict[str, str]:
    """What people wrote about claims that did not come out as the paper says, by claim."""
    return _written(name, scale)


def mechanisms(name: str, scale: Scale) -> dict[str, str]:
    """What people wrote about claims that hold for another reason than the paper's, by claim."""
    return _written(name, f"mechanism_{scale}")


def _written(name: str, wanted: str) -> dict[str, str]:
    path = FOLDER / name / REASONS
    if not path.exists():
        return {}
    found = {}
    for claim, table in Table.read(path).tables():
        texts = {
            key: table.text(key, "") for scale in SCALES for key in (scale, f"mechanism_{scale}")
        }
        table.finish()
        if texts[wanted]:
            found[claim] = texts[wanted]
    return found


@dataclass(frozen=True)
class Region:
    """What of a workload's run is measured in a paper, in place of what its catalogue says.

    `arguments` are None where they are the catalogue's; `measure` is in instructions of all threads
    together, and 0 for no limit; `overrides` belong to the workload.
    """

    arguments: tuple[str, ...] | None
    measure: int
    overrides: tuple[str, ...]


def regions(name: str, scale: Scale) -> dict[str, Region]:
    """The regions that a paper declares at one scale, by workload."""
    path = FOLDER / name / REGIONS
    if not path.exists():
        return {}
    found = {}
    for workload, table in Table.read(path).tables():
        for size, one in ((size, table.optional_table(size)) for size in SCALES):
            if one is None:
                continue
            arguments = tuple(one.texts("arguments", ()))
            made = Region(
                arguments=arguments or None,
                measure=one.integer("measure_instructions", 0),
                overrides=tuple(one.texts("set", ())),
            )
            one.finish()
            if size == scale:
                found[workload] = made
        table.finish()
    return found


@dataclass(frozen=True)
class Cuts:
    """Power cuts of a paper's designs: on which programs, how many, on which small machine."""

    designs: tuple[str, ...]
    programs: Mapping[str, tuple[str, ...]]
    cuts: int
    seed: int
    during_recovery: bool
    harts: int | None
    overrides: tuple[str, ...]
    notes: tuple[str, ...]


def cuts(name: str, scale: Scale) -> Cuts:
    """A paper's power cuts at one scale."""
    table = Table.read(FOLDER / name / CUTS)
    programs = table.table("programs")
    sizes = {one: table.table(one) for one in SCALES}
    counts = {one: size.integer("cuts_of_each") for one, size in sizes.items()}
    for size in sizes.values():
        size.finish()
    made = Cuts(
        designs=tuple(table.texts("designs")),
        programs={key: tuple(programs.texts(key)) for key in programs.names()},
        cuts=counts[scale],
        seed=table.integer("seed"),
        during_recovery=table.flag("during_recovery"),
        harts=table.integer("harts", 0) or None,
        overrides=tuple(table.texts("set", ())),
        notes=tuple(table.texts("notes", ())),
    )
    table.finish()
    return made

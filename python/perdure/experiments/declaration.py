"""Experiments as they are declared: one TOML file each, read strictly.

Always true here: a declaration is data and names no result; what a scale changes stands beside what
it changes; a claim quotes its paper and says where.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from perdure import PerdureError
from perdure.experiments import FOLDER, PAPER, papers
from perdure.experiments.claim import REDUCTIONS, Claim, read_claim
from perdure.experiments.declared_cuts import Cuts, read_cuts
from perdure.experiments.declared_probes import Probe, read_probes
from perdure.experiments.toml import Table, texts_by_name

Scale: TypeAlias = Literal["quick", "full"]
SCALES: tuple[Scale, Scale] = ("quick", "full")
# Whose arguments a figure's programs may have, where they are not the scale's.
Size: TypeAlias = Literal["quick", "full", "large"]
SIZES: tuple[Size, ...] = ("quick", "full", "large")

REASONS = "reasons.toml"
CUTS = "cuts.toml"
REGIONS = "regions.toml"
PROBES = "probes.toml"


@dataclass(frozen=True)
class Design:
    """A design as the paper's figures name it.

    `of` is the core's name for it. A design may be another one with `overrides` of its own:
    `ideal` that writes early, for instance. Or it is what programs do, told by `arguments`; one
    that is `broken` promises nothing, and power cuts have to show it. One that promises `less` than
    programs may need has to keep that; a program that is broken all the same is a finding.
    """

    name: str
    label: str
    letter: str
    of: str
    overrides: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    broken: bool = False
    less: bool = False


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
    hart, `epoch_instructions` is 0. With `seeds`, every point runs so many times, each with another
    `--seed` for its programs, and figures show means and standard deviations.
    """

    name: Scale
    factor: int
    overrides: tuple[str, ...]
    epoch_instructions: int
    mix_warm_up: int | None
    mix_measure: int
    measure: int
    changes: Sequence[Change]
    seeds: int = 0


@dataclass(frozen=True)
class Model:
    """One set of assumptions under which every claim of a paper is judged.

    `overrides` are added to the machine for every design and workload, `of_designs` for one design,
    `of_subjects` for one workload. `assumptions` are for people, who read each model's beside the
    other's.
    """

    name: str
    label: str
    machine: str
    assumptions: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    of_designs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_subjects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A paper: its designs, its machine, and how it is scaled.

    With `models`, every claim is judged in each; a paper without has only its own `machine`.
    `ignores` has, by design, beginnings of keys that do not change it: its points are the same
    whatever a model or a figure sets there. `compared_with` has, by design, what is set for the
    baseline that it is compared with. `bound` is the design whose writes are shown beside what the
    banks of the NVM can take.
    `baseline` is the design that others are relative to, `tags` one whose tags see write sets.
    `catalogues` are files of workloads; none for those that stand for SPEC CPU2006. A machine has
    as many harts as programs, unless `harts` are given. With `measure_threads`, what is measured of
    a workload is its parallel phase. With `pools`, a point's programs keep files in persistent
    memory, which they make before what is measured, unless they measure themselves: then only pools
    of power cuts are made before. `mixes` are the paper's own, in place of those
    that are drawn. `beside_cuts` are experiments whose values stand beside what cuts of a program
    and a design came to.
    """

    name: str
    title: str
    reference: str
    machine: str
    baseline: str
    tags: str | None
    seed: int
    catalogues: tuple[str, ...]
    harts: int | None
    measure_threads: bool
    designs: Sequence[Design]
    notes: Sequence[str]
    scales: Mapping[Scale, ScaleOf]
    models: Sequence[Model] = ()
    ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compared_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bound: str | None = None
    pools: bool = False
    programs_measure: bool = False
    mixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    beside_cuts: tuple[str, ...] = ()

    @property
    def in_models(self) -> Sequence[Model | None]:
        """The models; None alone where the paper has no other than its machine."""
        return self.models or (None,)

    def design(self, name: str) -> Design:
        """A design by the name that figures give it; others stand for themselves."""
        found = (one for one in self.designs if one.name == name)
        return next(found, Design(name, name, name[:1].upper(), name))

    def label(self, design: str) -> str:
        """What figures call a design."""
        return self.design(design).label


@dataclass(frozen=True)
class Axis:
    """A key of the configuration that an experiment varies, or with `arguments` those of programs.

    `shown` are the numbers that figures and claims use for the `settings`, one for one. Some
    subjects may have other settings than the rest: those `of` them.
    """

    key: str
    label: str
    unit: str
    logarithmic: bool
    settings: tuple[str, ...]
    shown: tuple[float, ...]
    arguments: bool = False
    of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
class Setting:
    """What a figure has of its own in one model: overrides, and another metric.

    `not_run` says why it does not run there: its claims are then not comparable.
    """

    overrides: tuple[str, ...]
    metric: str | None
    not_run: str | None = None


@dataclass(frozen=True)
class Experiment:
    """One figure: what runs, what is measured of it, how it is drawn, what the paper claims.

    `baseline` is the paper's unless the figure has its own. With `slices`, a workload's run is
    divided into parts, which are the axis. `size` is whose arguments programs get: those of the
    scale, unless a figure at `quick` needs the paper's own, or `large` ones, and after them the
    figure's `arguments`. Its `machine` is the paper's unless it has its own, and its `seeds` are
    the scale's. Without designs nothing runs: such an experiment has claims that cannot be judged.
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
    repeat: bool
    baseline_at_least: float
    notes: tuple[str, ...]
    claims: Sequence[Claim]
    warm_up: int | None = None
    measure: int | None = None
    size: Size | None = None
    probe_cuts: bool = False
    models: Mapping[str, Setting] = field(default_factory=dict)
    machine: str | None = None
    arguments: tuple[str, ...] = ()
    seeds: int | None = None
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def in_panels(self) -> list[Experiment]:
        """The figure, or one for each of its panels, whose programs are told the panel's words."""
        return [
            replace(
                self,
                name=f"{self.name}-{panel}",
                title=f"{self.title}: {panel.replace('-', ' ')}",
                arguments=(*words, *self.arguments),
                panels={},
            )
            for panel, words in self.panels.items()
        ] or [self]

    def in_model(self, model: Model | None) -> Experiment:
        """The figure with what it has of its own in a model."""
        own = None if model is None else self.models.get(model.name)
        if own is None:
            return self
        overrides = (*self.overrides, *own.overrides)
        found = replace(self, overrides=overrides, metric=own.metric or self.metric)
        if own.not_run is None:
            return found
        claims = [replace(claim, designs=(), not_comparable=own.not_run) for claim in self.claims]
        return replace(found, designs=(), claims=claims)


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
                arguments=tuple(one.texts("arguments", ())),
                broken=one.flag("broken"),
                less=one.flag("less"),
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
        tags=table.text("tags", "") or None,
        seed=table.integer("seed"),
        catalogues=tuple(table.texts("catalogues", ())),
        harts=table.integer("harts", 0) or None,
        measure_threads=table.flag("measure_threads"),
        designs=designs,
        notes=table.texts("notes", ()),
        scales={scale: _scale(scale, scales.table(scale)) for scale in SCALES},
        models=[_model(one) for one in table.list_of_tables("model")],
        ignores=texts_by_name(table.optional_table("ignores")),
        compared_with=texts_by_name(table.optional_table("compared_with")),
        bound=table.text("bound", "") or None,
        pools=table.flag("pools"),
        programs_measure=table.flag("programs_measure"),
        mixes=texts_by_name(table.optional_table("mixes")),
        beside_cuts=tuple(table.texts("beside_cuts", ())),
    )
    table.finish()
    return made


def _model(table: Table) -> Model:
    made = Model(
        name=table.text("name"),
        label=table.text("label"),
        machine=table.text("machine"),
        assumptions=tuple(table.texts("assumptions")),
        overrides=tuple(table.texts("set", ())),
        of_designs=texts_by_name(table.optional_table("of_designs")),
        of_subjects=texts_by_name(table.optional_table("of_subjects")),
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
        seeds=table.integer("seeds", 0),
    )
    table.finish()
    return made


def experiments(name: str, scale: Scale) -> dict[str, Experiment]:
    """A paper's experiments at one scale, by name, in the order of their figures."""
    special = {PAPER, REASONS, CUTS, REGIONS, PROBES}
    files = [path for path in (FOLDER / name).glob("*.toml") if path.name not in special]
    usual = paper(name).baseline
    found = [one for path in files for one in _experiment(path, scale).in_panels()]
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
    models = table.optional_table("model")
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
        repeat=table.flag("repeat"),
        baseline_at_least=table.number("baseline_at_least", 0.0) or 0.0,
        notes=(*table.texts("notes", ()), *(chosen.texts("notes", ()) if chosen else ())),
        warm_up=None if chosen is None else chosen.integer("warm_up_instructions", 0) or None,
        measure=None if chosen is None else chosen.integer("measure_instructions", 0) or None,
        size=_size(chosen),
        probe_cuts=table.flag("probe_cuts"),
        claims=[read_claim(one, designs, scale) for one in table.list_of_tables("claim")],
        models={} if models is None else {name: _setting(one) for name, one in models.tables()},
        machine=table.text("machine", "") or None,
        arguments=tuple([] if chosen is None else chosen.texts("arguments", ())),
        seeds=None if chosen is None else chosen.integer("seeds", 0) or None,
        panels=texts_by_name(table.optional_table("panels")),
    )
    if made.panels and made.claims:
        raise table.wrong("claim", "would be of all `panels`: declare each in a file of its own")
    table.finish()
    return made


def _setting(table: Table) -> Setting:
    metric, not_run = table.text("metric", ""), table.text("not_run", "")
    made = Setting(tuple(table.texts("set", ())), metric or None, not_run or None)
    table.finish()
    return made


def _scaled_keys(table: Table | None) -> None:
    if table is not None:
        for key in ("set", "subjects", "notes", "arguments"):
            table.texts(key, ())
        for key in ("warm_up_instructions", "measure_instructions", "seeds"):
            table.integer(key, 0)
        _size(table)
        table.finish()


def _size(table: Table | None) -> Size | None:
    chosen = "" if table is None else table.choice("size", ("", *SIZES), "")
    return next((size for size in SIZES if size == chosen), None)


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
    found: dict[str, tuple[tuple[str, ...], tuple[float, ...], dict[str, tuple[str, ...]]]] = {}
    for name, one in at_scale.items():
        if one is not None:
            settings = tuple(one.texts("settings"))
            own = texts_by_name(one.optional_table("of"))
            found[name] = settings, tuple(one.numbers("shown")), own
            if len(settings) != len(found[name][1]):
                raise one.wrong("shown", "has not as many members as `settings`")
            if any(len(mine) != len(settings) for mine in own.values()):
                raise one.wrong("of", "has a subject with another number of settings")
            one.finish()
    if scale not in found:
        raise table.wrong(scale, "is missing")
    settings, shown, own = found[scale]
    arguments = table.flag("arguments")
    made = Axis(
        key="" if arguments else table.text("key"),
        label=table.text("label"),
        unit=table.text("unit", ""),
        logarithmic=table.flag("logarithmic"),
        settings=settings,
        shown=shown,
        arguments=arguments,
        of=own,
    )
    table.finish()
    return made


def reasons(name: str, scale: Scale, model: str | None = None) -> dict[str, str]:
    """What people wrote about claims that did not come out as the paper says, by claim."""
    return {claim: one.texts[scale] for claim, one in _written(name, model) if one.texts[scale]}


def mechanisms(name: str, scale: Scale, model: str | None = None) -> dict[str, str]:
    """What people wrote about claims that hold for another reason than the paper's, by claim."""
    key = f"mechanism_{scale}"
    return {claim: one.texts[key] for claim, one in _written(name, model) if one.texts[key]}


def shown_by(name: str, model: str | None = None) -> dict[str, list[str]]:
    """The probes that show what people wrote, by claim."""
    return {claim: one.shown_by for claim, one in _written(name, model) if one.shown_by}


@dataclass(frozen=True)
class _Written:
    """What people wrote about one claim in one model, by `quick`, `mechanism_quick` and so on."""

    texts: Mapping[str, str]
    shown_by: list[str]


def _written(name: str, model: str | None) -> Iterator[tuple[str, _Written]]:
    path = FOLDER / name / REASONS
    if not path.exists():
        return
    texts = [key for scale in SCALES for key in (scale, f"mechanism_{scale}")]
    for claim, table in Table.read(path).tables():
        # A claim has texts of its own, or a table for each model.
        models = [key for key in table.names() if key not in (*texts, "shown_by")]
        tables: dict[str | None, Table] = {None: table, **{key: table.table(key) for key in models}}
        for key, one in tables.items():
            made = _Written({text: one.text(text, "") for text in texts}, one.texts("shown_by", ()))
            one.finish()
            if key == model:
                yield claim, made


def probes(name: str, scale: Scale) -> dict[str, Probe]:
    """A paper's probes at one scale, by name: those that change something there."""
    path = FOLDER / name / PROBES
    return read_probes(Table.read(path), scale) if path.exists() else {}


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


def cuts(name: str, scale: Scale) -> Cuts:
    """A paper's power cuts at one scale."""
    return read_cuts(Table.read(FOLDER / name / CUTS), scale)

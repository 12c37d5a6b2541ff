"""An experiment's points, and the values that they come to.

Always true here: what runs follows from the declaration, the scale and what is available, and
from nothing else; a value names every point that it is made of.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure import PerdureError
from perdure.experiments import dataset, programs
from perdure.experiments.cache import Stored
from perdure.experiments.declaration import Experiment, Model, Paper, ScaleOf
from perdure.experiments.declared_cuts import Cuts
from perdure.experiments.declared_probes import Probe
from perdure.experiments.measured import Measured, rounded, statistic
from perdure.experiments.metrics import metric
from perdure.experiments.point import Point
from perdure.experiments.programs import Provided

EPOCH_KEY = "epoch.instructions"
STORES_KEY = "epoch.stores"


@dataclass(frozen=True)
class Planned:
    """A point's place in an experiment; `axis` is the number shown for the setting.

    `compared_with` are the overrides that make a baseline that of some designs; empty for others.
    `seed` is the programs', where each point runs with several.
    """

    experiment: str
    subject: str
    design: str
    axis: float | None
    point: Point
    model: str | None = None
    compared_with: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class OfSeeds:
    """A number that is the mean of what came `of_seeds`, where points run with several."""

    of_seeds: tuple[float, ...] = ()

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the seeds; None where there are not several."""
        return rounded(statistics.stdev(self.of_seeds)) if len(self.of_seeds) > 1 else None

    def as_dict(self) -> dict[str, Any]:
        """For `results.json`."""
        found = {key: value for key, value in vars(self).items() if key != "of_seeds"}
        return found if self.deviation is None else {**found, "deviation": self.deviation}


@dataclass(frozen=True)
class Value(OfSeeds):
    """One number of a figure, with the keys of the points that it is made of."""

    subject: str
    design: str
    axis: float | None
    part: str | None
    value: float
    points: tuple[str, ...]


def plan(
    experiment: Experiment,
    paper: Paper,
    scale: ScaleOf,
    provided: Provided,
    mixes: Mapping[str, Sequence[str]],
    model: Model | None = None,
) -> list[Planned]:
    """Everything that an experiment runs, the baseline included where its metric needs it."""
    experiment = experiment.in_model(model)
    everything = list(mixes) if experiment.subject == "mix" else provided.available
    unknown = sorted(set(experiment.subjects) - set(mixes) - set(provided.entries))
    if unknown:
        raise PerdureError(f"{experiment.name}: there is no subject {', '.join(unknown)}")
    machine = experiment.machine or (paper.machine if model is None else model.machine)
    planned = []
    for subject in experiment.subjects or everything:
        if subject in provided.unavailable:
            continue
        names = mixes[subject] if experiment.subject == "mix" else [subject]
        size = experiment.size or scale.name
        own = [one for name in names for one in provided.entries[name].sizes[size].overrides]
        for shown, setting, words in _settings(experiment, subject):
            for design, compared, seed in _runs(experiment, paper, scale):
                overrides = merged(
                    scale.overrides, own, *_of_model(model, subject, design), experiment.overrides
                )
                named = paper.design(design)
                overrides = merged(overrides, setting, compared)
                chosen = merged(heeded(paper, design, overrides), named.overrides)
                drawn = () if seed is None else ("--seed", str(seed))
                told = (*experiment.arguments, *words, *named.arguments, *drawn)
                point = _point(subject, names, chosen, told, experiment, paper, scale, provided)
                # What a design does not heed makes no difference between models, either.
                heedless = design in paper.ignores and experiment.machine is None
                name = None if model is None else model.name
                remarks = [experiment.name, *([name] if name else []), *setting, *words, *drawn]
                point = replace(
                    point,
                    design=named.of,
                    machine=paper.machine if heedless else machine,
                    remark=" ".join(remarks),
                )
                planned.append(
                    Planned(experiment.name, subject, design, shown, point, name, compared, seed)
                )
    return planned


def plan_all(
    experiments: Iterable[Experiment],
    paper: Paper,
    scale: ScaleOf,
    provided: Provided,
    mixes: Mapping[str, Sequence[str]],
) -> list[Planned]:
    """Everything that some experiments run, in each of the paper's models."""
    return [
        one
        for experiment in experiments
        for model in paper.in_models
        for one in plan(experiment, paper, scale, provided, mixes, model)
    ]


def _of_model(model: Model | None, subject: str, design: str) -> list[tuple[str, ...]]:
    """What a model sets for a design and a workload."""
    if model is None:
        return []
    special = model.of_designs.get(design, ()), model.of_subjects.get(subject, ())
    return [model.overrides, *special]


def _runs(
    experiment: Experiment, paper: Paper, scale: ScaleOf
) -> list[tuple[str, tuple[str, ...], int | None]]:
    """The designs that run, the baseline once for each kind of designs that it is compared with.

    Each runs with every seed, where there are several.
    """
    runs: list[tuple[str, tuple[str, ...]]] = [(design, ()) for design in experiment.designs]
    if metric(experiment.metric).relative:
        bases = [
            (experiment.baseline, compared_with(experiment, paper, design))
            for design in experiment.designs
        ]
        runs = [*(one for one in dict.fromkeys(bases) if one not in runs), *runs]
    count = experiment.seeds or scale.seeds
    seeds = range(1, count + 1) if count else (None,)
    return [(*run, seed) for run in runs for seed in seeds]


def compared_with(experiment: Experiment, paper: Paper, design: str) -> tuple[str, ...]:
    """The further overrides of the baseline that a design is compared with."""
    if experiment.baseline != paper.baseline:
        return ()
    return paper.compared_with.get(design, ())


def heeded(paper: Paper, design: str, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """The overrides without those that a design is not changed by."""
    ignored = paper.ignores.get(design, ())
    return tuple(one for one in overrides if not one.startswith(ignored)) if ignored else overrides


def _settings(
    experiment: Experiment, subject: str
) -> Iterable[tuple[float | None, tuple[str, ...], tuple[str, ...]]]:
    """For each place of the axis what it sets, and what it tells programs."""
    axis = experiment.axis
    if axis is None:
        return [(None, (), ())]
    pairs = zip(axis.shown, axis.of.get(subject, axis.settings), strict=True)
    if axis.arguments:
        return [(shown, (), tuple(words.split())) for shown, words in pairs]
    return [(shown, (f"{axis.key}={one}",) if axis.key else (), ()) for shown, one in pairs]


def _point(
    subject: str,
    names: Sequence[str],
    overrides: tuple[str, ...],
    told: Sequence[str],
    experiment: Experiment,
    paper: Paper,
    scale: ScaleOf,
    provided: Provided,
) -> Point:
    size = experiment.size or scale.name
    run, surroundings = provided.commands(names, size, told)
    sizes = [provided.entries[name].sizes[size] for name in names]
    epoch = epoch_length(overrides, scale)
    warm_up: int | None = max(size.warm_up for size in sizes)
    measure: int | None
    if experiment.subject == "mix" and scale.mix_warm_up is not None:
        warm_up = scale.mix_warm_up
    if experiment.warm_up is not None:
        warm_up = experiment.warm_up
    elif experiment.warm_up_epochs is not None:
        warm_up = max(warm_up or 0, experiment.warm_up_epochs * epoch)
    if paper.measure_threads:
        warm_up, measure = None, sizes[0].measure or scale.measure or None
    elif experiment.measure is not None:
        measure = experiment.measure
    elif experiment.measure_epochs is not None:
        measure = round(experiment.measure_epochs * epoch)
    else:
        own = sizes[0].measure or scale.measure or None
        measure = own if experiment.subject == "workload" else scale.mix_measure
    if measure is None and not paper.measure_threads:
        warm_up = None
    return Point(
        name=subject,
        design=paper.baseline,
        programs=run,
        machine=paper.machine,
        overrides=overrides,
        harts=paper.harts,
        surroundings=surroundings,
        repeat=experiment.repeat or experiment.subject == "mix",
        warm_up=warm_up,
        measure=measure,
        measure_threads=paper.measure_threads,
        sample_cycles=None if experiment.slices is None else experiment.slices.sample_cycles,
        probe_cuts=experiment.probe_cuts,
        pools=paper.pools,
        made=provided.makers(run) if paper.pools and not paper.programs_measure else (),
    )


def mixes(paper: Paper, scale: ScaleOf, provided: Provided) -> Mapping[str, Sequence[str]]:
    """The paper's own mixes, or those that are drawn where any are measured."""
    if paper.mixes or not scale.mix_measure:
        return paper.mixes
    return programs.mixes(provided.available, paper.seed)


def mix_names(paper: Paper, scale: ScaleOf) -> Sequence[str]:
    """What these are called, which is known before there are programs."""
    return [*paper.mixes] if paper.mixes or not scale.mix_measure else programs.mix_names()


def merged(*assignments: Iterable[str]) -> tuple[str, ...]:
    """`key=value` texts, of which the last for each key counts."""
    values: dict[str, str] = {}
    for texts in assignments:
        for text in texts:
            key, _, value = text.partition("=")
            values[key] = value
    return tuple(f"{key}={value}" for key, value in values.items())


def epoch_length(overrides: Iterable[str], scale: ScaleOf) -> int:
    """The configured length of an epoch, in instructions."""
    values = dict(text.split("=", 1) for text in overrides)
    return round(float(values.get(EPOCH_KEY, scale.epoch_instructions)))


def epochs(region: Measured, point: Point, scale: ScaleOf) -> float:
    """How many epochs of the configured length a region has, if all harts run evenly."""
    instructions = epoch_length(point.overrides, scale)
    if instructions > 0:
        return float(region["instructions"] / instructions)
    stores = int(dict(text.split("=", 1) for text in point.overrides).get(STORES_KEY, 0))
    harts = point.harts_of_machine
    return statistic(region, "l1d.stores") / (stores * harts) if stores else 0.0


@dataclass(frozen=True)
class Probing:
    """A probe, as a figure without and with what it changes, and what each of them runs."""

    probe: Probe
    plain: Experiment
    changed: Experiment
    planned: Sequence[Planned]


def plan_probe(
    probe: Probe,
    figure: Experiment,
    paper: Paper,
    scale: ScaleOf,
    provided: Provided,
    mixes: Mapping[str, Sequence[str]],
) -> Probing:
    """A probe's points: the figure's own, and those with one thing changed."""
    plain = replace(
        figure,
        name=f"{probe.name}, unchanged",
        designs=(probe.design,),
        subjects=(probe.subject,),
        claims=(),
        # One run shows a reason.
        seeds=1 if scale.seeds else None,
    )
    changed = replace(plain, name=probe.name, overrides=(*plain.overrides, *probe.overrides))
    model = next((one for one in paper.models if one.name == probe.model), None)
    other = _with_arguments(provided, probe, scale) if probe.arguments else provided
    planned = plan(plain, paper, scale, provided, mixes, model)
    planned += plan(changed, paper, scale, other, mixes, model)
    return Probing(probe, plain, changed, planned)


def _with_arguments(provided: Provided, probe: Probe, scale: ScaleOf) -> Provided:
    entry = provided.entries[probe.subject]
    size = replace(entry.sizes[scale.name], arguments=probe.arguments)
    entry = replace(entry, sizes={**entry.sizes, scale.name: size})
    return replace(provided, entries={**provided.entries, probe.subject: entry})


def plan_cuts(cuts: Cuts, paper: Paper, provided: Provided) -> list[Planned]:
    """The power cuts: each design on each program. What is not available is left out."""
    planned = []
    for subject, names in cuts.programs.items():
        if any(name in provided.unavailable for name in names):
            continue
        for design in cuts.designs:
            named, campaign = paper.design(design), cuts.campaign(design)
            told = (*cuts.arguments.get(subject, ()), *cuts.told.get(design, ()), *named.arguments)
            run, surroundings = provided.commands(names, "tiny", told)
            point = Point(
                name=subject,
                design=named.of,
                programs=run,
                machine=cuts.machine_of.get(design, paper.machine),
                overrides=merged(cuts.overrides, named.overrides if cuts.restart else ()),
                harts=cuts.harts,
                surroundings=surroundings,
                campaign=campaign,
                remark=f"{campaign.cuts} cuts",
                pools=paper.pools,
                made=provided.makers(run) if paper.pools else (),
            )
            planned.append(Planned("cuts", subject, design, None, point))
    return planned


def values(
    experiment: Experiment,
    paper: Paper,
    scale: ScaleOf,
    planned: Sequence[Planned],
    stored: Mapping[str, Stored],
) -> list[Value]:
    """An experiment's values in one model; those that failed, or have none, are missing."""
    chosen = metric(experiment.metric)
    regions: dict[tuple[Any, ...], tuple[str, Measured]] = {}
    for one in planned:
        key = one.point.key()
        region = _region(experiment, one, stored[key]) if key in stored else None
        if region is not None:
            regions[one.subject, one.design, one.axis, one.compared_with, one.seed] = key, region
    found: list[Value] = []
    for one in planned:
        here = regions.get((one.subject, one.design, one.axis, (), one.seed))
        if here is None or one.design not in experiment.designs or one.compared_with:
            continue
        base = None
        if chosen.relative:
            compared = compared_with(experiment, paper, one.design)
            base = regions.get((one.subject, experiment.baseline, one.axis, compared, one.seed))
        if base is not None and _too_little(experiment, base[1]):
            continue
        epoch = epoch_length(one.point.overrides, scale)
        parts = chosen.compute(here[1], None if base is None else base[1], epoch)
        keys = tuple(dict.fromkeys([here[0], *([base[0]] if base else [])]))
        found += [
            Value(one.subject, one.design, one.axis, part, rounded(value), keys)
            for part, value in (parts or {}).items()
        ]
    found = _of_all_seeds(found)
    return found if experiment.relative_to is None else _relative(found, experiment.relative_to)


def _of_all_seeds(found: Sequence[Value]) -> list[Value]:
    """One value for each place of a figure: the mean of those that its seeds came to."""
    places: dict[tuple[Any, ...], list[Value]] = {}
    for one in found:
        places.setdefault((one.subject, one.design, one.axis, one.part), []).append(one)
    return [
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            value=rounded(math.fsum(one.value for one in same) / len(same)),
            points=tuple(dict.fromkeys(key for one in same for key in one.points)),
            of_seeds=tuple(one.value for one in same),
        )
        for same in places.values()
    ]


def _region(experiment: Experiment, planned: Planned, stored: Stored) -> Measured | None:
    """What counts of a point at its place in the experiment."""
    slices, axis = experiment.slices, experiment.axis
    if slices is None or axis is None or planned.axis is None:
        return dataset.measured(stored)
    place = axis.shown.index(planned.axis)
    length = slices.instructions or dataset.sampled(stored) // slices.count
    return dataset.sliced(stored, place * length, (place + 1) * length)


def _too_little(experiment: Experiment, base: Measured) -> bool:
    """Whether the baseline evicts too few lines in 1,000 instructions for a ratio to mean much."""
    evicted = statistic(base, "nvm.operations.write_back")
    return bool(evicted * 1000 < experiment.baseline_at_least * base["instructions"])


def _relative(found: Sequence[Value], to: float) -> list[Value]:
    """Values over the same subject's and design's value at one place of the axis."""
    base = {(one.subject, one.design, one.part): one for one in found if one.axis == to}
    made = []
    for one in found:
        other = base.get((one.subject, one.design, one.part))
        if other is not None and other.value > 0:
            keys = tuple(dict.fromkeys([*one.points, *other.points]))
            of_seeds = tuple(rounded(value / other.value) for value in one.of_seeds)
            value = rounded(one.value / other.value)
            made.append(replace(one, value=value, points=keys, of_seeds=of_seeds))
    return made

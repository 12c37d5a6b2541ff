"""A paper reproduced: points planned, run, made into values, judged, drawn, and kept.

Always true here: whatever part of the points finished, everything that can be made of them is made;
`results.json` but for `host` follows from the finished points alone; a step that needs a network or
a compiler says so in one line before it begins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import altair
import polars as pl

from perdure import PerdureError, __version__, api, cells, frames, outputs
from perdure.experiments import (
    charts,
    claims,
    cluster,
    dataset,
    declaration,
    narrowing,
    plan,
    programs,
    report,
    results_frames,
    tables,
    written,
)
from perdure.experiments.cache import Cache, Stored
from perdure.experiments.declaration import Design, Experiment, Paper, Scale, ScaleOf
from perdure.experiments.metrics import metric
from perdure.experiments.point import core_digest

SCHEMA = 1
CUTS = "cuts"
PROBES = "probes"
KEPT = ("results.json", "results.parquet", "statistics.parquet", "report.html")

Watch = Callable[[cluster.Outcome, int, int], object]


@dataclass(frozen=True, repr=False)
class Reproduction(frames.Framed):
    """What came of a paper's experiments: data frames, and where the files are.

    `points` has one row for each finished point, `values` one for each number of a figure,
    `claims` one for each of the paper's claims with its verdict, `failures` one for each failed
    point. `results` is `results.json`.
    """

    points: pl.DataFrame
    values: pl.DataFrame
    claims: pl.DataFrame
    failures: pl.DataFrame
    results: written.Results
    out: Path
    report: Path
    interrupted: bool

    def to_frame(self) -> pl.DataFrame:
        """The numbers of the figures, which is `values`."""
        return self.values

    def _facts(self) -> cells.Facts:
        verdicts = self.claims["verdict"].to_list()
        judged = [f"{verdicts.count(one):,} {_SAID[one]}" for one in _SAID if one in verdicts]
        return [
            ("paper", f"{self.results['paper']['name']}, {self.results['scale']}"),
            ("points", f"{len(self.points):,}" + (", interrupted" if self.interrupted else "")),
            ("failed", f"{len(self.failures):,}"),
            ("claims", ", ".join(judged) or "none"),
            ("in", str(self.out)),
        ]

    def __repr__(self) -> str:
        return cells.one_line("Reproduction", self._facts())

    def _repr_html_(self) -> str:
        shown = ("experiment", "says", "paper", "measured_text", "verdict", "reason")
        title = f"reproduction of {self.results['paper']['title']}"
        return cells.html(title, self._facts(), cells.frame(self.claims.select(shown)))


_SAID = {"holds": "hold", "differs": "differ", "not comparable": "not comparable"}
"""Verdicts, as they are counted."""


@dataclass(frozen=True)
class _Work:
    """Everything that is known before anything runs."""

    paper: Paper
    scale: ScaleOf
    experiments: Mapping[str, Experiment]
    provided: programs.Provided
    mixes: Mapping[str, Sequence[str]]
    planned: Sequence[plan.Planned]
    only: narrowing.Only
    probes: Sequence[plan.Probing]


def reproduce(
    paper: str,
    figures: Sequence[str],
    scale: Scale,
    out: Path,
    *,
    only: narrowing.Only = narrowing.EVERYTHING,
    scheduler: str | None = None,
    workers: int | None = None,
    sysroot: Path | None = None,
    watch: Watch = lambda _outcome, _done, _total: None,
    say: Callable[[str], object] = lambda _line: None,
) -> Reproduction:
    """Runs a paper's experiments, or some of its `figures`, and writes everything into `out`.

    Of these, `only` that part.
    """
    started = time.monotonic()
    outputs.check_folder(out, files=KEPT)
    for folder in ("points", "configurations", "figures"):
        outputs.check_folder(out / folder)
    cluster.check(scheduler)
    work = _planned(paper, figures, scale, only, out, sysroot, say)
    for line in _announcement(work):
        say(line)
    cache = Cache(out, say)
    finished = cluster.run(
        [one.point for one in work.planned],
        cache,
        scheduler=scheduler,
        workers=workers,
        watch=watch,
    )
    host = {
        "seconds": round(time.monotonic() - started, 1),
        "workers": finished.workers,
        "computed": sum(not one.cached and one.stored is not None for one in finished.outcomes),
        "cached": sum(one.cached for one in finished.outcomes),
    }
    return _kept(work, finished, out, host)


def _planned(
    name: str,
    figures: Sequence[str],
    scale_name: Scale,
    only: narrowing.Only,
    out: Path,
    sysroot: Path | None,
    say: Callable[[str], object],
) -> _Work:
    paper = declaration.paper(name)
    scale = paper.scales[scale_name]
    known = declaration.experiments(name, scale_name)
    known_probes = declaration.probes(name, scale_name)
    names = [*known, *([PROBES] if known_probes else []), CUTS]
    figures = [one for figure in figures for one in narrowing.panels(figure, names)]
    unknown = [figure for figure in figures if figure not in names]
    if unknown:
        raise PerdureError(
            f"{name} has no experiment {', '.join(unknown)}: its experiments are {', '.join(names)}"
        )
    chosen = {one: known[one] for one in known if one in (figures or names)}
    cuts = declaration.cuts(name, scale_name) if CUTS in (figures or names) else None
    designs = {one.name for one in api.catalogue().designs}
    declared = {design for experiment in chosen.values() for design in experiment.designs}
    declared |= set(cuts.designs if cuts else ())
    missing = {one for one in declared if paper.design(one).of not in designs}
    for one in sorted(missing):
        say(f"this build has no design {one}: it is left out")
    chosen = {
        one: replace(experiment, designs=tuple(d for d in experiment.designs if d not in missing))
        for one, experiment in chosen.items()
    }
    probed = [one for one in known_probes.values() if PROBES in (figures or names)]
    scales: list[programs.Scale] = [scale_name] if chosen or probed else []
    entries = programs.catalogue(files=paper.catalogues)
    names_of_mixes = plan.mix_names(paper, scale)
    narrowing.check(chosen, only, paper, [one.name for one in entries], names_of_mixes)
    provided = programs.provide(
        programs.measured(entries, declaration.regions(name, scale_name), scale_name),
        [*scales, "tiny"] if cuts else scales,
        out,
        existing_sysroot=sysroot,
        report=say,
    )
    mixes = plan.mixes(paper, scale, provided)
    chosen = narrowing.narrowed(chosen, only, provided.entries, mixes)
    planned = plan.plan_all(chosen.values(), paper, scale, provided, mixes)
    probes = [
        plan.plan_probe(probe, known[probe.figure], paper, scale, provided, mixes)
        for probe in probed
        if only.chooses(probe, paper, designs)
    ]
    planned += [one for probing in probes for one in probing.planned]
    if cuts is not None:
        built = tuple(one for one in cuts.designs if one not in missing)
        planned += plan.plan_cuts(replace(cuts, designs=built), paper, provided)
    return _Work(paper, scale, chosen, provided, mixes, planned, only, probes)


def _announcement(work: _Work) -> list[str]:
    """What is about to run, and what the scale changes of the paper's."""
    points = len({one.point.key() for one in work.planned})
    names = ", ".join(
        [
            *work.experiments,
            *([PROBES] if work.probes else []),
            *([CUTS] if _has_cuts(work) else []),
        ]
    )
    lines = [f"{work.paper.name}, {work.scale.name}: {names}; {points} points"]
    lines += [
        f"  {change.what}: {change.scaled} (paper: {change.full})" for change in work.scale.changes
    ]
    if any(one.subject in work.mixes for one in work.planned):
        lines.append(f"  mixes of seed {work.paper.seed}:")
        lines += [f"    {name}: {' '.join(names)}" for name, names in work.mixes.items()]
    return lines


def _has_cuts(work: _Work) -> bool:
    return any(one.experiment == CUTS for one in work.planned)


def _kept(
    work: _Work, finished: cluster.Finished, out: Path, host: Mapping[str, Any]
) -> Reproduction:
    """Makes everything of the finished points, and writes it."""
    stored = {one.key: one.stored for one in finished.outcomes if one.stored is not None}
    runs = {key: one for key, one in stored.items() if one["point"]["campaign"] is None}
    users: dict[str, list[str]] = {}
    models: dict[str, list[str]] = {}
    for one in work.planned:
        key = one.point.key()
        for known, name in ((users, one.experiment), (models, one.model)):
            mine = known.setdefault(key, [])
            if name is not None and name not in mine:
                mine.append(name)
    ordered = [runs[key] for key in sorted(runs)]
    data = dataset.frame(
        [
            (
                one,
                {
                    "experiments": users[one["key"]],
                    "scale": work.scale.name,
                    **({"models": models[one["key"]]} if work.paper.models else {}),
                },
            )
            for one in ordered
        ],
        {"models": pl.List(pl.String)} if work.paper.models else None,
    )
    dataset.write(data, ordered, out)
    results = _results(work, finished, stored, users, out)
    results["host"] = dict(host)
    outputs.store(out, "results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    page = report.write(out)
    failed = [(one.point, one.error or "") for one in finished.failures]
    return Reproduction(
        points=data,
        values=results_frames.values(results),
        claims=results_frames.claims(results),
        failures=dataset.failures(failed),
        results=cast(written.Results, results),
        out=out,
        report=page,
        interrupted=finished.interrupted,
    )


def _results(
    work: _Work,
    finished: cluster.Finished,
    stored: Mapping[str, Stored],
    users: Mapping[str, Sequence[str]],
    out: Path,
) -> dict[str, Any]:
    paper, scale = work.paper, work.scale
    summaries = {one.name: one.summary for one in api.catalogue().designs}
    for one in stored.values():
        text = f"# {one['config_hash']}\n{one['configuration']}"
        outputs.store(out / "configurations", f"{one['config_hash']}.toml", text)
    cuts = tables.cuts([one for one in work.planned if one.experiment == CUTS], stored, paper)
    costs = tables.cut_costs(cuts)
    made = [_experiment(experiment, work, stored, out) for experiment in work.experiments.values()]
    return {
        "schema": SCHEMA,
        "paper": {"name": paper.name, "title": paper.title, "reference": paper.reference},
        "scale": scale.name,
        "only": work.only.words(),
        "scaled": [
            {"what": one.what, "full": one.full, "quick": one.scaled, "reason": one.reason}
            for one in scale.changes
        ],
        "notes": list(paper.notes),
        "models": [
            {
                "name": model.name,
                "label": model.label,
                "machine": model.machine,
                "assumptions": list(model.assumptions),
            }
            for model in paper.models
        ],
        "version": __version__,
        "core": core_digest(),
        "seed": paper.seed,
        "designs": [
            {"name": one.name, "label": one.label, "summary": _summary(one, summaries)}
            for one in paper.designs
        ],
        "mixes": [{"name": name, "programs": list(names)} for name, names in work.mixes.items()],
        "workloads": [
            {
                "name": entry.name,
                "stands_for": entry.stands_for,
                "kind": entry.kind,
                "summary": entry.summary,
                "available": entry.name not in work.provided.unavailable,
                "reason": work.provided.unavailable.get(entry.name),
            }
            for entry in work.provided.entries.values()
        ],
        "experiments": made,
        "tables": {
            "classes": tables.classes(work.planned, work.provided, stored, scale, paper),
            "bounds": tables.bounds(work.planned, stored, paper),
            "probes": tables.probes(work.probes, work.paper, work.scale, stored),
            "cuts": cuts,
            "beside_cuts": tables.beside_cuts(cuts, made, paper),
            "cut_costs": costs,
            "cut_costs_figure": _drawn(charts.cut_costs(costs), CUTS, out) if costs else None,
        },
        "points": {
            key: {
                "name": one["point"]["name"],
                "design": one["point"]["design"],
                "machine": one["point"]["machine"],
                "overrides": one["point"]["overrides"],
                "config_hash": one["config_hash"],
                "configuration": f"configurations/{one['config_hash']}.toml",
                "cycles": dataset.measured(one)["cycles"],
                "instructions": dataset.measured(one)["instructions"],
            }
            for key, one in sorted(stored.items())
            if one["point"]["campaign"] is None
        },
        "failures": [
            {
                "name": one.point.name,
                "design": one.point.design,
                "overrides": list(one.point.overrides),
                "experiments": list(users[one.key]),
                "reason": one.error,
            }
            for one in sorted(finished.failures, key=lambda one: one.key)
        ],
        "interrupted": finished.interrupted,
    }


def _summary(design: Design, summaries: Mapping[str, str]) -> str:
    """A design in a line, with what is set for it."""
    changed = " ".join((*design.overrides, *design.arguments))
    return f"{summaries.get(design.of, '')}{f' ({changed})' if changed else ''}"


def _experiment(
    experiment: Experiment, work: _Work, stored: Mapping[str, Stored], out: Path
) -> dict[str, Any]:
    found = [_in_model(experiment, work, model, stored) for model in work.paper.in_models]
    chosen = metric(experiment.metric)
    axis = experiment.axis
    files = None
    drawn = [(one.label, one.experiment, one.values, one.averages) for one in found if one.values]
    if drawn:
        chart = charts.experiment(
            drawn, work.paper, factor=work.scale.factor, scale=work.scale.name
        )
        files = _drawn(chart, experiment.name, out)
    return {
        "name": experiment.name,
        "figure": experiment.figure,
        "title": experiment.title,
        "summary": experiment.summary,
        "metric": {
            "name": chosen.name,
            "label": chosen.label,
            "unit": chosen.unit,
            "meaning": chosen.meaning,
            "better": chosen.better,
        },
        "subject": experiment.subject,
        "axis": None
        if axis is None
        else {
            "key": axis.key,
            "label": axis.label,
            "unit": axis.unit,
            "values": list(axis.shown),
        },
        "parts": list(chosen.parts),
        "notes": list(experiment.notes),
        "figure_files": files,
        "metrics": {one.model: one.experiment.metric for one in found if one.model is not None},
        "values": [
            {"model": one.model, **value.as_dict()} for one in found for value in one.values
        ],
        "average": experiment.average,
        "averages": [
            {"model": one.model, **average.as_dict()} for one in found for average in one.averages
        ],
        "claims": [
            _claim(one.experiment.claims[place], one, work)
            for place in range(len(experiment.claims))
            for one in found
        ],
    }


@dataclass(frozen=True)
class _InModel:
    """What came of an experiment in one model, or in the only one."""

    model: str | None
    label: str | None
    experiment: Experiment
    values: Sequence[plan.Value]
    averages: Sequence[claims.Average]


def _in_model(
    experiment: Experiment,
    work: _Work,
    model: declaration.Model | None,
    stored: Mapping[str, Stored],
) -> _InModel:
    name, label = (None, None) if model is None else (model.name, model.label)
    own = experiment.in_model(model)
    mine = [one for one in work.planned if one.experiment == experiment.name and one.model == name]
    values = plan.values(own, work.paper, work.scale, mine, stored)
    return _InModel(name, label, own, values, claims.averages(own, values))


def _drawn(chart: altair.TopLevelMixin, name: str, out: Path) -> dict[str, str]:
    """Draws a figure; its files, relative to `out`."""
    drawn = charts.save(chart, out / "figures" / name)
    kinds = (("svg", "svg"), ("png", "png"), ("vega_lite", "json"))
    return {name: drawn[kind].relative_to(out).as_posix() for name, kind in kinds}


def _claim(claim: claims.Claim, found: _InModel, work: _Work) -> dict[str, Any]:
    factor, name, scale = work.scale.factor, work.paper.name, work.scale.name
    judged = claims.judge(
        claim,
        found.experiment,
        work.paper,
        found.values,
        factor=factor,
        reason=declaration.reasons(name, scale, found.model).get(claim.name),
        mechanism=declaration.mechanisms(name, scale, found.model).get(claim.name),
    )
    low, high = claims.expected(claim, factor if claim.scaled else 1)
    return {
        "id": claim.name,
        "model": found.model,
        "says": claim.says,
        "quotation": claim.quotation,
        "section": claim.section,
        "kind": claim.kind,
        "paper": claim.paper,
        "scaled_by": factor if claim.scaled and factor != 1 else None,
        "expected": {"at_least": low, "at_most": high, "tolerance": claim.tolerance},
        "measured": judged.measured,
        "measured_text": judged.text,
        "verdict": judged.verdict,
        "reason": judged.reason,
        "mechanism": judged.mechanism,
        "shown_by": declaration.shown_by(name, found.model).get(claim.name, []),
    }

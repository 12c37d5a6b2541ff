"""How far the order of a preset's designs hangs on what their paper leaves open.

Always true here: one key of the configuration is varied at a time, around the preset as its
evaluation scales it; every time is relative to the baseline on the same varied machine; a value
that is the preset's own is the preset, and stands in the table once; what comes out follows from
the points alone, so that equal results make an equal table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure import PerdureError, __version__, outputs
from perdure.experiments import claims, cluster, dataset, declaration, plan, programs
from perdure.experiments.cache import Cache, Stored
from perdure.experiments.declaration import Axis, Experiment, Paper, ScaleOf
from perdure.experiments.metrics import metric
from perdure.experiments.toml import Table

FOLDER = Path(__file__).resolve().parent / "sensitivities"
SCALE: declaration.Scale = "quick"
PRESET = "preset"
KEPT = ("sensitivity.json", "results.parquet", "statistics.parquet")

Watch = Callable[[cluster.Outcome, int, int], object]


@dataclass(frozen=True)
class Varied:
    """A key of the configuration, what it is in words, and the values tried."""

    key: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Sensitivity:
    """One preset's table, as it is declared.

    `workloads` run alone, each with why it was chosen; `mix` are several at once, one on each hart.
    `measure` is in instructions of all of a workload's harts (of a mix, the scale's own length
    counts); `overrides` come on top of what the evaluation's scale sets.
    """

    paper: str
    designs: tuple[str, ...]
    metric: str
    workloads: Mapping[str, str]
    mix: tuple[str, ...]
    measure: int
    overrides: tuple[str, ...]
    varied: Sequence[Varied]


@dataclass(frozen=True)
class Found:
    """What came of it: `table` is `sensitivity.json`, `failures` are the points that failed."""

    table: Mapping[str, Any]
    failures: Sequence[cluster.Outcome]
    out: Path
    interrupted: bool


def names() -> list[str]:
    """The presets that have a declaration."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def declared(name: str) -> Sensitivity:
    """A preset's declaration."""
    if name not in names():
        raise PerdureError(
            f"there is no sensitivity of {name!r}: presets that have one: {', '.join(names())}"
        )
    table = Table.read(FOLDER / f"{name}.toml")
    workloads = table.table("workloads")
    varied = []
    for one in table.list_of_tables("vary"):
        varied.append(Varied(one.text("key"), one.text("label"), tuple(one.texts("values"))))
        one.finish()
    made = Sensitivity(
        paper=table.text("paper"),
        designs=tuple(table.texts("designs")),
        metric=table.text("metric"),
        workloads={key: workloads.text(key) for key in workloads.names()},
        mix=tuple(table.texts("mix", ())),
        measure=table.integer("measure_instructions"),
        overrides=tuple(table.texts("set", ())),
        varied=varied,
    )
    table.finish()
    return made


def run(
    name: str,
    out: Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    watch: Watch = lambda _outcome, _done, _total: None,
    say: Callable[[str], object] = lambda _line: None,
) -> Found:
    """Runs a preset's table, and keeps points, data set and `sensitivity.json` in `out`."""
    outputs.check_folder(out, files=KEPT)
    outputs.check_folder(out / "points")
    asked = declared(name)
    paper = declaration.paper(asked.paper)
    scale = replace(
        paper.scales[SCALE],
        overrides=plan.merged(paper.scales[SCALE].overrides, asked.overrides),
        measure=asked.measure,
    )
    provided = _provided(asked, paper, out, say)
    planned = [
        (experiment, plan.plan(experiment, paper, scale, provided, {"mix": asked.mix}))
        for experiment in _experiments(asked, paper.baseline)
    ]
    everything = [one for _, some in planned for one in some]
    finished = cluster.run(
        [one.point for one in everything],
        Cache(out, say),
        scheduler=scheduler,
        workers=workers,
        watch=watch,
    )
    stored = {one.key: one.stored for one in finished.outcomes if one.stored is not None}
    ordered = [stored[key] for key in sorted(stored)]
    dataset.write(dataset.frame([(one, {}) for one in ordered]), ordered, out)
    table = tabulated(name, asked, paper, scale, planned, stored)
    text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
    outputs.store(out, "sensitivity.json", text)
    return Found(table, finished.failures, out, finished.interrupted)


def _provided(
    asked: Sensitivity, paper: Paper, out: Path, say: Callable[[str], object]
) -> programs.Provided:
    """The workloads that the table names, built."""
    wanted = {*asked.workloads, *asked.mix}
    entries = [one for one in programs.catalogue(files=paper.catalogues) if one.name in wanted]
    if missing := sorted(wanted - {one.name for one in entries}):
        raise PerdureError(
            f"there is no workload {', '.join(missing)}: docs/workloads.md lists all"
        )
    # The table's own length counts, whatever the catalogue says.
    entries = [replace(one, sizes={SCALE: replace(one.sizes[SCALE], measure=0)}) for one in entries]
    provided = programs.provide(entries, [SCALE], out, report=say)
    if provided.unavailable:
        raise PerdureError(f"not available here: {', '.join(provided.unavailable)}")
    return provided


def _experiments(asked: Sensitivity, baseline: str) -> Iterator[Experiment]:
    """The preset, then each key that is varied; of workloads, and of the mix."""
    for varied in (None, *asked.varied):
        yield _experiment(asked, baseline, varied, "workload")
        if asked.mix:
            yield _experiment(asked, baseline, varied, "mix")


def _experiment(
    asked: Sensitivity, baseline: str, varied: Varied | None, subject: str
) -> Experiment:
    axis = None
    if varied is not None:
        # Places on the axis are numbers; here they are the values' places in the declaration.
        places = tuple(float(place) for place in range(len(varied.values)))
        axis = Axis(varied.key, varied.label, "", False, varied.values, places)
    return Experiment(
        name=PRESET if varied is None else varied.key,
        figure="",
        title="",
        summary="",
        subject="mix" if subject == "mix" else "workload",
        designs=asked.designs,
        metric=asked.metric,
        baseline=baseline,
        average="geometric-mean",
        chart="bars",
        slices=None,
        axis=axis,
        relative_to=None,
        overrides=(),
        subjects=("mix",) if subject == "mix" else tuple(asked.workloads),
        warm_up_epochs=None,
        measure_epochs=None,
        repeat=False,
        baseline_at_least=0.0,
        notes=(),
        claims=(),
    )


@dataclass
class _Setting:
    """One line of the table while it is made."""

    points: set[str]
    times: dict[str, dict[str, float]]


def tabulated(
    name: str,
    asked: Sensitivity,
    paper: Paper,
    scale: ScaleOf,
    planned: Sequence[tuple[Experiment, Sequence[plan.Planned]]],
    stored: Mapping[str, Stored],
) -> dict[str, Any]:
    """`sensitivity.json`: the preset first, then every other setting, with means and ranks."""
    found: dict[tuple[str, float | None], _Setting] = {}
    for experiment, points in planned:
        for one in points:
            here = found.setdefault((experiment.name, one.axis), _Setting(set(), {}))
            here.points.add(one.point.key())
        for number in plan.values(experiment, paper, scale, points, stored):
            here = found[experiment.name, number.axis]
            here.times.setdefault(number.design, {})[number.subject] = number.value
    preset = found.pop((PRESET, None))
    lines = [_line(asked, PRESET, "", preset)]
    own: dict[str, str] = {}
    for varied in asked.varied:
        for place, value in enumerate(varied.values):
            setting = found[varied.key, float(place)]
            if setting.points == preset.points:
                own[varied.key] = value
            else:
                lines.append(_line(asked, varied.key, value, setting))
    return {
        "schema": 1,
        "preset": name,
        "version": __version__,
        "scale": {"name": scale.name, "set": list(scale.overrides)},
        "harts": paper.harts or 1,
        "baseline": paper.baseline,
        "designs": [{"name": one, "label": paper.label(one)} for one in asked.designs],
        "metric": {"name": asked.metric, "meaning": metric(asked.metric).meaning},
        "workloads": [{"name": key, "why": why} for key, why in asked.workloads.items()],
        "mix": list(asked.mix),
        "measure_instructions": asked.measure,
        "varied": [
            {"key": one.key, "label": one.label, "preset": own.get(one.key)} for one in asked.varied
        ],
        "settings": lines,
    }


def _line(asked: Sensitivity, key: str, value: str, setting: _Setting) -> dict[str, Any]:
    """A setting with each design's times, their geometric mean, and its rank among the designs.

    A design that lacks a subject, because a point failed, has neither mean nor rank.
    """
    subjects = len(asked.workloads) + bool(asked.mix)
    means = {
        design: claims.reduce(list(times.values()), "geometric-mean")
        for design, times in setting.times.items()
        if len(times) == subjects
    }
    ranks = {
        design: 1 + sum(other < mean for other in means.values()) for design, mean in means.items()
    }
    return {
        "key": key,
        "value": value,
        "designs": {
            design: {
                "mean": means.get(design),
                "rank": ranks.get(design),
                "subjects": setting.times.get(design, {}),
            }
            for design in asked.designs
        },
    }

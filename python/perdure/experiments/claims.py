"""Claims: from an experiment's values to verdicts.

Always true here: a verdict follows from the declared claim and the values alone; a claim whose
values are not all there is not comparable, never guessed; an average names how it was made.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from perdure.experiments.claim import Claim as Claim
from perdure.experiments.declaration import Experiment, Paper
from perdure.experiments.measured import rounded
from perdure.experiments.metrics import metric
from perdure.experiments.plan import OfSeeds, Value

Verdict: TypeAlias = Literal["holds", "differs", "not comparable"]

TOTAL = "total"
"""A part that a claim may name: the sum of all parts."""


@dataclass(frozen=True)
class Judged:
    """What came of a claim. `mechanism`: it holds, but for another reason than the paper's."""

    measured: float | None
    text: str
    verdict: Verdict
    reason: str | None
    mechanism: str | None = None


@dataclass(frozen=True)
class Average(OfSeeds):
    """A design's values reduced over the subjects."""

    design: str
    axis: float | None
    part: str | None
    value: float


def reduce(values: Sequence[float], how: str, limit: float | None = None) -> float:
    """Some values as one: `how` is one of `claim.REDUCTIONS`."""
    if how == "maximum":
        return max(values)
    if how == "minimum":
        return min(values)
    if how == "median":
        return statistics.median(values)
    if how == "deviation":
        return statistics.pstdev(values)
    if how == "spread":
        return max(values) / min(values) if min(values) > 0 else math.inf
    if how == "mean":
        return math.fsum(values) / len(values)
    if how == "share-below":
        return sum(value < (limit or 0.0) for value in values) / len(values)
    if min(values) <= 0:
        return 0.0
    return rounded(math.exp(math.fsum(map(math.log, values)) / len(values)))


def averages(experiment: Experiment, values: Sequence[Value]) -> list[Average]:
    """Every design's average over the subjects, at each place of the axis, for each part."""
    places = dict.fromkeys((one.design, one.axis, one.part) for one in values)
    found = []
    for design, axis, part in places:
        own = [one for one in values if (one.design, one.axis, one.part) == (design, axis, part)]
        chosen = [one.value for one in own]
        positive = experiment.average != "geometric-mean" or min(chosen) > 0
        how = experiment.average if positive else "mean"
        # A seed that is missing somewhere has no average.
        same = zip(*(one.of_seeds for one in own), strict=False)
        of_seeds = tuple(reduce(seed, how) for seed in same)
        found.append(Average(design, axis, part, reduce(chosen, how), of_seeds=of_seeds))
    return found


def judge(
    claim: Claim,
    experiment: Experiment,
    paper: Paper,
    values: Sequence[Value],
    *,
    factor: int,
    reason: str | None,
    mechanism: str | None = None,
) -> Judged:
    """The verdict on a claim. `factor` divides the limits of claims about scaled amounts."""
    if not claim.designs and claim.not_comparable is not None:
        return Judged(None, "–", "not comparable", claim.not_comparable)
    if claim.greatest_subject or claim.least_subject:
        return _of_subjects(claim, values, reason, mechanism)
    divisor = factor if claim.scaled else 1
    limit = None if claim.limit is None else claim.limit / divisor
    measured = {
        design: _measured(claim, experiment, design, values, limit) for design in claim.designs
    }
    missing = [paper.label(design) for design, value in measured.items() if value is None]
    if missing:
        return Judged(None, "–", "not comparable", f"there are no values of {', '.join(missing)}")
    known = {design: value for design, value in measured.items() if value is not None}
    unit = _unit(claim, experiment)
    text = ", ".join(
        f"{paper.label(design)} {_number(value)}{unit}" for design, value in known.items()
    )
    if claim.kind == "ordering":
        number = None
        holds = _ordered(claim, known)
    else:
        number = reduce(list(known.values()), claim.among)
        holds = _within(claim, number, divisor)
        if len(known) > 1:
            text = f"{_number(number)}{unit} ({text})"
    if claim.not_comparable is not None:
        return Judged(number, text, "not comparable", claim.not_comparable)
    if holds:
        return Judged(number, text, "holds", None, mechanism)
    return Judged(number, text, "differs", reason or "no explanation has been written yet")


def _of_subjects(
    claim: Claim, values: Sequence[Value], reason: str | None, mechanism: str | None
) -> Judged:
    """The verdict on a claim that one subject has most, or least, of all."""
    rows: dict[tuple[str, float | None], dict[str, float]] = {}
    for one in values:
        if one.design in claim.designs and claim.at in (None, one.axis):
            rows.setdefault((one.design, one.axis), {})[one.subject] = one.value
    chosen = claim.greatest_subject or claim.least_subject or ""
    missing = [row for row in rows.values() if chosen not in row or len(row) < 2]
    if missing or not rows:
        return Judged(None, "–", "not comparable", f"there are no values of {chosen} beside others")
    pick = max if claim.greatest_subject else min
    found = [pick(row, key=row.__getitem__) for row in rows.values()]
    held = sum(
        abs(row[chosen] - row[first]) <= abs(row[first]) * claim.tolerance
        for row, first in zip(rows.values(), found, strict=True)
    )
    others = ", ".join(sorted(set(found) - {chosen}))
    text = f"{held} of {len(rows)} places" + (f" (elsewhere {others})" if held < len(rows) else "")
    number = held / len(rows)
    if claim.not_comparable is not None:
        return Judged(number, text, "not comparable", claim.not_comparable)
    if held == len(rows):
        return Judged(number, text, "holds", None, mechanism)
    return Judged(number, text, "differs", reason or "no explanation has been written yet")


def _measured(
    claim: Claim,
    experiment: Experiment,
    design: str,
    values: Sequence[Value],
    limit: float | None,
) -> float | None:
    """What a claim measures of one design."""
    own = _related(claim, [one for one in values if one.design == design], values)
    if not claim.change:
        chosen = [one for one in own if claim.at is None or one.axis == claim.at]
        return _reduced(claim, chosen, limit)
    axis = experiment.axis
    if axis is None:
        return None
    begin = axis.shown[0] if claim.since is None else claim.since
    first, last = (
        _reduced(claim, [one for one in own if one.axis == place], limit)
        for place in (begin, axis.shown[-1])
    )
    if first is None or last is None or (claim.relative_change and not first):
        return None
    return last / first - 1 if claim.relative_change else last - first


def _related(claim: Claim, own: list[Value], values: Sequence[Value]) -> list[Value]:
    """A design's values over another's, or the other's over them, where the claim relates them."""
    if claim.relative is None:
        return own
    others = {
        (one.subject, one.axis, one.part): one.value
        for one in values
        if one.design == claim.relative
    }
    found = []
    for one in own:
        other = others.get((one.subject, one.axis, one.part))
        over, under = (other, one.value) if claim.inverse else (one.value, other)
        if over is not None and under:
            found.append(replace(one, value=rounded(over / under)))
    return found


def _reduced(claim: Claim, values: Iterable[Value], limit: float | None) -> float | None:
    """The claim's part of the values, reduced over subjects, and along the axis."""
    by_axis: dict[float | None, dict[str, list[float]]] = {}
    for one in values:
        if one.subject in claim.apart_from or (claim.of and one.subject not in claim.of):
            continue
        chosen = claim.parts or (claim.part,)
        if chosen in ((None,), (TOTAL,)) or one.part in chosen:
            by_axis.setdefault(one.axis, {}).setdefault(one.subject, []).append(one.value)
    if not by_axis:
        return None
    found = [
        reduce([math.fsum(parts) for parts in subjects.values()], claim.over, limit)
        for subjects in by_axis.values()
    ]
    if claim.along is not None:
        return reduce(found, claim.along)
    return min(found) if claim.among == "minimum" else max(found)


def _within(claim: Claim, value: float, divisor: int) -> bool:
    """Whether a value is within what the claim expects."""
    low, high = expected(claim, divisor)
    return (low is None or value >= low - abs(low) * claim.tolerance) and (
        high is None or value <= high + abs(high) * claim.tolerance
    )


def expected(claim: Claim, divisor: int) -> tuple[float | None, float | None]:
    """The claim's limits, divided where they are amounts that the scale divides."""
    # The limit of a share is divided, not the share.
    own = 1 if claim.over == "share-below" else divisor
    low = None if claim.at_least is None else claim.at_least / own
    high = None if claim.at_most is None else claim.at_most / own
    return low, high


def _ordered(claim: Claim, values: Mapping[str, float]) -> bool:
    """Whether the designs stand in the claimed order."""

    def at_least(one: float, other: float) -> bool:
        return one >= other - abs(other) * claim.tolerance

    chain = [values[design] for design in claim.ordering]
    return (
        all(at_least(later, earlier) for earlier, later in itertools.pairwise(chain))
        and (
            claim.greatest is None
            or all(at_least(values[claim.greatest], one) for one in values.values())
        )
        and (
            claim.least is None
            or all(at_least(one, values[claim.least]) for one in values.values())
        )
    )


def _unit(claim: Claim, experiment: Experiment) -> str:
    if claim.over == "share-below":
        return ""
    if claim.relative_change:
        return " of the first"
    return " ×" if claim.relative else f" {metric(experiment.metric).unit}"


def _number(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if magnitude < 10 else f"{value:.1f}"

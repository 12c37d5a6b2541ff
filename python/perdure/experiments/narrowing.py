"""A part of a paper's experiments: some workloads, some designs, some places of an axis.

Always true here: what is left of an experiment says so in its notes, and one that has nothing of
the part asked for is left out; a name that there is not is refused with those that there are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perdure import PerdureError
from perdure.experiments.declaration import Axis, Experiment, Paper
from perdure.experiments.declared_probes import Probe
from perdure.experiments.programs import Entry


@dataclass(frozen=True)
class Only:
    """What alone is to run; whatever is empty is not narrowed.

    `subjects` are workloads and mixes, `designs` the paper's names, `places` numbers of an axis as
    figures show them.
    """

    subjects: Sequence[str] = ()
    designs: Sequence[str] = ()
    places: Sequence[float] = ()

    def chooses(self, probe: Probe, paper: Paper, designs: Collection[str]) -> bool:
        """Whether a probe is to run, on a core that has these designs."""
        wanted = probe.subject in (self.subjects or [probe.subject])
        return wanted and paper.design(probe.design).of in designs

    def words(self) -> list[str]:
        """All of it, as was asked."""
        return [*self.subjects, *self.designs, *map(_number, self.places)]


def panels(figure: str, names: Sequence[str]) -> list[str]:
    """An experiment's name, or those of all panels of a figure that stands for several."""
    if figure in names:
        return [figure]
    found = [one for one in names if re.fullmatch(rf"{re.escape(figure)}\D.*", one)]
    return found if re.fullmatch(r"fig\d+", figure) and found else [figure]


def narrowed(
    experiments: Mapping[str, Experiment],
    only: Only,
    paper: Paper,
    entries: Mapping[str, Entry],
    mixes: Mapping[str, Sequence[str]],
) -> dict[str, Experiment]:
    """That part of the experiments alone."""
    places = {place for one in experiments.values() if one.axis for place in one.axis.shown}
    _check("subject", only.subjects, [*entries, *mixes])
    _check("design", only.designs, [one.name for one in paper.designs])
    _check("place of an axis", map(_number, only.places), map(_number, sorted(places)))
    made = {}
    for name, experiment in experiments.items():
        known: Iterable[str] = mixes if experiment.subject == "mix" else entries
        subjects = tuple(one for one in only.subjects if one in (experiment.subjects or known))
        designs = tuple(one for one in experiment.designs if one in only.designs)
        axis = experiment.axis and _at(experiment.axis, only.places)
        parts = [
            *([subjects] if only.subjects else []),
            *([designs] if only.designs else []),
            *([[*map(_number, axis.shown)]] if axis and only.places else []),
        ]
        if all(parts):
            said = "; ".join(", ".join(one) for one in parts)
            note = [f"Only {said}: verdicts here are on that alone."] if parts else []
            made[name] = replace(
                experiment,
                subjects=subjects or experiment.subjects,
                designs=designs or experiment.designs,
                axis=axis,
                notes=(*experiment.notes, *note),
            )
    return made


def _at(axis: Axis, places: Collection[float]) -> Axis:
    """These places of an axis alone, or all of them."""
    kept = [at for at, place in enumerate(axis.shown) if not places or place in places]

    def of(settings: Sequence[str]) -> tuple[str, ...]:
        return tuple(settings[at] for at in kept)

    own = {subject: of(settings) for subject, settings in axis.of.items()}
    shown = tuple(axis.shown[at] for at in kept)
    return replace(axis, settings=of(axis.settings), shown=shown, of=own)


def _number(place: float) -> str:
    return f"{place:g}"


def _check(kind: str, asked: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    unknown = [one for one in asked if one not in names]
    if unknown:
        raise PerdureError(
            f"there is no {kind} {', '.join(unknown)}: there are {', '.join(names) or 'none'}"
        )


EVERYTHING = Only()

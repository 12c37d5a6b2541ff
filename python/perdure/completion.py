"""What a shell may complete: names that this build knows, and keys of the configuration.

Always true here: what is offered is asked of the core at that moment; where the core refuses, as
for a machine file that is half written, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import typer

from perdure import PerdureError, api, experiments

Offer = tuple[str, str]
"""A word, and what it means."""


def designs(incomplete: str) -> Iterator[Offer]:
    """Designs, also as the last of several."""
    yield from _last_of(incomplete, [(one.name, one.summary) for one in api.catalogue().designs])


def machines(incomplete: str) -> Iterator[Offer]:
    """Machine presets."""
    known = api.catalogue().machines
    yield from _starting([(one.name, one.summary) for one in known], incomplete)


def keys(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Keys of the configuration of the machine that the command line names, each with its value."""
    given = {
        name: context.params[name] for name in ("machine", "design") if context.params.get(name)
    }
    if not isinstance(given.get("design", ""), str):
        del given["design"]
    with suppress(PerdureError):
        for key, one in api.Machine(**given).configuration().raw["values"].items():
            if not key.startswith(incomplete.partition("=")[0]):
                continue
            meaning = one["meaning"] or one["unit"]
            yield f"{key}=", meaning
            # A second word keeps a shell from putting a space behind the first one.
            yield f"{key}={_spelled(one['value'])}", meaning


def bugs(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Planted bugs of the design that the command line names."""
    wanted = context.params.get("design") or "picl"
    for design in api.catalogue().designs:
        if design.name == wanted:
            known = [(bug["name"], bug["summary"]) for bug in design.raw["planted_bugs"]]
            yield from _starting(known, incomplete)


def papers(incomplete: str) -> Iterator[Offer]:
    """Papers that can be reproduced."""
    yield from _starting([(name, "") for name in experiments.papers()], incomplete)


def presets_varied(incomplete: str) -> Iterator[Offer]:
    """Presets whose sensitivity can be measured."""
    yield from _starting([(name, "") for name in experiments.presets_varied()], incomplete)


def figures(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Experiments of the paper that the command line names."""
    from perdure.experiments import declaration

    with suppress(PerdureError):
        known = declaration.experiments(context.params["paper"], "quick").items()
        yield from _starting([(name, one.title) for name, one in known], incomplete)


def bugs_of(groups: tuple[str, ...]) -> Callable[[str], Iterator[Offer]]:
    """Designs with planted bugs, and what else has some."""

    def complete(incomplete: str) -> Iterator[Offer]:
        known = [one for one in api.catalogue().designs if one.raw["planted_bugs"]]
        names = [(one.name, one.summary) for one in known]
        yield from _starting([*names, *((group, "") for group in groups)], incomplete)

    return complete


def _starting(known: list[Offer], incomplete: str) -> Iterator[Offer]:
    yield from (one for one in known if one[0].startswith(incomplete))


def _last_of(incomplete: str, known: list[Offer]) -> Iterator[Offer]:
    """The same for the last word of a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    yield from ((before + comma + name, help_) for name, help_ in _starting(known, last))


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

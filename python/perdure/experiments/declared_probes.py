"""Probes as they are declared: experiments that show a reason.

Always true here: a declaration is data and names no result.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.experiments.toml import Table


@dataclass(frozen=True)
class Probe:
    """An experiment that shows a reason: a figure's own run of one design, and one thing changed.

    What the `figure` measures of `subject` under `design` (of the `part`, at the axis value `at`)
    is measured with further `overrides`, or with other `arguments`, and stands beside what it is
    without.
    """

    name: str
    says: str
    figure: str
    model: str | None
    subject: str
    design: str
    part: str | None
    at: float | None
    overrides: tuple[str, ...]
    arguments: tuple[str, ...]


def read_probes(probes: Table, scale: str) -> dict[str, Probe]:
    """All of a paper's `probes.toml` that change something at a scale, by name."""
    found = {}
    for probe, table in probes.tables():
        own = {}
        for size, one in ((size, table.optional_table(size)) for size in ("quick", "full")):
            if one is not None:
                own[size] = tuple(one.texts("set", ())), tuple(one.texts("arguments", ()))
                one.finish()
        overrides, arguments = own.get(scale, ((), ()))
        made = Probe(
            name=probe,
            says=table.text("says"),
            figure=table.text("figure"),
            model=table.text("model", "") or None,
            subject=table.text("subject"),
            design=table.text("design"),
            part=table.text("part", "") or None,
            at=table.number("at", None),
            overrides=overrides,
            arguments=arguments,
        )
        table.finish()
        if scale in own:
            found[probe] = made
    return found

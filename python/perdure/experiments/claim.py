"""Claims as they are declared: what a paper says, of what of an experiment, and with which limits.

Always true here: a claim quotes its paper and says where; one without limits says why it is not
judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from perdure.experiments.toml import Table

REDUCTIONS = (
    "maximum",
    "minimum",
    "mean",
    "median",
    "geometric-mean",
    "deviation",
    "spread",
    "share-below",
)


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    What is measured: the values of `designs` (at the axis value `at`, of the `part`) are reduced
    over the subjects, or those that are `of`, or all that are not `apart_from`, by `over` (`limit`
    belongs to `share-below`), over an axis by `along` (without it, the worst counts), and then over
    the designs by `among`; with `change`, what is reduced is the rise from the axis' first value,
    or from that at `since`, to its last.
    Before anything is reduced, values are divided by those of the design `relative`, or with
    `inverse` those of `relative` by them; with `relative_change`, a rise is a fraction of the first
    value. Of the parts, one is the `part`, and several are the `parts`.
    A `value` claim holds if that is within [`at_least`, `at_most`], each widened by the fraction
    `tolerance`. An `ordering` claim holds if each of the designs in `ordering` has at least as much
    as the one before it, or if `greatest` (`least`) has at least (at most) as much as every other,
    give or take the tolerance; with `greatest_subject` (`least_subject`), if that subject has at
    least (at most) as much as every other, under each design and at each place of the axis.
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
    parts: tuple[str, ...] = ()
    relative: str | None = None
    inverse: bool = False
    relative_change: bool = False
    since: float | None = None
    greatest_subject: str | None = None
    least_subject: str | None = None


def paper_says(judged: Mapping[str, Any], scale: str) -> str:
    """The paper's value, and where it is of an amount that a scale divides, by how much.

    `judged` is a claim of `results.json`; one of an older build has no `scaled_by`.
    """
    factor = judged.get("scaled_by")
    return f"{judged['paper']} (÷ {factor} at {scale})" if factor else str(judged["paper"])


def read_claim(table: Table, designs: Sequence[str], scale: str) -> Claim:
    """One `[[claim]]` of an experiment with these designs, for a scale."""
    never = table.text("not_comparable", "")
    not_comparable = {
        one: table.text(f"not_comparable_{one}", "") or never for one in ("quick", "full")
    }
    ordering = tuple(table.texts("ordering", ()))
    extremes = ("greatest", "least", "greatest_subject", "least_subject")
    extreme = any(table.text(one, "") for one in extremes)
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
        parts=tuple(table.texts("parts", ())),
        relative=table.text("relative", "") or None,
        inverse=table.flag("inverse"),
        relative_change=table.flag("relative_change"),
        since=table.number("since", None),
        greatest_subject=table.text("greatest_subject", "") or None,
        least_subject=table.text("least_subject", "") or None,
    )
    bounded = made.at_least is not None or made.at_most is not None
    if made.kind == "value" and not bounded and made.not_comparable is None:
        raise table.wrong(
            "at_most", "or `at_least`, `value`, `ordering`, `greatest` or `least` must be given"
        )
    table.finish()
    return made

"""Two results of `perdure bench speed` compared: which figures moved beyond the noise.

Always true here: a figure is processor time over that of the calibration that stood beside it,
never seconds alone; how far figures of equal builds lie apart is taken from the runs themselves, of
the earlier call and of this one; both results are read alike, as the JSON that they are.

The rule. A run's ratio is its time over the mean of the calibration before it and after it; a
figure's is the median of its runs'. A run could as well be seen beside either calibration alone:
the figure's spread is from the least ratio of any run to the greatest, over the figure. A figure
has moved where the larger of the two calls' figures exceeds the smaller by a greater part than both
spreads together.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from perdure import PerdureError, documents, outputs
from perdure.tables import table

if TYPE_CHECKING:
    from perdure.bench_results import (
        BenchSpeed,
        CalibratedRun,
        SpeedCompared,
        SpeedComparison,
        SpeedOfCase,
    )

RUNS = 3
"""Of each figure, at least: two runs say little of how far a third may lie apart."""
Under: TypeAlias = Literal["ideal", "picl", "out-of-order", "qemu"]
UNDER: tuple[Under, ...] = ("ideal", "picl", "out-of-order", "qemu")
SAME_INSTRUCTIONS = 1e-3
"""By how much the instructions of equal programs may differ: threads that wait spin."""

Place: TypeAlias = tuple[str, str]
"""A figure: the program, and under what it ran."""


@dataclass(frozen=True)
class Figure:
    """A billion instructions in calibrations, and how far its runs lie apart."""

    ratio: float
    spread: float
    instructions: int


def figure(runs: Sequence[CalibratedRun], instructions: int) -> Figure:
    """One figure of one call."""
    beside = [sorted((one["before_seconds"], one["after_seconds"])) for one in runs]
    seconds = [one["seconds"] for one in runs]
    middle = statistics.median(
        took / statistics.mean(both) for took, both in zip(seconds, beside, strict=True)
    )
    least = min(took / slow for took, (_, slow) in zip(seconds, beside, strict=True))
    most = max(took / quick for took, (quick, _) in zip(seconds, beside, strict=True))
    return Figure(middle * 1e9 / instructions, (most - least) / middle, instructions)


def figures(result: BenchSpeed) -> dict[Place, Figure]:
    """All figures of one call."""
    return {(case["name"], under): one for case in result["cases"] for under, one in _of(case)}


def _of(case: SpeedOfCase) -> Iterator[tuple[str, Figure]]:
    for under in UNDER:
        if under == "qemu":
            if case["qemu"] is not None:
                yield under, figure(case["qemu"]["runs"], case["ideal"]["instructions"])
        else:
            yield under, figure(case[under]["runs"], case[under]["instructions"])


def moved(earlier: Figure, now: Figure) -> Literal["slower", "faster"] | None:
    """The rule."""
    apart = max(now.ratio / earlier.ratio, earlier.ratio / now.ratio) - 1
    if apart <= earlier.spread + now.spread:
        return None
    return "slower" if now.ratio > earlier.ratio else "faster"


def compare(earlier: BenchSpeed, now: BenchSpeed, file: str) -> SpeedComparison:
    """Figures of this call beside the earlier ones of `file`, and what else differs."""
    before, after = figures(earlier), figures(now)
    compared: list[SpeedCompared] = [
        {
            "name": place[0],
            "under": place[1],
            "earlier_ratio": before[place].ratio,
            "ratio": one.ratio,
            "change": one.ratio / before[place].ratio - 1,
            "noise": before[place].spread + one.spread,
            "moved": moved(before[place], one),
        }
        for place, one in after.items()
        if place in before
    ]
    return {
        "against": file,
        "remarks": [*_differences(earlier, now), *_of_programs(before, after), *_of_qemu(compared)],
        "figures": compared,
    }


def _differences(earlier: BenchSpeed, now: BenchSpeed) -> Iterator[str]:
    """What was not the same, so that a figure may have moved for that reason."""
    named = {
        "processor": "the processor",
        "processors": "the number of processors",
        "python": "the Python of the calibration",
        "build": "the build",
        "timing_version": "the timing version",
    }
    there, here = cast(dict[str, Any], earlier["host"]), cast(dict[str, Any], now["host"])
    for key, what in named.items():
        if there[key] != here[key]:
            yield f"{what} is another: {there[key]} earlier, {here[key]} now"
    if earlier["compiler"] != now["compiler"]:
        compilers = f"{earlier['compiler']} earlier, {now['compiler']} now"
        yield f"the programs' compiler is another: {compilers}"


def _of_programs(before: dict[Place, Figure], after: dict[Place, Figure]) -> Iterator[str]:
    """Figures that only one call has, and programs that are no longer the same."""
    for place in [*before, *(one for one in after if one not in before)]:
        name = f"{place[0]} under {place[1]}"
        if place not in after or place not in before:
            yield f"{name} was measured {'earlier' if place in before else 'now'} only"
            continue
        old, new = before[place].instructions, after[place].instructions
        if abs(new / old - 1) > SAME_INSTRUCTIONS:
            yield f"{name} is another program: {old:,} instructions earlier, {new:,} now"


def _of_qemu(compared: Sequence[SpeedCompared]) -> Iterator[str]:
    """No change of the simulator moves qemu: where it moved, the host is not what it was."""
    names = [one["name"] for one in compared if one["under"] == "qemu" and one["moved"]]
    if names:
        yield f"qemu moved, too, which is the host's doing: {', '.join(names)}"


def load(file: Path, engine: str) -> BenchSpeed:
    """An earlier result with which one can be compared.

    Raises:
        PerdureError: it is none.
    """
    from perdure import bench_results

    named = f"--against {outputs.shown(file)}"
    remedy = f"make one with: perdure bench speed --repeat {RUNS} --json FILE"
    document = documents.read(file, named, remedy)
    if not isinstance(document, dict) or not {"cases", "repeat", "compiler"} <= set(document):
        raise PerdureError(f"{named} is no result of perdure bench speed; {remedy}")
    if "calibration" not in document:
        raise PerdureError(f"{named} is of an older version, without a calibration; {remedy}")
    document.setdefault("engine", "fast")  # There was no choice.
    try:
        result = msgspec.convert(document, bench_results.BenchSpeed)
    except msgspec.ValidationError as error:
        raise PerdureError(f"{named} is no result of this version: {error}; {remedy}") from error
    if result["engine"] != engine:
        raise PerdureError(
            f"{named} was measured with --engine {result['engine']}, and this would be with "
            f"--engine {engine}: measure both with one"
        )
    _check(result, named, remedy)
    return result


def _check(result: BenchSpeed, named: str, remedy: str) -> None:
    """Refuses a result whose noise cannot be known, and numbers that nothing can be divided by."""
    if not result["cases"]:
        raise PerdureError(f"{named} has no measured program; {remedy}")
    for case in result["cases"]:
        for under in UNDER:
            one = case[under]
            if one is None:
                continue
            runs = one["runs"]
            if len(runs) < RUNS:
                raise PerdureError(
                    f"{named} has {len(runs)} of {RUNS} runs of {case['name']} under {under}, too "
                    f"few to say how much they vary; {remedy}"
                )
            times = [time for run in runs for time in cast(dict[str, float], run).values()]
            if min(*times, case["ideal"]["instructions"], case["picl"]["instructions"]) <= 0:
                raise PerdureError(f"{named} has a time that is not positive: {case['name']}")


def tables(comparison: SpeedComparison) -> RenderableType:
    """The comparison for people."""
    made = table(
        f"against {escape(outputs.shown(comparison['against']))}, in calibrations",
        *("program", "under", "change", "noise", "moved"),
        left=2,
        keys=2,
    )
    for one in comparison["figures"]:
        style = {"slower": "red", "faster": "green", None: "dim"}[one["moved"]]
        made.add_row(
            escape(one["name"]),
            one["under"],
            f"{one['change']:+.1%}",
            f"±{one['noise']:.1%}",
            Text(one["moved"] or "–", style=style),
        )
    remarks = (Text(f"· {remark}") for remark in comparison["remarks"])
    return Group(made, *remarks, Text(verdict(comparison), style="bold"))


def verdict(comparison: SpeedComparison) -> str:
    """What the comparison comes to, in one line."""
    counts = {
        word: sum(one["moved"] == word for one in comparison["figures"])
        for word in ("slower", "faster")
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    number = len(comparison["figures"])
    if not said:
        return f"none of {number} figures moved beyond the noise of both calls"
    return f"{said} of {number} figures, beyond the noise of both calls"

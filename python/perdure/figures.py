"""Figures: PNG for a page, HTML for a browser, both from one specification.

Always true here: a figure shows measured values with units, carries the machine and configuration
in its subtitle, needs no network to be looked at, and is made without a display.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from perdure import PerdureError, extras
from perdure.api import RunResult
from perdure.outputs import written

with extras.need_reports("a figure"):
    import altair

KINDS = ("data", "log", "metadata", "context")
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")
PIXELS_PER_POINT = 2.0


def cost(results: Sequence[RunResult], title: str) -> altair.VConcatChart:
    """What designs cost: simulated time, and bytes written to NVM by what they were for."""
    order = [result.design for result in results]
    base = results[0].sim.cycles or 1
    time = altair.Chart(
        _rows(
            {
                "design": result.design,
                "cycles": result.sim.cycles,
                "label": f"{result.sim.cycles / base:.3f} ×",
            }
            for result in results
        )
    ).encode(
        y=altair.Y("design:N", sort=order, title=None),
        x=altair.X("cycles:Q", title="simulated time (cycles)", axis=altair.Axis(format="~s")),
    )
    bars = time.mark_bar(color="#79706e")
    labels = time.mark_text(align="left", dx=4).encode(text="label:N")
    traffic = (
        altair.Chart(
            _rows(
                {
                    "design": result.design,
                    "kind": kind,
                    "order": index,
                    "megabytes": getattr(result.nvm.written_bytes, kind) / 1e6,
                }
                for result in results
                for index, kind in enumerate(KINDS)
            )
        )
        .mark_bar()
        .encode(
            y=altair.Y("design:N", sort=order, title=None),
            x=altair.X("megabytes:Q", title="written to NVM (MB)"),
            color=altair.Color(
                "kind:N",
                title="written for",
                scale=altair.Scale(domain=list(KINDS), range=list(COLOURS)),
            ),
            order="order:Q",
            tooltip=["design:N", "kind:N", "megabytes:Q"],
        )
    )
    panel = {"width": 460, "height": 36 * len(results) + 14}
    subtitle = [f"machine {results[0].machine}; relative to {results[0].design}; lower is better"]
    return altair.vconcat(
        (bars + labels).properties(title="time", **panel),
        traffic.properties(title="endurance", **panel),
        title=altair.TitleParams(title, subtitle=subtitle, anchor="start"),
    )


def save(chart: altair.VConcatChart, stem: Path) -> tuple[Path, Path]:
    """Writes `stem`.png and `stem`.html and returns both paths.

    Raises:
        PerdureError: the host does not take them.
    """
    png, html = stem.with_suffix(".png"), stem.with_suffix(".html")
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with written(png) as file:
            chart.save(str(file), scale_factor=PIXELS_PER_POINT)
        with written(html) as file:
            chart.save(str(file), inline=True)
    except OSError as error:
        raise PerdureError(f"cannot draw {stem}: {error}") from error
    return png, html


def _rows(rows: Iterable[Mapping[str, object]]) -> altair.InlineData:
    return altair.InlineData(values=list(rows))

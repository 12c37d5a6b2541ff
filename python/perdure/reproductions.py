"""A paper's experiments, as one plain call.

Always true here: nothing heavy is imported before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perdure import api, extras, notebook, requests
from perdure.sweeps import Watch

if TYPE_CHECKING:
    from perdure.experiments.reproduction import Reproduction


@extras.need_reports("a reproduction")
def reproduce(
    paper: str = "picl",
    figures: Sequence[str] = (),
    *,
    scale: Literal["quick", "full"] = "quick",
    subjects: Sequence[str] = (),
    designs: Sequence[str] = (),
    at: float | Sequence[float] = (),
    out: api.Path | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    sysroot: api.Path | None = None,
    watch: Watch | None = None,
    say: Callable[[str], object] | None = None,
) -> Reproduction:
    """Runs the experiments of a paper, all or some `figures`, and judges its claims.

    `scale` is `quick` (a machine and data scaled down) or `full` (the paper's lengths). With
    `subjects`, `designs` or places `at` which axes are looked at, only these workloads and mixes,
    designs and places run, and claims are judged on these alone. Results, figures and
    `report.html` go to `out`, `out/PAPER-SCALE` without; what it has already is not run again. The
    points run `workers` at a time here, or on the Dask cluster whose `scheduler` is named.
    `sysroot` is a folder of Debian packages made before. `watch` is called with every outcome,
    `say` with lines about what is done.
    """
    from perdure.experiments import narrowing, reproduction

    with notebook.watching(paper, watch) as watched:
        return reproduction.reproduce(
            paper,
            requests.texts(figures, ","),
            scale,
            Path(f"out/{paper}-{scale}") if out is None else Path(out),
            only=narrowing.Only(
                requests.texts(subjects, ","),
                requests.texts(designs, ","),
                [at] if isinstance(at, int | float) else at,
            ),
            scheduler=scheduler,
            workers=workers,
            sysroot=None if sysroot is None else Path(sysroot),
            watch=watched,
            say=say or (lambda _line: None),
        )

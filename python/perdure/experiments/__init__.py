"""Experiments: declared points, run on any Dask cluster, judged against a paper's claims.

Always true here: a point is plain data and is one simulation; equal points give equal results,
wherever and in whatever order they ran; nothing is computed twice that is in the cache.

| module | what it does |
|---|---|
| `point` | what one simulation is, and its key |
| `execute` | runs one point, in a process of its own |
| `servers` | processes that fork for each task |
| `cluster` | runs points on a Dask cluster |
| `cache` | keeps finished points |
| `dataset` | finished points as one data frame and Parquet |
| `declaration` | an experiment's file, checked |
| `plan` | an experiment's points |
| `metrics` | from points to a figure's values |
| `claims` | from values to verdicts |
| `charts` | from values to figures |
| `reproduction` | all of it together |
| `sensitivity` | a preset's designs with what its paper leaves open varied |
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAPER = "paper.toml"


def papers() -> list[str]:
    """The papers that can be reproduced."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{PAPER}"))


def presets_varied() -> list[str]:
    """The presets whose sensitivity can be measured."""
    return sorted(path.stem for path in FOLDER.glob("sensitivities/*.toml"))

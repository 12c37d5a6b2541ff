#!/usr/bin/env python3
"""Measures what random cuts alone find of the bugs that workloads/check plants.

    random_cuts.py PROGRAMS [NAME ...]

PROGRAMS is the folder that `workloads/build.sh OUTDIR --check` fills, OUTDIR/check. Of each bug,
workloads/check/random_cuts.txt gets a line: program, bug, and in how many of 200 cuts each it was
seen, by the program's own recovery after one cut, and by programs that go on, with up to three cuts
in a row. What is correct must never be accused. With names, only these programs are measured anew.
docs/check-corpus.md shows the figures: run tables.py then.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus import FOLDER, bugs_of, measure

from perdure import Machine, PerdureError

FIGURES = FOLDER / "random_cuts.txt"
CUTS = 200
HARTS = {"list-lock-free": 2}


def machine(name: str, pools: str) -> Machine:
    """That of the flush study, with a hart for each thread."""
    harts = HARTS.get(name, 1)
    return Machine(machine="x86-pm", design="ideal", pmem=Path(pools), harts=harts)


def seen(words: Sequence[str | Path], recover: bool) -> int:
    """In how many cuts something was wrong."""
    program = Path(words[0])
    then = [*words[:2], "--recover"] if recover else []
    with tempfile.TemporaryDirectory() as pools:
        cut = machine(program.name, pools).cut
        return cut(words, cuts=CUTS, seed=1 if recover else 2, restart=True, then=then).failed


def lines_of(program: Path, arguments: Sequence[str]) -> Iterator[str]:
    """A line for each bug."""
    words: list[str | Path] = [program, *arguments]
    if seen(words, recover=True) + seen(words, recover=False) > 0:
        raise PerdureError(f"{program.name} is wrong without any bug")
    for bug in bugs_of(program):
        wrong = [*words, "--bug", bug]
        counts = seen(wrong, recover=True), seen(wrong, recover=False)
        yield f"{program.name} {bug} {counts[0]} {counts[1]}"


if __name__ == "__main__":
    sys.exit(measure("Measures what random cuts find of planted bugs.", FIGURES, lines_of))

#!/usr/bin/env python3
"""Measures which bugs that workloads/check plants transparent designs forgive.

    transparent.py PROGRAMS [NAME ...]

PROGRAMS is the folder that `workloads/build.sh OUTDIR --check` fills, OUTDIR/check. Of each bug,
workloads/check/transparent.txt gets a line: program, bug, and of each design in how many of 20 cuts
each something was wrong, where the program came back as it was (its file is memory as all other),
and where it was lost, and recovered from its pool, which the design had brought back. What is
correct, bug `-`, must never be wrong. Epochs are short, so that cuts go back to many of them. With
names, only these programs are measured anew. docs/transparent.md shows the figures: run tables.py
then.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus import FOLDER, bugs_of, measure

from perdure import Machine, PerdureError

FIGURES = FOLDER / "transparent.txt"
CUTS = 20
HARTS = {"list-lock-free": 2}
EPOCHS = {
    "picl": ("epoch.instructions=2000", "picl.acs_gap=0"),
    "nvoverlay": ("epoch.stores=300",),
}
"""The designs, and what makes their epochs short."""
CORRECT = "-"


def resumed(words: Sequence[str | Path], design: str) -> int:
    """How often the program does not end as if nothing had been, or memory is another."""
    with tempfile.TemporaryDirectory() as folder:
        machine = _machine(words, design, mounts=(f"{folder}:/pmem",))
        return machine.cut(words, cuts=CUTS, seed=1, resume="all").failed


def restarted(words: Sequence[str | Path], design: str) -> int:
    """How often its own recovery finds something wrong in its pool, or dies of it."""
    then = [*words[:2], "--recover"]
    with tempfile.TemporaryDirectory() as pools:
        machine = _machine(words, design, pmem=Path(pools))
        return machine.cut(words, cuts=CUTS, seed=1, restart=True, then=then).failed


def _machine(
    words: Sequence[str | Path],
    design: str,
    *,
    mounts: Sequence[str] = (),
    pmem: Path | None = None,
) -> Machine:
    """That of the design's paper, with a hart for each thread."""
    harts = HARTS.get(Path(words[0]).name, 1)
    return Machine(
        machine=design, design=design, harts=harts, set=EPOCHS[design], mounts=mounts, pmem=pmem
    )


def lines_of(program: Path, arguments: Sequence[str]) -> Iterator[str]:
    """A line for what is correct, and one for each bug."""
    for bug in (CORRECT, *bugs_of(program)):
        mistake = [] if bug == CORRECT else ["--bug", bug]
        words: list[str | Path] = [program, *arguments, *mistake]
        wrong = [how(words, design) for design in EPOCHS for how in (resumed, restarted)]
        if bug == CORRECT and any(wrong):
            raise PerdureError(f"{program.name} is wrong without any bug")
        yield " ".join([program.name, bug, *map(str, wrong)])


if __name__ == "__main__":
    about = "Measures which planted bugs transparent designs forgive."
    sys.exit(measure(about, FIGURES, lines_of))

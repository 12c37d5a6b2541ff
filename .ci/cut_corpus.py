#!/usr/bin/env python3
"""Measures what `perdure check --model machine` finds of the bugs that workloads/check plants.

    cut_corpus.py PROGRAMS [NAME ...]

PROGRAMS is the folder that `workloads/build.sh OUTDIR --check` fills, OUTDIR/check. Of each bug,
workloads/check/cut.txt gets a line: program, bug, whether it was found and its line named
(`named`), found (`found`), or neither (`missed`), after how many of 400 cuts recovery was wrong,
and in how many seconds. What is correct must never be accused, and has a line with the bug `-`.
With names, only these programs are measured anew. docs/check-corpus.md shows the figures: run
tables.py then.
"""

from __future__ import annotations

import sys

from checked_corpus import subject_of, verdict
from corpus import CORRECT, FOLDER, Asked, measure_each

from perdure import PerdureError, checking

FIGURES = FOLDER / "cut.txt"
CUTS = 400


def line_of(asked: Asked) -> str:
    """The line of a bug, or of the correct program."""
    program, arguments, bug = asked
    report = checking.check(subject_of(program, arguments, bug, "machine"), cuts=CUTS)
    wrong, seconds = report["states"]["wrong"], report["host"]["seconds"]
    if bug == CORRECT and wrong:
        raise PerdureError(f"{program.name} is accused without any bug")
    return f"{program.name} {bug} {verdict(bug, report)} {wrong} {seconds:.1f}"


if __name__ == "__main__":
    sys.exit(measure_each("Measures what cuts of the machine find.", FIGURES, line_of))

#!/usr/bin/env python3
"""Measures what `perdure check` finds of the bugs that workloads/check plants.

    checked_corpus.py PROGRAMS [NAME ...]

PROGRAMS is the folder that `workloads/build.sh OUTDIR --check` fills, OUTDIR/check. Of each bug,
workloads/check/checked.txt gets a line: program, bug, whether it was found and its line named
(`named`), found (`found`), or neither (`missed`), after how many recoveries, and in how many
seconds. What is correct must never be accused, and has a line with the bug `-`. With names, only
these programs are measured anew. docs/check-corpus.md shows the figures: run tables.py then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from corpus import CORRECT, FOLDER, Asked, measure_each

from perdure import Machine, PerdureError, checking
from perdure.check_results import Bug, Check

FIGURES = FOLDER / "checked.txt"
STATES = 40_000
ORDERS = 16
THREADS = {"list-lock-free": ("--threads", "3", "--operations", "120")}
"""Where one thread relies on another it takes a third to see that, and many orders of turns. Where
operations overlap no dump is compared, so that there is none to run; nor does power fail twice."""


def subject_of(
    program: Path, arguments: Sequence[str], bug: str, model: checking.Model = "px86"
) -> checking.Subject:
    """The program with that bug, and all that looks at what is left of it."""
    pool, mistake = arguments[0], [] if bug == CORRECT else ["--bug", bug]
    return checking.Subject(
        Machine(machine="x86-pm", design="ideal"),
        [str(program), *arguments, *THREADS.get(program.name, ()), *mistake],
        then=[str(program), pool, "--recover"],
        dump=[str(program), pool, "--dump"] if program.name not in THREADS else [],
        model=model,
    )


def verdict(bug: str, report: Check) -> str:
    """Whether a bug was found, and named by a line that a comment marks."""
    found = "named" if named(report["bugs"]) & marked(bug) else "found"
    return found if report["bugs"] else "correct" if bug == CORRECT else "missed"


def marked(bug: str) -> set[tuple[str, int]]:
    """File and line of the places that comments say are the bug's."""
    lines = set()
    for source in FOLDER.glob("*.[ch]*"):
        for number, text in enumerate(source.read_text("utf-8").splitlines(), 1):
            comment = re.search(r"(?:/\*|//) (?:bug|store): ([\w, -]*\w)", text)
            if comment and bug in comment[1].split(", "):
                alone = text.lstrip().startswith(("/*", "//"))
                lines.add((source.name, number + alone))
    return lines


def named(bugs: Iterable[Bug]) -> set[tuple[str, int]]:
    """File and line of everything that a report says of what was lost or kept."""
    places = set()
    for bug in bugs:
        for store in [*bug["lost"], *bug["kept"]]:
            told = [store["place"], store["behind"], store["durable_at"], *(store["stack"] or [])]
            for place in told:
                if place and place["file"] and place["line"]:
                    places.add((Path(place["file"]).name, place["line"]))
    return places


def line_of(asked: Asked) -> str:
    """The line of a bug, or of the correct program."""
    program, arguments, bug = asked
    subject = subject_of(program, arguments, bug)
    limits = checking.Limits(states=STATES, schedules=ORDERS)
    report = checking.check(subject, nested=program.name not in THREADS, limits=limits)
    if bug == CORRECT and report["bugs"]:
        raise PerdureError(f"{program.name} is accused without any bug")
    states, seconds = report["states"]["run"], report["host"]["seconds"]
    return f"{program.name} {bug} {verdict(bug, report)} {states} {seconds:.1f}"


if __name__ == "__main__":
    sys.exit(measure_each("Measures what a check finds of planted bugs.", FIGURES, line_of))

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

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from perdure import Machine, PerdureError, capture
from perdure.experiments.toml import Table

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "workloads/check/random_cuts.txt"
CUTS = 200
HARTS = {"list-lock-free": 2}


def machine(name: str, pools: str) -> Machine:
    """That of the flush study, with a hart for each thread."""
    harts = HARTS.get(name, 1)
    return Machine(machine="x86-pm", design="ideal", pmem=Path(pools), harts=harts)


def bugs_of(program: Path) -> list[str]:
    """The program's list."""
    with tempfile.TemporaryDirectory() as pools, capture.standard_output() as output:
        machine(program.name, pools).run([program, "--bugs"], passthrough=True)
    return [line.split("\t")[0] for line in output.content.decode().splitlines()]


def seen(words: Sequence[str | Path], recover: bool) -> int:
    """In how many cuts something was wrong."""
    program = Path(words[0])
    then = [*words[:2], "--recover"] if recover else []
    with tempfile.TemporaryDirectory() as pools:
        cut = machine(program.name, pools).cut
        return cut(words, cuts=CUTS, seed=1 if recover else 2, restart=True, then=then).failed


def lines_of(program: Path, arguments: Sequence[str]) -> list[str]:
    """A line for each bug."""
    words: list[str | Path] = [program, *arguments]
    if seen(words, recover=True) + seen(words, recover=False) > 0:
        raise PerdureError(f"{program.name} is wrong without any bug")
    found = []
    for bug in bugs_of(program):
        wrong = [*words, "--bug", bug]
        counts = seen(wrong, recover=True), seen(wrong, recover=False)
        found.append(f"{program.name} {bug} {counts[0]} {counts[1]}")
        print(found[-1], flush=True)
    return found


def main() -> int:
    """The command."""
    entries = dict(Table.read(ROOT / "workloads/check.toml").table("workload").tables())
    parser = argparse.ArgumentParser(description="Measures what random cuts find of planted bugs.")
    parser.add_argument("programs", type=Path, metavar="PROGRAMS")
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(entries))
    asked = parser.parse_args()
    before = FIGURES.read_text().splitlines() if FIGURES.exists() else []
    kept = [line for line in before if line.split()[0] not in asked.names]
    order = list(entries)
    for name in asked.names:
        arguments = list(entries[name].table("tiny").texts("arguments"))
        kept += lines_of(asked.programs / entries[name].text("program"), arguments)
        kept.sort(key=lambda line: order.index(line.split()[0]))
        FIGURES.write_text("\n".join(kept) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The corpus of planted bugs, workloads/check, for scripts that measure what is found of it.

Always true here: figures are one line for each bug, program and bug first, in the order of
workloads/check.toml; a program that is measured anew leaves the lines of the others as they are.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeAlias

from perdure import Machine, capture
from perdure.experiments.toml import Table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "workloads/check"


def bugs_of(program: Path) -> list[str]:
    """The program's list."""
    with tempfile.TemporaryDirectory() as pools, capture.standard_output() as output:
        machine = Machine(machine="x86-pm", design="ideal", pmem=Path(pools))
        machine.run([program, "--bugs"], passthrough=True)
    return [line.split("\t")[0] for line in output.content.decode().splitlines()]


CORRECT = "-"
"""In place of a bug: the program without any."""


def measure(
    description: str, figures: Path, lines_of: Callable[[Path, Sequence[str]], Iterable[str]]
) -> int:
    """The command of a script: `lines_of` a program and its usual arguments go into `figures`."""
    entries = dict(Table.read(ROOT / "workloads/check.toml").table("workload").tables())
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("programs", type=Path, metavar="PROGRAMS")
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(entries))
    asked = parser.parse_args()
    before = figures.read_text().splitlines() if figures.exists() else []
    kept = [line for line in before if line.split()[0] not in asked.names]
    order = list(entries)
    for name in asked.names:
        program = asked.programs / entries[name].text("program")
        arguments = list(entries[name].table("tiny").texts("arguments"))
        for line in lines_of(program, arguments):
            kept.append(line)
            print(line, flush=True)
        kept.sort(key=lambda line: order.index(line.split()[0]))
        figures.write_text("\n".join(kept) + "\n")
    return 0


Asked: TypeAlias = tuple[Path, Sequence[str], str]
"""A program, its usual arguments, and a bug."""


def measure_each(description: str, figures: Path, line_of: Callable[[Asked], str]) -> int:
    """The same where the correct program and each bug have a line, measured at the same time."""
    with ProcessPoolExecutor() as workers:

        def lines_of(program: Path, arguments: Sequence[str]) -> Iterator[str]:
            bugs = [CORRECT, *bugs_of(program)]
            return workers.map(line_of, [(program, arguments, bug) for bug in bugs])

        return measure(description, figures, lines_of)

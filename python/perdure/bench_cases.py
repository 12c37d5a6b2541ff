"""Benchmarks of several programs, which are built and measured one after the other.

Always true here: what was measured before the user had enough is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console

from perdure import toolchain, workloads


class Case(Protocol):
    """A program of the project's."""

    @property
    def source(self) -> str:
        """Below `workloads/`."""


class StoppedError(Exception):
    """The user has enough."""


C = TypeVar("C", bound=Case)
M = TypeVar("M")


def measured(
    cases: Iterable[C], out: Path, console: Console, measure: Callable[[C, Path], M]
) -> tuple[list[M], bool]:
    """What `measure` says of each case's program, built in `out`, and whether it was stopped."""
    compiler = toolchain.find(lambda line: console.print(line, markup=False))
    done: list[M] = []
    for case in cases:
        source = workloads.source(case.source)
        program = compiler.build(source, out / source.stem)
        try:
            done.append(measure(case, program))
        except StoppedError:
            return done, True
    return done, False

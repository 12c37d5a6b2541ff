"""Invariants of `perdure check`: C functions that are compiled for the guest and look at pools.

Always true here: a compiled invariant lives as long as the check that it is for, and its path has
the same length each time, so that the guest sees the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure import PerdureError, toolchain, workloads

PROGRAM = "perdure_invariant.c"
"""The program around it, in `guest/`."""
FLAGS = ("-O1", "-g", "-D_GNU_SOURCE")


@contextmanager
def compiled(source: Path) -> Iterator[list[str]]:
    """The command line of the program that asks for the invariant in a C file."""
    if not source.is_file():
        raise PerdureError(f"--invariant {source}: there is no such file")
    main = workloads.folder("guest") / PROGRAM
    with tempfile.TemporaryDirectory(prefix="perdure-invariant-") as folder:
        program = Path(folder) / "invariant"
        try:
            toolchain.find().build(source.resolve(), program, (*FLAGS, str(main)))
        except PerdureError as error:
            raise PerdureError(f"--invariant {source}: {error}") from error
        yield [str(program)]

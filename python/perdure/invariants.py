"""Invariants of `perdure check`: C functions that are compiled for the guest and look at pools.

Always true here: what is compiled alike lies in the same place, so that a token of a bug, and a
check that goes on, find it again.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure import PerdureError, outputs, tokens, toolchain, workloads

PROGRAM = "perdure_invariant.c"
"""The program around it, in `guest/`."""
FLAGS = ("-O1", "-g", "-D_GNU_SOURCE")
KEPT = 50
"""Compiled invariants that are kept, the newest."""


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
        yield [str(_kept(program))]


def _kept(program: Path) -> Path:
    """The program where it stays, if anything can be kept here; else as it is."""
    beside = tokens.folder()
    if beside is None:
        return program
    folder = beside.parent / "invariants"
    kept = folder / hashlib.sha256(program.read_bytes()).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with outputs.written(kept) as copy:
            shutil.copy2(program, copy)
        tokens.forget(folder, KEPT)
    except OSError:
        return program
    return kept

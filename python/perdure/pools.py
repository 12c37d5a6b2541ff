"""Copies of a folder of pools, for runs that begin alike and leave it as it is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure._core import PerdureError


def exist(folder: Path) -> bool:
    """Whether there is such a folder of pools.

    Raises:
        PerdureError: it is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise PerdureError(f"--pmem {folder}: no directory")
    return folder.exists()


def copy(folder: Path, to: Path) -> None:
    """Copies a folder of pools; one that does not exist has none.

    Raises:
        PerdureError: it is no folder, or cannot be read.
    """
    if not exist(folder):
        to.mkdir()
        return
    try:
        shutil.copytree(folder, to)
    except (OSError, shutil.Error) as error:
        raise PerdureError(f"--pmem {folder}: cannot be copied: {error}") from error


@contextmanager
def copied(folder: Path | None) -> Iterator[Path | None]:
    """A copy of a folder of pools that goes with the block; nothing of nothing."""
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="perdure-pools-") as parent:
        pools = Path(parent) / "pmem"
        copy(folder, pools)
        yield pools

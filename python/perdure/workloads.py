"""The workloads: guest programs as source, with their headers.

Always true here: in a source tree the tree's own files are used, otherwise the copies that the
package carries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from perdure import PerdureError

SOURCE_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".go"})


@dataclass(frozen=True)
class Workload:
    """One guest program: its name, what its first comment says, and its source."""

    name: str
    summary: str
    source: Path


def folder(name: str) -> Path:
    """The folder `workloads` or `guest`."""
    package = Path(__file__).resolve().parent
    tree = package.parent.parent
    root = tree if (tree / "pyproject.toml").is_file() else package / "share"
    if (root / name).is_dir():
        return root / name
    raise PerdureError(
        f"the folder {name}/ is not in this installation of Perdure: install it from its source "
        "tree with `pip install .`"
    )


def source(path: str) -> Path:
    """The source of a workload, for instance `kv/kv.c`."""
    found = folder("workloads") / path
    if not found.is_file():
        raise PerdureError(f"the workload {path} is not in {folder('workloads')}")
    return found


def catalogue() -> list[Workload]:
    """Every workload, by name."""
    root = folder("workloads")
    return [
        Workload(
            name=path.relative_to(root).with_suffix("").as_posix(),
            summary=summary(path.read_text(errors="replace")),
            source=path,
        )
        for path in sorted(root.rglob("*"))
        if path.suffix in SOURCE_SUFFIXES and _has_main(path)
    ]


def summary(text: str) -> str:
    """The first sentence of a source file's opening comment."""
    comment = re.match(r"\s*(?:/\*(.*?)\*/|((?:\s*//[^\n]*\n)+))", text, re.DOTALL)
    if comment is None:
        return ""
    words = re.sub(r"(?m)^\s*(?:\*|//+!?)", "", comment.group(1) or comment.group(2))
    sentence = re.match(r"(.*?[.])(?:\s|$)", " ".join(words.split()))
    return sentence.group(1) if sentence else " ".join(words.split())


def _has_main(path: Path) -> bool:
    return re.search(r"\bmain\s*\(", path.read_text(errors="replace")) is not None

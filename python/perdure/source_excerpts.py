"""Lines of a program's source around places of interest, where the source can be read here.

Always true here: nothing is shown of a file that is not the one that debug information names, by
its whole path or by the end of it below a folder that was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

AROUND = 3
"""Lines before and behind a line of interest."""
LARGEST_BYTES = 16 << 20
"""Of a source file that is read."""


@dataclass(frozen=True)
class Line:
    """A line of a file."""

    number: int
    text: str


@dataclass(frozen=True)
class Excerpt:
    """Lines that follow one another."""

    lines: Sequence[Line]


@dataclass
class Sources:
    """Source files, below `folders` or where the compiler has found them.

    Names that are no whole paths are looked for below the working folder, too.
    """

    folders: Sequence[Path] = ()
    _known: dict[str, tuple[Path, Sequence[str]] | None] = field(default_factory=dict)

    def path(self, file: str) -> Path | None:
        """Where a file is, if it can be read."""
        found = self._read(file)
        return None if found is None else found[0]

    def excerpts(self, file: str, numbers: Iterable[int]) -> list[Excerpt]:
        """What is around these lines; those near each other are in one excerpt."""
        found = self._read(file)
        if found is None:
            return []
        lines = found[1]
        inside = sorted({number for number in numbers if 0 < number <= len(lines)})
        return [
            Excerpt([Line(at, lines[at - 1].expandtabs(4)) for at in range(first, last + 1)])
            for first, last in _windows(inside, len(lines))
        ]

    def newer_than(self, program: Path) -> list[str]:
        """The files that were changed after a program was built: their lines may have moved."""
        found = sorted({str(one[0]) for one in self._known.values() if one is not None})
        try:
            built = program.stat().st_mtime_ns
            return [name for name in found if Path(name).stat().st_mtime_ns > built]
        except OSError:
            return []

    def _read(self, file: str) -> tuple[Path, Sequence[str]] | None:
        if file not in self._known:
            self._known[file] = next(_readable(_candidates(file, self.folders)), None)
        return self._known[file]


def _windows(numbers: Iterable[int], end: int) -> Iterator[tuple[int, int]]:
    """The first and the last line around each number, those that meet taken together."""
    window: tuple[int, int] | None = None
    for number in numbers:
        first, last = max(1, number - AROUND), min(end, number + AROUND)
        if window is not None and first <= window[1] + 1:
            window = (window[0], last)
            continue
        if window is not None:
            yield window
        window = (first, last)
    if window is not None:
        yield window


def _candidates(file: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Where a file may be: as it is named, then the longest end of its name below a folder."""
    yield Path(file)
    parts = [part for part in Path(file).parts if part not in ("/", "..")]
    for folder in folders:
        for skipped in range(len(parts)):
            yield folder.joinpath(*parts[skipped:])


def _readable(paths: Iterable[Path]) -> Iterator[tuple[Path, Sequence[str]]]:
    for path in paths:
        try:
            if path.is_file() and path.stat().st_size <= LARGEST_BYTES:
                yield path, path.read_text("utf-8", errors="replace").splitlines()
        except (OSError, ValueError):
            continue

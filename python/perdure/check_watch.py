"""`perdure check --watch`: waits until a program is built anew, and says what that has changed.

Always true here: a file that is still being written is not looked at, as far as its time and size
tell: they have to stay as they are for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from perdure.check_words import title
from perdure.explanation import plural

if TYPE_CHECKING:
    from perdure.check_results import Bug, Check
    from perdure.checking import Subject

POLL_SECONDS = 0.2
SETTLE_SECONDS = 0.5
"""So long a file has to stay as it is."""

Stamp: TypeAlias = "tuple[int, int, int] | None"
"""When a file was changed, its size, and which file it is; None if there is none."""


def watched(subject: Subject) -> list[Path]:
    """The programs that a check starts, each once."""
    lines = (subject.program, subject.then, subject.checker, subject.dump)
    names = dict.fromkeys(line[0] for line in lines if line)
    sysroot = subject.machine.sysroot
    paths = []
    for name in names:
        path = Path(name)
        inside = None if sysroot is None else Path(sysroot) / name.lstrip("/")
        if inside is not None and inside.exists() and not path.exists():
            path = inside
        paths.append(path)
    return paths


def stamps(files: Sequence[Path]) -> list[Stamp]:
    """What tells a file from the one that it was."""
    found: list[Stamp] = []
    for file in files:
        try:
            status = file.stat()
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            found.append(None)
    return found


def changed(
    files: Sequence[Path],
    before: Sequence[Stamp],
    sleep: Callable[[float], object] = time.sleep,
) -> list[Path]:
    """Waits until all files are there, and some of them are others than before; these."""
    while True:
        sleep(POLL_SECONDS)
        now = stamps(files)
        if now == before or None in now:
            continue
        sleep(SETTLE_SECONDS)
        if stamps(files) == now:
            pairs = zip(files, now, before, strict=True)
            return [file for file, one, other in pairs if one != other]


def difference(before: Check, after: Check) -> Iterator[tuple[str, str]]:
    """What two reports do not have in common, in lines with their styles."""
    gone, new = _without(before, after), _without(after, before)
    same = len(after["bugs"]) - len(new)
    counts = [(len(gone), "gone"), (len(new), "new"), (same, "as before")]
    said = [f"{plural(count, 'bug')} {what}" for count, what in counts if count]
    yield ", ".join(said) or "no bugs, as before", "bold"
    for what, bugs, style in (("gone", gone, "green"), ("new", new, "red")):
        for bug in bugs:
            yield f"  {what}: {title(bug)}", style
    yield "", ""


def _without(report: Check, other: Check) -> list[Bug]:
    """The bugs of a report that another one does not have."""
    known = {bug["id"] for bug in other["bugs"]}
    return [bug for bug in report["bugs"] if bug["id"] not in known]

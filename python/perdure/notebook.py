"""What is shown in a notebook while a call runs.

Always true here: outside of a notebook's kernel nothing is shown and IPython is not imported;
within the first two seconds there is no progress; what a cell shows of it is erased at its end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from perdure.experiments.cluster import Outcome

Progress: TypeAlias = Callable[[int, int, str, str], object]
Watch: TypeAlias = "Callable[[Outcome, int, int], object]"

PATIENCE_SECONDS = 2.0
BETWEEN_SECONDS = 0.5
"""Between two changes of what a cell shows."""


def active() -> bool:
    """Whether this process is a notebook's kernel, which shows what goes to Python's streams."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class Bar:
    """One line of progress in a cell: a bar where the end is known, and what it means."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._next = self._started + PATIENCE_SECONDS
        self._shown: Any = None

    def __call__(self, done: int, total: int, unit: str, message: str) -> None:
        """Shows how far it is, unless it was shown just now."""
        import html

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + BETWEEN_SECONDS
        said = f"{self._title}: {done:,}{f' of {total:,}' if total else ''} {unit}"
        said += f", {now - self._started:.0f} s" + (f" · {message}" if message else "")
        known = f'<progress value="{done}" max="{total}"></progress> ' if total else ""
        self._show({"text/plain": said, "text/html": known + html.escape(said)})

    def close(self) -> None:
        """Erases the line."""
        if self._shown is not None:
            self._show({"text/plain": "", "text/html": ""})

    def _show(self, content: dict[str, str]) -> None:
        if self._shown is not None:
            self._shown.update(content, raw=True)
            return
        display: Any = sys.modules["IPython.display"]
        self._shown = display.display(content, raw=True, display_id=True)


@contextmanager
def following(title: str, given: Progress | None) -> Iterator[Progress | None]:
    """What to call with progress: what the caller gave, or in a notebook a bar of its own."""
    if given is not None or not active():
        yield given
        return
    bar = Bar(title)
    try:
        yield bar
    finally:
        bar.close()


@contextmanager
def watching(title: str, given: Watch | None) -> Iterator[Watch]:
    """The same for points of an experiment; without anything to call, nothing is shown."""
    with following(title, None) as show:

        def watch(outcome: Outcome, done: int, total: int) -> None:
            if show is not None:
                point = outcome.point
                show(done, total, "points", " ".join([point.name, point.design, point.remark]))

        yield given or watch

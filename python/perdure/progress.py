"""Progress on the terminal.

Always true here: nothing is drawn within the first two seconds, nor where standard error is not a
terminal, and what is drawn is erased before anything else is written.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from perdure import notebook

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.experiments.cluster import Outcome
    from perdure.sweeps import Watch

PATIENCE_SECONDS = 2.0
BAR_COLUMNS = 20

Shown: TypeAlias = AbstractContextManager[notebook.Progress | None]
"""What draws progress while its block runs; None where nothing is to be drawn."""


def scaled(count: float, unit: str) -> str:
    """A count with its unit, in thousands or millions where that reads better."""
    for factor, prefix in ((1e9, "billion "), (1e6, "million "), (1e4, "thousand ")):
        if count >= factor:
            divisor = 1e3 if factor == 1e4 else factor
            return f"{count / divisor:,.1f} {prefix}{unit}"
    return f"{count:,.0f} {unit}"


def counted(done: int, total: int, unit: str) -> str:
    """How much of it is done; of what has no known end, how much so far."""
    if not total:
        return scaled(done, unit) if done else ""
    return f"{scaled(done, '').rstrip()} of {scaled(total, unit)}"


@contextmanager
def bar(console: Console, title: str) -> Iterator[notebook.Progress | None]:
    """A bar for work with a known end, and for how long it has been going on before any is done.

    What is too long for a narrow terminal is the words in front, never a number. None where nothing
    is to be drawn.
    """
    if not console.is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    with Progress(
        TextColumn(
            "{task.description}",
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        BarColumn(bar_width=BAR_COLUMNS),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        expand=True,
    ) as progress:
        task = progress.add_task(title, total=None, count="", visible=False)

        def show(done: int, total: int, unit: str, message: str) -> None:
            progress.update(
                task,
                completed=done,
                total=total or None,
                count=counted(done, total, unit),
                description=f"{title}: {message}" if message else title,
            )

        # Points can take many minutes, so that nothing would be said for as long.
        appears = threading.Timer(PATIENCE_SECONDS, progress.update, [task], {"visible": True})
        appears.start()
        try:
            yield show
        finally:
            appears.cancel()


@contextmanager
def points(console: Console, title: str) -> Iterator[Watch]:
    """What shows a sweep: a bar on a terminal, elsewhere a line for each point; failures always."""
    with bar(console, title) as show:

        def watch(outcome: Outcome, done: int, total: int) -> None:
            point = outcome.point
            name = " ".join(filter(None, [point.name, point.design, point.remark]))
            if outcome.error is not None:
                said = f"{name} failed: {outcome.error}"
                console.print(said, style="red", markup=False, highlight=False, soft_wrap=True)
            if show is not None:
                show(done, total, "points", name)
            elif outcome.stored is not None and not outcome.cached:
                seconds = outcome.stored["result"]["host"]["seconds"]
                said = f"[{done}/{total}] {name}: {seconds:.1f} s"
                console.print(said, markup=False, highlight=False, soft_wrap=True)

        yield watch


class StatusLine:
    """One line under a program's output, while that output goes to the same terminal.

    Guest output arrives at file descriptors 1 and 2. Those of them that are terminals are
    replaced by pipes; a thread carries the bytes on and keeps the line out of their way.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._shown = False
        self._at_line_start = True

    def __call__(self, done: int, total: int, unit: str, message: str) -> None:
        """Draws the line, unless the program is in the middle of one of its own."""
        seconds = time.monotonic() - self._started
        if seconds < PATIENCE_SECONDS:
            return
        text = f"{scaled(done, unit)} in {seconds:.0f} s, {scaled(done / seconds, unit)} a second"
        if total:
            text += f", {done / total:.0%}"
        if message:
            text += f" · {message}"
        with self._lock:
            if self._at_line_start:
                width = os.get_terminal_size(self._terminal).columns
                os.write(self._terminal, f"\r\x1b[K{text[: width - 1]}".encode())
                self._shown = True

    def write(self, descriptor: int, data: bytes) -> None:
        """Writes the program's own output."""
        with self._lock:
            self._erase()
            while data:
                self._at_line_start = data.endswith(b"\n")
                data = data[os.write(descriptor, data) :]

    def close(self) -> None:
        """Erases the line."""
        with self._lock:
            self._erase()

    def _erase(self) -> None:
        if self._shown:
            os.write(self._terminal, b"\r\x1b[K")
            self._shown = False


@contextmanager
def status_line() -> Iterator[notebook.Progress | None]:
    """A line under a running program's output; None where nothing is to be drawn."""
    if not os.isatty(2):
        yield None
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {descriptor: os.dup(descriptor) for descriptor in (1, 2) if os.isatty(descriptor)}
    line = StatusLine(saved[2])
    readers = {}
    for descriptor, terminal in saved.items():
        reader, writer = os.pipe()
        os.dup2(writer, descriptor)
        os.close(writer)
        readers[reader] = terminal
    carrier = threading.Thread(target=_carry, args=(line, readers), daemon=True)
    carrier.start()
    try:
        yield line
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Restoring the descriptors closes the pipes' last writing ends, which ends the thread.
        for descriptor, terminal in saved.items():
            os.dup2(terminal, descriptor)
        carrier.join()
        line.close()
        for terminal in saved.values():
            os.close(terminal)


def _carry(line: StatusLine, readers: dict[int, int]) -> None:
    """Carries bytes from each pipe to its terminal until all pipes are closed."""
    while readers:
        for reader in select.select(list(readers), [], [])[0]:
            data = os.read(reader, 1 << 16)
            if data:
                line.write(readers[reader], data)
            else:
                os.close(reader)
                del readers[reader]

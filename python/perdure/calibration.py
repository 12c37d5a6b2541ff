"""A fixed amount of the host's own work, timed between measurements of the simulator.

Always true here: the work is the same in every call and asks nothing of the simulator; a run's time
stands between the calibration's before it and after it, so that a host that is slower for a while
slows both; all of it is the processor's time, for which others that wait their turn do not count.
"""

from __future__ import annotations

import hashlib
import os
import platform
import random
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perdure import TIMING_VERSION, __version__, _core

SQUARINGS = 12_000
"""Of a number of 2,203 bits: multiplications in the first-level cache."""
MODULUS = (1 << 2203) - 1
SORTED = 1 << 19
"""Numbers in no order, 16 MB of objects and 4 MB of pointers to them: accesses that miss."""


def work() -> None:
    """The work, which takes a fraction of a second."""
    number = 3
    for _ in range(SQUARINGS):
        number = number * number % MODULUS
    sorted(_in_no_order())


@cache
def _in_no_order() -> list[int]:
    numbers = list(range(SORTED))
    random.Random(1).shuffle(numbers)
    return numbers


@dataclass(frozen=True)
class CalibratedRun:
    """What a run took of a processor, and what the calibration took before it and after it."""

    seconds: float
    before_seconds: float
    after_seconds: float


class Calibration:
    """The calibration of one call: once at the beginning, and once after each run."""

    def __init__(self, work: Callable[[], object] = work) -> None:
        self._work = work
        # The first time in a process is slower: memory is asked of the host.
        self._work()
        self._seconds = [self._timed()]

    def around(self, seconds: float) -> CalibratedRun:
        """A run that has just ended and took so much, with what is measured before and now."""
        before = self._seconds[-1]
        self._seconds.append(self._timed())
        return CalibratedRun(seconds, before, self._seconds[-1])

    def as_json(self) -> dict[str, Any]:
        """How long the work took, and how much that varied."""
        middle = statistics.median(self._seconds)
        return {
            "times": len(self._seconds),
            "median_seconds": middle,
            "spread": (max(self._seconds) - min(self._seconds)) / middle,
        }

    def _timed(self) -> float:
        started = own_seconds()
        self._work()
        return own_seconds() - started


def own_seconds() -> float:
    """What this process has had of processors, all its threads together."""
    return time.process_time()


def children_seconds() -> float:
    """What the processes have had that it started, of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def host() -> dict[str, Any]:
    """What a measurement was made on and with, which a comparison names where it differs."""
    core = Path(_core.__file__).read_bytes()
    return {
        "processor": processor(Path("/proc/cpuinfo")),
        "processors": len(os.sched_getaffinity(0)),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "build": f"{__version__} {hashlib.sha256(core).hexdigest()[:10]}",
        "timing_version": TIMING_VERSION,
    }


def processor(information: Path) -> str:
    """The processor's model as Linux has it, or the instruction set where Linux names no model."""
    try:
        lines = information.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for name, _, value in (line.partition(":") for line in lines):
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()

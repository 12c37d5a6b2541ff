"""Perdure: a computer whose memory survives losing power, simulated fast enough to run programs.

The command `perdure` and this package do the same things:

>>> import perdure
>>> machine = perdure.Machine(design="picl")
>>> result = machine.run("./program argument")
>>> result.sim.cycles, result.stdout            # doctest: +SKIP
>>> report = machine.cut(["./program"], cuts=1000, seed=7)
>>> report.verified == report.cuts              # doctest: +SKIP

Always true here: importing the package loads the core alone; what else it has is loaded when it is
first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from perdure._core import TIMING_VERSION, PerdureError, __version__

if TYPE_CHECKING:
    from perdure.api import (
        BugReport,
        Catalogue,
        Configuration,
        CutReport,
        CutResult,
        FatalSignal,
        Machine,
        MutantsReport,
        Named,
        RunResult,
        Statistic,
        SystemCall,
        WrittenFile,
        catalogue,
        cut,
        mutants,
        replay,
        run,
    )
    from perdure.checked import CheckReport, check
    from perdure.replication import replicate, resume_replica, serve_replica
    from perdure.reproductions import reproduce
    from perdure.snapshots import Snapshots, open_snapshots
    from perdure.sweeps import Sweep, sweep

__all__ = [
    "TIMING_VERSION",
    "BugReport",
    "Catalogue",
    "CheckReport",
    "Configuration",
    "CutReport",
    "CutResult",
    "FatalSignal",
    "Machine",
    "MutantsReport",
    "Named",
    "PerdureError",
    "RunResult",
    "Snapshots",
    "Statistic",
    "Sweep",
    "SystemCall",
    "WrittenFile",
    "__version__",
    "catalogue",
    "check",
    "cut",
    "mutants",
    "open_snapshots",
    "replay",
    "replicate",
    "reproduce",
    "resume_replica",
    "run",
    "serve_replica",
    "sweep",
]

ELSEWHERE = {
    "CheckReport": "checked",
    "Snapshots": "snapshots",
    "Sweep": "sweeps",
    "check": "checked",
    "open_snapshots": "snapshots",
    "replicate": "replication",
    "reproduce": "reproductions",
    "resume_replica": "replication",
    "serve_replica": "replication",
    "sweep": "sweeps",
}
"""The module of each name that is not `perdure.api`'s."""


def _submodule(name: str) -> object:
    """The module `perdure.NAME`, which is an attribute without being imported by name."""
    path = f"{__name__}.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


# A checker of types is to know each name's type, and that there are no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            return _submodule(name)
        module = import_module(f"{__name__}.{ELSEWHERE.get(name, 'api')}")
        found = globals()[name] = getattr(module, name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Perdure: a computer whose memory survives losing power, simulated fast enough to run programs.

The command `perdure` and this package do the same things:

>>> import perdure
>>> machine = perdure.Machine(design="picl")
>>> result = machine.run("./program argument")
>>> result.sim.cycles, result.stdout            # doctest: +SKIP
>>> report = machine.cut(["./program"], cuts=1000, seed=7)
>>> report.verified == report.cuts              # doctest: +SKIP
"""

from perdure._core import TIMING_VERSION, PerdureError, __version__
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
from perdure.replication import replicate, resume_replica, serve_replica
from perdure.reproductions import reproduce
from perdure.snapshots import Snapshots, open_snapshots
from perdure.sweeps import Sweep, sweep

__all__ = [
    "TIMING_VERSION",
    "BugReport",
    "Catalogue",
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

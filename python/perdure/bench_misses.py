"""What an access costs the host, by where it is answered: the simulator's cost model, measured.

Always true here: a case is a program run twice, with and without its accesses, and what is told is
the difference: no start-up, no first touch. Each of two runs is the fastest of its repeats.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from perdure import PerdureError, api, progress, toolchain, workloads
from perdure.fields import Bytes
from perdure.tables import number, table

PROGRAM = "bench/misses.c"
ACCESSES = 2_000_000
HOST_ACCESSES = 5_000_000
HOST_COMPILERS = ("cc", "gcc", "clang")
COUNTERS = ("l1d.misses", "l2.misses", "llc.misses", "llc.write_backs", "nvm.written_bytes.total")


@dataclass(frozen=True)
class Case:
    """Accesses of one kind: where they are answered, and under what."""

    name: str
    order: str
    kind: str
    kib: int
    machine: str = "picl"
    design: str = "ideal"
    harts: int = 1


CASES = (
    Case("L1", "random", "loads", 16),
    Case("L2", "random", "loads", 128),
    Case("last level", "random", "loads", 1024),
    Case("another hart's L1", "sequential", "stores", 16, harts=2),
    Case("NVM", "random", "loads", 65536),
    Case("NVM, in sequence", "sequential", "loads", 65536),
    Case("NVM, dirty victim", "random", "stores", 65536),
    Case("NVM, dirty victim, in sequence", "sequential", "stores", 65536),
    Case("NVM, dirty victim, log", "random", "stores", 65536, design="picl"),
    Case("NVM, dirty victim, log, in sequence", "sequential", "stores", 65536, design="picl"),
    Case("DRAM", "random", "loads", 65536, machine="nvoverlay"),
    Case("DRAM, dirty victim", "random", "stores", 65536, machine="nvoverlay"),
    Case("DRAM, dirty victim, overlay", "random", "stores", 65536, "nvoverlay", "nvoverlay"),
)


@dataclass(frozen=True, kw_only=True)
class Misses(Case):
    """A case, measured: `seconds` of the host for `accesses` of all harts, and what they were."""

    accesses: int
    instructions: int
    seconds: float
    l1_misses: int
    l2_misses: int
    llc_misses: int
    llc_write_backs: int
    nvm_written_bytes: Bytes
    ns_per_access: float
    ns_per_l1_miss: float | None


@dataclass(frozen=True)
class Run:
    """What a run came to."""

    seconds: float
    instructions: int
    counters: Sequence[int]


def _run(case: Case, program: Path, accesses: int, repeat: int, console: Console) -> Run | None:
    """The fastest of some runs; None if interrupted."""
    machine = api.Machine(machine=case.machine, design=case.design, harts=case.harts)
    words = [case.order, case.kind, str(case.kib), str(accesses), str(case.harts)]
    best: Run | None = None
    for _ in range(repeat):
        with progress.bar(console, f"{case.name} under {case.design}") as show:
            result = machine.run([str(program), *words], progress=show)
        if result.interrupted:
            return None
        if result.exit_code != 0:
            raise PerdureError(
                f"{' '.join([program.name, *words])} failed under {case.design}: exit status "
                f"{result.exit_code}"
            )
        if best is None or result.host.seconds < best.seconds:
            known = result.statistics
            counters = [int(known[name].value) if name in known else 0 for name in COUNTERS]
            best = Run(result.host.seconds, result.sim.instructions, counters)
    return best


def measure(
    case: Case, program: Path, accesses: int, repeat: int, console: Console
) -> Misses | None:
    """Measures a case; None if interrupted."""
    without = _run(case, program, 0, repeat, console)
    run = without and _run(case, program, accesses, repeat, console)
    if without is None or run is None:
        return None
    made = accesses * case.harts
    seconds = max(run.seconds - without.seconds, 0.0)
    l1, l2, llc, write_backs, written = (
        max(after - before, 0) for after, before in zip(run.counters, without.counters, strict=True)
    )
    return Misses(
        **asdict(case),
        accesses=made,
        instructions=run.instructions - without.instructions,
        seconds=seconds,
        l1_misses=l1,
        l2_misses=l2,
        llc_misses=llc,
        llc_write_backs=write_backs,
        nvm_written_bytes=written,
        ns_per_access=seconds * 1e9 / made,
        # Of accesses that hit nearly always, nothing can be said for each miss.
        ns_per_l1_miss=seconds * 1e9 / l1 if l1 * 10 > made else None,
    )


def host_latency_ns(out: Path, accesses: int = HOST_ACCESSES) -> float | None:
    """What the host itself waits for a line of 128 MB: loads each of which says where the next is.

    None where the host has no C compiler.
    """
    compiler = next(filter(None, map(shutil.which, HOST_COMPILERS)), None)
    if compiler is None:
        return None
    program = out / "misses-host"
    flags = ["-O2", "-pthread", "-D_GNU_SOURCE"]
    built = subprocess.run(
        [compiler, *flags, workloads.source(PROGRAM), "-o", program],
        capture_output=True, check=False,
    )  # fmt: skip
    if built.returncode != 0:
        return None
    words = ["chase", "loads", str(128 * 1024), str(accesses)]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    found = re.match(r"([0-9]+) ns", done.stdout)
    return int(found[1]) / accesses if found else None


@dataclass(frozen=True)
class MissesReport:
    """All cases of one call, and the host's own latency, if it could be measured."""

    repeat: int
    interrupted: bool
    host_dram_ns: float | None
    cases: Sequence[Misses]

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)


def misses(out: Path, *, repeat: int, console: Console) -> MissesReport:
    """Builds the program in `out` and measures every case."""
    compiler = toolchain.find(lambda line: console.print(line, markup=False))
    program = compiler.build(workloads.source(PROGRAM), out / "misses")
    host = host_latency_ns(out)
    measured: list[Misses] = []
    for case in CASES:
        one = measure(case, program, ACCESSES, repeat, console)
        if one is None:
            return MissesReport(repeat, True, host, measured)
        measured.append(one)
    return MissesReport(repeat, False, host, measured)


def tables(report: MissesReport) -> RenderableType:
    """The report for people."""
    names = (
        "design",
        "ns/access",
        "ns/L1 miss",
        "to memory (%)",
        "written back (%)",
        "to NVM (bytes)",
    )
    made = table("host time by where an access is answered", "answered by", *names)
    for one in report.cases:

        def share(count: int, of: int = one.accesses) -> str:
            return f"{100 * count / of:.0f}"

        made.add_row(
            one.name,
            one.design,
            number(round(one.ns_per_access, 1)),
            "–" if one.ns_per_l1_miss is None else number(round(one.ns_per_l1_miss, 1)),
            share(one.llc_misses),
            share(one.llc_write_backs),
            f"{one.nvm_written_bytes / one.accesses:.0f}",
        )
    notes = ["Shares and bytes are of accesses."]
    if report.cases:
        hits = report.cases[0]
        instructions = hits.instructions / hits.accesses
        notes.append(f"An access is {instructions:.0f} instructions of the guest in the first row.")
    if report.host_dram_ns is not None:
        notes.append(
            f"The host itself waits {report.host_dram_ns:.0f} ns for a line of its memory."
        )
    return Group(made, *(Text(note, style="dim") for note in notes))

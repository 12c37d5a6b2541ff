"""How fast the simulator is: simulated instructions per host second, beside plain qemu-riscv64.

Always true here: every figure of one report was measured in one call, on the same binaries; the
fastest of the repeats counts; a figure that could not be measured is absent, never guessed. Between
any two runs stands the calibration, in terms of which `--against` compares with an earlier report.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from perdure import (
    PerdureError,
    _core,
    api,
    bench_check,
    bench_cuts,
    bench_misses,
    guard,
    outputs,
    progress,
    terminal,
    toolchain,
    workloads,
)
from perdure.bench_programs import CASES, Case
from perdure.calibration import CalibratedRun, Calibration, children_seconds, host, own_seconds
from perdure.commands.shared import finish
from perdure.options import DEFAULT_ENGINE, EngineOption, JobsOption, JsonOption, processors
from perdure.tables import Sheet, judged, number, table

if TYPE_CHECKING:
    from perdure.bench_results import BenchSpeed

app = typer.Typer(help="Measure the simulator itself.", no_args_is_help=True)

MACHINE = "picl"
QEMU = "qemu-riscv64"
RATIO_LIMIT = 1.25
"""The host time of picl may be at most so many times that of ideal."""
MISS_FLOOR_NS, MISS_AIM_NS = 400.0, 250.0
"""Host nanoseconds per L1 miss: at most, and hoped for."""
WINDOW = "out-of-order"
WINDOW_FLOOR_MIPS, WINDOW_AIM_MIPS = 10.0, 30.0
"""MIPS of every program under picl with out-of-order cores: at least, and hoped for."""
FORK_DESIGNS = ("picl", "nvoverlay")
"""Whose forks are timed, each on the machine of its name."""


@dataclass(frozen=True)
class Speed:
    """One case under one design: host seconds of the fastest run and what they come to."""

    design: str
    instructions: int
    seconds: float
    l1_misses: int
    runs: Sequence[CalibratedRun]

    @property
    def mips(self) -> float:
        """Million simulated instructions per host second."""
        return self.instructions / self.seconds / 1e6

    @property
    def ns_per_instruction(self) -> float:
        """Host nanoseconds per simulated instruction."""
        return self.seconds * 1e9 / self.instructions

    @property
    def ns_per_l1_miss(self) -> float | None:
        """Host nanoseconds of the whole run per L1 miss, instruction and data."""
        return self.seconds * 1e9 / self.l1_misses if self.l1_misses else None

    def as_json(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {
            "instructions": self.instructions,
            "seconds": self.seconds,
            "mips": self.mips,
            "ns_per_instruction": self.ns_per_instruction,
            "l1_misses": self.l1_misses,
            "ns_per_l1_miss": self.ns_per_l1_miss,
            "runs": [asdict(run) for run in self.runs],
        }


@dataclass(frozen=True)
class Row:
    """One case, measured; `window` is picl with out-of-order cores.

    `qemu_seconds` is None, and `qemu_runs` empty, where qemu is not installed.
    """

    case: Case
    ideal: Speed
    picl: Speed
    window: Speed
    qemu_seconds: float | None
    qemu_runs: Sequence[CalibratedRun]

    @property
    def ratio(self) -> float:
        """Host time of picl over that of ideal."""
        return self.picl.seconds / self.ideal.seconds

    @property
    def qemu_mips(self) -> float | None:
        """What plain qemu-riscv64 reaches on the same binary."""
        if self.qemu_seconds is None:
            return None
        return self.ideal.instructions / self.qemu_seconds / 1e6

    def as_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            **asdict(self.case),
            **{speed.design: speed.as_json() for speed in (self.ideal, self.picl)},
            WINDOW: self.window.as_json(),
            "qemu": None
            if self.qemu_seconds is None
            else {
                "seconds": self.qemu_seconds,
                "mips": self.qemu_mips,
                "runs": [asdict(run) for run in self.qemu_runs],
            },
            "picl_over_ideal": self.ratio,
            "floor_reached": self.picl.mips >= self.case.floor_mips,
            "aim_reached": self.picl.mips >= self.case.aim_mips,
            "window_floor_reached": self.window.mips >= WINDOW_FLOOR_MIPS,
            "window_aim_reached": self.window.mips >= WINDOW_AIM_MIPS,
        }


@dataclass(frozen=True)
class SpeedReport:
    """All cases measured in one call."""

    machine: str
    compiler: str
    engine: str
    repeat: int
    rows: Sequence[Row]
    interrupted: bool
    host: dict[str, Any]
    calibration: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "machine": self.machine,
            "compiler": self.compiler,
            "engine": self.engine,
            "repeat": self.repeat,
            "interrupted": self.interrupted,
            "host": self.host,
            "calibration": self.calibration,
            "cases": [row.as_json() for row in self.rows],
            "comparison": None,
        }


def speed(
    out: Path, *, repeat: int, console: Console, engine: api.Engine = api.ENGINE
) -> SpeedReport:
    """Builds the benchmark programs in `out` and measures every case."""
    compiler = toolchain.find(lambda line: console.print(line, markup=False))
    qemu = shutil.which(QEMU)
    rows: list[Row] = []
    interrupted = False
    calibration = Calibration()
    for case in CASES:
        source = workloads.source(case.source)
        binary = out / source.stem
        compiler.build(source, binary)
        command = [str(binary), *case.arguments]
        speeds: list[Speed] = []
        for design, model in (("ideal", None), ("picl", None), ("picl", WINDOW)):
            machine = _machine(case, design, model, engine)
            measured = _measured(case, machine, command, (repeat, calibration), console)
            if measured is None:
                interrupted = True
                break
            speeds.append(measured)
        if interrupted:
            break
        of_qemu = _under_qemu(qemu, command, repeat, calibration) if qemu else (None, [])
        ideal, picl, window = speeds
        rows.append(Row(case, ideal, picl, window, *of_qemu))
    return SpeedReport(
        MACHINE, compiler.name, engine, repeat, rows, interrupted, host(), calibration.as_json()
    )


def _machine(case: Case, design: str, model: str | None, engine: api.Engine) -> api.Machine:
    """A case's, with a model of the core."""
    chosen = [f"core.model={model}"] if model else []
    return api.Machine(machine=MACHINE, design=design, harts=case.harts, set=chosen, engine=engine)


def _measured(
    case: Case,
    machine: api.Machine,
    command: Sequence[str],
    repeated: tuple[int, Calibration],
    console: Console,
) -> Speed | None:
    """Some runs on a machine; None if interrupted."""
    design = machine.design
    repeat, calibration = repeated
    seconds: list[float] = []
    runs: list[CalibratedRun] = []
    for _ in range(repeat):
        begun = own_seconds()
        with progress.bar(console, f"{case.name} under {design}") as show:
            result = machine.run(command, progress=show)
        if result.interrupted:
            return None
        if result.exit_code != 0:
            raise PerdureError(
                f"the benchmark {case.name} failed under {design}: exit status {result.exit_code}"
            )
        seconds.append(result.host.seconds)
        runs.append(calibration.around(own_seconds() - begun))
    return Speed(
        design=design,
        instructions=result.sim.instructions,
        seconds=min(seconds),
        l1_misses=sum(
            int(result.statistics[name].value)
            for name in ("l1d.misses", "l1i.misses")
            if name in result.statistics
        ),
        runs=runs,
    )


def _under_qemu(
    qemu: str, command: Sequence[str], repeat: int, calibration: Calibration
) -> tuple[float, list[CalibratedRun]]:
    """Some runs under plain qemu, its start included, and how long the shortest was."""
    times = []
    runs = []
    for _ in range(repeat):
        begun, started = children_seconds(), time.perf_counter()
        done = subprocess.run([qemu, *command], capture_output=True, check=False)
        times.append(time.perf_counter() - started)
        if done.returncode != 0:
            raise PerdureError(f"{command[0]} failed under {qemu}: exit status {done.returncode}")
        runs.append(calibration.around(children_seconds() - begun))
    return min(times), runs


FORKED_AFTER = 30_000_000
"""Instructions that a machine has run when it is forked."""


@dataclass(frozen=True)
class Fork:
    """What a fork of a machine cost.

    `beside_seconds` is what the next `stretch_cycles` took while the fork lived, `alone_seconds`
    what those after it took when it was gone.
    """

    name: str
    design: str
    instructions: int
    memory_bytes: int
    fork_seconds: float
    end_seconds: float
    stretch_cycles: int
    beside_seconds: float
    alone_seconds: float


def fork(out: Path, *, console: Console) -> list[Fork]:
    """Builds the benchmark programs in `out`, and forks a machine in the middle of each."""
    compiler = toolchain.find(lambda line: console.print(line, markup=False))
    forks = []
    for case in (case for case in CASES if case.harts == 1):
        source = workloads.source(case.source)
        binary = out / source.stem
        compiler.build(source, binary)
        for design in FORK_DESIGNS:
            machine = api.Machine(machine=design, design=design, harts=1)
            request = machine.request([binary], measure_instructions=FORKED_AFTER)
            with progress.bar(console, f"{case.name} under {design}") as show:
                found = json.loads(_core.forks(json.dumps(request), show))
            forks.append(Fork(name=case.name, design=design, **found))
    return forks


def fork_table(forks: Sequence[Fork]) -> RenderableType:
    """What forks cost, for people."""
    title = f"forks of a machine after {FORKED_AFTER // 1_000_000} million instructions"
    names = ("design", "memory (MB)", "fork (µs)", "end (µs)", "beside it (ms)", "alone (ms)")
    made = table(title, "program", *names)
    for one in forks:
        made.add_row(
            one.name,
            one.design,
            f"{one.memory_bytes / 1e6:.0f}",
            f"{one.fork_seconds * 1e6:.0f}",
            f"{one.end_seconds * 1e6:.0f}",
            f"{one.beside_seconds * 1e3:.1f}",
            f"{one.alone_seconds * 1e3:.1f}",
        )
    note = "Beside, alone: host time of two million cycles while the fork lives, and of the next."
    return Group(made, Text(note, style="dim"))


def tables(report: SpeedReport) -> RenderableType:
    """The report for people: speed against floors and aims, then what an instruction costs."""
    with_qemu = any(row.qemu_seconds is not None for row in report.rows)
    speeds: Columns = [
        ("instructions (M)", lambda row: f"{row.picl.instructions / 1e6:,.0f}"),
        ("ideal", lambda row: f"{row.ideal.mips:.0f}"),
        ("picl", lambda row: f"{row.picl.mips:.0f}"),
        ("picl floor", lambda row: _mark(row.case.floor_mips, row.picl.mips)),
        ("picl aim", lambda row: _mark(row.case.aim_mips, row.picl.mips)),
        (f"{WINDOW} picl", lambda row: f"{row.window.mips:.0f}"),
        ("floor", lambda row: _mark(WINDOW_FLOOR_MIPS, row.window.mips)),
        ("aim", lambda row: _mark(WINDOW_AIM_MIPS, row.window.mips)),
    ]
    if with_qemu:
        speeds.append(("qemu", lambda row: f"{row.qemu_mips or 0:.0f}"))
    costs: Columns = [
        ("ideal (ns/instr.)", lambda row: f"{row.ideal.ns_per_instruction:.2f}"),
        ("picl (ns/instr.)", lambda row: f"{row.picl.ns_per_instruction:.2f}"),
        ("ideal (ns/L1 miss)", lambda row: _ns(row.ideal.ns_per_l1_miss)),
        ("picl (ns/L1 miss)", lambda row: _ns(row.picl.ns_per_l1_miss)),
        ("picl/ideal time", _ratio),
    ]
    notes = [
        f"✓ reached, ✗ not. picl may take {RATIO_LIMIT} times ideal's host time. ns per L1 miss is "
        f"all host time over all misses: at most {MISS_FLOOR_NS:.0f} (aim {MISS_AIM_NS:.0f}) where "
        "misses dominate."
    ]
    if report.rows and not with_qemu:
        notes.append(f"{QEMU} is not installed, so its column is absent (Debian: qemu-user).")
    title = f"simulated MIPS, machine {report.machine}, fastest of {report.repeat}"
    if report.engine != api.ENGINE:
        title += f", engine {report.engine}"
    return Group(
        _columns(title, speeds, report.rows),
        _columns("host time", costs, report.rows),
        *(Text(note, style="dim") for note in notes),
    )


Columns: TypeAlias = list[tuple[str, Callable[[Row], str | Text]]]


def _columns(title: str, columns: Columns, rows: Sequence[Row]) -> Sheet:
    made = table(title, "program", *(name for name, _ in columns))
    for row in rows:
        made.add_row(row.case.name, *(cell(row) for _, cell in columns))
    return made


def _mark(limit: float, value: float) -> Text:
    return judged(f"{limit:.0f}", value >= limit)


def _ratio(row: Row) -> Text:
    return judged(f"{row.ratio:.3f} ×", row.ratio <= RATIO_LIMIT)


def _ns(value: float | None) -> str:
    return "–" if value is None else number(round(value, 1))


OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Where the programs are built.")
]
BUILT = Path("out/bench")


def _print(table: RenderableType, document: object, json_file: str | None) -> None:
    """To standard error while standard output carries JSON."""
    outputs.write_json(document, json_file)
    terminal.tables(json_file).print(table)


@app.command("speed")
def speed_command(
    json_file: JsonOption = None,
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            min=1,
            help="Runs of each; the fastest counts.",
            show_default=f"1, {guard.RUNS} with --against",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Compare with an earlier result (--json) and say what moved beyond the noise.",
        ),
    ] = None,
    engine: EngineOption = DEFAULT_ENGINE,
    out: OutOption = BUILT,
) -> None:
    """Measure host speed under ideal and picl, beside plain qemu-riscv64."""
    outputs.check_folder(out)
    earlier = None if against is None else guard.load(against, engine.value)
    times = repeat or (1 if earlier is None else guard.RUNS)
    if earlier is not None and times < guard.RUNS:
        raise PerdureError(f"--against needs --repeat {guard.RUNS} or more, to know the noise")
    report = speed(out, repeat=times, console=terminal.errors(), engine=engine.value)
    document, shown = report.as_json(), tables(report)
    if earlier is not None:
        comparison = guard.compare(earlier, cast("BenchSpeed", document), str(against))
        document["comparison"], shown = comparison, Group(shown, guard.tables(comparison))
    _print(shown, document, json_file)
    finish(0, report.interrupted)


@app.command("fork")
def fork_command(json_file: JsonOption = None, out: OutOption = BUILT) -> None:
    """Measure what a fork of a warmed machine costs the host."""
    outputs.check_folder(out)
    forks = fork(out, console=terminal.errors())
    _print(fork_table(forks), {"forks": [asdict(one) for one in forks]}, json_file)


@app.command("misses")
def misses_command(
    json_file: JsonOption = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Runs of each; the fastest counts.")
    ] = 1,
    out: OutOption = BUILT,
) -> None:
    """Measure what an access costs the host, by where it is answered."""
    outputs.check_folder(out)
    report = bench_misses.misses(out, repeat=repeat, console=terminal.errors())
    _print(bench_misses.tables(report), report.as_json(), json_file)
    finish(0, report.interrupted)


@app.command("cuts")
def cuts_command(
    json_file: JsonOption = None,
    cuts: Annotated[
        int, typer.Option("--cuts", min=2, metavar="N", help="Of the larger campaign.")
    ] = bench_cuts.CUTS,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, help="Runs of each; the fastest counts.")
    ] = 1,
    out: OutOption = BUILT,
) -> None:
    """Measure what power cuts cost the host, in runs of the same program."""
    outputs.check_folder(out)
    report = bench_cuts.cuts(out, count=cuts, repeat=repeat, console=terminal.errors())
    _print(bench_cuts.tables(report), report.as_json(), json_file)
    finish(0, report.interrupted)


@app.command("check")
def check_command(
    json_file: JsonOption = None,
    cuts: Annotated[
        int, typer.Option("--cuts", min=2, metavar="N", help="Of the larger campaign.")
    ] = bench_check.CUTS,
    jobs: JobsOption = None,
    out: OutOption = BUILT,
) -> None:
    """Measure what perdure check costs the host, beside power cuts of the same program."""
    outputs.check_folder(out)
    report = bench_check.checks(out, (cuts, jobs or processors()), terminal.errors())
    _print(bench_check.tables(report), report.as_json(), json_file)
    finish(0, report.interrupted)

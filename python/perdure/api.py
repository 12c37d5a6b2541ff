"""What Perdure does, as plain calls that return plain data.

Always true here: a call builds one JSON request, the core answers with one JSON result, and the
dataclasses below are that result with names and units; `raw` keeps the whole of it. Every refusal
is a `PerdureError` whose text says what is wrong, where, and what to do.

Ctrl-C stops a call early: it returns what is finished, with `interrupted` set. A second Ctrl-C
raises `KeyboardInterrupt` at once.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import fspath
from typing import Any, Literal, TypeAlias

import msgspec

from perdure import _core, outputs, requests, spreading

Json: TypeAlias = Mapping[str, Any]
Path: TypeAlias = requests.Path
Value: TypeAlias = requests.Value
Schedule: TypeAlias = requests.Schedule
Resume: TypeAlias = Literal["all", "sample", "none"]
Engine: TypeAlias = Literal["fast", "plain"]

KEPT = ("result.json", "configuration.toml")
"""The files of a result in the folder that a call is given for it."""

Progress: TypeAlias = Callable[[int, int, str, str], object]
"""Called as `progress(done, total, unit, message)`; `total` is 0 while it is not known."""


@dataclass(frozen=True)
class Statistic:
    """One counter of a run."""

    value: int | float
    unit: str
    meaning: str


@dataclass(frozen=True)
class Simulated:
    """What the simulated machine did: `instructions` retired, on all harts, in `cycles`."""

    instructions: int
    cycles: int


@dataclass(frozen=True)
class Host:
    """What the simulation cost: wall-clock `seconds`, and million instructions a second."""

    seconds: float
    mips: float


@dataclass(frozen=True)
class WrittenBytes:
    """Bytes written to the NVM media, by what they were for. `total` is the sum of the others."""

    data: int
    log: int
    metadata: int
    context: int
    total: int


@dataclass(frozen=True)
class Nvm:
    """Traffic of the NVM media, in bytes."""

    written_bytes: WrittenBytes
    read_bytes: int


@dataclass(frozen=True)
class FatalSignal:
    """The signal that ended a program: by which instruction, at which `pc`, for what `cause`.

    Addresses are in hexadecimal. `symbol` is the function; `address` is what was accessed, and
    `instruction` the disassembly, where there are any.
    """

    signal: str
    cause: str
    pc: str
    symbol: str | None = None
    address: str | None = None
    instruction: str | None = None


@dataclass(frozen=True)
class SystemCall:
    """A system call's number, and its name where it has one."""

    number: int
    name: str | None = None


@dataclass(frozen=True)
class RegionProgram:
    """One program in the measured region: `cycles` until it had retired its share of it."""

    cycles: int
    instructions: int


@dataclass(frozen=True)
class Region:
    """The measured part of a run.

    `statistics` are differences over the region; `programs` stand in the order of the request;
    `whole_phase` says that it is every program's parallel phase, from begin to end.
    """

    cycles: int
    instructions: int
    statistics: Mapping[str, Statistic]
    programs: Sequence[RegionProgram]
    whole_phase: bool = False


@dataclass(frozen=True)
class WrittenFile:
    """A file that the guest wrote: its guest path, and whether the host has it now."""

    path: str
    size: int
    kept: bool


@dataclass(frozen=True)
class ProgramReport:
    """One of the programs that ran together: `runs` finished, `exit_code` of the first of them."""

    arguments: Sequence[str]
    exit_code: int | None
    runs: int
    instructions: int


@dataclass(frozen=True)
class Refusal:
    """Something that a program asked for and the kernel refuses on purpose.

    `kind` is `system call` (answered with ENOSYS), or the call whose command it is; `expected`
    calls are made by every program's start, which does without.
    """

    kind: str
    number: int
    name: str
    expected: bool


@dataclass(frozen=True)
class Spread:
    """One quantity over several power cuts; the percentiles are by nearest rank."""

    median: int
    percentile_99: int
    worst: int


@dataclass(frozen=True)
class CutCost:
    """What power cuts cost: the work that is lost, and what recovery takes.

    Work is lost from the recovered point to the cut: `lost_instructions` of all harts, and
    `lost_cycles` of the hart that goes back furthest. `recovery_cycles` is the time of recovery's
    own reads and writes (`recovery_reads`, `recovery_read_bytes`, …) on the machine's memory.
    """

    cuts: int
    lost_instructions: Spread
    lost_cycles: Spread
    recovery_cycles: Spread
    recovery_reads: Spread
    recovery_read_bytes: Spread
    recovery_writes: Spread
    recovery_written_bytes: Spread
    recovery_loaded_lines: Spread


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One program, or several at once, run on one machine under one design.

    `exit_code` is the program's exit status, 128 + signal where a signal ended it, or None where
    the run was stopped before the program's end; `remarks` is what the design says then.
    `unknown_system_calls` are those that the kernel does not have, `refused` what it refuses on
    purpose; `refused_output` says why the host did not take a file of the guest's. `files` are
    those that the guest wrote, by guest path. `region` is there if a measured region was asked
    for, `cut_cost` if power cuts were probed, `raw["modules"]` if there are several modules.
    Equal configurations and programs give equal `config_hash`, `state_hash` and `statistics`.
    """

    design: str
    machine: str
    config_hash: str
    state_hash: str
    exit_code: int | None
    sim: Simulated
    host: Host
    nvm: Nvm
    statistics: Mapping[str, Statistic]
    fatal_signal: FatalSignal | None = None
    remarks: Sequence[str] = ()
    unknown_system_calls: Sequence[SystemCall] = ()
    refused: Sequence[Refusal] = ()
    refused_output: str | None = None
    files: Sequence[WrittenFile] = ()
    region: Region | None = None
    programs: Sequence[ProgramReport] = ()
    cut_cost: CutCost | None = None
    interrupted: bool = False
    raw: Json = field(repr=False)

    @property
    def lost_pools(self) -> Sequence[str]:
        """A line for each pool that is as it was when last synchronised, or not there."""
        lost = self.raw.get("pools", {}).get("not_synchronised", ())
        return [f"pool {name}: only what was synchronised is kept" for name in lost]

    @classmethod
    def from_json(cls, result: Json) -> RunResult:
        """Reads the core's result."""
        return msgspec.convert({**result, "raw": result}, cls)


@dataclass(frozen=True)
class CutResult:
    """One power cut: when (`cycle`), what came back, and whether the design kept its promise.

    `recovered_epoch` is the epoch to which memory came back (None where nothing did), `resumed`
    whether the program was then run to its end, and `token` repeats exactly this cut.
    """

    cycle: int
    recovered_epoch: int | None
    resumed: bool
    verdict: str
    token: str
    raw: Json = field(repr=False)

    @property
    def verified(self) -> bool:
        """Whether the design kept its promise at this cut."""
        return self.verdict == "verified"

    @property
    def depends_on_timing(self) -> bool:
        """Whether the program's output depends on time, so that it is not the uncut run's."""
        return bool(self.raw.get("depends_on_timing", False))

    @property
    def lost(self) -> bool:
        """Whether something is gone that the design had not promised to keep."""
        return self.verdict == "lost"

    @property
    def restarted(self) -> bool:
        """Whether a program was then started again on the pools that survived."""
        return bool(self.raw.get("restarts"))

    @property
    def last_lines(self) -> Sequence[str]:
        """What the program that was started again last said, where it did not end as it has to."""
        last: Json = (self.raw.get("restarts") or [{}])[-1]
        return str(last.get("output", "")).splitlines() if not self.verified else ()


@dataclass(frozen=True, kw_only=True)
class CutReport:
    """Power cuts of one program: `cuts` made, of them `verified`, `lost` and `failed`.

    Those that `failed` broke a promise; `lost` are those at which something is gone that was not
    promised, under a design that promises nothing. `coverage` counts how often the cuts hit each
    design state and overflow path, and `cost` says what they cost. After `restarted` cuts a program
    was started again (None: that was not asked for); `after_the_end` says how it ends, if it does,
    after the run that nobody cut (`exit_code`, `cycles`, and the last lines of its `output`).
    """

    design: str
    machine: str
    config_hash: str
    cuts: int
    verified: int
    lost: int = 0
    failed: int
    coverage: Json
    cost: CutCost | None = None
    results: Sequence[CutResult]
    restarted: int | None = None
    after_the_end: Json | None = None
    interrupted: bool = False
    raw: Json = field(repr=False)

    @property
    def failures(self) -> list[CutResult]:
        """The cuts at which the design broke its promise."""
        return [result for result in self.results if not (result.verified or result.lost)]

    @property
    def losses(self) -> list[CutResult]:
        """The cuts at which something is gone that nobody had promised to keep."""
        return [result for result in self.results if result.lost]

    @classmethod
    def from_json(cls, report: Json) -> CutReport:
        """Reads the core's report."""
        results = [{**one, "raw": one} for one in report["results"]]
        own = {"results": results, "cost": report.get("cut_cost"), "raw": report}
        return msgspec.convert({**report, **own}, cls)


@dataclass(frozen=True)
class BugReport:
    """One planted bug: whether verification caught it, by what, after how many cuts."""

    name: str
    summary: str
    caught: bool
    cuts: int
    by: str | None = None
    token: str | None = None


@dataclass(frozen=True, kw_only=True)
class MutantsReport:
    """A design's planted bugs, and the design without any of them for comparison.

    `false_alarms` counts the cuts, out of `clean_cuts`, at which the clean design was accused.
    """

    design: str
    mutants: Sequence[BugReport]
    clean_cuts: int
    false_alarms: int
    interrupted: bool = False
    raw: Json = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether every bug was caught, the clean design never accused, and nothing cut short."""
        caught = all(bug.caught for bug in self.mutants)
        return caught and self.false_alarms == 0 and not self.interrupted

    @classmethod
    def from_json(cls, report: Json) -> MutantsReport:
        """Reads the core's report."""
        clean = report["clean"]
        own = {"clean_cuts": clean["cuts"], "false_alarms": clean["false_alarms"], "raw": report}
        return msgspec.convert({**report, **own}, cls)


@dataclass(frozen=True)
class Configuration:
    """The effective configuration: as TOML, with its hash, and value by value with units."""

    toml: str
    hash: str
    values: Json
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Named:
    """Something that has a name and one line about it."""

    name: str
    summary: str
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Catalogue:
    """The designs and machines that this build knows."""

    designs: Sequence[Named]
    machines: Sequence[Named]


@dataclass(frozen=True)
class Machine:
    """A machine under a crash-consistency design, ready to run programs.

    `machine` is a preset's name or the path of a TOML file; `set` overrides single values, for
    instance `{"picl.acs_gap": 2}`; `harts` is the number of hardware threads (None: one for each
    program); `sysroot` is the folder in which a dynamically linked program finds its interpreter
    and libraries; `mounts` are further `HOST:GUEST` folders; `environment` is the guest's whole
    environment beyond the configured one; `stdin` is a file; the files of the folder `pmem` are its
    pools, below /pmem, and after a run, or a cut `at` a cycle, those that survive stand there.
    Nothing is checked before the first call.
    """

    machine: str = "picl"
    design: str = "picl"
    set: Mapping[str, Value] | Sequence[str] = ()
    harts: int | None = None
    sysroot: Path | None = None
    mounts: Sequence[str] = ()
    environment: Mapping[str, str] | Sequence[str] = ()
    stdin: Path | None = None
    pmem: Path | None = None
    engine: Engine = "fast"

    def configuration(self) -> Configuration:
        """The effective configuration, as every run stores it beside its results."""
        result = json.loads(_core.configuration(json.dumps(self._request())))
        return Configuration(result["toml"], result["hash"], result["values"], result)

    def run(
        self,
        program: Sequence[Path] = (),
        *,
        programs: Sequence[Sequence[Path]] = (),
        repeat: bool = False,
        warm_up: int | None = None,
        measure: int | None = None,
        measure_threads: bool = False,
        stop_after: int | None = None,
        out: Path | None = None,
        files: Path | None = None,
        write_through: Sequence[str] = (),
        snapshots: Path | None = None,
        replicate_to: str | Path | None = None,
        secret_file: Path | None = None,
        patience: int = 10,
        watch: Sequence[str] = (),
        burst_stores: int | None = None,
        burst_instructions: int | None = None,
        sample_cycles: int | None = None,
        probe_cuts: bool = False,
        passthrough: bool = False,
        progress: Progress | None = None,
    ) -> RunResult:
        """Runs `program` (path and arguments) to its end, or for `stop_after` instructions.

        `programs` are several at once instead, one process and one hart each; with `repeat`, one
        that has finished starts again until all have. After each program has retired `warm_up`
        instructions the measured region begins, and it ends when each has retired `measure` more.
        With `measure_threads` it is the first parallel phase, from a program's second thread's
        start until it has one thread again (or has retired `measure` instructions in it).
        The host is read-only to the guest. `out` is a folder for results, the effective
        configuration and, in `files`, what the guest wrote; `files` keeps that elsewhere, or alone.
        Only the folders of `write_through` (`HOST:GUEST`) are changed by the guest, in place.
        `snapshots` one for a snapshot store, where the design keeps snapshots: see
        `perdure.open_snapshots`. Each epoch that becomes recoverable is copied to `replicate_to`, a
        folder or `HOST:PORT` of a replica that shares the secret in `secret_file`; at the end, one
        that is away is waited for, `patience` seconds: see `raw["replication"]`. A store to one of
        `watch` (addresses or symbols, perhaps with `:BYTES`), or the program's own hint, starts a
        burst: epochs of `burst_stores` stores, for `burst_instructions` instructions of all harts.
        `sample_cycles` asks for the series of what was written every so many cycles. With
        `probe_cuts`, power cuts at random moments are measured on the way (`cut_cost`); the run
        stays the same. With `passthrough`, the guest's output goes to this process's, as the design
        releases it.
        """
        request = self._request(
            program,
            stop_after=stop_after,
            out=out,
            passthrough=passthrough,
            **({} if files is None else {"files": fspath(files)}),
            **({"write_through": list(write_through)} if write_through else {}),
            **({} if snapshots is None else {"snapshots": fspath(snapshots)}),
            **requests.replicated(replicate_to, secret_file, patience),
            **requests.bursts(watch, burst_stores, burst_instructions, sample_cycles),
            **({"probe_cuts": True} if probe_cuts else {}),
            **requests.together(program, programs, repeat, warm_up, measure, measure_threads),
        )
        run = partial(_core.run, json.dumps(request), progress)
        return RunResult.from_json(self._kept(out, lambda: json.loads(run())))

    def cut(
        self,
        program: Sequence[Path] = (),
        *,
        programs: Sequence[Sequence[Path]] = (),
        repeat: bool = False,
        at: int | None = None,
        cuts: int = 100,
        schedule: Schedule = "random",
        seed: int = 1,
        during_recovery: bool = False,
        replica: bool = False,
        restart: bool = False,
        then: Sequence[Path] = (),
        expect: str | None = None,
        resume: Resume | None = None,
        generations: int | None = None,
        check: Sequence[Path] = (),
        check_seconds: int | None = None,
        jobs: int = 1,
        scheduler: str | None = None,
        planted_bug: str | None = None,
        stop_after: int | None = None,
        out: Path | None = None,
        progress: Progress | None = None,
    ) -> CutReport:
        """Runs `program`, or `programs` at once, cuts the power, recovers, and judges it.

        One cut at cycle `at`, or `cuts` of them by `schedule` and `seed`; cuts also strike
        recovery itself with `during_recovery`. With `replica`, a replica follows, and each cut also
        loses the primary after some byte that it sent. `resume` says after which cuts the program
        is run to its end, its output and exit status compared with an uninterrupted run's; where
        `check` (a program of the host's and its arguments) is given, it decides in their place,
        in a folder with the run's files, within `check_seconds` (60). `generations` is how often
        in a row the power is cut, each time in the machine that came back (None: three times for
        half of the resumed cuts). `jobs` host threads share the work, or the workers of the Dask
        cluster whose `scheduler` is named, which see this host's files; they change no result.

        With `restart` the processes are lost and the pools of `pmem` survive: after each cut the
        program, or `then`, is started again on them, and has to end with exit status 0 and, where
        `expect` is given (a file, or the text itself), with that standard output. The folder is
        not changed. With `during_recovery` such a life is cut, too, and the next one, three deep.
        """
        request = self._request(
            program,
            at=at,
            cuts=cuts,
            schedule=schedule,
            seed=seed,
            during_recovery=during_recovery,
            replica=replica,
            resume=resume or (None if restart else "sample"),
            **requests.judged(generations, check, check_seconds, restart, then, expect),
            jobs=jobs,
            planted_bug=planted_bug,
            stop_after=stop_after,
            out=out,
            **requests.together(program, programs, repeat),
        )
        cut = partial(spreading.cut, request, scheduler, progress)
        return CutReport.from_json(self._kept(out, cut))

    def _kept(self, out: Path | None, command: Callable[[], Json]) -> Json:
        """A result, kept with its configuration in the folder `out`, which is able to take it."""
        if out is None:
            return command()
        outputs.check_folder(out, files=KEPT)
        of_result, of_configuration = KEPT
        result = command()
        outputs.store(out, of_result, json.dumps(result, indent=2))
        effective = self.configuration()
        outputs.store(out, of_configuration, f"# {effective.hash}\n{effective.toml}")
        return result

    def request(
        self,
        program: Sequence[Path] = (),
        programs: Sequence[Sequence[Path]] = (),
        **more: object,
    ) -> dict[str, object]:
        """What the core is asked for this machine and these programs, for who asks it directly."""
        together = requests.together(program, programs, repeat=False)
        return self._request(program, out=None, **together, **more)

    def _request(
        self,
        program: Sequence[Path] = (),
        *,
        out: Path | None = None,
        **more: object,
    ) -> dict[str, object]:
        """The request that this machine makes of the core."""
        return {
            "machine": self.machine,
            "design": self.design,
            "set": requests.assignments(self.set),
            "harts": self.harts,
            "sysroot": None if self.sysroot is None else fspath(self.sysroot),
            "mounts": list(self.mounts),
            "environment": requests.assignments(self.environment),
            "stdin": None if self.stdin is None else fspath(self.stdin),
            "engine": self.engine,
            **({} if self.pmem is None else {"pmem": fspath(self.pmem)}),
            "program": [fspath(word) for word in program],
            "out": None if out is None else fspath(out),
            **more,
        }


def replay(
    token: str,
    *,
    check: Sequence[Path] = (),
    check_seconds: int | None = None,
    cores: Path | None = None,
    progress: Progress | None = None,
) -> CutReport:
    """Repeats the cut that `token` names, with its `check`; a failure's cores go to `cores`."""
    more = requests.judged(check=check, check_seconds=check_seconds, cores=cores)
    asked = json.dumps({"token": token, **more}) if more else token
    return CutReport.from_json(json.loads(_core.replay(asked, progress)))


MUTANT_GROUPS = ("machine", "persistence", "replication", "verifier")
"""Planted bugs that are no design's: `mutants` takes these names, too."""

STATE_MUTANTS = "state"
"""The group of what restoring may lose; `mutants` takes it with a folder of compiled guests."""


def mutants(
    design: str = "picl",
    *,
    guests: pathlib.Path | str | None = None,
    unnoticed: pathlib.Path | str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> MutantsReport:
    """Plants each of the design's known bugs in turn and checks that verification catches it.

    In place of a design, one of `MUTANT_GROUPS`: bugs of the machine, of what it makes durable when
    (which litmus tests notice), and of replication; or the verifier's own checks, each of which is
    switched off, and a bug must then slip through. Or `STATE_MUTANTS`: each field of the saved
    state is lost in turn, under the programs of `guests`; what these cannot notice is listed in the
    file `unnoticed`, with the reasons.
    """
    paths = {"guests": guests, "unnoticed": unnoticed}
    given = {key: str(path) for key, path in paths.items() if path is not None}
    request = json.dumps({"design": design, "jobs": jobs, **given})
    return MutantsReport.from_json(json.loads(_core.mutants(request, progress)))


def catalogue() -> Catalogue:
    """The designs and machines that this build knows."""
    known = json.loads(_core.catalogue())
    return Catalogue(designs=_named(known["designs"]), machines=_named(known["machines"]))


def _named(entries: Sequence[Json]) -> list[Named]:
    return [Named(entry["name"], entry["summary"], entry) for entry in entries]

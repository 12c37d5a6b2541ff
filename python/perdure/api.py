"""What Perdure does, as plain calls that return plain data.

Always true here: a call builds one JSON request, the core answers with one JSON result, and the
dataclasses of `perdure.results` are that result with names and units; `raw` keeps the whole of it.
Every refusal is a `PerdureError` whose text says what is wrong, where, and what to do. A program is
given word by word or as one text, and in a notebook a call shows its progress.

Ctrl-C stops a call early: it returns what is finished, with `interrupted` set. A second Ctrl-C
raises `KeyboardInterrupt` at once.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from os import fspath
from typing import Any, Literal, TypeAlias

from perdure import PerdureError, _core, capture, notebook, outputs, requests, spreading, timelines
from perdure.cut_results import CutCost, CutReport, CutResult, Spread
from perdure.fields import Json
from perdure.known import Catalogue, Configuration, Named
from perdure.results import (
    BugReport,
    FatalSignal,
    MutantsReport,
    RunResult,
    Statistic,
    SystemCall,
    WrittenFile,
)

__all__ = [
    "KEPT",
    "MUTANT_GROUPS",
    "STATE_MUTANTS",
    "BugReport",
    "Catalogue",
    "Command",
    "Configuration",
    "CutCost",
    "CutReport",
    "CutResult",
    "Engine",
    "FatalSignal",
    "Json",
    "Machine",
    "MutantsReport",
    "Named",
    "Path",
    "Progress",
    "Resume",
    "RunResult",
    "Schedule",
    "Spread",
    "Statistic",
    "SystemCall",
    "Value",
    "WrittenFile",
    "catalogue",
    "cut",
    "debug",
    "mutants",
    "replay",
    "run",
]

Command: TypeAlias = requests.Command
Path: TypeAlias = requests.Path
Value: TypeAlias = requests.Value
Schedule: TypeAlias = requests.Schedule
Resume: TypeAlias = Literal["all", "sample", "none"]
Engine: TypeAlias = requests.Engine
ENGINE = requests.ENGINE
"""What runs harts unless another one is asked for."""

KEPT = ("result.json", "configuration.toml")
"""The files of a result in the folder that a call is given for it."""

Progress: TypeAlias = notebook.Progress
"""Called as `progress(done, total, unit, message)`; `total` is 0 while it is not known."""


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

    machine: Path = "picl"
    design: str = "picl"
    set: Mapping[str, Value] | Sequence[str] = ()
    harts: int | None = None
    sysroot: Path | None = None
    mounts: Sequence[str] = ()
    environment: Mapping[str, str] | Sequence[str] = ()
    stdin: Path | None = None
    pmem: Path | None = None
    engine: Engine = ENGINE

    def configuration(self) -> Configuration:
        """The effective configuration, as every run stores it beside its results."""
        return Configuration.from_json(json.loads(_core.configuration(json.dumps(self._request()))))

    def run(
        self,
        program: Command = (),
        *,
        programs: Sequence[Command] = (),
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
        trace: timelines.Timeline | Path | None = None,
        probe_cuts: bool = False,
        passthrough: bool | None = None,
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
        `sample_cycles` asks for the series of what was written every so many cycles, and `trace`
        for a timeline: a file, or a `perdure.timelines.Timeline` that says more. With
        `probe_cuts`, power cuts at random moments are measured on the way (`cut_cost`); the run
        stays the same. With `passthrough`, the guest's output also goes to this process's, as the
        design releases it; in a notebook (where it goes to the cell) it does unless told not to.
        """
        shown = notebook.active() and passthrough is not False
        request = self._request(
            program,
            stop_after=stop_after,
            out=out,
            passthrough=bool(passthrough) and not shown,
            **({} if files is None else {"files": fspath(files)}),
            **({"write_through": requests.texts(write_through)} if write_through else {}),
            **({} if snapshots is None else {"snapshots": fspath(snapshots)}),
            **requests.replicated(replicate_to, secret_file, patience),
            **requests.bursts(watch, burst_stores, burst_instructions, sample_cycles),
            **timelines.requested(trace),
            **({"probe_cuts": True} if probe_cuts else {}),
            **requests.together(program, programs, repeat, warm_up, measure, measure_threads),
        )
        heard = capture.Heard(shown)
        with notebook.following("run", progress) as show:
            run = partial(_core.run, json.dumps(request), show, heard)
            result = self._kept(out, lambda: timelines.finished(trace, json.loads(run())))
        return RunResult.from_json(result, **heard.texts)

    def cut(
        self,
        program: Command = (),
        *,
        programs: Sequence[Command] = (),
        repeat: bool = False,
        at: int | None = None,
        cuts: int | None = None,
        schedule: Schedule = "random",
        seed: int = 1,
        during_recovery: bool = False,
        replica: bool = False,
        restart: bool = False,
        then: Command = (),
        expect: str | None = None,
        resume: Resume | None = None,
        generations: int | None = None,
        check: Command = (),
        check_seconds: int | None = None,
        until_cut: bool = False,
        jobs: int = 1,
        scheduler: str | None = None,
        planted_bug: str | None = None,
        stop_after: int | None = None,
        out: Path | None = None,
        progress: Progress | None = None,
    ) -> CutReport:
        """Runs `program`, or `programs` at once, cuts the power, recovers, and judges it.

        One cut at cycle `at`, or `cuts` of them (None: a hundred) by `schedule` and `seed`; cuts
        also strike recovery itself with `during_recovery`. With `replica`, a replica follows, and
        each cut also loses the primary after some byte that it sent. `resume` says after which cuts
        the program is run to its end, its output and exit status compared with an uninterrupted
        run's; where `check` (a program of the host's and its arguments) is given, it decides in
        their place, in a folder with the run's files, within `check_seconds` (60). `generations` is
        how often in a row the power is cut, each time in the machine that came back (None: three
        times for half of the resumed cuts). With `until_cut` the run ends with the cut at `at`:
        nothing is resumed, and how it would have ended is not found out. `jobs` host threads share
        the work, or the workers of the Dask cluster whose `scheduler` is named, which see this
        host's files; they change no result.

        With `restart` the processes are lost and the pools of `pmem` survive: after each cut the
        program, or `then`, is started again on them, and has to end with exit status 0 and, where
        `expect` is given (a file, or the text itself), with that standard output. The folder is
        not changed. With `during_recovery` such a life is cut, too, and the next one, three deep.
        """
        request = self._request(
            program,
            **requests.cuts(at, cuts),
            schedule=schedule,
            seed=seed,
            during_recovery=during_recovery,
            replica=replica,
            resume=requests.resumed(
                resume, generations, None if restart or until_cut else "sample"
            ),
            **requests.judged(
                generations, check, check_seconds, restart, then, expect, until_cut=until_cut
            ),
            jobs=jobs,
            planted_bug=planted_bug,
            stop_after=stop_after,
            out=out,
            **requests.together(program, programs, repeat),
        )
        with notebook.following("power cuts", progress) as show:
            cut = partial(spreading.cut, request, scheduler, show)
            return CutReport.from_json(self._kept(out, cut))

    def _kept(self, out: Path | None, command: Callable[[], Json]) -> Json:
        """A result, kept with its configuration in the folder `out`.

        Raises:
            NotKeptError: the folder, which seemed able to take it, was not.
        """
        if out is None:
            return command()
        outputs.check_folder(out, files=KEPT)
        of_result, of_configuration = KEPT
        result = command()
        effective = self.configuration()
        try:
            outputs.store(out, of_result, json.dumps(result, indent=2))
            outputs.store(out, of_configuration, f"# {effective.hash}\n{effective.toml}")
        except PerdureError as error:
            raise outputs.NotKeptError(str(error), result) from error
        return result

    def request(
        self,
        program: Command = (),
        programs: Sequence[Command] = (),
        **more: object,
    ) -> dict[str, object]:
        """What the core is asked for this machine and these programs, for who asks it directly."""
        together = requests.together(program, programs, repeat=False)
        return self._request(program, out=None, **together, **more)

    def _request(
        self,
        program: Command = (),
        *,
        out: Path | None = None,
        **more: object,
    ) -> dict[str, object]:
        """The request that this machine makes of the core."""
        return {
            **requests.machine(**vars(self)),
            "program": requests.words(program),
            "out": None if out is None else fspath(out),
            **more,
        }


def run(program: Command = (), **asked: Any) -> RunResult:
    """Runs a program: `perdure.run("./a 100", design="frm")`.

    `asked` are fields of `Machine`, and what `Machine.run` takes.
    """
    machine, more = _machine(asked)
    return machine.run(program, **more)


def cut(program: Command = (), **asked: Any) -> CutReport:
    """Cuts a program's power: `perdure.cut("./a 100", cuts=50)`.

    `asked` are fields of `Machine`, and what `Machine.cut` takes.
    """
    machine, more = _machine(asked)
    return machine.cut(program, **more)


def _machine(asked: Mapping[str, Any]) -> tuple[Machine, dict[str, Any]]:
    """The machine that is asked for, and what else is."""
    names = {one.name for one in fields(Machine)}
    machine = Machine(**{name: value for name, value in asked.items() if name in names})
    return machine, {name: value for name, value in asked.items() if name not in names}


def replay(
    token: str,
    *,
    check: Command = (),
    check_seconds: int | None = None,
    cores: Path | None = None,
    until_cut: bool = False,
    progress: Progress | None = None,
) -> CutReport:
    """Repeats the cut that `token` names, with its `check`; a failure's cores go to `cores`.

    With `until_cut` the run ends there: how it would have ended is not found out.
    """
    more = requests.judged(
        check=check, check_seconds=check_seconds, cores=cores, until_cut=until_cut
    )
    asked = json.dumps({"token": token, **more}) if more else token
    with notebook.following("replay", progress) as show:
        return CutReport.from_json(json.loads(_core.replay(asked, show)))


def debug(asked: Mapping[str, Any]) -> Json:
    """Serves a debugger, as the core is asked to: what `perdure debug` does."""
    result: Json = json.loads(_core.debug(json.dumps(dict(asked))))
    return result


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
    with notebook.following("planted bugs", progress) as show:
        return MutantsReport.from_json(json.loads(_core.mutants(request, show)))


def catalogue() -> Catalogue:
    """The designs and machines that this build knows."""
    return Catalogue.from_json(json.loads(_core.catalogue()))

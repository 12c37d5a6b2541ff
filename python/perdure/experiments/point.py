"""A point: one simulation, as plain data.

Always true here: everything that decides a point's result is in it, as contents and not as places
on this host, and so in its key; `Point.request` is the only way from a point to the core.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perdure import PerdureError, __version__, _core, api

SCHEMA = 2
"""Part of every key: a change in what is kept of a point makes old ones unusable."""

SCRATCH = "{scratch}"
"""For a mount or pools: a directory that is made for one run of one point, and removed after it."""


@dataclass(frozen=True)
class Program:
    """A program: its name in tables, its command as the core takes it, its contents' digest."""

    name: str
    command: tuple[str, ...]
    digest: str


@dataclass(frozen=True)
class Surroundings:
    """What the guest sees beside its programs. `digest` stands for the contents of all of it."""

    sysroot: str | None = None
    mounts: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    stdin: str | None = None
    digest: str = ""


@dataclass(frozen=True)
class Campaign:
    """Power cuts instead of a measurement.

    With `recover`, a program that is started again recovers and checks, and does no more.
    """

    cuts: int
    seed: int
    during_recovery: bool
    resume: api.Resume = "sample"
    schedule: api.Schedule = "random"
    restart: bool = False
    recover: bool = False

    def asked(self, command: Sequence[str] = ()) -> dict[str, Any]:
        """What is asked of the core: a program that is started again is not resumed."""
        said = asdict(self)
        del said["resume" if self.restart else "restart"]
        if said.pop("recover"):
            said["then"] = [*command, "--recover"]
        return said


@dataclass(frozen=True)
class Point:
    """One simulation.

    With `measure`, every program's next so many instructions after `warm_up` are measured; with
    `measure_threads` its parallel phase, and at most `measure` of it; without either, the whole run
    is. `sample_cycles` asks for the series of what was written, `probe_cuts` for what power cuts
    would cost. With `pools` there is persistent memory for files: a copy of those in the folder
    `kept_pools`, whose contents the surroundings' digest stands for, and what `made`, commands that
    run before and are not measured, leave there. `remark` tells people what distinguishes it from
    others of its kind; it is no part of the key.
    """

    name: str
    design: str
    programs: tuple[Program, ...]
    machine: str = "picl"
    overrides: tuple[str, ...] = ()
    harts: int | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    repeat: bool = False
    warm_up: int | None = None
    measure: int | None = None
    measure_threads: bool = False
    sample_cycles: int | None = None
    probe_cuts: bool = False
    stop_after: int | None = None
    campaign: Campaign | None = None
    remark: str = ""
    pools: bool = False
    kept_pools: str | None = None
    made: tuple[tuple[str, ...], ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether the run has a measured region, and stops at its end."""
        return self.measure is not None or self.measure_threads

    @property
    def command(self) -> str:
        """The core's function that runs this point."""
        return "run" if self.campaign is None else "cut"

    def request(self) -> dict[str, Any]:
        """What is asked of the core, with this host's paths."""
        commands = [list(program.command) for program in self.programs]
        several = len(commands) > 1 or self.is_measured or self.repeat
        request: dict[str, Any] = {
            "machine": self.machine,
            "design": self.design,
            "set": list(self.overrides),
            "harts": self.harts,
            "sysroot": self.surroundings.sysroot,
            "mounts": list(self.surroundings.mounts),
            "environment": list(self.surroundings.environment),
            "stdin": self.surroundings.stdin,
            **({"programs": commands} if several else {"program": commands[0]}),
        }
        if self.repeat:
            request["repeat"] = True
        for key, value in (
            ("warm_up_instructions", self.warm_up),
            ("measure_instructions", self.measure),
            ("measure_threads", self.measure_threads or None),
            ("sample_cycles", self.sample_cycles),
            ("probe_cuts", self.probe_cuts or None),
            ("stop_after", self.stop_after),
        ):
            if value is not None:
                request[key] = value
        if self.campaign is not None:
            request.update(self.campaign.asked(commands[0]), jobs=1)
        if self.pools:
            made = [list(command) for command in self.made]
            request.update(pmem=SCRATCH, kept_pools=self.kept_pools, made=made)
        return request

    @property
    def harts_of_machine(self) -> int:
        """Its hardware threads: as an override says, or `harts`, or one for each program."""
        settings = (override.partition("=") for override in self.overrides)
        said = [int(value, 0) for key, _, value in settings if key.strip() == "harts"]
        return said[-1] if said else self.harts or len(self.programs)

    def configuration(self) -> api.Configuration:
        """The effective configuration; refuses what the core would refuse."""
        harts = self.harts_of_machine
        return _configuration(self.machine, self.design, self.overrides, harts)

    def key(self) -> str:
        """A hash of everything that decides the result."""
        contents = {
            "schema": SCHEMA,
            "version": __version__,
            "core": core_digest(),
            "design": self.design,
            "configuration": self.configuration().toml,
            "programs": [
                [*_portable(program.command), program.digest] for program in self.programs
            ],
            "surroundings": self.surroundings.digest,
            "environment": self.surroundings.environment,
            "repeat": self.repeat,
            "warm_up": self.warm_up,
            "measure": self.measure,
            "measure_threads": self.measure_threads,
            "sample_cycles": self.sample_cycles,
            "probe_cuts": self.probe_cuts,
            "stop_after": self.stop_after,
            "campaign": None if self.campaign is None else self.campaign.asked(),
        }
        if self.pools:
            contents["made"] = [_portable(command) for command in self.made]
        text = json.dumps(contents, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _portable(command: Sequence[str]) -> list[str]:
    """The command with the program's name for its path: its contents are in the digest."""
    return [Path(command[0]).name, *command[1:]]


@functools.cache
def _configuration(
    machine: str, design: str, overrides: tuple[str, ...], harts: int
) -> api.Configuration:
    return api.Machine(machine=machine, design=design, set=overrides, harts=harts).configuration()


@functools.cache
def core_digest() -> str:
    """A hash of the compiled simulator: results of two builds are never mixed."""
    file = getattr(_core, "__file__", None)
    content = Path(file).read_bytes() if file else b""
    return hashlib.sha256(content).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """A hash of a file's contents.

    Raises:
        PerdureError: the file cannot be read.
    """
    try:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        return digest.hexdigest()[:32]
    except OSError as error:
        raise PerdureError(f"cannot read {path}: {error.strerror}") from error


def tree_digest(folders: Iterable[Path]) -> str:
    """A hash of all files' names and contents below some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in [folder, *sorted(folder.rglob("*"))]:
            name = path.relative_to(folder).as_posix()
            digest.update(os.fsencode(name) + b"\0")
            if path.is_symlink():
                digest.update(b"link " + os.fsencode(path.readlink()) + b"\0")
            elif path.is_file():
                executable = " executable" if path.stat().st_mode & 0o111 else ""
                digest.update(f"{file_digest(path)}{executable}\0".encode())
    return digest.hexdigest()[:32]


def sysroot_digest(root: Path) -> str:
    """A hash of all files in a sysroot, but for how it was made."""
    return tree_digest(sorted(path for path in root.iterdir() if path.name != ".perdure"))


def scratch_mounts(mounts: Sequence[str], parent: Path) -> list[str]:
    """The mounts with a fresh directory below `parent` for each that is scratch."""
    made = []
    for mount in mounts:
        host, _, guest = mount.rpartition(":")
        if host == SCRATCH:
            host = tempfile.mkdtemp(dir=parent, prefix="scratch-")
        made.append(f"{host}:{guest}")
    return made

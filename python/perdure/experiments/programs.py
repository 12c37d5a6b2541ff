"""The catalogue of workloads, made runnable: programs built, packages fetched, inputs generated.

Always true here: the catalogue is `workloads/*.toml`, checked as it is read; a workload that this
host cannot provide is unavailable with a reason and stops nothing; mixes follow from a seed and
the available workloads alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from perdure import PerdureError, sysroot, toolchain, workloads
from perdure.experiments.declaration import Region
from perdure.experiments.point import (
    SCRATCH,
    Program,
    Surroundings,
    file_digest,
    sysroot_digest,
    tree_digest,
)
from perdure.experiments.toml import Table

Scale: TypeAlias = Literal["quick", "full", "tiny", "large"]
Report: TypeAlias = Callable[[str], object]

Kind: TypeAlias = Literal["kernel", "parallel", "flush", "strand", "nearpm", "check", "debian"]
KINDS: tuple[Kind, ...] = (
    "kernel",
    "parallel",
    "flush",
    "strand",
    "nearpm",
    "check",
    "debian",
)
BUILT: Mapping[str, str] = {
    "kernel": "kernels",
    "parallel": "parallel",
    "flush": "flush",
    "strand": "strand",
    "nearpm": "nearpm",
    "check": "check",
}
"""The kinds that are compiled here: the folder of their programs, and `build.sh`'s option."""
KEEPING = ("flush", "strand", "nearpm")
"""The kinds whose programs keep pools: their first argument, which `--make` alone makes."""
UNSEEN = {"--no-check": 0, "--drain": 0, "--per-strand": 1}
"""Options of theirs that no pool shows, and how many words follow each."""

CATALOGUES = ("kernels.toml", "debian.toml")
"""What stands for SPEC CPU2006, in the folder of workloads."""

MIXES = 8
PROGRAMS_IN_A_MIX = 8


@dataclass(frozen=True)
class Size:
    """A workload's arguments at one scale, and what of its run is measured (0: no limit).

    `overrides` of the configuration belong to the workload, whatever the machine.
    """

    arguments: tuple[str, ...]
    warm_up: int
    measure: int
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One workload of the catalogue; the fields are those of `workloads/*.toml`."""

    name: str
    stands_for: str
    summary: str
    kind: Kind
    program: str
    packages: tuple[str, ...]
    inputs: tuple[str, ...]
    sizes: Mapping[str, Size]


def catalogue(folder: Path | None = None, files: Sequence[str] = ()) -> list[Entry]:
    """Every workload of some files, or else of the usual ones, kernels first, each kind by name.

    Raises:
        PerdureError: a file does not follow the schema; the message says where.
    """
    root = folder or workloads.folder("workloads")
    entries = [
        _entry(name, table)
        for path in (root / name for name in files or CATALOGUES)
        if path.exists()
        for name, table in Table.read(path).table("workload").tables()
    ]
    return sorted(entries, key=lambda entry: (KINDS.index(entry.kind), entry.name))


def measured(entries: Sequence[Entry], regions: Mapping[str, Region], scale: Scale) -> list[Entry]:
    """The entries, with a paper's own regions in place of the catalogue's."""
    found = []
    for entry in entries:
        region = regions.get(entry.name)
        if region is not None and scale in entry.sizes:
            size = Size(
                region.arguments or entry.sizes[scale].arguments,
                0,
                region.measure,
                region.overrides,
            )
            entry = replace(entry, sizes={**entry.sizes, scale: size})
        found.append(entry)
    return found


def _entry(name: str, table: Table) -> Entry:
    kind = table.choice("kind", KINDS)
    sizes = {
        scale: _size(size)
        for scale in ("full", "quick", "tiny", "large")
        if (size := table.optional_table(scale)) is not None
    }
    made = Entry(
        name=name,
        stands_for=table.text("stands_for"),
        summary=table.text("summary"),
        kind=next(one for one in KINDS if one == kind),
        program=table.text("program"),
        packages=tuple(table.texts("packages", ())),
        inputs=tuple(table.texts("inputs", ())),
        sizes=sizes,
    )
    table.finish()
    return made


def _size(table: Table) -> Size:
    made = Size(
        arguments=tuple(table.texts("arguments")),
        warm_up=table.integer("warm_up_instructions", 0),
        measure=table.integer("measure_instructions", 0),
    )
    # What `parallel.toml` says about a whole run; the arguments have the threads, too.
    table.integer("threads", 1)
    table.number("instructions_millions", None)
    table.finish()
    return made


def mix_names() -> list[str]:
    """W0 to W7."""
    return [f"W{mix}" for mix in range(MIXES)]


def mixes(names: Sequence[str], seed: int) -> dict[str, list[str]]:
    """W0–W7: eight workloads each, drawn with replacement, as the paper's are."""
    state = seed
    drawn: dict[str, list[str]] = {}
    for mix in mix_names():
        chosen = []
        for _ in range(PROGRAMS_IN_A_MIX):
            state, number = _split_mix(state)
            chosen.append(names[number % len(names)])
        drawn[mix] = chosen
    return drawn


def _split_mix(state: int) -> tuple[int, int]:
    """SplitMix64: the next state and number. Python's own generator may change its choices."""
    mask = (1 << 64) - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    mixed = state
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return state, mixed ^ (mixed >> 31)


def what_makes(command: Sequence[str]) -> list[str]:
    """Of a command that makes a pool, the words that the pool depends on."""
    kept, words = [], iter(command)
    for word in words:
        if word in UNSEEN:
            for _ in range(UNSEEN[word]):
                next(words, None)
        else:
            kept.append(word)
    return kept


@dataclass(frozen=True)
class Provided:
    """What this host has of the catalogue: where programs, packages and inputs lie."""

    entries: Mapping[str, Entry]
    unavailable: Mapping[str, str]
    programs: Path
    sysroot: Path | None
    inputs: Mapping[str, Path]
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def available(self) -> list[str]:
        """The workloads that can run here, in the catalogue's order."""
        return [name for name in self.entries if name not in self.unavailable]

    def commands(
        self, names: Sequence[str], scale: Scale, more: Sequence[str] = ()
    ) -> tuple[tuple[Program, ...], Surroundings]:
        """The programs of some workloads that run at once, and what they see around them.

        Those that keep pools are told `more`.

        Raises:
            PerdureError: one of them is not available here, or has no such scale.
        """
        mounts: list[str] = []
        digests: list[str] = []
        programs = tuple(
            self._program(name, scale, index, mounts, more) for index, name in enumerate(names)
        )
        chosen = [self.entries[name] for name in names]
        uses_packages = any(entry.kind == "debian" for entry in chosen)
        if uses_packages:
            digests.append(self.digests["sysroot"])
        if any(entry.inputs for entry in chosen):
            mounts.append(f"{self.inputs[scale]}:/inputs")
            digests.append(self.digests[f"inputs/{scale}"])
        return programs, Surroundings(
            sysroot=str(self.sysroot) if uses_packages else None,
            mounts=tuple(mounts),
            digest=hashlib.sha256("\n".join(digests).encode()).hexdigest()[:32] if digests else "",
        )

    def makers(self, programs: Sequence[Program]) -> tuple[tuple[str, ...], ...]:
        """The commands that make the pools of some programs, and no more."""
        kept = [one for one in programs if self.entries[one.name].kind in KEEPING]
        return tuple((*one.command, "--make") for one in kept)

    def _program(
        self, name: str, scale: Scale, index: int, mounts: list[str], more: Sequence[str]
    ) -> Program:
        entry = self.entries.get(name)
        if entry is None:
            raise PerdureError(f"there is no workload {name}: docs/workloads.md lists all")
        if name in self.unavailable:
            raise PerdureError(f"the workload {name} is not available: {self.unavailable[name]}")
        if scale not in entry.sizes:
            raise PerdureError(f"the workload {name} has no arguments for the scale {scale}")
        arguments = entry.sizes[scale].arguments
        if any("{scratch}" in word for word in arguments):
            mounts.append(f"{SCRATCH}:/tmp/{index}")
        filled = [
            word.replace("{inputs}", "/inputs").replace("{scratch}", f"/tmp/{index}")
            for word in arguments
        ]
        if entry.kind == "debian":
            return Program(name, (entry.program, *filled), "")
        filled += more if entry.kind in KEEPING else ()
        path = self.programs / BUILT[entry.kind] / entry.program
        return Program(name, (str(path), *filled), self.digests[f"{entry.kind}/{entry.program}"])


def provide(
    entries: Sequence[Entry],
    scales: Sequence[Scale],
    out: Path,
    *,
    existing_sysroot: Path | None = None,
    report: Report,
) -> Provided:
    """Builds, fetches and generates whatever the workloads need, below `out`."""
    out = out.resolve()
    digests: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    built = out / "programs"
    wanted = [entry for entry in entries if entry.kind in BUILT]
    debian = [entry for entry in entries if entry.kind == "debian"]
    root = (existing_sysroot or out / "sysroot").resolve()
    inputs: dict[str, Path] = {scale: out / "inputs" / scale for scale in scales}
    # Packages come over the network while programs are compiled.
    with _compiling(built, sorted({entry.kind for entry in wanted}), report):
        if debian:
            packages = sorted({package for one in debian for package in one.packages})
            try:
                sysroot.make(root, packages, report=report)
                digests["sysroot"] = sysroot_digest(root)
                unavailable.update(_write_inputs(debian, inputs))
            except PerdureError as error:
                unavailable.update({entry.name: str(error) for entry in debian})
            for scale, folder in inputs.items():
                digests[f"inputs/{scale}"] = tree_digest([folder])
    for entry in wanted:
        path = built / BUILT[entry.kind] / entry.program
        if path.is_file():
            digests[f"{entry.kind}/{entry.program}"] = file_digest(path)
        else:
            unavailable[entry.name] = f"the build made no program {entry.program}"
    for name, reason in unavailable.items():
        report(f"{name} is left out: {reason}")
    return Provided(
        entries={entry.name: entry for entry in entries},
        unavailable=unavailable,
        programs=built,
        sysroot=root if debian else None,
        inputs=inputs,
        digests=digests,
    )


@contextmanager
def _compiling(out: Path, kinds: Sequence[str], report: Report) -> Iterator[None]:
    """Compiles the programs of some kinds while the block runs, as `workloads/build.sh` does."""
    if not kinds:
        yield
        return
    compiler = toolchain.find(report)
    choice = "gcc" if "gcc" in compiler.name else "zig"
    script = workloads.folder("workloads") / "build.sh"
    options = [f"--{BUILT[kind]}" for kind in kinds]
    with subprocess.Popen(
        ["sh", str(script), str(out), "--compiler", choice, *options],
        env={**os.environ, "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as building:
        try:
            yield
            said, complained = building.communicate()
        except BaseException:
            building.terminate()
            raise
    if building.returncode != 0:
        raise PerdureError(f"the programs cannot be built:\n{complained.strip() or said}")


def _write_inputs(debian: Sequence[Entry], folders: Mapping[Any, Path]) -> dict[str, str]:
    """Generates every workload's inputs; says for which it failed, and why."""
    from perdure import inputs

    failed = {}
    for entry in debian:
        try:
            for scale, folder in folders.items():
                inputs.write_inputs(entry.inputs, scale, folder)
        except PerdureError as error:
            failed[entry.name] = str(error)
    return failed

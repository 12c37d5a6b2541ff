"""Whether results are bit-identical to those that were recorded: `tests/fingerprints.txt`.

    fingerprints.py record                 runs every case, and writes the file's runs anew
    fingerprints.py record --missing       runs the cases that the file has not, and adds them
    fingerprints.py check [--sample]       runs every case, or a spread of them, and compares
    fingerprints.py points FOLDER...       compares the points that `perdure reproduce` left there
    fingerprints.py points --record FOLDER...  writes them

A line is a case and what came of it: a digest of the binary, cycles, the hash of the machine's
state at the end, and a digest of every statistic. Cases are every guest program and every program
of `perdure bench` (its first instructions), under every design on both presets; points are those of
an evaluation, cut campaigns included.

`PERDURE_ENGINE=fast` runs the cases with that engine, and `eager` compiles much and early, which is
for tests: nothing may differ.

Always true: a run sees an empty folder and nothing else of the host; a case whose binary is another
one (another compiler) is counted as not comparable, and never as equal.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from perdure import Machine, PerdureError, api, bench_programs, capture

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests/fingerprints.txt"
PROGRAMS = Path(os.environ.get("PERDURE_PROGRAMS", ROOT / "out/programs"))
ENGINE = cast(api.Engine, os.environ.get("PERDURE_ENGINE", api.ENGINE))
PRESETS = {"picl": 1, "nvoverlay": 4}
"""Machines, with the harts that a program gets that is not made for more."""
BENCH_INSTRUCTIONS = 10_000_000
"""So many of a benchmark's are run: its set-up, and enough of what it measures."""
SAMPLE = 24
"""One case in so many is in the sample."""
BESIDE_RESULT = ("build", "config_hash", "host", "tokens", "token", "mips", "reads", "replay")
"""Keys of a result that are no result: the host's, and what names the build."""


@dataclass(frozen=True)
class Case:
    """One run."""

    name: str
    program: Path
    arguments: tuple[str, ...]
    machine: str
    design: str
    harts: int
    stop_after: int | None = None

    @property
    def label(self) -> str:
        """What stands in the file."""
        return f"{self.name} {self.machine} {self.design}"


def designs() -> list[str]:
    """All of the registry that have epochs; the others need pools, which the presets have not."""
    known = api.catalogue().designs
    return [design.name for design in known if design.raw["epochs"] != "none"]


def cases() -> Iterator[Case]:
    """Every program under every design on both presets."""
    lines = (ROOT / "tests/guests/cases.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    programs: list[tuple[str, Path, tuple[str, ...], int | None, int | None]] = [
        (name, PROGRAMS / program, tuple(arguments), None, None)
        for name, _, program, *arguments in rows
    ]
    programs += [
        (
            f"bench-{Path(case.source).stem}-{index}",
            PROGRAMS / Path(case.source).stem,
            case.arguments,
            case.harts,
            BENCH_INSTRUCTIONS * case.harts,
        )
        for index, case in enumerate(bench_programs.CASES)
    ]
    for name, program, arguments, harts, stop in programs:
        for machine, usual in PRESETS.items():
            for design in designs():
                yield Case(name, program, arguments, machine, design, harts or usual, stop)


def digest(value: object) -> str:
    """Of plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def cleaned(value: Any) -> Any:
    """A result without what is no result of the simulation."""
    if isinstance(value, dict):
        return {key: cleaned(one) for key, one in value.items() if key not in BESIDE_RESULT}
    return [cleaned(one) for one in value] if isinstance(value, list) else value


def counted(result: dict[str, Any]) -> dict[str, Any]:
    """The values of its statistics that are not zero: a counter that is new changes nothing."""
    return {name: one["value"] for name, one in result["statistics"].items() if one["value"]}


def run(case: Case) -> tuple[str, str]:
    """The case's line, in two parts."""
    binary = hashlib.blake2b(case.program.read_bytes(), digest_size=4).hexdigest()
    machine = Machine(machine=case.machine, design=case.design, harts=case.harts, engine=ENGINE)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # This process runs nothing else.
        try:
            with capture.standard_output() as output:
                result = machine.run(
                    [case.program, *case.arguments], stop_after=case.stop_after, passthrough=True
                )
        except PerdureError:
            # Not every design is for every preset.
            return case.label, f"{binary} refused"
        os.chdir(ROOT)
        written = hashlib.blake2b(output.content, digest_size=4).hexdigest()
    statistics = digest(counted(dict(result.raw)))
    parts = (binary, str(result.sim.cycles), result.state_hash, statistics, written)
    return case.label, " ".join(parts)


@functools.cache
def recorded() -> dict[str, str]:
    """The file."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    entries = [line.partition("\t") for line in lines if line and not line.startswith("#")]
    return {label: found for label, _, found in entries}


def write(entries: dict[str, str]) -> None:
    """The file, in order."""
    head = [
        "# What runs and points came to; `.ci/fingerprints.py` says how to compare and record it.",
        "# case machine design <tab> binary cycles state statistics output",
        "# point NAME of an experiment <tab> result",
    ]
    body = [f"{label}\t{found}" for label, found in sorted(entries.items())]
    FILE.write_text("\n".join([*head, *body, ""]))


def compared(found: dict[str, str], what: str) -> int:
    """Says what differs from the file. The exit status."""
    before = recorded()
    known = {label: one for label, one in found.items() if label in before}
    other = [
        label for label in known if " " in known[label]
        and before[label].split()[0] != known[label].split()[0]
    ]  # fmt: skip
    differing = [label for label in known if before[label] != known[label] and label not in other]
    for label in differing:
        print(f"differs: {label}\n  was {before[label]}\n  is  {known[label]}")
    equal = len(known) - len(differing) - len(other)
    print(
        f"{what}: {equal} equal, {len(differing)} differ, {len(other)} of another binary,"
        f" {len(found) - len(known)} not recorded"
    )
    return 1 if differing or not equal else 0


def in_sample(case: Case) -> bool:
    """True for one case in SAMPLE, chosen by its name."""
    return int(digest(case.label), 16) % SAMPLE == 0


def missing(case: Case) -> bool:
    """True if the file has not got the case."""
    return case.label not in recorded()


def runs(jobs: int, chooses: Callable[[Case], bool]) -> dict[str, str]:
    """Runs those, save those that are not recorded and whose program is not built."""
    known = recorded()
    there = (case for case in cases() if case.label in known or case.program.exists())
    chosen = [case for case in there if chooses(case)]
    with ProcessPoolExecutor(jobs) as pool:
        return dict(pool.map(run, chosen, chunksize=4))


def points(folders: list[Path]) -> dict[str, str]:
    """What the points of evaluations came to."""
    found = {}
    for folder in folders:
        for file in (folder / "points").glob("*.json"):
            stored = json.loads(file.read_bytes())
            point = stored["point"]
            label = f"point {point['name']} {point['machine']} {point['design']} {digest(point)}"
            result = cleaned(stored["result"])
            if "statistics" in result:
                result["statistics"] = counted(result)
            found[label] = digest(result)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compares results with the recorded ones.")
    commands = parser.add_subparsers(dest="command", required=True)
    options = {
        "record": ("--missing", missing, "the cases that the file has not"),
        "check": ("--sample", in_sample, "one case in some twenty"),
    }
    for name, (option, chooses, told) in options.items():
        command = commands.add_parser(name)
        command.add_argument("--jobs", type=int, default=2)
        command.add_argument(
            option,
            dest="chooses",
            action="store_const",
            const=chooses,
            default=lambda _: True,
            help=told,
        )
    command = commands.add_parser("points")
    command.add_argument("--record", action="store_true")
    command.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    asked = parser.parse_args()
    try:
        if asked.command == "points":
            found = points(asked.folders)
            if not asked.record:
                return compared(found, "points")
            write(recorded() | found)
            return 0
        found = runs(asked.jobs, asked.chooses)
        if asked.command == "check":
            return compared(found, "runs")
        adds = asked.chooses is missing
        before = recorded().items()
        write({label: one for label, one in before if adds or label.startswith("point ")} | found)
    except (OSError, PerdureError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

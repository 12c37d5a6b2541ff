#!/usr/bin/env python3
"""Runs the workspace's Rust tests, several programs of tests at once: `make test-rust` calls it.

    tests.py [--jobs N]

`cargo test` runs one program after another, and some of ours end with one long test: one of two
cores is idle then. This builds what `cargo test` builds, but for examples (`make lint` compiles
them), and runs the programs with the runner and the folder that it would give them, those that took
longest the last time first. Documentation tests, which are no programs, come last.

Always true: every program that cargo built is run once, whatever the others do; the output of one
that fails is printed whole, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CARGO = ("cargo", "test", "--workspace", "--locked")
TIMES = ROOT / "target/test-seconds.json"
"""How long each program took; it only decides who is first."""


@dataclass(frozen=True)
class Program:
    """One program of tests, and the folder of its crate."""

    name: str
    executable: str
    crate: Path


@dataclass(frozen=True)
class Ended:
    """What one left behind."""

    program: Program
    status: int
    output: str
    seconds: float


def built() -> list[Program]:
    """Builds them; cargo's messages go where its user looks."""
    tests = ("--lib", "--tests", "--no-run", "--quiet")
    command = [*CARGO, *tests, "--message-format=json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    programs = []
    for message in messages:
        executable = message.get("executable")
        if message["reason"] == "compiler-artifact" and executable and message["profile"]["test"]:
            crate = Path(message["manifest_path"]).parent
            name = f"{crate.name}/{message['target']['name']}"
            programs.append(Program(name, executable, crate))
    return programs


def run(program: Program) -> Ended:
    """Runs one to its end."""
    began = time.monotonic()
    done = subprocess.run(
        [ROOT / ".ci/limited", program.executable, "--quiet"],
        cwd=program.crate,
        env={**os.environ, "CARGO_MANIFEST_DIR": str(program.crate)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Ended(program, done.returncode, done.stdout, time.monotonic() - began)


def known_seconds() -> dict[str, float]:
    """Of the last time, if there was one."""
    try:
        return dict(json.loads(TIMES.read_text()))
    except (OSError, ValueError):
        return {}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Runs the workspace's Rust tests.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    jobs = parser.parse_args().jobs
    seconds = known_seconds()
    programs = sorted(built(), key=lambda one: -seconds.get(one.name, 1e9))
    if not programs:
        print("cargo built no tests", file=sys.stderr)
        return 1
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run, program) for program in programs]):
            ended = future.result()
            seconds[ended.program.name] = round(ended.seconds, 1)
            if ended.status:
                failed.append(ended.program.name)
                print(f"---- {ended.program.name}\n{ended.output}", file=sys.stderr)
    TIMES.write_text(json.dumps(seconds, indent=1, sort_keys=True))
    documented = subprocess.run([*CARGO, "--quiet", "--doc"], cwd=ROOT, check=False).returncode
    if documented:
        failed.append("documentation tests")
    print(f"{len(programs)} programs of tests, {len(failed)} failed {' '.join(failed)}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`perdure check` as a campaign: it goes on where it stopped, and keeps within a bound of memory.

Always true here: whatever a campaign went through, its report is that of one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_SECONDS, PROGRAMS, Command, Terminal, built

pytestmark = pytest.mark.usefixtures("programs")

PUSHES = PROGRAMS / "guests/pushes"
POOL = "/pmem/x"
LATE = 9
"""The operation from which on `pushes` makes the mistake of that name."""
DUMP = ("--dump", f"{PUSHES} {POOL} dump")


def words(*operations: str, options: tuple[object, ...] = ()) -> list[str]:
    """The words of a check of `pushes`."""
    program = ("--", PUSHES, POOL, *operations, "--then", PUSHES, POOL, "recover")
    return [str(word) for word in ("check", *options, "--json", "-", *program)]


def check(command: Command, *operations: str, options: tuple[object, ...] = DUMP) -> Any:
    """The report of a check, but for how long it took."""
    ended = command(*words(*operations, options=options))
    assert ended.status in (0, 1), ended.stderr
    report = json.loads(ended.stdout)
    del report["host"]
    return report


def refused(command: Command, *operations: str, options: tuple[object, ...]) -> str:
    """What a check that cannot be made says."""
    ended = command(*words(*operations, options=options))
    assert ended.status == 2, ended.stdout
    return " ".join(ended.stderr.split())


@pytest.mark.parametrize("mistake", ["no-flush", "not-idempotent"])
def test_a_check_goes_on_where_a_limit_ended_it(
    mistake: str, command: Command, tmp_path: Path
) -> None:
    kept = ("--continue", tmp_path / "kept")
    whole = check(command, "90", mistake)
    explored, states = [0], 0
    for _ in range(3):
        bound = ("--states", str(states + 1))
        part = check(command, "90", mistake, options=(*DUMP, *kept, *bound))
        explored.append(part["points"]["explored"])
        states = part["states"]["run"]
    assert explored == sorted(set(explored))
    assert explored[-1] < whole["points"]["explored"]
    assert check(command, "90", mistake, options=(*DUMP, *kept)) == whole
    assert check(command, "90", mistake, options=(*DUMP, *kept)) == whole


WAITS = """
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"

int main(int count, char **words)
{
    (void)words;
    const int file = open("/pmem/x", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) != 0) {
        return 2;
    }
    volatile uint64_t *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    while (count > 1 && pool[0] != pool[8]) {
    }
    for (int turn = 0; count == 1 && turn < 20; turn++) {
        for (int line = 0; line < 2; line++) {
            pool[8 * line]++;
            perdure_clwb(&pool[8 * line]);
            perdure_sfence();
        }
    }
    return 0;
}
"""
"""Recovery waits forever at every second failure point, and in many states of the others."""


def test_ctrl_c_is_heard_while_recoveries_hang(
    compiled: Callable[[str], Path], terminal: Terminal, tmp_path: Path
) -> None:
    program, written = str(compiled(WAITS)), tmp_path / "report.json"
    options = ["--patience", "100000000", "--jobs", "1", "--json", str(written)]
    script = str(Path(sys.executable).with_name("perdure"))
    line = [script, "check", *options, "--", program]
    with subprocess.Popen(
        [*line, "--then", program, "recover"], cwd=tmp_path, env=terminal.environment,
        stdout=subprocess.PIPE, stderr=terminal.device, text=True,
    ) as process:  # fmt: skip
        terminal.wait_for("failure points")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    report = json.loads(written.read_text())
    # All of them are one batch.
    assert report["interrupted"] and report["points"]["found"] == 40
    assert report["points"]["explored"] < 40


def test_a_check_goes_on_after_it_was_interrupted(command: Command, tmp_path: Path) -> None:
    file, size = tmp_path / "kept", "160"
    line = words(size, options=(*DUMP, "--continue", file, "--jobs", "1"))
    python = [sys.executable, "-m", "perdure.cli", *line]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        python, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        late = time.monotonic() + PATIENCE_SECONDS
        while not file.exists() and process.poll() is None and time.monotonic() < late:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    part = json.loads(out)
    assert part["interrupted"]
    assert 0 < part["points"]["explored"] < part["points"]["found"]
    whole = check(command, size)
    assert check(command, size, options=(*DUMP, "--continue", file)) == whole


def test_a_disk_that_is_full_ends_no_check(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    line = words("40", "no-flush", options=(*DUMP, "--continue", file))
    perdure = shlex.join([sys.executable, "-m", "perdure.cli", *line])
    # A file of more than a kibibyte cannot be written.
    ended = subprocess.run(
        ["bash", "-c", f"ulimit -f 1; exec {perdure}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    report = json.loads(ended.stdout)
    del report["host"]
    whole = check(command, "40", "no-flush")
    (said,) = set(report["notices"]) - set(whole["notices"])
    assert said.startswith(f"--continue {file}: File too large")
    assert {**report, "notices": whole["notices"]} == whole


def test_a_file_of_another_check_is_refused_with_what_differs(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "kept"
    kept = ("--continue", file)
    check(command, "5", options=kept)
    for options, says in (
        (("--seed", "7"), "seed is 1 there, and 7 now"),
        (("--model", "arm"), 'model is "px86" there, and "arm" now'),
        (("--states-of-a-point", "9"), "another check"),
    ):
        said = refused(command, "5", options=(*kept, *options))
        assert says in said
    assert "program is" in refused(command, "6", options=kept)
    file.write_bytes(file.read_bytes()[:-1])
    assert "damaged" in refused(command, "5", options=kept)
    assert "--continue" in refused(command, "5", options=("--continue", tmp_path / "no" / "kept"))


def test_nothing_that_is_found_depends_on_the_memory(command: Command) -> None:
    options = (*DUMP, "--states-of-a-point", "40", "--jobs", "1")
    free = check(command, "30", "no-flush", options=options)
    for bound in ("6", "12", "64"):
        assert check(command, "30", "no-flush", options=(*options, "--memory", bound)) == free


def test_a_bound_that_the_program_does_not_fit_in_is_refused(command: Command) -> None:
    said = refused(command, "5", options=("--memory", "1"))
    assert "--memory 1" in said
    assert "give at least" in said


def peak_mib(*arguments: str) -> float:
    """The most that a check has resident at once; `ru_maxrss` begins with what the tests have."""
    code = (
        "import re, sys; from perdure.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "peak = re.search(r'VmHWM:\\s+([0-9]+) kB', open('/proc/self/status').read())\n"
        "print(int(peak[1]) / 1024, file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    return float(ended.stderr.split()[-1])


def test_a_bound_of_memory_is_kept() -> None:
    """Many lines are open at once, and a recovery waits for each of them."""
    options = ("--no-nested", "--jobs", "1", "--states", "60")
    free = peak_mib(*words("240", "no-flush", options=options))
    bound = peak_mib(*words("240", "no-flush", options=(*options, "--memory", "24")))
    assert bound < free - 40


def test_a_bug_is_told_of_the_shortest_run(command: Command) -> None:
    """The first point from a call stack is looked at before an earlier one from another."""
    points = set()
    for seed in ("1", "2", "3"):
        report = check(command, "40", "late", options=("--seed", seed, "--no-nested"))
        (bug,) = report["bugs"]
        point = bug["point"]
        points.add((point["number"], point["instructions"], point["operations"], bug["state"]))
    ((number, instructions, operations, _),) = points
    assert number < report["points"]["found"]
    assert 0 < instructions < report["uncut"]["instructions"]
    assert operations == LATE


def orders(command: Command, *options: object) -> Any:
    """The report of a check of threads, but for how long it took."""
    program = built("check") / "check/list-lock-free"
    made = ("--operations", "24", "--bug", "node-not-flushed")
    life = (program, POOL, *made, "--then", program, POOL, "--recover")
    given = [str(option) for option in ("--schedules", "3", "--no-nested", *options)]
    ended = command("check", *given, "--json", "-", "--", *life)
    assert ended.status in (0, 1), ended.stderr
    report = json.loads(ended.stdout)
    del report["host"]
    return report


def test_orders_of_threads_depend_on_no_host_threads_and_on_no_interruption(
    command: Command, tmp_path: Path
) -> None:
    whole = orders(command, "--jobs", "1")
    assert whole["uncut"]["schedules"] == 3
    assert whole["bugs"]
    for jobs in ("2", "3"):
        assert orders(command, "--jobs", jobs) == whole
    kept, explored = ("--continue", tmp_path / "kept"), []
    for part in (3, 2):
        part = orders(command, *kept, "--states", whole["states"]["run"] // part)
        explored.append(part["points"]["explored"])
    assert 0 < explored[0] < explored[1] < whole["points"]["explored"]
    assert orders(command, *kept, "--jobs", "2") == whole


def test_a_token_repeats_the_order_of_threads_that_a_seed_gave(command: Command) -> None:
    report = orders(command, "--seed", "3")
    assert report["seed"] == 3
    tokens = [bug["token"] for bug in report["bugs"]]
    assert len(tokens) > 1
    assert [command("replay", token).status for token in tokens] == [1] * len(tokens)

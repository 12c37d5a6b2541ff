"""Machines that come back and go on: what depends on timing, what restoring loses, who may judge.

Always true here: every cut is resumed, and the host's files stay as they were.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

from perdure import CutReport, Machine, api, mutants

PIPE_BYTES = "core.open.pipes.entries.bytes"
OFFSETS = "core.open.files.entries.offset"
REMEMBERED = (
    "process.umask",
    "process.limits",
    "context.fcsr",
    "thread.mask",
    "thread.alternate_stack",
    "core.locks",
    "timer_files.entries.interval_ns",
    "sockets.table.entries.queue.bytes",
    "machine.harts.hart.pc",
)

UNNOTICED = Path(__file__).parents[1] / "guests/unnoticed.txt"

SHORT_EPOCHS = {"epoch.instructions": 20_000}

CLOCK = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    if (fork() == 0) {
        volatile unsigned sum = 0;
        for (unsigned i = 0; i < 400000; i++)
            sum += i;
        _exit(3);
    }
    for (int i = 0; i < 40; i++) {
        struct timespec now;
        for (volatile int j = 0; j < 4000; j++) {}
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("%ld\n", (long)now.tv_nsec);
        fflush(stdout);
    }
    int status;
    wait(&status);
    return WEXITSTATUS(status);
}
"""
"""A parent that prints the clock beside a running child: its output is another one whenever the
caches are cold."""

HALF_READ = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    int ends[2];
    char text[4096], back[32];
    for (unsigned i = 0; i < sizeof text; i++)
        text[i] = 'a' + i % 23;
    if (pipe2(ends, O_NONBLOCK) || write(ends[1], text, sizeof text) != sizeof text)
        return 1;
    int file = open("/tmp/lines", O_RDWR | O_CREAT, 0600);
    if (write(file, text, sizeof text) != sizeof text)
        return 2;
    lseek(file, 0, SEEK_SET);
    for (int i = 0; i < 128; i++) {
        for (volatile int j = 0; j < 3000; j++) {}
        ssize_t piped = read(ends[0], back, sizeof back);
        printf("%d %.8s", (int)piped, piped > 0 ? back : "");
        ssize_t read_back = read(file, back, sizeof back);
        printf(" %d %.8s\n", (int)read_back, read_back > 0 ? back : "");
    }
    int out = open("result.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(out, "whole\n", 6) != 6 || fsync(out))
        return 3;
    return 0;
}
"""
"""Works through a pipe that it has filled, and through a file."""


def cut(machine: Machine, program: Path, **more: object) -> CutReport:
    return machine.cut([program], cuts=12, seed=4, resume="all", jobs=2, **more)  # type: ignore[arg-type]


MACHINES = {
    "picl": Machine(harts=2, set=SHORT_EPOCHS),
    "journaling": Machine(design="journaling", harts=2, set=SHORT_EPOCHS),
    "nvoverlay": Machine(
        machine="nvoverlay", design="nvoverlay", harts=2, set={"epoch.stores": 1000}
    ),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("design", MACHINES)
def test_output_that_depends_on_timing_is_nobodys_fault(
    design: str, compiled: Callable[[str], Path]
) -> None:
    report = cut(MACHINES[design], compiled(CLOCK), generations=2)
    assert [result.verdict for result in report.failures] == []
    assert report.verified == report.cuts
    assert sum(result.depends_on_timing for result in report.results) > 0


@pytest.mark.parametrize("design", MACHINES)
@pytest.mark.parametrize("loss", [PIPE_BYTES, OFFSETS])
def test_what_restoring_loses_is_not_excused_by_timing(
    design: str, loss: str, compiled: Callable[[str], Path]
) -> None:
    program = compiled(HALF_READ)
    report = cut(MACHINES[design], program, planted_bug=f"machine:forgets-{loss}", generations=1)
    assert "resume-differs" in {result.verdict for result in report.failures}
    assert {result.verdict for result in report.results} <= {"verified", "resume-differs"}
    clean = cut(MACHINES[design], program)
    assert clean.verified == clean.cuts
    assert not any(result.depends_on_timing for result in clean.results)


def test_files_that_are_held_as_of_an_older_epoch_are_noticed(programs: Path) -> None:
    mistake = "machine:holds-files-early"
    report = Machine(set=SHORT_EPOCHS).cut(
        [programs / "guests/files"], cuts=40, resume="none", planted_bug=mistake
    )
    assert "released-early" in {result.verdict for result in report.failures}


def test_the_saved_state_is_judged_for_all_that_it_holds(programs: Path) -> None:
    report = mutants("state", guests=programs / "guests", unnoticed=UNNOTICED, jobs=2)
    assert report.false_alarms == 0
    assert [bug.name for bug in report.mutants if not bug.caught] == []
    noticed = {bug.name.removeprefix("forgets-") for bug in report.mutants if bug.caught}
    assert noticed >= {PIPE_BYTES, OFFSETS, *REMEMBERED}
    # No other section or part of the saved state is without one.
    excused = {name.split(".")[0] for name in report.raw["unnoticeable"]}
    open_still = {"departed", "free-page-lists", "free-page-tables", "lock_waits", "refusals"}
    assert excused - {name.split(".")[0] for name in noticed} <= open_still
    assert len(noticed) > 300


SMALL = {
    "epoch.instructions": "6000",
    "nvm.bytes": "128MiB",
    "l2.bytes": "128KiB",
    "llc.bytes_per_hart": "512KiB",
}


@pytest.mark.parametrize(
    ("turns", "design", "harts"),
    [
        (1, "frm", 2),
        (3, "journaling", 4),
        (11, "software-logging", 3),
        (None, "journaling", 3),
    ],
)
def test_whoever_holds_something_may_end_or_become_another_program(
    programs: Path, turns: int | None, design: str, harts: int
) -> None:
    """Recovery checks what was saved: every part of it is about somebody who is there."""
    turns = random.SystemRandom().randrange(1 << 20) if turns is None else turns
    machine = Machine(design=design, harts=harts, set=SMALL)
    report = machine.cut([programs / "guests/turnover", str(turns)], cuts=40, seed=turns)
    assert report.verified == report.cuts == 40, (turns, report.failures[:1])


CHECKER = """#!/bin/sh
test "$PERDURE_STATUS" = 0 && test "$(cat result.txt)" = whole && test -s "$PERDURE_OUTPUT" &&
exit 0
echo "no result in $(ls)"; exit 1
"""


def test_a_checker_decides_in_place_of_equality(
    command: Command, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    program, kept = compiled(HALF_READ), tmp_path / "report.json"
    checker = tmp_path / "check it"
    checker.write_text(CHECKER)
    checker.chmod(0o755)
    words = ("cut", "--cuts", "4", "--resume", "all", "--json", kept)
    asked = (*words, "--planted-bug", f"machine:forgets-{OFFSETS}", "--generations", "1")
    good = command(*asked, "--check", "'./check it' now", "--", program)
    assert good.status == 0, good.stdout + good.stderr
    assert "to the checker's satisfaction" in good.stdout
    bad = command(*words, "--check", "sh -c 'echo never; exit 7'", "--", program)
    assert bad.status == 1
    assert "check-failed" in bad.stdout
    assert "never" in bad.stdout
    slow = command(*words, "--check", "sleep 60", "--check-seconds", "1", "--", program)
    assert "had not ended after 1 seconds" in slow.stdout
    token = json.loads(kept.read_text())["results"][0]["token"]
    alone = command("replay", token)
    assert alone.status == 2
    assert "--check" in alone.stderr
    assert command("replay", token, "--check", "true").status == 0
    assert api.replay(token, check=["false"]).failed == 1
    missing = command(*words, "--check", "./nowhere", "--", program)
    assert missing.status == 2
    assert "nowhere" in missing.stderr


def test_lives_are_in_the_report(command: Command, programs: Path) -> None:
    ended = command(
        "cut", "--set", "epoch.instructions=20000", "--cuts", "4", "--resume", "all",
        "--generations", "3", "--json", "-", "--", programs / "kv", "500",
    )  # fmt: skip
    report = json.loads(ended.stdout)
    assert (ended.status, report["generations"]) == (0, 3)
    assert max(len(one["lives"]) for one in report["results"]) == 3
    assert {life["verdict"] for one in report["results"] for life in one["lives"]} == {"verified"}
    assert command("cut", "--generations", "0", "--", programs / "kv", "5").status == 2

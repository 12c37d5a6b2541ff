"""What processes can wait for: each other's stops, timers, FIFOs, terminals, files that change.

Always true here: what each program prints is what it prints on Linux (tests/guests/cases.txt), and
every guest of tests/guests is cut and resumed, here or in test_cuts.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import REPOSITORY, TIMES, Command, seed
from test_cuts import PROGRAMS as CUT_ELSEWHERE
from test_guests import GUESTS, Case, cases

from perdure import Machine

CUTS = 6 * TIMES


def first_cases() -> list[Case]:
    """The first case of each guest that test_cuts.py leaves out."""
    first: dict[str, Case] = {}
    for case in cases():
        first.setdefault(case.program, case)
    elsewhere = {words.split()[0] for words in CUT_ELSEWHERE}
    return [
        case
        for program, case in first.items()
        if program.startswith("guests/") and program not in elsewhere
    ]


def test_no_guest_is_left_out() -> None:
    sources = [path for path in GUESTS.iterdir() if path.suffix in {".c", ".cpp", ".go"}]
    texts = [
        *GUESTS.parent.glob("end_to_end/*.py"),
        *REPOSITORY.glob("crates/linux/tests/all/*.rs"),
    ]
    tests = "".join(path.read_text() for path in texts)
    known = {case.program for case in cases()}
    for stem in (path.stem for path in sources):
        named = f'"{stem}"' in tests or f"guests/{stem}" in tests
        assert f"guests/{stem}" in known or named, f"no test runs {stem}"
    assert len(first_cases()) >= 10


@pytest.mark.parametrize("case", first_cases(), ids=lambda case: case.name)
def test_cuts_in_the_middle_of_waiting(
    case: Case, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = Machine(harts=2, set={"epoch.instructions": 50_000}).cut(
        [programs / case.program, *case.arguments], cuts=CUTS, seed=seed(3), resume="all"
    )
    assert [(cut.cycle, cut.verdict, cut.token) for cut in report.failures] == []
    assert report.verified == report.cuts


def test_cuts_of_requests_where_domains_have_epochs(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = Machine(
        design="nvoverlay", machine="nvoverlay", harts=2, set={"epoch.stores": 20_000}
    )
    report = machine.cut(
        [programs / "guests" / "asynchronous"], cuts=CUTS, seed=seed(3), resume="all"
    )
    assert [(cut.cycle, cut.verdict, cut.token) for cut in report.failures] == []
    assert report.verified == report.cuts


@pytest.mark.parametrize("receiver_first", [False, True])
def test_a_fifo_between_two_programs(
    receiver_first: bool, command: Command, programs: Path
) -> None:
    guest = programs / "guests" / "fifos"
    send, receive = [guest, "send", "numbers"], [guest, "receive", "numbers"]
    first, second = (receive, send) if receiver_first else (send, receive)
    result = command("run", "--", *first, "--", *second)
    assert result.status == 0, result.stderr
    assert "2000 numbers, sum 1999000" in result.stdout


def test_a_program_that_is_stopped_for_ever_is_told(command: Command, programs: Path) -> None:
    result = command("run", "--", programs / "guests" / "jobs", "for-ever")
    assert result.status == 2
    assert "process 1 is stopped (as by SIGSTOP)" in " ".join(result.stderr.split())


# Waits for what never comes while a timer of a microsecond runs; `later` shows that such a timer
# keeps its count over the time that was skipped.
IN_VAIN = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int ends[2];
static volatile int seen;

static void handle(int signal) { seen += signal == SIGALRM; }

static void *wait_in_read(void *unused) {
    char byte;
    while (read(ends[0], &byte, 1) != 1) {}
    return unused;
}

int main(int count, char **arguments) {
    const char *how = arguments[count - 1];
    struct itimerval often = {{0, 1}, {0, 1}};
    sigset_t alarm, none;
    pthread_t reader;

    sigemptyset(&none);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    if (pipe(ends)) return 1;
    if (strcmp(how, "sleep") == 0) return sleep(2000000000);
    if (strcmp(how, "late") == 0) {
        struct timespec ages = {1LL << 40, 0};
        return nanosleep(&ages, NULL);
    }
    signal(SIGALRM, strcmp(how, "waits") ? SIG_IGN : handle);
    if (strcmp(how, "unnoticed") == 0) {
        struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
        struct itimerspec same = {{0, 1}, {0, 1}};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &nothing, &timer)) return 1;
        if (timer_settime(timer, 0, &same, NULL)) return 1;
        pause();
    }
    if (strcmp(how, "waits") == 0) {
        pthread_sigmask(SIG_BLOCK, &alarm, NULL);
        pthread_create(&reader, NULL, wait_in_read, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        for (int round = 0; round < 20; round++) sigsuspend(&none);
        printf("%d\n", seen);
        fflush(stdout);
        pthread_join(reader, NULL);
    }
    setitimer(ITIMER_REAL, &often, NULL);
    if (strcmp(how, "ignored") == 0) pause();
    sleep(100000);
    struct itimerval left;
    getitimer(ITIMER_REAL, &left);
    signal(SIGALRM, handle);
    while (seen < 3) pause();
    printf("%ld %d\n", (long)left.it_value.tv_sec, seen >= 3);
    return 0;
}
"""


@pytest.mark.parametrize("design", ["ideal", "picl"])
@pytest.mark.parametrize("how", ["ignored", "waits", "unnoticed", "late"])
def test_timers_that_nobody_waits_for_let_no_time_pass(
    design: str, how: str, command: Command, compiled: Callable[[str], Path]
) -> None:
    """What only such timers could wake never wakes: time does not pass for ever without it."""
    words = ("--design", design, "--harts", "2", "--stop-after", "50000000")
    ended = command("run", *words, "--", compiled(IN_VAIN), how)
    assert ended.status == 2, ended.stderr
    assert "nothing will ever wake one" in " ".join(ended.stderr.split())


@pytest.mark.parametrize("how", ["sleep", "later"])
def test_idle_time_costs_nothing(
    how: str, command: Command, compiled: Callable[[str], Path]
) -> None:
    """A sleep of years, and one of a day beside a timer of a microsecond that is ignored."""
    ended = command("run", "--", compiled(IN_VAIN), how)
    assert ended.status == 0, ended.stderr
    assert ended.stdout == ("" if how == "sleep" else "0 1\n")

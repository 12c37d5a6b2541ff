"""What processes can wait for: each other's stops, timers, FIFOs, terminals, files that change.

Always true here: what each program prints is what it prints on Linux (tests/guests/cases.txt).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Command

from perdure import Machine

CUTS = 6
PROGRAMS = ("jobs", "fifos", "alarms", "terminals", "asynchronous")


@pytest.mark.parametrize("program", PROGRAMS)
def test_cuts_in_the_middle_of_waiting(
    program: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = Machine(harts=2, set={"epoch.instructions": 50_000}).cut(
        [programs / "guests" / program], cuts=CUTS, seed=3, resume="all", jobs=2
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
        [programs / "guests" / "asynchronous"], cuts=CUTS, seed=3, resume="all", jobs=2
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

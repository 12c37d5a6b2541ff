"""What processes can wait for: each other's stops, timers, FIFOs, terminals, files that change.

Always true here: what each program prints is what it prints on Linux (tests/guests/cases.txt), and
every guest of tests/guests is cut and resumed, here or in test_cuts.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REPOSITORY, Command
from test_cuts import PROGRAMS as CUT_ELSEWHERE
from test_guests import GUESTS, Case, cases

from perdure import Machine

CUTS = 6


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
    texts = [*GUESTS.parent.glob("end_to_end/*.py"), *REPOSITORY.glob("crates/linux/tests/*.rs")]
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
        [programs / case.program, *case.arguments], cuts=CUTS, seed=3, resume="all", jobs=2
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

"""Where results go when standard output is full, closed or not read; Ctrl-C at the very beginning.

Always true here: the command is the installed one, and what is not read is a pipe whose reader has
gone before the command starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PROGRAMS, TIMEOUT_SECONDS

PERDURE = Path(sys.executable).with_name("perdure")
PUSHES = PROGRAMS / "guests/pushes"
EXITS = """
#include <stdio.h>
int main(void) {
    puts("the guest's line");
    return 7;
}
"""


def ended(*words: str | Path, stdout: int = subprocess.DEVNULL, closed: int = 0) -> tuple[int, str]:
    """How the command ends, and what it says on standard error."""
    done = subprocess.run(
        [PERDURE, *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        preexec_fn=(lambda: os.close(closed)) if closed else None,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def unread(*words: str | Path) -> tuple[int, str]:
    """The same, where nobody reads standard output."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return ended(*words, stdout=writer)
    finally:
        os.close(writer)


@pytest.mark.usefixtures("programs")
def test_a_check_that_nobody_reads_writes_its_files(tmp_path: Path) -> None:
    names = ("--json", "--html", "--sarif", "--junit")
    files = {option: tmp_path / option.strip("-") for option in names}
    options = [word for pair in files.items() for word in pair]
    pool = "/pmem/x"
    words = (PUSHES, pool, "4", "no-flush", "--then", PUSHES, pool, "recover")
    assert unread("check", *options, "--", *words) == (141, "")
    assert all(file.stat().st_size for file in files.values())
    assert json.loads(files["--json"].read_text())["bugs"]


def test_a_cut_and_a_comparison_that_nobody_reads_write_theirs(
    compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    program, file = compiled(EXITS), tmp_path / "result.json"
    for words in (("cut", "--at", "1000"), ("compare",)):
        status, said = unread(*words, "--json", file, "--", program)
        assert (status, "perdure: " in said) == (141, False)
        assert json.loads(file.read_text())["results"]
        file.unlink()


def test_a_run_that_nobody_hears_exits_as_its_guest_did(compiled: Callable[[str], Path]) -> None:
    program = compiled(EXITS)
    for closed in (1, 2):
        assert ended("run", "--", program, closed=closed)[0] == 7
        assert ended("run", "--json", "-", "--", program, closed=closed)[0] == 7
    assert unread("run", "--json", "-", "--", program)[0] == 141


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["man"], ["config"], ["list"]])
def test_a_full_disk_is_said_in_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        status, said = ended(*words, stdout=full.fileno())
    assert (status, said) == (2, "perdure: standard output: No space left on device\n")


def test_ctrl_c_while_the_command_is_loaded_is_status_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is loaded early presses it, and is not done before it is noticed."""
    pressing = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "typer.py").write_text(pressing)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ended("list") == (130, "")

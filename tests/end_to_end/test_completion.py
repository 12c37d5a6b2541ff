"""Completion as shells do it: installed as the manual says, then asked by the Tab key.

Always true here: each shell has a home folder of its own, and completes at the first Tab.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PATIENCE_SECONDS, TIMEOUT_SECONDS

START_FILES = {"bash": ".bashrc", "zsh": ".zshrc"}
PROMPT = "ready> "
COMPLETED = (
    ("perdure compare --design ideal,nvo", "perdure compare --design ideal,nvoverlay"),
    ("perdure cut --planted-bug forw", "perdure cut --planted-bug forward-scan"),
    ("perdure run --set llc.byt", "perdure run --set llc.bytes_per_hart="),
    ("perdure run -- ./a-pro", "perdure run -- ./a-program"),
)
"""What is typed, and what the line is then."""


def installed(shell: str, home: Path) -> dict[str, str]:
    """The environment of a shell in which somebody has installed completion."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here (`make test` installs it where that is possible)")
    home.mkdir()
    (home / "a-program").touch()
    if shell in START_FILES:
        (home / START_FILES[shell]).write_text(f"PS1='{PROMPT}'\n")
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }
    # What is asked for is the parent's completion, which is found by its name: it must not exec.
    words = [shell, "-c", "perdure --install-completion; true"]
    done = subprocess.run(
        words, cwd=home, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert f"{shell} completion installed" in done.stdout, done.stdout + done.stderr
    return environment


class Session:
    """A shell at a terminal, and what it has written."""

    def __init__(self, shell: str, home: Path, environment: dict[str, str]) -> None:
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(home)
            os.execvpe(shell, [shell, "-i"], environment)
        self.written = ""

    def wait_for(self, text: str) -> None:
        """Reads until the shell has written a text, and forgets what it wrote before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.written:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.terminal], [], [], left)
            assert ready, f"waited in vain for {text!r}; there is {self.written!r}"
            self.written += os.read(self.terminal, 65536).decode(errors="replace")
        self.written = self.written.rpartition(text)[2]

    def type(self, text: str) -> None:
        """As if somebody typed it."""
        os.write(self.terminal, text.encode())

    def close(self) -> None:
        """Ends the shell."""
        os.close(self.terminal)  # The shell's terminal hangs up.
        os.waitpid(self.process, 0)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_tab_key_completes(shell: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = Session(shell, home, installed(shell, home))
    try:
        session.wait_for(PROMPT)
        for typed, line in COMPLETED:
            session.type(typed)
            session.wait_for(typed)
            session.type("\t")
            session.wait_for(line.removeprefix(typed))
            session.type("\x15\r")  # Nothing of it.
            session.wait_for(PROMPT)
    finally:
        session.close()


def test_fish_offers_the_same_with_what_it_means(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = installed("fish", home)

    def offered(typed: str) -> list[tuple[str, str]]:
        words = ["fish", "-c", f"complete --do-complete='{typed}'"]
        done = subprocess.run(
            words, cwd=home, env=environment, capture_output=True, text=True, check=True
        )
        rows = [row.partition("\t") for row in done.stdout.splitlines()]
        return [(word, meaning) for word, _, meaning in rows]

    for typed, line in COMPLETED:
        assert line.rpartition(" ")[2] in [word for word, _ in offered(typed)]
    assert all(meaning for _, meaning in offered("perdure cut --design "))

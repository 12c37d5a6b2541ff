"""Completion as shells do it: installed as the manual says, then asked by the Tab key.

Always true here: each shell has a home folder of its own, and completes at the first Tab.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Terminal

START_FILES = {"bash": ".bashrc", "zsh": ".zshrc"}
PROMPT = "ready> "
COMPLETED = (
    ("perdure compare --design ideal,nvo", "perdure compare --design ideal,nvoverlay"),
    ("perdure cut --planted-bug forw", "perdure cut --planted-bug forward-scan"),
    ("perdure run --set llc.byt", "perdure run --set llc.bytes_per_hart="),
    ("perdure run -- ./a-pro", "perdure run -- ./a-program"),
)
"""What is typed, and what the line is then."""


SHOWN = {
    "bash": ('eval "$(perdure --show-completion bash)"\n', None),
    "zsh": ("fpath+=~/mine; autoload -Uz compinit; compinit\n", "mine/_perdure"),
    "fish": ("", ".config/fish/completions/perdure.fish"),
}
"""What `--show-completion` is for: a line of the start file, and the file that it is kept in."""


def installed(shell: str, home: Path, by_hand: bool = False) -> dict[str, str]:
    """The environment of a shell in which somebody has installed completion, perhaps by hand."""
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
    if by_hand:
        # From a shell that has none of it.
        words = ["sh", "-c", f"perdure --show-completion {shell}; true"]
        done = subprocess.run(
            words, cwd=home, env=environment, capture_output=True, text=True, check=True
        )
        start, kept = SHOWN[shell]
        if kept is not None:
            (home / kept).parent.mkdir(parents=True)
            (home / kept).write_text(done.stdout)
        if shell in START_FILES:
            with (home / START_FILES[shell]).open("a") as file:
                file.write(start)
        return environment
    # What is asked for is the parent's completion, which is found by its name: it must not exec.
    words = [shell, "-c", "perdure --install-completion; true"]
    done = subprocess.run(
        words, cwd=home, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert f"{shell} completion installed" in done.stdout, done.stdout + done.stderr
    return environment


@pytest.mark.parametrize("by_hand", [False, True], ids=["installed", "shown"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_tab_key_completes(
    shell: str, by_hand: bool, terminal: Terminal, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    environment = installed(shell, home, by_hand)
    process = subprocess.Popen(
        [shell, "-i"],
        cwd=home,
        env=environment,
        stdin=terminal.device,
        stdout=terminal.device,
        stderr=terminal.device,
        start_new_session=True,
        # The session's own terminal, as a shell with jobs expects.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        terminal.wait_for(PROMPT)
        for typed, line in COMPLETED:
            terminal.type(typed)
            terminal.wait_for(re.escape(typed))
            terminal.type("\t")
            terminal.wait_for(re.escape(line.removeprefix(typed)))
            terminal.type("\x15\r")  # Nothing of it.
            terminal.wait_for(PROMPT)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("by_hand", [False, True], ids=["installed", "shown"])
def test_fish_offers_the_same_with_what_it_means(by_hand: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = installed("fish", home, by_hand)

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


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_a_shell_that_has_no_completion_is_told_which_have(option: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}

    def told(*words: str) -> str:
        done = subprocess.run(
            ["dash", "-c", f"perdure {' '.join([option, *words])}; exit $?"],
            env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        assert done.returncode == 2 and not list(tmp_path.iterdir()), done.stdout
        return done.stderr

    assert f"name one, as in perdure {option} bash, of bash, zsh, fish" in told()
    assert f"{option}: 'zhs' is not one of bash, zsh, fish" in told("zhs")

"""Runs the session of README.md again and writes what it printed: `make readme`.

A block stands between `<!-- session NAME -->` and `<!-- end -->`. Its commands are here; what it
shows of their output is chosen here, and an ellipsis stands for what it leaves out.
"""

import itertools
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
KV = "out/demo/programs/kv"
EPOCHS = "--set epoch.instructions=2e6"


def perdure(arguments: str) -> list[str]:
    """The lines that a command prints on a terminal 80 columns wide."""
    command = f"{ROOT}/.venv/bin/perdure {arguments}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]


def block(commands: Iterable[str], lines: Iterable[str]) -> str:
    """Commands and output as Markdown."""
    shown = [*(f"$ perdure {command}" for command in commands), *lines]
    return "\n".join(["```console", *shown, "```", ""])


def first(lines: list[str], start: str) -> int:
    """The first line that begins so."""
    return next(index for index, line in enumerate(lines) if line.startswith(start))


def run() -> str:
    """A program, uncut."""
    command = f"run -- {KV} 3000"
    lines = perdure(command)
    return block([command], [*lines[:3], "…", *lines[-2:]])


def cut() -> str:
    """Many cuts, all verified."""
    command = f"cut {EPOCHS} --cuts 200 -- {KV}"
    lines = perdure(command)
    total = first(lines, "├")
    torn = [line for line in lines if "cuts_with_" in line]
    summary = " ".join(lines[first(lines, "picl:") :])
    row = next(line for line in lines if re.search(r", in [^│\s]+ *│", line))
    return block(
        [command], [*lines[:4], "…", row, "…", *lines[total : total + 3], "…", *torn, "…", summary]
    )


def ideal() -> str:
    """One cut without protection."""
    command = f"cut {EPOCHS} --design ideal --at 50000000 -- {KV}"
    lines = perdure(command)
    lines = lines[first(lines, "cycle") :]
    token = first(lines, "  anywhere else:")
    # The first thing that is wrong, as far as its first line.
    stored = next(at for at, line in enumerate(lines) if line.startswith("      stored:"))
    folded = itertools.takewhile(lambda line: line.startswith(" " * 16), lines[stored + 1 :])
    shown = stored + 1 + len(list(folded))
    again = f"{lines[token][:64]}…"
    return block([command], ["…", *lines[:shown], "…", again, lines[-1]])


def compare() -> str:
    """What protection costs; host time is left out, since it is another on every host."""
    command = f"compare {EPOCHS} --design ideal,picl -- {KV}"
    lines = perdure(command)
    return block([command], [*lines[: first(lines, "the simulation itself")], "…"])


def debian() -> str:
    """A program as Debian ships it."""
    fetch = "sysroot out/demo/sysroot --packages sqlite3"
    command = 'run --sysroot out/demo/sysroot -- sqlite3 :memory: "select sqlite_version(), 6 * 7"'
    if not (ROOT / "out/demo/sysroot").is_dir():
        perdure(fetch)
    return block([fetch, command], perdure(command))


BLOCKS = {"run": run, "cut": cut, "ideal": ideal, "compare": compare, "debian": debian}
PLACE = re.compile(r"(<!-- session (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

if __name__ == "__main__":
    page = ROOT / "README.md"
    text = page.read_text("utf-8")
    page.write_text(PLACE.sub(lambda at: at[1] + BLOCKS[at[2]]() + at[3], text), "utf-8")

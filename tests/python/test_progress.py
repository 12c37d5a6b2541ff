"""Progress: on a terminal only, and never in the way of the guest's output."""

import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2] / "python"

GUEST = """
    import os, sys, types
    core = types.ModuleType("perdure._core")
    core.PerdureError = Exception
    core.__version__, core.TIMING_VERSION = "0", 0
    sys.modules["perdure._core"] = core
    from perdure import progress
    progress.PATIENCE_SECONDS = {patience}
    with progress.status_line() as show:
        for step in range(3):
            if show is not None:
                show(step * 1000000, 0, "instructions", "")
            os.write(1, b"line %d\\n" % step)
            os.write(2, b"half")
            import time; time.sleep(0.05)
            if show is not None:
                show(step * 1000000, 0, "instructions", "")
            os.write(2, b"-line\\n")
            time.sleep(0.05)
    print("after")
"""


WAITING = """
    import sys, time, types
    core = types.ModuleType("perdure._core")
    core.PerdureError = Exception
    core.__version__, core.TIMING_VERSION = "0", 0
    sys.modules["perdure._core"] = core
    from perdure import progress
    from rich.console import Console
    progress.PATIENCE_SECONDS = {patience}
    with progress.bar(Console(stderr=True), "reproduce") as show:
        show(*{said})
        time.sleep(0.5)
"""


def on_a_terminal(patience, program=GUEST, said=(0, 0, "points", "")):
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program.format(patience=patience, said=said))],
        stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, "PYTHONPATH": str(PYTHON), "COLUMNS": "80", "TERM": "xterm"},
    )  # fmt: skip
    os.close(slave)
    seen = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    assert child.wait(timeout=20) == 0, seen
    return seen.replace(b"\r\n", b"\n")


def visible(seen):
    """What stays on the screen: an erased line leaves nothing."""
    lines = seen.decode().split("\n")
    return [line.split("\r\x1b[K")[-1] for line in lines]


def test_the_status_line_leaves_the_guests_output_whole():
    seen = on_a_terminal(patience=0)
    assert b"instructions" in seen
    assert visible(seen) == [
        "line 0", "half-line", "line 1", "half-line", "line 2", "half-line", "after", "",
    ]  # fmt: skip


def test_nothing_is_drawn_within_the_first_two_seconds():
    seen = on_a_terminal(patience=2)
    assert b"\x1b" not in seen
    assert b"instructions" not in seen


def test_a_bar_appears_before_anything_is_done():
    assert b"reproduce" in on_a_terminal(0.05, WAITING)
    assert b"reproduce" not in on_a_terminal(20, WAITING), "and ends at once"


@pytest.mark.parametrize(("done", "total", "shown"), [
    (204_266_459, 0, "204.3 million instructions"),
    (1_234, 5_000, "1,234 of 5,000 instructions"),
    (312_400_000, 2_000_000_000, "312.4 million of 2.0 billion instructions"),
])  # fmt: skip
def test_a_narrow_terminal_takes_from_the_words_and_not_from_the_numbers(done, total, shown):
    seen = on_a_terminal(0.05, WAITING, (done, total, "instructions", "explaining a failure " * 4))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    lines = [line for line in re.split(r"[\r\n]", plain) if shown in line]
    assert lines, plain
    assert all(re.search(r"… .* 0:00:0\d", line) and len(line) <= 80 for line in lines), lines


def test_nothing_is_drawn_without_a_terminal():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(GUEST.format(patience=0))],
        capture_output=True, timeout=300, check=True, env={**os.environ, "PYTHONPATH": str(PYTHON)},
    )  # fmt: skip
    assert done.stdout == b"line 0\nline 1\nline 2\nafter\n"
    assert done.stderr == b"half-line\n" * 3


def test_counts_are_scaled_with_their_unit():
    sys.path.insert(0, str(PYTHON))
    from perdure import progress

    assert progress.scaled(12, "cuts") == "12 cuts"
    assert progress.scaled(312_400_000, "instructions") == "312.4 million instructions"
    assert progress.scaled(45_600, "instructions") == "45.6 thousand instructions"

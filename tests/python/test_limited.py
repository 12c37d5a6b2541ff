"""The runner that gives every test of `cargo test` a time limit."""

import os
import subprocess
import sys
from pathlib import Path

LIMITED = Path(__file__).resolve().parents[2] / ".ci/limited"


def limited(*words):
    """Runs a program whose tests may take 0.3 seconds each."""
    return subprocess.run(
        [sys.executable, LIMITED, *words],
        env={**os.environ, "PERDURE_TEST_SECONDS": "0.3"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_program_that_ends_in_time_keeps_its_status():
    assert limited("sh", "-c", "exit 0").returncode == 0
    assert limited("sh", "-c", "exit 7").returncode == 7
    assert limited("sh", "-c", "kill -9 $$").returncode == 137


def test_a_thread_that_hangs_ends_the_run_with_its_name():
    sleeps = "import threading, time; threading.Thread(target=time.sleep, args=(99,)).start()"
    hanging = f"{sleeps}; time.sleep(99)"
    ended = limited(sys.executable, "-c", hanging)
    assert ended.returncode == 124
    assert "takes too long and is ended: python" in ended.stderr


def test_tests_on_one_thread_have_a_limit_together():
    ended = limited("sleep", "60")
    assert (ended.returncode, "on one thread" in ended.stderr) == (124, True)

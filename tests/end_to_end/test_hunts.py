"""Hunts however they are run: on a cluster, and until somebody has had enough.

Always true here: what a hunt reports depends on its seeds alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_SECONDS, Command, Terminal

from perdure import Machine, hunting

CUTS_OF_A_SEED = 60


def test_a_hunt_on_a_cluster_is_the_hunt_on_this_machine(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hunting, "CHUNK_SEEDS", 2)
    chunk_cuts = 2 * CUTS_OF_A_SEED
    # Enough is known only when a chunk is done.
    there = hunting.hunt(Machine(), cuts=chunk_cuts + 1, scheduler=scheduler)
    here = hunting.hunt(Machine(), cuts=2 * chunk_cuts, jobs=2)
    assert there["found"] is None
    assert there["seeds"] == 2 * 2
    assert there == here


def test_a_deadlock_that_a_hunt_found_is_one_again_by_its_token(
    compiled: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    program = compiled(
        '#include <unistd.h>\nint main(void) { write(1, "waits\\n", 6); pause(); return 0; }'
    )
    found = tmp_path / "found.json"
    ended = command("hunt", "--cuts", "1", "--json", found, "--", program)
    assert ended.status == 1, ended.stderr
    failure = json.loads(found.read_text())["found"]
    assert failure["verdict"] == "deadlock"
    again = command("replay", failure["token"], "--json", "again.json")
    assert again.status == 1, again.stderr
    report = json.loads((tmp_path / "again.json").read_text())
    (result,) = report["results"]
    assert (report["failed"], result["verdict"]) == (1, "deadlock")
    assert result["message"] == failure["message"] and "deadlocked" in result["message"]
    assert "deadlock" in again.stdout
    # Without a token, nobody is accused of what the program does by itself.
    plain = command("cut", "--cuts", "1", "--", program)
    assert plain.status == 2 and "the program is deadlocked" in plain.stderr


@pytest.mark.parametrize(
    ("machine", "design"),
    [("picl", "picl"), ("nvoverlay", "nvoverlay"), ("picl", "thynvm"), ("spms", "spms")],
)
def test_what_was_printed_before_a_deadlock_leaves(
    compiled: Callable[..., Path], command: Command, machine: str, design: str
) -> None:
    program = compiled(
        '#include <unistd.h>\nint main(void) { write(1, "out\\n", 4); write(2, "err\\n", 4); '
        "pause(); return 0; }"
    )
    ended = command("run", "--machine", machine, "--design", design, "--", program)
    assert ended.status == 2
    assert ended.stdout == "out\n"
    assert ended.stderr.startswith("err\n") and "the program is deadlocked" in ended.stderr


def test_a_hunt_s_time_is_over_where_the_program_never_ends(
    compiled: Callable[..., Path], command: Command
) -> None:
    program = compiled("int main(void) { for (volatile int i = 0;; i++) { } }")
    ended = command("hunt", "--minutes", "0.02", "--jobs", "1", "--json", "-", "--", program)
    assert ended.status == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["seeds"], report["found"]) == (0, None)


def test_a_hunt_may_have_all_the_time_that_there_is(command: Command) -> None:
    ended = command("hunt", "--minutes", "1e300", "--cuts", "1", "--jobs", "1")
    assert ended.status == 0, ended.stderr


def test_ctrl_c_keeps_what_was_reached(terminal: Terminal, tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("perdure")
    written = tmp_path / "report.json"
    words = ["hunt", "--minutes", "10", "--jobs", "2", "--json", str(written)]
    process = subprocess.Popen(
        [script, *words], cwd=tmp_path, env=terminal.environment,
        stdout=subprocess.PIPE, stderr=terminal.device, text=True,
    )  # fmt: skip
    terminal.wait_for("seed (?:[4-9]|[1-9][0-9]): ")
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    report = json.loads(written.read_text())
    assert report["interrupted"]
    assert report["seeds"] == len(report["by_seed"]) > 0
    assert report["cuts"] == sum(one["cuts"] for one in report["by_seed"]) > 0
    assert report["coverage"]["design_states"]
    assert "interrupted" in told

"""Hunts however they are run: on a cluster, and until somebody has had enough.

Always true here: what a hunt reports depends on its seeds alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE_SECONDS, Terminal

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

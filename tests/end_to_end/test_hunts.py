"""Hunts however they are run: on a cluster, and until somebody has had enough.

Always true here: what a hunt reports depends on its seeds alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import PATIENCE_SECONDS

from perdure import Machine, hunting

CHUNK_CUTS = 60 * hunting.CHUNK_SEEDS


def test_a_hunt_on_a_cluster_is_the_hunt_on_this_machine(scheduler: str) -> None:
    # Enough is known only when a chunk is done.
    there = hunting.hunt(Machine(), cuts=CHUNK_CUTS + 1, scheduler=scheduler)
    here = hunting.hunt(Machine(), cuts=2 * CHUNK_CUTS, jobs=2)
    assert there["found"] is None
    assert there["seeds"] == 2 * hunting.CHUNK_SEEDS
    assert there == here


def test_ctrl_c_keeps_what_was_reached(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("perdure")
    written = tmp_path / "report.json"
    words = ["hunt", "--minutes", "10", "--jobs", "2", "--json", str(written)]
    process = subprocess.Popen(
        [script, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    time.sleep(15)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    report = json.loads(written.read_text())
    assert report["interrupted"]
    assert report["seeds"] == len(report["by_seed"]) > 0
    assert report["cuts"] == sum(one["cuts"] for one in report["by_seed"]) > 0
    assert report["coverage"]["design_states"]
    assert "interrupted" in told

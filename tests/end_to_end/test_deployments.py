"""The recipes for Slurm and Kubernetes, on stand-ins that run the jobs and containers here.

Always true here: a stand-in runs what the recipe hands over, as a process of this machine, and ends
it when the recipe says so; what comes out is what the command says without a cluster.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import PATIENCE_SECONDS, REPOSITORY, TIMEOUT_SECONDS, Command, without_host_time

pytestmark = pytest.mark.usefixtures("programs")

RECIPES = REPOSITORY / "docs/examples"
SBATCH = """#!/bin/sh
# Keeps the script, which is gone when this has answered, and runs it at once.
grep -q '^#SBATCH -n 1$' "$1" || exit 1
cp "$1" {folder}/script.$$
setsid sh {folder}/script.$$ >>{folder}/jobs.log 2>&1 &
echo $! >>{folder}/submitted
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
echo "$1" >>{folder}/cancelled
kill -TERM -- "-$1"
"""
PROGRAM = {"/shared/kv": "kv", "3000": "200"}
"""What the Kubernetes job runs, and what is run in its place: the same program, less of it."""


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """A folder with a Slurm that has this machine alone, and a note of each job."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    return folder


def on_slurm(slurm: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The recipe, with two jobs of one core."""
    resources = ["--jobs", "2", "--cores", "1", "--memory", "1GB", "--walltime", "00:10:00"]
    return subprocess.run(
        [sys.executable, RECIPES / "on_slurm.py", *resources, "--queue", "short", "--", *words],
        cwd=slurm.parent,
        env={**os.environ, "PATH": f"{slurm}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def ended(process: int) -> bool:
    """Whether a process is gone, which it may take a moment to be."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_slurm_cuts_as_this_host_does(
    slurm: Path, command: Command, programs: Path, tmp_path: Path
) -> None:
    words = ["cut", "--cuts", "12", "--seed", "3"]
    here = command(*words, "--json", "here.json", "--", programs / "kv", "200")
    there = on_slurm(slurm, *words, "--json", "there.json", "--", programs / "kv", "200")
    assert (here.status, there.returncode) == (0, 0), there.stderr
    reports = [json.loads((tmp_path / f"{one}.json").read_text()) for one in ("here", "there")]
    assert without_host_time(reports[0]) == without_host_time(reports[1])
    script = next(slurm.glob("script.*")).read_text()
    assert "#SBATCH -p short" in script and "#SBATCH -t 00:10:00" in script
    jobs = (slurm / "submitted").read_text().split()
    assert len(jobs) == 2 and sorted((slurm / "cancelled").read_text().split()) == sorted(jobs)
    assert all(ended(int(job)) for job in jobs)


def test_a_refusal_on_slurm_is_the_commands(slurm: Path) -> None:
    done = on_slurm(slurm, "sweep", "--", "no-such-program")
    assert done.returncode == 2 and "no-such-program" in done.stderr
    assert sorted((slurm / "cancelled").read_text().split()) == sorted(
        (slurm / "submitted").read_text().split()
    )


def test_kubernetes_sweeps_as_this_host_does(
    command: Command, programs: Path, tmp_path: Path
) -> None:
    cluster, job = yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text())
    assert (cluster["kind"], job["kind"]) == ("DaskCluster", "Job")
    scheduler, worker = (
        cluster["spec"][role]["spec"]["containers"][0] for role in ("scheduler", "worker")
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    # What the operator tells a worker's container, and who answers to the service's name.
    told = {"DASK_SCHEDULER_ADDRESS": address, "DASK_WORKER_NAME": "perdure-default-worker-1"}
    put = {"tcp://perdure-scheduler:8786": address, **PROGRAM}
    put = {**put, "/shared/kv": str(programs / "kv"), "/shared/sweep": str(tmp_path / "there")}
    with ExitStack() as running:
        start(running, container(scheduler, {}), {}, "--port", str(port), "--no-dashboard")
        start(running, container(worker, told), told)
        main = job["spec"]["template"]["spec"]["containers"][0]
        words = [put.get(word, word) for word in container(main, {})]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    assert done.returncode == 0, done.stderr
    here = command(
        "sweep", "--design", "ideal,picl", "--out", "here", "--", programs / "kv", PROGRAM["3000"]
    )
    assert here.status == 0, here.stderr
    assert rows(tmp_path / "here") == rows(tmp_path / "there") != []


def container(described: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """The words with which a container's program starts here."""
    programs = {"dask": ["-m", "dask"], "perdure": ["-m", "perdure.cli"]}
    name, *rest = described["command"]
    words = [sys.executable, *programs[name], *rest, *described["args"]]
    for variable, value in environment.items():
        words = [word.replace(f"$({variable})", value) for word in words]
    return words


def start(
    running: ExitStack, words: Sequence[str], environment: Mapping[str, str], *more: str
) -> None:
    """A process that lasts as long as the block."""
    process = subprocess.Popen(
        [*words, *more],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    running.callback(process.wait, PATIENCE_SECONDS)
    running.callback(os.killpg, process.pid, signal.SIGTERM)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The data of a sweep, without what the host adds."""
    import polars

    data = polars.read_parquet(folder / "results.parquet")
    kept = [name for name in data.columns if not name.startswith("host_")]
    return data.select(kept).sort("key").to_dicts()

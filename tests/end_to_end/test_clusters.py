"""Campaigns of power cuts on Dask clusters: the report is that of this host, whatever happens.

Always true here: a cluster is this test's own, and ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_SECONDS, PROGRAMS, Command, Terminal, without_host_time
from distributed import LocalCluster

from perdure import Machine, PerdureError, replay
from perdure.experiments import cluster

pytestmark = pytest.mark.usefixtures("programs")

LEDGER = ("x86-pm", "ideal", ("guests/ledger", "/pmem", "60", "careless"))
KV = ("picl", "picl", ("kv", "300"))

CAMPAIGNS: dict[str, tuple[tuple[str, str, tuple[str, ...]], dict[str, Any]]] = {
    "sampled": (KV, {"cuts": 24, "during_recovery": True}),
    "resumed": (KV, {"cuts": 10, "schedule": "stratified", "resume": "all", "generations": 2}),
    "failing": (KV, {"cuts": 40, "planted_bug": "evict-before-flush"}),
    "one": (KV, {"at": 100_000}),
    "restarted": (LEDGER, {"cuts": 12, "restart": True, "during_recovery": True}),
    "fences": (LEDGER, {"cuts": 1000, "restart": True, "schedule": "every-fence"}),
}
"""What is cut, and how."""


@contextmanager
def workers(count: int, **more: Any) -> Iterator[LocalCluster]:
    """A cluster of processes with a thread each."""
    where = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=count, **where, **more) as made:
        yield made


@pytest.fixture(scope="module")
def clusters(scheduler: str) -> Iterator[list[str]]:
    """One worker, and two, by the addresses of their schedulers."""
    with workers(1) as one:
        yield [one.scheduler_address, scheduler]


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_any_number_of_workers_makes_the_report_of_this_host(
    campaign: str, clusters: list[str], tmp_path: Path
) -> None:
    (preset, design, words), asked = CAMPAIGNS[campaign]
    pools = tmp_path / "pools" if asked.get("restart") else None
    machine = Machine(machine=preset, design=design, pmem=pools)

    def cut(**shares: Any) -> str:
        report = machine.cut([PROGRAMS / words[0], *words[1:]], **asked, **shares)
        assert (report.failed > 0) == (campaign in ("failing", "restarted", "fences"))
        return json.dumps(without_host_time(report.raw))

    here = cut(jobs=2)
    for there in clusters:
        assert cut(scheduler=there) == here
    assert ("explanation" in here) == (campaign in ("failing", "restarted", "fences"))


def test_the_command_cuts_where_it_stands(command: Command, scheduler: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes((PROGRAMS / "guests/ledger").read_bytes())
    words = ("cut", "--machine", "x86-pm", "--design", "ideal", "--restart", "--pmem", "pools",
             "--cuts", "6", "--seed", "5")  # fmt: skip
    program = ("--", "./ledger", "/pmem", "60", "careless")
    reports = []
    for name, shares in (("here", ()), ("there", ("--scheduler", scheduler))):
        made = command(*words, *shares, "--json", f"{name}.json", "--out", name, *program)
        assert made.status in (0, 1), made.stderr
        reports.append(without_host_time(json.loads((tmp_path / f"{name}.json").read_text())))
        assert (tmp_path / name / "result.json").is_file()
    assert reports[0] == reports[1]
    token = reports[1]["results"][0]["token"]  # type: ignore[index]
    assert command("replay", token).status in (0, 1)
    refused = command("cut", "--scheduler", scheduler, "--", "./absent")
    assert (refused.status, refused.stdout) == (2, "")
    assert "./absent: no such program" in refused.stderr
    both = command("cut", "--scheduler", scheduler, "--jobs", "2", "--", "./ledger")
    assert both.status == 2 and "give one of both" in both.stderr


def test_a_broken_contract_is_a_verdict_on_a_cluster_too(
    command: Command, scheduler: str, tmp_path: Path
) -> None:
    words = ("hunt", "--design", "journaling", "--planted-bug", "rewrite-dropped", "--cuts", "1",
             "--seed", "14", "--json", tmp_path / "found.json")  # fmt: skip
    hunted = command(*words, "--scheduler", scheduler)
    assert hunted.status == 1, hunted.stderr
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert found["verdict"] == "contract-broken"
    words = found["command"][1:]
    at, guest = words.index("--at"), words.index("--")
    # Several parts, which all come to the same.
    asked = [*words[:at], "--cuts", "4", *words[at + 2 : guest]]
    reports = []
    for name, shares in (("here", ()), ("there", ("--scheduler", scheduler))):
        made = command(*asked, *shares, "--json", f"{name}.json", *words[guest:])
        assert made.status == 1, made.stderr
        reports.append(without_host_time(json.loads((tmp_path / f"{name}.json").read_text())))
    assert reports[0] == reports[1]
    assert [one["verdict"] for one in reports[1]["results"]] == ["contract-broken"]  # type: ignore[attr-defined]


def test_a_token_of_a_cluster_is_a_token(scheduler: str) -> None:
    report = Machine().cut([PROGRAMS / "kv", "300"], cuts=3, scheduler=scheduler)
    assert replay(report.results[-1].token).results[0].cycle == report.results[-1].cycle


def test_how_the_parts_get_on_is_told(scheduler: str) -> None:
    said: list[tuple[int, int, str, str]] = []
    Machine().cut(
        [PROGRAMS / "kv", "1000"], cuts=30, resume="all", scheduler=scheduler,
        progress=lambda *words: said.append(words),
    )  # fmt: skip
    cutting = [(done, total) for done, total, unit, _ in said if unit == "cuts"]
    assert cutting and all(0 <= done <= total == 30 for done, total in cutting)


def test_ctrl_c_keeps_what_is_finished(scheduler: str, terminal: Terminal, tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("perdure")
    written = tmp_path / "report.json"
    words = ["cut", "--cuts", "5000", "--resume", "all", "--scheduler", scheduler]
    process = subprocess.Popen(
        [script, *words, "--json", written, "--", PROGRAMS / "kv", "2000"],
        cwd=tmp_path, env=terminal.environment,
        stdout=subprocess.PIPE, stderr=terminal.device, text=True,
    )  # fmt: skip
    terminal.wait_for(r"[1-9]\d* of 5,000 cuts")
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    report = json.loads(written.read_text())
    assert report["interrupted"] and 0 < report["cuts"] < 5000
    assert report["cuts"] == report["verified"] == len(report["results"])
    assert sum(report["coverage"]["design_states"].values()) == report["cuts"]
    assert f"interrupted after {report['cuts']} cuts" in told


def dying(there: LocalCluster, ends: Callable[[int], object]) -> threading.Thread:
    """Something that happens to the process of a worker once it is at work."""
    (worker, *_) = there.workers.values()
    thread = threading.Timer(4.0, lambda: ends(worker.pid))
    thread.start()
    return thread


def test_a_worker_that_dies_is_replaced() -> None:
    asked: dict[str, Any] = {"cuts": 12, "resume": "all"}
    program: list[str | Path] = [PROGRAMS / "kv", "1000"]
    with workers(2) as there:
        killer = dying(there, lambda process: os.kill(process, signal.SIGKILL))
        report = Machine().cut(program, scheduler=there.scheduler_address, **asked)
        killer.join()
    assert without_host_time(report.raw) == without_host_time(
        Machine().cut(program, jobs=2, **asked).raw
    )


async def closed(there: LocalCluster) -> None:
    """Ends a cluster's scheduler under the eyes of its workers."""
    assert there.scheduler is not None
    await there.scheduler.close()


# Dask itself looks for a scheduler that is gone for half a minute.
@pytest.mark.parametrize("gone", ["workers", pytest.param("scheduler", marks=pytest.mark.long)])
def test_a_cluster_that_is_gone_is_one_message(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 5)
    words = {"workers": "lost all of its workers", "scheduler": "scheduler is gone"}
    with workers(1) as there:
        ends = {"workers": lambda: there.scale(0), "scheduler": lambda: there.sync(closed, there)}
        killer = dying(there, lambda _: ends[gone]())
        with pytest.raises(PerdureError, match=words[gone]):
            Machine().cut(
                [PROGRAMS / "kv", "1000"], cuts=500, resume="all", scheduler=there.scheduler_address
            )
        killer.join()


def test_an_address_without_a_scheduler_or_workers_is_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program: list[str | Path] = [PROGRAMS / "kv", "10"]
    for address in ("tcp://127.0.0.1:9", "nowhere"):
        monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2)
        with pytest.raises(PerdureError, match="no Dask scheduler answers there"):
            Machine().cut(program, cuts=2, scheduler=address)
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 8)
    with workers(0) as empty, pytest.raises(PerdureError, match="has no workers"):
        Machine().cut(program, cuts=2, scheduler=empty.scheduler_address)

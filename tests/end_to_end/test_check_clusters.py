"""Checks on Dask clusters: the report is that of this host, whatever is checked.

Always true here: a cluster is two workers, and what they share is one check.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_SECONDS, PROGRAMS, Command, Terminal, built, without_host_time

import perdure
from perdure import CheckReport, Machine, _core, checking

pytestmark = pytest.mark.usefixtures("programs")

PUSHES = str(PROGRAMS / "guests/pushes")
POOL = "/pmem/x"
DUMP = [PUSHES, POOL, "dump"]


def pushes(*words: str, **asked: Any) -> CheckReport:
    """A check of `pushes`."""
    recover = [PUSHES, POOL, "recover"]
    return perdure.check([PUSHES, POOL, *words], then=recover, **{"dump": DUMP, **asked})


def transfers(**asked: Any) -> CheckReport:
    """A check of a structure that two threads share, some of whose orders are tried."""
    program = str(built("check") / "check/list-lock-free")
    machine = Machine(machine="x86-pm", design="ideal", harts=2)
    limits = checking.Limits(states=600, schedules=3)
    command, dump = [program, POOL, "--operations", "6"], [program, POOL, "--dump"]
    recover = [program, POOL, "--recover"]
    return perdure.check(command, then=recover, dump=dump, machine=machine, limits=limits, **asked)


CHECKS: dict[str, tuple[Callable[..., CheckReport], tuple[str, ...], dict[str, Any]]] = {
    "lost": (pushes, ("30", "no-flush"), {}),
    "in recovery": (pushes, ("30", "not-idempotent"), {}),
    "correct": (pushes, ("60",), {}),
    "without failures in recovery": (pushes, ("30", "not-idempotent"), {"nested": False}),
    "limited": (pushes, ("40", "no-flush"), {"limits": checking.Limits(states=900)}),
    "beside cuts": (pushes, ("20", "no-flush"), {"cuts": 30}),
    "machines": (pushes, ("20", "no-flush"), {"model": "machine", "cuts": 160}),
    "threads": (transfers, (), {}),
}
"""What is checked, and how."""


@pytest.mark.parametrize("name", CHECKS)
def test_a_cluster_makes_the_report_of_this_host(name: str, scheduler: str) -> None:
    check, words, asked = CHECKS[name]
    here = check(*words, **asked, jobs=2)
    there = check(*words, **asked, scheduler=scheduler)
    assert without_host_time(there.raw) == without_host_time(here.raw)
    assert bool(here.bugs) == (name not in ("correct", "without failures in recovery", "threads"))
    assert here.raw["limited"] == (name == "limited")


def test_shares_do_the_work_and_each_does_another() -> None:
    asked = {
        **checking.Subject(
            Machine(machine="x86-pm", design="ideal"),
            [PUSHES, POOL, "40", "no-flush"],
            then=[PUSHES, POOL, "recover"],
            dump=DUMP,
        ).request(),
        "nested": True,
    }

    def share(number: int, of: int, told: list[str]) -> str:
        asks = {"asked": asked, "part": [number, of], "told": told}
        return str(json.loads(_core.check_share(json.dumps(asks)))["told"])

    def together(told: list[str], *, interrupted: bool = False) -> Any:
        asks = {"asked": asked, "told": told, "interrupted": interrupted}
        return json.loads(_core.check_together(json.dumps(asks)))

    whole = json.loads(_core.check(json.dumps(asked)))
    points = [share(number, 3, []) for number in range(3)]
    causes = [share(number, 3, points) for number in range(3)]
    assert without_host_time(together([*points, *causes])) == without_host_time(whole)
    # Nobody explores what was not told, where the user has stopped those who tell.
    explored = together(points, interrupted=True)["points"]["explored"]
    assert explored == whole["points"]["explored"]
    # What they have told is all there, also where others told of no point of the same batch.
    alone = [together([one], interrupted=True) for one in points]
    assert all(one["interrupted"] and one["points"]["explored"] for one in alone)
    assert sum(one["points"]["explored"] for one in alone) == explored
    assert together([], interrupted=True)["points"]["explored"] == 0
    # What a share was not told, who puts everything together does.
    assert without_host_time(together(points[:1])) == without_host_time(whole)
    with pytest.raises(perdure.PerdureError, match="a share of a check is damaged"):
        together([points[0][:-8]])


def test_the_command_goes_on_from_what_was_kept(
    command: Command, scheduler: str, tmp_path: Path
) -> None:
    def check(*options: object) -> Any:
        line = ("check", *options, "--dump", " ".join(DUMP), "--json", "-", "--")
        ended = command(*line, PUSHES, POOL, "50", "no-flush", "--then", PUSHES, POOL, "recover")
        assert ended.status == 1, ended.stderr
        return without_host_time(json.loads(ended.stdout))

    shared, kept = ("--scheduler", scheduler), ("--continue", tmp_path / "kept")
    whole = check("--jobs", "2")
    assert check(*shared, *kept, "--states", "1500") == check("--states", "1500")
    assert check(*shared, *kept) == whole


def test_bad_input_is_one_message(command: Command, scheduler: str) -> None:
    both = command("check", "--scheduler", scheduler, "--jobs", "2", "--", PUSHES, POOL, "2")
    assert both.status == 2 and "give one of both" in both.stderr
    absent = command("check", "--scheduler", scheduler, "--", "./absent")
    assert (absent.status, absent.stdout) == (2, "")
    assert "./absent: no such program" in absent.stderr
    nothing = command("check", "--scheduler", scheduler, "--", PROGRAMS / "kv", "3")
    assert nothing.status == 2 and "never stores to persistent memory" in nothing.stderr


def test_ctrl_c_keeps_what_is_finished(scheduler: str, terminal: Terminal, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    script = Path(sys.executable).with_name("perdure")
    program = str(built("check") / "check/list")
    pool = [program, "/pmem/list"]
    shared = ["--scheduler", scheduler, "--states-of-a-point", "20"]
    shown = ["--dump", f"{program} {pool[1]} --dump", "--json", str(written)]
    words = [*pool, "--operations", "2000", "--bug", "node-not-flushed", "--then", *pool]
    process = subprocess.Popen(
        [script, "check", *shared, *shown, "--", *words, "--recover"],
        cwd=tmp_path, env=terminal.environment,
        stdout=subprocess.PIPE, stderr=terminal.device, text=True,
    )  # fmt: skip
    terminal.wait_for(r"[1-9]\d* of [\d,]+ failure points")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    report = json.loads(written.read_text())
    assert report["interrupted"]
    assert 0 < report["points"]["explored"] < report["points"]["found"]
    assert report["bugs"]

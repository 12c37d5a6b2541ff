"""`perdure check` by cuts of the machine itself: found, told and repeated as what a model allows.

Always true here: the program is `pushes`, whose source says what each of its mistakes loses.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import PROGRAMS, Command

pytestmark = pytest.mark.usefixtures("programs")

PUSHES = PROGRAMS / "guests/pushes"
POOL = "/pmem/x"


def checked(
    command: Command, *words: str, options: tuple[str, ...], program: str | Path = PUSHES
) -> tuple[int, Any]:
    """The status and the JSON of a check."""
    run = ("--", program, POOL, *words, "--then", program, POOL, "recover")
    dump = ("--dump", f"{program} {POOL} dump")
    ended = command("check", *dump, *options, "--json", "-", *run)
    assert ended.status in (0, 1), ended.stderr
    return ended.status, json.loads(ended.stdout)


def test_cuts_of_many_machines_do_not_accuse_a_correct_program(command: Command) -> None:
    options = ("--model", "machine", "--cuts", "240")
    status, report = checked(command, "12", options=options)
    assert (status, report["bugs"], report["states"]["wrong"]) == (0, [], 0)
    assert report["points"]["explored"] == report["points"]["found"] == 240
    machines = report["machines"]
    assert sum(one["cuts"] for one in machines) == 240
    assert {one["schedule"] for one in machines[:3]} == {"near-events", "in-flight", "random"}
    assert [one["set"] for one in machines[:3]] == [[], [], []]
    assert any(one["set"] for one in machines[3:])


@pytest.mark.parametrize(
    ("mistake", "defect", "lost"),
    [("no-flush", "missing-flush", "fill"), ("no-last-flush", "missing-flush", "lead_to")],
)
def test_what_the_machine_loses_is_named(
    mistake: str, defect: str, lost: str, command: Command
) -> None:
    options = ("--model", "machine", "--cuts", "160")
    status, report = checked(command, "12", mistake, options=options)
    assert status == 1
    (bug,) = report["bugs"]
    assert (bug["defect"], bug["points"] > 0) == (defect, True)
    (store,) = bug["lost"]
    assert (store["place"]["function"], store["pool"]) == (lost, "x")
    assert store["stack"][-1]["function"] == "main"
    assert all(word["found"] != word["newest"] for word in store["words"])
    assert all(word["part"].startswith("pool.") for word in store["words"])
    assert bug["cut"]["cycle"] > 0
    kinds = [moment["kind"] for moment in bug["timeline"]]
    assert kinds[:2] == ["lost", "missing-flush"]
    assert set(kinds[2:-1]) <= {"kept", "flush", "fence"}
    flushes = [moment for moment in bug["timeline"] if moment["kind"] == "flush"]
    assert all(0 not in moment["stores"] for moment in flushes)
    assert sum(one["failed"] for one in report["machines"]) == report["states"]["wrong"]


def test_what_is_durable_too_early_on_the_machine_is_told_as_an_order(command: Command) -> None:
    options = ("--model", "machine", "--cuts", "160")
    _, report = checked(command, "12", "wrong-order", options=options)
    bugs = {bug["defect"]: bug for bug in report["bugs"]}
    assert set(bugs) <= {"wrong-order", "not-recoverable"}
    (store,) = bugs["wrong-order"]["lost"]
    assert store["place"]["function"] == "fill"


def test_power_fails_again_in_recoveries_of_the_machine(command: Command) -> None:
    """The log is over before what it does again is durable: only a second failure shows that."""
    program = PROGRAMS / "check/redo-hash"
    recovers = ("--then", program, POOL, "--recover")
    options = ("--model", "machine", "--cuts", "240", "--json", "-")
    mistaken = (program, POOL, "--bug", "over-before-redone")
    ended = command("check", *options, "--", *mistaken, *recovers)
    report = json.loads(ended.stdout)
    assert ended.status == 1, ended.stderr
    inner = [one["in_recoveries"] for one in report["machines"]]
    assert sum(one["cuts"] for one in inner) == report["points"]["in_recoveries"] > 0
    assert sum(one["failed"] for one in inner) == report["states"]["wrong"]
    assert all(bug["point"]["in_recovery"] == "recovery" for bug in report["bugs"])
    (bug,) = (one for one in report["bugs"] if one["defect"] == "wrong-order")
    assert bug["lost"][0]["place"]["file"].endswith("redo.h")
    assert bug["cut"]["cycle_in_recovery"] > 0
    assert command("replay", bug["token"]).status == 1
    for words, nested in ((mistaken, "--no-nested"), ((program, POOL), "--cuts=240")):
        ended = command("check", *options, nested, "--", *words, *recovers)
        assert (ended.status, json.loads(ended.stdout)["bugs"]) == (0, [])


def test_neither_host_threads_nor_time_change_what_cuts_find(command: Command) -> None:
    reports = []
    for jobs in ("1", "3"):
        options = ("--model", "machine", "--cuts", "200", "--jobs", jobs)
        _, report = checked(command, "8", "no-flush", options=options)
        del report["host"]
        reports.append(report)
    assert reports[0] == reports[1]
    assert reports[0]["bugs"]


def test_a_bug_of_a_model_says_whether_the_machine_shows_it(command: Command) -> None:
    for mistake, is_seen in (("no-flush", True), ("no-fence", False)):
        _, report = checked(command, "6", mistake, options=("--cuts", "30"))
        (bug,) = report["bugs"]
        assert bug["on_machine"]["cuts"] == 30
        assert (bug["on_machine"]["seen"] > 0) == is_seen
    program = ("--", PUSHES, POOL, "6", "no-fence", "--then", PUSHES, POOL, "recover")
    ended = command("check", "--cuts", "5", *program)
    assert "allowed by the model, not seen on this machine in 5 cuts near there" in ended.stdout


@pytest.mark.parametrize("model", ["px86", "machine"])
def test_a_token_is_replayed_unless_its_program_has_changed(
    model: str, command: Command, tmp_path: Path
) -> None:
    shutil.copy(PUSHES, tmp_path / "pushes")
    options = ("--model", model, "--cuts", "120")
    _, report = checked(command, "8", "no-flush", options=options, program="./pushes")
    token = report["bugs"][0]["token"]
    ended = command("replay", token)
    assert ended.status == 1, ended.stderr
    assert "wrong: recovery ends with status 3" in ended.stdout
    ended = command("replay", "--json", "-", token)
    assert json.loads(ended.stdout)["wrong"] == "recovery ends with status 3"
    assert command("replay", "--check", "true", token).status == 2
    assert "damaged" in command("replay", token[:-5]).stderr
    with (tmp_path / "pushes").open("ab") as file:
        file.write(b"changed")
    ended = command("replay", token)
    assert ended.status == 2
    assert "pushes has changed since the token was made" in ended.stderr


def test_a_report_has_short_names_for_its_tokens(command: Command) -> None:
    program = ("--", PUSHES, POOL, "5", "no-flush", "--then", PUSHES, POOL, "recover")
    shown = command("check", *program).stdout
    name = shown.partition("again: perdure replay ")[2].partition(",")[0]
    assert command("replay", name).status == 1


def test_a_debugger_finds_what_recovery_does_on_the_state(command: Command, tmp_path: Path) -> None:
    _, report = checked(command, "6", "no-flush", options=())
    script = tmp_path / "script"
    script.write_text("break recover\ncontinue\nbacktrace 1\ncontinue\n")
    token = report["bugs"][0]["token"]
    ended = command("debug", "--script", str(script), token)
    assert "recover (mistake=" in ended.stdout
    assert "exits with status 3" in ended.stdout + ended.stderr
    ended = command("debug", token, "--script", str(script))
    assert ended.status == 2
    assert "options stand before the token" in ended.stderr

"""`perdure litmus` on files: the repository's, wrong ones, and what machines leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command

TESTS = Path(__file__).parents[1] / "litmus"


def test_the_repositorys_tests_are_as_they_state(command: Command) -> None:
    files = sorted(TESTS.glob("*/*.toml"))
    ended = command("litmus", *files, "--cuts", "0", "--json", "-")
    assert ended.status == 0, ended.stderr
    tests = json.loads(ended.stdout)["tests"]
    assert [test["file"] for test in tests] == [str(file) for file in files]
    assert all(test["stated"]["agrees"] and test["machine"] is None for test in tests)


def test_what_machines_leave(command: Command) -> None:
    files = (TESTS / "perdure/clean-fence.toml", TESTS / "strand/barrier.toml")
    ended = command("litmus", *files, "--cuts", "400", "--seed", "7", "--json", "-")
    assert ended.status == 0, ended.stderr
    ran, never = json.loads(ended.stdout)["tests"]
    assert never["machine"] is None
    machine = ran["machine"]
    assert [tried["machine"] for tried in machine["presets"]] == [
        "x86-pm",
        "arm-pm",
        "xeon-pm",
        "picl",
    ]
    assert all(tried["cuts"] >= 400 and tried["runs"] > 0 for tried in machine["presets"])
    assert machine["unsound"] == []
    assert sorted(machine["contents"] + machine["not_reached"]) == sorted(ran["contents"])
    assert "complete" in ended.stderr


def test_a_machine_that_is_wrong(command: Command) -> None:
    asked = ("--cuts", "400", "--planted-bug", "machine:fence-waits-for-stores-alone")
    ended = command("litmus", TESTS / "perdure/clean-fence.toml", *asked)
    assert ended.status == 1
    assert "unsound: x=0 y=1" in ended.stdout


def test_a_bug_that_no_litmus_test_can_see(command: Command) -> None:
    file = TESTS / "perdure/clean-fence.toml"
    ended = command("litmus", file, "--planted-bug", "forward-scan")
    assert (ended.status, ended.stdout) == (2, "")
    assert "--planted-bug forward-scan" in ended.stderr


def test_a_file_that_states_something_else(command: Command, tmp_path: Path) -> None:
    text = (TESTS / "px86/clwb.toml").read_text().replace('"x=0 y=1",', "")
    (tmp_path / "clwb.toml").write_text(text)
    ended = command("litmus", tmp_path / "clwb.toml")
    assert ended.status == 1
    assert "allowed, but not stated: x=0 y=1" in ended.stdout


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("clwb x", "clbw x", "clwb.toml:6:18: 'clbw' is no instruction; the nearest is 'clwb'"),
        ("px86", "px68", "clwb.toml:4:9: 'px68' is no model; the nearest is 'px86'"),
        ("x=0 y=0", "x=0", "what y holds is missing"),
    ],
)
def test_a_malformed_file(command: Command, tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (TESTS / "px86/clwb.toml").read_text().replace(old, new)
    (tmp_path / "clwb.toml").write_text(text)
    ended = command("litmus", tmp_path / "clwb.toml")
    assert (ended.status, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_a_file_that_is_not_there(command: Command, tmp_path: Path) -> None:
    ended = command("litmus", tmp_path / "none.toml")
    assert ended.status == 2
    assert "none.toml" in ended.stderr


def litmus(tmp_path: Path, model: str, *threads: tuple[str, ...]) -> Path:
    """The file of a test."""
    file = tmp_path / "test.toml"
    listed = json.dumps([list(thread) for thread in threads])
    file.write_text(f'name = "test"\nmodel = "{model}"\nthreads = {listed}\n')
    return file


@pytest.mark.parametrize("behind", [(), ("new-strand",)])
def test_a_thread_that_waits_for_another_ones_strand_for_ever(
    command: Command, tmp_path: Path, behind: tuple[str, ...]
) -> None:
    waits = ("store x 1", *behind, "strand-sync", "store y 1")
    file = litmus(tmp_path, "spms", waits, ("store x 2",))
    ended = command("litmus", file, "--cuts", "60", "--seed", "1", "--json", "-")
    assert ended.status == 0, ended.stderr
    (test,) = json.loads(ended.stdout)["tests"]
    assert test["machine"]["unsound"] == []
    assert any(tried["cuts"] >= 60 for tried in test["machine"]["presets"])


@pytest.mark.parametrize("model", ["px86", "ptso"])
def test_more_is_left_than_anybody_can_list(command: Command, tmp_path: Path, model: str) -> None:
    threads = [tuple(f"store x{place} {value}" for value in range(1, 17)) for place in range(8)]
    ended = command("litmus", litmus(tmp_path, model, *threads))
    assert (ended.status, ended.stdout) == (2, "")
    assert "the test is too large; use fewer stores or locations" in ended.stderr

"""Replay tokens: what they say of a run, and what a replay says that finds another one.

Always true here: a token is printed by one command and read by another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command, Ended

READER = r"""
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    char line[64];
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(words[i], "r");
        printf("%s: %s\n", words[i], file && fgets(line, sizeof line, file) ? line : "nothing");
        if (file)
            fclose(file);
    }
    if (access("config", F_OK) == 0)
        puts("configured");
    DIR *folder = opendir("many");
    for (int names = 0; folder && readdir(folder); names++)
        printf("%d\n", names);
    return 0;
}
"""


@pytest.fixture
def token(
    command: Command, compiled: Callable[[str], Path], tmp_path: Path
) -> Callable[..., Ended]:
    """Replays the token of one cut of the reader."""
    program = compiled(READER)
    (tmp_path / "many").mkdir()
    (tmp_path / "data").write_text("one\n")
    (tmp_path / "input").write_text("typed\n")
    report = command("cut", "--cuts", "1", "--json", "-", "--stdin", "input", "--", program, "data")
    assert report.status == 0, report.stderr
    made = json.loads(report.stdout)["results"][0]["token"]
    assert len(made) < 700

    def replayed() -> Ended:
        return command("replay", made)

    again = replayed()
    assert (again.status, again.stderr) == (0, "")
    return replayed


def test_a_replay_says_what_is_another(token: Callable[..., Ended], tmp_path: Path) -> None:
    def refusal() -> str:
        ended = token()
        assert ended.status == 2, ended.stdout
        return ended.stderr

    data, given = tmp_path / "data", tmp_path / "input"
    data.write_text("two\n")
    assert "/work/data has changed" in refusal()
    data.unlink()
    assert "/work/data is not found" in refusal()
    data.write_text("one\n")
    given.write_text("spoken\n")
    assert "standard input has changed" in refusal()
    given.write_text("typed\n")
    (tmp_path / "many/one").touch()
    assert "/work/many" in refusal()
    (tmp_path / "many/one").unlink()
    (tmp_path / "config").touch()
    assert "/work/config has changed" in refusal()
    (tmp_path / "config").unlink()
    program = tmp_path / "program"
    program.write_bytes(program.read_bytes() + b"x")
    assert "the program " in (said := refusal())
    assert "has changed" in said
    program.unlink()
    assert "is not found" in refusal()


def test_piped_input_is_kept_only_where_results_are(
    command: Command,
    compiled: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "data").write_text("one\n")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    words = ["cut", "--cuts", "1", "--json", "report.json", "--stdin", "-"]
    program = ["--", compiled(READER), "data"]

    def token() -> str:
        return str(json.loads((tmp_path / "report.json").read_text())["results"][0]["token"])

    gone = command(*words, *program, given="typed\n")
    assert gone.status == 0 and "--out DIR keeps it" in gone.stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    assert command("replay", token()).status == 2
    kept = command(*words, "--out", "results", *program, given="typed\n")
    assert kept.status == 0 and "--out DIR" not in kept.stderr
    assert (tmp_path / "results/standard-input").read_text() == "typed\n"
    assert command("replay", token()).status == 0

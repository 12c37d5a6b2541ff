"""The host is never harmed: a guest that removes and writes whatever it finds, under every command.

Always true here: what must not change is compared byte for byte, names and links included.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PROGRAMS, Command, RunGuest

import perdure
from perdure import Machine

# Writes, makes links that lead out, writes through them, and removes everything that it finds.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file) { fputs(text, file); fclose(file); }
}
static void clear(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) { unlink(path); return; }
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner)) { clear(inner); rmdir(inner); }
    }
    closedir(directory);
}
int main(int count, char **words) {
    put("mine/notes", "gone"), put("new", "first");
    sync();
    clear(".");
    if (count > 1) {
        symlink(words[1], "way-out"), put("way-out/planted", "bad"), unlink("way-out/precious");
        symlink("../precious", "link"), put("link", "bad");
    }
    mkdir("made", 0700), put("made/a", "one"), put("b", "two"), put("c", ""), put("d", "four");
    chmod("b", 06755);
    return 0;
}
"""


def tree(folder: Path) -> dict[str, str]:
    """What stands below a folder: texts of files, targets of links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "directory" if path.is_dir() else path.read_text()
    return found


@pytest.fixture
def program(compiled: Callable[[str], Path]) -> Path:
    return compiled(PROGRAM)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a user's files, beside others of theirs."""
    folder = tmp_path / "home/current"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine/notes").write_text("notes")
    (folder / "text").write_text("text")
    (folder / "link").symlink_to("../precious")
    (tmp_path / "home/precious").write_text("precious")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("run",), ("run", "--design", "ideal"), ("compare",), ("cut", "--cuts", "3"), ("sweep",),
        ("run", "--out", "../out"), ("run", "--files", "../out"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_changes_the_current_folder(
    words: tuple[str, ...], program: Path, mine: Path, command: Command
) -> None:
    home = mine.parent
    before = tree(mine)
    more = ("--set", "epoch.instructions=1e5") if words[0] == "cut" else ()
    where = ("--out", home / "swept") if words[0] == "sweep" else ()
    ended = command(*words, *more, *where, "--", program, home, cwd=mine)
    assert ended.status == 0, ended.stderr
    assert tree(mine) == before
    assert (home / "precious").read_text() == "precious"
    assert not (home / "planted").exists()


def test_a_run_says_which_files_are_lost(program: Path, mine: Path, command: Command) -> None:
    ended = command("run", "--json", "../result.json", "--", program, cwd=mine)
    assert (
        "perdure: 4 files written by the guest are not kept: b, c, d, …; --files DIR keeps them\n"
    ) in ended.stderr
    result = json.loads((mine.parent / "result.json").read_text())
    assert result["files"] == [
        {"path": f"/work/{name}", "size": size, "kept": False}
        for name, size in (("b", 3), ("c", 0), ("d", 4), ("made/a", 3))
    ]
    assert result["removed_files"] == ["/work/link", "/work/mine", "/work/text"]


def test_files_are_kept_where_the_user_says(
    program: Path, mine: Path, run_guest: RunGuest, tmp_path: Path
) -> None:
    before = tree(mine)
    files = {"made": "directory", "made/a": "one", "b": "two", "c": "", "d": "four"}
    for folder, more in (
        (tmp_path / "kept", {"files": tmp_path / "kept"}),
        (tmp_path / "all/files", {"out": tmp_path / "all"}),
    ):
        for _ in range(2):
            run = run_guest(Machine(), [program], cwd=mine, **more)
            assert all(file.kept for file in run.result.files)
            assert run.result.refused_output is None
            assert tree(folder / "work") == files
        assert (folder / "work/b").stat().st_mode & 0o7777 == 0o755
        removed = json.loads((folder / "removed.json").read_text())
        assert removed == ["/work/link", "/work/mine", "/work/text"]
        assert tree(mine) == before


def test_a_folder_that_is_written_through(
    program: Path, mine: Path, run_guest: RunGuest, command: Command
) -> None:
    home = mine.parent
    (home / "data").mkdir()
    (home / "data/old").write_text("old")
    words = [program, str(home)]
    run_guest(Machine(mounts=[f"{home}/data:/data"]), words, cwd=mine, write_through=[".:/work"])
    assert tree(mine) == {
        "made": "directory",
        "made/a": "one",
        "b": "two",
        "c": "",
        "d": "four",
        "way-out": f"-> {home}",
        "link": "-> ../precious",
    }
    assert (mine / "b").stat().st_mode & 0o7777 == 0o755
    assert (home / "precious").read_text() == "precious"
    assert not (home / "planted").exists()
    assert tree(home / "data") == {"old": "old"}
    refused = command("cut", "--write-through", ".:/work", "--", program, cwd=mine)
    assert refused.status == 2
    assert "--write-through: a program whose power is cut" in refused.stderr
    assert "leave the option out" in refused.stderr
    for text in ("nowhere:/work", ".:work", "."):
        refused = command("run", "--write-through", text, "--", program, cwd=mine)
        assert (refused.status, "write HOST:GUEST" in refused.stderr) == (2, True)


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(
    program: Path, mine: Path, command: Command
) -> None:
    (mine / "file").write_text("")
    ended = command("run", "--files", "file/inner", "--", program, cwd=mine)
    assert ended.status == 2
    assert "the guest's files" in ended.stderr
    with pytest.raises(perdure.PerdureError, match="the guest's files"):
        Machine().run([str(program)], files=mine / "file")


@pytest.mark.parametrize("guests", [["/work"], ["/data/x", "/data"], ["/data", "/data"]])
def test_folders_that_would_hide_others_are_all_seen_and_resumed(
    guests: list[str], tmp_path: Path, command: Command
) -> None:
    mounts = []
    for number, guest in enumerate(guests):
        (tmp_path / str(number)).mkdir()
        mounts += ["--mount", f"{tmp_path / str(number)}:{guest}"]
    ended = command("cut", "--cuts", "2", "--resume", "all", *mounts, "--", PROGRAMS / "kv", "20")
    assert ended.status == 0, ended.stdout + ended.stderr

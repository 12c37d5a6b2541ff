"""Files of results: refused before a run where they cannot be written, and written whole."""

import json
import os
from pathlib import Path

import pytest
from conftest import BROKEN, VERIFIED

import perdure
from perdure import outputs


@pytest.fixture
def places(tmp_path):
    """Files that cannot be written, by what is wrong."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o444)
    (tmp_path / "broken").symlink_to("missing/file")
    return {
        "no folder": tmp_path / "missing/file",
        "a folder": tmp_path / "folder",
        "below a file": tmp_path / "file/below",
        "read-only": tmp_path / "file",
        "nobody writes there": Path("/proc/perdure.json"),
        "a link to nowhere": tmp_path / "broken",
        "long": tmp_path / ("x" * 300),
        "long path": tmp_path / "/".join(["x" * 200] * 30),
        "lines": tmp_path / "missing\nTraceback\x1b[2J/file",
        "no text": tmp_path / os.fsdecode(b"\xff\xfe/file"),
        "empty": "",
    }


WRONG = (
    "no folder", "a folder", "below a file", "read-only", "nobody writes there",
    "a link to nowhere", "long", "long path", "lines", "no text", "empty",
)  # fmt: skip

COMMANDS = {
    "run": ("--", "program"),
    "cut": ("--", "program"),
    "compare": ("--", "program"),
    "sweep": ("--", "/bin/true"),
    "reproduce": ("picl",),
    "mutants": (),
    "replay": ("p1-aaaa",),
    "replicate": ("--to", "/nowhere", "--", "program"),
    "list": ("designs",),
    "config": (),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_json_file_that_cannot_be_written_is_refused_before_the_run(
    wrong, places, core, command, tmp_path
):
    before = sorted(tmp_path.rglob("*"))
    for name in ("run", "cut"):
        status, out, err = command(name, "--json", places[wrong], *COMMANDS[name])
        assert (status, out, core.requests) == (2, "", [])
        assert err.startswith("perdure: --json cannot write ")
        assert err.count("\n") == 1
        assert len(err) < 500
        assert err.isprintable() or err[:-1].isprintable()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_before_it_begins(name, core, command, tmp_path):
    wrong = tmp_path / "missing/result.json"
    status, out, err = command(name, "--json", wrong, *COMMANDS[name])
    assert (status, out, core.requests) == (2, "", [])
    assert err == f"perdure: --json cannot write {wrong}: No such file or directory\n"


@pytest.mark.parametrize("name", ["run", "cut", "compare", "sweep", "reproduce"])
def test_a_folder_of_results_that_cannot_be_is_refused_before_the_run(
    name, core, command, tmp_path
):
    (tmp_path / "file").write_text("old")
    for wrong in (tmp_path / "file", tmp_path / "file/below/it", "/proc/nowhere"):
        own = COMMANDS[name]
        words = (*own, "--out", wrong) if name == "reproduce" else ("--out", wrong, *own)
        status, out, err = command(name, *words)
        assert (status, out, {"run", "cut"} & {one for one, _ in core.requests}) == (
            2,
            "",
            set(),
        ), err
        assert err.startswith("perdure: --out cannot write ")
    assert (tmp_path / "file").read_text() == "old"


def test_a_result_in_a_folder_that_something_else_stands_for_is_refused(core, command, tmp_path):
    (tmp_path / "result.json").mkdir()
    status, _, err = command("run", "--out", tmp_path, "--", "program")
    assert (status, core.requests) == (2, [])
    assert err == f"perdure: --out cannot write {tmp_path}/result.json: it is a directory\n"
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/picl").write_text("")
    status, _, err = command("compare", "--out", tmp_path / "deep", "--", "program")
    assert (status, core.requests) == (2, [])
    assert "picl: it is not a directory" in err


def test_the_same_from_python(core, tmp_path):
    (tmp_path / "file").write_text("")
    machine = perdure.Machine()
    for call in (machine.run, machine.cut):
        with pytest.raises(perdure.PerdureError, match=r"cannot write .*not a directory"):
            call(["program"], out=tmp_path / "file")
    with pytest.raises(perdure.PerdureError, match="cannot write"):
        machine.run(["program"], out="zero\0byte")
    assert core.requests == []


def test_what_is_refused_leaves_nothing_and_what_is_not_changes_nothing(core, command, tmp_path):
    outputs.check_folder(tmp_path / "new/folder", files=("result.json",))
    outputs.check_file(tmp_path / "new.json", "--json")
    (tmp_path / "old.json").write_text("old")
    outputs.check_file(tmp_path / "old.json", "--json")
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


@pytest.mark.parametrize("wrong", ["lines", "no text", "long", "long path"])
@pytest.mark.parametrize("option", ["--sysroot", "--design", "--set", "--mount", "--env"])
def test_a_refusal_shows_what_was_given_in_one_line(option, wrong, places, core, command):
    value = str(places[wrong])
    core.refusal = f"{option} {value}: not a directory; 'perdure sysroot {value}' makes one"
    for words in ((option, value), (f"{option}={value}",)):
        status, _, err = command("run", *words, "--", "program")
        assert status == 2
        assert err.startswith(f"perdure: {option} ")
        assert err.count("\n") == 1
        assert err[:-1].isprintable()
        assert len(err) < 700
        assert err.endswith("makes one\n")


def test_a_file_is_old_or_new_but_never_a_part(tmp_path):
    file = tmp_path / "result.json"
    file.write_text("old")
    file.chmod(0o640)
    with pytest.raises(KeyboardInterrupt), outputs.written(file) as unfinished:
        unfinished.write_text("half of the n")
        raise KeyboardInterrupt
    assert file.read_text() == "old"
    outputs.write_text(file, "new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_links_stay_and_devices_are_not_replaced(command, tmp_path):
    (tmp_path / "link").symlink_to("target")
    assert command("run", "--json", tmp_path / "link", "--", "program")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "target").read_text())["exit_code"] == 0
    assert command("run", "--json", "/dev/null", "--", "program")[0] == 0
    assert Path("/dev/null").is_char_device()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert command("list", "designs", "--json", tmp_path / "pipe")[0] == 0
        assert json.loads(os.read(reader, 65536))["designs"]
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("words", "both"),
    [
        (("run", "--trace", "f", "--json", "./f"), "--json and --trace"),
        (("cut", "--html", "f", "--json", "f"), "--json and --html"),
        (("cut", "--cores", "f", "--html", "f"), "--cores and --html"),
        (("trace", "--out", "f.json", "--json", "f.json"), "--out and --json"),
        (("trace", "--out", "f.json", "--persist-order", "f.json"), "--out and --persist-order"),
        (("trace", "--json", "trace.pftrace"), "--out and --json"),
        (("check", "--html", "f", "--sarif", "g", "--json", "f"), "--html and --json"),
        (("check", "--junit", "f", "--sarif", "link"), "--sarif and --junit"),
        (("check", "--continue", "f", "--baseline", "f"), "--continue and --baseline"),
        (("sweep", "--out", "f", "--json", "f"), "--out and --json"),
    ],
)
def test_two_results_in_one_file_are_refused_before_the_run(
    words, both, core, command, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("f")
    status, out, err = command(*words, "--", "program")
    assert (status, out, core.requests) == (2, "", [])
    assert err.startswith(f"perdure: {both} both name ")
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize(
    ("words", "both"),
    [
        (("run", "--json", "f", "--stdin", "f"), "--stdin and --json"),
        (("run", "--machine", "f.toml", "--json", "f.toml"), "--machine and --json"),
        (("run", "--trace", "f", "--stdin", "f"), "--stdin and --trace"),
        (("cut", "--html", "f", "--expect", "f"), "--expect and --html"),
        (("check", "--invariant", "f.c", "--continue", "f.c"), "--invariant and --continue"),
    ],
)
def test_a_result_in_a_file_that_is_read_is_refused_before_the_run(
    words, both, core, command, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for name in ("f", "f.c", "f.toml"):
        (tmp_path / name).write_text("read")
    status, out, err = command(*words, "--", "program")
    assert (status, out, core.requests) == (2, "", [])
    assert err.startswith(f"perdure: {both} both name f")
    assert {path.read_text() for path in tmp_path.iterdir()} == {"read"}


def test_what_is_not_replaced_takes_several_results(core, command, tmp_path):
    both = ("--json", "/dev/null", "--trace", "/dev/null")
    assert command("run", *both, "--", "program")[0] == 0
    file = tmp_path / "one.json"
    assert command("run", "--json", file, "--json", file, "--", "program")[0] == 0


def test_a_result_that_cannot_be_written_keeps_no_other_back(core, command, tmp_path):
    core.results["cut"].update(cuts=2, failed=1, results=[VERIFIED, BROKEN])
    kept = tmp_path / "result.json"
    words = ("cut", "--html", "/dev/full", "--json", kept, "--", "program")
    status, out, err = command(*words)
    assert (status, err) == (2, "perdure: --html cannot write /dev/full: No space left on device\n")
    assert json.loads(kept.read_text())["failed"] == 1
    assert BROKEN["token"] in out


@pytest.mark.parametrize("option", ["--out", "--persist-order", "--champsim"])
def test_a_trace_that_cannot_be_written_is_refused_by_its_name(option, core, command, tmp_path):
    wrong = tmp_path / "missing/file"
    status, _, err = command("trace", option, wrong, "--", "program")
    assert (status, core.requests) == (2, [])
    assert err == f"perdure: {option} cannot write {wrong}: No such file or directory\n"


@pytest.mark.parametrize("name", ["run", "cut", "compare"])
def test_a_result_that_its_folder_does_not_take_is_shown_and_written(name, command, tmp_path):
    folder, kept = tmp_path / "out", tmp_path / "kept.json"
    folder.mkdir()
    (folder / "result.json").symlink_to("/dev/full")
    status, out, err = command(name, "--out", folder, "--json", kept, "--", "program")
    refused = f"cannot write result.json into {folder}: No space left on device\n"
    assert status == 2
    assert err.endswith(f"perdure: {refused}")
    assert json.loads(kept.read_text())
    assert name == "run" or "picl" in out


def test_who_asks_the_machine_has_the_result_with_the_refusal(core, tmp_path):
    (tmp_path / "result.json").symlink_to("/dev/full")
    with pytest.raises(outputs.NotKeptError, match="No space left on device") as refused:
        perdure.cut(["program"], out=tmp_path)
    assert refused.value.result["cuts"] == core.results["cut"]["cuts"]

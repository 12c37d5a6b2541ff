"""Standard output that is full, closed or not read, and Ctrl-C while the command is loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BROKEN
from test_checking import REPORT

HERE = Path(__file__).resolve().parent
FULL = Path("/dev/full")
LITMUS = {
    "file": "a.toml",
    "name": "a test",
    "model": "px86",
    "contents": ["x=0"],
    "stated": None,
    "machine": None,
}
PRINTING = [
    ("--help",), ("--version",), ("man",), ("config",), ("config", "--json", "-"), ("list",),
    ("list", "designs", "--json", "-"), ("run", "--json", "-", "--", "program"),
    ("cut", "--", "program"), ("compare", "--", "program"), ("replay", "p2-AAAA"),
    ("mutants", "--design", "picl"), ("litmus", "a.toml"), ("check", "--", "program"),
    ("check", "--json", "-", "--", "program"), ("list", "papers"),
]  # fmt: skip


@pytest.fixture
def answers(core, monkeypatch):
    """Answers to `check` and `litmus`, which the recorded core has not."""
    from perdure import checking

    monkeypatch.setattr(checking, "check", lambda *_, **__: REPORT)
    monkeypatch.setattr(
        core, "litmus", lambda _: json.dumps({"tests": [LITMUS] * 2000}), raising=False
    )
    return core


@pytest.fixture
def unread(answers, command, monkeypatch):
    """The command, into a pipe whose reader has gone."""

    def call(*words):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            ended = command(*words)
            assert sys.stdout is stream
        return ended

    return call


@pytest.mark.parametrize("words", PRINTING)
def test_whoever_has_gone_is_told_nothing(unread, words):
    status, _, err = unread(*words)
    assert status == 141
    assert "standard output" not in err and "Traceback" not in err


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", PRINTING)
def test_a_full_disk_is_one_line_and_status_2(answers, command, monkeypatch, words, buffered):
    with FULL.open("w") as stream, monkeypatch.context() as patch:
        stream.reconfigure(write_through=not buffered)
        patch.setattr(sys, "stdout", stream)
        status, _, err = command(*words)
    assert status == 2
    assert err.endswith("perdure: standard output: No space left on device\n")
    assert err.count("standard output") == 1 and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("check",), ("--json", "--html", "--sarif", "--junit")),
        (("cut",), ("--json", "--html")),
        (("compare",), ("--json", "--out")),
        (("replay", "p2-AAAA"), ("--json", "--html")),
        (("mutants",), ("--json",)),
        (("litmus", "a.toml"), ("--json",)),
        (("config",), ("--json",)),
        (("list",), ("--json",)),
    ],
)
def test_files_are_written_where_nobody_reads(unread, core, tmp_path, words, options):
    for name in ("cut", "replay"):
        core.results[name].update(cuts=1, failed=1, results=[BROKEN])
    places = {option: tmp_path / option for option in options}
    given = [word for pair in places.items() for word in pair]
    program = ("--", "program") if words[0] in ("check", "cut", "compare") else ()
    assert unread(*words, *given, *program)[0] == 141
    assert [option for option, place in places.items() if not place.exists()] == []
    assert json.loads(places["--json"].read_text())
    if "--out" in places:
        kept = {path.name for path in places["--out"].iterdir()}
        assert {"result.json", "compare.png", "compare.html"} <= kept


def test_a_page_is_written_where_json_cannot_be(unread, tmp_path):
    page = tmp_path / "page.html"
    assert unread("check", "--json", "-", "--html", page, "--", "program")[0] == 141
    assert page.exists()


def test_planted_bugs_that_are_found_are_written_where_nobody_reads_on(unread, core, tmp_path):
    file = tmp_path / "found.json"
    assert unread("mutants", "--json", file)[0] == 141
    assert len(json.loads(file.read_text())["designs"]) == 1
    assert sum(name == "mutants" for name, _ in core.requests) == 1


@pytest.mark.parametrize("words", [("run", "--", "program"), ("run", "--json", "-", "--", "prog")])
def test_what_cannot_be_remarked_changes_no_status(core, command, monkeypatch, words):
    core.results["run"].update(exit_code=7, remarks=["something to say"])
    with FULL.open("w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        assert command(*words)[0] == 7


def started(*words, before="", closed=(), folder=None):
    """The command as a process, with the recorded core, whose guests exit with 7."""
    program = "\n".join((
        "import sys",
        f"sys.path[:0] = {[str(HERE), str(HERE.parents[1] / 'python')]}",
        "import conftest",
        "core = sys.modules['perdure._core']",
        "core.results['run']['exit_code'] = 7",
        before,
        "from perdure.__main__ import main",
        "main()",
    ))  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: [os.close(one) for one in closed],
    )


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("list", "designs"), 0),
        (("run", "--", "program"), 7),
        (("run", "--verbose", "--json", "-", "--", "program"), 7),
        (("list", "nonsense"), 2),
    ],
)
def test_closed_streams_change_no_status(words, status, closed):
    done = started(*words, closed=closed)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path):
    asks = (
        "import os\n"
        "def run(*_):\n"
        "    with open('file', 'w') as file:\n"
        "        assert file.fileno() > 2\n"
        "        os.write(1, b'of a guest')\n"
        "    return core._answer('run', {'design': 'picl'})\n"
        "core.run = run"
    )
    done = started("run", "--", "program", before=asks, closed=(1,), folder=tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("module", ["typer", "perdure.values", "perdure.commands.showing"])
def test_ctrl_c_while_modules_are_loaded_is_status_130(module):
    stops = (
        "class Stops:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stops())"
    )
    done = started("list", "designs", before=stops)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

"""Results as Python has them: words of programs, output, lines, cells, frames."""

import subprocess
import sys
import types

import polars
import pytest
from conftest import BROKEN, CUT, RUN, VERIFIED

import perdure
from perdure import capture, notebook, requests


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./a", ["./a"]),
        ("./a 100", ["./a", "100"]),
        ("sqlite3 :memory: 'select 6 * 7'", ["sqlite3", ":memory:", "select 6 * 7"]),
        (["./a b", "c"], ["./a b", "c"]),
        ("", []),
        ((), []),
    ],
)
def test_a_program_is_words_or_one_text(core, command, words):
    assert requests.words(command) == words
    perdure.run(command, design="frm")
    assert core.requests[-1][1]["program"] == words
    assert core.requests[-1][1]["design"] == "frm"


def test_a_file_whose_name_has_spaces_is_one_word(core, tmp_path):
    path = tmp_path / "a program"
    path.write_text("")
    assert requests.words(str(path)) == requests.words(path) == [str(path)]


def test_a_quote_that_is_not_closed_is_refused(core):
    with pytest.raises(perdure.PerdureError, match=r"close the quote"):
        perdure.run("./a 'b c")
    assert core.requests == []


def test_several_programs_and_what_comes_after_a_cut_are_texts_too(core):
    perdure.cut(programs=["./a 1", ["./b", "2"]], restart=True, then="./c check", cuts=3)
    asked = core.requests[-1][1]
    assert asked["programs"] == [["./a", "1"], ["./b", "2"]]
    assert (asked["then"], asked["cuts"]) == (["./c", "check"], 3)


def test_what_programs_write_is_in_the_result_and_nowhere_else(core, capfd):
    core.said = [(1, b"one\n\xc3"), (2, b"oh\n"), (1, b"\xa9 two\n")]
    result = perdure.run("./a")
    assert (result.stdout, result.stderr) == ("one\né two\n", "oh\n")
    assert capfd.readouterr() == ("", "")


def test_in_a_notebook_it_goes_to_the_cell_as_well(core, capsys, monkeypatch):
    monkeypatch.setattr(notebook, "active", lambda: True)
    core.said = [(1, b"\xc3"), (2, b"oh\n"), (1, b"\xa9\n")]
    assert perdure.run("./a").stdout == "é\n"
    assert capsys.readouterr() == ("é\n", "oh\n")
    assert core.requests[-1][1]["passthrough"] is False
    perdure.run("./a", passthrough=False)
    assert capsys.readouterr() == ("", "")


def test_of_endless_output_no_more_is_kept_than_fits(monkeypatch):
    monkeypatch.setattr(capture, "KEPT_BYTES", 5)
    heard = capture.Heard()
    for _ in range(3):
        heard(1, b"abc")
    assert heard.texts == {"stdout": "abcab", "stderr": ""}


def test_a_line_for_each_result(core):
    run, cut, mutants = perdure.run("./a"), perdure.cut("./a"), perdure.mutants()
    for result in (run, cut, cut.results[0], mutants, perdure.Machine().configuration()):
        line = repr(result)
        assert line.startswith(type(result).__name__) and len(line) < 250 and "\n" not in line
    assert f"{run.sim.cycles:,} cycles" in repr(run)
    assert f"verified: {cut.verified}" in repr(cut)


def test_a_cell_escapes_what_programs_and_designs_say(core):
    core.results["cut"].update(
        failed=1, results=[VERIFIED, {**BROKEN, "message": "<script>alert(1)</script>"}]
    )
    html = perdure.cut("./a")._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and BROKEN["token"] in html
    assert "l1d.misses" in perdure.run("./a")._repr_html_()


def test_a_run_as_a_frame(core):
    frame = perdure.run("./a").to_frame()
    assert frame.columns[3:] == ["statistic", "value", "unit", "meaning"]
    rows = {row["statistic"]: row for row in frame.iter_rows(named=True)}
    assert rows["sim.cycles"]["value"] == RUN["sim"]["cycles"]
    assert rows["sim.cycles"]["unit"] == "cycles"
    for name, one in RUN["statistics"].items():
        assert (rows[name]["value"], rows[name]["unit"]) == (one["value"], one["unit"])


def test_cuts_as_a_frame_of_one_type_whatever_came_back(core):
    core.results["cut"]["results"] = [VERIFIED, {**BROKEN, "recovered_epoch": None}]
    frame = perdure.cut("./a").to_frame()
    assert frame["cycle"].to_list() == [VERIFIED["cycle"], BROKEN["cycle"]]
    assert frame.schema["recovered_epoch"] == frame.schema["saved_bytes"] == polars.Int64
    assert "lives" not in frame.columns and "raw" not in frame.columns


def test_frames_of_pandas_are_the_same(core):
    cut = perdure.cut("./a")
    assert cut.to_pandas().to_dict("list")["cycle"] == cut.to_frame()["cycle"].to_list()
    assert list(cut.to_pandas().columns) == cut.to_frame().columns


def test_without_pandas_its_frames_are_refused(core, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(perdure.PerdureError, match="pip install pandas"):
        perdure.run("./a").to_pandas()


def test_nothing_heavy_is_imported_before_it_is_asked_for():
    code = (
        "import sys, types; core = types.ModuleType('perdure._core');"
        "core.PerdureError, core.__version__, core.TIMING_VERSION = Exception, '', 0;"
        "sys.modules['perdure._core'] = core; import perdure;"
        "print(sorted({'IPython', 'pandas', 'polars', 'altair'} & set(sys.modules)))"
    )
    path = str(perdure.__path__[0]).removesuffix("/perdure")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_every_part_of_a_result_is_typed(core):
    core.results["run"].update(
        modules=[{"name": "m", "kind": "nvm", "persistence": "media", "statistics": {}}],
        pools={"survived": [{"name": "p", "size": 4096}], "not_synchronised": ["q"]},
        restored_epoch=7,
        output_from=[{"program": 0, "descriptor": 1, "offset": 5}],
    )
    run, cut = perdure.run("./a"), perdure.cut("./a")
    assert run.modules[0].persistence == "media" and run.restored_epoch == 7
    assert run.pools is not None and run.pools.survived[0].size == 4096
    assert run.lost_pools == ["pool q: only what was synchronised is kept"]
    assert (run.sim.harts, run.output_from[0].offset) == (RUN["sim"]["harts"], 5)
    assert cut.coverage["paths"] == CUT["coverage"]["paths"]
    assert cut.results[0].lost_cycles == VERIFIED["lost_cycles"]
    assert cut.run_cycles == CUT["run_cycles"] and cut.deterministic
    assert perdure.Machine().configuration().values["nvm.banks"]["unit"] == ""
    assert perdure.catalogue().designs[1].promise == "epoch-prefix"


class Display(types.ModuleType):
    """Stands in for IPython's module: keeps what a cell shows."""

    def __init__(self):
        super().__init__("IPython.display")
        self.shown = []

    def display(self, content, **_how):
        self.shown.append(content)
        return self

    def update(self, content, **_how):
        self.shown.append(content)


@pytest.fixture
def cell(monkeypatch):
    display = Display()
    monkeypatch.setattr(notebook, "active", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return display.shown


def test_progress_in_a_cell_is_shown_late_and_erased(cell, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(notebook.time, "monotonic", lambda: now[0])
    with notebook.following("run", None) as show:
        show(1, 10, "cuts", "")
        assert cell == []
        now[0] = 3.0
        show(4, 10, "cuts", "<x>")
        show(5, 10, "cuts", "")
        assert [one["text/plain"] for one in cell] == ["run: 4 of 10 cuts, 3 s · <x>"]
        assert "<x>" not in cell[0]["text/html"] and 'max="10"' in cell[0]["text/html"]
    assert cell[-1] == {"text/plain": "", "text/html": ""}


def test_who_has_progress_of_its_own_gets_no_other(cell):
    given = print
    with notebook.following("run", given) as show:
        assert show is given
    assert cell == []


def test_outside_of_a_notebook_nothing_follows():
    assert not notebook.active()
    with notebook.following("run", None) as show:
        assert show is None

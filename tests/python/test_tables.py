"""Tables on terminals of every width: they change their shape and break nothing but sentences."""

import io
import random

import pytest
from conftest import RUN
from rich.console import Console


def printed(renderable, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()


def sheet(rows, numbers, prose=()):
    from perdure import tables

    names = [f"count of things {index} (bytes)" for index in range(numbers)]
    made = tables.table("a title", "name", *prose, *names, left=1 + len(prose), prose=prose)
    draw = random.Random(1)
    for row in range(rows):
        cells = (f"{draw.randrange(1, 10**9):,}" for _ in range(numbers))
        said = [f"what stands for row {row}, in a sentence of many words"] * len(prose)
        made.add_row(f"design-number-{row}", *said, *cells)
    return made


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 132, 200, 10_000])
@pytest.mark.parametrize("shape", [(1, 1), (2, 12), (12, 2), (14, 10)])
@pytest.mark.parametrize("prose", [(), ("what it is",)])
def test_no_name_no_number_and_no_unit_is_broken(width, shape, prose):
    made = sheet(*shape, prose)
    text = printed(made, width)
    for row in made.rows:
        for name, cell in zip(made.columns, row, strict=True):
            if name not in made.prose:
                assert cell.plain in text
    for word in " ".join(made.columns[1 + len(prose) :]).split():
        assert word in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_a_row_for_each_thing_where_there_is_room_and_a_column_where_there_is_none():
    made = sheet(3, 6)
    wide, narrow = printed(made, 10_000), printed(made, 90)
    assert len([line for line in wide.splitlines() if "design-number-" in line]) == 3
    assert len([line for line in narrow.splitlines() if "design-number-" in line]) == 1


def test_rows_of_a_section_stand_under_its_name_where_there_is_no_room():
    from perdure import tables

    made = tables.table("", "design", "what", "unit", "median", "worst", left=3, keys=3)
    for design in ("ideal", "picl"):
        for what in ("work lost", "recovery"):
            made.add_row(design, what, "instructions", "1,234,567,890", "9,876,543,210")
        made.add_section()
    wide, narrow = printed(made, 80), printed(made, 50)
    assert wide.count("ideal") == 1
    assert narrow.splitlines()[0] == "ideal"
    assert narrow.count("1,234,567,890") == 4
    assert printed(made, 10_000).count("ideal") == 2  # for those who search in it


def test_costs_have_a_row_for_each_design_and_at_80_columns_one_for_each_quantity():
    from perdure import api, render

    results = [api.RunResult.from_json({**RUN, "design": name}) for name in ("ideal", "picl")]
    wide, narrow = (printed(render.cost(results), width) for width in (200, 80))
    assert len([line for line in wide.splitlines() if line.startswith("│ picl ")]) == 1
    assert [line for line in narrow.splitlines() if line.startswith("│   log ")]
    assert "picl / ideal" in narrow


def test_what_belongs_to_other_designs_is_named_and_not_listed():
    from perdure import api, render

    statistics = {
        name: {"value": value, "unit": "lines", "meaning": "that"}
        for name, value in (("l1d.misses", 3), ("picl.scans", 0), ("spms.lines", 0), ("frm.a", 2))
    }
    text = printed(
        render.statistics(api.RunResult.from_json({**RUN, "statistics": statistics})), 80
    )
    assert "spms.lines" not in text
    assert text.rstrip().endswith("(--json has them): spms")
    for name in ("l1d.misses", "picl.scans", "frm.a"):
        assert name in text


@pytest.mark.parametrize(("columns", "width"), [(None, 10_000), ("60", 60)])
def test_in_a_pipe_tables_are_as_wide_as_they_need_to_be(monkeypatch, columns, width):
    from perdure import terminal

    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert terminal.output().width == width
    assert terminal.errors().width == width


def test_why_a_protected_machine_may_be_faster_is_said_where_it_is():
    from perdure import api, render

    def result(design, cycles, evicted, waited):
        entries = {"nvm.operations.write_back": evicted, "nvm.read_wait": waited}
        statistics = {
            name: {"value": value, "unit": "", "meaning": ""} for name, value in entries.items()
        }
        sim = {**RUN["sim"], "cycles": cycles}
        return api.RunResult.from_json(
            {**RUN, "design": design, "sim": sim, "statistics": statistics}
        )

    ideal = result("ideal", 1000, 340, 900)
    said = render.why_faster(ideal, result("picl", 990, 227, 700))
    assert "340 lines" in said
    assert "ideal.eager_write_back=true" in said
    assert render.why_faster(ideal, result("picl", 1001, 227, 700)) is None
    assert render.why_faster(ideal, result("picl", 990, 340, 700)) is None


def test_a_path_that_is_longer_than_a_line_stays_whole(monkeypatch, capsys):
    from perdure import tables, terminal

    monkeypatch.setenv("COLUMNS", "80")
    path = "/home/somebody/" + "folder/" * 12 + "program.c"
    made = tables.table("", "program", "what it is", "source", left=3, prose=("what it is",))
    made.add_row("btree", "a tree, and a sentence about it that takes some room", path)
    terminal.output().print(made)
    assert f"    source: {path}\n" in capsys.readouterr().out

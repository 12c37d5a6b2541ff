"""What people get to read: units, relative numbers, failures with tokens."""

import copy
import io

import pytest
from conftest import BROKEN, CUT, RUN, VERIFIED
from rich.console import Console


def printed(renderable):
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (72_009_216, "72.0 MB"), (2e9, "2.0 GB")],
)
def test_sizes(count, text):
    from perdure import tables

    assert tables.size(count) == text


def test_numbers():
    from perdure import render, tables

    assert tables.number(1234567) == "1,234,567"
    assert tables.number(0.123456) == "0.1235"
    assert tables.number(2.0) == "2"
    assert render.ratio(5, 4) == "1.250 ×"
    assert render.ratio(5, 0) == "–"


def test_costs_are_relative_to_the_first_design():
    from perdure import api, render, tables

    ideal = copy.deepcopy(RUN)
    ideal["design"] = "ideal"
    ideal["sim"]["cycles"] = RUN["sim"]["cycles"] * 8 // 10
    text = printed(render.compare([api.RunResult.from_json(r) for r in (ideal, RUN)]))
    assert "relative to ideal" in text
    assert "1.250 ×" in text
    assert tables.number(RUN["nvm"]["written_bytes"]["total"]) in text


def test_modules_stand_side_by_side():
    from perdure import api, render

    writes = {"value": 1234, "unit": "operations", "meaning": "row writes"}
    made = {"kind": "persistent", "persistence": "media", "statistics": {"writes": writes}}
    several = {**RUN, "modules": [{"name": "nvm", **made}, {"name": "near", **made}]}
    text = printed(render.statistics(api.RunResult.from_json(several)))
    assert "near" in text
    assert "writes (operations)" in text
    assert text.split("memory modules")[1].count("1,234") == 2
    assert "memory modules" not in printed(render.statistics(api.RunResult.from_json(RUN)))


def test_cuts_are_counted_by_place():
    from perdure import api, reports

    placed = dict(VERIFIED, location="main+0x10")
    coverage = {**CUT["coverage"], "locations": {"main": 1}}
    report = dict(CUT, cuts=2, verified=1, failed=1, results=[placed, BROKEN], coverage=coverage)
    text = printed(reports.cut(api.CutReport.from_json(report)))
    assert "locations · main" in text
    assert "design_states · logging, undo buffer filling" in text
    assert "memory-differs" in text


def test_what_was_lost_broke_no_promise():
    from perdure import api, reports

    lost = dict(BROKEN, verdict="lost")
    report = dict(CUT, cuts=2, verified=1, lost=1, failed=0, results=[VERIFIED, lost])
    read = api.CutReport.from_json(report)
    assert (read.failures, [one.token for one in read.losses]) == ([], [BROKEN["token"]])
    text = printed(reports.cut(read))
    assert "picl promises nothing: 1 of 2 cuts lost something" in text
    assert f"cycle {BROKEN['cycle']:,}: lost" in text
    assert "broke" not in text


def test_markup_in_results_is_text():
    from perdure import api, reports

    result = dict(BROKEN, location="operator[/]", verdict="[bold]lost")
    report = dict(CUT, cuts=1, verified=0, failed=1, results=[result])
    text = printed(reports.cut(api.CutReport.from_json(report)))
    assert "operator[/]" in text
    assert "[bold]lost" in text


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("/*\n * One. Two.\n */\nint x;", "One."),
        ("// A thing that\n// goes on.\nint x;", "A thing that goes on."),
        ("/* No full stop */", "No full stop"),
        ("int x; /* later */", ""),
    ],
)
def test_a_workload_is_described_by_its_first_comment(text, summary):
    from perdure import workloads

    assert workloads.summary(text) == summary


def test_bench_fork_table_has_a_row_for_each_fork():
    from perdure import bench

    fork = bench.Fork(
        "hash table", "picl", 30_000_000, 160 << 20, 3e-4, 2e-5, 2_000_000, 0.05, 0.01
    )
    text = printed(bench.fork_table([fork]))
    for cell in ("hash table", "picl", "168", "300", "20", "50.0", "10.0"):
        assert cell in text


def test_bench_speed_table_marks_floors_and_aims():
    from perdure import bench

    case = bench.CASES[0]
    row = bench.Row(
        case,
        bench.Speed("ideal", 300_000_000, 1.0, 10_000, []),
        bench.Speed("picl", 300_000_000, 1.2, 10_000, []),
        bench.Speed("picl", 300_000_000, 15.0, 10_000, []),
        None,
        [],
    )
    report = bench.SpeedReport("picl", "gcc", "compiled", 1, [row], False, {}, {})
    text = printed(bench.tables(report))
    assert "150 ✓" in text
    assert "400 ✗" in text
    assert "1.200 × ✓" in text
    assert "10 ✓" in text
    assert "30 ✗" in text
    assert " qemu " not in text
    assert "qemu-riscv64 is not installed" in text
    data = report.as_json()["cases"][0]
    assert data["picl"]["mips"] == pytest.approx(250)
    assert data["qemu"] is None
    assert (data["floor_reached"], data["aim_reached"]) == (True, False)
    assert data["out-of-order"]["mips"] == pytest.approx(20)
    assert (data["window_floor_reached"], data["window_aim_reached"]) == (True, False)

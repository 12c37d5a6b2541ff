"""Reports of `perdure check`: as text, SARIF and JUnit, and baselines."""

import json
from xml.etree import ElementTree

import pytest

from perdure import PerdureError, check_reports, checking

PLACE = {"pc": "0x10", "function": "fill", "file": "/src/list.c", "line": 7}
UNKNOWN = {"pc": "0x20", "function": None, "file": None, "line": None}
STORE = {
    "place": PLACE,
    "stack": [PLACE, UNKNOWN],
    "by_kernel": False,
    "pool": "x",
    "offset": 64,
    "bytes": 8,
    "stores_lost": 1,
    "behind": {**PLACE, "line": 9},
    "durable_at": None,
    "words": [{"offset": 0, "found": "00" * 8, "newest": "01" + "00" * 7}],
}
BUG = {
    "id": "a",
    "defect": "missing-flush",
    "symptom": "recovery ends with status 3",
    "symptoms": ["recovery ends with status 3"],
    "detail": ["<line> & more"],
    "lost": [STORE],
    "kept": [],
    "point": {
        "number": 1,
        "reason": "fence",
        "operation": 4,
        "instructions": 1234,
        "operations": 3,
        "place": UNKNOWN,
        "stack": [UNKNOWN],
        "in_recovery": None,
    },
    "points": 2,
    "state": "0/1:40=1",
}
REPORT = {
    "program": ["./list", "/pmem/x"],
    "model": "px86",
    "machine": "x86-pm",
    "seed": 1,
    "uncut": {},
    "points": {
        "found": 9,
        "call_stacks": 3,
        "explored": 8,
        "exhaustively": 7,
        "in_recoveries": 0,
    },
    "states": {"run": 30, "wrong": 2, "instructions": 1, "coverage": 0.5},
    "bugs": [BUG],
    "unexplained": 0,
    "waste": [{"what": "flushed-twice", "count": 3, "place": UNKNOWN, "stack": None}],
    "notices": ["no symbols"],
    "limited": True,
    "interrupted": False,
    "on_machine": {"machine": "x86-pm", "cuts": 10, "failed": 4, "tokens": ["p1-a"]},
    "host": {"seconds": 1.0},
}


def test_a_bug_is_told_with_its_places():
    text = "\n".join(line for line, _ in check_reports.lines(REPORT, {"a"}))
    for part in (
        "8 of 9 failure points",
        "coverage there 50.0%",
        "bug 1: missing flush: fill (list.c:7)",
        "not durable: the store in fill (list.c:7), x+0x40",
        "a flush belongs behind fill (list.c:9)",
        "before the fence in 0x20, during operation 4",
        "--state '0/1:40=1'",
        "flushed twice, 3 times: 0x20",
        "note: no symbols",
        "recovery fails after 4 of 10 cuts",
        "perdure replay p1-a",
    ):
        assert part in text
    known = "\n".join(line for line, _ in check_reports.lines(REPORT, set()))
    assert "(in the baseline)" in known


def test_nothing_found_is_said_as_far_as_was_looked():
    lines = [line for line, _ in check_reports.lines({**REPORT, "bugs": []}, set())]
    assert lines[-1].endswith("no bug found, as far as was looked")


def test_sarif_has_places_and_fingerprints():
    (run,) = json.loads(check_reports.sarif(REPORT, {"a"}))["runs"]
    (result,) = run["results"]
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    region = result["locations"][0]["physicalLocation"]
    assert region["artifactLocation"]["uri"] == "/src/list.c"
    assert region["region"]["startLine"] == 7
    assert result["baselineState"] == "new"
    assert result["relatedLocations"] == []


@pytest.mark.parametrize(("new", "inside"), [({"a"}, "failure"), (set(), "skipped")])
def test_junit_has_a_case_for_each_bug(new, inside):
    suite = ElementTree.fromstring(check_reports.junit(REPORT, new))
    (case,) = suite
    assert case[0].tag == inside
    assert suite.get("failures") == str(len(new))
    (alone,) = ElementTree.fromstring(check_reports.junit({**REPORT, "bugs": []}, set()))
    assert alone.get("name") == "crash consistency"


def test_a_baseline_is_read_as_it_is_written(tmp_path):
    file = tmp_path / "known.json"
    assert checking.known_in(None) == checking.known_in(file) == set()
    file.write_text(checking.baseline_of(REPORT["bugs"]))
    assert checking.known_in(file) == {"a"}
    file.write_text('{"bugs": [1]}')
    with pytest.raises(PerdureError, match="no baseline"):
        checking.known_in(file)

"""Reports of `perdure check`: as text, SARIF and JUnit, and baselines; what is watched."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from perdure import (
    PerdureError,
    api,
    check_exchange,
    check_page,
    check_reports,
    check_waste,
    check_watch,
    check_words,
    checking,
)
from perdure.commands import check_reporting

PLACE = {"pc": "0x10", "function": "fill", "file": "/src/list.c", "line": 7}
UNKNOWN = {"pc": "0x20", "function": None, "file": None, "line": None}
STORE = {
    "place": PLACE,
    "stack": [PLACE, UNKNOWN],
    "by_kernel": False,
    "instruction": 100,
    "pool": "x",
    "offset": 64,
    "bytes": 8,
    "stores_lost": 1,
    "behind": {**PLACE, "line": 9},
    "durable_at": None,
    "words": [{"offset": 0, "part": "node.key", "found": "00" * 8, "newest": "01" + "00" * 7}],
}


def moment(kind, instruction, stores=(), place=None, **others):
    """A moment of a bug, without what most do not have."""
    nothing: dict[str, object] = dict.fromkeys(("caller", "by", "waits", "times", "pool", "offset"))
    known = {"kind": kind, "instruction": instruction, "stores": list(stores), "place": place}
    return {**nothing, "thread": 1, **known, **others}


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
        "instruction": 300,
        "reason": "fence",
        "operation": 4,
        "instructions": 1234,
        "operations": 3,
        "place": UNKNOWN,
        "stack": [UNKNOWN],
        "in_recovery": None,
    },
    "timeline": [
        moment("lost", 100, [0], PLACE),
        moment("missing-flush", 104, [0], {**PLACE, "line": 9}),
        moment("fence", 120, [], UNKNOWN, by="sfence", waits=True),
        moment("power", 300, [], UNKNOWN),
    ],
    "points": 2,
    "state": "0/1:40=1",
    "token": "c1-a",
    "cut": None,
    "on_machine": {"cuts": 10, "seen": 3},
}
REPORT = {
    "program": ["./list", "/pmem/x"],
    "model": "px86",
    "machine": "x86-pm",
    "seed": 1,
    "uncut": {
        "costs": {
            "domain": "adr",
            "cycles": 2000,
            "flushes": 30,
            "flush_cycles": 400,
            "fences": 3,
            "fence_cycles": 100,
        }
    },
    "points": {
        "found": 9,
        "call_stacks": 3,
        "explored": 8,
        "exhaustively": 7,
        "in_recoveries": 0,
        "by_orders": 0,
        "not_compared": 0,
    },
    "states": {"run": 30, "wrong": 2, "instructions": 1, "coverage": 0.5},
    "bugs": [BUG],
    "unexplained": 0,
    "waste": [{"what": "flushed-twice", "count": 3, "cycles": 60, "place": UNKNOWN, "stack": None}],
    "machines": [],
    "notices": ["no symbols"],
    "limited": True,
    "interrupted": False,
    "on_machine": {"machine": "x86-pm", "cuts": 10, "failed": 4, "tokens": ["p1-a"]},
    "host": {"seconds": 1.0},
}


def at(function, line, file="/src/list.c"):
    """A place."""
    return {"pc": f"{line:#x}", "function": function, "file": file, "line": line}


def with_stack(stack, instruction):
    """A store that was made there, then."""
    return {**STORE, "place": stack[0], "stack": stack, "instruction": instruction}


FILL = with_stack([at("fill", 7), at("push", 20), at("main", 50)], 100)
LEAD = with_stack([at("lead_to", 3), at("push", 22), at("main", 50)], 200)


def test_a_bug_is_told_with_its_places():
    text = "\n".join(line for line, _ in check_reports.lines(REPORT, {"a"}))
    for part in (
        "8 of 9 failure points",
        "coverage there 50.0%",
        "bug 1: missing flush: fill (list.c:7)",
        "not durable: the store in fill (list.c:7), to x+0x40",
        "x+0x40 node.key: 0000000000000000, newest 0100000000000000",
        "a flush belongs behind fill (list.c:9)",
        "before the fence in 0x20, during operation 4",
        "seen on this machine, in 3 of 10 cuts near there",
        "again: perdure replay c1-a, or perdure debug c1-a",
        "flushed twice, 3 times, 60 cycles: 0x20",
        "30 flushes 400 and 3 fences 100 (25.0%)",
        "note: no symbols",
        "recovery fails after 4 of 10 cuts",
        "perdure replay p1-a",
    ):
        assert part in text
    known = "\n".join(line for line, _ in check_reports.lines(REPORT, set()))
    assert "(in the baseline)" in known


def test_what_flushes_cost_stands_apart_where_nothing_was_for_nothing():
    report = {**REPORT, "waste": [], "on_machine": None}
    lines = [line for line, _ in check_reports.lines(report, {"a"})]
    begins = lines.index("flushes and fences:")
    assert lines[begins - 1] == ""
    assert lines[begins + 1].startswith("  on x86-pm: 2,000 cycles")
    free = {**report, "uncut": {"costs": None}}
    assert "flushes and fences:" not in [line for line, _ in check_reports.lines(free, {"a"})]


def test_a_state_that_goes_wrong_is_status_1(command, monkeypatch):
    for wrong in (None, "recovery ends with status 3"):
        once = {"lives": [], "wrong": wrong, "detail": []}
        monkeypatch.setattr(checking, "again", lambda *_, once=once: once)
        status, out, _ = command("check", "--state", "0/1:40=1", "--", "program")
        assert status == int(wrong is not None)
        assert (wrong or "nothing is wrong") in out


def test_text_is_as_wide_as_a_terminal_and_moves_no_cursor():
    many = [f"a_function_with_a_long_name_{number}" for number in range(9)]
    stack = [at(name, number) for number, name in enumerate(many, 1)]
    bug = {**BUG, "lost": [with_stack(stack, 1)] * 3, "detail": ["red \x1b[31m\0"]}
    lines = [line for line, _ in check_reports.lines({**REPORT, "bugs": [bug]}, {"a"})]
    assert max(map(len, lines)) <= 80
    assert not any("\n" in line for line in lines)
    assert any("red \\x1b[31m\\x00" in line for line in lines)


@pytest.mark.parametrize(
    ("defect", "lost", "kept", "said"),
    [
        ("missing-fence", FILL, LEAD, "a fence belongs before push (list.c:22)"),
        ("missing-fence", LEAD, FILL, None),
        ("wrong-order", LEAD, FILL, "its flush and a fence belong before push (list.c:20)"),
        ("torn", FILL, LEAD, None),
    ],
)
def test_what_is_missing_is_said_where_both_stores_come_from(defect, lost, kept, said):
    bug = {**BUG, "defect": defect, "lost": [lost], "kept": [kept]}
    text = " ".join(part for _, part in check_reports.told(bug))
    if said is None:
        assert "belong" not in text
    else:
        assert said in text
    marks = list(check_words.marks(bug))
    assert [mark.kind for mark in marks[:2]] == ["lost", "kept"]
    assert marks[-1].kind == "power"


def test_words_of_a_torn_line_are_told_once_as_recovery_found_them():
    bug = {**BUG, "defect": "torn", "lost": [FILL], "kept": [{**FILL, "offset": 72}]}
    told = [text for _, text in check_reports.told(bug)]
    assert [text for text in told if "node.key" in text] == [
        "x+0x40 node.key: 0000000000000000, newest 0100000000000000"
    ]
    assert [line.columns[1] for line in check_page.memory(bug)] == ["newest: what was volatile"]
    apart = {**bug, "kept": [{**FILL, "offset": 136}]}
    assert "x+0x80 node.key: 0100000000000000, before 0000000000000000" in [
        text for _, text in check_reports.told(apart)
    ]
    assert [line.columns[1] for line in check_page.memory(apart)][1:] == ["found"]


def test_what_is_done_for_nothing_at_one_place_is_one_line():
    row = {"what": "flushed-twice", "count": 3, "cycles": 20, "place": PLACE, "stack": None}
    unknown = {**row, "count": 1, "cycles": None, "place": UNKNOWN}
    rows = [unknown, row, {**row, "place": {**PLACE, "pc": "0x12"}}]
    lines = list(check_waste.rows({**REPORT, "waste": rows}))
    assert lines == [
        "flushed twice, 6 times, 40 cycles: fill (list.c:7)",
        "flushed twice, once: 0x20",
    ]


def test_where_call_stacks_do_not_meet_the_store_itself_is_named():
    stranger = with_stack([at("other", 9), at("thread", 80)], 200)
    bug = {**BUG, "defect": "missing-fence", "lost": [FILL], "kept": [stranger]}
    (mark,) = check_words.belongs(bug)
    assert check_words.where(mark.place) == "other (list.c:9)"


def test_names_are_as_their_authors_wrote_them():
    assert check_words.where(at("_ZN4list4fillEv", 3)) == "list::fill() (list.c:3)"


def test_a_bug_says_whether_the_machine_shows_it():
    def told(**more):
        return "\n".join(text for _, text in check_reports.told({**BUG, **more}))

    assert "on this machine" not in told(on_machine=None)
    said = told(on_machine={"cuts": 10, "seen": 0})
    assert "allowed by the model, not seen on this machine in 10 cuts near there" in said
    cut = {"cycle": 99, "set": ["nvm.banks=1"], "schedule": "random"}
    point = {**BUG["point"], "reason": "cut at cycle 99"}
    said = told(cut=cut, on_machine=None, points=1, point=point)
    assert "seen on this machine, in 1 cut (first random, --set nvm.banks=1)" in said
    assert "(at 1 cut)" in said
    nowhere = {**BUG, "defect": "not-recoverable", "lost": [], "cut": cut, "point": point}
    assert check_reports.title(nowhere) == ("not recoverable: power fails behind the store in 0x20")
    assert "power is cut at cycle 99, during operation 4, behind the store in 0x20" in said


def test_machines_that_were_cut_are_told():
    one = {"number": 3, "set": ["nvm.banks=1"], "schedule": "random", "cuts": 40, "failed": 2}
    without, within = {"cuts": 0, "failed": 0}, {"cuts": 10, "failed": 1}
    first = {**one, "set": [], "in_recoveries": without}
    rounds = [first, {**one, "in_recoveries": within}]
    report = {**REPORT, "model": "machine", "machines": rounds}
    text = "\n".join(line for line, _ in check_reports.lines(report, {"a"}))
    assert "8 of 9 cuts, of 2 runs; recovery is wrong after 2" in text
    assert "2 of 40 random cuts: the machine as it is" in text
    assert "2 of 40 random cuts, 1 of 10 in recoveries: nvm.banks=1" in text
    assert "failure points, from" not in text


def test_nothing_found_is_said_as_far_as_was_looked():
    lines = [line for line, _ in check_reports.lines({**REPORT, "bugs": []}, set())]
    assert lines[-1] == "no bug found, as far as was looked"
    whole = {**REPORT, "bugs": [], "limited": False}
    assert [line for line, _ in check_reports.lines(whole, set())][-1] == "no bug found"


def test_a_report_that_cannot_be_written_keeps_no_other_back(command, monkeypatch, tmp_path):
    monkeypatch.setattr(checking, "check", lambda *_, **__: REPORT)
    kept = tmp_path / "report.json"
    words = ("--html", "/dev/full", "--sarif", "/dev/full", "--json", kept, "--", "program")
    status, out, err = command("check", *words)
    full = "cannot write /dev/full: No space left on device\n"
    assert (status, err) == (2, f"perdure: --html {full}--sarif {full}")
    assert json.loads(kept.read_text())["bugs"] and "bug 1: " in out


def test_who_looked_at_nothing_calls_nothing_correct(command, monkeypatch, tmp_path):
    points = {**REPORT["points"], "explored": 0, "exhaustively": 0}
    report = {**REPORT, "bugs": [], "points": points, "waste": [], "on_machine": None}
    report |= {"states": {**REPORT["states"], "run": 0, "wrong": 0, "coverage": 1.0}}
    monkeypatch.setattr(checking, "check", lambda *_, **__: report)
    file, page = tmp_path / "report.xml", tmp_path / "report.html"
    status, out, _ = command("check", "--junit", file, "--html", page, "--", "program")
    assert status == 2
    assert "nothing was looked at, so nothing is known\n" in out
    assert "coverage" not in out and "no bug found" not in out
    assert "Nothing was looked at, so nothing is known." in page.read_text()
    suite = ElementTree.fromstring(file.read_text())
    assert (suite.get("errors"), suite[0][0].tag) == ("1", "error")


def test_what_was_interrupted_says_so():
    report = {**REPORT, "limited": False, "interrupted": True}
    lines = [line for line, _ in check_reports.lines(report, {"a"})]
    assert lines[-1] == "interrupted: there may be more"
    lines = [line for line, _ in check_reports.lines({**report, "bugs": []}, set())]
    assert lines[-1] == "interrupted: no bug found, as far as was looked"


def test_sarif_has_places_and_fingerprints():
    (run,) = json.loads(check_exchange.sarif(REPORT, {"a"}))["runs"]
    (result,) = run["results"]
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    region = result["locations"][0]["physicalLocation"]
    assert region["artifactLocation"]["uri"] == "file:///src/list.c"
    assert region["region"]["startLine"] == 7
    assert result["baselineState"] == "new"
    (flush,) = result["relatedLocations"]
    assert flush["message"]["text"] == "fill (list.c:9): a flush belongs behind this line"
    assert flush["physicalLocation"]["region"]["startLine"] == 9


def test_sarif_names_sources_from_the_working_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for file in (str(tmp_path / "src/list.c"), "./src/list.c", "./src/../src/list.c"):
        place = {**PLACE, "file": file}
        bug = {**BUG, "lost": [{**STORE, "place": place, "stack": [place], "behind": None}]}
        (run,) = json.loads(check_exchange.sarif({**REPORT, "bugs": [bug]}, set()))["runs"]
        (location,) = run["results"][0]["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "src/list.c"


def test_a_programs_own_words_break_no_document():
    bug = {**BUG, "detail": ["\x1b[31m \0"]}
    suite = ElementTree.fromstring(check_exchange.junit({**REPORT, "bugs": [bug]}, {"a"}))
    assert "\\x1b[31m \\x00" in suite[0][0].text


@pytest.mark.parametrize(("new", "inside"), [({"a"}, "failure"), (set(), "skipped")])
def test_junit_has_a_case_for_each_bug(new, inside):
    suite = ElementTree.fromstring(check_exchange.junit(REPORT, new))
    (case,) = suite
    assert case[0].tag == inside
    assert suite.get("failures") == str(len(new))
    (alone,) = ElementTree.fromstring(check_exchange.junit({**REPORT, "bugs": []}, set()))
    assert alone.get("name") == "crash consistency"


def test_a_baseline_is_read_as_it_is_written(tmp_path):
    file = tmp_path / "known.json"
    assert checking.known_in(None) == checking.known_in(file) == set()
    file.write_text(check_exchange.baseline(REPORT["bugs"]))
    assert checking.known_in(file) == {"a"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "is not JSON: its lists and objects are nested too deeply"),
        (b'{"bugs": ', "is not JSON: Expecting value"),
        (b'"\xff"', "is not JSON: it is not UTF-8 text"),
        (b"true", "is no baseline that perdure check has written: it has no list of bugs"),
        (b'{"bugs": true}', "is no baseline that perdure check has written: it has no list of"),
        (b'{"bugs": [1]}', "is no baseline that perdure check has written: one of its bugs has"),
        (b'{"bugs": [{"id": 1}]}', "perdure check has written: one of its bugs has no id"),
        (None, "cannot be read: Is a directory"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path, content, said):
    file = tmp_path / "known.json"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(PerdureError) as refused:
        checking.known_in(file)
    message = str(refused.value)
    assert message.startswith(f"--baseline {file} ") and "\n" not in message
    assert said in message
    assert message.endswith("; remove it, and --update-baseline makes a new one")
    assert "object" not in message.replace("lists and objects", "")


def test_a_baseline_without_an_end_is_refused():
    with pytest.raises(PerdureError, match="--baseline /dev/zero is longer than 64 MiB"):
        checking.known_in(Path("/dev/zero"))


def test_a_command_is_repeated_without_where_its_results_go():
    given = "--html a.html --json=- --set a=1 --watch -- ./p --html b --then ./p"
    words = ["check", *given.split()]
    again = ["perdure", "check", "--set", "a=1", "--", "./p", "--html", "b", "--then", "./p"]
    assert check_reporting.command(words) == again


def test_programs_are_watched_each_once(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dump").write_text("")
    machine = api.Machine(sysroot=tmp_path)
    asked = checking.Subject(
        machine, ["./a", "x"], then=["./a"], checker=["./c"], dump=["/bin/dump"]
    )
    assert check_watch.watched(asked) == [Path("a"), Path("c"), tmp_path / "bin/dump"]


def test_a_program_that_is_being_written_is_waited_for(tmp_path):
    file = tmp_path / "program"
    file.write_text("one")
    before = check_watch.stamps([file])
    happens = iter(
        [
            lambda: None,
            file.unlink,
            lambda: file.write_text("half"),
            lambda: file.write_text("half and half"),
            lambda: None,
            lambda: os.utime(file, ns=(1, 1)),
            lambda: None,
            lambda: None,
        ]
    )
    assert check_watch.changed([file], before, lambda _: next(happens)()) == [file]
    assert list(happens) == []


def test_what_has_changed_between_two_reports_is_said():
    other = {**BUG, "id": "b", "lost": [FILL], "defect": "torn"}
    before, after = {**REPORT, "bugs": [BUG]}, {**REPORT, "bugs": [other]}
    lines = [line for line, _ in check_watch.difference(before, after)]
    assert lines[0] == "1 bug gone, 1 bug new"
    assert lines[1:3] == ["  gone: missing flush: fill (list.c:7)", "  new: torn: fill (list.c:7)"]
    assert next(check_watch.difference(before, before))[0] == "1 bug as before"
    nothing = {**REPORT, "bugs": []}
    assert next(check_watch.difference(nothing, nothing))[0] == "no bugs, as before"

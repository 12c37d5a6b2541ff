"""Explanations of failed cuts, on a terminal of 80 columns and as a page."""

import copy
import json

import pytest
from conftest import BROKEN, VERIFIED
from rich.console import Console

from perdure import explanation, explanation_page

LONG = "[17].a_member_with_a_long_name.another_one[3]"
PLACES = [
    {
        "place": "L1D of hart 0",
        "state": "modified",
        "version": 5,
        "survives": False,
        "has": ["newest"],
    },
    {"place": "module nvm", "state": "", "version": None, "survives": True, "has": ["found"]},
]
LINE = {
    "physical_address": "0x10016100",
    "address": "0x12340",
    "kind": "mixed",
    "says": "mixed: words of epochs 1 and 3",
    "words": [
        {
            "word": 1,
            "part": "[3].balance",
            "expected": "04000793a095846a",
            "found": "04000793a0950000",
            "newest": "ffffffffffffffff",
        },
        {
            "word": 2,
            "part": LONG,
            "expected": "0000000000000001",
            "found": "0000000000000000",
            "newest": "0000000000000001",
        },
    ],
    "expected": " ".join(["0" * 16] * 8),
    "found": " ".join(["0" * 16] * 8),
    "stores": 1200,
    "last_store": {
        "hart": 1,
        "at": 49_999_000,
        "epoch": 4,
        "kernel": None,
        "instruction": {
            "address": "0x10634",
            "function": "deposit",
            "offset": 48,
            "file": "accounts.c",
            "line": 57,
        },
    },
    "places": PLACES,
}
THING = {
    "class": "data",
    "name": "accounts",
    "file": "/program/kv",
    "process": 1,
    "address": "0x12300",
    "bytes": 5120,
    "lines": 3,
    "words": 7,
    "kinds": {"mixed": 3},
    "shown": [LINE],
}
EVENTS = [
    {"at": 49_000_000, "what": "epoch-ended", "epoch": 3},
    {"at": 49_100_000, "what": "design-state", "state": "scanning"},
    {"at": 49_999_000, "what": "store", "hart": 1, "address": "0x12340", "name": "accounts"},
    {
        "at": 49_999_200,
        "what": "eviction",
        "cause": "replacement",
        "address": "0x12340",
        "name": "accounts",
    },
    {
        "at": 49_999_210,
        "what": "write",
        "module": "nvm",
        "physical_address": "0x10016100",
        "bytes": 64,
        "begins": 49_999_300,
        "durable": 50_000_400,
        "address": "0x12340",
        "name": "accounts",
    },
    {
        "at": 49_999_500,
        "what": "log-write",
        "module": "nvm",
        "physical_address": "0x18000c000",
        "bytes": 2048,
        "begins": 49_999_600,
        "durable": 49_999_900,
    },
]
EXPLANATION = {
    "cycle": 50_000_000,
    "life": 1,
    "against": "promise",
    "marks": "epoch",
    "epoch": 3,
    "executing_epoch": 4,
    "refused": None,
    "lines": 3,
    "kinds": {"mixed": 3},
    "lines_not_followed": 0,
    "things": [THING],
    "in_flight": {
        "writes": 1,
        "shown": [
            {
                "module": "nvm",
                "physical_address": "0x10016100",
                "address": "0x12340",
                "bytes": 64,
                "name": "accounts",
                "begins": 49_999_300,
                "durable": 50_000_400,
                "fate": "torn",
            }
        ],
    },
    "timeline": EVENTS,
    "cores": None,
}


@pytest.fixture
def explained():
    return copy.deepcopy(EXPLANATION)


def shown(explained):
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(explanation.terminal(explained), crop=False)
    return console.export_text()


def test_a_terminal_of_80_columns_shows_all_that_matters(explained):
    text = shown(explained)
    for said in (
        "against the end of epoch 3 (the cut came in epoch 4)",
        "accounts",
        "data of kv, 5,120 bytes at 0x12300: 3 wrong lines",
        "mixed: words of epochs 1 and 3",
        "[3].balance             04000793a095846a  04000793a0950000",
        LONG,
        "newest:   L1D of hart 0 (modified, version 5); lost with the power",
        "0x10634 <deposit+48> accounts.c:57, hart 1, cycle 49,999,000",
        "torn: 64 bytes of accounts at 0x12340",
        "… and 2 more lines",
        "1,000  store: hart 1 to accounts, 0x12340",
    ):
        assert said in text, text
    assert max(map(len, text.splitlines())) <= 80, text


def test_the_wrong_bytes_of_a_word_are_marked():
    marked = list(explanation.differing("04000793a095846a", "04000793a0950000"))
    assert [digits for digits, wrong in marked if wrong] == ["00", "00"]
    assert "".join(digits for digits, _ in marked) == "04000793a0950000"


def test_memory_that_is_right_is_said_to_be(explained):
    explained |= {"lines": 0, "kinds": {}, "things": []}
    assert "every byte is right" in " ".join(shown(explained).split())


def test_without_epochs_no_epoch_is_named(explained):
    explained |= {"marks": "cycle", "epoch": None, "executing_epoch": None, "against": "newest"}
    explained["things"][0]["shown"][0]["last_store"]["epoch"] = None
    text = shown(explained)
    assert "the pools, against what the program had stored" in text
    assert "in epoch" not in text


def test_who_stored_last_is_named(explained):
    store = explained["things"][0]["shown"][0]["last_store"]
    place = "0x10634 <deposit+48> accounts.c:57"
    assert f"stored:   {place}, hart 1, cycle 49,999,000" in shown(explained)
    store["kernel"] = "read"
    assert f"stored:   the kernel (read at {place}), hart 1" in shown(explained)
    store["instruction"] = None
    assert "stored:   the kernel (read), hart 1" in shown(explained)
    store["kernel"] = None
    assert "stored:   an instruction, hart 1" in shown(explained)


def test_the_page_has_everything_and_needs_nothing_else(explained):
    result = {"verdict": "memory-differs", "cycle": 50_000_000, "token": "p2-abc", "message": "m"}
    page = explanation_page.page(
        {**result, "explanation": explained}, {"design": "picl", "machine": "<picl>"}
    )
    assert "&lt;picl&gt;" in page and "<picl>" not in page
    for said in ("accounts", "mixed: words of epochs 1 and 3", "p2-abc", "[3].balance", "<svg"):
        assert said in page
    assert "src=" not in page and "href=" not in page and "<script" not in page


def test_the_drawing_is_about_the_cut(explained):
    drawing = explanation_page.drawing(explained)
    assert [lane.label for lane in drawing.lanes] == ["epochs", "accounts 0x12340", "log"]
    times = [mark.x for lane in drawing.lanes for mark in lane.marks]
    assert all(x <= drawing.cut for x in times)
    write = next(mark for mark in drawing.lanes[1].marks if mark.kind.startswith("write"))
    assert write.kind == "write late" and write.x + write.width > drawing.cut
    assert explanation_page.drawing({**explained, "timeline": []}) is None


def test_a_failure_is_explained_at_once(core, command, tmp_path):
    core.results["cut"].update(cuts=2, failed=1, results=[VERIFIED, BROKEN])
    page = tmp_path / "cut.html"
    status, out, _ = command("cut", "--html", page, "--", "program")
    assert status == 1
    assert BROKEN["explanation"]["things"][0]["shown"][0]["says"] in out
    assert BROKEN["token"] in page.read_text()


def test_core_files_come_from_a_replay_of_the_first_failure(core, command, tmp_path):
    core.results["cut"].update(cuts=2, failed=1, results=[VERIFIED, BROKEN])
    cores = {"expected": "e.core", "found": "f.core", "process": 1, "executable": "/program/kv"}
    again = copy.deepcopy(BROKEN)
    again["explanation"]["cores"] = {**cores, "program": "kv", "restored": False}
    core.results["replay"].update(cuts=1, failed=1, results=[again])
    _, out, _ = command("cut", "--cores", tmp_path / "cores", "--", "program")
    (_, asked) = core.requests[-1]
    expected = {"token": BROKEN["token"], "cores": str(tmp_path / "cores")}
    assert json.loads(asked) == expected
    assert "gdb-multiarch kv f.core" in out


def test_what_is_lost_without_a_promise_has_a_page(core, command, tmp_path):
    lost = dict(BROKEN, verdict="lost")
    core.results["cut"].update(cuts=2, lost=1, failed=0, results=[VERIFIED, lost])
    page = tmp_path / "cut.html"
    status, _, err = command("cut", "--design", "ideal", "--html", page, "--", "program")
    assert (status, err) == (0, "")
    assert BROKEN["token"] in page.read_text()


def test_a_page_of_nothing_is_not_written(core, command, tmp_path):
    status, _, err = command("cut", "--html", tmp_path / "cut.html", "--", "program")
    assert status == 0
    assert "nothing failed" in err
    assert not (tmp_path / "cut.html").exists()


def hunted(monkeypatch, found, by_seed=()):
    """A hunt that comes to an end with what it found."""
    from perdure import hunting

    coverage = {"design_states": {}, "paths": {}, "cuts_during_recovery": 0}
    report = {"design": "picl", "planted_bug": None, "first_seed": 1, "seeds": 2, "cuts": 120}
    report |= {"resumed": 3, "gave_up": 0, "interrupted": False, "by_seed": by_seed}
    monkeypatch.setattr(
        hunting, "hunt", lambda *_, **__: {**report, "coverage": coverage, "found": found}
    )


def test_what_a_hunt_found_has_a_page_and_core_files(core, command, monkeypatch, tmp_path):
    keys = ("verdict", "message", "cycle", "token", "explanation")
    found = {key: copy.deepcopy(BROKEN[key]) for key in keys}
    found |= {"seed": 2, "set": ["l2.ways=<1>"], "program": [], "command": ["perdure", "cut"]}
    hunted(monkeypatch, found)
    cores = {"expected": "e.core", "found": "f.core", "process": 1, "executable": "/program/kv"}
    again = copy.deepcopy(BROKEN)
    again["explanation"]["cores"] = {**cores, "program": "kv", "restored": False}
    core.results["replay"].update(cuts=1, failed=1, results=[again])
    page = tmp_path / "found.html"
    status, out, _ = command("hunt", "--html", page, "--cores", tmp_path / "cores")
    assert status == 1
    (_, asked) = core.requests[-1]
    assert json.loads(asked) == {"token": BROKEN["token"], "cores": str(tmp_path / "cores")}
    assert "gdb-multiarch kv f.core" in out
    assert "picl with l2.ways=&lt;1&gt;: " in page.read_text()
    assert BROKEN["token"] in page.read_text()


def test_what_was_found_is_reported_where_its_core_files_cannot_be_made(
    core, command, monkeypatch, tmp_path
):
    keys = ("verdict", "message", "cycle", "token", "explanation")
    found = {key: copy.deepcopy(BROKEN[key]) for key in keys}
    found |= {"seed": 2, "set": [], "program": [], "command": ["perdure", "cut"]}
    core.refusal = "design journaling: hook `evict` took a line"
    for explained in (found["explanation"], None):
        found["explanation"] = explained
        hunted(monkeypatch, found)
        page, cores = tmp_path / "found.html", tmp_path / "cores"
        status, out, err = command("hunt", "--html", page, "--cores", cores, "--json", "-")
        assert status == 1
        assert json.loads(out)["found"]["token"] == BROKEN["token"]
        if explained is None:
            assert "not one of memory at a cut, so --cores wrote no core files\n" in err
            assert "not one of memory at a cut, so --html wrote no page\n" in err
        else:
            assert f"there are no core files of the failure: {core.refusal}\n" in err
        assert "perdure replay" in err and "nothing failed" not in err
        assert page.exists() == (explained is not None)
        page.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([], "cuts of no machine,"),
        ([4], "cuts of 1 machine (seed 4),"),
        ([1, 2, 3], "cuts of 3 machines (seeds 1 to 3),"),
        ([2, 3, 5], "cuts of 3 machines (of seeds 2 to 5),"),
    ],
)
def test_a_hunt_says_which_seeds_were_done(core, command, monkeypatch, seeds, said):
    done = [{"seed": seed, "cuts": 60, "gave_up": False, "new": []} for seed in seeds]
    hunted(monkeypatch, None, by_seed=done)
    status, out, _ = command("hunt", "--cuts", "1")
    assert status == 0
    assert said in out


def test_a_hunt_that_found_nothing_writes_nothing(core, command, monkeypatch, tmp_path):
    hunted(monkeypatch, None)
    status, _, err = command(
        "hunt", "--html", tmp_path / "found.html", "--cores", tmp_path / "cores"
    )
    assert status == 0
    assert "nothing failed, so there is nothing for --html and --cores to write\n" in err
    assert core.requests == []
    assert not (tmp_path / "found.html").exists()
    status, _, err = command("hunt", "--html", tmp_path / "no" / "found.html")
    assert status == 2 and "--html" in err


def test_what_cannot_be_written_is_refused_before_the_run(core, command, tmp_path):
    status, _, err = command("replay", "--html", tmp_path / "no" / "cut.html", "p2-a")
    assert status == 2
    assert "--html" in err
    assert core.requests == []

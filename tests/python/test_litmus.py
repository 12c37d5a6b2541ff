"""`perdure litmus`: what it asks of the core, what it prints, and its exit status."""

import json

import pytest

CONTENTS = ["x=0 y=0", "x=1 y=0", "x=1 y=1"]


def answer(stated):
    """What the core says of one test."""
    test = {
        "file": "a.toml",
        "name": "a test",
        "model": "px86",
        "contents": CONTENTS,
        "stated": stated,
        "machine": None,
    }
    return {"tests": [test], "interrupted": False}


AGREES = {"agrees": True, "not_in_model": [], "not_stated": []}
DIFFERS = {"agrees": False, "not_in_model": ["x=0 y=1"], "not_stated": ["x=1 y=1"]}


@pytest.mark.parametrize(
    ("stated", "status", "said"),
    [
        (None, 0, ["the file states nothing", "0 of 0 tests as stated, 1 without a statement\n"]),
        (AGREES, 0, ["as the file states", "1 of 1 tests as stated\n"]),
        (DIFFERS, 1, ["stated, but not allowed: x=0 y=1", "allowed, but not stated: x=1 y=1"]),
    ],
)
def test_what_a_file_states_decides_the_status(core, command, monkeypatch, stated, status, said):
    asked = []

    def decide(request):
        asked.append(json.loads(request))
        return json.dumps(answer(stated))

    monkeypatch.setattr(core, "litmus", decide, raising=False)
    found, out, _ = command("litmus", "a.toml")
    unasked = {"cuts": None, "seed": None, "planted_bug": None}
    assert (found, asked) == (status, [{"files": ["a.toml"], **unasked}])
    assert all(text in out for text in [*CONTENTS, *said, "no machine has run it"])


def test_what_a_file_calls_itself_moves_no_cursor(core, command, monkeypatch):
    decided = answer(AGREES)
    decided["tests"][0]["name"] = "a\x1b[31mtest\nof its own, é"
    monkeypatch.setattr(core, "litmus", lambda _: json.dumps(decided), raising=False)
    _, out, _ = command("litmus", "a.toml")
    assert r"a.toml: a\x1b[31mtest\nof its own, é (px86)" in out


UNSOUND = {
    "contents": "x=0 y=1",
    "machine": "x86-pm",
    "design": "ideal",
    "settings": ["llc.ways=1"],
    "run": 3,
    "cycle": 700,
}


@pytest.mark.parametrize(
    ("unsound", "not_reached", "status", "said"),
    [
        ([], [], 0, "complete: 40 cuts on 2 machines"),
        ([], ["x=1 y=1"], 0, "sound: 40 cuts on 2 machines did not reach x=1 y=1"),
        ([UNSOUND], [], 1, "unsound: x=0 y=1: x86-pm, ideal, run 3, cut at cycle 700: llc.ways=1"),
    ],
)
def test_what_machines_left_decides_the_status(
    core, command, monkeypatch, unsound, not_reached, status, said
):
    decided = answer(AGREES)
    machine = {"presets": [{}, {}], "cuts": 40, "unsound": unsound, "not_reached": not_reached}
    decided["tests"][0]["machine"] = machine
    monkeypatch.setattr(core, "litmus", lambda _: json.dumps(decided), raising=False)
    found, out, _ = command("litmus", "a.toml", "--cuts", "40", "--seed", "2")
    assert (found, said in " ".join(out.split())) == (status, True)


def test_json_has_standard_output_for_itself(core, command, monkeypatch):
    monkeypatch.setattr(core, "litmus", lambda _: json.dumps(answer(AGREES)), raising=False)
    status, out, _ = command("litmus", "a.toml", "--json", "-")
    assert (status, json.loads(out)) == (0, answer(AGREES))


def test_a_folder_is_refused_with_what_to_write(core, command, tmp_path):
    status, _, err = command("litmus", tmp_path)
    assert status == 2
    assert f"{tmp_path} is a folder" in err and f"{tmp_path}/*.toml" in err


def test_ctrl_c_ends_with_what_is_decided(core, command, monkeypatch):
    decided = {**answer(AGREES), "interrupted": True}
    monkeypatch.setattr(core, "litmus", lambda _: json.dumps(decided), raising=False)
    status, out, _ = command("litmus", "a.toml", "b.toml")
    assert status == 130
    assert "1 of 1 tests as stated" in out

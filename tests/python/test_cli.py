"""The command line: what it asks of the core, what it prints, and its exit status."""

import json

import pytest
from conftest import BROKEN, CATALOGUE, CONFIGURATION, VERIFIED


def test_run_asks_for_what_the_options_say(core, command):
    status, out, _ = command(
        "run", "--machine", "small.toml", "--design", "ideal", "--set", "a.b=1", "--set", "c=2",
        "--harts", "8", "--sysroot", "/sys/root", "--mount", "/h:/g", "--env", "A=1",
        "--stop-after", "1000", "--engine", "plain", "--", "./program", "--harts", "x",
    )  # fmt: skip
    assert (status, out) == (0, "")
    (name, request), *rest = core.requests
    assert (name, rest) == ("run", [])
    assert request == {
        "machine": "small.toml",
        "design": "ideal",
        "set": ["a.b=1", "c=2"],
        "harts": 8,
        "sysroot": "/sys/root",
        "mounts": ["/h:/g"],
        "environment": ["A=1"],
        "stdin": None,
        "engine": "plain",
        "program": ["./program", "--harts", "x"],
        "out": None,
        "stop_after": 1000,
        "passthrough": True,
    }


def test_everything_after_the_program_is_the_guests_without_dashes_too(core, command):
    command("run", "program", "--design", "ideal")
    assert core.requests[0][1]["program"] == ["program", "--design", "ideal"]
    assert core.requests[0][1]["design"] == "picl"


@pytest.mark.parametrize("guest", [0, 3, 128 + 11])
def test_run_exits_as_the_guest_did(core, command, guest):
    core.results["run"]["exit_code"] = guest
    assert command("run", "--", "program")[0] == guest


def test_run_writes_json_to_a_file_and_to_standard_output(core, command, tmp_path):
    file = tmp_path / "result.json"
    command("run", "--json", file, "--", "program")
    assert json.loads(file.read_text())["state_hash"] == core.results["run"]["state_hash"]
    _, out, _ = command("run", "--json", "-", "--", "program")
    assert json.loads(out)["sim"] == core.results["run"]["sim"]


def test_run_out_keeps_result_and_configuration(command, tmp_path):
    command("run", "--out", tmp_path / "out", "--", "program")
    assert json.loads((tmp_path / "out/result.json").read_text())["exit_code"] == 0
    assert (tmp_path / "out/configuration.toml").read_text().endswith(CONFIGURATION["toml"])


def test_verbose_prints_statistics_with_units_to_standard_error(command):
    _, out, err = command("run", "--verbose", "--", "program")
    assert out == ""
    assert "l1d.misses" in err
    assert "row writes at the NVM" in err
    assert "cycles" in err


def test_a_refusal_is_one_message_and_status_2(core, command):
    core.refusal = "there is no design `picle`: the nearest is `picl`"
    status, out, err = command("run", "--design", "picle", "--", "program")
    assert (status, out) == (2, "")
    assert err == "perdure: there is no design `picle`: the nearest is `picl`\n"


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "--harts", "0", "--", "program"),
        ("run", "--engine", "warp", "--", "program"),
        ("run", "--nonsense", "--", "program"),
        ("cut", "--at", "5", "--cuts", "5", "--", "program"),
        ("cut", "--schedule", "sometimes", "--", "program"),
        ("compare", "--designs", ",", "--", "program"),
        ("list", "everything"),
        ("sysroot", "somewhere"),
        ("sysroot", "somewhere", "--packages", ","),
        ("nonsense",),
        ("run", "--json", "/nonexistent/folder/file", "--", "program"),
    ],
)
def test_bad_words_give_status_2_and_no_traceback(command, words):
    status, _, err = command(*words)
    assert status == 2
    assert err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sweep", "--set", "llc.ways=4,8", "--set", "llc.ways=4"), "--set llc.ways names 4 twice"),
        (
            ("cut", "--at", "5", "--schedule", "random"),
            "--at names the one cut, so --schedule random has nothing to choose",
        ),
    ],
)
def test_words_that_go_nowhere_are_refused(core, command, words, said):
    status, out, err = command(*words, "--", "program")
    assert (status, out, core.requests) == (2, "", [])
    assert err.startswith(f"perdure: {said}")


def test_what_can_be_listed_is_named_as_it_has_to_be_written(command):
    _, _, err = command("list", "everything")
    assert "not one of designs, machines" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cut", "--schedule", "foo"), "'foo' is not one of random, every-event, near-events,"),
        (("cut", "--schedule", "rando"), "stratified; the nearest is 'random'"),
        (("run", "--engine", "plane"), "not one of fast, compiled, plain; the nearest is 'plain'"),
        (("check", "--model", "px68"), "the nearest is 'px86'"),
        (("cut", "--jobs", "0"), "'0' is not a whole number of at least 1"),
        (("run", "--harts", "x"), "'x' is not a whole number of at least 1"),
        (("travel", "x", "read", "y", "--epoch", "-2"), "'-2' is not a whole number of at least 0"),
        (("check", "--seed", "9" * 23), f"{'9' * 23} is more than 18,446,744,073,709,551,615"),
        (("hunt", "--minutes", "-1"), "'-1' is not a number of at least 0"),
        (("hunt", "--minutes", "nan"), "'nan' is not a number of at least 0"),
        (("check", "--minutes", "1e400"), "'1e400' is not a number"),
        (("list", "design"), "the nearest is 'designs'"),
    ],
)
def test_a_value_that_cannot_be_is_said_with_what_can(core, command, words, said):
    more = () if words[0] in ("list", "travel") else ("--", "program")
    status, out, err = command(*words, *more)
    assert (status, out, core.requests) == (2, "", [])
    option = words[-2] if words[-2].startswith("--") else "KIND"
    assert option in err and said in " ".join(err.replace("│", " ").split())


def test_a_word_that_a_key_cannot_have_is_said_with_the_key(core, command):
    allowed = "expected one of `open`, `closed` in `nvm.policy`"
    core.refusal = f"configuration: unknown variant `opne`, {allowed}"
    for words in (("--set", "a.b=1", "--set", "nvm.policy=opne"), ("--set=nvm.policy=opne",)):
        said = "perdure: --set nvm.policy=opne: 'opne' is not one of open, closed; the nearest is"
        assert command("run", *words, "--", "program")[2] == f"{said} 'open'\n"
    assert command("run", "--", "program")[2] == f"perdure: {core.refusal}\n"


def test_cut_passes_its_options_on(core, command):
    command(
        "cut", "--cuts", "7", "--schedule", "every-event", "--seed", "9", "--during-recovery",
        "--resume", "all", "--jobs", "2", "--planted-bug", "bug", "--", "program",
    )  # fmt: skip
    request = core.requests[0][1]
    assert request["cuts"] == 7
    assert request["schedule"] == "every-event"
    assert request["seed"] == 9
    assert request["during_recovery"] is True
    assert request["resume"] == "all"
    assert request["jobs"] == 2
    assert request["planted_bug"] == "bug"
    assert request["at"] is None


def test_cut_resumes_a_sample_by_default(core, command):
    assert command("cut", "--at", "0", "--", "program")[0] == 0
    assert core.requests[0][1]["resume"] == "sample"
    assert core.requests[0][1]["at"] == 0


def test_cut_exits_1_and_shows_the_first_lost_line(core, command):
    core.results["cut"].update(cuts=2, failed=1, results=[VERIFIED, BROKEN])
    status, out, _ = command("cut", "--", "program")
    assert status == 1
    assert f"at {BROKEN['first_difference']['address']}" in out
    assert f"perdure replay {BROKEN['token']}" in out.replace("\n", "")
    assert "1 of 2 cuts broke the promise" in out


def test_a_cut_that_loses_what_nobody_promised_exits_0(core, command):
    lost = dict(BROKEN, verdict="lost")
    core.results["cut"].update(cuts=2, lost=1, failed=0, results=[VERIFIED, lost])
    status, out, _ = command("cut", "--design", "ideal", "--", "program")
    assert status == 0
    assert "promises nothing: 1 of 2 cuts lost something" in out


def test_an_interrupted_cut_prints_what_is_finished_and_exits_130(core, command, tmp_path):
    core.results["cut"].update(interrupted=True)
    status, out, _ = command("cut", "--json", tmp_path / "cut.json", "--", "program")
    assert status == 130
    assert "interrupted after 3 cuts" in out
    assert json.loads((tmp_path / "cut.json").read_text())["interrupted"] is True


def test_replay_passes_the_token_on(core, command):
    assert command("replay", "p1-aaaa")[0] == 0
    assert core.requests == [("replay", "p1-aaaa")]


def test_compare_runs_designs_in_turn_and_draws(core, command, tmp_path):
    status, out, _ = command(
        "compare", "--designs", "ideal,picl", "--out", tmp_path / "c", "--", "program"
    )
    assert status == 0
    asked = [request["design"] for name, request in core.requests if name == "run"]
    assert asked == ["ideal", "picl"]
    assert "1.000 ×" in out
    assert (tmp_path / "c/compare.png").read_bytes().startswith(b"\x89PNG")
    html = (tmp_path / "c/compare.html").read_text()
    assert "<script src=" not in html  # it needs no network
    assert len(json.loads((tmp_path / "c/result.json").read_text())["results"]) == 2
    assert (tmp_path / "c/picl/configuration.toml").exists()


def test_mutants_covers_every_design_that_has_bugs(core, command):
    status, out, _ = command("mutants")
    assert status == 0
    groups = ["machine", "persistence", "replication", "verifier"]
    designs = [one["name"] for one in CATALOGUE["designs"] if one["planted_bugs"]]
    assert [request["design"] for _, request in core.requests] == [*designs, *groups]
    bugs = len(core.results["mutants"]["mutants"])
    assert out.count(f"{bugs} of {bugs} planted bugs caught") == len(designs) + len(groups)


@pytest.mark.parametrize("missed", [True, False])
def test_mutants_exits_1_for_a_missed_bug_or_a_false_alarm(core, command, missed):
    if missed:
        core.results["mutants"]["mutants"][0].update(caught=False, by=None, token=None)
    else:
        core.results["mutants"]["clean"]["false_alarms"] = 1
    assert command("mutants", "--design", "picl")[0] == 1


def test_guests_are_given_to_the_mutants_of_the_saved_state_alone(core, command, tmp_path):
    paths = {"guests": str(tmp_path / "guests"), "unnoticed": str(tmp_path / "unnoticed.txt")}
    (tmp_path / "guests").mkdir()
    (tmp_path / "unnoticed.txt").touch()
    options = [f"--{name}={path}" for name, path in paths.items()]
    assert command("mutants", *options)[0] == 0
    given = {request["design"] for _, request in core.requests if set(request) & set(paths)}
    assert given == {"state"}
    designs = [one for one in CATALOGUE["designs"] if one["planted_bugs"]]
    assert len(core.requests) == len(designs) + 5
    assert core.requests[-1][1].items() >= paths.items()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--unnoticed", "list"], ["--unnoticed", "--guests"]),
        (["--only", "state", "--unnoticed", "list"], ["--unnoticed", "--guests"]),
        (["--only", "machine", "--guests", "folder"], ["--guests", "state", "machine"]),
        (["--design", "picl", "--guests", "folder", "--unnoticed", "list"], ["--guests", "picl"]),
        (["--guests", "nowhere"], ["--guests nowhere", "no such folder"]),
        (["--guests", ".", "--unnoticed", "nothing"], ["--unnoticed nothing", "no such file"]),
    ],
)
def test_guests_of_other_mutants_are_refused(core, command, given, words):
    status, _, err = command("mutants", *given)
    assert status == 2
    assert all(word in err for word in words)
    assert core.requests == [] or core.requests[0][0] == "catalogue"


def test_config_prints_toml_with_its_hash(core, command):
    status, out, _ = command("config", "--set", "nvm.read_ns=128")
    assert status == 0
    assert out == f"# configuration {CONFIGURATION['hash']}\n{CONFIGURATION['toml']}"
    assert core.requests[0][1]["set"] == ["nvm.read_ns=128"]


@pytest.mark.parametrize("what", ["designs", "machines", "workloads"])
def test_lists(command, what):
    status, out, _ = command("list", what)
    assert status == 0
    assert {"designs": "epoch-prefix", "machines": "Table IV", "workloads": "kv/kv"}[what] in out
    _, out, _ = command("list", what, "--json", "-")
    assert what in json.loads(out)


def test_keys_are_those_of_every_design_as_a_machine_that_takes_it_has_them(
    core, command, monkeypatch
):
    refused = {("picl", "nvoverlay"), ("picl", "spms"), ("nvoverlay", "spms")}

    def configuration(request):
        asked = json.loads(request)
        machine, design = asked["machine"], asked["design"]
        if (machine, design) in refused:
            raise core.PerdureError("it needs another machine")
        one = {"unit": "", "meaning": "", "source": "ours", "decides": ""}
        keys = {
            "design": design,
            "nvm.banks": 8,
            f"{design}.machine": machine,
            f"{design}.narrow": False,
        }
        return json.dumps(
            CONFIGURATION | {"values": {key: one | {"value": keys[key]} for key in keys}}
        )

    monkeypatch.setattr(core, "configuration", configuration)
    designs = [one["name"] for one in CATALOGUE["designs"]]
    _, out, _ = command("list", "keys", "--json", "-")
    listed = {one["key"]: one["value"] for one in json.loads(out)["keys"]}
    assert set(listed) == {"nvm.banks"} | {
        f"{one}.{key}" for one in designs for key in ("machine", "narrow")
    }
    assert listed["frm.machine"] == "picl"
    assert listed["nvoverlay.machine"] == "nvoverlay"
    assert listed["spms.machine"] not in ("picl", "nvoverlay")
    _, out, _ = command("list", "keys")
    assert "false" in out and "False" not in out


def test_standard_input_is_kept_in_a_file(core, command, monkeypatch):
    import io
    import sys
    from pathlib import Path

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
    command("run", "--stdin", "-", "--", "program")
    assert Path(core.requests[0][1]["stdin"]).read_bytes() == b"hello\n"


def test_every_design_gets_the_same_standard_input(core, command, monkeypatch, tmp_path):
    import io
    import sys
    from pathlib import Path

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
    out = tmp_path / "results"
    command("compare", "--designs", "ideal,picl", "--stdin", "-", "--out", out, "--", "program")
    given = [Path(request["stdin"]) for _, request in core.requests if "stdin" in request]
    assert set(given) == {out / "standard-input"} and len(given) >= 2
    assert given[0].read_bytes() == b"hello\n"


@pytest.mark.parametrize("name", ["run", "cut", "trace", "hunt", "debug"])
def test_several_designs_are_for_compare(name, core, command):
    status, _, err = command(name, "--design", "ideal,picl", "--", "program")
    assert (status, [name for name, _ in core.requests]) == (2, [])
    said = "--design ideal,picl: one design, as in --design ideal; perdure compare takes several"
    assert err == f"perdure: {said}\n"


def test_version(command):
    assert command("--version")[:2] == (0, "perdure 0.0.0, timing version 7\n")


def test_dashes_stand_between_programs_that_run_at_once(core, command):
    words = ("run", "--repeat", "--warm-up", "5", "--measure", "7", "--", "a", "1", "--", "b")
    assert command(*words)[0] == 0
    request = core.requests[0][1]
    assert request["programs"] == [["a", "1"], ["b"]]
    assert request["program"] == []
    assert request["harts"] is None
    assert (request["repeat"], request["warm_up_instructions"]) == (True, 5)
    assert request["measure_instructions"] == 7
    command("cut", "--cuts", "3", "--", "a", "--", "b")
    assert core.requests[1][1]["programs"] == [["a"], ["b"]]


def test_what_is_started_again_stands_after_then(core, command):
    restart = ("cut", "--restart", "--pmem", "pools", "--expect", "done")
    assert command(*restart, "--", "a", "x", "--then", "b", "--", "y")[0] == 0
    request = core.requests[0][1]
    assert (request["program"], request["then"]) == (["a", "x"], ["b", "--", "y"])
    assert (request["restart"], request["expect"], request["resume"]) == (True, "done", None)
    assert command("cut", "--restart", "--", "a")[0] == 0
    assert "then" not in core.requests[1][1]
    status, _, errors = command("cut", "--restart", "--", "a", "--then")
    assert (status, len(core.requests)) == (2, 2) and "names no program" in errors
    status, _, errors = command("cut", "--restart", "--then", "b", "--", "a")
    assert (status, len(core.requests)) == (2, 2) and "behind the program that is cut" in errors


def test_an_empty_program_is_refused(core, command):
    status, _, err = command("run", "--", "a", "--", "--", "b")
    assert (status, core.requests) == (2, [])
    assert "one of these is empty" in err


@pytest.mark.parametrize(("text", "number"), [("3e6", 3_000_000), ("1_000", 1000), ("7", 7)])
def test_counts_may_be_written_short(core, command, text, number):
    status, _, _ = command("run", "--warm-up", text, "--measure", text, "--", "program")
    assert status == 0
    request = core.requests[0][1]
    assert request["warm_up_instructions"] == request["measure_instructions"] == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "nan", "1e999999"])
def test_bad_counts_are_named(core, command, text):
    status, _, error = command("run", "--measure", text, "--", "program")
    assert status == 2
    assert "--measure" in error and "3e7" in error
    assert core.requests == []

"""What newcomers type: spellings, hints, lists, short names, completion, the manual."""

import json
import os

import pytest
from conftest import BROKEN, CATALOGUE, RecordedError


@pytest.mark.parametrize("words", [("--design", "ideal,picl"), ("--designs", "ideal,picl"),
                                   ("--design", "ideal", "--designs", "picl"), ()])  # fmt: skip
def test_compare_takes_designs_in_every_spelling(core, command, words):
    assert command("compare", *words, "--", "program")[0] == 0
    assert [request["design"] for _, request in core.requests] == ["ideal", "picl"]


@pytest.mark.parametrize("name", ["run", "cut", "config", "hunt", "mutants", "sweep", "reproduce"])
def test_the_other_spelling_is_understood_everywhere_and_documented_nowhere(command, name):
    status, out, _ = command(name, "--designs", "picl", "--help")
    assert status == 0
    assert "--design " in out
    assert "--designs" not in out


def test_a_list_of_designs_still_lists_them(command):
    _, out, _ = command("list", "designs")
    assert all(one["name"] in out for one in CATALOGUE["designs"])


def test_packages_that_are_given_several_times_add_up(command, monkeypatch, tmp_path):
    from perdure import sysroot

    asked = []
    monkeypatch.setattr(sysroot, "make", lambda _folder, names, **_more: asked.extend(names) or [])
    words = ("--packages", "sqlite3,xz-utils", "--packages", "curl")
    assert command("sysroot", tmp_path, *words)[0] == 0
    assert asked == ["sqlite3", "xz-utils", "curl"]


@pytest.fixture
def talkative(core, monkeypatch):
    """A core whose guests print to standard output, as the compiled one's do."""
    run = core.run

    def printing(request, progress=None, heard=None):
        os.write(1, b"the guest's line\n")
        return run(request, progress, heard)

    monkeypatch.setattr(core, "run", printing)
    return core


@pytest.mark.parametrize("words", [
    ("run", "--verbose", "--json", "-", "--", "program"),
    ("cut", "--json", "-", "--", "program"),
    ("replay", "p2-AAAA", "--json", "-"),
    ("mutants", "--design", "picl", "--json", "-"),
    ("list", "--json", "-"),
    ("list", "papers", "--json", "-"),
    ("config", "--json", "-"),
])  # fmt: skip
def test_json_to_standard_output_is_alone_there(talkative, capfd, monkeypatch, words):
    from perdure import cli

    monkeypatch.setattr("sys.argv", ["perdure", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capfd.readouterr()
    assert ended.value.code == 0
    json.loads(told.out)
    assert ("the guest's line" in told.err) == (words[0] == "run")


def test_ctrl_c_says_what_was_kept(core, command, tmp_path):
    core.results["run"].update(interrupted=True, exit_code=None)
    written = {"path": "/work/a", "size": 1, "kept": True}
    core.results["run"].update(files=[written])
    status, _, err = command("run", "--out", tmp_path / "out", "--", "program")
    instructions = core.results["run"]["sim"]["instructions"]
    assert status == 130
    assert f"interrupted after {instructions:,} instructions" in err
    assert f"kept, as of then: {tmp_path / 'out'} (result and configuration), 1 file" in err
    core.results["run"].update(files=[])
    assert "nothing of it is kept; --out DIR" in command("run", "--", "program")[2]
    core.results["run"].update(pools={"survived": [], "not_synchronised": []})
    pools = command("run", "--pmem", "pools", "--", "program")[2]
    assert "kept, as of then: pools (pools, what survived of them)" in pools
    core.results["run"].update(interrupted=False)
    assert "interrupted" not in command("run", "--", "program")[2]


def test_ctrl_c_keeps_traces_replicas_and_folders_that_are_written_to(core, command):
    written = {"path": "/work/a", "size": 1, "kept": True}
    core.results["run"].update(interrupted=True, exit_code=None, files=[written])
    through = ("--write-through", "wt:/work", "--", "program")
    assert "kept, as of then: 1 file of the guest's in wt\n" in command("run", *through)[2]
    trace = {"file": "a.json", "bytes": 9, "events": 1, "left_out": 0, "tracks": []}
    order = {"file": "a.parquet", "rows": 1, "data_bytes": 8, "left_out": 0, "bytes": 9}
    core.results["run"].update(files=[], trace={**trace, "persist_order": order})
    status, _, err = command("trace", "--out", "a.json", "--", "program")
    assert status == 130
    assert "kept, as of then: a.json (trace), a.parquet (persist order)\n" in err
    assert "--out DIR" not in err
    replica = {"to": "there", "epoch": 7, "recoverable_epoch": 9, "trouble": None}
    replica |= {"epochs_sent": 8, "bytes_sent": 1, "connections": 0}
    core.results["run"].update(trace=None, replication=replica)
    err = command("replicate", "--to", "there", "--", "program")[2]
    assert "kept, as of then: there (replica, epochs up to 7)\n" in err


def test_a_trace_that_begins_behind_the_end_says_so(core, command):
    trace = {"file": "a.json", "bytes": 9, "events": 0, "left_out": 0, "tracks": []}
    core.results["run"].update(trace={**trace, "from_cycle": 10**12})
    cycles = core.results["run"]["sim"]["cycles"]
    err = command("trace", "--from", "1e12", "--", "program")[2]
    assert f"the run ended at cycle {cycles:,}, before cycle 1,000,000,000,000" in err


@pytest.mark.parametrize("words", [("cut", "--", "program"), ("mutants", "--design", "picl")])
def test_ctrl_c_is_status_130_where_there_is_nothing_to_return(core, command, words):
    core.refusal = "interrupted during the survey; nothing was cut yet"
    assert command(*words) == (130, "", f"perdure: {core.refusal}\n")


def test_ctrl_c_keeps_the_planted_bugs_that_are_finished(core, command, monkeypatch, tmp_path):
    answered, file = core.mutants, tmp_path / "found.json"

    def ends(request, progress=None):
        if core.requests:
            raise RecordedError("interrupted")
        return answered(request, progress)

    monkeypatch.setattr(core, "mutants", ends)
    status, out, err = command("mutants", "--json", file)
    assert status == 130
    assert "planted bugs caught" in out
    assert err.startswith("perdure: interrupted at the planted bugs of ")
    assert len(json.loads(file.read_text())["designs"]) == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--html", "a.html"), "--html"),
        (("--cores", "a", "--json", "-"), "--cores, --json"),
        (("--check", "true", "--until-cut"), "--check, --until-cut"),
    ],
)
@pytest.mark.parametrize("debugs", [("--debug",), ("--gdb",), ("--script", __file__)])
def test_a_debugged_cut_takes_nothing_that_judges_or_writes(core, command, debugs, words, named):
    status, out, err = command("replay", "p2-AAAA", *debugs, *words)
    assert (status, out, core.requests) == (2, "", [])
    assert err.startswith(f"perdure: {named}: a cut that is debugged is not judged")


def test_arguments_behind_a_second_dash_get_a_hint(core, command):
    refusal = "100: no such program, neither on the host nor in the sysroot"
    core.refusal = refusal
    status, _, err = command("run", "./a", "--", "100")
    assert status == 2
    assert err.startswith(f"perdure: {refusal}\n")
    assert err.rstrip().endswith("write: -- ./a 100")
    core.refusal = "./a: no such program, neither on the host nor in the sysroot"
    assert command("run", "./a", "--", "100")[2] == f"perdure: {core.refusal}\n"


def test_list_lists_what_can_be_listed(command, tmp_path):
    from perdure import experiments, listing

    status, out, _ = command("list", "--json", tmp_path / "all.json")
    assert status == 0
    found = json.loads((tmp_path / "all.json").read_text())
    assert list(found) == list(listing.KINDS)
    assert all(kind in out for kind in found)
    assert [paper["name"] for paper in found["papers"]] == experiments.papers()
    assert {"name": "fig9", "title": found["papers"][3]["experiments"][0]["title"]} in (
        found["papers"][3]["experiments"]
    )
    bugs = sum(len(design["planted_bugs"]) for design in CATALOGUE["designs"])
    assert len(found["bugs"]) == bugs
    for kind in found:
        status, out, _ = command("list", kind)
        assert status == 0
        assert str(next(iter(found[kind][0].values()))) in out


def test_reproduce_names_every_paper(command):
    from perdure import experiments

    _, out, _ = command("reproduce", "--help")
    assert ", ".join(experiments.papers()) in out


def test_a_failed_cut_has_a_short_name_that_replays_it(core, command):
    core.results["cut"].update(cuts=1, failed=1, results=[BROKEN])
    _, out, _ = command("cut", "--", "program")
    name = out.split("again: perdure replay ")[1].split()[0]
    assert len(name) == 8
    assert f"anywhere else: perdure replay {BROKEN['token']}" in out
    core.requests.clear()
    assert command("replay", name)[0] == 0
    assert core.requests == [("replay", BROKEN["token"])]


def test_a_short_name_that_is_not_kept_is_refused_in_one_line(core, command, state):
    status, _, err = command("replay", "abcdefgh")
    assert (status, core.requests) == (2, [])
    assert err.startswith(f"perdure: no token is kept here as 'abcdefgh' (in {state}/perdure")
    assert err.count("\n") == 1


def test_where_tokens_cannot_be_kept_only_the_short_form_is_missing(core, command, state):
    state.write_text("no folder")
    core.results["cut"].update(cuts=1, failed=1, results=[BROKEN])
    status, out, err = command("cut", "--", "program")
    assert (status, err) == (1, "")
    assert f"  again: perdure replay {BROKEN['token']}\n" in out
    assert "anywhere else" not in out


def test_the_newest_tokens_are_kept(state, monkeypatch):
    from perdure import tokens

    monkeypatch.setattr(tokens, "KEPT", 3)
    found = [f"p2-TOKEN{number}" for number in range(5)]
    for moment, token in enumerate(found):
        tokens.remember([token])
        kept = state / "perdure/tokens" / tokens.short(token)
        if kept.exists():
            os.utime(kept, (moment, moment))
    tokens.remember([])
    assert len(list((state / "perdure/tokens").iterdir())) == 3
    assert tokens.full(tokens.short(found[4])) == found[4]
    with pytest.raises(Exception, match="no token is kept"):
        tokens.full(tokens.short(found[0]))
    assert tokens.full(found[0]) == found[0]


def completed(command, monkeypatch, line):
    """What bash is offered at the end of a line."""
    monkeypatch.setenv("_PERDURE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
    return command()[1].split()


@pytest.mark.parametrize(("line", "offered"), [
    ("perdure run --design nvo", ["nvoverlay"]),
    ("perdure compare --design ideal,pic", ["ideal,picl", "ideal,picl-l2"]),
    ("perdure run --machine x86", ["x86-pm"]),
    ("perdure run --set llc.bytes", ["llc.bytes_per_hart=", "llc.bytes_per_hart=2097152"]),
    ("perdure reproduce near", ["nearpm"]),
    ("perdure reproduce picl fig1", ["fig10", "fig11", "fig12", "fig13", "fig14", "fig14-log",
                                     "fig15", "fig15-commits", "fig15-flush", "fig16", "fig17",
                                     "fig18"]),
    ("perdure cut --design picl --planted-bug forw", ["forward-scan"]),
    ("perdure mutants --only ver", ["verifier"]),
    ("perdure list pap", ["papers"]),
    ("perdure sens", ["sensitivity"]),
])  # fmt: skip
def test_shells_complete_what_there_is(command, monkeypatch, line, offered):
    assert completed(command, monkeypatch, line) == offered


def test_completion_is_silent_where_the_core_refuses(core, command, monkeypatch):
    core.refusal = "there is no machine 'half'"
    assert completed(command, monkeypatch, "perdure run --machine half --set l") == []
    with pytest.raises(RecordedError):
        core.configuration("{}")


def test_the_manual_has_every_command_and_every_option(command):
    from typer.main import get_command

    from perdure import lines

    status, page, _ = command("man")
    assert status == 0
    plain = page.replace("\\-", "-")
    for name, one in get_command(lines.app).commands.items():
        assert f".SS perdure {name} " in plain
        for parameter in one.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert all(f"\\fB{option}\\fR" in plain for option in parameter.opts)
    for name in ("travel DIR epochs", "replica DIR resume", "bench speed"):
        assert f".SS perdure {name} " in plain
    assert "Traceback" not in page


@pytest.mark.parametrize("place", ["here:there", "here:", "here:70000", "::x"])
def test_an_address_gone_wrong_is_no_folder(core, command, place):
    for words in (("--", "program"), ("--from", "held")):
        status, _, err = command("replicate", "--to", place, *words)
        assert (status, core.requests) == (2, [])
        assert err.startswith(f"perdure: --to {place}: write HOST:PORT with a port below 65536")


@pytest.mark.parametrize("place", ["foo", ":7", "host:x", "host:70000"])
def test_where_a_replica_listens_is_said_as_it_is_written(command, place):
    status, _, err = command("replica", "held", "serve", "--listen", place)
    assert status == 2
    assert err.startswith(f"perdure: --listen {place}: write HOST:PORT, as in 127.0.0.1:7433")


@pytest.mark.parametrize("exists", [True, False])
def test_what_is_no_replica_is_made_by_replicate(exists, core, command, monkeypatch, tmp_path):
    def refuses(*_):
        raise RecordedError("held is no snapshot store; 'perdure run --snapshots DIR' makes one")

    monkeypatch.chdir(tmp_path)
    if exists:
        (tmp_path / "held").mkdir()
    monkeypatch.setattr(core, "resume", refuses, raising=False)
    status, _, err = command("replica", "held", "resume")
    assert status == 2
    assert err == (
        "perdure: held is no replica; 'perdure replicate --to DIR -- PROGRAM ARG...' makes one\n"
    )

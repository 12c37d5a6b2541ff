"""A preset's sensitivity: what is declared, what runs, what table and sentences come of it."""

import json
import sys
from pathlib import Path

import pytest
from conftest import RUN, check_schema

from perdure import PerdureError
from perdure.experiments import declaration, execute, programs, sensitivity

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))
import presets

SPEED = {"ideal": 1.0, "journaling": 1.1, "shadow-paging": 1.3, "frm": 1.2, "thynvm": 1.4}


def slower(design, overrides):
    """FRM needs banks: with four it is the slowest, with sixteen it passes journaling."""
    if design == "frm" and "nvm.banks=4" in overrides:
        return 2.0
    if design == "frm" and "nvm.banks=16" in overrides:
        return 1.05
    return SPEED.get(design, 1.01)


def answer(task):
    """A region as long as was asked for; ThyNVM fails with a slow link."""
    request = json.loads(task)["request"]
    design, measure = request["design"], request["measure_instructions"]
    if design == "thynvm" and "link.frequency_mhz=400" in request["set"]:
        return json.dumps({"error": "no room for the checkpoint"})
    share = {
        "cycles": round(measure * slower(design, request["set"])),
        "instructions": measure,
    }
    region = {
        "cycles": share["cycles"],
        "instructions": measure,
        "programs": [share] * len(request["programs"]),
        "statistics": {},
    }
    ended = [{"exit_code": None, "runs": 0, "instructions": measure, "arguments": []}]
    result = {**RUN, "design": design, "exit_code": None, "region": region}
    return json.dumps({"result": {**result, "programs": ended * len(request["programs"])}})


@pytest.fixture
def preset(core, monkeypatch, tmp_path):
    """Runs PiCL's table with programs that need no compiler, where the preset has eight banks."""

    def configuration(request):
        asked = json.loads(request)
        own = {"nvm.banks=8", "nvm.scheduling=fcfs", "nvm.home_interleaving=line"}
        own |= {"nvm.read_queue_entries=32", "nvm.write_queue_entries=32"}
        own |= {"link.frequency_mhz=1600"}
        asked["set"] = sorted(set(asked["set"]) - own)
        text = json.dumps({key: asked[key] for key in ("design", "set", "harts", "machine")})
        return json.dumps({"toml": text, "hash": f"{abs(hash(text)):016x}", "values": {}})

    def provide(entries, _scales, out, **_more):
        digests = {f"kernel/{one.program}": one.name for one in entries}
        return programs.Provided({one.name: one for one in entries}, {}, out, None, {}, digests)

    monkeypatch.setattr(execute, "execute", answer)
    monkeypatch.setattr(core, "configuration", configuration)
    monkeypatch.setattr(programs, "provide", provide)
    return lambda: sensitivity.run("picl", tmp_path)


def test_what_is_declared_can_be_run(core):
    assert sensitivity.names() == ["nvoverlay", "picl"]
    for name in sensitivity.names():
        asked = sensitivity.declared(name)
        paper = declaration.paper(asked.paper)
        assert set(asked.designs) < {design.name for design in paper.designs}
        assert paper.baseline not in asked.designs
        varied = [one.key for one in asked.varied]
        for what in (
            "nvm.banks",
            "nvm.scheduling",
            "nvm.write_queue_entries",
            "link.frequency_mhz",
        ):
            assert what in varied
        files = paper.catalogues or programs.CATALOGUES
        known = {one.name for one in programs.catalogue(files=files)}
        assert {*asked.workloads, *asked.mix} <= known
    with pytest.raises(PerdureError, match="presets that have one: nvoverlay, picl"):
        sensitivity.declared("nothing")


def test_each_key_is_varied_alone_around_the_preset(preset, tmp_path):
    done = preset()
    asked = sensitivity.declared("picl")
    settings = [(one["key"], one["value"]) for one in done.table["settings"]]
    assert settings[0] == ("preset", "")
    own = {one["key"]: one["preset"] for one in done.table["varied"]}
    assert own["nvm.banks"] == "8"
    assert own["nvm.scheduling"] == "fcfs"
    tried = [(one.key, value) for one in asked.varied for value in one.values]
    assert settings[1:] == [pair for pair in tried if own[pair[0]] != pair[1]]
    for one in done.table["settings"]:
        for design in one["designs"].values():
            assert design["mean"] is None or set(design["subjects"]) == {*asked.workloads, "mix"}
    kept = json.loads((tmp_path / "sensitivity.json").read_text())
    assert kept == done.table
    check_schema("sensitivity", kept)
    assert (tmp_path / "results.parquet").stat().st_size > 0
    assert not done.interrupted


def test_ranks_follow_the_times_and_a_failed_point_has_none(preset):
    done = preset()
    lines = {f"{one['key']}={one['value']}": one["designs"] for one in done.table["settings"]}
    ranks = {name: design["rank"] for name, design in lines["preset="].items()}
    assert ranks == {"picl": 1, "journaling": 2, "frm": 3, "shadow-paging": 4, "thynvm": 5}
    assert lines["nvm.banks=4"]["frm"]["rank"] == 5
    assert lines["nvm.banks=16"]["frm"]["rank"] == 2
    assert lines["nvm.banks=16"]["frm"]["mean"] == pytest.approx(1.05)
    slow = lines["link.frequency_mhz=400"]
    assert slow["thynvm"] == {"mean": None, "rank": None, "subjects": {}}
    assert slow["shadow-paging"]["rank"] == 4
    assert {one.point.design for one in done.failures} == {"thynvm"}


@pytest.mark.usefixtures("preset")
def test_the_command_prints_the_table_and_says_what_failed(command, tmp_path):
    file = tmp_path / "table.json"
    status, out, _ = command("sensitivity", "picl", "--out", tmp_path, "--json", file)
    assert status == 1
    assert "nvm.banks=4" in out
    assert "2.000 (5)" in out
    assert "failed: quantum thynvm" in out
    assert json.loads(file.read_text()) == json.loads((tmp_path / "sensitivity.json").read_text())


def test_sentences_are_read_off_the_numbers(preset, monkeypatch):
    table = preset().table
    monkeypatch.setattr(presets, "found", lambda _preset: table)
    words = presets.said("picl", None)
    assert "with `nvm.banks = 4`, Shadow passes FRM, ThyNVM passes FRM" in words
    assert "with `nvm.banks = 16`, FRM passes Journal" in words
    assert "`nvm.scheduling`" in words.split("What was tried of")[1].split("changes none")[0]
    assert "The largest move is FRM's, from 1.200 to 2.000 with `nvm.banks = 4`." in words
    assert "Faster than" not in words
    header, body = presets.sensitivity("picl", "mix")
    assert header == ["", "Journal", "Shadow", "FRM", "ThyNVM", "PiCL"]
    assert body[0] == [
        "the preset",
        "1.100 (2)",
        "1.300 (4)",
        "1.200 (3)",
        "1.400 (5)",
        "1.010 (1)",
    ]
    slow = next(line for line in body if line[0] == "`link.frequency_mhz = 400`")
    assert slow[4] == "–"


def test_every_value_that_decides_something_says_where_it_is_from():
    for preset in ("picl", "nvoverlay"):
        deciding = [key for key in presets.effective(preset) if key.decides]
        assert len(deciding) > 50
        for key in deciding:
            source = key.source.removeprefix("picl: ")
            assert source.startswith(("paper", "artifact", "ours")), key.name
    timed = {key.name for key in presets.effective("picl") if key.decides}
    for section in ("core", "l1d", "l2", "llc", "link", "nvm"):
        mine = {key.name for key in presets.keys("picl") if key.name.startswith(f"{section}.")}
        assert mine <= timed, mine - timed

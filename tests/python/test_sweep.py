"""Sweeps and the running of points: a recorded core, a real Dask cluster within this process."""

import copy
import json
import os
import signal
import threading
import time

import polars
import pytest
from conftest import RUN

import perdure
from perdure.experiments import cluster, execute
from perdure.experiments.cache import Cache
from perdure.experiments.point import (
    Campaign,
    Point,
    Program,
    Surroundings,
    scratch_mounts,
    sysroot_digest,
    tree_digest,
)


def answer(task):
    """What the core would say: cycles follow from design and overrides, FRM always fails."""
    request = json.loads(task)["request"]
    if request["design"] == "frm":
        return json.dumps({"error": "no room for the log"})
    result = copy.deepcopy(RUN)
    result["design"] = request["design"]
    result["sim"]["cycles"] = 1000 + 100 * len(request["design"]) + len("".join(request["set"]))
    return json.dumps({"result": result})


@pytest.fixture
def simulator(core, monkeypatch, tmp_path):
    """Counts the points that really run; configurations are what was asked for."""
    calls = tmp_path / "calls"
    calls.mkdir()

    def run(task):
        fresh = f"{time.monotonic_ns()}-{threading.get_ident()}"
        (calls / fresh).write_text(task)
        return answer(task)

    def configuration(request):
        asked = json.loads(request)
        text = json.dumps({key: asked[key] for key in ("design", "set", "harts", "machine")})
        return json.dumps({"toml": text, "hash": f"{abs(hash(text)):x}", "values": {}})

    monkeypatch.setattr(execute, "execute", run)
    monkeypatch.setattr(core, "configuration", configuration)
    return lambda: len(list(calls.iterdir()))


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF")
    return path


def sweep(program, out, **more):
    more.setdefault("designs", ["ideal", "picl"])
    return perdure.sweep([program, "7"], set={"nvm.banks": [4, 8]}, out=out, **more)


def test_every_design_runs_with_every_value(simulator, program, tmp_path):
    done = sweep(program, tmp_path / "out")
    assert done.data["design"].to_list() == ["ideal", "picl", "ideal", "picl"]
    assert done.data["nvm.banks"].to_list() == ["4", "4", "8", "8"]
    assert done.data["l1d.misses"].to_list() == [RUN["statistics"]["l1d.misses"]["value"]] * 4
    assert next(row["relative"] for row in done.rows()) == 1.0
    assert (simulator(), len(done.failures), done.interrupted) == (4, 0, False)
    kept = polars.read_parquet(tmp_path / "out/results.parquet")
    assert kept.equals(done.data)
    assert all(path.stat().st_size > 0 for path in done.figures)


def test_units_are_in_the_data_set(simulator, program, tmp_path):
    import pyarrow.parquet

    sweep(program, tmp_path / "out")
    schema = pyarrow.parquet.read_schema(tmp_path / "out/results.parquet")
    assert schema.field("l1d.misses").metadata[b"unit"] == b"accesses"
    assert schema.field("cycles").metadata[b"unit"] == b"cycles"
    told = [schema.field(name).metadata[b"meaning"] for name in ("key", "config_hash", "cycles")]
    assert all(told) and not schema.field("nvm.banks").metadata
    meanings = polars.read_parquet(tmp_path / "out/statistics.parquet")
    assert set(meanings["statistic"]) == set(RUN["statistics"])


def test_a_key_that_was_set_has_unit_and_meaning(simulator, program, tmp_path, monkeypatch, core):
    import pyarrow.parquet

    answered = core.configuration

    def configuration(request):
        setting = {"unit": "ns", "meaning": "how long", "value": 1, "source": "", "decides": ""}
        return json.dumps({**json.loads(answered(request)), "values": {"nvm.x_ns": setting}})

    monkeypatch.setattr(core, "configuration", configuration)
    perdure.sweep([program], set={"nvm.x_ns": 1}, out=tmp_path / "out")
    field = pyarrow.parquet.read_schema(tmp_path / "out/results.parquet").field("nvm.x_ns")
    assert field.metadata == {b"unit": b"ns", b"meaning": b"how long"}


def test_each_configuration_is_in_the_file_once_and_in_no_row(simulator, program, tmp_path):
    done = sweep(program, tmp_path / "out")
    assert "configuration" not in done.data.columns
    texts = done.configurations()
    assert set(texts) == set(done.data["config_hash"])
    assert {json.loads(text)["design"] for text in texts.values()} == {"ideal", "picl"}


def test_a_sweep_as_a_frame_a_line_and_a_cell(simulator, program, tmp_path):
    done = sweep(program, tmp_path / "out")
    assert done.to_frame()["relative"].to_list() == [row["relative"] for row in done.rows()]
    assert repr(done).startswith("Sweep(points: 4, failed: 0, designs: ideal, picl")
    assert "<td>picl</td>" in done._repr_html_()


def test_a_sweep_takes_a_program_as_one_text(simulator, program, tmp_path):
    done = perdure.sweep(f"{program} 7", designs=["ideal"], out=tmp_path / "out")
    assert len(done.data) == 1


def test_a_sweep_takes_designs_as_one_text(simulator, program, tmp_path):
    done = sweep(program, tmp_path / "out", designs="picl")
    assert (list(done.designs), len(done.data)) == (["picl"], 2)
    done = sweep(program, tmp_path / "out", designs="ideal,picl")
    assert done.data["design"].to_list() == ["ideal", "picl", "ideal", "picl"]


def test_values_without_their_keys_are_refused(simulator, program, tmp_path):
    with pytest.raises(perdure.PerdureError, match="give keys with their values"):
        perdure.sweep(program, set="nvm.banks=4", out=tmp_path / "out")
    assert simulator() == 0


def test_what_is_there_is_not_run_again_and_an_extended_sweep_runs_the_rest(
    simulator, program, tmp_path
):
    sweep(program, tmp_path / "out")
    assert len(sweep(program, tmp_path / "out").data) == 4
    assert simulator() == 4
    more = perdure.sweep(
        [program, "7"], designs=["ideal", "picl"], set={"nvm.banks": [4, 8, 16]},
        out=tmp_path / "out",
    )  # fmt: skip
    assert (len(more.data), simulator()) == (6, 6)


def test_other_pools_are_other_points_and_no_point_changes_them(simulator, program, tmp_path):
    kept = tmp_path / "pools"
    for content, runs in [(None, 4), ("1", 8), ("1", 8), ("2", 12)]:
        if content is not None:
            kept.mkdir(exist_ok=True)
            (kept / "pool").write_text(content)
        sweep(program, tmp_path / "out", pmem=kept)
        assert simulator() == runs
    request = {"pmem": "{scratch}", "kept_pools": str(kept), "made": []}
    assert execute._make_pools({"request": request}, tmp_path) is None
    copied = tmp_path / "pmem"
    assert request == {"pmem": str(copied)}
    (copied / "pool").write_text("3")
    assert (kept / "pool").read_text() == "2"
    with pytest.raises(perdure.PerdureError, match="program: no directory"):
        sweep(program, tmp_path / "out", pmem=program)


def test_another_program_under_the_same_name_is_another_point(simulator, program, tmp_path):
    sweep(program, tmp_path / "out")
    program.write_bytes(b"\x7fELF changed")
    sweep(program, tmp_path / "out")
    assert simulator() == 8


def test_a_damaged_result_is_computed_again(simulator, program, tmp_path):
    sweep(program, tmp_path / "out")
    victim = next((tmp_path / "out/points").iterdir())
    victim.write_text(victim.read_text()[:40])
    with pytest.warns(UserWarning, match=rf"{victim.name}: it is damaged"):
        assert len(sweep(program, tmp_path / "out").data) == 4
    assert simulator() == 5


def test_a_failed_point_is_reported_stops_nothing_and_is_tried_again(simulator, program, tmp_path):
    done = sweep(program, tmp_path / "out", designs=["ideal", "frm", "picl"])
    assert done.data["design"].to_list() == ["ideal", "picl", "ideal", "picl"]
    assert done.failures["error"].to_list() == ["no room for the log"] * 2
    assert simulator() == 6
    sweep(program, tmp_path / "out", designs=["ideal", "frm", "picl"])
    assert simulator() == 8


def test_the_number_of_workers_changes_nothing(simulator, program, tmp_path):
    one = sweep(program, tmp_path / "one", workers=1).data
    four = sweep(program, tmp_path / "four", workers=4).data
    assert one.equals(four)


def test_ctrl_c_keeps_what_is_finished(request, core, simulator, program, tmp_path, monkeypatch):
    main = os.getpid()
    # Where the tests run in the background, a shell may have told them to ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def slow(task):
        if json.loads(task)["request"]["set"] == ["nvm.banks=8"]:
            time.sleep(0.5)
            os.kill(main, signal.SIGINT)
            time.sleep(1)
        return answer(task)

    monkeypatch.setattr(execute, "execute", slow)
    done = sweep(program, tmp_path / "out", workers=1)
    assert done.interrupted
    finished = len(done.data)
    assert finished >= 2
    monkeypatch.setattr(execute, "execute", answer)
    rest = sweep(program, tmp_path / "out")
    assert (len(rest.data), rest.interrupted) == (4, False)


def test_a_scheduler_that_does_not_answer_is_a_message(simulator, program, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(perdure.PerdureError, match="no Dask scheduler answers there"):
        sweep(program, tmp_path / "out", scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"designs": []}, "needs a design"),
        ({"programs": ["./another"]}, "both `program` and `programs` are given"),
        ({"sysroot": "/nowhere"}, "not a directory"),
        ({"mounts": ["/nowhere:/data"]}, "is no directory"),
        ({"warm_up": 1000}, "without --measure"),
        ({"warm_up": 1000, "measure_threads": True}, "with --measure-threads"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(
    simulator, program, tmp_path, more, message
):
    with pytest.raises(perdure.PerdureError, match=message):
        sweep(program, tmp_path / "out", **more)
    assert simulator() == 0


def test_a_missing_program_is_refused(simulator, tmp_path):
    with pytest.raises(perdure.PerdureError, match="does not exist"):
        sweep(tmp_path / "absent", tmp_path / "out")


def test_the_command_prints_a_table_and_exits_1_if_a_point_failed(
    simulator, program, tmp_path, command
):
    words = ("sweep", "--set", "nvm.banks=4,8", "--out", tmp_path / "out", "--design")
    status, out, err = command(*words, "ideal,picl", "--", program, "7")
    assert status == 0
    assert "nvm.banks" in out
    assert "results.parquet" in err
    status, out, _ = command(*words, "ideal,frm", "--", program, "7")
    assert status == 1
    assert "no room for the log" in out


def test_a_malformed_set_is_refused(core, command, program):
    status, _, err = command("sweep", "--set", "nvm.banks", "--", program)
    assert (status, core.requests) == (2, [])
    assert "--set nvm.banks: write KEY=VALUE" in err


def point(**more):
    return Point(name="p", design="picl", programs=(Program("p", ("/a/p", "1"), "d1"),), **more)


def test_a_key_says_what_runs_and_not_where(core):
    there = Point(name="q", design="picl", programs=(Program("q", ("/b/p", "1"), "d1"),))
    assert point().key() == there.key()
    assert point(remark="for people").key() == point().key()
    other = [
        point(warm_up=1),
        point(measure=2),
        point(repeat=True),
        point(surroundings=Surroundings(digest="x")),
        Point(name="p", design="picl", programs=(Program("p", ("/a/p", "2"), "d1"),)),
        Point(name="p", design="picl", programs=(Program("p", ("/a/p", "1"), "d2"),)),
    ]
    assert len({one.key() for one in [point(), *other]}) == 7


def test_a_measured_region_must_be_whole(core):
    measured = {"cycles": 5, "instructions": 9, "statistics": {}}
    whole = {**RUN, "region": {**measured, "programs": [{"cycles": 5, "instructions": 10}]}}
    short = {**RUN, "region": {**measured, "programs": [{"cycles": 5, "instructions": 9}]}}
    asked = point(measure=10)
    assert cluster.problem(asked, whole) is None
    assert "ended after 9 of the region's 10" in cluster.problem(asked, short)
    assert "before the measured region" in cluster.problem(asked, {**RUN, "region": None})
    ended = {**whole, "programs": [{"exit_code": 1}]}
    assert "ended with status 1" in cluster.problem(asked, ended)


def test_scratch_is_fresh_for_each_run(tmp_path):
    first, kept = scratch_mounts(["{scratch}:/tmp/0", "/in:/inputs"], tmp_path)
    second, _ = scratch_mounts(["{scratch}:/tmp/0", "/in:/inputs"], tmp_path)
    assert kept == "/in:/inputs"
    assert first != second
    assert first.endswith(":/tmp/0")


def test_a_folder_is_its_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    before = tree_digest([tmp_path])
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = tree_digest([tmp_path])
    (tmp_path / "b").write_text("2")
    assert len({before, renamed, tree_digest([tmp_path])}) == 3


def test_a_result_is_whole_or_absent(core, tmp_path):
    cache = Cache(tmp_path)
    asked = point()
    cache.save("k", asked, RUN)
    loaded = cache.load("k", asked)
    assert loaded["point"]["programs"][0]["command"] == ["p", "1"]
    assert "/a/" not in json.dumps(loaded)
    assert [path.name for path in cache.folder.iterdir()] == ["k.json"]
    assert cache.load("other", asked) is None


def nested(depth):
    return "[" * depth + "]" * depth


CYCLES, SECONDS = RUN["sim"]["cycles"], RUN["host"]["seconds"]
DAMAGES = {
    "one digit": lambda text: text.replace(f'"cycles": {CYCLES}', f'"cycles": {CYCLES + 1}'),
    "a float": lambda text: text.replace(f'"seconds": {SECONDS}', '"seconds": 2.5'),
    "a key more": lambda text: text.replace("{", '{"more": 1,', 1),
    "another checksum": lambda text: text.replace('"checksum": "', '"checksum": "0'),
    "no checksum": lambda text: json.dumps({**json.loads(text), "checksum": None}),
    "null": lambda _text: "null",
    "a list": lambda _text: "[]",
    "a text": lambda _text: '"text"',
    "a number": lambda _text: "1e999",
    "no table": lambda _text: "{}",
    "nothing": lambda _text: "",
    "half": lambda text: text[: len(text) // 2],
    "nested": lambda _text: nested(100_000),
    "nested within": lambda text: text.replace('"result": {', f'"result": {nested(900)}, "r": {{'),
    "no text": lambda _text: "\udcff\udcfe",
    "zeros": lambda text: "\0" * len(text),
    "older": lambda text: text.replace('"schema": 2', '"schema": 1'),
    "newer": lambda text: text.replace('"schema": 2', '"schema": 3'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_named_and_not_used(damage, core, tmp_path):
    said = []
    cache = Cache(tmp_path, said.append)
    asked = point()
    cache.save("k", asked, RUN)
    path = cache.folder / "k.json"
    whole = path.read_text()
    damaged = DAMAGES[damage](whole)
    assert damaged != whole
    path.write_bytes(os.fsencode(damaged))
    assert cache.load("k", asked) is None
    (line,) = said
    assert line.startswith(f"{path}: it ")
    assert line.endswith(": the point is computed again")
    assert "\n" not in line


def test_what_was_kept_of_another_point_or_by_another_build_is_not_used(
    core, tmp_path, monkeypatch
):
    said = []
    cache = Cache(tmp_path, said.append)
    cache.save("k", point(), RUN)
    assert cache.load("k", point()) is not None
    (cache.folder / "k.json").rename(cache.folder / "l.json")
    assert cache.load("l", point()) is None
    assert "its key is another one" in said.pop()
    cache.save("k", point(), RUN)
    assert cache.load("k", point(overrides=("a.b=2",))) is None
    assert "its point is another one" in said.pop()
    monkeypatch.setattr("perdure.experiments.cache.core_digest", lambda: "another build")
    assert cache.load("k", point()) is None
    assert "its core is another one" in said.pop()
    (cache.folder / "m.json").mkdir()
    assert cache.load("m", point()) is None
    assert "directory" in said.pop()


def test_a_changed_file_of_a_sysroot_is_another_point(core, tmp_path):
    root = tmp_path / "root"
    (root / ".perdure").mkdir(parents=True)
    (root / ".perdure/unpacked").write_text("a_1_riscv64.deb\n")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root")
    before = sysroot_digest(root)
    (root / ".perdure/more").write_text("")
    assert sysroot_digest(root) == before
    (root / "etc/passwd").write_text("toor")
    assert sysroot_digest(root) != before


def test_campaigns_come_last_and_the_longest_of_them_first():
    program = Program("a", ("a",), "")
    cuts = Campaign(10, 1, during_recovery=True)
    wanted = {
        "a run": Point("a", "picl", (program,)),
        "cuts": Point("a", "picl", (program,), campaign=cuts),
        "a mix": Point("a", "picl", (program,) * 8),
        "cuts of a mix": Point("a", "picl", (program,) * 8, campaign=cuts),
        "cuts of another design": Point("a", "frm", (program,), campaign=cuts),
    }
    expected = ["a run", "a mix", "cuts of a mix", "cuts", "cuts of another design"]
    assert cluster.begun_in_order(wanted) == expected

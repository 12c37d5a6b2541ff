"""SPMS's experiments: what is declared, what programs are told, what comes of runs and of cuts."""

import dataclasses
import json
import re

import pytest
from conftest import RUN, planned_of

from perdure import _core
from perdure.experiments import declaration, execute, metrics, plan, tables
from perdure.experiments.point import SCRATCH, Point, Program

BENCHMARKS = ["hash", "btree", "rbtree", "sps", "sdg", "ssca2"]
VARIANTS = {"spms", "spms-reads", "spms-thread", "spms-tiny"}
RECOVER = {"wal", "hlog", "spms-tiny", "hlog-tiny"}


@pytest.fixture
def paper(core):
    return declaration.paper("spms")


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_figure_is_declared(paper, scale):
    found = declaration.experiments("spms", scale)
    identifiers = [claim.name for one in found.values() for claim in one.claims]
    assert len(identifiers) == len(set(identifiers))
    named = {one.name for one in paper.designs}
    for one in found.values():
        assert {*one.designs, one.baseline} <= named
        assert set(one.subjects) <= set(BENCHMARKS)
        assert one.claims or one.figure == "ours" or one.name == "fig4-drained"
        metrics.metric(one.metric)
        for claim in one.claims:
            assert claim.name.startswith(f"{one.name}-")
            assert re.fullmatch(r"V-[BC]", claim.section)
            assert {*claim.designs, claim.relative} - {None} <= {*one.designs}
            assert set(claim.of) <= set(one.subjects)
    assert set(paper.beside_cuts) <= set(found)
    written = {*declaration.reasons("spms", scale), *declaration.mechanisms("spms", scale)}
    assert written <= set(identifiers)
    probes = declaration.probes("spms", scale)
    shown = {one for names in declaration.shown_by("spms").values() for one in names}
    assert shown <= set(probes) or scale == "full"
    for probe in probes.values():
        figure = found[probe.figure]
        assert probe.subject in figure.subjects
        assert probe.design in figure.designs


def test_hlog_is_compared_in_each_benchmark():
    claims = declaration.experiments("spms", "quick")["fig3"].claims
    rows = [one for one in claims if one.relative == "hlog" and one.of]
    assert [one.of for one in rows] == [(name,) for name in BENCHMARKS]


def test_a_design_is_a_back_end_of_the_programs(paper, provided):
    told = {one.design: one.point for one in planned_of("fig3", paper, provided)}
    assert told["baseline"].design == told["wal"].design == "ideal"
    assert told["hlog"].design == "hlog"
    assert told["spms-table"].overrides == (
        "spms.cid_bits=0", "spms.tid_bits=0", "spms.sid_bits=12")  # fmt: skip
    ends = {name: point.programs[0].command[-2:] for name, point in told.items()}
    assert ends["baseline"] == ("--back-end", "none")
    assert ends["spms"] == ends["spms-table"] == ("--back-end", "strand")


def test_tables_of_strands_change_no_run_without_strands(paper, provided):
    planned = planned_of("buffer-throughput", paper, provided)
    without = [one.point for one in planned if one.design == "baseline"]
    assert not any(one.overrides for one in without)
    assert len({one.overrides for one in (p.point for p in planned) if one.design == "spms"}) > 1


def test_cuts_recover_and_check_alone(paper, provided):
    planned = plan.plan_cuts(declaration.cuts("spms", "quick"), paper, provided)
    assert {one.subject.removesuffix("-4") for one in planned} == set(BENCHMARKS)
    assert {one.design for one in planned} >= VARIANTS | RECOVER | {"baseline"}
    for one in planned:
        request, command = one.point.request(), one.point.programs[0].command
        assert request["restart"] is True
        assert request["then"] == [*command, "--recover"]
        assert request["cuts"] == 200
        assert "recover" not in request
        assert request["during_recovery"] == (one.design in RECOVER)
        assert ("--threads" in command) == one.subject.endswith("-4")


def test_full_campaigns_are_longer(paper):
    cuts = declaration.cuts("spms", "full")
    assert cuts.campaign("spms").cuts == 1000
    assert cuts.campaign("spms").asked(["a"])["then"] == ["a", "--recover"]


def region(cycles=100, **counters):
    entries = {name.replace("__", "."): {"value": value} for name, value in counters.items()}
    return {"cycles": cycles, "instructions": 2000, "statistics": entries, "ended": entries,
            "programs": [{"cycles": cycles, "instructions": 2000}]}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "counters", "value"),
    [
        ("throughput", {}, 0.5),
        ("write-traffic", {"nvm__written_bytes__total": 96}, 1.5),
        ("written", {"nvm__written_bytes__total": 2e6}, 2.0),
        ("written", {"spms__buffer__arrivals": 5, "spms__buffer__drained": 4}, 64e-6),
        ("flushed", {"nvm__writes": 200, "cache_block__cleaned": 1}, 0.5),
        ("group-size", {"spms__groups": 4, "spms__strands__committed": 6}, 1.5),
        ("largest-group", {"spms__groups__largest": 8}, 8.0),
        ("forced-lines", {"spms__buffer__arrivals": 4, "spms__forced__lines": 3}, 75.0),
        ("coalesced", {"spms__buffer__arrivals": 4, "spms__buffer__superseded": 1}, 25.0),
        ("strand-buffer-reads", {"nvm__reads": 3, "spms__buffer__reads": 1}, 25.0),
        ("strand-buffer-peak", {"spms__buffer__peak": 32}, 2.0),
        ("energy", {"spms__energy_peak": 512}, 0.5),
        ("lag-median", {"spms__strands__committed": 1, "spms__lag__median": 5000}, 2.0),
        ("lag-p99", {"spms__strands__committed": 1, "spms__lag__p99": 2500}, 1.0),
        ("lag-worst", {"spms__strands__committed": 1, "spms__lag__worst": 1250}, 0.5),
    ],
)
def test_what_is_measured(name, counters, value):
    chosen = metrics.metric(name)
    base = region(nvm__written_bytes__total=64)
    assert chosen.compute(region(200, **counters), base, 1) == {None: pytest.approx(value)}
    if chosen.relative:
        assert chosen.compute(region(200, **counters), None, 1) is None


@pytest.mark.parametrize("name", ["group-size", "largest-group", "forced-lines", "lag-median"])
def test_what_has_no_strands_has_no_value(name):
    assert metrics.metric(name).compute(region(), None, 1) is None


def cut(verdict, **more):
    return {"verdict": verdict, "cycle": 9, "token": "T", "resumed": False, **more}


RESULTS = [
    cut("verified", without_before="strand 1 of thread 0 is missing"),
    cut("restart-failed", without_loaded="strand 2 is missing", restarts=[{"output": "WRONG"}]),
    cut("restart-failed", cycle=5, restarts=[{"output": "WRONG too"}]),
    cut("memory-differs"),
]


@pytest.fixture
def rows(paper, provided):
    """What cuts come to, were all campaigns as above."""
    result = {"cuts": 4, "verified": 1, "failed": 3, "results": RESULTS}
    result["coverage"] = {"paths": {"strands merged": 2}, "cuts_during_recovery": 1}
    planned = plan.plan_cuts(declaration.cuts("spms", "quick"), paper, provided)
    stored = {one.point.key(): {"result": result} for one in planned}
    return tables.cuts(planned, stored, paper)


def test_a_broken_program_is_told_from_a_broken_promise(rows):
    row = next(one for one in rows if one["design"] == "spms")
    assert (row["failed"], row["program_broken"], row["expected"]) == (3, 2, "kept")
    assert row["without"] == {"without_loaded": 1, "without_before": 1}
    assert row["paths"] == {"strands merged": 2}
    assert row["example"]["said"] == "WRONG too", "the earliest"
    expected = {one["design"]: one["expected"] for one in rows}
    assert expected["baseline"] == "broken"
    assert expected["wal"] == expected["hlog"] == "sound"


def test_cuts_of_one_and_four_threads_stand_beside_what_was_measured(rows, paper):
    values = [{"subject": "rbtree", "design": "spms-reads", "value": 0.75}]
    figures = [{"name": "order-lag", "values": values}, {"name": "fig3", "values": values}]
    beside = tables.beside_cuts(rows, figures, paper)
    assert {one["design"] for one in beside} == VARIANTS
    chosen = {(one["program"], one["design"]): one for one in beside}
    row = chosen["rbtree", "spms-reads"]
    assert (row["cuts"], row["promise_broken"], row["program_broken"]) == (8, 2, 4)
    assert row["measured"] == {"order-lag": 0.75}
    assert chosen["hash", "spms"]["measured"] == {"order-lag": None}


@pytest.fixture
def asked(core, monkeypatch, tmp_path):
    """Every run that is asked for, the pool that it makes, and whether it had one before."""
    seen = []

    def run(text, _watch):
        request = json.loads(text)
        pool = execute.Path(request["pmem"]) / "a"
        seen.append((request, pool.exists()))
        pool.parent.mkdir(exist_ok=True)
        pool.touch()
        return json.dumps({**RUN, "exit_code": 0})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_core, "run", run)
    return seen


def executed(point, pools):
    request = {**point.request(), "mounts": [], "made_in": str(pools)}
    return execute._outcome(
        {"version": execute.__version__, "core": execute.core_digest(), "files": {},
         "command": "run", "folder": None, "request": request})  # fmt: skip


def test_pools_are_made_once_for_all_that_begin_with_them(asked, tmp_path):
    program = Program("a", ("a", "/pmem/a"), "")
    for size in ("1MiB", "2MiB"):
        point = Point("a", "ideal", (program,), overrides=(f"llc.bytes_per_hart={size}",),
                      pools=True, made=((*program.command, "--make"),))  # fmt: skip
        assert "error" not in executed(point, tmp_path / "pools")
    (making, _), (first, had), (second, had_too) = asked
    assert making["program"] == ["a", "/pmem/a", "--make"]
    assert making["set"] == [], "what is in a pool does not depend on the machine"
    assert had and had_too
    assert SCRATCH not in (first["pmem"], second["pmem"])
    assert first["pmem"] != second["pmem"]
    (kept,) = (tmp_path / "pools").iterdir()
    assert [path.name for path in kept.iterdir()] == ["a"]


def test_what_no_pool_shows_makes_no_other_pool(asked, tmp_path):
    def makings(*tails):
        for tail in tails:
            program = Program("a", ("a", "/pmem/a", *tail), "")
            point = Point("a", "ideal", (program,), pools=True,
                          made=((*program.command, "--make"),))  # fmt: skip
            assert "error" not in executed(point, tmp_path / "pools")
        return sum("--make" in request["program"] for request, _ in asked)

    assert (
        makings([], ["--no-check"], ["--per-strand", "4", "--drain"], ["--per-strand", "16"]) == 1
    )
    assert makings(["--threads", "4"], ["--no-check", "--threads", "4"]) == 2
    assert makings(["--acknowledge", "10"]) == 3


def test_a_pool_that_cannot_be_made_is_no_other_point_s(core, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    core.results["run"]["exit_code"] = 2
    point = Point("a", "ideal", (Program("a", ("a",), ""),), pools=True, made=(("a", "--make"),))
    failed = executed(point, tmp_path / "pools")
    assert failed == {"error": "a --make ended with status 2"}
    assert list((tmp_path / "pools").iterdir()) == []


def test_a_setting_says_how_many_harts_a_machine_has():
    one = Point("a", "spms", (Program("a", ("a",), "0"),))
    assert one.harts_of_machine == 1
    assert dataclasses.replace(one, harts=2).harts_of_machine == 2
    assert dataclasses.replace(one, overrides=("harts=2", "harts = 4")).harts_of_machine == 4

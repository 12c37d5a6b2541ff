"""The flush study's experiments: what is declared, what programs are told, what comes of it."""

import dataclasses
import json
import re

import pytest
from conftest import RUN, planned_of

from perdure import _core
from perdure.experiments import (
    cache,
    claims,
    cluster,
    declaration,
    execute,
    metrics,
    narrowing,
    plan,
    programs,
    tables,
)
from perdure.experiments.claim import Claim
from perdure.experiments.measured import Measured
from perdure.experiments.plan import Planned, Value
from perdure.experiments.point import SCRATCH, Campaign, Point, Program

STRUCTURES = ["bst", "bst-p", "cuh", "que", "rbt"]


@pytest.fixture
def paper(core):
    return declaration.paper("flush")


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_figure_is_declared(paper, scale):
    found = declaration.experiments("flush", scale)
    identifiers = [claim.name for one in found.values() for claim in one.claims]
    assert len(identifiers) == len(set(identifiers))
    named = {one.name for one in paper.designs}
    subjects = {entry.name for entry in programs.catalogue(files=paper.catalogues)}
    for one in found.values():
        assert {*one.designs, one.baseline} <= named
        assert set(one.subjects) <= subjects | set(paper.mixes)
        assert one.claims or "ours" in one.figure
        metrics.metric(one.metric)
        if one.axis is not None:
            assert set(one.axis.of) <= {*STRUCTURES}
        for claim in one.claims:
            assert claim.name.startswith(f"{one.name}-")
            assert claim.quotation
            assert re.fullmatch(r"[IVX]+(-[A-C])?", claim.section)
            extremes = {claim.greatest_subject, claim.least_subject} - {None}
            assert extremes <= set(one.subjects)
            assert claim.at is None or claim.at in one.axis.shown
            assert {*claim.designs, *claim.ordering, claim.relative} - {None} <= {*one.designs}
    written = {*declaration.reasons("flush", scale), *declaration.mechanisms("flush", scale)}
    assert written <= set(identifiers)


def test_a_design_is_what_programs_are_told(paper, provided):
    planned = planned_of("fig5", paper, provided, subjects=("bst", "que"))
    assert {one.design for one in planned} == {"none", "clflush", "clflushopt", "clwb"}
    for one in planned:
        assert one.point.design == "ideal"
        (program,) = one.point.programs
        assert program.command[-2:] == ("--primitive", one.design)
        assert program.command[1] == f"/pmem/{one.subject}"
    keys = {one.point.key() for one in planned}
    assert len(keys) == len(planned) == 2 * 4 * 4


def test_an_axis_of_arguments_may_differ_for_a_subject(paper, provided):
    planned = planned_of("fig5", paper, provided, subjects=("bst", "que"), designs=("clwb",))
    told = {(one.subject, one.axis): one.point.programs[0].command for one in planned}
    assert told["bst", 460][-6:-2] == ("--inserts", "460", "--operations", "1000")
    assert told["que", 460][-6:-2] == ("--inserts", "460", "--operations", "400")
    assert not any(set(one.point.overrides) & set(told["bst", 460]) for one in planned)


def test_one_place_of_an_axis_of_arguments(paper, provided):
    figures = declaration.experiments("flush", "quick")
    only = narrowing.Only(("que",), (), (7370,))
    found = narrowing.narrowed(figures, only, provided.entries, paper.mixes)["fig5"]
    assert found.axis.of == {"que": ("--inserts 1842 --operations 1000",)}
    planned = plan.plan(found, paper, paper.scales["quick"], provided, {})
    assert {one.axis for one in planned} == {7370}


def test_an_axis_with_too_few_settings_for_a_subject_is_refused(core, tmp_path):
    text = (declaration.FOLDER / "flush/fig5.toml").read_text()
    path = tmp_path / "fig5.toml"
    path.write_text(text.replace('    "--inserts 460 --operations 400",\n', ""))
    with pytest.raises(Exception, match="another number of settings"):
        declaration._experiment(path, "quick")


def test_pools_are_made_before_what_is_measured(paper, provided):
    one = planned_of("fig5", paper, provided, subjects=("bst",))[0]
    request = one.point.request()
    assert request["pmem"] == SCRATCH
    assert request["made"] == [[*one.point.programs[0].command, "--make"]]
    assert "measure_instructions" not in request
    assert "warm_up_instructions" not in request
    plain = dataclasses.replace(one.point, pools=False, made=())
    assert "pmem" not in plain.request()
    assert plain.key() != one.point.key()
    assert "made" not in cache.described(plain)
    assert str(provided.programs) not in json.dumps(cache.described(one.point))


def test_probes_are_of_what_their_figures_run(paper, provided):
    for scale in ("quick", "full"):
        figures = declaration.experiments("flush", scale)
        for probe in declaration.probes("flush", scale).values():
            assert narrowing.Only().chooses(probe, paper, {"ideal"})
            assert not narrowing.Only().chooses(probe, paper, {"picl"})
            assert not narrowing.Only(("lru-redo",)).chooses(probe, paper, {"ideal"})
            assert probe.subject in figures[probe.figure].subjects
            planned = plan.plan_probe(
                probe, figures[probe.figure], paper, paper.scales[scale], provided, paper.mixes
            ).planned
            own = [one.point for one in planned if one.experiment.endswith(", unchanged")]
            changed = [one.point for one in planned if one.point not in own]
            assert len(own) == len(changed)
            assert all({*probe.overrides} <= {*one.overrides} for one in changed)


def task(point):
    request = {**point.request(), "mounts": []}
    return {"version": execute.__version__, "core": execute.core_digest(), "files": {},
            "command": point.command, "folder": None, "request": request}  # fmt: skip


@pytest.mark.parametrize("status", [0, 1])
def test_a_point_finds_the_pools_that_its_programs_made(core, monkeypatch, tmp_path, status):
    monkeypatch.chdir(tmp_path)
    point = Point("a", "ideal", (Program("a", ("a", "/pmem/a"), ""),), pools=True,
                  made=(("a", "/pmem/a", "--make"),))  # fmt: skip
    asked = []

    def run(text, _watch):
        asked.append(json.loads(text))
        return json.dumps({**RUN, "exit_code": status if len(asked) == 1 else 0})

    monkeypatch.setattr(_core, "run", run)
    outcome = execute._outcome(task(point))
    if status:
        assert outcome == {"error": "a /pmem/a --make ended with status 1"}
        return
    made, measured = asked
    assert made["program"] == ["a", "/pmem/a", "--make"]
    assert measured["program"] == ["a", "/pmem/a"]
    assert made["pmem"] == measured["pmem"] != SCRATCH
    assert "made" not in measured


def test_a_campaign_names_what_it_needs_as_seen_from_the_folder_of_results(
    core, monkeypatch, tmp_path
):
    """Or a token would name a pool that is gone, and a folder of this host."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "out/programs/flush/a"
    place.parent.mkdir(parents=True)
    place.write_text("a program")
    point = Point("a", "ideal", (Program("a", (str(place), "/pmem/a"), ""),), pools=True,
                  made=((str(place), "/pmem/a", "--make"),),
                  campaign=Campaign(3, 1, False, restart=True, recover=True))  # fmt: skip
    asked, seen = [], []

    def run(text, _watch):
        pool = execute.Path(json.loads(text)["pmem"]) / "a"
        pool.parent.mkdir()
        pool.write_text("a pool")
        return json.dumps({**RUN, "exit_code": 0})

    def cut(text, _watch):
        asked.append(json.loads(text))
        seen.extend(execute.Path(one).read_text() for one in ("pmem/a", "programs/flush/a"))
        return json.dumps({"results": []})

    monkeypatch.setattr(_core, "run", run)
    monkeypatch.setattr(_core, "cut", cut)
    asking = task(point)
    asking["request"] |= {"made_in": str(tmp_path / "out/pools"), "beside": str(tmp_path / "out")}
    assert execute._outcome(asking) == {"result": {"results": []}}
    (request,) = asked
    assert request["pmem"] == "pmem"
    assert request["program"] == ["programs/flush/a", "/pmem/a"]
    assert request["then"] == ["programs/flush/a", "/pmem/a", "--recover"]
    assert "beside" not in request
    assert seen == ["a pool", "a program"]


def test_a_program_that_finds_its_pool_wrong_is_a_failed_point(core):
    point = Point("a", "ideal", (Program("a", ("a",), ""),), pools=True)
    assert cluster.problem(point, {**RUN, "exit_code": 1}) == "the program ended with status 1"
    assert cluster.problem(point, {**RUN, "exit_code": 0}) is None
    assert cluster.problem(dataclasses.replace(point, pools=False), RUN) is None


def test_cuts_lose_processes_and_start_programs_again(paper, provided):
    planned = plan.plan_cuts(declaration.cuts("flush", "quick"), paper, provided)
    for one in planned:
        request = one.point.request()
        assert request["restart"] is True
        assert "resume" not in request
        assert request["cuts"] == 200
        assert "--acknowledge" in one.point.programs[0].command
        assert one.point.machine == ("arm-pm" if one.design.startswith("c") and "v" in one.design
                                     else "x86-pm")  # fmt: skip
        assert ("persistence.domain=eadr" in one.point.overrides) == one.design.endswith("-eadr")
    assert not {"lru"} & {one.subject for one in planned}


def test_a_campaign_that_resumes_is_asked_as_before(core):
    assert "restart" not in Campaign(3, 1, True).asked()
    assert Campaign(3, 1, True).asked()["resume"] == "sample"


def test_cuts_without_flushes_are_expected_to_break(paper, provided):
    result = {"cuts": 2, "verified": 1, "failed": 1, "results": []}
    stored = {}
    planned = []
    for one in plan.plan_cuts(declaration.cuts("flush", "quick"), paper, provided):
        stored[one.point.key()] = {"result": result}
        planned.append(one)
    rows = {row["design"]: row["expected"] for row in tables.cuts(planned, stored, paper)}
    assert {name for name, expected in rows.items() if expected == "broken"} == {"none"}


def claim(**more):
    usual = dict.fromkeys(("limit", "at", "part", "at_least", "at_most", "greatest", "least"))
    usual |= {"kind": "ordering", "tolerance": 0.0, "change": False}
    return Claim(name="c", says="", quotation="q", section="IV", paper="", designs=("x",),
                 over="mean", among="maximum", ordering=(), drawn=False,
                 scaled=False, not_comparable=None, **{**usual, **more})  # fmt: skip


def judged(one, values, paper):
    figure = declaration.experiments("flush", "quick")["fig5"]
    found = [Value(subject, "x", axis, None, value, ()) for subject, axis, value in values]
    return claims.judge(one, figure, paper, found, factor=1, reason="r")


def test_one_subject_has_most_at_every_place(paper):
    values = [("que", 1, 3.0), ("bst", 1, 2.0), ("que", 2, 2.0), ("bst", 2, 2.1)]
    assert judged(claim(greatest_subject="que"), values[:2], paper).verdict == "holds"
    both = judged(claim(greatest_subject="que"), values, paper)
    assert (both.verdict, both.measured) == ("differs", 0.5)
    assert both.text == "1 of 2 places (elsewhere bst)"
    assert judged(claim(greatest_subject="que", tolerance=0.1), values, paper).verdict == "holds"
    assert judged(claim(least_subject="bst"), values[:2], paper).verdict == "holds"
    assert judged(claim(least_subject="bst"), values[:1], paper).verdict == "not comparable"


def test_a_rise_may_begin_within_the_axis(paper):
    values = [("que", 460, 9.0), ("que", 29490, 4.0), ("que", 131070, 3.0)]
    risen = claim(kind="value", change=True, since=29490, at_most=0)
    assert judged(risen, values, paper).measured == -1.0


def region(cycles=(100,), **counters) -> Measured:
    entries = {
        name.replace("__", "."): {"value": value, "unit": "", "meaning": ""}
        for name, value in counters.items()
    }
    shares = [{"cycles": one, "instructions": 1000} for one in cycles]
    return {"cycles": max(cycles), "instructions": 2000, "programs": shares,
            "statistics": entries, "ended": entries}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "counters", "value"),
    [
        ("slowdown", {}, 3.0),
        ("first-program", {}, 3.0),
        ("pool-reads", {"nvm__reads": 8}, 4.0),
        ("l1d-miss-rate", {"l1d__accesses": 50, "l1d__misses": 4}, 8.0),
        ("l1d-misses", {"l1d__misses": 4}, 2.0),
        ("head-stalls", {"window__head_stalls": 7}, 7.0),
        ("reserve", {"persistence__reserve_peak": 2048}, 2.0),
    ],
)
def test_what_is_measured(name, counters, value):
    chosen = metrics.metric(name)
    base = region(l1d__misses=2)
    assert chosen.compute(region((300,), **counters), base, 1) == {None: pytest.approx(value)}
    if chosen.relative:
        assert chosen.compute(region((300,), **counters), None, 1) is None


def test_a_co_runner_is_judged_alone():
    compute = metrics.metric("first-program").compute
    found, base = region((105, 900)), region((100, 300))
    base["programs"][0]["instructions"] = 400
    # 0.9 cycles for an instruction, in place of 0.75: however much the others get done.
    assert compute(found, base, 1) == {None: pytest.approx(1.2)}


def test_a_whole_run_has_no_region(paper, provided):
    planned: list[Planned] = planned_of("fig5", paper, provided, subjects=("bst-p",))
    assert not any(one.point.is_measured for one in planned)
    assert all("harts=4" in one.point.overrides for one in planned)

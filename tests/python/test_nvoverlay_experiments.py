"""NVOverlay's experiments: what is declared, what it runs, what comes of it."""

import dataclasses

import pytest

from perdure import workloads
from perdure.experiments import claims, declaration, metrics, plan, programs, tables
from perdure.experiments.declaration import Claim
from perdure.experiments.plan import Planned, Value
from perdure.experiments.point import Point
from perdure.experiments.programs import Provided
from perdure.experiments.toml import Table

FIGURES = ["fig11", "fig12", "fig13", "fig14a", "fig14b", "fig15a", "fig15b"]
FIGURES += ["fig16a", "fig16b", "fig16c", "fig17a", "fig17b"]
RIVALS = {"software-logging", "software-shadow", "hardware-shadow", "picl", "picl-l2"}
DESIGNS = {"ideal", "nvoverlay", *RIVALS}


@pytest.fixture
def paper(core):
    return declaration.paper("nvoverlay")


@pytest.fixture
def provided(paper, tmp_path):
    """The twelve programs, as if they had been compiled."""
    entries = programs.catalogue(files=paper.catalogues)
    entries = programs.measured(entries, declaration.regions("nvoverlay", "quick"), "quick")
    digests = {f"parallel/{entry.program}": entry.program for entry in entries}
    return Provided({one.name: one for one in entries}, {}, tmp_path, None, {}, digests)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_figure_is_declared(paper, scale):
    found = declaration.experiments("nvoverlay", scale)
    assert list(found) == FIGURES
    identifiers = [claim.name for one in found.values() for claim in one.claims]
    assert len(identifiers) == len(set(identifiers))
    subjects = {entry.name for entry in programs.catalogue(files=paper.catalogues)}
    for one in found.values():
        assert one.claims
        assert {*one.designs, one.baseline} <= DESIGNS
        parts = metrics.metric(one.metric).parts
        for claim in one.claims:
            assert claim.name.startswith(f"{one.name}-")
            assert claim.quotation
            assert claim.section.startswith("VII-")
            named = {*claim.designs, *claim.ordering, claim.greatest, claim.least} - {None}
            assert named <= set(one.designs)
            assert {*claim.of, *claim.apart_from} <= subjects
            assert claim.part is None or claim.part in parts
            assert claim.at is None or claim.at in one.axis.shown
    assert set(declaration.reasons("nvoverlay", scale)) <= set(identifiers)


def test_all_rivals_are_compared(paper):
    found = declaration.experiments("nvoverlay", "quick")
    assert set(found["fig11"].designs) == RIVALS | {"nvoverlay"}
    assert {one.name for one in paper.designs} == DESIGNS


def test_the_workloads_are_the_threaded_ones(provided):
    listed = Table.read(workloads.folder("workloads") / "parallel.toml").table("workload").names()
    assert set(provided.entries) == set(listed)
    assert len(listed) == 12


def test_every_quick_region_is_declared_and_short(provided):
    """Nothing is measured to a program's end, and nothing beyond the scaled limit."""
    for entry in provided.entries.values():
        assert 0 < entry.sizes["quick"].measure <= 100_000_000, entry.name


def test_every_design_runs_the_same_work_on_the_same_machine(core, paper, provided):
    eleven = declaration.experiments("nvoverlay", "quick")["fig11"]
    planned = plan.plan(eleven, paper, paper.scales["quick"], provided, {})
    assert len(planned) == 12 * 7
    for name in provided.entries:
        mine = [one.point for one in planned if one.subject == name]
        assert len({dataclasses.replace(one, design="") for one in mine}) == 1
        assert mine[0].harts == 16
        assert mine[0].machine == "nvoverlay"
    yada = next(one.point for one in planned if one.subject == "yada")
    assert "epoch.stores=18750" in yada.overrides
    kmeans = next(one.point for one in planned if one.subject == "kmeans")
    assert "epoch.stores=62500" in kmeans.overrides
    assert "-N4096" in kmeans.programs[0].command


def test_a_figure_has_its_own_baseline(core, paper, provided):
    twelve = declaration.experiments("nvoverlay", "quick")["fig12"]
    planned = plan.plan(twelve, paper, paper.scales["quick"], provided, {})
    assert {one.design for one in planned} == {"nvoverlay", "hardware-shadow", "picl", "picl-l2"}


def test_slices_follow_one_another(core, paper, provided):
    seventeen = declaration.experiments("nvoverlay", "quick")["fig17a"]
    planned = plan.plan(seventeen, paper, paper.scales["quick"], provided, {})
    mine = [one for one in planned if one.design == "picl"]
    whole = provided.entries["btree-olc"].sizes["quick"]
    assert [one.axis for one in mine] == list(seventeen.axis.shown)
    assert mine[-1].axis == 100
    at = whole.warm_up
    for one in mine:
        assert one.point.warm_up == at
        at += one.point.measure
    assert at == whole.warm_up + whole.measure


def test_power_cuts_are_of_four_threaded_programs(core, paper, provided):
    cuts = declaration.cuts("nvoverlay", "quick")
    planned = plan.plan_cuts(cuts, paper, provided)
    assert [one.subject for one in planned] == ["kmeans", "intruder", "btree-olc", "hash-map"]
    for one in planned:
        assert one.design == "nvoverlay"
        assert one.point.harts == 4
        assert one.point.campaign.cuts == 1000


def region(cycles=0, instructions=0, **counters):
    """A region; a counter `a__b_c` is the statistic `a.b_c`."""
    names = {name.replace("__", "."): {"value": value} for name, value in counters.items()}
    return {
        "cycles": cycles,
        "instructions": instructions,
        "statistics": names,
        "ended": names,
    }


def computed(name, measured, base=None):
    return metrics.metric(name).compute(measured, base, 0)


def test_work_is_counted_in_stores():
    """Twice the cycles for half the stores in as many instructions is four times as slow."""
    ideal = region(1000, 9000, l1d__stores=100)
    slow = region(2000, 9000, l1d__stores=50, nvm__written_bytes__total=600)
    design = region(1500, 9000, l1d__stores=100, nvm__written_bytes__total=400)
    assert computed("cycles-of-work", slow, ideal) == {None: 4.0}
    assert computed("bytes-of-work", slow, design) == {None: 3.0}
    assert computed("bytes-of-work", slow, ideal) is None
    assert computed("cycles-of-work", region(), ideal) is None


def test_sizes_are_those_at_the_end():
    ended = region(nvoverlay__master_bytes_now=900, nvoverlay__master_lines=100)["statistics"]
    measured = {**region(), "ended": ended}
    assert computed("master-table", measured) == {None: pytest.approx(14.0625)}
    assert computed("master-table", region()) is None


def test_departures_add_up_to_a_hundred():
    nvoverlay = region(
        versions__departed__capacity=60,
        versions__departed__downgrade=25,
        versions__departed__invalidation=5,
        versions__departed__walk=10,
    )
    parts = computed("departures", nvoverlay)
    assert parts == {"capacity": 60, "coherence": 30, "store eviction": 0, "tag walk": 10}
    # 100 lines written in place, of which the scan wrote 25; what the L2s do is no matter.
    picl = region(
        versions__departed__capacity=9,
        picl__undo_entries=100,
        picl__acs_lines=25,
        nvm__written_bytes__data=6000,
        nvm__written_bytes__context=400,
    )
    parts = computed("departures", picl)
    assert parts == {"capacity": 75, "coherence": 0, "store eviction": 0, "tag walk": 25}
    assert computed("departures", region()) is None


def claim(**more):
    made = {one.name: None for one in dataclasses.fields(Claim)}
    made |= {"name": "c", "kind": "value", "over": "maximum", "among": "maximum"}
    made |= {"designs": ("picl",), "of": (), "apart_from": (), "tolerance": 0.0, "at_least": 0.0}
    made |= {"ordering": (), "scaled": False, "change": False}
    return Claim(**{**made, **more})


def judged(paper, values, **more):
    eleven = declaration.experiments("nvoverlay", "quick")["fig11"]
    return claims.judge(claim(**more), eleven, paper, values, factor=16, reason=None).measured


def test_claims_of_some_subjects(core, paper):
    amounts = {"kmeans": 5.0, "yada": 3.0, "genome": 1.0}
    values = [Value(name, "picl", None, None, amount, ()) for name, amount in amounts.items()]
    assert judged(paper, values) == 5
    assert judged(paper, values, apart_from=("kmeans",)) == 3
    assert judged(paper, values, of=("genome",)) == 1
    assert judged(paper, values, of=("vacation",)) is None


def test_claims_along_an_axis(core, paper):
    values = [Value("a", "picl", place, None, place, ()) for place in (1.0, 2.0, 6.0)]
    assert judged(paper, values) == 6
    assert judged(paper, values, along="mean") == 3
    assert judged(paper, values, along="minimum") == 1


def test_a_design_that_writes_nothing_has_a_mean():
    assert claims.reduce([0.0, 2.0], "geometric-mean") == 0
    assert claims.reduce([8.0, 2.0], "geometric-mean") == 4


def test_an_epoch_of_stores_is_counted_by_stores(core, paper):
    quick = paper.scales["quick"]
    point = Point("a", "nvoverlay", (), overrides=("epoch.stores=100",), harts=16)
    assert plan.epochs(region(l1d__stores=16_000), point, quick) == 10
    unending = dataclasses.replace(point, overrides=("epoch.stores=0",))
    assert plan.epochs(region(l1d__stores=16_000), unending, quick) == 0


def test_classes_leave_out_what_a_figure_varies(core, paper, provided):
    point = Point("yada", "ideal", (), overrides=())
    varied = [Planned("fig17a", "yada", design, 50.0, point) for design in ("ideal", "nvoverlay")]
    found = tables.classes(varied, provided, {}, paper.scales["quick"], "ideal", "nvoverlay")
    assert found == []

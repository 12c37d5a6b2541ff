"""NVOverlay's experiments: what is declared, what it runs, what comes of it."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest

from perdure import workloads
from perdure.experiments import claims, dataset, declaration, metrics, plan, programs, tables
from perdure.experiments.claim import Claim
from perdure.experiments.plan import Planned, Value
from perdure.experiments.point import Point
from perdure.experiments.toml import Table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIGURES = ["fig11", "fig11-departures", "fig12", "fig12-departures", "fig12-lines", "fig13"]
FIGURES += ["fig13-slots", "fig14a", "fig14b", "fig15a", "fig15b", "fig16a", "fig16b", "fig16c"]
FIGURES += ["fig17a", "fig17b", "fig17c", "compaction", "not-judged", "recovery", "snapshots"]
RIVALS = {"software-logging", "software-shadow", "hardware-shadow", "picl", "picl-l2"}
DESIGNS = {"ideal", "nvoverlay", *RIVALS}


@pytest.fixture
def paper(core):
    return declaration.paper("nvoverlay")


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_figure_is_declared(paper, scale):
    found = declaration.experiments("nvoverlay", scale)
    assert list(found) == FIGURES
    identifiers = [claim.name for one in found.values() for claim in one.claims]
    assert len(identifiers) == len(set(identifiers))
    subjects = {entry.name for entry in programs.catalogue(files=paper.catalogues)}
    for one in found.values():
        assert one.claims
        assert set(one.models) <= {model.name for model in paper.models}
        assert {*one.designs, one.baseline} <= DESIGNS
        parts = metrics.metric(one.metric).parts
        for claim in one.claims:
            assert claim.name.startswith(f"{one.name}-")
            assert claim.quotation
            assert re.fullmatch(r"Abstract|[IVX]+(-[A-F])?", claim.section)
            assert {claim.relative} - {None} <= {*one.designs}
            named = {*claim.designs, *claim.ordering, claim.greatest, claim.least} - {None}
            assert named <= set(one.designs)
            assert {*claim.of, *claim.apart_from} <= subjects
            assert {claim.part, *claim.parts} - {None} <= {*parts}
            assert claim.at is None or claim.at in one.axis.shown
    for model in paper.models:
        written = declaration.reasons("nvoverlay", scale, model.name)
        written |= declaration.mechanisms("nvoverlay", scale, model.name)
        assert set(written) <= set(identifiers)
        shown = declaration.shown_by("nvoverlay", model.name)
        # What shows a reason at one scale need not change anything at the other.
        probes = {
            name for size in ("quick", "full") for name in declaration.probes("nvoverlay", size)
        }
        assert {name for names in shown.values() for name in names} <= probes


def test_all_rivals_are_compared(paper):
    found = declaration.experiments("nvoverlay", "quick")
    assert set(found["fig11"].designs) == RIVALS | {"nvoverlay"}
    assert {one.name for one in paper.designs} == DESIGNS


def test_the_workloads_are_the_threaded_ones(provided):
    listed = Table.read(workloads.folder("workloads") / "parallel.toml").table("workload").names()
    assert set(provided.entries) == set(listed)
    assert len(listed) == 12


def test_the_tree_of_a_run_s_course_may_be_larger(core, paper, provided):
    course = declaration.experiments("nvoverlay", "quick")["fig17a"]
    course = dataclasses.replace(course, size="large")
    planned = plan.plan(course, paper, paper.scales["quick"], provided, {})
    assert planned
    own = provided.entries["btree-olc"].sizes["large"].arguments
    assert all(one.point.programs[0].command[1:] == own for one in planned)


def test_every_quick_region_is_a_whole_parallel_phase(core, paper, provided):
    """Nothing limits it, so that every design does the same work."""
    for experiment in declaration.experiments("nvoverlay", "quick").values():
        for model in paper.models:
            for one in plan.plan(experiment, paper, paper.scales["quick"], provided, {}, model):
                asked = one.point.request()
                assert asked["measure_threads"], one
                assert not {"warm_up_instructions", "measure_instructions"} & set(asked), one


def test_only_what_never_ends_is_limited_at_full(paper):
    found = declaration.regions("nvoverlay", "full")
    limited = {name: region.measure for name, region in found.items() if region.measure}
    assert limited == {"kmeans": 1_600_000_000, "labyrinth": 1_600_000_000}


def test_every_design_runs_the_same_work_on_the_same_machine(core, paper, provided):
    eleven = declaration.experiments("nvoverlay", "quick")["fig11"]
    planned = plan.plan(eleven, paper, paper.scales["quick"], provided, {})
    assert len(planned) == 12 * 8, "two kinds of baselines"
    for name in provided.entries:
        mine = [one.point for one in planned if one.subject == name and one.design != "ideal"]
        assert len({dataclasses.replace(one, design="") for one in mine}) == 1
        assert mine[0].harts == 16
        assert mine[0].machine == "nvoverlay"
    yada = next(o.point for o in planned if (o.subject, o.design) == ("yada", "picl"))
    assert "epoch.stores=18750" in yada.overrides
    kmeans = next(o.point for o in planned if (o.subject, o.design) == ("kmeans", "picl"))
    assert "epoch.stores=62500" in kmeans.overrides
    assert "-N4096" in kmeans.programs[0].command


def test_a_figure_has_its_own_baseline(core, paper, provided):
    twelve = declaration.experiments("nvoverlay", "quick")["fig12"]
    planned = plan.plan(twelve, paper, paper.scales["quick"], provided, {})
    assert {one.design for one in planned} == {"nvoverlay", "hardware-shadow", "picl", "picl-l2"}


def test_slices_are_of_one_run(core, paper, provided):
    found = declaration.experiments("nvoverlay", "quick")
    for name in ("fig17a", "fig17b"):
        planned = plan.plan(found[name], paper, paper.scales["quick"], provided, {})
        assert {one.point.sample_cycles for one in planned} == {found[name].slices.sample_cycles}
        for design in ("picl", "nvoverlay"):
            mine = [one for one in planned if one.design == design]
            assert [one.axis for one in mine] == list(found[name].axis.shown)
            assert mine[-1].axis == 100
            assert len({one.point for one in mine}) == 1


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_bursts_lie_where_the_paper_has_them(core, paper, scale):
    """At 20, 50 and 80 % of the run, for 5 % of it; between them epochs are the usual ones."""
    burst = declaration.experiments("nvoverlay", scale)["fig17b"]
    set_of = dict(text.split("=", 1) for text in burst.overrides)
    usual = dict(text.split("=", 1) for text in paper.scales[scale].overrides)["epoch.stores"]
    steps = [step.split(":") for step in set_of["epoch.schedule"].split(",")]
    length = burst.slices.instructions * burst.slices.count
    assert [100 * int(at) / length for at, _ in steps] == [20, 25, 50, 55, 80, 85]
    assert [stores for _, stores in steps[1::2]] == [usual] * 3
    bursts = [int(stores) for _, stores in steps[::2]]
    # The machine has no epochs of fewer than 100 stores.
    divided = [one // paper.scales[scale].factor for one in (1_000, 10_000, 100_000)]
    assert bursts == [max(one, 100) for one in divided]


def test_a_run_is_sliced_by_its_series():
    def sample(cycle, instructions, written):
        kinds = ("nvm_written_bytes_data", "nvm_written_bytes_log", "nvm_written_bytes_metadata")
        some = dict.fromkeys(kinds, 0)
        return {"cycle": cycle, "instructions": instructions, "nvm_written_bytes": written, **some}

    series = [sample(100, 50, 0), sample(200, 100, 640), sample(300, 150, 640)]
    stored = {"result": {"series": series}}
    late = dataset.sliced(stored, 75, 125)
    assert (late["cycles"], late["instructions"]) == (100, 50)
    assert computed("bandwidth", late) == {None: 3.2}
    assert computed("bandwidth", dataset.sliced(stored, 0, 50)) == {None: 0}
    assert dataset.sliced(stored, 100, 151) is None, "the run ends before"
    assert dataset.sampled(stored) == 150


def test_power_cuts_are_of_four_threaded_programs(core, paper, provided):
    cuts = declaration.cuts("nvoverlay", "quick")
    planned = plan.plan_cuts(cuts, paper, provided)
    programs_cut = list(dict.fromkeys(one.subject for one in planned))
    assert programs_cut == ["kmeans", "intruder", "btree-olc", "hash-map"]
    assert {one.design for one in planned} == RIVALS | {"nvoverlay"}
    for one in planned:
        assert one.point.harts == 4
        assert one.point.machine == "nvoverlay"
        assert one.point.campaign.cuts == (1000 if one.design == "nvoverlay" else 100)


def test_the_baseline_is_the_same_in_both_models(paper):
    """What differs between the machines is what a run without snapshots does not heed."""

    def flat(table, prefix=""):
        for key, value in table.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    folder = Path(__file__).resolve().parents[2] / "machines"
    ours, theirs = (
        dict(flat(tomllib.loads((folder / f"{model.machine}.toml").read_text())))
        for model in paper.models
    )
    changed = {key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}
    assert changed
    assert all(key.startswith(paper.ignores["ideal"]) for key in changed), changed


def test_a_figure_that_a_model_cannot_run_says_why(core, paper, provided):
    recovery = declaration.experiments("nvoverlay", "quick")["recovery"]
    theirs, ours = paper.models
    assert plan.plan(recovery, paper, paper.scales["quick"], provided, {}, theirs) == []
    assert len(plan.plan(recovery, paper, paper.scales["quick"], provided, {}, ours)) == 4
    (claim,) = recovery.in_model(theirs).claims
    judged = claims.judge(claim, recovery, paper, [], factor=16, reason=None)
    assert judged.verdict == "not comparable"
    assert "cannot recover" in judged.reason


def test_every_trial_of_a_reason_can_be_planned(core, paper, provided):
    scale = paper.scales["quick"]
    figures = declaration.experiments("nvoverlay", "quick")
    for probe in declaration.probes("nvoverlay", "quick").values():
        found = plan.plan_probe(probe, figures[probe.figure], paper, scale, provided, {})
        assert {one.subject for one in found.planned} == {probe.subject}


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


def test_a_whole_phase_is_one_piece_of_work():
    """However many stores it took."""
    ideal = {**region(1000, l1d__stores=100), "whole_phase": True}
    slow = {**region(2000, l1d__stores=50), "whole_phase": True}
    assert computed("cycles-of-work", slow, ideal) == {None: 2.0}
    part = region(2000, l1d__stores=50)
    assert computed("cycles-of-work", part, ideal) is None, "a part and a whole"


def test_the_work_of_a_part_is_counted_in_stores():
    """Twice the cycles for half the stores in as many instructions is four times as slow."""
    ideal = region(1000, 9000, l1d__stores=100)
    slow = region(2000, 9000, l1d__stores=50, nvm__written_bytes__total=600)
    design = region(1500, 9000, l1d__stores=100, nvm__written_bytes__total=400)
    assert computed("cycles-of-work", slow, ideal) == {None: 4.0}
    assert computed("bytes-of-work", slow, design) == {None: 3.0}
    assert computed("bytes-of-work", slow, ideal) is None
    assert computed("cycles-of-work", region(), ideal) is None


def test_bytes_can_be_counted_as_in_the_paper():
    picl = region(
        l1d__stores=1,
        picl__undo_entries=10,
        nvm__written_bytes__data=640,
        nvm__written_bytes__metadata=1000,
        nvm__written_bytes__context=1000,
    )
    base = region(
        l1d__stores=1,
        nvoverlay__buffer_hits=2,
        nvm__written_bytes__data=472,
        nvm__written_bytes__metadata=80,
    )
    assert computed("counted-bytes-of-work", picl, base) == {None: 2.0}
    assert computed("counted-bytes-of-work", picl) is None


def test_slots_of_the_master_table():
    """Four roots and one more inner node, 41 leaves with 1,312 lines."""
    sizes = region(
        nvoverlay__master_bytes_now=5 * 4096 + 41 * 512,
        nvoverlay__master_leaves=41,
        nvoverlay__master_lines=1312,
    )
    parts = computed("table-slots", sizes)
    assert parts == {"inner": pytest.approx(100 * 41 / 2560), "leaf": 50}
    assert computed("table-slots", region()) is None


def test_lines_count_what_the_buffer_absorbed():
    base = region(l1d__stores=1, nvm__written_bytes__data=640)
    sent = region(l1d__stores=1, nvm__written_bytes__data=640, nvoverlay__buffer_hits=20)
    assert computed("lines-of-work", sent, base) == {None: 3}
    assert computed("lines-of-work", sent) is None


def test_compaction_intervals_and_recovery():
    compacted = region(nvoverlay__compaction_bytes=50, nvm__written_bytes__total=1050)
    assert computed("compaction-bytes", compacted) == {None: 5}
    assert computed("snapshot-interval", region(6_000_000, nvoverlay__epochs_merged=4)) == {
        None: 1.5
    }
    assert computed("snapshot-interval", region(6_000_000)) is None
    probed = {
        **region(nvoverlay__master_lines=200),
        "cut_cost": {"recovery_cycles": {"worst": 9000}},
    }
    assert computed("recovery-of-line", probed) == {None: 45}


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
    found = tables.classes(varied, provided, {}, paper.scales["quick"], paper)
    assert found == []

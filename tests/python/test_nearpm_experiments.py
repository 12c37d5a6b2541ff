"""NearPM's experiments: what is declared and told, several seeds, what is measured."""

import pytest
from conftest import planned_of

from perdure import PerdureError
from perdure.experiments import charts, claims, dataset, declaration, metrics, plan
from perdure.experiments.narrowing import panels
from perdure.experiments.plan import Value

WORKLOADS = {
    "tpcc", "tatp", "btree", "rbtree", "skiplist", "hashmap", "memcached", "redis", "pmemkv",
}  # fmt: skip
FIGURES = [1, 15, 16, 17, 18, 19, 20]


@pytest.fixture
def paper(core):
    return declaration.paper("nearpm")


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_figure_is_declared(paper, provided, scale):
    found = declaration.experiments("nearpm", scale)
    assert all(panels(f"fig{number}", list(found)) != [f"fig{number}"] or f"fig{number}" in found
               for number in FIGURES)  # fmt: skip
    identifiers = [claim.name for one in found.values() for claim in one.claims]
    assert len(identifiers) == len(set(identifiers))
    named = {one.name for one in paper.designs}
    for one in found.values():
        assert {*one.designs, one.baseline} <= named
        assert set(one.subjects) <= WORKLOADS | {"copy"}
        assert one.claims or one.figure == "ours"
        metrics.metric(one.metric)
        for claim in one.claims:
            assert {*claim.designs, claim.relative} - {None} <= {*one.designs}
    written = {*declaration.reasons("nearpm", scale), *declaration.mechanisms("nearpm", scale)}
    assert written <= set(identifiers)
    for probe in declaration.probes("nearpm", scale).values():
        figure = found[probe.figure]
        assert probe.subject in figure.subjects
        assert probe.design in figure.designs


def test_all_workloads_are_cut_by_all_mechanisms(paper, provided):
    planned = plan.plan_cuts(declaration.cuts("nearpm", "full"), paper, provided)
    subjects = {one.subject for one in planned}
    assert subjects == {f"{one}-{how}" for one in WORKLOADS
                        for how in ("undo", "redo", "checkpoint", "shadow")}  # fmt: skip
    assert {one.design for one in planned} == {"baseline", "sd", "sw", "md"}
    for one in planned:
        request, command = one.point.request(), one.point.programs[0].command
        assert request["cuts"] == 100
        assert request["then"] == [*command, "--recover"]
        assert request["made"] == [[*command, "--make"]], "the pool is not cut as it is made"
        assert one.subject.endswith(command[command.index("--mechanism") + 1])


def test_a_configuration_is_what_programs_and_devices_are_told(paper, provided):
    told = {one.design: one.point for one in planned_of("fig16a", paper, provided)}
    assert told["baseline"].design == "ideal"
    assert {told[one].design for one in ("sd", "sw", "md")} == {"nearpm"}
    assert told["sd"].overrides == ("module.nearpm.count=1",)
    assert told["sw"].overrides == ("nearpm.sync=software",)
    command = told["sw"].programs[0].command
    assert command[command.index("--sync") + 1] == "software"
    assert not any(one.made for one in told.values()), "the pool is made in what is measured"


def test_figures_of_the_same_runs_share_them(paper, provided):
    keys = {
        figure: {one.point.key() for one in planned_of(figure, paper, provided)}
        for figure in ("fig1a", "fig15a", "fig16a", "fig16b", "fig18")
    }
    assert keys["fig15a"] == keys["fig16a"]
    baseline = {one.point.key() for one in planned_of("fig16a", paper, provided)
                if one.design == "baseline"}  # fmt: skip
    assert baseline <= keys["fig1a"]
    assert {one.point.key() for one in planned_of("fig16b", paper, provided)
            if one.design == "md"} <= keys["fig18"]  # fmt: skip


def test_each_point_runs_with_every_seed(paper, provided):
    planned = planned_of("fig16a", paper, provided)
    seeds = [one.seed for one in planned if (one.subject, one.design) == ("hashmap", "md")]
    assert seeds == list(range(1, 11))
    for one in planned:
        command = one.point.programs[0].command
        assert command[command.index("--seed") + 1] == str(one.seed)
    assert {one.seed for one in planned_of("fig19a", paper, provided)} == {1, 2, 3}


def test_units_do_not_change_the_processor_alone(paper, provided):
    planned = planned_of("fig19a", paper, provided)
    assert not any(one.point.overrides for one in planned if one.design == "baseline")
    machines = {one.point.machine for one in planned_of("cxl-logging", paper, provided)}
    assert machines == {"nearpm-cxl"}, "but its memory does"


def stored(planned, cycles):
    """Runs whose transactions took so many cycles."""
    return {
        one.point.key(): {
            "result": {
                "sim": {"cycles": 1, "instructions": 1},
                "statistics": {},
                "output": f"of no number\nelapsed_cycles {cycles(one)}\nx y\n",
            }
        }
        for one in planned
    }


@pytest.fixture
def values(paper, provided):
    experiment = declaration.experiments("nearpm", "quick")["fig16a"]
    planned = plan.plan(experiment, paper, paper.scales["quick"], provided, paper.mixes)
    found = stored(planned, lambda one: 1200 if one.design == "baseline" else 600 + one.seed % 2)
    return experiment, plan.values(experiment, paper, paper.scales["quick"], planned, found)


def test_a_value_is_the_mean_of_its_seeds_and_has_a_deviation(values):
    _, found = values
    one = next(one for one in found if (one.subject, one.design) == ("hashmap", "md"))
    assert len(one.of_seeds) == 10
    assert one.value == pytest.approx((1200 / 600 + 1200 / 601) / 2)
    assert one.deviation == pytest.approx(abs(1200 / 600 - 1200 / 601) / 2 * (10 / 9) ** 0.5)
    assert len(one.points) == 20, "its own, and the baseline's"
    assert one.as_dict()["deviation"] == one.deviation


def test_an_average_has_the_deviation_of_the_seeds_averages(values):
    experiment, found = values
    one = next(one for one in claims.averages(experiment, found) if one.design == "md")
    assert one.deviation == pytest.approx(abs(1200 / 600 - 1200 / 601) / 2 * (10 / 9) ** 0.5)


def test_deviations_are_drawn(values, paper):
    experiment, found = values
    averages = claims.averages(experiment, found)
    chart = charts.experiment([(None, experiment, found, averages)], paper, factor=1, scale="quick")
    rules = [layer for layer in chart.to_dict()["layer"] if "y2" in layer["encoding"]]
    assert [rule["mark"]["type"] for rule in rules] == ["rule"]


def test_a_value_of_one_run_says_nothing_of_deviations():
    one = Value("a", "d", None, None, 2.0, ("k",))
    assert one.deviation is None
    assert "deviation" not in one.as_dict() and "of_seeds" not in one.as_dict()
    (average,) = claims.averages(declaration.experiments("nearpm", "quick")["fig15a"], [one])
    assert "deviation" not in average.as_dict()


def test_what_a_program_tells_is_its_lines_of_a_name_and_a_number():
    said = "done 1 of 2\nwait_cycles 12\nchecksum 00ff\nhalf 0.5\ndevices 2\n"
    assert dataset.told(said) == {"wait_cycles": 12, "devices": 2}


def region(active=0, delayed=0, **told):
    counters = {"nearpm.active": active, "nearpm.host.delayed_wait": delayed}
    return {"statistics": {name: {"value": value} for name, value in counters.items()},
            "told": told}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "here", "value"),
    [
        ("consistency-share", region(consistency_cycles=30, total_cycles=120), 25.0),
        ("movement-share", region(copy_cycles=15, consistency_cycles=30), 50.0),
        ("consistency-speedup", region(consistency_cycles=25), 2.0),
        ("transaction-speedup", region(elapsed_cycles=50), 4.0),
        ("copy-speedup", region(total_cycles=40), 5.0),
        ("in-parallel", region(100, 5, elapsed_cycles=100, devices=2, wait_cycles=15), 30.0),
        ("in-parallel", region(10, 0, elapsed_cycles=100, devices=1, wait_cycles=15), 0.0),
    ],
)
def test_what_is_measured(name, here, value):
    base = region(consistency_cycles=50, elapsed_cycles=200, total_cycles=200)
    chosen = metrics.metric(name)
    assert chosen.compute(here, base, 1) == {None: pytest.approx(value)}
    assert chosen.compute(region(), base, 1) is None
    if chosen.relative:
        assert chosen.compute(here, None, 1) is None


def test_a_figure_of_panels_is_all_of_them():
    names = ["fig1a", "fig1b", "fig15a", "fig15b", "fig4", "fig4-drained", "cuts"]
    assert panels("fig1", names) == ["fig1a", "fig1b"]
    assert panels("fig15", names) == ["fig15a", "fig15b"]
    assert panels("fig4", names) == ["fig4"], "one of that very name stands alone"
    assert panels("fig9", names) == ["fig9"] and panels("cut", names) == ["cut"]


def test_there_is_no_paper_of_another_name():
    with pytest.raises(PerdureError, match="nearpm"):
        declaration.paper("nearpn")

"""Papers that are judged in several models: what runs, what is shared, what is compared."""

import dataclasses

import pytest

from perdure.experiments import claims, declaration, plan, tables
from perdure.experiments.claim import Claim
from perdure.experiments.declaration import Model, Setting
from perdure.experiments.declared_probes import Probe
from perdure.experiments.plan import Value
from perdure.experiments.programs import Entry, Provided, Size

THEIRS = Model("theirs", "their model", "other", ("nobody waits",), ("a.b=1",), {"frm": ("c.d=2",)})
OURS = Model("ours", "ours", "picl", ("everybody waits",))


@pytest.fixture
def paper(core):
    return dataclasses.replace(
        declaration.paper("picl"),
        models=[THEIRS, OURS],
        ignores={"ideal": ("a.", "epoch.")},
        compared_with={"frm": ("llc.inclusion=inclusive",)},
        bound="frm",
    )


@pytest.fixture
def nine(core):
    found = declaration.experiments("picl", "quick")["fig9"]
    return dataclasses.replace(found, designs=("frm", "picl"), subjects=("a",))


@pytest.fixture
def provided(tmp_path):
    sizes = {"quick": Size(("1",), 10, 100)}
    entry = Entry("a", "mcf", "sums", "kernel", "a", (), (), sizes)
    return Provided({"a": entry}, {}, tmp_path, None, {}, {"kernel/a": "1"})


def planned(experiment, paper, provided, model):
    return plan.plan(experiment, paper, paper.scales["quick"], provided, {}, model)


def test_a_model_sets_machine_and_overrides(paper, nine, provided):
    own = dataclasses.replace(nine, models={"theirs": Setting(("e.f=3",), "commits")})
    found = {one.design: one for one in planned(own, paper, provided, THEIRS)}
    assert set(found) == {"frm", "picl"}, "its metric there relates to nothing"
    assert {one.model for one in found.values()} == {"theirs"}
    assert found["frm"].point.machine == "other"
    assert {"a.b=1", "c.d=2", "e.f=3"} <= set(found["frm"].point.overrides)
    assert "c.d=2" not in found["picl"].point.overrides
    for one in planned(own, paper, provided, OURS):
        assert one.point.machine == "picl"
        assert not {"a.b=1", "c.d=2", "e.f=3"} & set(one.point.overrides)


def test_what_a_design_ignores_makes_no_other_point_of_it(paper, nine, provided):
    bases = [
        one.point
        for model in paper.models
        for one in planned(nine, paper, provided, model)
        if one.design == "ideal" and not one.compared_with
    ]
    assert len({dataclasses.replace(one, remark="") for one in bases}) == 1
    assert not any(text.startswith(("a.", "epoch.")) for text in bases[0].overrides)


def stored(planned, cycles):
    """Finished points: `cycles` by design, and by what a baseline is compared with."""
    made = {}
    for one in planned:
        took = cycles[one.design, bool(one.compared_with)]
        whole = {"cycles": took, "instructions": 100}
        region = {**whole, "programs": [whole], "statistics": {"nvm.writes": {"value": 50}}}
        region["whole_phase"] = True
        made[one.point.key()] = {"result": {"region": region}}
    return made


CYCLES = {("ideal", False): 100, ("ideal", True): 200, ("frm", False): 300, ("picl", False): 150}


@pytest.fixture
def keyed(core, monkeypatch):
    """The recording gives every configuration the same text: keys by what a point sets."""
    monkeypatch.setattr(
        plan.Point, "key", lambda self: f"{self.machine} {self.design} {self.overrides}"
    )


def test_designs_have_the_baseline_that_they_are_compared_with(keyed, paper, nine, provided):
    runs = planned(nine, paper, provided, OURS)
    assert len([one for one in runs if one.design == "ideal"]) == 2
    found = plan.values(nine, paper, paper.scales["quick"], runs, stored(runs, CYCLES))
    assert {one.design: one.value for one in found} == {"frm": 1.5, "picl": 1.5}


def test_a_probe_changes_one_thing(keyed, paper, nine, provided):
    for overrides, arguments in ((("x.y=9",), ()), ((), ("7",))):
        probe = Probe("p", "…", "fig9", "theirs", "a", "picl", None, None, overrides, arguments)
        found = plan.plan_probe(probe, nine, paper, paper.scales["quick"], provided, {})
        plain, changed = (
            next(
                one.point
                for one in found.planned
                if one.design == "picl" and one.experiment == experiment.name
            )
            for experiment in (found.plain, found.changed)
        )
        assert set(changed.overrides) - set(plain.overrides) == set(overrides)
        assert (changed.programs == plain.programs) == (not arguments)
        assert changed.machine == "other"


def test_what_is_sent_is_related_to_what_the_banks_take(keyed, paper, nine, provided, monkeypatch):
    values = {"nvm.row_write_ns": 10.0, "core.frequency_mhz": 2000, "nvm.banks": 4}
    values["nvm.row_bytes"] = 64
    entries = {name: {"value": value, "unit": "", "meaning": ""} for name, value in values.items()}
    configuration = type("Configuration", (), {"values": entries})
    monkeypatch.setattr(plan.Point, "configuration", lambda _self: configuration)
    own = dataclasses.replace(nine, designs=("frm", "picl", "ideal"))
    runs = planned(own, paper, provided, OURS)
    (row,) = tables.bounds(runs, stored(runs, CYCLES), paper)
    # 4 banks, each 20 cycles for a line; 50 lines in the 100 cycles of the work.
    assert row["banks_lines_a_cycle"] == 0.2
    assert (row["lines_a_cycle"], row["load"]) == (0.5, 2.5)
    assert (row["workload"], row["model"]) == ("a", "ours")


def test_reasons_are_of_a_model(core, tmp_path, monkeypatch):
    monkeypatch.setattr(declaration, "FOLDER", tmp_path)
    (tmp_path / "picl").mkdir()
    (tmp_path / "picl" / declaration.REASONS).write_text(
        '[a.theirs]\nquick = "x"\nshown_by = ["p"]\n[a.ours]\nmechanism_quick = "y"\n'
    )
    assert declaration.reasons("picl", "quick", "theirs") == {"a": "x"}
    assert declaration.reasons("picl", "quick", "ours") == {}
    assert declaration.reasons("picl", "quick") == {}
    assert declaration.mechanisms("picl", "quick", "ours") == {"a": "y"}
    assert declaration.shown_by("picl", "theirs") == {"a": ["p"]}


def measured(values, **more):
    """What a claim measures of PiCL's values, beside FRM's."""
    fields = {one.name: None for one in dataclasses.fields(Claim)}
    fields |= {"name": "c", "kind": "value", "over": "maximum", "among": "maximum"}
    fields |= {"designs": ("picl",), "of": (), "apart_from": (), "tolerance": 0.0, "at_least": 0.0}
    fields |= {"ordering": (), "scaled": False, "change": False, "parts": (), "inverse": False}
    fields |= {"relative_change": False}
    fifteen = declaration.experiments("picl", "quick")["fig15"]
    paper = declaration.paper("picl")
    claim = Claim(**{**fields, **more})
    return claims.judge(claim, fifteen, paper, values, factor=1, reason=None).measured


def test_claims_relate_one_design_to_another(core):
    values = [Value(name, "picl", None, None, value, ()) for name, value in (("a", 3), ("b", 4))]
    values += [Value(name, "frm", None, None, value, ()) for name, value in (("a", 2), ("b", 4))]
    assert measured(values, relative="frm") == 1.5
    assert measured(values, relative="frm", over="minimum") == 1
    assert measured(values, relative="frm", inverse=True, over="minimum") == pytest.approx(2 / 3)
    assert measured(values[:2], relative="frm") is None


def test_claims_of_several_parts_of_a_change_and_of_a_spread(core):
    parts = [Value("a", "picl", None, part, 1.0, ()) for part in ("x", "y", "z")]
    assert measured(parts, parts=("x", "z")) == 2
    first, *_, last = declaration.experiments("picl", "quick")["fig15"].axis.shown
    rise = [Value("a", "picl", place, None, value, ()) for place, value in ((first, 4), (last, 3))]
    assert measured(rise, change=True, relative_change=True, at_least=None, at_most=0) == -0.25
    assert measured(rise, along="deviation") == 0.5

"""Experiments: what is declared, what it runs, what values and verdicts come of it."""

import dataclasses
import itertools
import json
import re

import pytest

import perdure
from perdure.experiments import claims, declaration, metrics, plan, programs, tables
from perdure.experiments.claim import Claim, read_claim
from perdure.experiments.plan import Planned, Value
from perdure.experiments.point import Point
from perdure.experiments.programs import Entry, Provided, Size

FIGURES = [f"fig{number}" for number in range(9, 19)]
DESIGNS = {"ideal", "ideal-eager", "journaling", "shadow-paging", "frm", "thynvm", "picl"}


@pytest.fixture
def paper(core):
    return declaration.paper("picl")


@pytest.fixture
def provided(tmp_path):
    """Two kernels that are there, and a Debian program that is not."""
    size = Size(("{scratch}/file", "3"), 100, 1000)
    sizes = dict.fromkeys(("quick", "full", "tiny"), size)
    entries = {
        name: Entry(name, "mcf", "…", kind, name, (), (), sizes)
        for name, kind in (("a", "kernel"), ("b", "kernel"), ("c", "debian"))
    }
    digests = {"kernel/a": "1", "kernel/b": "2"}
    return Provided(entries, {"c": "no mirror"}, tmp_path, None, {}, digests)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_figure_is_declared(core, paper, scale):
    found = declaration.experiments("picl", scale)
    assert [one for one in found if one in FIGURES] == FIGURES
    identifiers = [claim.name for one in found.values() for claim in one.claims]
    assert len(identifiers) == len(set(identifiers))
    for one in found.values():
        assert set(one.designs) <= DESIGNS
        metrics.metric(one.metric)
        assert one.claims or one.figure.endswith(", ours")
        for claim in one.claims:
            assert claim.name.startswith(f"{one.name}-")
            assert claim.designs or claim.not_comparable
            assert claim.quotation
            named = {*claim.designs, *claim.ordering, claim.greatest, claim.least} - {None}
            assert named <= set(one.designs)
            assert claim.at is None or claim.at in one.axis.shown
    assert set(declaration.reasons("picl", scale)) <= set(identifiers)


def test_the_papers_words_are_quoted(core):
    """A quotation is words of one sentence or more; what it is about has a section."""
    for one in declaration.experiments("picl", "quick").values():
        for claim in one.claims:
            assert re.fullmatch(r"Abstract|[IV]+(-[A-E])?", claim.section), claim.name
            assert 5 < len(claim.quotation) < 400


def test_an_unknown_key_of_a_declaration_is_refused(core, tmp_path):
    path = tmp_path / "fig1.toml"
    path.write_text((declaration.FOLDER / "picl/fig9.toml").read_text() + "\n[quik]\n")
    with pytest.raises(perdure.PerdureError, match=r"no key `quik`; the nearest is `quick`"):
        declaration._experiment(path, "quick")


def test_an_unknown_paper_or_figure_is_refused(core, command):
    status, _, err = command("reproduce", "pickle")
    assert status == 2
    assert "papers that can be reproduced: flush, nearpm, nvoverlay, picl" in err
    status, _, err = command("reproduce", "picl", "fig99")
    assert status == 2
    assert "its experiments are fig9, fig10" in err


def test_the_catalogue_follows_its_schema(core):
    entries = programs.catalogue()
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert {"quick", "full", "tiny"} <= set(entry.sizes), entry.name
        assert entry.sizes["quick"].measure == 37_500_000
        assert (entry.kind == "debian") == bool(entry.packages)


def test_mixes_follow_from_the_seed(core):
    names = ["a", "b", "c", "d", "e"]
    drawn = programs.mixes(names, 2018)
    assert drawn == programs.mixes(names, 2018)
    assert drawn != programs.mixes(names, 2019)
    assert list(drawn) == [f"W{index}" for index in range(8)]
    assert all(len(mix) == 8 and set(mix) <= set(names) for mix in drawn.values())
    # SplitMix64 of seed 0, as published with it.
    state, first = programs._split_mix(0)
    assert (first, programs._split_mix(state)[1]) == (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4)


def test_programs_get_their_own_scratch(provided):
    made, around = provided.commands(["a", "a", "b"], "quick")
    assert [one.command[1] for one in made] == ["/tmp/0/file", "/tmp/1/file", "/tmp/2/file"]
    assert around.mounts == ("{scratch}:/tmp/0", "{scratch}:/tmp/1", "{scratch}:/tmp/2")
    with pytest.raises(perdure.PerdureError, match="not available: no mirror"):
        provided.commands(["c"], "quick")


def test_a_plan_has_the_baseline_and_leaves_out_what_is_not_there(core, paper, provided):
    nine = declaration.experiments("picl", "quick")["fig9"]
    planned = plan.plan(nine, paper, paper.scales["quick"], provided, {})
    pairs = {(one.subject, one.design) for one in planned}
    assert pairs == set(itertools.product("ab", DESIGNS))
    assert all(one.point.measure == 1000 and not one.point.repeat for one in planned)
    assert "l2.bytes=32KiB" in planned[0].point.overrides


def test_the_last_of_several_overrides_counts(core, paper, provided):
    mixes = programs.mixes(["a", "b"], 1)
    fifteen = declaration.experiments("picl", "quick")["fig15"]
    planned = plan.plan(fifteen, paper, paper.scales["quick"], provided, mixes)
    sizes = {
        text for one in planned for text in one.point.overrides if text.startswith("llc.bytes")
    }
    assert sizes == {f"llc.bytes_per_hart={axis}" for axis in fifteen.axis.settings}
    assert {one.subject for one in planned} == {"W0", "W1"}
    assert all(len(one.point.programs) == 8 and one.point.repeat for one in planned)


def test_epochs_lengthen_the_measured_region(core, paper, provided):
    fourteen = declaration.experiments("picl", "quick")["fig14"]
    planned = plan.plan(fourteen, paper, paper.scales["quick"], provided, {})
    assert {one.point.measure for one in planned} == {62_500_000}
    eighteen = declaration.experiments("picl", "quick")["fig18"]
    eighteen = dataclasses.replace(eighteen, subjects=("a",))
    planned = plan.plan(eighteen, paper, paper.scales["quick"], provided, {})
    assert {one.point.warm_up for one in planned} == {37_500_000}


def test_an_experiment_may_have_lengths_and_sizes_of_its_own(core, paper, provided):
    nine = declaration.experiments("picl", "quick")["fig9"]
    scale = paper.scales["quick"]

    def points(**more):
        changed = dataclasses.replace(nine, subjects=("a",), **more)
        return {one.design: one.point for one in plan.plan(changed, paper, scale, provided, {})}

    assert points(warm_up=7, measure=9)["picl"].warm_up == 7
    assert {one.measure for one in points(warm_up=7, measure=9).values()} == {9}
    assert all(one.probe_cuts for one in points(probe_cuts=True).values())
    entry = dataclasses.replace(
        provided.entries["a"],
        sizes={**provided.entries["a"].sizes, "full": Size(("big",), 100, 1000)},
    )
    provided = dataclasses.replace(provided, entries={**provided.entries, "a": entry})
    assert points(size="full")["picl"].programs[0].command[1] == "big"
    assert points()["picl"].programs[0].command[1] != "big"


def test_a_design_may_be_another_one_with_settings(core, paper, provided):
    early = declaration.Design("early", "Early", "e", "ideal", ("ideal.eager_write_back=true",))
    both = dataclasses.replace(paper, designs=[*paper.designs, early])
    nine = declaration.experiments("picl", "quick")["fig9"]
    nine = dataclasses.replace(nine, designs=("early", "picl"), subjects=("a",))
    planned = plan.plan(nine, both, paper.scales["quick"], provided, {})
    found = {one.design: one.point for one in planned}
    assert {name: one.design for name, one in found.items()} == {
        "ideal": "ideal", "early": "ideal", "picl": "picl",
    }  # fmt: skip
    assert "ideal.eager_write_back=true" in found["early"].overrides
    assert "ideal.eager_write_back=true" not in found["ideal"].overrides
    assert both.label("early") == "Early"
    assert both.label("nobody's") == "nobody's"


def region(cycles=(100,), instructions=1000, **counters):
    entries = {
        name.replace("__", "."): {"value": value, "unit": "", "meaning": ""}
        for name, value in counters.items()
    }
    shares = [{"cycles": one, "instructions": instructions} for one in cycles]
    return {
        "cycles": max(cycles),
        "instructions": instructions,
        "programs": shares,
        "statistics": entries,
    }


def test_execution_time_is_the_geometric_mean_over_programs():
    time = metrics.metric("execution-time").compute
    assert time(region((200, 50)), region((100, 100)), 1)[None] == pytest.approx(1.0)
    assert time(region((200, 200)), region((100, 100)), 1)[None] == pytest.approx(2.0)
    assert time(region(), None, 1) is None


def test_counts_are_scaled_to_epochs():
    commits = metrics.metric("commits").compute
    assert commits(region(instructions=3000, epoch__committed=12), None, 1000)[None] == 4
    length = metrics.metric("epoch-length").compute
    assert length(region(instructions=6_000_000, epoch__committed=3), None, 1)[None] == 2
    assert length(region(instructions=6_000_000), None, 1)[None] == 6
    log = metrics.metric("log-bytes").compute
    written = {"nvm__written_bytes__log": 3e6}
    assert log(region(instructions=3000, **written), None, 1000)[None] == 8


def test_operations_are_relative_to_what_ideal_evicts():
    operations = metrics.metric("nvm-operations").compute
    kinds = {
        "nvm__operations__sequential": 10,
        "nvm__operations__random": 20,
        "nvm__operations__write_back": 5,
    }
    base = region(nvm__operations__write_back=10)
    assert operations(region(**kinds), base, 1) == {
        "sequential": 1.0, "random": 2.0, "write-back": 0.5,
    }  # fmt: skip
    assert operations(region(**kinds), region(), 1) is None


@pytest.mark.parametrize(
    ("name", "counters", "value"),
    [
        # 2 MB are 32,768 lines; two million cycles are a millisecond.
        ("flush-time", {"flush__lines": 16_384, "flush__stall": 1e6}, 1.0),
        ("flush-share", {"flush__stall": 25}, 25.0),
        ("epoch-wait", {"epoch__wait": 50}, 50.0),
        ("forced-flushes", {"llc__write_backs": 200, "picl__undo_flushes__forced": 1}, 0.5),
        ("false-matches", {"llc__write_backs": 200, "picl__bloom_false_matches": 2}, 1.0),
        ("undo-from-clean", {"picl__undo_entries": 8, "picl__undo_entries__from_clean": 6}, 75.0),
        # Of 100 cycles with two epochs' ends: 150 cycles on average are three epochs.
        (
            "persist-latency",
            {"epoch__persisted": 4, "epoch__committed": 2, "epoch__to_persisted": 600},
            3.0,
        ),
        ("output-commit", {"epoch__forced": 2, "core__persist_stall": 8e6}, 2.0),
        (
            "operations-per-line",
            {
                "nvm__operations__random": 20,
                "nvm__operations__write_back": 10,
                "nvm__written_bytes__data": 9 * 64,
                "nvm__written_bytes__context": 64,
            },
            3.0,
        ),
        (
            "stores-per-line",
            {"l1d__stores": 400, "picl__undo_entries": 3, "nvm__written_bytes__data": 64},
            100.0,
        ),
    ],
)
def test_what_else_is_counted(name, counters, value):
    compute = metrics.metric(name).compute
    assert compute(region(**counters), None, 1) == {None: pytest.approx(value)}
    if name not in ("flush-share", "epoch-wait"):
        assert compute(region(), None, 1) is None


def test_the_longest_recovery_counts():
    time, multiple = (metrics.metric(f"recovery-{one}").compute for one in ("time", "multiple"))

    def cut(worst):
        return {**region(), "cut_cost": {"recovery_cycles": {"median": 1, "worst": worst}}}

    assert time(cut(3e6), None, 1) == {None: 1.5}
    assert multiple(cut(3e6), cut(1e6), 1) == {None: 3.0}
    unprobed = {**region(), "cut_cost": {}}
    assert time(unprobed, None, 1) is None
    assert multiple(cut(3e6), unprobed, 1) is None


def made(design, *numbers, axis=None, part=None):
    return [
        Value(f"s{index}", design, axis, part, number, ("k",))
        for index, number in enumerate(numbers)
    ]


def claim(**more):
    fields = {
        "name": "c", "says": "", "quotation": "", "section": "VI-B", "paper": "", "kind": "value",
        "designs": ("picl",), "over": "maximum", "among": "maximum", "limit": None, "at": None,
        "part": None, "change": False, "at_least": None, "at_most": None, "tolerance": 0.0,
        "ordering": (), "greatest": None, "least": None, "drawn": False, "scaled": False,
        "not_comparable": None,
    }  # fmt: skip
    return Claim(**{**fields, **more})


def judged(declared, values, paper, experiment="fig9", factor=8):
    found = declaration.experiments("picl", "quick")[experiment]
    return claims.judge(declared, found, paper, values, factor=factor, reason="because")


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        ({"at_most": 1.2}, "holds"),
        ({"at_most": 1.1}, "differs"),
        ({"at_most": 1.1, "tolerance": 0.1}, "holds"),
        ({"at_least": 1.2}, "holds"),
        ({"at_least": 1.3}, "differs"),
        ({"at_least": 1.0, "at_most": 1.1}, "differs"),
    ],
)
def test_a_value_holds_within_its_limits(core, paper, limits, verdict):
    result = judged(claim(**limits), made("picl", 1.0, 1.2), paper)
    assert (result.verdict, result.measured) == (verdict, 1.2)
    assert result.reason == (None if verdict == "holds" else "because")


def test_what_is_missing_is_not_comparable(core, paper):
    result = judged(claim(designs=("picl", "frm"), at_most=9), made("picl", 1.0), paper)
    assert result.verdict == "not comparable"
    assert "FRM" in result.reason
    declared = claim(at_most=1, not_comparable="too short")
    result = judged(declared, made("picl", 2.0), paper)
    assert (result.verdict, result.reason, result.measured) == ("not comparable", "too short", 2.0)


def test_what_cannot_be_judged_measures_nothing(core, paper):
    declared = claim(designs=(), not_comparable="no hardware here")
    result = judged(declared, [], paper)
    assert (result.verdict, result.reason) == ("not comparable", "no hardware here")


def test_a_file_that_is_nested_too_deeply_is_refused(core, tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(perdure.PerdureError, match=r"deep\.toml: its values are nested too deeply"):
        declaration.Table.read(tmp_path / "deep.toml")


def test_a_claim_without_limits_says_why_it_is_not_judged(core, tmp_path):
    written = """
    [[claim]]
    id = "fig1-cost"
    says = "…"
    quotation = "…"
    section = "V-B"
    paper = "1 %"
    """
    (tmp_path / "claim.toml").write_text(written + 'not_comparable = "no hardware here"')
    (table,) = declaration.Table.read(tmp_path / "claim.toml").list_of_tables("claim")
    for scale in declaration.SCALES:
        assert read_claim(table, (), scale).not_comparable == "no hardware here"
    (tmp_path / "claim.toml").write_text(written)
    (table,) = declaration.Table.read(tmp_path / "claim.toml").list_of_tables("claim")
    with pytest.raises(perdure.PerdureError, match="must be given"):
        read_claim(table, (), "quick")


def test_another_mechanism_is_told_only_where_a_claim_holds(core, paper):
    nine = declaration.experiments("picl", "quick")["fig9"]
    for limit, mechanism in ((1.2, "banks"), (1.1, None)):
        result = claims.judge(
            claim(at_most=limit), nine, paper, made("picl", 1.2),
            factor=8, reason="because", mechanism="banks",
        )  # fmt: skip
        assert result.mechanism == mechanism


def test_reasons_and_mechanisms_stand_in_one_file(core, tmp_path, monkeypatch):
    monkeypatch.setattr(declaration, "FOLDER", tmp_path)
    (tmp_path / "picl").mkdir()
    (tmp_path / "picl" / declaration.REASONS).write_text(
        '[a]\nquick = "x"\nmechanism_full = "y"\n[b]\nmechanism_quick = "z"\n'
    )
    assert declaration.reasons("picl", "quick") == {"a": "x"}
    assert declaration.mechanisms("picl", "quick") == {"b": "z"}
    assert declaration.mechanisms("picl", "full") == {"a": "y"}


def test_designs_are_reduced_after_their_subjects(core, paper):
    values = [*made("picl", 1.0, 3.0), *made("frm", 2.0, 8.0)]
    for among, over, expected in (
        ("maximum", "mean", 5.0),
        ("minimum", "mean", 2.0),
        ("maximum", "geometric-mean", 4.0),
        ("minimum", "median", 2.0),
    ):
        declared = claim(designs=("picl", "frm"), over=over, among=among, at_most=9)
        assert judged(declared, values, paper).measured == pytest.approx(expected)


def test_orderings(core, paper):
    values = [*made("picl", 1.0), *made("frm", 2.0), *made("thynvm", 1.9)]
    three = ("picl", "frm", "thynvm")
    for wanted, verdict in (
        ({"greatest": "frm"}, "holds"),
        ({"greatest": "thynvm"}, "differs"),
        ({"greatest": "thynvm", "tolerance": 0.1}, "holds"),
        ({"least": "picl"}, "holds"),
        ({"least": "frm"}, "differs"),
        ({"ordering": ("picl", "thynvm", "frm")}, "holds"),
        ({"ordering": ("picl", "frm", "thynvm")}, "differs"),
    ):
        declared = claim(kind="ordering", designs=three, **wanted)
        assert judged(declared, values, paper).verdict == verdict, wanted


def test_amounts_that_the_scale_divides_are_divided(core, paper):
    values = made("picl", 7.0, 5.0, 6.0)
    share = claim(over="share-below", limit=50, at_least=0.5, scaled=True)
    assert judged(share, values, paper).measured == pytest.approx(2 / 3)
    most = claim(at_most=48, scaled=True)
    assert judged(most, values, paper).verdict == "differs"
    assert judged(most, values, paper, factor=1).verdict == "holds"


def test_a_rise_is_from_the_first_of_the_axis_to_the_last(core, paper):
    axis = declaration.experiments("picl", "quick")["fig15"].axis.shown
    values = [*made("picl", 1.0, axis=axis[0]), *made("picl", 1.5, axis=axis[-1])]
    declared = claim(change=True, at_most=1)
    assert judged(declared, values, paper, "fig15").measured == pytest.approx(0.5)


def test_parts_are_summed_or_chosen(core, paper):
    values = [*made("picl", 1.0, part="random"), *made("picl", 2.0, part="sequential")]
    for part, expected in (("random", 1.0), ("total", 3.0)):
        declared = claim(part=part, at_most=9)
        assert judged(declared, values, paper, "fig12").measured == expected


def test_averages_keep_axis_and_part(core):
    fifteen = declaration.experiments("picl", "quick")["fig15"]
    values = [*made("picl", 1.0, 4.0, axis=1), *made("picl", 3.0, axis=2)]
    found = claims.averages(fifteen, values)
    assert [(one.axis, one.value) for one in found] == [(1, pytest.approx(2.0)), (2, 3.0)]


def test_classes_need_both_designs(core, paper, provided):
    scale = paper.scales["quick"]
    nine = declaration.experiments("picl", "quick")["fig9"]
    planned = plan.plan(nine, paper, scale, provided, {})

    def stored(one, counters):
        result = {"region": region(instructions=37_500_000, **counters), "sim": {}}
        return {"key": one.point.key(), "point": {}, "result": result}

    counters = {
        "ideal": {"llc__misses": 37_500 * 4, "llc__write_backs": 37_500 * 2},
        "picl": {"versions__cross_stores": 400, "versions__pages_written": 20},
    }
    # Keys need configurations that differ, which the recording does not give: by hand.
    results = {}
    for index, one in enumerate(planned):
        if one.subject == "a" and one.design in counters:
            planned[index] = keyed(one, f"{one.subject}{one.design}")
            results[planned[index].point.key()] = stored(planned[index], counters[one.design])
    table = tables.classes(planned, provided, results, scale, paper)
    assert [row["workload"] for row in table] == ["a"]
    assert table[0]["llc_misses_per_kilo_instruction"] == 4
    assert table[0]["lines_per_written_page"] == 20
    assert table[0]["write_set_bytes_per_epoch"] == 40 * 64
    assert table[0]["class"] == "intensive, local writes"


def keyed(one, key):
    class Keyed(Point):
        def key(self):
            return key

    fields = {field.name: getattr(one.point, field.name) for field in dataclasses.fields(Point)}
    return Planned(one.experiment, one.subject, one.design, one.axis, Keyed(**fields))


@pytest.mark.parametrize(
    ("traffic", "locality", "name"),
    [
        (0.1, 60.0, "compute-bound"),
        (1.0, 60.0, "moderate, local writes"),
        (9.0, 3.0, "intensive, scattered writes"),
        (9.0, None, "intensive"),
    ],
)
def test_classes_have_limits(traffic, locality, name):
    assert tables.class_of(traffic, locality) == name


def test_cuts_are_counted_by_design_and_program(core, paper, provided):
    point = Point("a", "picl", provided.commands(["a"], "tiny")[0])
    one = keyed(Planned("cuts", "a", "picl", None, point), "k")
    broken = {"verdict": "memory-differs", "resumed": False, "token": "p1-x"}
    result = {
        "cuts": 2, "verified": 1, "failed": 1, "coverage": {"cuts_during_recovery": 7},
        "results": [{"verdict": "verified", "resumed": True, "token": "p1-y"}, broken],
    }  # fmt: skip
    (row,) = tables.cuts([one], {"k": {"result": result}}, paper)
    assert (row["verified"], row["failed"], row["resumed"]) == (1, 1, 1)
    assert (row["restarted"], row["expected"]) == (0, "sound")
    assert (row["tokens"], row["cuts_during_recovery"]) == (["p1-x"], 7)
    assert json.dumps(row)

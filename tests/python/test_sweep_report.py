"""A sweep's report and figures: what they say, and that they fit a page in a real browser."""

import copy
import json
import re

import browsing
import pytest
import test_sweep
from conftest import CATALOGUE

import perdure
from perdure.experiments import charts, claims, declaration, execute, plan, sweep_charts
from perdure.experiments.metrics import metric

# Fixtures that pytest finds by their names.
simulator, program = test_sweep.simulator, test_sweep.program

SPREAD = {"median": 4000, "percentile_99": 90000, "worst": 200000}
COST = {"cuts": 9, "lost_cycles": SPREAD, "recovery_cycles": SPREAD}


@pytest.fixture
def probed(simulator, monkeypatch):
    """Points whose power cuts were probed: nothing is lost under ideal."""

    def run(task):
        answered = json.loads(test_sweep.answer(task))
        if "result" in answered:
            cost = copy.deepcopy(COST)
            if answered["result"]["design"] == "ideal":
                cost["recovery_cycles"] = dict.fromkeys(SPREAD, 0)
            answered["result"]["cut_cost"] = cost
        return json.dumps(answered)

    monkeypatch.setattr(execute, "execute", run)


def text_of(done):
    return done.report.read_text(encoding="utf-8")


def sections(text):
    return re.findall(r'<section id="([\w-]+)"', text)


def test_a_sweep_has_a_report_that_needs_nothing_from_elsewhere(simulator, program, tmp_path):
    done = test_sweep.sweep(program, tmp_path / "out")
    assert done.report == tmp_path / "out/report.html"
    text = text_of(done)
    assert sections(text) == ["relative", "sweep", "wear", "results", "points"]
    assert "default-src 'none'" in text
    assert text.count('<b class="better">Lower is better.</b>') == 3
    rows = text.split('id="results-table"')[1].split("</table>")[0]
    assert rows.count('<td data-label="design">picl</td>') == 2
    assert "0.9338" in rows, "1,411 of 1,511 cycles"
    assert text == text_of(test_sweep.sweep(program, tmp_path / "out")), (
        "equal results, equal bytes"
    )


def test_what_cuts_cost_is_shown_where_it_was_probed(probed, program, tmp_path):
    done = test_sweep.sweep(program, tmp_path / "out", probe_cuts=True)
    assert sections(text_of(done))[3:5] == ["work-lost", "recovery-time"]
    rows = next(iter(_data(tmp_path / "out/figures/recovery-time.json")))
    assert {row["design"] for row in rows} == {"picl"}, "what is 0 is not drawn"


def test_failures_and_names_are_told_and_escaped(simulator, tmp_path):
    hostile = tmp_path / "<b>program"
    hostile.write_bytes(b"\x7fELF")
    text = text_of(test_sweep.sweep(hostile, tmp_path / "out", designs=["ideal", "frm"]))
    assert "2 points failed" in text
    assert "no room for the log" in text
    assert "<b>program" not in text.split("<script")[0]


def test_a_sweep_of_which_nothing_finished_has_a_report(simulator, program, tmp_path):
    text = text_of(test_sweep.sweep(program, tmp_path / "out", designs=["frm"]))
    assert sections(text) == ["results", "points"]
    assert "No point has finished." in text


def _data(path):
    return json.loads(path.read_text())["datasets"].values()


def drawn(keys, values, designs=("ideal", "picl")):
    """The figure of time, over keys with these values."""
    rows = [
        {"design": design, "name": "p", "cycles": 5, **dict(zip(keys, place, strict=True))}
        for place in values
        for design in designs
    ]
    figure = next(one for one in sweep_charts.FIGURES if one.name == "sweep")
    return sweep_charts.draw(figure, rows, keys, designs).to_dict()


def test_numbers_are_lines_words_are_bars_and_many_words_are_panels():
    numbers = drawn(["k"], [(str(2**one),) for one in range(5)])
    assert numbers["layer"][0]["mark"]["type"] == "line"
    assert numbers["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    words = drawn(["k"], [("a",), ("b",)])
    assert words["layer"][0]["mark"]["type"] == "bar"
    many = drawn(["k"], [(f"word{one}",) for one in range(40)])
    assert many["columns"] * many["spec"]["width"] <= charts.PAGE_WIDTH
    for one in (numbers, words, many):
        assert "lower is better" in one["title"]["subtitle"][0]
        assert one["usermeta"]["narrowest"] <= 300


def test_no_two_designs_of_a_sweep_have_one_colour():
    every = [one["name"] for one in CATALOGUE["designs"]]
    scale = drawn(["k"], [("a",)], every)["layer"][0]["encoding"]["color"]["scale"]
    assert len(set(scale["range"])) == len(scale["domain"]) == len(every)


def of_paper(subjects):
    """PiCL's figure 9 with that many workloads."""
    paper, known = declaration.paper("picl"), declaration.experiments("picl", "quick")["fig9"]
    values = [
        plan.Value(subject=f"a-program-{one}", design=design, axis=None, part=None, value=1.0 + one,
                   points=())
        for one in range(subjects)
        for design in known.designs
    ]  # fmt: skip
    averages = claims.averages(known, values)
    return charts.experiment([(None, known, values, averages)], paper, factor=8, scale="quick")


def test_35_programs_are_small_multiples_and_a_few_are_one_chart():
    few, many = of_paper(4).to_dict(), of_paper(35).to_dict()
    assert "facet" not in few
    assert few["layer"][0]["encoding"]["xOffset"]["field"] == "design"
    assert len(many["facet"]["sort"]) == 36, "and the average"
    assert many["columns"] * many["spec"]["width"] <= charts.PAGE_WIDTH
    assert "1.7 ×" in " ".join(many["title"]["subtitle"]), "the paper's values are in words above"


@pytest.mark.parametrize("name", ["picl", "nvoverlay", "flush", "spms", "nearpm"])
def test_every_experiment_of_every_paper_says_which_direction_is_better(name):
    for known in declaration.experiments(name, "quick").values():
        chosen = metric(known.metric)
        assert charts.direction(chosen.better).endswith("is better")
        if known.chart == "bars" and known.designs:
            drawn = charts.experiment(
                [(None, known, [], [])], declaration.paper(name), factor=8, scale="quick"
            )
            assert charts.direction(chosen.better) in " ".join(drawn.to_dict()["title"]["subtitle"])


@pytest.fixture
def browser():
    with browsing.headless() as driver:
        yield driver


def test_a_report_fits_three_widths_in_light_and_dark(probed, program, tmp_path, browser):
    done = perdure.sweep(
        [program, "7"],
        designs=["ideal", "picl", "journaling", "shadow-paging", "hardware-shadow"],
        set={"llc.kind": ["a-very-long-value-" + "x" * 40, "b"], "nvm.banks": [4, 8]},
        probe_cuts=True,
        out=tmp_path / "out",
    )
    charts.save(of_paper(35), tmp_path / "out/figures/wear")
    _replace_by_35_programs(done, tmp_path / "out")
    for width in (390, 800, 1400):
        for scheme in ("light", "dark"):
            browsing.emulate(browser, width, scheme)
            browser.get(done.report.as_uri())
            assert len(browsing.drawn(browser)) == 5
            place = f"{width} pixels, {scheme}"
            browser.execute_async_script(browsing.OPEN_ALL)
            across = browser.execute_script("return document.documentElement.scrollWidth")
            assert across <= width, place
            assert browser.execute_script(browsing.CUT_OFF) == [], place
            assert browser.execute_script(browsing.WITHOUT_HINT) == [], place
            panels = browser.find_element("css selector", "#wear .scroll")
            assert panels.get_attribute("data-more") is None, f"35 programs at {place}"
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []


def _replace_by_35_programs(done, out):
    """The page again, with the 35 programs in the place of its figure of wear."""
    from perdure.experiments.report import of_sweep

    names = [one.name for one in sweep_charts.FIGURES]
    kinds = ("json", "svg")
    files = {name: {kind: out / f"figures/{name}.{kind}" for kind in kinds} for name in names}
    of_sweep.write(done, files, {})


def test_searching_the_results_of_a_sweep(simulator, program, tmp_path, browser):
    browser.get(test_sweep.sweep(program, tmp_path / "out").report.as_uri())
    browser.find_element("css selector", "[data-search='results-table']").send_keys("picl")
    rows = browser.find_elements("css selector", "#results-table tbody tr")
    assert [row.is_displayed() for row in rows] == [False, True, False, True]
    browser.execute_script("document.querySelector('#points-details').open = true")
    browser.execute_script("document.querySelector('[data-configuration]').click()")
    shown = browser.find_element("css selector", "dialog pre").text
    assert '"design": "ideal"' in shown

"""The report page: what it says, that it is self-contained, and that a browser shows it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair
import browsing
import pytest

from perdure import PerdureError
from perdure.experiments import report

HOSTILE = "</script><script>document.title = 'taken'</script><b>"


def claim(name: str, verdict: str, measured: float | None) -> dict[str, Any]:
    return {
        "id": name,
        "model": None,
        "says": f"claim {name} {HOSTILE}",
        "quotation": "virtually no performance loss",
        "section": "§VI-B",
        "kind": "value",
        "paper": "1.01",
        "scaled_by": None,
        "expected": {"at_least": None, "at_most": 1.02, "tolerance": 0.0},
        "measured": measured,
        "measured_text": str(measured),
        "verdict": verdict,
        "reason": None if verdict == "holds" else "a reason",
        "mechanism": None,
        "shown_by": [],
    }


def experiment(name: str, figure: str, claims: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "figure": figure,
        "title": f"title of {name}",
        "summary": "a summary",
        "metric": {
            "name": "time",
            "label": "normalised time",
            "unit": "×",
            "meaning": "time over ideal's",
            "better": "lower",
        },
        "subject": "workload",
        "axis": None,
        "parts": [],
        "notes": ["a note"],
        "figure_files": {
            "svg": f"figures/{name}.svg",
            "png": f"figures/{name}.png",
            "vega_lite": f"figures/{name}.json",
        },
        "values": [
            {
                "model": None,
                "subject": subject,
                "design": "picl",
                "axis": None,
                "part": None,
                "value": value,
                "points": ["k1"],
            }
            for subject, value in (("mcf", 1.5), ("lbm", 1.25), ("astar", 10.0))
        ],
        "claims": claims,
    }


RESULTS: dict[str, Any] = {
    "schema": 1,
    "paper": {"name": "PiCL", "title": f"A title {HOSTILE}", "reference": "MICRO 2018"},
    "scale": "quick",
    "scaled": [{"what": "epoch", "full": "30 M", "quick": "3.75 M", "reason": "time"}],
    "notes": ["what holds for all"],
    "models": [],
    "version": "0.1.0",
    "core": "c0",
    "seed": 7,
    "designs": [{"name": "picl", "label": "PiCL", "summary": "a log"}],
    "mixes": [{"name": "W0", "programs": ["mcf", "lbm"]}],
    "workloads": [
        {
            "name": "mcf",
            "stands_for": "mcf",
            "kind": "kernel",
            "summary": "flow",
            "available": True,
            "reason": None,
        }
    ],
    "experiments": [
        experiment("fig9", "Fig. 9", [claim("near", "holds", 1.013), claim("far", "differs", 9.5)]),
        experiment("fig10", "Fig. 10", [claim("none", "not comparable", None)]),
    ],
    "tables": {
        "classes": [],
        "bounds": [],
        "probes": [],
        "cuts": [
            {
                "design": "picl",
                "program": "mcf",
                "programs": ["mcf"],
                "cuts": 1000,
                "verified": 999,
                "failed": 1,
                "expected": "sound",
                "resumed": 50,
                "cuts_during_recovery": 300,
                "tokens": ["TOKEN"],
                "points": ["k1"],
            }
        ],
        "cut_costs": [],
        "cut_costs_figure": None,
    },
    "points": {
        "k1": {
            "name": "mcf",
            "design": "picl",
            "machine": "picl",
            "overrides": ["nvm.banks=8"],
            "config_hash": "abc",
            "configuration": "configurations/abc.toml",
            "cycles": 123456,
            "instructions": 1000,
        }
    },
    "failures": [],
    "interrupted": False,
    "host": {},
}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output folder with two figures and one configuration."""
    for folder in ("figures", "configurations"):
        (tmp_path / folder).mkdir()
    for name in ("fig9", "fig10"):
        rows = [{"design": "picl", "value": 1.5}, {"design": "frm", "value": 2.5}]
        chart = (
            altair.Chart(altair.InlineData(values=rows))
            .mark_bar()
            .encode(x="design:N", y="value:Q")
        )
        (tmp_path / "figures" / f"{name}.json").write_text(json.dumps(chart.to_dict()))
        (tmp_path / "figures" / f"{name}.svg").write_text(
            "<svg xmlns='http://www.w3.org/2000/svg'/>"
        )
    (tmp_path / "configurations" / "abc.toml").write_text(f"# {HOSTILE}\nharts = 1\n")
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    return tmp_path


def test_the_page_needs_nothing_from_elsewhere_and_escapes_everything(out: Path) -> None:
    text = report.write(out).read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(
        r"<(?:script|img|link|iframe)[^>]*\s(?:src|href)=[\"']?(?:https?:)?//", text
    )
    assert "<b>" not in re.sub(r"<b>\d+</b>|<b>quick</b>", "", text.split("<script", 1)[0])
    assert text == report.write(out).read_text(encoding="utf-8"), "equal results, equal bytes"


def test_the_tally_is_of_the_verdicts(out: Path) -> None:
    text = report.write(out).read_text(encoding="utf-8")
    for verdict in report.VERDICTS:
        assert f"<b>1</b> {verdict}" in text


def test_a_scaled_claim_states_its_scale_in_its_own_row(out: Path) -> None:
    results = copy.deepcopy(RESULTS)
    scaled, unscaled = results["experiments"][0]["claims"]
    scaled["scaled_by"] = 8
    del unscaled["scaled_by"]  # as an older build wrote it
    (out / "results.json").write_text(json.dumps(results))
    text = report.write(out).read_text(encoding="utf-8")
    said = re.findall(r'<td data-label="the paper says">(.*?)</td>', text)
    assert said == ["1.01 (÷ 8 at quick)", "1.01", "1.01"]


@pytest.mark.parametrize(("better", "said"), [("higher", "Higher"), (None, "Neither direction")])
def test_every_figure_says_which_direction_is_better(
    out: Path, better: str | None, said: str
) -> None:
    results = copy.deepcopy(RESULTS)
    results["experiments"][1]["metric"]["better"] = better
    (out / "results.json").write_text(json.dumps(results))
    text = report.write(out).read_text(encoding="utf-8")
    assert re.findall(r'<b class="better">(.*?) is better', text) == ["Lower", said]


def test_each_model_has_its_columns_and_its_tally(out: Path) -> None:
    results = copy.deepcopy(RESULTS)
    models = {"theirs": "the paper's model", "ours": "ours"}
    results["models"] = [
        {"name": name, "label": label, "machine": name, "assumptions": [f"of {name}"]}
        for name, label in models.items()
    ]
    verdicts = [("theirs", "holds"), ("ours", "differs")]
    for one in results["experiments"]:
        one["claims"] = [
            {**claim(judged["id"], verdict, 1.5), "model": model}
            for judged in one["claims"]
            for model, verdict in verdicts
        ]
        one["values"] = [{**value, "model": "ours"} for value in one["values"]]
    (out / "results.json").write_text(json.dumps(results))
    text = report.write(out).read_text(encoding="utf-8")
    assert text.count("<b>3</b> holds") == text.count("<b>3</b> differs") == 1
    assert text.count('<tr data-verdict="holds|differs">') == 3
    for model in models:
        assert f"<li>of {model}</li>" in text
    assert "In the paper&#39;s model" in text


def test_an_interrupted_reproduction_says_so(out: Path) -> None:
    results = {**copy.deepcopy(RESULTS), "interrupted": True}
    (out / "results.json").write_text(json.dumps(results))
    assert "This run was interrupted" in report.write(out).read_text(encoding="utf-8")


@pytest.mark.parametrize("missing", ["results.json", "figures/fig9.svg", "configurations/abc.toml"])
def test_a_missing_file_is_named(out: Path, missing: str) -> None:
    (out / missing).unlink()
    with pytest.raises(PerdureError, match=re.escape(str(out / missing))):
        report.write(out)


@pytest.mark.parametrize("text", ['{"schema": 1', "[" * 100_000])
def test_results_that_are_damaged_are_refused(out: Path, text: str) -> None:
    (out / "results.json").write_text(text)
    with pytest.raises(PerdureError, match=r"results\.json is not JSON"):
        report.write(out)


def test_numbers_are_short() -> None:
    assert report.number(None) == "–"
    assert report.number(1234567) == "1\u202f234\u202f567"
    assert report.number(1.23456) == "1.235"


# ---- In a browser --------------------------------------------------------------------------------


@pytest.fixture
def browser(out: Path) -> Iterator[Any]:
    """Headless Chromium with the page open."""
    with browsing.headless() as driver:
        driver.get(report.write(out).as_uri())
        yield driver


def shown(browser: Any, selector: str) -> list[str]:
    found = browser.find_elements("css selector", selector)
    return [one.text for one in found if one.is_displayed()]


def test_a_browser_shows_figures_sorts_and_filters(browser: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    def click(selector: str) -> None:
        browser.execute_script("document.querySelector(arguments[0]).click()", selector)

    for name in ("fig9", "fig10"):
        browser.execute_script("document.getElementById(arguments[0]).scrollIntoView()", name)
        figure = f"[data-figure='{name}'] svg .mark-rect path"
        WebDriverWait(browser, 20).until(
            lambda driver, it=figure: driver.find_elements("css selector", it)
        )
    assert "taken" not in browser.title

    click("button[data-verdict='differs']")
    assert len(shown(browser, "#claims-table tbody tr")) == 1
    click("button[data-verdict='']")
    assert len(shown(browser, "#claims-table tbody tr")) == 3
    browser.find_element("css selector", "[data-search='claims-table']").send_keys("no such thing")
    assert shown(browser, "#claims-table tbody tr") == []
    assert shown(browser, ".empty") == ["No claim matches."]

    click("#fig9 > details summary")
    values = "#fig9 > details tbody tr td:nth-child(3)"
    click("#fig9 > details thead th:nth-child(3)")
    assert shown(browser, values) == ["1.25", "1.5", "10"], "by size, not by letters"
    click("#fig9 > details thead th:nth-child(3)")
    assert shown(browser, values) == ["10", "1.5", "1.25"]

    click("[data-configuration]")
    assert shown(browser, "dialog pre") == [f"# {HOSTILE}\nharts = 1"]
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []


def test_a_phone_in_the_dark_can_read_it(browser: Any) -> None:
    browsing.emulate(browser, 390, "dark")
    width = "return document.documentElement.scrollWidth"
    assert browser.execute_script(width) <= 390, "nothing sticks out sideways"
    colours = "const c = getComputedStyle(document.body); return [c.backgroundColor, c.color]"
    background, ink = (
        sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in browser.execute_script(colours)
    )
    assert background < 100 < 500 < ink, "light on dark"
    browser.execute_script("document.querySelector('button[data-verdict=differs]').click()")
    assert len(shown(browser, "#claims-table tbody tr")) == 1

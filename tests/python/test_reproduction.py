"""A whole reproduction with a recorded core: what it writes follows docs/experiments.md."""

import dataclasses
import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import polars
import pytest
from conftest import CATALOGUE, RUN, check_schema

import perdure
from perdure.experiments import cluster, declaration, execute, programs

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/experiments.md"
COUNTERS = {
    "epoch.committed": 40,
    "nvm.operations.write_back": 5_000,
    "nvm.operations.random": 7_000,
    "nvm.operations.sequential": 300,
    "nvm.written_bytes.log": 9_000_000,
    "picl.acs_scans": 10,
    "picl.acs_lines": 4_000,
    "llc.misses": 90_000,
    "llc.write_backs": 50_000,
    "versions.cross_stores": 80_000,
    "versions.pages_written": 4_000,
    "flush.lines": 9_000,
    "flush.stall": 400_000,
    "l1d.stores": 9_000_000,
    "nvm.written_bytes.data": 2_000_000,
    "picl.undo_entries": 70_000,
    "picl.undo_entries.from_clean": 60_000,
    "picl.undo_flushes.forced": 20,
    "epoch.persisted": 40,
    "epoch.to_persisted": 2_000_000,
    "epoch.forced": 4,
    "core.persist_stall": 100_000,
}
SPEED = {"ideal": 1.0, "picl": 1.005, "frm": 1.6, "journaling": 1.3}


def answer(task):
    """A region as long as was asked for; slower under some designs; `b` fails under ThyNVM."""
    asked = json.loads(task)
    request = asked["request"]
    design = request["design"]
    name = Path(request["programs"][0][0]).name if "programs" in request else ""
    if design == "thynvm" and name == "b":
        return json.dumps({"error": "the simulator's process was ended by SIGKILL"})
    if asked["command"] == "cut":
        verified = {"verdict": "verified", "resumed": False, "token": "p1-a"}
        cuts = {"cuts": 3, "verified": 3, "failed": 0, "results": [verified] * 3}
        return json.dumps({"result": {**cuts, "coverage": {"cuts_during_recovery": 5}}})
    measure = request["measure_instructions"]
    shares = [
        {"cycles": round(2 * measure * SPEED.get(design, 1.2)), "instructions": measure}
        for _ in request["programs"]
    ]
    counters = {
        key: {"value": value, "unit": "lines", "meaning": "m"} for key, value in COUNTERS.items()
    }
    region = {
        "cycles": shares[0]["cycles"],
        "instructions": measure * len(shares),
        "programs": shares,
        "statistics": counters,
    }
    ended = [{"exit_code": None, "runs": 0, "instructions": measure, "arguments": []}]
    result = {**RUN, "design": design, "exit_code": None, "region": region}
    if request.get("probe_cuts"):
        spread = {"median": 5, "percentile_99": 9, "worst": 9 if design == "frm" else 18}
        result["cut_cost"] = {"cuts": 16, "recovery_cycles": spread}
    return json.dumps({"result": {**result, "programs": ended * len(shares)}})


@pytest.fixture
def reproduce(core, monkeypatch, tmp_path):
    """Reproduces with two kernels that need no compiler, and a Debian program without a mirror."""

    def configuration(request):
        asked = json.loads(request)
        text = json.dumps({key: asked[key] for key in ("design", "set", "harts", "machine")})
        return json.dumps({"toml": text, "hash": f"{abs(hash(text)):016x}", "values": {}})

    size = programs.Size(("1",), 10, 37_500_000)
    sizes = dict.fromkeys(("quick", "full", "tiny"), size)
    entries = {
        name: programs.Entry(name, "mcf", "sums", kind, name, (), (), sizes)
        for name, kind in (("a", "kernel"), ("b", "kernel"), ("c", "debian"))
    }

    def provide(_entries, _scales, out, **_more):
        digests = {"kernel/a": "1", "kernel/b": "2"}
        return programs.Provided(entries, {"c": "no mirror"}, out, None, {}, digests)

    declared = declaration._experiment
    cuts = declaration.cuts

    def of_all(path, scale):
        made = declared(path, scale)
        named = made.subject == "workload" and made.subjects
        return declaration.Experiment(**{**vars(made), "subjects": ("a", "b")}) if named else made

    def small(name, scale):
        return declaration.Cuts(**{**vars(cuts(name, scale)), "programs": {"a": ("a",)}})

    probes = declaration.probes

    def of_some(name, scale):
        found = probes(name, scale)
        return {
            key: replace(
                one, subject="a" if known_figures[one.figure].subject == "workload" else one.subject
            )
            for key, one in found.items()
        }

    known_figures = declaration.experiments("picl", "quick")
    names = ("ideal", "journaling", "shadow-paging", "frm", "thynvm", "picl")
    other = {"promise": "nothing", "epochs": "machine", "recovery": "resume"}
    designs = [{"name": name, "summary": f"{name} …", **other} for name in names]
    known = json.dumps({**CATALOGUE, "designs": designs})
    monkeypatch.setattr(execute, "execute", answer)
    monkeypatch.setattr(core, "configuration", configuration)
    monkeypatch.setattr(core, "catalogue", lambda: known)
    monkeypatch.setattr(programs, "catalogue", lambda **_files: list(entries.values()))
    monkeypatch.setattr(programs, "provide", provide)
    monkeypatch.setattr(declaration, "_experiment", of_all)
    monkeypatch.setattr(declaration, "cuts", small)
    monkeypatch.setattr(declaration, "probes", of_some)
    return lambda *figures, **more: perdure.reproduce("picl", figures, out=tmp_path, **more)


def test_everything_of_a_paper(reproduce, tmp_path):
    done = reproduce()
    results = json.loads((tmp_path / "results.json").read_text())
    check_schema("reproduction", results)
    figures = [one["name"] for one in results["experiments"]]
    assert [one for one in figures if re.fullmatch(r"fig\d+", one)] == [
        f"fig{n}" for n in range(9, 19)
    ]
    for one in results["experiments"]:
        if one["name"] == "not-judged":
            assert not one["values"]
            assert {claim["verdict"] for claim in one["claims"]} == {"not comparable"}
            continue
        assert {value["design"] for value in one["values"]}, one["name"]
        for kind in ("svg", "png", "vega_lite"):
            assert (tmp_path / one["figure_files"][kind]).stat().st_size > 0
        for claim in one["claims"]:
            assert claim["verdict"] == "holds" or claim["reason"]
        for value in one["values"]:
            assert set(value["points"]) <= set(results["points"])
    for kept_point in results["points"].values():
        assert (tmp_path / kept_point["configuration"]).is_file()
    assert {row["workload"] for row in results["tables"]["classes"]} == {"a", "b"}
    assert {row["verified"] for row in results["tables"]["cuts"]} == {3}
    verdicts = dict(zip(done.claims["id"], done.claims["verdict"], strict=True))
    assert verdicts["fig9-picl-average"] == "holds"
    assert verdicts["fig9-picl-fastest"] == "holds"
    assert "thynvm" in done.failures["design"].to_list()
    page = (tmp_path / "report.html").read_text()
    assert "within" in page or "PiCL" in page
    kept = polars.read_parquet(tmp_path / "results.parquet")
    assert kept["key"].to_list() == sorted(results["points"])
    assert kept.filter(polars.col("experiments").list.contains("fig9")).height == 13


def test_it_is_one_line_a_cell_and_a_frame(reproduce, tmp_path):
    done = reproduce("fig9", "fig11")
    count = len(done.claims)
    said = f"Reproduction(paper: picl, quick, points: {len(done.points)}, failed: "
    assert repr(done).startswith(said) and "\n" not in repr(done)
    assert " hold" in repr(done) and repr(done).endswith(f"in: {tmp_path})")
    assert len(repr(done)) < 120 + len(str(tmp_path))
    cell = done._repr_html_()
    assert cell.count("<tr>") == 5 + 1 + count
    assert done.results["paper"]["title"] in cell and "<td>fig9</td>" in cell
    odd = done.claims.with_columns(says=polars.lit("<b>"))
    assert "&lt;b&gt;" in replace(done, claims=odd)._repr_html_()
    assert done.to_frame().equals(done.values) and len(done.values) > 5
    assert list(done.to_pandas().columns) == done.values.columns
    # A reproduction that was ended early says so.
    assert ", interrupted" in repr(replace(done, interrupted=True))
    assert "claims: none" in repr(replace(done, claims=done.claims.clear()))


def documented(block):
    """The keys that the document's outline of `results.json` names, anywhere in it."""
    return set(re.findall(r'"([a-z_]+)"', re.sub(r": \"[^\"]*\"", "", block)))


def keys(value):
    """All keys of a document but those of tables by key or by place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if re.fullmatch(r"[a-z_]+", key):
                yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_the_schema_is_the_documents(reproduce, tmp_path):
    reproduce()
    outline = DOCUMENT.read_text().split("### `results.json`")[1].split("```")[1]
    written = set(keys(json.loads((tmp_path / "results.json").read_text())))
    assert written <= documented(outline), written - documented(outline)


def test_a_part_shares_points_with_the_whole(reproduce, tmp_path, monkeypatch):
    reproduce("fig9")

    def refuse(_task):
        raise AssertionError("everything is there already")

    monkeypatch.setattr(execute, "execute", refuse)
    done = reproduce("fig13")
    assert [one["name"] for one in done.results["experiments"]] == ["fig13"]
    assert len(done.failures) == 0


def test_a_reproduction_is_the_same_for_any_number_of_workers(reproduce, tmp_path):
    def written(workers):
        for path in (tmp_path / "points").glob("*"):
            path.unlink()
        reproduce("fig9", "fig11", workers=workers)
        results = json.loads((tmp_path / "results.json").read_text())
        figures = [(tmp_path / f"figures/fig{n}.svg").read_bytes() for n in (9, 11)]
        return {**results, "host": None}, figures

    (tmp_path / "points").mkdir()
    assert written(1) == written(4)


def test_one_subject_alone(reproduce, tmp_path):
    done = reproduce("fig9", "fig10", subjects=["b"])
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["only"] == ["b"]
    assert [one["name"] for one in results["experiments"]] == ["fig9"], "fig10 is of mixes"
    assert set(done.values["subject"]) == {"b"}
    assert "Only b" in results["experiments"][0]["notes"][-1]


def test_what_there_is_not_is_refused_before_anything_is_built(reproduce, monkeypatch):
    def provide(*_asked, **_how):
        raise AssertionError("nothing may be built or fetched")

    monkeypatch.setattr(programs, "provide", provide)
    with pytest.raises(perdure.PerdureError, match=r"there is no subject d: .*a, b, c, W0"):
        reproduce("fig9", subjects=["d"])
    with pytest.raises(perdure.PerdureError, match=r"no design nosuch: there are ideal, .*picl"):
        reproduce("fig9", designs=["nosuch"])
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(perdure.PerdureError, match="no Dask scheduler answers there"):
        reproduce("fig9", scheduler="tcp://127.0.0.1:9")


def test_one_text_stands_for_a_list_of_experiments(reproduce, tmp_path):
    out = tmp_path / "narrow"
    perdure.reproduce("picl", "fig9,fig17", subjects="W0", designs="picl", at=3.2, out=out)
    results = json.loads((out / "results.json").read_text())
    assert results["only"] == ["W0", "picl", "3.2"]
    assert [one["name"] for one in results["experiments"]] == ["fig17"]


def test_one_design_at_one_place_of_an_axis(reproduce, tmp_path):
    done = reproduce("fig9", "fig17", subjects=["W0"], designs=["picl"], at=[3.2])
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["only"] == ["W0", "picl", "3.2"]
    assert [one["name"] for one in results["experiments"]] == ["fig17"], "fig9 is not of mixes"
    assert set(zip(done.values["design"], done.values["axis"], strict=True)) == {("picl", 3.2)}
    assert sorted(done.points["design"]) == ["ideal", "picl"]
    assert "Only W0; picl; 3.2" in results["experiments"][0]["notes"][-1]
    with pytest.raises(perdure.PerdureError, match=r"no design nvoverlay: there are ideal, .*picl"):
        reproduce("fig9", designs=["nvoverlay"])
    with pytest.raises(perdure.PerdureError, match=r"no place of an axis 5: there are .*3\.2"):
        reproduce("fig17", at=[5])


def test_lines_say_what_runs_and_what_was_scaled(reproduce):
    said = []
    reproduce("fig10", say=said.append)
    text = "\n".join(said)
    assert "picl, quick: fig10; 48 points" in text
    assert "256 KiB (paper: 32 KiB, 256 KiB, 2 MiB)" in text
    assert "mixes of seed 2018:" in text


def test_the_command_prints_claims_and_exits_1_if_a_point_failed(reproduce, command, tmp_path):
    status, out, err = command("reproduce", "picl", "fig9", "--out", tmp_path)
    assert status == 1
    assert "holds" in out
    assert "failed: b thynvm (fig9)" in out
    assert f"report: {tmp_path}/report.html" in err


def test_claims_are_judged_in_every_model(reproduce, tmp_path, monkeypatch, command):
    """Values, claims, data set, figure, report and page have both models side by side."""
    known = declaration.paper
    models = [
        declaration.Model("theirs", "their model", "picl", ("so it is",), ("nvm.banks=4",)),
        declaration.Model("ours", "ours", "picl", ("so it is here",)),
    ]
    monkeypatch.setattr(
        declaration, "paper", lambda name: dataclasses.replace(known(name), models=models)
    )
    done = reproduce("fig11")
    results = json.loads((tmp_path / "results.json").read_text())
    assert [one["name"] for one in results["models"]] == ["theirs", "ours"]
    (experiment,) = results["experiments"]
    assert {value["model"] for value in experiment["values"]} == {"theirs", "ours"}
    for claim in {one["id"] for one in experiment["claims"]}:
        judged = [one["model"] for one in experiment["claims"] if one["id"] == claim]
        assert judged == ["theirs", "ours"]
    assert set(done.claims["model"]) == {"theirs", "ours"}
    kept = polars.read_parquet(tmp_path / "results.parquet")
    assert {tuple(one) for one in kept["models"].to_list()} == {("theirs",), ("ours",)}
    assert "In their model" in (tmp_path / "report.html").read_text()
    figure = json.loads((tmp_path / "figures/fig11.json").read_text())
    assert len(figure.get("vconcat", figure.get("hconcat"))) == 2
    (tmp_path / "page").mkdir()
    root = Path(__file__).resolve().parents[2]
    monkeypatch.syspath_prepend(str(root / ".ci"))
    page = runpy.run_path(str(root / ".ci/evaluation.py"), run_name="page")["page"]
    text = "\n".join(page(results, tmp_path / "page"))
    assert "hold in their model, " in text
    assert "| the paper says | its value | in their model | verdict | in ours | verdict |" in text

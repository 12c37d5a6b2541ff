"""Sweeps and reproductions with the compiled core: the same results however they are run.

Always true here: the points are small (a few million instructions); clusters are started by hand
and ended by the test that started them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import polars
import pytest
from conftest import PATIENCE_SECONDS, Command

import perdure
from perdure.experiments import declaration, execute, papers, plan
from perdure.experiments import programs as catalogue
from perdure.experiments.servers import Server

KV = ("kv", "2000")


def program(programs: Path) -> list[str]:
    return [str(programs / KV[0]), KV[1]]


def results(out: Path) -> polars.DataFrame:
    """The data set without what the host took."""
    data = polars.read_parquet(out / "results.parquet")
    return data.drop("host_seconds", "host_mips")


def sweep(programs: Path, out: Path, **more: object) -> perdure.Sweep:
    return perdure.sweep(
        program(programs),
        set={"epoch.instructions": [500_000, 1_000_000], "nvm.row_write_ns": [128, 368]},
        out=out,
        **more,  # type: ignore[arg-type]
    )


def test_one_worker_or_several_give_identical_results(programs: Path, tmp_path: Path) -> None:
    one = sweep(programs, tmp_path / "one", workers=1)
    several = sweep(programs, tmp_path / "several", workers=3)
    assert len(one.data) == 8
    assert results(tmp_path / "one").equals(results(tmp_path / "several"))
    assert len(one.failures) == len(several.failures) == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python itself begins with the folder")
def test_modules_in_the_users_folder_are_not_taken_for_pythons(
    programs: Path, tmp_path: Path, command: Command
) -> None:
    for name in ("dataclasses", "queue", "types"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this is not the library')\n")
    ended = command("sweep", "--design", "ideal,picl", "--out", "out", "--", *program(programs))
    assert ended.status == 0, ended.stderr
    assert len(results(tmp_path / "out")) == 2


def test_a_dask_cluster_gives_the_results_of_this_machine(
    programs: Path, tmp_path: Path, scheduler: str, command: Command
) -> None:
    words = ["--set", "epoch.instructions=500000,1000000", "--set", "nvm.row_write_ns=128,368"]
    there = tmp_path / "there"
    ended = command(
        "sweep", *words, "--scheduler", scheduler, "--out", there, "--", *program(programs)
    )
    assert ended.status == 0, ended.stderr
    sweep(programs, tmp_path / "here")
    assert results(there).equals(results(tmp_path / "here"))


def test_an_interrupted_sweep_goes_on_where_it_was(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = Path(sys.executable).with_name("perdure")
    words = ["sweep", "--set", "epoch.instructions=500000,600000,700000,800000", "--workers", "1"]
    process = subprocess.Popen(
        [script, *words, "--out", out, "--", programs / "kv", "20000"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[2/8]"):
            process.send_signal(signal.SIGINT)
            break
    process.stderr.read()
    assert process.wait(PATIENCE_SECONDS) == 130
    finished = {path.name: path.stat().st_mtime_ns for path in (out / "points").iterdir()}
    assert 2 <= len(finished) < 8
    assert len(results(out)) == len(finished)
    rest = perdure.sweep(
        [str(programs / "kv"), "20000"],
        set={"epoch.instructions": [500000, 600000, 700000, 800000]},
        out=out,
    )
    assert (len(rest.data), rest.interrupted) == (8, False)
    for name, written in finished.items():
        assert (out / "points" / name).stat().st_mtime_ns == written, "computed twice"


def test_where_a_program_lies_does_not_matter(programs: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "kv"
    moved.parent.mkdir()
    moved.write_bytes((programs / "kv").read_bytes())
    moved.chmod(0o755)
    one = perdure.sweep(program(programs), out=tmp_path / "one")
    other = perdure.sweep([str(moved), KV[1]], out=tmp_path / "other")
    assert one.data["key"].to_list() == other.data["key"].to_list()
    assert one.data["state_hash"].to_list() == other.data["state_hash"].to_list()


def test_a_crash_of_the_simulator_is_a_failed_point(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a point that is killed takes nothing else with it."""
    start = execute.RUNNING.start
    started = 0

    def start_and_kill_the_second(campaign: str) -> Server:
        nonlocal started
        server = start(campaign)
        started += 1
        if started == 2:
            server.kill()
        return server

    monkeypatch.setattr(execute.RUNNING, "start", start_and_kill_the_second)
    done = sweep(programs, tmp_path / "out", workers=1)
    assert len(done.data) == 7
    (error,) = done.failures["error"]
    assert "SIGKILL" in error
    monkeypatch.undo()
    assert len(sweep(programs, tmp_path / "out").data) == 8


def test_a_figure_is_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 13 of two kernels, and again from what is kept."""
    kernels = {"molecular", "path-search"}
    chosen = [entry for entry in catalogue.catalogue() if entry.name in kernels]
    monkeypatch.setattr(catalogue, "catalogue", lambda **_files: chosen)
    out = tmp_path / "out"
    done = perdure.reproduce("picl", ["fig13"], out=out)
    assert set(done.values["subject"]) == kernels
    assert done.claims["id"].to_list() == ["fig13-majority", "fig13-heaviest"]
    written = json.loads((out / "results.json").read_text())
    for value in written["experiments"][0]["values"]:
        (key,) = value["points"]
        assert (out / written["points"][key]["configuration"]).is_file()
    assert done.report.stat().st_size > 0
    before = {path: path.stat().st_mtime_ns for path in (out / "points").iterdir()}
    perdure.reproduce("picl", ["fig13"], out=out)
    assert before == {path: path.stat().st_mtime_ns for path in (out / "points").iterdir()}
    again = json.loads((out / "results.json").read_text())
    assert {**again, "host": 0} == {**written, "host": 0}


def test_primitives_are_compared_on_pools_that_were_made_before(tmp_path: Path) -> None:
    """The flush study's QUE at its smallest size: what waits is counted to the instruction."""
    out = tmp_path / "out"
    done = perdure.reproduce("flush", ["fig5"], subjects=["que"], at=[460], workers=1, out=out)
    assert done.failures.is_empty()
    slower = {row["design"]: row["value"] for row in done.values.iter_rows(named=True)}
    assert slower["clflush"] > slower["clflushopt"] * 0.95 > slower["clwb"] > 1
    waited = {}
    for path in (out / "points").iterdir():
        kept = json.loads(path.read_text())
        stalls = kept["result"]["statistics"]["window.head_stalls"]["value"]
        waited[kept["point"]["programs"][0]["command"][-1]] = stalls
    # Two flushes and two fences for each of 460 enqueues, one and two for each of 400 dequeues.
    assert waited["clwb"] - waited["none"] == 2 * 460 + 2 * 400
    assert waited["clflush"] - waited["clwb"] == 2 * 460 + 400


def test_transactions_are_compared(tmp_path: Path) -> None:
    """SPS under SPMS and a log, and what of it one table of twelve bits is worth."""
    out = tmp_path / "out"
    designs = ["wal", "spms", "spms-table"]
    done = perdure.reproduce(
        "spms", ["fig3", "flushed"], subjects=["sps"], designs=designs, workers=2, out=out
    )
    assert done.failures.is_empty()
    found = {(row["experiment"], row["design"]): row["value"] for row in done.values.to_dicts()}
    assert found["fig3", "wal"] < found["fig3", "spms"] < found["fig3", "spms-table"]
    assert found["flushed", "wal"] == 100
    assert found["flushed", "spms"] < 0.01
    assert not (out / "pools").exists()


@pytest.mark.parametrize("paper", papers())
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_every_point_of_every_paper_has_a_configuration(
    paper: str, scale: declaration.Scale, tmp_path: Path
) -> None:
    """All that a reproduction would run is accepted, as if every program had been built."""
    declared = declaration.paper(paper)
    entries = catalogue.catalogue(files=declared.catalogues)
    entries = catalogue.measured(entries, declaration.regions(paper, scale), scale)
    digests: dict[str, str] = defaultdict(lambda: "0")
    named = {entry.name: entry for entry in entries}
    inputs: dict[str, Path] = dict.fromkeys((scale, "tiny"), tmp_path)
    provided = catalogue.Provided(named, {}, tmp_path, tmp_path, inputs, digests)
    of_scale = declared.scales[scale]
    mixes = plan.mixes(declared, of_scale, provided)
    experiments = declaration.experiments(paper, scale).values()
    planned = plan.plan_all(experiments, declared, of_scale, provided, mixes)
    planned += plan.plan_cuts(declaration.cuts(paper, scale), declared, provided)
    assert planned
    for point in {one.point for one in planned}:
        assert point.configuration().toml, point

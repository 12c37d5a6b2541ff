"""What comes back from real runs: the text that programs wrote, and JSON that its schema knows.

Always true here: a schema is held against an answer closed, so that a key that is not typed fails.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import REPOSITORY, Command
from typer.testing import CliRunner

import perdure
from perdure import (
    _core,
    bench,
    bench_check,
    bench_cuts,
    bench_misses,
    bench_programs,
    hunting,
    litmus,
    schemas,
)

EPOCHS = "epoch.instructions=500000"


def check(kind: str, document: object) -> None:
    jsonschema.Draft202012Validator(schemas.schema(kind, closed=True)).validate(document)


def kv(programs: Path, operations: int = 300) -> list[str]:
    return [str(programs / "kv"), str(operations)]


def test_what_a_program_writes_is_in_its_result_and_on_no_stream(
    programs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = perdure.run(" ".join(kv(programs)), set=[EPOCHS])
    assert result.stdout.startswith("kv: 300 operations") and result.stderr == ""
    assert result.stdout.endswith(f"{result.output}\n")
    several = perdure.run(programs=[kv(programs, 100), " ".join(kv(programs, 200))])
    assert "kv: 100 operations" in several.stdout and "kv: 200 operations" in several.stdout
    assert capfd.readouterr() == ("", "")


def test_a_long_run_hands_its_text_on_while_it_runs(programs: Path) -> None:
    done: list[int] = []
    passed: list[int] = []

    def follow(instructions: int, _total: int, _unit: str, _message: str) -> None:
        done.append(instructions)

    request = perdure.Machine(design="ideal").request(kv(programs, 24000))
    _core.run(json.dumps(request), follow, lambda _descriptor, _bytes: passed.append(len(done)))
    assert passed[0] < len(done), "nothing was handed on before the end"


def test_who_listens_and_fails_ends_the_run(programs: Path) -> None:
    def listen(_descriptor: int, _bytes: bytes) -> None:
        raise RuntimeError("enough")

    request = json.dumps(perdure.Machine().request(kv(programs, 6000)))
    with pytest.raises(RuntimeError, match="enough"):
        _core.run(request, None, listen)


@pytest.mark.parametrize(
    ("program", "used"), [("@exerciser:600:64:100", 1), ("@exerciser:600:64:100:2", 2)]
)
def test_a_result_says_how_many_harts_ran(program: str, used: int) -> None:
    sim = perdure.run([program], design="ideal", harts=3).sim
    assert (sim.harts, sim.harts_used) == (3, used)


def test_runs_have_their_schema(programs: Path, tmp_path: Path) -> None:
    program = kv(programs)
    check("run", perdure.run(program, sample_cycles=1_000_000, probe_cuts=True).raw)
    check("run", perdure.run(program, warm_up=1_000_000, measure=1_000_000).raw)
    pools = perdure.run(program, machine="x86-pm", design="ideal", pmem=tmp_path / "pools")
    assert pools.modules and pools.pools is not None
    check("run", pools.raw)
    check("configuration", perdure.Machine(machine="nvoverlay").configuration().raw)


def test_cuts_have_their_schema(programs: Path, tmp_path: Path) -> None:
    program = kv(programs)
    report = perdure.cut(program, cuts=3, set=[EPOCHS], generations=2, during_recovery=True)
    check("cut", report.raw)
    check("cut", perdure.replay(report.results[0].token).raw)
    lost = perdure.cut(program, design="ideal", at=5_000_000)
    assert lost.losses
    check("cut", lost.raw)
    again = perdure.cut(
        program, machine="x86-pm", design="ideal", pmem=tmp_path, restart=True, cuts=3
    )
    assert again.restarted
    check("cut", again.raw)


def test_snapshots_and_replicas_have_their_schemas(programs: Path, tmp_path: Path) -> None:
    machine = perdure.Machine(machine="nvoverlay", design="nvoverlay", set=["epoch.stores=2000"])
    program = kv(programs)
    kept = machine.run(program, snapshots=tmp_path / "s", replicate_to=tmp_path / "r")
    assert kept.snapshots is not None and kept.replication is not None
    check("run", kept.raw)
    check("replicate-from", perdure.replicate(tmp_path / "r", tmp_path / "copy"))
    check("run", perdure.resume_replica(tmp_path / "r").raw)
    check("store", json.loads((tmp_path / "s/store.json").read_text()))
    store = perdure.open_snapshots(tmp_path / "s")
    check("travel-epochs", store.describe())
    first, second = (one.epoch for one in store.epochs()[-3:-1])
    check("travel-read", store.read("main", second).raw)
    check("travel-history", store.ask("history", what="main"))
    check("travel-diff", store.diff(first, second))
    check("travel-dump", store.dump(tmp_path / "core", second))


def test_hunts_and_litmus_tests_have_their_schemas() -> None:
    check("hunt", hunting.hunt(perdure.Machine(), cuts=60))
    # Not made small, which takes most of the time.
    bug = perdure.Machine().request(planted_bug="forward-scan")
    found = json.loads(_core.hunt(json.dumps({"request": bug, "cuts": 3000, "shrink": False})))
    assert found["found"] is not None
    check("hunt", found)
    files = sorted((REPOSITORY / "tests/litmus").rglob("*.toml"))[:1]
    check("litmus", litmus.decide(files, cuts=2))


def test_what_commands_write_has_its_schema(
    command: Command, programs: Path, tmp_path: Path
) -> None:
    program = kv(programs)
    ended = command(
        "compare", "--no-probe-cuts", "--out", "out", "--json", "c.json", "--", *program
    )
    assert ended.status == 0, ended.stderr
    check("compare", json.loads((tmp_path / "c.json").read_text()))
    check("run", json.loads((tmp_path / "out/picl/result.json").read_text()))
    for kind in ("designs", "machines", "workloads"):
        assert command("list", kind, "--json", "l.json").status == 0
        check(kind, json.loads((tmp_path / "l.json").read_text()))


def benchmark(written: Path, *arguments: str) -> Any:
    """What `perdure bench` of these arguments writes, and that it ends well."""
    options = ("--json", str(written), "--out", str(written.parent))
    ended = CliRunner().invoke(bench.app, [*arguments, *options])
    assert ended.exit_code == 0, ended.output
    return json.loads(written.read_text())


def test_benchmarks_have_their_schemas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The shortest that there is: one program, a hundredth of its work, forked soon."""
    case = bench_programs.Case("integer compute", "bench/compute.c", ("1",), 1, 150, 400)
    monkeypatch.setattr(bench, "CASES", (case,))
    monkeypatch.setattr(bench, "FORKED_AFTER", 100_000)
    written = tmp_path / "bench.json"
    speed = benchmark(written, "speed", "--repeat", "1")
    check("bench-speed", speed)
    assert speed["cases"][0]["picl"]["instructions"] > 0
    assert (speed["cases"][0]["qemu"] is None) == (shutil.which(bench.QEMU) is None)
    monkeypatch.setattr(bench_misses, "ACCESSES", 20_000)
    monkeypatch.setattr(bench_misses, "CASES", bench_misses.CASES[:4])
    misses = benchmark(written, "misses", "--repeat", "1")
    check("bench-misses", misses)
    hits, in_l2, _, shared = misses["cases"]
    assert hits["l1_misses"] < 0.1 * hits["accesses"] < in_l2["l1_misses"]
    assert in_l2["llc_misses"] == 0 and shared["accesses"] == 40_000
    cut = bench_cuts.Case("integer compute", "bench/compute.c", 2, 1.5, ("1",))
    monkeypatch.setattr(bench_cuts, "CASES", (cut,))
    # So many that what they cost stands out from what the run costs, on a busy host, too.
    cuts = benchmark(written, "cuts", "--cuts", "40", "--repeat", "1")
    check("bench-cuts", cuts)
    assert cuts["cases"][0]["at"] > 0 and cuts["cases"][0]["thousand_runs"] > 1
    transfers = bench_check.Case("transfers", "bench/transfers.c", ("12", "10"))
    monkeypatch.setattr(bench_check, "CASES", (transfers,))
    checked = benchmark(written, "check", "--cuts", "2")
    check("bench-check", checked)
    (one,) = checked["cases"]
    assert one["explored"] == one["points"] > 4 * 12
    assert one["coverage"] == 1 and one["states"] >= one["points"] and one["jobs"] >= 1
    forks = benchmark(written, "fork")
    check("bench-fork", forks)
    assert [one["design"] for one in forks["forks"]] == list(bench.FORK_DESIGNS)

"""What a power cut costs: the work that is lost, and what recovery takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command

import perdure

EPOCH = 200_000
SHORT_EPOCHS = (f"epoch.instructions={EPOCH}",)
PARTS = {"lost_instructions", "lost_cycles", "recovery_cycles", "recovery_reads"}


def machine(design: str) -> perdure.Machine:
    preset = "nvoverlay" if design == "nvoverlay" else "picl"
    return perdure.Machine(design=design, machine=preset, set=SHORT_EPOCHS)


@pytest.mark.parametrize("design", ["picl", "journaling", "thynvm", "nvoverlay"])
def test_every_cut_says_what_it_cost(design: str, programs: Path) -> None:
    report = machine(design).cut([programs / "kv", "1000"], cuts=30, resume="none")
    assert report.failed == 0
    assert report.cost is not None
    assert report.cost.cuts == 30
    for part in PARTS:
        spread = getattr(report.cost, part)
        values = sorted(result.raw[part] for result in report.results)
        assert (spread.median, spread.percentile_99, spread.worst) == (
            *(values[14], values[29]),
            values[-1],
        )
    assert report.cost.lost_instructions.worst > 0
    assert report.cost.recovery_cycles.worst > 0


def test_an_epoch_is_lost_at_most_where_it_is_persisted_at_once(programs: Path) -> None:
    """FRM's epoch is persisted when its log's last block is: two epochs are open at most."""
    report = machine("frm").cut([programs / "kv", "1000"], cuts=30, resume="none")
    assert report.cost is not None
    assert 0 < report.cost.lost_instructions.worst <= 2 * EPOCH + 10_000


def test_ideal_loses_everything_even_where_memory_is_whole(programs: Path) -> None:
    report = machine("ideal").cut([programs / "compute"], cuts=10, resume="none")
    for result in report.results:
        assert result.raw["lost_cycles"] == result.cycle
    assert any(result.verified for result in report.results)


def test_probes_leave_the_run_as_it_is(programs: Path) -> None:
    plain = machine("picl").run([programs / "kv", "1000"])
    probed = machine("picl").run([programs / "kv", "1000"], probe_cuts=True)
    assert plain.cut_cost is None
    assert probed.cut_cost is not None
    assert probed.cut_cost.cuts >= 16
    assert (probed.state_hash, probed.statistics) == (plain.state_hash, plain.statistics)
    took = plain.statistics
    longest = took["epoch.to_persisted_longest"].value
    assert 0 < longest <= took["epoch.to_persisted"].value


def test_probes_find_what_cuts_find(programs: Path) -> None:
    """Both are samples of the same run: their medians are near each other."""
    probed = machine("frm").run([programs / "kv", "1000"], probe_cuts=True).cut_cost
    cut = machine("frm").cut([programs / "kv", "1000"], cuts=60, resume="none").cost
    assert probed is not None
    assert cut is not None
    for part in ("lost_instructions", "recovery_read_bytes"):
        one, other = getattr(probed, part).median, getattr(cut, part).median
        assert 0.4 < one / other < 2.5, part


def test_compare_shows_it(programs: Path, command: Command, tmp_path: Path) -> None:
    kv = str(programs / "kv")
    done = command("compare", "--designs", "ideal,frm", "--json", "c.json", "--", kv, "1000")
    assert "what a power cut costs" in done.stdout
    results = json.loads((tmp_path / "c.json").read_text())["results"]
    assert all(result["cut_cost"]["cuts"] >= 16 for result in results)


def test_a_sweep_has_it_beside_the_time(programs: Path, tmp_path: Path) -> None:
    done = perdure.sweep(
        [programs / "kv", "1000"],
        designs=["frm"],
        set={"epoch.instructions": ["200000", "800000"]},
        probe_cuts=True,
        out=tmp_path,
    )
    short, long = done.data["cut_cost.lost_cycles.median"]
    assert 0 < short < long


def test_the_baseline_may_clean_early_as_well(programs: Path) -> None:
    """`ideal.eager_write_back`: the same program and output, more and earlier writes."""
    kv = [programs / "kv"]
    plain = perdure.Machine(design="ideal").run(kv)
    eager = perdure.Machine(design="ideal", set=["ideal.eager_write_back=true"]).run(kv)
    assert (eager.exit_code, eager.sim.instructions) == (0, plain.sim.instructions)
    assert eager.nvm.written_bytes.total > plain.nvm.written_bytes.total
    evicted = eager.statistics["llc.write_backs"].value
    assert eager.statistics["nvm.operations.write_back"].value > evicted


@pytest.mark.parametrize("setting", ["llc.inclusion=non-inclusive", "dram.present=true"])
def test_cleaning_early_is_refused_where_it_means_nothing(setting: str, programs: Path) -> None:
    refused = perdure.Machine(design="ideal", set=["ideal.eager_write_back=true", setting])
    with pytest.raises(perdure.PerdureError, match=r"ideal\.eager_write_back"):
        refused.run([programs / "kv", "10"])

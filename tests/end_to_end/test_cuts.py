"""Power cuts of the end-to-end programs: every recovery judged, every one resumed to the end.

Always true here: epochs are short, so that most cuts find some behind them and one at work.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import TIMES, Command, seed, without_host_time

from perdure import CutReport, Machine, catalogue, hunting, replay

CUTS = 16 * TIMES
SHORT_EPOCHS = {"epoch.instructions": 100_000}
# Caches that a small program does not fit into.
SMALL = {"l1d.bytes": 2048, "l1i.bytes": 4096, "l2.bytes": 8192, "llc.bytes_per_hart": 32768}
PROGRAMS = (
    "guests/selfcheck",
    "guests/sharing",
    "guests/threads",
    "guests/goroutines",
    "guests/files",
    "guests/signals",
    "guests/fp",
    "guests/clocks 1 600",
    "guests/clocks 4 150",
    "kv 2000",
)


def assert_all_held(report: CutReport) -> None:
    """Every cut was verified; a failure shows its tokens."""
    failures = [(cut.cycle, cut.verdict, cut.token) for cut in report.failures]
    assert failures == []
    assert report.verified == report.cuts == len(report.results)


@pytest.mark.parametrize("program", PROGRAMS)
def test_cuts_resume_to_the_same_output(
    program: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *arguments = program.split()
    report = Machine(harts=4, set=SHORT_EPOCHS).cut(
        [programs / name, *arguments], cuts=CUTS, seed=seed(12), resume="all"
    )
    assert_all_held(report)
    assert all(cut.resumed for cut in report.results)
    assert len({cut.recovered_epoch for cut in report.results}) > CUTS // 8
    assert report.coverage["cuts_during_recovery"] == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_power_may_fail_again_during_recovery(
    program: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *arguments = program.split()
    report = Machine(harts=2, set=SHORT_EPOCHS).cut(
        [programs / name, *arguments],
        cuts=CUTS // 2, seed=seed(11), during_recovery=True,
    )  # fmt: skip
    assert_all_held(report)
    assert report.coverage["cuts_during_recovery"] > 0


@pytest.mark.parametrize("program", ["guests/threads 64 10", "guests/goroutines 500"])
def test_cuts_with_more_threads_than_harts(
    program: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *arguments = program.split()
    report = Machine(harts=2, set=SHORT_EPOCHS).cut(
        [programs / name, *arguments],
        cuts=CUTS // 2, seed=seed(13), schedule="stratified", resume="all",
    )  # fmt: skip
    assert_all_held(report)


def test_files_are_written_once_and_whole_by_no_cut(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Machine().cut([programs / "guests/files"], cuts=5, resume="all")
    assert list(tmp_path.iterdir()) == []  # a campaign is a question, not a run


def test_host_threads_change_no_result(programs: Path) -> None:
    machine = Machine(harts=2, set=SHORT_EPOCHS)

    def cut(jobs: int, seed: int) -> dict[str, object]:
        report = machine.cut([programs / "guests/sharing"], cuts=24, seed=seed, jobs=jobs)
        return without_host_time(report.raw)

    alone = cut(jobs=1, seed=21)
    assert cut(jobs=2, seed=21) == alone
    assert cut(jobs=1, seed=22) != alone


def test_a_token_from_a_report_repeats_its_cut(
    command: Command, programs: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "report.json"
    ended = command(
        "cut", "--harts", "2", "--set", "epoch.instructions=200000", "--cuts", "6", "--json", kept,
        "--", programs / "guests/sharing",
    )  # fmt: skip
    assert ended.status == 0, ended.stdout
    for cut in json.loads(kept.read_text())["results"][:3]:
        again = command("replay", cut["token"], "--json", "-")
        assert again.status == 0, again.stderr
        (repeated,) = json.loads(again.stdout)["results"]
        for key in ("cycle", "recovered_epoch", "verdict", "design_state", "location"):
            assert repeated[key] == cut[key]


def test_a_printed_failure_can_be_pasted_back(command: Command, programs: Path) -> None:
    """Also where the terminal is narrower than a token."""
    ended = command(
        "cut", "--planted-bug", "forward-scan", "--set", "epoch.instructions=200000",
        "--cuts", "200", "--", programs / "kv", "2000",
    )  # fmt: skip
    assert ended.status == 1, ended.stdout
    printed = re.findall(r"^ *cycle ([\d,]+): ([a-z-]+).*?^  again: perdure replay (\S+)$",
                         ended.stdout, re.MULTILINE | re.DOTALL)  # fmt: skip
    assert printed, ended.stdout
    cycle, verdict, token = printed[0]
    again = command("replay", token)
    assert again.status == 1
    assert f"cycle {cycle}: {verdict}" in again.stdout


def test_an_unprotected_machine_loses_and_breaks_no_promise(
    command: Command, programs: Path
) -> None:
    ended = command("cut", "--design", "ideal", "--cuts", "40", "--", programs / "kv", "2000")
    assert ended.status == 0, ended.stdout
    assert re.search(r"ideal promises nothing: \d+ of 40 cuts lost something", ended.stdout)
    assert re.search(r"^ *cycle [\d,]+: lost \(", ended.stdout, re.MULTILINE)
    assert "broke" not in ended.stdout


@pytest.mark.parametrize("program", ["goroutines", "signals"])
def test_epochs_by_time_go_on_while_everybody_sleeps(
    program: str, command: Command, programs: Path
) -> None:
    timed = ["--set", "epoch.instructions=0", "--set", "epoch.cycles=100000", "--harts", "2"]
    ended = command("cut", *timed, "--cuts", "10", "--", programs / "guests" / program)
    assert ended.status == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("program", ["kv 2000", "guests/selfcheck"])
def test_an_unprotected_machine_shows_the_line_it_lost(
    program: str, command: Command, programs: Path
) -> None:
    name, *arguments = program.split()
    ended = command("cut", "--design", "ideal", "--cuts", "40", "--", programs / name, *arguments)
    assert re.search(
        r"^ *(older|newer|mixed|neither)\b.* at 0x[0-9a-f]+ \(\S.*\)$", ended.stdout, re.MULTILINE
    ), ended.stdout


PROTECTED = [
    one.name
    for one in catalogue().designs
    if one.raw["promise"] != "nothing" and one.raw["recovery"] == "resume"
]


@pytest.mark.parametrize("design", PROTECTED)
def test_with_dram_in_front_of_the_nvm_every_cut_is_verified_too(
    design: str, programs: Path
) -> None:
    # "by-design" is inclusive for those that need it.
    machine = Machine(
        design=design,
        harts=2,
        set={**SHORT_EPOCHS, **SMALL, "dram.present": True, "llc.inclusion": "by-design"},
    )
    report = machine.cut([programs / "kv", "2000"], cuts=CUTS, seed=seed(14), resume="all")
    assert_all_held(report)


def test_with_dram_an_unprotected_machine_writes_no_nvm_and_loses_everything(
    programs: Path,
) -> None:
    run = Machine(design="ideal", set={**SMALL, "dram.present": True})
    counted = {
        name: one.value for name, one in run.run([programs / "kv", "2000"]).statistics.items()
    }
    assert counted["nvm.written_bytes.total"] == 0
    assert counted["dram.reads"] > 0
    assert counted["dram.writes"] >= counted["llc.write_backs"] > 0
    assert counted["dram.reads"] + counted["nvm.reads"] == counted["llc.misses"]
    report = run.cut([programs / "kv", "2000"], cuts=10, seed=15)
    assert report.verified < report.cuts // 2


@pytest.mark.parametrize(
    "bug",
    [
        "register-copies-together",
        "record-counts-unfinished",
    ],
)
def test_a_hunt_finds_orders_that_a_users_cuts_miss(bug: str, programs: Path) -> None:
    cuts = Machine().cut([programs / "kv", "3000"], cuts=40, planted_bug=bug)
    assert cuts.failed == 0
    found = hunting.hunt(Machine(), cuts=6_000, planted_bug=bug)["found"]
    assert found is not None
    again = replay(found["token"])
    assert [cut.verdict for cut in again.results] == [found["verdict"]]
    assert len(found["set"]) <= len(found["drawn"]["set"])


def test_a_hunt_does_not_accuse_a_clean_design_and_is_the_same_for_any_jobs() -> None:
    reports = [hunting.hunt(Machine(), cuts=240, jobs=jobs) for jobs in (1, 2)]
    assert reports[0]["found"] is None
    assert reports[0]["cuts"] >= 240
    assert reports[0] == reports[1]


@pytest.mark.parametrize("design", ["nvoverlay", "picl"])
def test_a_line_that_is_persisted_twice_behind_dram_breaks_no_promise(
    design: str, programs: Path
) -> None:
    machine = Machine(
        machine="nvoverlay",
        design=design,
        set={"epoch.stores": 2000, "epoch.counted": "hart", "dram.present": True},
    )
    report = machine.cut([programs / "guests/zicbom_twice"], cuts=CUTS, seed=seed(15), resume="all")
    assert_all_held(report)

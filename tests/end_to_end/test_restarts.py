"""Programs that are started again after a power cut, and recover their pools (`cut --restart`).

Always true here: the program is the ledger, whose accounts are exactly those that its number of
transactions makes, and no fewer than were promised; `careless` leaves out every flush and fence.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PROGRAMS, TIMES, Command, files, seed, without_host_time

from perdure import CutReport, Machine, PerdureError, replay

pytestmark = pytest.mark.usefixtures("programs")

LEDGER = PROGRAMS / "guests/ledger"
CUTS = 24 * TIMES
SOUND = "ledger: sound"


def machine(folder: Path, domain: str = "adr") -> Machine:
    return Machine(
        machine="x86-pm",
        design="ideal",
        set={"persistence.domain": domain, "llc.bytes_per_hart": 1 << 20},
        pmem=folder,
    )


def ledger(
    folder: Path, *words: str, domain: str = "adr", transactions: int = 40, **more: Any
) -> CutReport:
    asked = {"cuts": None if "at" in more else CUTS, "seed": seed(3), "restart": True, **more}
    return machine(folder, domain).cut([LEDGER, "/pmem", str(transactions), *words], **asked)


@pytest.mark.parametrize("during_recovery", [False, True])
@pytest.mark.parametrize("domain", ["media", "adr", "eadr"])
def test_who_flushes_and_fences_is_found_sound_at_every_cut(
    domain: str, during_recovery: bool, tmp_path: Path
) -> None:
    report = ledger(tmp_path, domain=domain, during_recovery=during_recovery, expect=SOUND)
    assert [(cut.verdict, cut.token) for cut in report.failures] == []
    assert (report.verified, report.restarted) == (report.cuts, report.cuts)
    lives = 4 if during_recovery else 1
    assert all(len(cut.raw["restarts"]) == lives for cut in report.results)
    assert report.coverage["cuts_of_later_lives"] == report.cuts * (lives - 1)
    assert report.after_the_end is not None and report.after_the_end["exit_code"] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("during_recovery", [False, True])
def test_who_does_not_is_found_broken_unless_the_caches_are_kept(
    during_recovery: bool, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"transactions": 400, "during_recovery": during_recovery}
    kept = ledger(tmp_path, "careless", domain="eadr", **asked)
    assert kept.verified == kept.cuts
    report = ledger(tmp_path, "careless", **asked)
    assert report.failed > report.cuts // 4
    for cut in report.failures[:3]:
        assert cut.verdict == "restart-failed" and "exit status 1" in cut.raw["message"]
        assert "were promised" in cut.last_lines[-1]
        again = replay(cut.token).results[0]
        assert (again.cycle, again.verdict) == (cut.cycle, cut.verdict)
        assert again.raw["message"] == cut.raw["message"]
        assert again.last_lines == cut.last_lines
        ended = [[life["cycles"] for life in one.raw["restarts"]] for one in (again, cut)]
        assert ended[0] == ended[1]


TRANSPARENT = {
    "picl": ("picl", {"epoch.instructions": 2_000}),
    "journaling": ("picl", {"epoch.instructions": 2_000}),
    "nvoverlay": ("nvoverlay", {"epoch.stores": 500}),
}


@pytest.mark.parametrize("design", TRANSPARENT)
@pytest.mark.parametrize("flushes", ["careless", "careful"])
def test_a_transparent_design_keeps_who_flushes_or_not(
    design: str, flushes: str, tmp_path: Path
) -> None:
    preset, small = TRANSPARENT[design]
    machine = Machine(machine=preset, design=design, set=small, pmem=tmp_path)
    words = ["careless"] if flushes == "careless" else []
    program: list[str | Path] = [LEDGER, "/pmem", "400", *words]
    report = machine.cut(program, cuts=CUTS // 2, restart=True, during_recovery=True, expect=SOUND)
    assert [(cut.verdict, cut.raw["message"], cut.token) for cut in report.failures] == []
    assert report.verified == report.restarted == report.cuts
    assert len({cut.recovered_epoch for cut in report.results}) > 2
    assert replay(report.results[-1].token).verified == 1
    with pytest.raises(PerdureError, match="cut with --restart"):
        machine.cut(program, cuts=1)


def test_the_pools_of_the_host_are_what_each_cut_begins_with(tmp_path: Path) -> None:
    machine(tmp_path).run([LEDGER, "/pmem", "12"])
    before = files(tmp_path)
    assert sorted(before) == ["accounts", "promised"]
    report = ledger(tmp_path)
    assert report.verified == report.cuts
    one = ledger(tmp_path, at=report.results[0].cycle)
    assert one.verified == 1 and one.raw["results"][0]["restarts"][0]["output"] == SOUND
    token = report.results[0].token
    assert replay(token).verified == 1
    assert files(tmp_path) == before
    (tmp_path / "promised").write_bytes(b"\xff" * 8)
    with pytest.raises(PerdureError, match="the pool promised has changed"):
        replay(token)


def test_every_fence_is_cut_before_and_after_it(tmp_path: Path) -> None:
    report = ledger(tmp_path, schedule="every-fence", cuts=1000, transactions=6)
    assert report.verified == report.cuts
    # Of each transaction six, and those of the kernel.
    assert report.cuts > 6 * 6 * 2
    cycles = {cut.cycle for cut in report.results}
    assert all(cycle - 1 in cycles or cycle + 1 in cycles for cycle in cycles)
    with pytest.raises(PerdureError, match="raise --cuts"):
        ledger(tmp_path, schedule="every-fence", cuts=10)


def test_every_call_stack_is_cut_however_often_it_comes(tmp_path: Path) -> None:
    few, many = (
        ledger(tmp_path, schedule="every-stack", cuts=1000, transactions=transactions)
        for transactions in (20, 200)
    )
    assert few.verified == few.cuts and many.verified == many.cuts
    # A flush, and a fence that is cut twice, at each of eight places, and those of the kernel.
    assert 8 * 3 <= few.cuts <= many.cuts < 2 * few.cuts


def test_host_threads_change_no_result_of_a_restart(tmp_path: Path) -> None:
    def cut(jobs: int) -> dict[str, object]:
        report = ledger(tmp_path, "careless", jobs=jobs, cuts=8, during_recovery=True)
        return without_host_time(report.raw)

    assert cut(1) == cut(2)


def test_another_program_judges_and_its_output_counts(command: Command, tmp_path: Path) -> None:
    pools = tmp_path / "pools"
    words = ("cut", "--machine", "x86-pm", "--design", "ideal", "--pmem", pools, "--restart",
             "--cuts", "3", "--json", "-")  # fmt: skip
    then = ("--", LEDGER, "/pmem", "30", "--then", LEDGER, "/pmem", "0")
    expected = tmp_path / "expected"
    expected.write_text(f"{SOUND}\n")
    for good in (SOUND, "expected"):
        ended = command(*words, "--expect", good, *then)
        assert ended.status == 0, ended.stderr
    ended = command(*words, "--expect", "ledger: rich", *then)
    report = json.loads(ended.stdout)
    assert (ended.status, report["failed"]) == (1, 3)
    (cut, *_) = report["results"]
    assert cut["verdict"] == "output-unexpected"
    assert cut["message"] == "started again: its output is not 'ledger: rich'"
    again = command("replay", cut["token"])
    assert again.status == 1 and f"| {SOUND}" in again.stdout
    missing = command(*words, "--", LEDGER, "/pmem", "30", "--then", tmp_path / "missing")
    assert missing.status == 2 and "missing" in missing.stderr


def test_a_token_knows_what_the_second_program_reads(
    command: Command, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    reader = compiled(
        '#include <stdio.h>\nint main(void)\n{\n    FILE *file = fopen("data", "r");\n'
        "    return file == NULL || fgetc(file) == EOF;\n}\n"
    )
    (tmp_path / "data").write_text("one")
    ended = command(
        "cut", "--machine", "x86-pm", "--design", "ideal", "--pmem", "pools", "--restart", "--cuts",
        "1", "--json", "-", "--", LEDGER, "/pmem", "5", "--then", reader,
    )  # fmt: skip
    assert ended.status == 0, ended.stderr
    token = json.loads(ended.stdout)["results"][0]["token"]
    assert command("replay", token).status == 0
    (tmp_path / "data").write_text("two")
    refused = command("replay", token)
    assert refused.status == 2 and "/work/data" in refused.stderr


def test_what_makes_no_sense_with_a_restart_is_refused(command: Command, tmp_path: Path) -> None:
    pm = ("--machine", "x86-pm", "--design", "ideal")
    pools = ("--pmem", tmp_path / "pools")
    cases = [
        ((*pm, *pools), ("--then", LEDGER, "/pmem", "0"), "--then"),
        ((*pm, *pools, "--expect", "x"), (), "--expect"),
        ((*pm, "--restart"), (), "--pmem DIR"),
        ((*pm, *pools, "--restart", "--resume", "all"), (), "--resume"),
        ((*pm, *pools, "--restart", "--replica"), (), "--replica"),
        ((*pm, *pools, "--restart", "--check", "true"), (), "--check"),
        ((*pm, *pools, "--restart", "--repeat"), (), "--repeat"),
    ]
    for options, then, named in cases:
        ended = command("cut", *options, "--", LEDGER, "/pmem", "5", *then)
        assert ended.status == 2, (options, ended.stdout)
        assert named in ended.stderr and ended.stderr.count("\n") == 1, ended.stderr

"""`perdure bench speed --against`: made-up numbers decide what has moved, and nothing else does."""

import copy
import itertools
import json
import math
import random
import subprocess
import sys
import time
import types
from dataclasses import asdict

import pytest
from conftest import check_schema
from rich.console import Console

from perdure import api, bench, calibration, guard
from perdure.calibration import CalibratedRun

HOST = {
    "processor": "Model 7",
    "processors": 2,
    "python": "CPython 3.11.7",
    "build": "0.1.0 0123456789",
    "timing_version": 7,
}
WITH_QEMU = ("ideal", "picl", "out-of-order", "qemu")
INSTRUCTIONS = 300_000_000
WANTED = (bench.CASES[2].name, "picl")


def runs_of(ratio, spread, slowness=1.0):
    """Three runs whose ratios lie apart by `spread` of the middle one, on a steady host."""
    return [
        CalibratedRun(ratio * (1 + part) * slowness, slowness, slowness)
        for part in (0, -spread / 2, spread / 2)
    ]


def made_up(runs, cases=bench.CASES):
    """A result whose figures have the runs that `runs(program, under)` gives; None: no qemu."""
    rows = []
    for case in cases:
        times = {under: runs(case.name, under) for under in WITH_QEMU}
        speeds = [
            bench.Speed(
                "ideal" if under == "ideal" else "picl",
                INSTRUCTIONS,
                min(run.seconds for run in times[under]),
                10_000,
                times[under],
            )
            for under in WITH_QEMU[:3]
        ]
        seconds = min(run.seconds for run in times["qemu"]) if times["qemu"] else None
        rows.append(bench.Row(case, *speeds, seconds, times["qemu"] or []))
    calibrated = {"times": 4, "median_seconds": 1.0, "spread": 0.02}
    return bench.SpeedReport("picl", "gcc", api.ENGINE, 3, rows, False, HOST, calibrated)


def result(ratio=2.0, spread=0.02, slowness=1.0):
    return made_up(lambda _name, _under: runs_of(ratio, spread, slowness)).as_json()


def figure_of(runs, instructions=INSTRUCTIONS):
    return guard.figure([asdict(run) for run in runs], instructions)


def moved(comparison):
    return {(one["name"], one["under"]): one["moved"] for one in comparison["figures"]}


@pytest.mark.parametrize(
    ("ratio", "spread", "said"),
    [
        (2.0, 0.02, None),
        (2.06, 0.02, None),
        (2.2, 0.02, "slower"),
        (1.8, 0.02, "faster"),
        (2.2, 0.10, None),
        (4.0, 0.30, "slower"),
        (1.0, 0.30, "faster"),
    ],
)
def test_a_figure_moves_when_it_leaves_both_spreads(ratio, spread, said):
    compared = guard.compare(result(), result(ratio, spread), "a.json")
    assert set(moved(compared).values()) == {said}
    assert not [one for one in compared["remarks"] if "qemu" not in one]
    first = compared["figures"][0]
    assert first["change"] == pytest.approx(ratio / 2 - 1)
    assert first["noise"] == pytest.approx(0.02 + spread)


def test_a_figure_alone_is_named():
    now = made_up(
        lambda name, under: runs_of(2.2 if (name, under) == WANTED else 2.0, 0.02)
    ).as_json()
    compared = guard.compare(result(), now, "a.json")
    assert [place for place, said in moved(compared).items() if said] == [WANTED]
    assert guard.verdict(compared).startswith("1 slower of 24 figures")
    assert not compared["remarks"]


def test_a_host_that_is_slower_as_a_whole_moves_nothing():
    compared = guard.compare(result(), result(slowness=3.0), "a.json")
    assert set(moved(compared).values()) == {None}
    assert guard.verdict(compared).startswith("none of 24 figures moved")


def test_a_host_that_changes_during_a_run_is_noise():
    """The calibrations before and after differ: which of them the run was like is not known."""
    unsteady = [CalibratedRun(3.0, 1.0, 2.0), *runs_of(2.0, 0.0)[1:]]
    figure = figure_of(unsteady, 10**9)
    assert figure.ratio == pytest.approx(2.0)
    assert figure.spread == pytest.approx((3.0 - 1.5) / 2.0)


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_noise_alone_is_hardly_ever_reported(noise):
    """Times of one build, runs and calibrations equally uneven."""
    generator = random.Random(7)

    def uneven(seconds):
        return seconds * math.exp(generator.gauss(0, noise))

    def call(times):
        between = [uneven(1.0) for _ in range(times + 1)]
        return figure_of(
            [
                CalibratedRun(uneven(2.0), before, after)
                for before, after in itertools.pairwise(between)
            ]
        )

    alarms = sum(guard.moved(call(3), call(3)) is not None for _ in range(4_000))
    assert alarms <= 4_000 * 0.005
    slower = [
        guard.Figure(one.ratio * (1 + 20 * noise), one.spread, INSTRUCTIONS)
        for one in (call(3) for _ in range(100))
    ]
    assert sum(guard.moved(call(3), one) == "slower" for one in slower) >= 95


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("processor", "Model 8", "the processor is another: Model 7 earlier, Model 8 now"),
        ("processors", 64, "the number of processors is another: 2 earlier, 64 now"),
        ("python", "PyPy 3", "the Python of the calibration is another: CPython 3.11.7 earlier"),
        ("build", "0.2.0 ab", "the build is another: 0.1.0 0123456789 earlier, 0.2.0 ab now"),
        ("timing_version", 8, "the timing version is another: 7 earlier, 8 now"),
    ],
)
def test_another_host_or_build_is_named(key, value, said):
    now = result()
    now["host"] = {**now["host"], key: value}
    (remark,) = guard.compare(result(), now, "a.json")["remarks"]
    assert remark.startswith(said)


def test_other_programs_are_named():
    now = result()
    now["compiler"] = "zig"
    now["cases"][0]["picl"]["instructions"] += INSTRUCTIONS // 100
    now["cases"][1]["qemu"] = None
    del now["cases"][2]
    compiler, another, without, *gone = guard.compare(result(), now, "a.json")["remarks"]
    assert compiler == "the programs' compiler is another: gcc earlier, zig now"
    assert another.startswith("integer compute under picl is another program: 300,000,000 instr")
    assert without == f"{bench.CASES[1].name} under qemu was measured earlier only"
    assert gone == [
        f"{bench.CASES[2].name} under {one} was measured earlier only" for one in WITH_QEMU
    ]


def test_qemu_that_moved_is_named():
    """What no change of the simulator can do."""
    (remark,) = guard.compare(result(), result(2.4), "a.json")["remarks"]
    assert remark.startswith("qemu moved, too") and bench.CASES[0].name in remark


def test_the_table_fits_a_terminal():
    compared = guard.compare(result(), result(2.4), "out/bench-guard/baseline.json")
    console = Console(width=80, record=True)
    console.print(guard.tables(compared))
    text = console.export_text()
    (line,) = [one for one in text.splitlines() if WANTED[0] in one and " picl " in one]
    assert "+20.0%" in line and "±4.0%" in line and "slower" in line
    assert text.rstrip().endswith("24 slower of 24 figures, beyond the noise of both calls")


@pytest.fixture
def measured(monkeypatch):
    """The command measures nothing: what it would have found is made up."""
    asked = []

    def speed(_out, *, repeat, console, engine):
        asked.append(repeat)
        return made_up(lambda _name, under: None if under == "qemu" else runs_of(2.2, 0.02))

    monkeypatch.setattr(bench, "speed", speed)
    return asked


def test_the_command_compares_and_succeeds(command, measured, tmp_path):
    earlier, now = tmp_path / "earlier.json", tmp_path / "now.json"
    earlier.write_text(json.dumps(result()))
    status, out, err = command("bench", "speed", "--against", earlier, "--json", now)
    assert (status, err, measured) == (0, "", [guard.RUNS])
    assert "18 slower of 18 figures" in out
    document = json.loads(now.read_text())
    check_schema("bench-speed", document)
    assert document["comparison"]["against"] == str(earlier)
    # What was compared can be compared with in its turn.
    status, out, _ = command("bench", "speed", "--against", now, "--repeat", "5")
    assert status == 0 and measured == [3, 5]
    assert "none of 18 figures moved" in out


def test_without_against_nothing_is_compared(command, measured, tmp_path):
    status, out, _ = command("bench", "speed", "--json", "-")
    assert (status, measured) == (0, [1])
    document = json.loads(out)
    assert document["comparison"] is None
    check_schema("bench-speed", document)


def damaged(change):
    document = copy.deepcopy(result())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON: its lists and objects are nested too deeply"),
        ("[]", "is no result of perdure bench speed"),
        ('{"forks": []}', "is no result of perdure bench speed"),
        (damaged(lambda one: one.pop("calibration")), "is of an older version"),
        (damaged(lambda one: one.pop("host")), "is no result of this version"),
        (damaged(lambda one: one["cases"][0]["picl"].update(runs=[{}])), "$.cases[0].picl.runs"),
        (damaged(lambda one: one["cases"].clear()), "has no measured program"),
        (damaged(lambda one: one.update(engine="plain")), "with --engine plain, and this"),
        (damaged(lambda one: one["cases"][0]["picl"]["runs"].pop()), "has 2 of 3 runs"),
        (
            damaged(lambda one: one["cases"][0]["picl"]["runs"][0].update(seconds=0)),
            "not positive",
        ),
        (damaged(lambda one: one["cases"][0]["ideal"].update(instructions=0)), "not positive"),
    ],
)
def test_a_bad_file_is_refused_before_anything_is_measured(command, measured, tmp_path, text, said):
    file = tmp_path / "earlier.json"
    if text is not None:
        file.write_text(text)
    status, out, err = command("bench", "speed", "--against", file)
    assert (status, out, measured) == (2, "", [])
    assert err.startswith(f"perdure: --against {file} ") and err.count("\n") == 1
    assert said in err, err


def test_too_few_runs_are_refused(command, measured, tmp_path):
    file = tmp_path / "earlier.json"
    file.write_text(json.dumps(result()))
    status, _, err = command("bench", "speed", "--against", file, "--repeat", 2)
    assert (status, measured) == (2, [])
    assert err == "perdure: --against needs --repeat 3 or more, to know the noise\n"


def test_the_calibration_stands_between_the_runs(core, monkeypatch, tmp_path):
    """Each run's time is kept with the calibrations that were measured right before and after."""
    done = []
    compiler = types.SimpleNamespace(name="gcc", build=lambda _source, binary: binary)
    monkeypatch.setattr(bench.toolchain, "find", lambda _say: compiler)
    monkeypatch.setattr(bench.shutil, "which", lambda _name: None)
    monkeypatch.setattr(bench, "host", lambda: HOST)
    monkeypatch.setattr(bench, "CASES", bench.CASES[:2])
    counted = calibration.Calibration(lambda: done.append("calibration"))
    monkeypatch.setattr(bench, "Calibration", lambda: counted)
    monkeypatch.setattr(core, "run", _noting(core.run, done))
    report = bench.speed(tmp_path, repeat=2, console=Console())
    assert done == ["calibration"] * 2 + ["run", "calibration"] * 12
    runs = [
        run for row in report.rows for one in (row.ideal, row.picl, row.window) for run in one.runs
    ]
    assert len(runs) == 12
    assert all(one.after_seconds == next_.before_seconds for one, next_ in itertools.pairwise(runs))
    assert report.calibration["times"] == 13
    document = json.loads(json.dumps(report.as_json()))
    check_schema("bench-speed", document)
    assert document["cases"][0]["qemu"] is None


def _noting(run, done):
    def noting(*given):
        done.append("run")
        return run(*given)

    return noting


def test_waiting_is_not_counted():
    """Others that take their turns on the processor make a run longer and not more."""
    waiting = calibration.Calibration(lambda: time.sleep(0.2)).as_json()
    assert waiting["median_seconds"] < 0.1
    own, children = calibration.own_seconds(), calibration.children_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    assert calibration.children_seconds() - children > calibration.own_seconds() - own


def test_the_processor_is_what_the_host_calls_it(tmp_path):
    information = tmp_path / "cpuinfo"
    information.write_text("processor\t: 0\nmodel name\t: Model: 7\nflags\t: a b\n")
    assert calibration.processor(information) == "Model: 7"
    information.write_text("processor : 0\n")
    assert calibration.processor(information) == calibration.processor(tmp_path / "none") != ""

"""Tests of the generated inputs: the same bytes everywhere, and what each kind promises.

Always true here: nothing is read but the repository, and every seed is written out.
"""

import functools
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from perdure import PerdureError, inputs, workloads
from perdure.inputs import media
from perdure.inputs.chance import Chance

REPOSITORY = Path(__file__).resolve().parents[2]
SMALL = ("quick", "tiny")
SEEDS = range(8)

made = functools.cache(inputs.make)
"""An input's bytes, made once: at full size that takes seconds."""


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def sums():
    lines = (REPOSITORY / "workloads/debian/SHA256SUMS").read_text().splitlines()
    return dict(reversed(line.split("  ")) for line in lines)


def test_the_sums_name_every_input_at_every_scale(sums):
    assert set(sums) == {f"{scale}/{name}" for scale in inputs.SCALES for name in inputs.known()}


@pytest.mark.parametrize("scale", SMALL)
@pytest.mark.parametrize("name", inputs.known())
def test_made_bytes_are_those_of_the_sums(name, scale, sums):
    assert digest(made(name, scale)) == sums[f"{scale}/{name}"]


@pytest.mark.parametrize("name", ["chess", "planning.mps", "source.i", "text"])
def test_full_scale_is_as_the_sums_say(name, sums):
    assert digest(made(name, "full")) == sums[f"full/{name}"]


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_makes_the_same(hash_seed, sums):
    script = (
        "import hashlib, sys, types\n"
        "sys.modules['perdure._core'] = core = types.ModuleType('perdure._core')\n"
        "core.PerdureError = type('E', (Exception,), {})\n"
        "core.__version__, core.TIMING_VERSION = '0', 0\n"
        "from perdure import inputs\n"
        "for name in inputs.known():\n"
        "    print(hashlib.sha256(inputs.make(name, 'tiny')).hexdigest() + '  tiny/' + name)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "python"),
        "PYTHONHASHSEED": hash_seed,
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = dict(reversed(line.split("  ")) for line in done.stdout.splitlines())
    assert made == {name: wanted for name, wanted in sums.items() if name.startswith("tiny/")}


def test_writing_twice_changes_nothing(tmp_path):
    inputs.write_inputs(["text", "spam.pl"], "tiny", tmp_path / "new/folder")
    files = sorted((tmp_path / "new/folder").iterdir())
    assert [file.name for file in files] == ["spam.pl", "text"]
    before = [(file.stat().st_ino, file.stat().st_mtime_ns) for file in files]
    inputs.write_inputs(["text", "spam.pl"], "tiny", tmp_path / "new/folder")
    assert [(file.stat().st_ino, file.stat().st_mtime_ns) for file in files] == before


def test_a_damaged_file_and_another_scale_are_made_anew(tmp_path):
    inputs.write_inputs(["text"], "tiny", tmp_path)
    good = (tmp_path / "text").read_bytes()
    (tmp_path / "text").write_bytes(good[:-1] + b"x")
    inputs.write_inputs(["text"], "tiny", tmp_path)
    assert (tmp_path / "text").read_bytes() == good
    inputs.write_inputs(["text"], "quick", tmp_path)
    assert len((tmp_path / "text").read_bytes()) > len(good)


def test_other_bytes_than_the_sums_say_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(inputs.GENERATORS, "text", lambda _: b"another text\n")
    with pytest.raises(PerdureError, match=r"tiny/text was made with other bytes .*Python"):
        inputs.write_inputs(["text"], "tiny", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "scale", "said"),
    [
        (["prose"], "tiny", "there is no input 'prose': the inputs are "),
        (["../debian.toml"], "tiny", "there is no input '../debian.toml'"),
        (["SHA256SUMS"], "tiny", "there is no input 'SHA256SUMS'"),
        (["text"], "huge", "there is no scale 'huge': the scales are full, quick, tiny"),
    ],
)
def test_what_does_not_exist_is_refused(names, scale, said, tmp_path):
    with pytest.raises(PerdureError, match=re.escape(said)):
        inputs.write_inputs(names, scale, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PerdureError, match=r"cannot write the input .*file/text"):
        inputs.write_inputs(["text"], "tiny", tmp_path / "file")


@pytest.mark.parametrize("seed", SEEDS)
def test_chance_keeps_its_bounds_and_is_even(seed):
    chance = Chance(f"test {seed}")
    drawn = Counter(chance.below(7) for _ in range(7000))
    assert sorted(drawn) == list(range(7))
    # Seven standard deviations, so that no seed is unlucky.
    assert all(abs(count - 1000) < 7 * 30 for count in drawn.values()), seed
    assert {chance.between(-2, 2) for _ in range(200)} == {-2, -1, 0, 1, 2}
    ranks = Counter(chance.rank(10) for _ in range(10_000))
    assert min(ranks) == 0 and max(ranks) <= 1022
    assert 700 < ranks[0] < 1300 and 300 < ranks[1] < 700, seed


def test_chance_is_what_it_was():
    chance = Chance("text")
    assert [chance.below(1000) for _ in range(5)] == FIRST_OF_TEXT


FIRST_OF_TEXT = [329, 997, 481, 761, 626]
"""SHAKE-128 of `text/0`, as little-endian words: an independent computation agrees."""


def test_quick_has_about_an_eighth_of_full():
    """Where the data is the input; other programs have their sizes among their arguments."""
    for name in ("text", "mail", "document.xml"):
        ratio = len(made(name, "full")) / len(made(name, "quick"))
        assert 8 <= ratio <= 20, (name, ratio)


@pytest.mark.parametrize("scale", SMALL)
def test_every_demand_of_the_plan_can_be_met(scale):
    """Each balance row has a column that buys; each row that a column names exists."""
    section, rows, kinds, bought, names = "", set(), Counter(), set(), []
    for line in inputs.make("planning.mps", scale).decode().splitlines():
        if not line.startswith(" "):
            section = line.split()[0]
        elif section == "ROWS":
            kind, row = line.split()
            kinds[kind] += 1
            rows.add(row)
        elif section in ("COLUMNS", "RHS"):
            column, row, value = line.split()
            assert row in rows
            names.append((section, column, row))
            assert int(value) > 0 or section == "COLUMNS"
            if column.startswith("buy") and row.startswith("bal"):
                bought.add(row)
    assert kinds["N"] == 1 and kinds["E"] == len(bought) > 0
    assert len(names) == len(set(names)), "an entry comes twice"


@pytest.mark.parametrize("scale", SMALL)
def test_frames_are_whole_and_move(scale):
    width, height = media.VIDEO_SIZE[inputs.SCALES.index(scale)]
    content = inputs.make("video.yuv", scale)
    frame = width * height * 3 // 2
    frames = [content[at : at + frame] for at in range(0, len(content), frame)]
    assert len(frames) == media.VIDEO_FRAMES[inputs.SCALES.index(scale)]
    assert {len(each) for each in frames} == {frame}
    assert len(set(frames)) == len(frames)


def test_the_arguments_name_only_inputs_that_are_listed():
    """Of every workload: what it reads is declared, exists, and is used at some scale."""
    text = (workloads.folder("workloads") / "debian.toml").read_text()
    entries = re.split(r"(?m)^\[workload\.([\w-]+)\]$", text)[1:]
    names = entries[::2]
    assert len(names) == len(set(names)) >= 12
    for name, body in zip(names, entries[1::2], strict=True):
        (listed,) = re.findall(r"(?m)^inputs = \[(.*)\]$", body)
        declared = re.findall(r'"([^"]+)"', listed)
        assert set(declared) <= set(inputs.known()), name
        used = set(re.findall(r"\{inputs\}/([\w.-]+)", body))
        assert used <= set(declared), name
        # A list of recordings names its files without their ending.
        assert set(declared) - used <= {"speech.raw"}, name
        assert re.findall(rf"(?m)^\[workload\.{name}\.(\w+)\]$", body) == ["full", "quick", "tiny"]

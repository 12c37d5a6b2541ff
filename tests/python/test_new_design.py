"""`perdure new-design`: what it writes is whole, and what it refuses it leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import PerdureError, new_design

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "my-first-log"


@pytest.fixture
def checkout(tmp_path):
    """A copy of this source tree, in a repository of its own."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    for name in filter(None, names.stdout.split("\0")):
        source, copy = REPOSITORY / name, tmp_path / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
            copy.chmod(source.stat().st_mode)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def contents(root):
    """Every file with its bytes, but git's own and what Python has compiled."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        path: path.read_bytes() for path in files if not {".git", "__pycache__"} & {*path.parts}
    }


def ran(command, folder):
    """What a command said, which must succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_design_is_registered_and_passes_the_checks(checkout, command):
    before = contents(checkout)
    status, out, err = command("new-design", NAME, "--checkout", checkout)
    assert (status, err) == (0, "")
    after = contents(checkout)
    written = {str(path.relative_to(checkout)) for path in after if after[path] != before.get(path)}
    assert {line for line in out.splitlines() if line in written} == written
    module = (checkout / "crates/designs/src/my_first_log.rs").read_text()
    assert 'NAME: &\'static str = "my-first-log"' in module and 'b"MYFIRLOG"' in module
    for path in written:
        text = (checkout / path).read_text().lower()
        listing = path in (new_design.STATISTICS, *new_design.NEEDED)
        assert listing or "epoch-end" not in text, path
    registry = (checkout / new_design.REGISTRY).read_text()
    assert "\nmod mix;\npub mod my_first_log;\npub mod nearpm;\n" in registry
    assert "    nearpm::NearPm,\n    my_first_log::MyFirstLog,\n];" in registry
    tests = (checkout / new_design.TESTS).read_text()
    assert "mod mnm_store;\nmod my_first_log_random;\nmod nvoverlay_steps;\n" in tests
    assert "`my-first-log.log_entries`" in (checkout / "docs/machine.md").read_text()
    ran([sys.executable, ".ci/style.py"], checkout)
    ran([sys.executable, ".ci/tables.py", "--check"], checkout)
    # A second one goes beside it; the same one does not.
    status, _, err = command("new-design", "aa2", "--checkout", checkout)
    assert (status, err) == (0, "")
    ran([sys.executable, ".ci/style.py"], checkout)
    status, out, err = command("new-design", NAME, "--checkout", checkout)
    assert status == 2 and out == ""
    assert err == f"perdure: there is a design '{NAME}' already: choose another name\n"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_new_design_keeps_its_promise(checkout):
    new_design.write(checkout, NAME)
    ran(["cargo", "fmt", "--all", "--check"], checkout)
    ran(["cargo", "test", "--locked", "--quiet", "-p", "perdure-designs", "my_first_log"], checkout)
    ran(["cargo", "test", "--locked", "--quiet", "-p", "perdure", "conformance::"], checkout)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("MyLog", "cannot be a design's name: at most 32"),
        ("my_log", "cannot be a design's name"),
        ("-log", "cannot be a design's name"),
        ("log-", "cannot be a design's name"),
        ("../log", "cannot be a design's name"),
        ("2log", "cannot be a design's name"),
        ("", "cannot be a design's name"),
        ("a" * 33, "cannot be a design's name"),
        ("picl", "there is a design 'picl' already"),
        ("match", "'match' is a word of Rust"),
        ("layout", "'layout' is a module's name already"),
        ("flush-at-epoch-end", "is a module's name already"),
        ("mix", "'mix' is a module's name already"),
        ("cycles", "would be the type Cycles, which means something else"),
        ("planted-bug", "would be the type PlantedBug"),
        ("counters", "would be the type Counters"),
        ("epoch-numbers", "would be the type EpochNumbers"),
        ("vec", "would be the type Vec"),
        ("string", "would be the type String"),
        ("nvm", "'nvm' means something else in configurations"),
        ("module", "'module' means something else in configurations"),
        ("verifier", "'verifier' means something else in configurations"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name, why):
    with pytest.raises(PerdureError, match=why):
        new_design.check_name(REPOSITORY, name)


def test_a_name_that_looks_like_an_option_is_refused(command):
    status, _, err = command("new-design", "--", "--log")
    assert status == 2 and "cannot be a design's name" in err


def test_a_file_in_the_way_is_kept_and_nothing_is_written(checkout):
    (checkout / "docs/designs/my-first-log.md").write_text("mine\n")
    before = contents(checkout)
    with pytest.raises(PerdureError, match=r"my-first-log\.md is there already"):
        new_design.write(checkout, NAME)
    assert contents(checkout) == before


def test_a_place_that_is_no_source_tree_is_refused(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = command("new-design", NAME)
    assert status == 2 and out == ""
    assert f"{tmp_path}: no source tree of Perdure (it lacks {new_design.MODULE})" in err
    assert "--checkout DIR" in err
    status, _, err = command("new-design", NAME, "--checkout", tmp_path)
    assert status == 2 and f"--checkout {tmp_path}: no source tree" in err


def test_a_folder_below_the_source_tree_is_in_it(monkeypatch):
    monkeypatch.chdir(REPOSITORY / "crates/designs")
    assert new_design.find_checkout(None) == REPOSITORY

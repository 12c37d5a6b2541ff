"""`perdure check` of programs in Go and Rust: a missing flush is found, and its line is named.

Always true here: where the compiler of a language is missing, its test is skipped and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, Command

POOL = "/pmem/x"
GUESTS = REPOSITORY / "tests/guests"
RUST_TARGET = "riscv64gc-unknown-linux-gnu"


def built(words: list[str], program: Path, **variables: str) -> Path:
    """A program that a compiler has made."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return program


def in_go(folder: Path) -> Path:
    """The journal in Go."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    program = folder / "journal"
    words = ["go", "build", "-trimpath", "-o", str(program), str(GUESTS / "journal.go")]
    return built(words, program, CGO_ENABLED="0", GOOS="linux", GOARCH="riscv64")


def in_rust(folder: Path) -> Path:
    """The journal in Rust."""
    return in_rust_of(GUESTS / "journal/main.rs", folder / "journal", "3")


def in_rust_of(source: Path, program: Path, level: str) -> Path:
    """A program in Rust, optimised so."""
    linker = "riscv64-linux-gnu-gcc"
    for needed in ("rustc", linker):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    asked = ["rustc", "--print", "target-libdir", "--target", RUST_TARGET]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0 or not Path(done.stdout.strip()).is_dir():
        pytest.skip(f"rustc has no target {RUST_TARGET}: rustup target add {RUST_TARGET}")
    words = ["rustc", "--edition", "2024", "--target", RUST_TARGET, "-g"]
    for option in (f"opt-level={level}", f"linker={linker}", "target-feature=+crt-static"):
        words += ["-C", option]
    return built([*words, "-o", str(program), str(source)], program)


def check(command: Command, program: Path, *words: str, operations: str) -> tuple[int, Any]:
    """The status and the JSON of a check."""
    line = ("--", program, POOL, *words, "--then", program, POOL, "recover")
    options = ("--no-nested", "--states", "300", "--operations", operations)
    ended = command("check", *options, "--json", "-", *line)
    assert ended.status in (0, 1), ended.stderr
    return ended.status, json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("build", "source", "mistake", "writes", "appends"),
    [
        (in_go, "journal.go", "no-sync", "main.(*journal).write", "main.(*journal).add"),
        (in_rust, "journal/main.rs", "no-flush", "Journal::write", "Journal::append"),
    ],
)
def test_a_missing_flush_has_its_line(
    build: Any,
    source: str,
    mistake: str,
    writes: str,
    appends: str,
    command: Command,
    tmp_path: Path,
) -> None:
    program = build(tmp_path)
    pattern = appends.replace("Journal", "*Journal")
    status, report = check(command, program, "3", operations=pattern)
    assert (status, report["bugs"]) == (0, [])
    assert report["uncut"]["operations"] == 3
    status, report = check(command, program, "3", mistake, operations=pattern)
    assert status == 1
    (bug,) = report["bugs"]
    assert bug["defect"] == "missing-flush"
    (lost,) = bug["lost"]
    text = (GUESTS / source).read_text().splitlines()
    (line,) = [number for number, one in enumerate(text, 1) if "// the entry" in one]
    places = [place for place in lost["stack"] if place["file"].endswith(source)]
    assert (places[0]["line"], places[0]["function"].endswith(writes)) == (line, True)
    assert any(place["function"].endswith(appends) for place in places)
    (kept,) = bug["kept"]
    assert any(place["function"].endswith(appends) for place in kept["stack"])

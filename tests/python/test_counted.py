"""What `.cargo/default.profdata` has counted is of the crates that a build compiles."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
WRAPPER = REPOSITORY / ".cargo" / "rustc"
COUNTS = WRAPPER.with_name("default.profdata")
COUNTER = WRAPPER.with_name("default.profdata.rustc")
#: As cargo compiles our crates in the profile `release`, but for their `metadata`.
RELEASE = ["--crate-type=rlib", "-Copt-level=3", "-Ccodegen-units=16"]

pytestmark = pytest.mark.skipif(shutil.which("rustc") is None, reason="no compiler")


def arguments(tmp_path, *options):
    """What a compiler is given that says what it is given, if it is the one that counted."""
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = -vV ] && cat "{COUNTER}" || printf "%s\\n" "$@"\n')
    compiler.chmod(0o755)
    done = subprocess.run(
        [WRAPPER, compiler, *options], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


def identifier(tmp_path, metadata):
    """What symbols of the crate `perdure` are told apart by."""
    source = tmp_path / "lib.rs"
    source.write_text("pub fn nothing() {}\n")
    library = tmp_path / "library.rlib"
    crate = ["--crate-name", "perdure", "--edition=2024", *RELEASE, "-C", f"metadata={metadata}"]
    compiler = shutil.which("rustc")
    subprocess.run(
        [WRAPPER, compiler, *crate, source, "-o", library],
        check=True,
        timeout=60,
        cwd=REPOSITORY,
    )
    return re.search(rb"perdure\.[0-9a-f]{16}-cgu\.", library.read_bytes()).group()


def test_a_build_is_told_what_was_counted_whatever_else_its_profile_says(tmp_path):
    version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    if version != COUNTER.read_text():
        pytest.skip("another compiler has counted")
    one, other = (identifier(tmp_path, metadata) for metadata in ("one", "other"))
    assert one == other
    assert one in COUNTS.read_bytes()


def test_it_is_our_crates_in_the_release_profile_that_are_told(tmp_path):
    told = [f"-Cprofile-use={COUNTS}", "-Cllvm-args=-no-pgo-warn-mismatch"]
    ours = ["--crate-name", "perdure_hardware", *RELEASE]
    given = arguments(tmp_path, *ours, "-C", "metadata=a b")
    assert given == [*ours, "-C", "metadata=counted", *told]
    for other in (
        ["--crate-name", "serde", *RELEASE, "-C", "metadata=a"],
        ["--crate-name", "perdure_hardware", "-Copt-level=2", "-C", "metadata=a"],
    ):
        assert arguments(tmp_path, *other) == other


def test_who_counts_names_what_it_counts_likewise(tmp_path):
    counting = ["--crate-name", "_core", *RELEASE, "-Cprofile-generate=counts"]
    named = arguments(tmp_path, *counting, "-C", "metadata=a")
    assert named == [*counting, "-C", "metadata=counted"]


def counted(name, *ways):
    """A function with its counts, as LLVM writes it."""
    counters = "".join(f"{way}\n" for way in ways)
    head = f"{name}\n# Func Hash:\n7\n# Num Counters:\n{len(ways)}\n"
    return f"{head}# Counter Values:\n{counters}# Num Value Kinds:\n1\n"


def test_the_hottest_keep_their_counts_whichever_part_of_a_crate_they_are_in():
    local = "perdure.0123456789abcdef-cgu.{};walk".format
    given = [
        counted("perdure.0123456789abcdef-cgu.03;seldom", 9, 99_999),
        counted("perdure.0123456789abcdef-cgu.03;often", 100_000),
        counted(local("14"), 10_000_000, 5),
        counted(local("02"), 20_000_000, 6),
        counted("known_everywhere", 10_000_000),
    ]
    head = "# IR level Instrumentation Flag\n:ir\n"
    done = subprocess.run(
        [sys.executable, REPOSITORY / ".ci" / "counted.py"],
        input=head + "\n".join(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    kept = re.split(r"\n{2,}", done.stdout.removeprefix(head).strip("\n"))
    walks = [counted(local(f"{part:02}"), 20_000_000, 6) for part in range(16)]
    assert kept == [one.rstrip("\n") for one in (given[1], given[4], *walks)]

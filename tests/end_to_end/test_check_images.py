"""The programs of workloads/check on images no machine made: any prefixes of lines' stores.

Always true here: programs are compiled for the host, and `tests/check_images` records what they
store, flush and fence; each image is one that flushes and fences allow, and is recovered by the
program itself. What is found does not depend on Perdure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY, TIMES, catalogue, seed

NAMES = sorted(catalogue("check.toml"))
SOURCES = REPOSITORY / "workloads/check"
RECORDER = REPOSITORY / "tests/check_images"
IMAGES = 100 * TIMES
LIVES = 2
IMAGES_OF_A_BUG = 4000

FOUND = {
    "allocator": "record-not-fenced",
    "btree": "entry-not-fenced",
    "hash-chained": "link-not-fenced",
    "hash-extendible": "key-before-value",
    "hash-level": "entry-not-fenced",
    "list": "value-in-place",
    "list-lock-free": "value-not-fenced",
    "log-store": "check-not-compared",
    "queue": "head-not-fenced",
    "radix": "path-not-fenced",
    "rbtree": "root-not-fenced",
    "redo-hash": "entries-not-fenced",
    "skiplist": "node-not-fenced",
    "undo-list": "entry-not-fenced",
}
"""A bug of each program that cuts on a machine hardly ever show."""


def compiled(name: str, folder: Path) -> Path:
    """The program for the host, with its stores announced to the recorder."""
    program = folder / name
    if program.exists():
        return program
    source = next(SOURCES.glob(f"{name}.c*"))
    compiler, standard = ("cc", "gnu11") if source.suffix == ".c" else ("c++", "c++17")
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} for this host")
    flags = ["-O1", "-g", "-D_GNU_SOURCE"]
    objects = [folder / f"{name}.o", folder / "record.o"]
    announced = ["-fsanitize=thread", f"-I{RECORDER}", f"-std={standard}"]
    build = [
        [compiler, *flags, *announced, "-c", source, "-o", objects[0]],
        ["cc", *flags, "-std=gnu11", "-c", RECORDER / "record.c", "-o", objects[1]],
        [compiler, *objects, "-pthread", "-o", program],
    ]
    for words in build:
        subprocess.run(list(map(str, words)), check=True, timeout=120)
    return program


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs are compiled to, once."""
    return tmp_path_factory.mktemp("recorded")


def recorded(program: Path, pool: Path, *more: str, images: int, keep: int = 0) -> str:
    """Runs a program, and it on images of its pool: what it says of them."""
    threads = ["--threads", "1"] if program.name == "list-lock-free" else []
    environment = {
        **os.environ,
        "RECORD_POOL": str(pool),
        "RECORD_IMAGES": str(images),
        "RECORD_SEED": str(seed(1)),
        "RECORD_KEEP": str(keep),
    }
    done = subprocess.run(
        [program, "/pmem/x", *threads, *more],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_correct_program_recovers_from_every_image(
    name: str, folder: Path, tmp_path: Path
) -> None:
    program, pool = compiled(name, folder), tmp_path / "pool"
    assert recorded(program, pool, images=IMAGES, keep=LIVES) == f"none of {IMAGES}"
    for life in range(LIVES):
        # What the program stores from there on, its recovery's own stores first.
        left = tmp_path / f"pool.{life}"
        assert recorded(program, left, images=IMAGES // LIVES) == f"none of {IMAGES // LIVES}"


@pytest.mark.parametrize("name", NAMES)
def test_an_image_shows_what_cuts_do_not(name: str, folder: Path, tmp_path: Path) -> None:
    program, pool = compiled(name, folder), tmp_path / "pool"
    said = recorded(program, pool, "--bug", FOUND[name], images=IMAGES_OF_A_BUG)
    assert said.startswith("found: "), said
    assert "WRONG" in said

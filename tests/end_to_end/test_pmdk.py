"""Unmodified libpmem, libpmemobj and pmempool of Debian: they take pools for persistent memory.

Always true here: Debian's build for riscv64 flushes nothing, because its flush is empty. So where
the caches are kept (`eadr`) it is sound at every cut, and where they are lost (`adr`) cuts find it
broken. With the machine's flushes in their place (`pmem_flush.h`), `perdure check` finds libpmemobj
sound, and what a program forgets to tell it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, TIMES, Command, debian, seed

from perdure import CutReport, Machine, checking, replay

PMDK = ("libpmem-dev", "libpmem1-debug", "libpmemobj-dev", "libpmemobj1-debug", "pmdk-tools")
LIBRARIES = "usr/lib/riscv64-linux-gnu"
CUTS = 4 * TIMES
SOUND = "objects: sound"
POOLS = ("/pmem/objects", "/pmem/promised")
MORE = (
    (("transactions", "1"), False),
    (("transactions", "4"), False),
    (("lists", "4"), False),
    (("reservations", "3"), False),
    (("reservations", "2", "not-flushed"), True),
)
"""What is checked by night alone: a recovery takes a tenth of a second, or more."""


@pytest.fixture(scope="module")
def root() -> Path:
    """A sysroot of these tests' own: who cannot have these packages can have the others."""
    return debian(PMDK, beside="-pmdk")


def linked(root: Path, program: Path, *flags: str) -> Path:
    """A program, linked to Debian's libraries; their C library is newer than the compiler's."""
    source = Path(__file__).with_name("programs") / f"{program.name}.c"
    words = [
        "-std=gnu11",
        "-O2",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        "-o",
        program,
        source,
    ]
    libraries = [root / LIBRARIES / f"{name}.so.1" for name in ("libpmemobj", "libpmem")]
    words += ["-isystem", root / "usr/include", "-Wl,--allow-shlib-undefined", *libraries]
    subprocess.run(["riscv64-linux-gnu-gcc", *map(str, words)], check=True)
    return program


@pytest.fixture(scope="module")
def objects(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounts, moved by transactions."""
    return linked(root, tmp_path_factory.mktemp("pmdk") / "objects")


@pytest.fixture(scope="module")
def inventory(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program for `perdure check`, before whose functions the library's own do not count."""
    program = tmp_path_factory.mktemp("pmdk") / "inventory"
    return linked(root, program, "-rdynamic", f"-I{REPOSITORY / 'guest'}")


def machine(root: Path, folder: Path, domain: str) -> Machine:
    return Machine(
        machine="x86-pm",
        design="ideal",
        set={"persistence.domain": domain},
        sysroot=root,
        pmem=folder,
    )


@pytest.fixture(scope="module")
def pools(root: Path, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pool with a few transactions, all of them durable."""
    folder = tmp_path_factory.mktemp("pools") / "pools"
    result = machine(root, folder, "eadr").run([objects, *POOLS, "5"])
    assert (result.exit_code, result.lost_pools) == (0, [])
    return folder


def cut(root: Path, folder: Path, domain: str, *words: str | Path, **more: Any) -> CutReport:
    asked = {"cuts": CUTS, "seed": seed(7), "restart": True, "jobs": 2, **more}
    return machine(root, folder, domain).cut(words, **asked)


def test_a_library_that_flushes_nothing_is_sound_where_the_caches_are_kept(
    root: Path, objects: Path, pools: Path
) -> None:
    report = cut(root, pools, "eadr", objects, *POOLS, "1505", expect=SOUND)
    assert [(one.verdict, one.last_lines, one.token) for one in report.failures] == []
    assert report.verified == report.restarted == report.cuts


def test_it_is_broken_where_they_are_lost(root: Path, objects: Path, pools: Path) -> None:
    report = cut(root, pools, "adr", objects, *POOLS, "1505", expect=SOUND)
    assert report.failed > 0
    for one in report.failures:
        assert one.verdict == "restart-failed"
    assert any("were promised" in line for one in report.failures for line in one.last_lines)
    again = replay(report.failures[0].token).results[0]
    assert again.last_lines == report.failures[0].last_lines


def test_pmempool_makes_and_checks_pools_that_are_persistent_memory_to_it(
    command: Command, root: Path, tmp_path: Path
) -> None:
    words = ("run", "--machine", "x86-pm", "--design", "ideal", "--set", "persistence.domain=eadr",
             "--sysroot", root, "--pmem", tmp_path / "pools")  # fmt: skip
    # Debian's debug builds of the same libraries say what they do.
    loud = [
        word
        for setting in (
            f"LD_LIBRARY_PATH=/{LIBRARIES}/pmdk_dbg",
            "PMEMOBJ_LOG_LEVEL=4",
            "PMEMOBJ_LOG_FILE=/dev/stderr",
        )
        for word in ("--env", setting)
    ]
    pool = "/pmem/pool"
    made = command(*words, *loud, "--", "/usr/bin/pmempool", "create", "obj", "--layout=a", pool)
    assert made.status == 0, made.stderr
    assert "mmap with MAP_SYNC succeeded" in made.stderr
    assert "is_pmem 1" in made.stderr and "is_pmem 0" not in made.stderr
    checked = command(*words, "--", "/usr/bin/pmempool", "check", "-v", pool)
    assert (checked.status, checked.stdout.splitlines()[-1]) == (0, f"{pool}: consistent")
    shown = command(*words, "--", "/usr/bin/pmempool", "info", pool)
    assert shown.status == 0 and "Layout                   : a" in shown.stdout
    file = tmp_path / "pools/pool"
    content = bytearray(file.read_bytes())
    content[100] ^= 0xFF
    file.write_bytes(content)
    checked = command(*words, "--", "/usr/bin/pmempool", "check", "-v", pool)
    assert checked.status == 1 and "not consistent" in checked.stdout


@pytest.mark.parametrize(
    ("words", "is_wrong"),
    [
        (("transactions", "1", "not-added"), True),
        *((words, wrong) for words, wrong in MORE if TIMES > 1),
    ],
)
def test_a_check_finds_the_library_sound_and_what_a_program_forgets(
    words: tuple[str, ...], is_wrong: bool, root: Path, inventory: Path, tmp_path: Path
) -> None:
    pools = tmp_path / "pools"
    made = machine(root, pools, "eadr").run([inventory, "/pmem/inventory", "make"])
    assert (made.exit_code, made.lost_pools) == (0, [])
    subject = checking.Subject(
        machine(root, pools, "adr"),
        [str(inventory), "/pmem/inventory", *words],
        dump=[str(inventory), "/pmem/inventory", "dump"],
    )
    report = checking.check(subject, nested=False, limits=checking.Limits(states=60 * TIMES))
    assert report["points"]["found"] > 10
    assert bool(report["bugs"]) == is_wrong
    if is_wrong:
        stores = [store for bug in report["bugs"] for store in (*bug["lost"], *bug["kept"])]
        files = [store["place"]["file"] or "" for store in stores if store["place"] is not None]
        assert any(file.endswith("inventory.c") for file in files)

"""What a program may do with wraps and what it gets wrong; the parameters of their design.

Always true here: the guest is the program below; each test has a folder of pools of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TIMES, Command, seed

from perdure import Machine, PerdureError

HLOG = ("run", "--machine", "spms", "--design", "hlog")
SOURCE = """
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hlog.h"

enum { LINE = 64, BYTES = 16 * 4096, WORDS = BYTES / 8 };

static uint64_t *pool;

static uint64_t *map(const char *path, int access, int protection, int flags)
{
    const int file = open(path, access, 0666);
    void *place = mmap(NULL, BYTES, protection, flags, file, 0);
    if (place == MAP_FAILED) exit(81);
    return place;
}

static void store(int first, int end, uint64_t value)
{
    for (int line = first; line < end; line++) hlog_store(&pool[line * LINE / 8], value);
}

static void *leave_open(void *number)
{
    const int line = (int)(long)number;
    hlog_open();
    store(line, line + 1, 1);
    hlog_close();
    hlog_open();
    store(line, line + 1, 2);
    return NULL;
}

int main(int count, char **words)
{
    const char *path = words[1], *how = words[2];
    if (strcmp(how, "open") == 0) hlog_open();
    if (strcmp(how, "close") == 0) hlog_close();
    if (count == 3) return 0;

    const int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (file >= 0 && (posix_fallocate(file, 0, BYTES) != 0 || fsync(file) != 0)) exit(82);
    pool = map(path, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
    const int threads = atoi(words[3]);
    pthread_t id[8];
    for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, leave_open, (void *)(long)i);
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
    if (strcmp(how, "nested") == 0) {
        hlog_open();
        store(0, 8, 1);
        hlog_open();
        store(8, 16, 1);
        hlog_close();
        store(16, 24, 1);
        hlog_close();
        hlog_close();
    }
    if (strcmp(how, "inner") == 0) {
        hlog_open();
        hlog_open();
        store(0, 8, 1);
        hlog_close();
    }
    if (strcmp(how, "alone") == 0) store(0, 8, 1);
    if (strcmp(how, "unaligned") == 0) perdure_wrap_record((char *)pool + 4, 1);
    if (strcmp(how, "nowhere") == 0) perdure_wrap_record((void *)8, 1);
    if (strcmp(how, "read-only") == 0) {
        perdure_wrap_record(map(path, O_RDONLY, PROT_READ, MAP_SHARED), 1);
    }
    if (strcmp(how, "elsewhere") == 0) {
        uint64_t *copy = map(path, O_RDONLY, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        hlog_open();
        hlog_store(copy, 7);
        hlog_store(&pool[8], 1);
        hlog_close();
        if (copy[0] != 7 || pool[0] != 0) exit(83);
    }
    if (strcmp(how, "plain") == 0) {
        hlog_open();
        store(0, 64, 1);
        hlog_close();
        for (int line = 0; line < 32; line++) pool[line * LINE / 8] = 2;
        for (int word = 0; word < WORDS; word += 8) pool[word + 1] = 3;
        for (int line = 0; line < 64; line++) {
            if (pool[line * LINE / 8] != (line < 32 ? 2 : 1)) exit(84);
        }
    }
    return 0;
}
"""


@pytest.fixture
def guest(compiled: Callable[[str], Path]) -> Path:
    """The program."""
    return compiled(SOURCE)


def first_of_lines(pool: Path) -> list[int]:
    """The first byte of each line."""
    return list(pool.read_bytes()[::64])


@pytest.mark.parametrize(
    ("how", "function", "name"), [("open", 144, "wrap_open"), ("close", 146, "wrap_close")]
)
@pytest.mark.parametrize("design", ["ideal", "spms"])
def test_an_instruction_of_another_design_names_the_design_that_has_it(
    how: str, function: int, name: str, design: str, guest: Path, command: Command
) -> None:
    machine = ("--machine", "spms", "--design", design)
    ended = command("run", *machine, "--", guest, "/none", how)
    assert ended.status == 132
    says = f": {design} does not have function {function} of custom-1, which is {name} under hlog"
    assert says in ended.stderr


def test_a_close_without_an_open_is_nothing(guest: Path, command: Command) -> None:
    ended = command(*HLOG, "--", guest, "/none", "close")
    assert (ended.status, ended.stderr) == (0, "")


@pytest.mark.parametrize(("how", "lines"), [("nested", 24), ("alone", 8), ("inner", 0)])
def test_what_is_closed_is_there(
    how: str, lines: int, guest: Path, command: Command, tmp_path: Path
) -> None:
    """A wrap within another is part of that, and a record outside of all is one by itself."""
    ended = command(*HLOG, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", how, "0")
    assert ended.status == 0
    assert first_of_lines(tmp_path / "pm/p") == [1] * lines + [0] * (1024 - lines)
    assert ("never closed" in ended.stderr) == (lines == 0)


@pytest.mark.parametrize(
    ("threads", "wraps", "last"),
    [
        ("1", "1 wrap was never closed: what it", 2),
        ("3", "3 wraps were never closed: what they", 4),
    ],
)
def test_wraps_that_nobody_closed_are_reported(
    threads: str, wraps: str, last: int, guest: Path, command: Command, tmp_path: Path
) -> None:
    asked = (*HLOG, "--set", "harts=4", "--pmem", tmp_path / "pm", "--", guest, "/pmem/p")
    ended = command(*asked, "leave", threads)
    lost = f"stored is lost with the power (last: thread {last}, wrap 2)"
    assert (ended.status, ended.stderr) == (0, f"perdure: {wraps} {lost}\n")
    assert first_of_lines(tmp_path / "pm/p")[: int(threads)] == [1] * int(threads)


@pytest.mark.parametrize(
    ("how", "status", "says"),
    [
        ("unaligned", 132, "SIGILL"),
        ("nowhere", 139, "SIGSEGV: store to 0x8"),
        ("read-only", 139, "the mapping forbids it"),
    ],
)
def test_a_record_of_what_may_not_be_stored_is_the_program_s_fault(
    how: str, status: int, says: str, guest: Path, command: Command, tmp_path: Path
) -> None:
    ended = command(*HLOG, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", how, "0")
    assert ended.status == status
    assert says in ended.stderr.splitlines()[0]
    assert set(first_of_lines(tmp_path / "pm/p")) == {0}


def test_a_private_copy_of_a_pool_belongs_to_no_wrap(
    guest: Path, command: Command, tmp_path: Path
) -> None:
    ended = command(*HLOG, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", "elsewhere", "0")
    assert (ended.status, ended.stderr) == (0, "")
    assert first_of_lines(tmp_path / "pm/p")[:3] == [0, 1, 0]


@pytest.mark.parametrize("how", ["nested", "alone", "inner", "elsewhere", "plain", "read-only"])
def test_every_cut_of_these_leaves_wraps_whole(how: str, guest: Path, tmp_path: Path) -> None:
    caches = {"l1i.bytes": "1024", "l1d.bytes": "1024", "l2.bytes": "2048"}
    caches["llc.bytes_per_hart"] = "8192"
    machine = Machine(machine="spms", design="hlog", set=caches, pmem=tmp_path / "pm")
    words: list[str | Path] = [guest, "/pmem/p", how, "0"]
    report = machine.cut(words, cuts=20 * TIMES, seed=seed(9), during_recovery=True)
    assert [(cut.raw["message"], cut.token) for cut in report.failures] == []
    assert report.verified == report.cuts


IMPOSSIBLE = {
    "hlog.log_bytes=0": "hlog.log_bytes = 0: must be 512 to",
    "hlog.log_bytes=1000": "hlog.log_bytes = 1000: must be lines of 64 bytes",
    "hlog.log_bytes=1GiB": "hlog.log_bytes = 1073741824: must be 512 to 134217600",
    "hlog.buffer_bytes=0": "hlog.buffer_bytes = 0: must be 64 to",
    "hlog.victim_bytes=100": "hlog.victim_bytes = 100: must be lines of 64 bytes",
    "hlog.victim_latency_ns=-1": "hlog.victim_latency_ns = -1.0: must be 0 to",
    "hlog.log=1": "hlog",
    "persistence.domain=eadr": "persistence.domain = eadr: caches that survive would keep wraps",
}


@pytest.mark.parametrize("setting", IMPOSSIBLE)
def test_an_impossible_size_is_refused_with_the_key_s_name(setting: str, tmp_path: Path) -> None:
    key, _, value = setting.partition("=")
    machine = Machine(machine="spms", design="hlog", set={key: value}, pmem=tmp_path)
    with pytest.raises(PerdureError) as refused:
        machine.run(["@wraps:10:4:2:1"])
    assert IMPOSSIBLE[setting] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_log_that_open_wraps_fill_is_named(command: Command, tmp_path: Path) -> None:
    more = ("--set", "hlog.log_bytes=512", "--pmem", tmp_path / "pm")
    ended = command(*HLOG, *more, "--", "@wraps:200:4:100:1")
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.startswith("perdure: design hlog: the log is full")
    assert "give a larger hlog.log_bytes (8 lines now)" in ended.stderr


@pytest.mark.parametrize("harts", [1, 4])
def test_little_is_enough(harts: int, command: Command, tmp_path: Path) -> None:
    sizes = (
        f"hlog.log_bytes={512 if harts == 1 else 16384}",
        "hlog.buffer_bytes=64",
        "hlog.victim_bytes=64",
    )
    caches = ("l1i.bytes=1024", "l1d.bytes=1024", "l2.bytes=2048", "llc.bytes_per_hart=4096")
    more = [word for setting in (*sizes, *caches, f"harts={harts}") for word in ("--set", setting)]
    asked = (*HLOG, *more, "--pmem", tmp_path / "pm", "--", f"@wraps:2000:64:4:{harts}")
    ended = command(*asked)
    assert ended.status == 0, ended.stderr


def test_the_exerciser_of_wraps_needs_a_pool(command: Command) -> None:
    ended = command(*HLOG, "--", "@wraps:10:4:2:1")
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr == "perdure: @wraps stores to a pool: give --pmem DIR\n"

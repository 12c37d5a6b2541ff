"""What a program gets wrong with strands, and with the parameters of a design that has them.

Always true here: the guest is the program below; each test has a folder of pools of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TIMES, Command, seed

from perdure import Machine, PerdureError

SPMS = ("run", "--machine", "spms", "--design", "spms")
SOURCE = """
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"

enum { LINE = 64, BYTES = 16 * 4096, LINES = BYTES / LINE };

static sigjmp_buf back;
static volatile char *pool;

static void go_back(int signal) { siglongjmp(back, signal); }

static void store(volatile char *start, int first, int end, char value)
{
    for (int line = first; line < end; line++) start[line * LINE] = value;
}

static void *map(const char *path, int access, int protection, int flags)
{
    const int file = open(path, access, 0666);
    void *place = mmap(NULL, BYTES, protection, flags, file, 0);
    if (file < 0) exit(80);
    if (place == MAP_FAILED) exit(81);
    return place;
}

static void make(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (file < 0) return;
    if (posix_fallocate(file, 0, BYTES) != 0 || fsync(file) != 0) exit(82);
    close(file);
}

static void *open_strand(void *number)
{
    const int line = (int)(long)number;
    store(pool, line, line + 1, 1);
    perdure_new_strand();
    store(pool, line, line + 1, 2);
    return NULL;
}

/* Stores where it may not, in the middle of a strand. */
static void stumble(volatile char *forbidden)
{
    store(pool, 0, 32, 1);
    if (sigsetjmp(back, 1) == 0) {
        store(forbidden, 100, 101, 9);
        exit(83);
    }
    store(pool, 32, 64, 1);
    perdure_strand_sync();
}

int main(int count, char **words)
{
    const char *path = words[1], *how = words[2];
    if (strcmp(how, "new") == 0) perdure_new_strand();
    if (strcmp(how, "sync") == 0) perdure_strand_sync();
    if (strcmp(how, "unknown") == 0) __asm__ volatile(".insn r 0x2b, 7, 0x3f, x0, x0, x0");
    if (strcmp(how, "caught") == 0) {
        signal(SIGILL, go_back);
        if (sigsetjmp(back, 1) == 0) perdure_new_strand();
        else puts("no strands here");
    }
    if (count == 3) return 0;

    make(path);
    pool = map(path, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
    const int threads = atoi(words[3]);
    pthread_t id[8];
    for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, open_strand, (void *)(long)i);
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
    if (strcmp(how, "ended") == 0) {
        store(pool, 0, 64, 1);
        perdure_new_strand();
    }
    if (strcmp(how, "dies") == 0) {
        store(pool, 0, 64, 1);
        store(map(path, O_RDONLY, PROT_READ, MAP_SHARED), 100, 101, 9);
    }
    signal(SIGSEGV, go_back);
    if (strcmp(how, "read-only") == 0) stumble(map(path, O_RDONLY, PROT_READ, MAP_SHARED));
    if (strcmp(how, "protected") == 0) {
        volatile char *again = map(path, O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
        again[100 * LINE] = 1;
        perdure_new_strand();
        mprotect((void *)again, BYTES, PROT_READ);
        stumble(again);
    }
    if (strcmp(how, "private") == 0) {
        volatile char *copy = map(path, O_RDONLY, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        store(copy, 0, LINES / 2, 77);
        perdure_strand_sync();
        store(pool, 0, 64, 1);
        store(copy, LINES / 2, LINES, 77);
        perdure_strand_sync();
        for (int line = 0; line < LINES; line++) {
            if (copy[line * LINE] != 77) return 84;
        }
    }
    if (strcmp(how, "maps") == 0) map(path, O_RDONLY, PROT_READ | PROT_WRITE, MAP_SHARED);
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
    ("how", "function", "name"), [("new", 128, "NewStrand"), ("sync", 129, "strand_sync")]
)
@pytest.mark.parametrize("design", ["ideal", "picl"])
def test_an_instruction_of_another_design_names_the_designs_that_have_it(
    how: str, function: int, name: str, design: str, guest: Path, command: Command
) -> None:
    ended = command("run", "--design", design, "--", guest, "/none", how)
    assert ended.status == 132
    assert (
        f": {design} does not have function {function} of custom-1, which is {name} under "
        in ended.stderr
    )
    assert ended.stderr.splitlines()[0].endswith(" under spms")


def test_an_instruction_that_no_design_has_names_none(guest: Path, command: Command) -> None:
    ended = command(*SPMS, "--", guest, "/none", "unknown")
    assert ended.status == 132
    assert "perdure: SIGILL: no such instruction: 0x7e00702b\n" in ended.stderr
    assert "under" not in ended.stderr


def test_a_program_may_find_out_that_there_are_no_strands(guest: Path, command: Command) -> None:
    ended = command("run", "--design", "ideal", "--", guest, "/none", "caught")
    assert (ended.status, ended.stdout, ended.stderr) == (0, "no strands here\n", "")
    ended = command(*SPMS, "--", guest, "/none", "caught")
    assert (ended.status, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("threads", "strands", "last"),
    [
        ("1", "1 strand was never ended: what it", 2),
        ("3", "3 strands were never ended: what they", 4),
    ],
)
def test_strands_that_nobody_ended_are_reported(
    threads: str, strands: str, last: int, guest: Path, command: Command, tmp_path: Path
) -> None:
    asked = (*SPMS, "--set", "harts=4", "--pmem", tmp_path / "pm", "--", guest, "/pmem/p")
    ended = command(*asked, "open", threads)
    lost = f"stored is lost with the power (last: thread {last}, strand 2)"
    assert (ended.status, ended.stderr) == (0, f"perdure: {strands} {lost}\n")
    found = first_of_lines(tmp_path / "pm/p")
    assert set(found) <= {0, 1}


def test_what_has_no_store_is_not_reported(guest: Path, command: Command, tmp_path: Path) -> None:
    ended = command(*SPMS, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", "ended", "0")
    assert (ended.status, ended.stderr) == (0, "")


@pytest.mark.parametrize("how", ["read-only", "protected"])
def test_a_store_to_a_pool_that_may_only_be_read_disturbs_no_strand(
    how: str, guest: Path, command: Command, tmp_path: Path
) -> None:
    ended = command(*SPMS, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", how, "0")
    assert (ended.status, ended.stderr) == (0, "")
    found = first_of_lines(tmp_path / "pm/p")
    assert found[:64] == [1] * 64, "what was stored before the fault and after it is one strand"
    assert found[100] == (how == "protected")


def test_such_a_store_ends_the_program_and_its_strand_with_it(
    guest: Path, command: Command, tmp_path: Path
) -> None:
    ended = command(*SPMS, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", "dies", "0")
    assert ended.status == 139
    said = ended.stderr.splitlines()
    assert said[0].startswith("perdure: SIGSEGV: store to 0x")
    assert said[0].endswith("the mapping forbids it")
    assert said[-1].startswith("perdure: 1 strand was never ended")
    assert set(first_of_lines(tmp_path / "pm/p")) == {0}


def test_a_pool_that_was_opened_to_be_read_is_not_mapped_to_be_written(
    guest: Path, command: Command, tmp_path: Path
) -> None:
    ended = command(*SPMS, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p", "maps", "0")
    assert (ended.status, ended.stderr) == (81, "")


def test_a_private_copy_of_a_pool_belongs_to_no_strand(
    guest: Path, command: Command, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    asked = (*SPMS, "--json", result, "--pmem", tmp_path / "pm", "--", guest, "/pmem/p")
    ended = command(*asked, "private", "0")
    assert (ended.status, ended.stderr) == (0, "")
    assert first_of_lines(tmp_path / "pm/p") == [1] * 64 + [0] * (1024 - 64)
    statistics = json.loads(result.read_text())["statistics"]
    assert statistics["spms.lines"]["value"] == 64


@pytest.mark.parametrize("how", ["read-only", "protected", "dies", "private"])
def test_every_cut_of_these_leaves_strands_whole(how: str, guest: Path, tmp_path: Path) -> None:
    caches = {"l2.bytes": "65536", "llc.bytes_per_hart": "131072"}
    machine = Machine(machine="spms", design="spms", set=caches, pmem=tmp_path / "pm")
    words: list[str | Path] = [guest, "/pmem/p", how, "0"]
    report = machine.cut(words, cuts=20 * TIMES, seed=seed(8), during_recovery=True)
    assert [(cut.raw["message"], cut.token) for cut in report.failures] == []
    assert report.verified == report.cuts


IMPOSSIBLE = {
    "spms.cid_bits=-1": "spms.cid_bits = -1: must be 0 to 6",
    "spms.cid_bits=1.5": "spms.cid_bits = 1.5 should be an integer, 0 to 6",
    "spms.cid_bits=0": "spms.sgst_entries = 4096: a tag of 9 bits names 1 to 512",
    "spms.tid_bits=9": "spms.tid_bits = 9: must be 0 to 8",
    "spms.tid_bits=true": "spms.tid_bits = true should be an integer",
    "spms.sid_bits=0": "spms.sid_bits = 0: must be 1 to 14",
    "spms.sid_bits=14": "spms.sid_bits = 14: with 3 of CID and 2 of TID, a tag has 19 bits",
    "spms.sgst_entries=0": "spms.sgst_entries = 0: must be 1 to",
    "spms.sgst_entries=4097": "spms.sgst_entries = 4097: a tag of 12 bits names 1 to 4096",
    "spms.sgst_entries=9223372036854775807": "spms.sgst_entries = 9223372036854775807: must be",
    "spms.sgst_entries=18446744073709551616": "spms.sgst_entries = 18446744073709551616",
    "spms.sgst_entries=many": 'spms.sgst_entries = "many" should be an integer',
    "spms.sgst_entry=1": "the nearest is 'spms.sgst_entries'",
    "spms.buffer_bytes=0": "spms.buffer_bytes = 0: must be 64 to",
    "spms.buffer_bytes=-64": "spms.buffer_bytes = -64: must be 64 to",
    "spms.buffer_bytes=100": "spms.buffer_bytes = 100: must be lines of 64 bytes",
    "spms.buffer_bytes=2GiB": "spms.buffer_bytes = 2147483648: must be 64 to",
    "spms.buffer_latency_ns=nan": 'spms.buffer_latency_ns = "nan" should be a number',
    "spms.buffer_latency_ns=-1": "spms.buffer_latency_ns = -1.0: must be 0 to",
    "harts=9": "spms.cid_bits = 3: names 2^3 harts, and the machine has 9",
    "persistence.domain=eadr": "persistence.domain = eadr: caches that survive would keep",
}


@pytest.mark.parametrize("setting", IMPOSSIBLE)
def test_an_impossible_table_is_refused_with_the_key_s_name(setting: str, tmp_path: Path) -> None:
    key, _, value = setting.partition("=")
    machine = Machine(machine="spms", design="spms", set={key: value}, pmem=tmp_path)
    with pytest.raises(PerdureError) as refused:
        machine.run(["@strands:10:4:2:1"])
    assert IMPOSSIBLE[setting] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "program", "says"),
    [
        (("harts=1",), "@strands:200:4:8:8", "than spms.tid_bits names"),
        (("harts=4", "spms.sgst_entries=1"), "@strands:200:4:8:4", "give more spms.sgst_entries"),
    ],
)
def test_what_threads_outgrow_while_they_run_is_named(
    settings: tuple[str, ...], program: str, says: str, command: Command, tmp_path: Path
) -> None:
    more = [word for setting in settings for word in ("--set", setting)]
    ended = command(*SPMS, *more, "--pmem", tmp_path / "pm", "--", program)
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.startswith("perdure: design spms: ")
    assert says in ended.stderr


@pytest.mark.parametrize(
    "settings",
    [
        ("harts=4", "spms.sgst_entries=4"),
        ("harts=4", "spms.buffer_bytes=64"),
        ("spms.sid_bits=1", "spms.sgst_entries=1", "spms.buffer_bytes=64", "spms.tid_bits=2"),
    ],
)
def test_the_least_that_is_possible_is_enough(
    settings: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    more = [word for setting in settings for word in ("--set", setting)]
    threads = 4 if "harts=4" in settings else 1
    asked = (*SPMS, *more, "--pmem", tmp_path / "pm", "--", f"@strands:2000:64:8:{threads}")
    ended = command(*asked)
    assert ended.status == 0, ended.stderr


@pytest.mark.parametrize(
    "words", ["", ":", ":0:4:2:1", ":10:3:2:1", ":10:4:0:1", ":10:4:2:3", ":-1:4:2:1", ":1.5:4:2:1"]
)
def test_a_wrong_exerciser_of_strands_says_how_it_is_written(words: str, tmp_path: Path) -> None:
    machine = Machine(machine="spms", design="spms", pmem=tmp_path)
    written = "write @strands:STEPS:REGION_KIB:STEPS_PER_STRAND:THREADS"
    with pytest.raises(PerdureError, match=re.escape(f"@strands{words}: {written}")):
        machine.run([f"@strands{words}"])


def test_the_exerciser_of_strands_needs_a_pool(command: Command) -> None:
    ended = command(*SPMS, "--", "@strands:10:4:2:1")
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr == "perdure: @strands stores to a pool: give --pmem DIR\n"

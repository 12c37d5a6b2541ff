"""Pools from the command line: files of a folder that lie in persistent memory, and what survives.

Always true here: the same program prints the same on ordinary files under the reference
(`tests/guests/expected/pools.txt` was recorded there).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PROGRAMS, REPOSITORY, Command

EXPECTED = REPOSITORY / "tests/guests/expected/pools.txt"
GUEST = PROGRAMS / "guests/pools"
PM = ("--machine", "x86-pm", "--design", "ideal", "--pmem")


@pytest.mark.parametrize("domain", ["media", "adr", "eadr"])
def test_a_pool_is_found_again_by_the_next_run(
    command: Command, tmp_path: Path, domain: str
) -> None:
    pools = tmp_path / "missing/pools"
    settings = ("--set", f"persistence.domain={domain}")
    made = command("run", *PM, pools, *settings, "--", GUEST, "/pmem")
    assert (made.status, made.stdout) == (0, EXPECTED.read_text())
    assert sorted(file.name for file in pools.iterdir()) == ["bank", "log", "version"]
    assert (pools / "bank").read_bytes()[4096:4101] == b"child"
    again = command("run", *PM, pools, *settings, "--", GUEST, "/pmem", "again")
    bank, _, log, _, files = EXPECTED.read_text().splitlines()
    assert again.stdout.splitlines() == [bank, log, files]


def test_one_cut_leaves_what_survived_and_many_leave_the_folder_alone(
    command: Command, tmp_path: Path
) -> None:
    pools = tmp_path / "pools"
    many = command("cut", *PM, pools, "--cuts", "2", "--", GUEST, "/pmem")
    assert many.status == 0
    assert list(pools.iterdir()) == []
    early = command("cut", *PM, pools, "--at", "1000", "--", GUEST, "/pmem")
    assert early.status == 0
    assert list(pools.iterdir()) == []


def test_a_folder_is_given_back_by_one_run_at_a_time(command: Command, tmp_path: Path) -> None:
    pools = tmp_path / "pools"
    pools.mkdir()
    other = os.open(pools, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    run = (*PM, pools, "--", GUEST, "/pmem")
    for words in (("run", *run), ("cut", "--at", "1000", *run)):
        refused = command(*words)
        assert refused.status == 2
        assert f"--pmem {pools}: another run has taken these pools" in refused.stderr
    assert command("cut", "--cuts", "2", *run).status == 0
    os.close(other)
    assert command("run", *run).status == 0
    assert (pools / "bank").exists()


def test_runs_that_are_compared_begin_with_the_same_pools_and_leave_them_alone(
    command: Command, tmp_path: Path
) -> None:
    pools = tmp_path / "pools"
    assert command("run", *PM, pools, "--", GUEST, "/pmem").status == 0
    before = {file.name: file.read_bytes() for file in pools.iterdir()}
    again = ("--pmem", pools, "--", GUEST, "/pmem", "again")
    both = command("compare", "--machine", "x86-pm", "--designs", "ideal,ideal", *again)
    assert both.status == 0, both.stderr
    domains = ("--set", "persistence.domain=media,adr", "--out", tmp_path / "out")
    swept = command("sweep", "--machine", "x86-pm", "--design", "ideal", *domains, *again)
    assert swept.status == 0, swept.stderr
    assert {file.name: file.read_bytes() for file in pools.iterdir()} == before
    refused = command(
        "compare", "--machine", "x86-pm", "--designs", "ideal", "--pmem", GUEST, "--", GUEST
    )
    assert (refused.status, refused.stderr) == (2, f"perdure: --pmem {GUEST}: no directory\n")


def test_what_has_no_pools_says_so(command: Command, tmp_path: Path) -> None:
    pools = tmp_path / "pools"

    def refusal(*words: object) -> str:
        ended = command("run", *words, "--pmem", pools, "--", GUEST, "/pmem")
        assert ended.status == 2
        assert ended.stderr.count("\n") == 1
        return ended.stderr

    assert "has no persistent memory beside" in refusal("--machine", "picl", "--design", "ideal")
    assert not pools.exists()
    pools.mkdir()
    (pools / "large").write_bytes(b"1" * (65 << 20))
    small = ("--machine", "x86-pm", "--design", "ideal", "--set", "nvm.bytes=67108864")
    assert "the pools have more than 67108864 bytes" in refusal(*small)


LONG = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **arguments) {
    int file = open("/pmem/long", O_RDWR | O_CREAT, 0600);
    off_t middle = 1L << 39;
    char word[5] = "", more[1 << 20] = "more";
    struct stat status;
    if (count == 1) {
        ftruncate(file, 2 * middle);
        pwrite(file, "kept", 4, middle + 4095);
        fsync(file);
    }
    pread(file, word, 4, middle + 4095);
    fstat(file, &status);
    printf("%s in %ld of %ld\\n", word, (long)status.st_blocks, (long)status.st_size);
    for (int i = 0; i < 16; i++)
        if (write(file, more, sizeof more) < 0) return 3;
    return ftruncate(file, middle + 8000) + fsync(file);
}
"""


def test_a_pool_that_is_longer_than_the_memory_keeps_its_holes(
    compiled: Callable[..., Path], command: Command, tmp_path: Path
) -> None:
    program = compiled(LONG)
    run = ("run", *PM, tmp_path / "pools", "--set", "nvm.bytes=67108864", "--", program)
    first, second = command(*run), command(*run, "again")
    assert (first.status, second.status) == (0, 0), first.stderr + second.stderr
    assert first.stdout == f"kept in 16 of {1 << 40}\n"
    # Of what was written, pages of zeros and the rest of the file take no memory.
    assert second.stdout == f"kept in {16 + 16 * 8} of {(1 << 39) + 8000}\n"
    assert (tmp_path / "pools/long").stat().st_size == (1 << 39) + 8000


WRITES = {
    "write": "write(data, word, 4)",
    "sendfile": "sendfile(data, file, &zero, 4)",
    "copy_file_range": "copy_file_range(file, &zero, data, NULL, 4, 0)",
    "splice": "write(ends[1], word, 4) + splice(ends[0], NULL, data, NULL, 4, 0) - 4",
}


@pytest.mark.parametrize("kind", ["O_DSYNC", "O_SYNC", "0"])
@pytest.mark.parametrize("written", WRITES)
def test_what_is_opened_so_is_durable_when_it_is_written(
    written: str, kind: str, compiled: Callable[..., Path], command: Command
) -> None:
    program = compiled(f"""
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <string.h>
        #include <sys/sendfile.h>
        #include <unistd.h>
        int main(int count, char **words) {{
            off_t zero = 0;
            char word[4] = "";
            int ends[2], file = open("file", O_RDWR | O_CREAT, 0644);
            int data = open("/pmem/data", O_RDWR | O_CREAT | {kind}, 0644);
            int told = open("/pmem/told", O_RDWR | O_CREAT, 0644);
            if (count > 1) {{
                int relies = pread(told, word, 4, 0) == 4 && memcmp(word, "told", 4) == 0;
                return relies && (pread(data, word, 4, 0) != 4 || memcmp(word, "data", 4) != 0);
            }}
            if (posix_fallocate(data, 0, 4096) || posix_fallocate(told, 0, 4096)) return 2;
            memcpy(word, "data", 4);
            if (fsync(told) || pipe(ends) || pwrite(file, word, 4, 0) != 4) return 2;
            if ({WRITES[written]} != 4) return 2;
            return pwrite(told, "told", 4, 0) != 4 || fdatasync(told) != 0;
        }}
    """)
    ended = command("check", "--", program, "--then", program, "recover")
    assert ended.status == (kind == "0"), ended.stdout + ended.stderr


DURABLE_WRITES = {
    "write": ("O_DSYNC", "lseek(data, 4096, SEEK_SET) - 4096 + write(data, word, 4)"),
    "pwrite": ("O_SYNC", "pwrite(data, word, 4, 4096)"),
    "append": ("O_DSYNC | O_APPEND", "write(data, word, 4)"),
    "pwritev2": ("0", "pwritev2(data, &piece, 1, 4096, RWF_DSYNC)"),
    "pwritev2 that appends": ("0", "pwritev2(data, &piece, 1, 0, RWF_DSYNC | RWF_APPEND)"),
    "copy_file_range": ("O_DSYNC", "copy_file_range(told, &zero, data, &page, 4, 0)"),
}
"""How the file is opened, and what writes four bytes behind its first page."""


@pytest.mark.parametrize("asked", ["WRITTEN", "MAPPED"])
@pytest.mark.parametrize("written", DURABLE_WRITES)
def test_a_durable_write_is_durable_and_makes_no_other_page_so(
    written: str, asked: str, compiled: Callable[..., Path], command: Command
) -> None:
    flags, writes = DURABLE_WRITES[written]
    program = compiled(f"""
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/uio.h>
        #include <unistd.h>
        enum {{ WRITTEN = 4096, MAPPED = 0 }};
        int main(int count, char **words) {{
            off_t zero = 0, page = 4096;
            char word[4] = "";
            struct iovec piece = {{word, 4}};
            int data = open("/pmem/data", O_RDWR | O_CREAT | {flags}, 0644);
            int told = open("/pmem/told", O_RDWR | O_CREAT, 0644);
            if (count > 1) {{
                int relies = pread(told, word, 4, 4) == 4 && memcmp(word, "told", 4) == 0;
                return relies && (pread(data, word, 4, {asked}) != 4 || memcmp(word, "data", 4));
            }}
            if (posix_fallocate(data, 0, 4096) || pwrite(told, "data....", 8, 0) != 8) return 2;
            if (fsync(data) || fsync(told) || (void *)(zero + page) == words) return 2;
            char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, data, 0);
            if (map == MAP_FAILED) return 2;
            memcpy(map, "data", 4);
            memcpy(word, "data", 4);
            if ({writes} != 4 || piece.iov_len != 4) return 2;
            return pwrite(told, "told", 4, 4) != 4 || fdatasync(told) != 0;
        }}
    """)
    ended = command("check", "--", program, "--then", program, "recover")
    assert ended.status == (asked == "MAPPED"), ended.stdout + ended.stderr

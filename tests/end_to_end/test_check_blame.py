"""What `perdure check` says is missing: of stores around the caches, and of two threads.

Always true here: recovery fails if `y` is newer than `x`, which has a line of its own
where `BETWEEN` says nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Command

COMMON = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"
#ifndef TYPE
#define TYPE 0
#endif
#ifndef BETWEEN
#define BETWEEN 7
#endif

struct pool { volatile uint64_t x, rest[BETWEEN], y; };
static struct pool *pool;
static const uint64_t rounds = 12;
#define APART __attribute__((noinline)) static

APART void persist(const volatile void *at) { perdure_clwb(at); perdure_sfence(); }
static void run(void);

int main(int count, char **words)
{
    const int file = open(words[1], O_RDWR | O_CREAT, 0644), access = PROT_READ | PROT_WRITE;
    if (file < 0 || ftruncate(file, 4096) != 0) return 2;
    const int type = count > 2 ? 0 : TYPE, flags = MAP_SHARED_VALIDATE | MAP_SYNC | type;
    pool = mmap(0, 4096, access, flags, file, 0);
    if (pool == MAP_FAILED) return 2;
    if (count > 2) return pool->y > pool->x ? 3 : 0;
    run();
    return 0;
}
"""

AROUND_THE_CACHES = r"""
static void run(void)
{
    for (uint64_t i = 1; i <= rounds; i++) {
        perdure_movnt64((void *)&pool->x, i);
        pool->y = i;
        persist(&pool->y);
    }
}
"""

BY_MEMORY_TYPE = r"""
static void run(void)
{
    for (uint64_t i = 1; i <= rounds; i++) {
        pool->x = i;
        WAIT
        pool->y = i;
        perdure_sfence();
    }
}
"""

HANDED_OVER = r"""
static volatile uint64_t turn;

APART void *other(void *none)
{
    for (uint64_t i = 1; i <= rounds; i++) {
        while (turn != 2 * i - 1) {}
        pool->y = i;
        persist(&pool->y);
        turn = 2 * i;
    }
    return none;
}

static void run(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    for (uint64_t i = 1; i <= rounds; i++) {
        pool->x = i;
        perdure_clwb(&pool->x); /* FENCE */
        turn = 2 * i - 1;
        while (turn != 2 * i) {}
    }
    pthread_join(thread, 0);
}
"""

UNDER_A_LOCK = r"""
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

APART void *other(void *none)
{
    for (int over = 0; !over;) {
        LOCK(&lock);
        pool->y = pool->x;
        over = pool->y == rounds;
        UNLOCK(&lock);
    }
    persist(&pool->y);
    return none;
}

static void run(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    for (uint64_t i = 1; i <= rounds; i++) {
        LOCK(&lock);
        pool->x = i;
        UNLOCK(&lock);
    }
    pthread_join(thread, 0);
}
"""


Checked = Callable[..., tuple[list[Any], str]]


@pytest.fixture
def checked(command: Command, compiled: Callable[..., Path]) -> Checked:
    """The bugs of a program, and what is said of them."""

    def found(source: str, *options: str, flags: tuple[str, ...] = ()) -> tuple[list[Any], str]:
        program = compiled(COMMON + source, "-g", "-O1", "-pthread", *flags)
        line = ("--", program, "/pmem/x", "--then", program, "/pmem/x", "recover")
        ended = command("check", *options, "--json", "report.json", *line)
        report = json.loads(program.with_name("report.json").read_text())
        assert ended.status == int(bool(report["bugs"])), ended.stderr
        return report["bugs"], ended.stdout

    return found


@pytest.mark.parametrize("model", ["px86", "machine"])
def test_a_store_around_the_caches_lacks_a_fence_and_no_flush(model: str, checked: Checked) -> None:
    (one,), said = checked(AROUND_THE_CACHES, "--model", model)
    assert one["defect"] == "missing-fence"
    assert "a fence belongs before run" in said


@pytest.mark.parametrize("type_", ["UNCACHED", "WRITE_COMBINING", "WRITE_THROUGH"])
@pytest.mark.parametrize("model", ["px86", "arm", "perdure"])
def test_what_its_memory_type_sends_to_memory_lacks_no_flush(
    type_: str, model: str, checked: Checked
) -> None:
    of = f"-DTYPE=PERDURE_MAP_{type_}"
    right = BY_MEMORY_TYPE.replace("WAIT", "perdure_sfence();")
    assert checked(right, "--model", model, flags=(of,))[0] == []
    (one,), said = checked(BY_MEMORY_TYPE.replace("WAIT", ""), "--model", model, flags=(of,))
    assert one["defect"] == "missing-fence"
    assert "a fence belongs before run" in said


def test_a_fence_belongs_to_the_thread_that_flushed(checked: Checked) -> None:
    (one,), said = checked(HANDED_OVER, "--cuts", "1")
    assert one["defect"] == "missing-fence"
    at = (COMMON + HANDED_OVER).splitlines()
    line = 1 + next(number for number, text in enumerate(at) if "FENCE" in text)
    assert f"a fence belongs behind run (program.c:{line})" in said
    told = [moment for moment in one["timeline"] if moment["kind"] != "fence"]
    first = [moment for moment in told if 0 in moment["stores"]]
    assert [moment["kind"] for moment in first[-2:]] == ["flush", "missing-fence"]
    (thread,) = {moment["thread"] for moment in first}
    (kept,) = (moment for moment in told if moment["kind"] == "kept")
    assert kept["thread"] != thread


@pytest.mark.parametrize("model", ["px86", "arm", "perdure"])
def test_a_lock_orders_the_stores_of_two_threads_to_a_line(model: str, checked: Checked) -> None:
    locked = ("-DLOCK=pthread_mutex_lock", "-DUNLOCK=pthread_mutex_unlock")
    free = ("-DLOCK=(void)", "-DUNLOCK=(void)")
    options = ("--model", model, "--schedules", "12")
    assert checked(UNDER_A_LOCK, *options, flags=("-DBETWEEN=1", *locked))[0] == []
    bugs, _ = checked(UNDER_A_LOCK, *options, flags=("-DBETWEEN=1", *free))
    assert bool(bugs) == (model == "arm"), "stores of a line pass each other there alone"

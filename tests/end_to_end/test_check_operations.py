"""`perdure check` of operations: by the names of functions, of several threads, and as a whole.

Always true here: programs whose mistake is asked for are found, and named at the place; those
without one, or with something that is none, are not accused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PROGRAMS, REPOSITORY, Command

from perdure import toolchain

pytestmark = pytest.mark.usefixtures("programs")

POOL = "/pmem/x"
GUESTS = REPOSITORY / "tests/guests"
Built = Callable[..., Path]


@pytest.fixture(scope="session")
def built_apart(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds a guest so that its functions keep their names."""
    compiler = toolchain.installed()
    if compiler is None:
        pytest.skip("no C compiler for riscv64")

    def build(name: str, change: Callable[[str], str] = str, *flags: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        source = folder / f"{name}.c"
        source.write_text(change((GUESTS / f"{name}.c").read_text()))
        return compiler.build(source, folder / name, ("-g", "-O1", *flags))

    return build


def check(command: Command, options: tuple[str, ...], *words: str | Path) -> tuple[int, Any]:
    """The status and the JSON of a check."""
    ended = command("check", *options, "--json", "-", "--", *map(str, words))
    assert ended.status in (0, 1), ended.stderr
    return ended.status, json.loads(ended.stdout)


def blamed(report: Any) -> list[tuple[str, set[str], set[str]]]:
    """What is wrong, and in which functions are the stores that are lost and kept."""

    def functions(stores: list[Any]) -> set[str]:
        return {store["place"]["function"] for store in stores}

    return sorted(
        (bug["defect"], functions(bug["lost"]), functions(bug["kept"])) for bug in report["bugs"]
    )


# ---- By the names of functions ----------------------------------------------------------------


def without_marks(source: str) -> str:
    """A program that says nothing of its operations."""
    return re.sub(r"perdure_op_(begin\(i\)|end\(\));", ";", source)


@pytest.mark.parametrize("mistake", ["none", "no-last-flush", "no-flush", "torn", "wrong-order"])
def test_functions_find_what_marks_in_the_program_find(
    mistake: str, command: Command, built_apart: Built
) -> None:
    found = []
    for change, options in ((str, ()), (without_marks, ("--operations", "push"))):
        program = built_apart("pushes", change, "-fno-inline")
        dump = ("--dump", f"{program} {POOL} dump")
        then = ("--then", program, POOL, "recover")
        words = (program, POOL, "5", mistake, *then)
        status, report = check(command, (*dump, *options), *words)
        assert report["uncut"]["operations"] == 5
        assert status == (mistake != "none")
        found.append(blamed(report))
    assert found[0] == found[1]


def test_a_program_without_marks_needs_the_names(command: Command, built_apart: Built) -> None:
    program = built_apart("pushes", without_marks, "-fno-inline")
    dump = ("--dump", f"{program} {POOL} dump")
    words = (program, POOL, "5", "no-last-flush", "--then", program, POOL, "recover")
    status, report = check(command, dump, *words)
    assert (status, report["uncut"]["operations"]) == (0, 0)
    status, report = check(command, (*dump, "--operations", "recover,pus?"), *words)
    assert (status, report["uncut"]["operations"]) == (1, 6)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pusch", "has no such function; the nearest are 'push'"),
        ("push,nothing_like_it", "--operations nothing_like_it"),
        ("push,", "names no function"),
    ],
)
def test_a_function_that_there_is_not_is_refused(
    name: str, said: str, command: Command, built_apart: Built
) -> None:
    program = built_apart("pushes", str, "-fno-inline")
    words = (program, POOL, "5", "--then", program, POOL, "recover")
    ended = command("check", "--operations", name, "--", *map(str, words))
    assert ended.status == 2
    assert said in ended.stderr
    stripped = built_apart("pushes", str, "-s")
    ended = command("check", "--operations", "push", "--", stripped, POOL, "5")
    assert ended.status == 2
    assert "has no symbols" in ended.stderr


LEAVES = """
#include <setjmp.h>
static jmp_buf out;
__attribute__((noinline)) void leave(uint64_t key) { push(key); longjmp(out, 1); }
"""


def leaving(source: str) -> str:
    """A program that leaves an operation by a long jump."""
    source = source.replace("static void recover(", LEAVES + "static void recover(", 1)
    return source.replace("push(3 * i + 1);", "if (setjmp(out) == 0) { leave(3 * i + 1); }")


def test_a_function_that_never_returns_is_an_operation_that_never_ends(
    command: Command, built_apart: Built
) -> None:
    program = built_apart("pushes", lambda source: leaving(without_marks(source)), "-fno-inline")
    for operations, said in (("3", "has ended"), ("1", "has not ended when the program ends")):
        words = (program, POOL, operations, "none", "--then", program, POOL, "recover")
        ended = command("check", "--operations", "leave", "--", *map(str, words))
        assert ended.status == 2
        assert said in ended.stderr
        assert "a function that is not left by returning" in ended.stderr


# ---- Of several threads -----------------------------------------------------------------------

BUCKETS = PROGRAMS / "guests/buckets"
OVERLAP = "the recovered pool is not what any order of the operations leads to"
LIMITS = ("--no-nested", "--states", "2500")


def of_threads(
    command: Command, mistake: str, *options: str, operations: int = 48
) -> tuple[int, Any]:
    """A check of the table with a lock for each bucket."""
    dump = ("--dump", f"{BUCKETS} {POOL} dump")
    return check(command, (*LIMITS, *dump, *options), BUCKETS, POOL, str(operations), mistake)


@pytest.mark.parametrize("what", ["none", "outlasts"])
def test_correct_threads_are_not_accused_and_their_orders_are_compared(
    what: str, command: Command
) -> None:
    status, report = of_threads(command, what)
    assert (status, report["bugs"]) == (0, [])
    assert report["points"]["by_orders"] > 20
    assert report["points"]["not_compared"] == 0


def test_a_list_without_locks_is_not_accused(command: Command, tmp_path: Path) -> None:
    program = REPOSITORY / "workloads/check/list-lock-free.c"
    compiler = toolchain.installed()
    if compiler is None:
        pytest.skip("no C compiler for riscv64")
    flags = ("-g", "-D_GNU_SOURCE", f"-I{program.parent}")
    built = compiler.build(program, tmp_path / "list-lock-free", flags)
    dump = ("--dump", f"{built} {POOL} --dump")
    words = (built, POOL, "--operations", "40")
    status, report = check(command, (*LIMITS, *dump), *words)
    assert (status, report["bugs"]) == (0, [])
    assert report["points"]["by_orders"] > 20


@pytest.mark.parametrize(
    ("mistake", "function"), [("late", "put"), ("unlocked", "put"), ("no-lock", None)]
)
def test_what_no_order_explains_is_found(
    mistake: str, function: str | None, command: Command
) -> None:
    status, report = of_threads(command, mistake, "--schedules", "8", "--states", "5000")
    assert status == 1
    symptoms = {symptom for bug in report["bugs"] for symptom in bug["symptoms"]}
    assert OVERLAP in symptoms
    lost = {store["place"]["function"] for bug in report["bugs"] for store in bug["lost"]}
    assert function is None or function in lost


@pytest.mark.parametrize("mistake", ["none", "no-lock"])
def test_threads_are_found_by_the_names_of_functions_too(mistake: str, command: Command) -> None:
    options = ("--operations", "put,add,copy", "--schedules", "4")
    status, report = of_threads(command, mistake, *options)
    assert status == (mistake != "none")
    assert report["uncut"]["operations"] == 48
    assert report["points"]["by_orders"] > 20


def test_operations_that_wait_for_each_other_are_not_compared(command: Command) -> None:
    status, report = of_threads(command, "meet")
    assert (status, report["bugs"]) == (0, [])
    assert report["points"]["not_compared"] > 0
    assert any("a thread waits for another one" in notice for notice in report["notices"])


def test_orders_do_not_depend_on_the_number_of_host_threads(command: Command) -> None:
    reports = []
    for jobs in ("1", "3"):
        _, report = of_threads(command, "unlocked", "--jobs", jobs, operations=9)
        del report["host"]
        reports.append(report)
    assert reports[0] == reports[1]


# ---- As a whole -------------------------------------------------------------------------------

WHOLE = PROGRAMS / "guests/whole"


@pytest.mark.parametrize(
    ("mistake", "place"),
    [
        ("none", None),
        ("in-place", None),
        ("number-first", None),
        ("not-again", None),
        ("over-first", "recovery"),
    ],
)
def test_bytes_that_change_as_a_whole(mistake: str, place: str | None, command: Command) -> None:
    words = (WHOLE, POOL, "4", mistake, "--then", WHOLE, POOL, "recover")
    status, report = check(command, (), *words)
    if mistake == "none":
        assert (status, report["bugs"], report["states"]["wrong"]) == (0, [], 0)
        return
    assert status == 1
    torn = [bug for bug in report["bugs"] if "192 bytes at x+0x40" in bug["detail"]]
    assert torn
    assert {bug["symptom"] for bug in torn} == {"bytes that change as a whole have not"}
    assert place in {bug["point"]["in_recovery"] for bug in torn}


# ---- As a function of C -----------------------------------------------------------------------

INVARIANT = """
#include <stdint.h>
#include <stdio.h>
#include "perdure_invariant.h"

struct pool { uint64_t magic, head; char mistake[48]; };

int invariant(const struct perdure_pool *pools, size_t count)
{
    const struct perdure_pool *found = perdure_pool_named(pools, count, "x");
    if (found == NULL) {
        return 0;
    }
    const uint64_t head = ((const struct pool *)found->start)->head;
    if (MISTAKE) {
        printf("the head is %d\\n", (int)head);
        return 5;
    }
    return 0;
}
"""


def of_invariant(command: Command, folder: Path, text: str, *words: str) -> Any:
    """A check by an invariant, of the list."""
    file = folder / "holds.c"
    file.write_text(text)
    program = PROGRAMS / "guests/pushes"
    line = ("--", program, POOL, *words, "--then", program, POOL, "recover")
    return command("check", "--invariant", str(file), "--json", "-", *line)


def test_an_invariant_is_asked_of_what_recovery_leaves(command: Command, tmp_path: Path) -> None:
    ended = of_invariant(command, tmp_path, INVARIANT.replace("MISTAKE", "head > 4"), "4")
    assert ended.status == 0, ended.stderr
    # Of four pushes the head is 3 at some time, and not in the end.
    ended = of_invariant(command, tmp_path, INVARIANT.replace("MISTAKE", "head == 3"), "4")
    assert ended.status == 1, ended.stderr
    bugs = json.loads(ended.stdout)["bugs"]
    assert {bug["symptom"] for bug in bugs} == {"the invariant does not hold of the recovered pool"}
    assert {line for bug in bugs for line in bug["detail"]} == {"the head is 3"}
    again = command("replay", bugs[0]["token"])
    assert again.status == 1 and "the invariant does not hold" in again.stdout, again.stderr


POINTER = """
#include <stdint.h>
#include "perdure_invariant.h"

struct pool { uint64_t magic; char other[56]; };

int invariant(const struct perdure_pool *pools, size_t count)
{
    return count == 1 && pools[0].start == (const void *)0x1000000000 ? 0 : 1;
}
"""


def test_pools_lie_where_the_program_has_mapped_them(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "where.c"
    file.write_text(POINTER)
    program = REPOSITORY / "workloads/check/list.c"
    compiler = toolchain.installed()
    if compiler is None:
        pytest.skip("no C compiler for riscv64")
    flags = ("-g", "-D_GNU_SOURCE", f"-I{program.parent}")
    built = compiler.build(program, tmp_path / "list", flags)
    line = ("--", built, POOL, "--operations", "3", "--then", built, POOL, "--recover")
    options = ("--invariant", str(file), "--states", "200", "--no-nested")
    ended = command("check", *options, *line)
    assert ended.status == 0, ended.stdout + ended.stderr


PARTS = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int made(const char *path, long bytes)
{
    const int file = open(path, O_RDWR | O_CREAT, 0644);
    ftruncate(file, bytes);
    fsync(file);
    return file;
}

int main(int count, char **words)
{
    if (count < 3) {
        return 0; /* recovers */
    }
    const long bytes = atol(words[1]), first = atol(words[2]);
    const int never_mapped = made("/pmem/0", 1);
    const int file = made("/pmem/a", bytes), other = made("/pmem/b@1", bytes);
    long *volatile *target = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, first);
    volatile long *cell = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, first);
    write(never_mapped, "", 1);
    cell[1] = 7;
    fsync(other);
    *target = (long *)&cell[1];
    fsync(file);
    cell[1] = 8;
    fsync(other);
    return 0;
}
"""
FOLLOWED = """
#include <stdio.h>
#include "perdure_invariant.h"

int invariant(const struct perdure_pool *pools, size_t count)
{
    const struct perdure_pool *pool = perdure_pool_named(pools, count, "a");
    const struct perdure_pool *other = perdure_pool_named(pools, count, "b@1");
    if (pool == NULL || other == NULL) {
        return 0;
    }
    const long *const *target = (const void *)((const char *)pool->start + FIRST);
    const long *cell = (const void *)((const char *)other->start + FIRST);
    if (*target == NULL) {
        return 0;
    }
    printf("it leads to %ld", **target);
    return *target != &cell[1] || other->first > FIRST || other->bytes < FIRST + 4096 || MISTAKE;
}
"""


@pytest.mark.parametrize(
    ("size", "first"), [(8192, 0), (12288, 4096), (2**30, 0), (2**30 + 2**24, 2**30)]
)
def test_of_a_pool_of_which_a_part_was_mapped_that_part_is_where_it_was(
    size: int, first: int, command: Command, tmp_path: Path
) -> None:
    compiler = toolchain.installed()
    if compiler is None:
        pytest.skip("no C compiler for riscv64")
    source = tmp_path / "parts.c"
    source.write_text(PARTS)
    program = compiler.build(source, tmp_path / "parts", ("-g", "-O1", "-D_GNU_SOURCE"))
    file = tmp_path / "followed.c"
    line = ("--", program, str(size), str(first), "--then", program, "recover")
    for mistake, status in (("0", 0), ("**target != 8", 1)):
        file.write_text(FOLLOWED.replace("FIRST", str(first)).replace("MISTAKE", mistake))
        ended = command("check", "--invariant", str(file), "--json", "-", *line)
        assert ended.status == status, ended.stderr
        report = json.loads(ended.stdout)
        part = f"only the bytes {first} to {first + 4096} of /pmem/b@1 are mapped"
        assert any(part in notice for notice in report["notices"])
        said = {detail for bug in report["bugs"] for detail in bug["detail"]}
        assert said == ({"it leads to 7"} if status else set())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (INVARIANT, "MISTAKE"),
        ("int nothing;", "undefined"),
        (INVARIANT.replace("MISTAKE", "1"), "fails on the pool that the program leaves"),
    ],
)
def test_an_invariant_that_cannot_be_asked_is_refused(
    text: str, said: str, command: Command, tmp_path: Path
) -> None:
    ended = of_invariant(command, tmp_path, text, "4")
    assert ended.status == 2
    assert said in ended.stderr


def test_an_invariant_stands_for_a_checker(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "holds.c"
    file.write_text(INVARIANT)
    program = PROGRAMS / "guests/pushes"
    for options, said in (
        (("--invariant", str(file), "--check", f"{program} {POOL} recover"), "give one of them"),
        (("--invariant", str(tmp_path / "none.c")), "there is no such file"),
    ):
        ended = command("check", *options, "--", program, POOL, "4")
        assert ended.status == 2
        assert said in ended.stderr

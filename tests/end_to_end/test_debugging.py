"""`perdure debug` under the real gdb: forward, back, and across power cuts.

Always true here: gdb runs a script and ends; what it printed is looked at, and the machine's own
word for a place (a digest of its whole state) says whether two places are the same one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Command, Ended
from debugged import SOURCE, THREADS, build

CONTENDED = r"""
#include <pthread.h>
#define LOCK pthread_mutex_lock(&lock)
#define UNLOCK pthread_mutex_unlock(&lock)
long shared;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void *run(void *given) {
    for (int i = 0; i < 300; i++) { LOCK; shared++; UNLOCK; }
    return given;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""
"""Four threads that all are in the same line, which gdb steps by breakpoints."""

POOL = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { long first; char apart[56]; long second; } *pool;
__attribute__((noinline)) void done(void) { asm volatile("" ::: "memory"); }
int main(void) {
    int file = open("/pmem/pool", O_RDWR | O_CREAT, 0666);
    if (ftruncate(file, 4096) != 0)
        return 1;
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pool->first != 0) {
        printf("again %ld %ld\n", pool->first, pool->second);
        return 0;
    }
    pool->second = 0;
    if (fsync(file) != 0)
        return 1;
    pool->second = 7;
    pool->first = 42;
    asm volatile(".insn i 0x0f, 2, x0, %0, 1" ::"r"(&pool->first) : "memory");
    asm volatile("fence rw, rw" ::: "memory");
    done();
    return 0;
}
"""
"""Cleans the first line (`cbo.clean`) and not the second."""

STORES = r"""
long word;
__attribute__((noinline)) void store(void) {
    asm volatile("li t1, 1\n\tli t2, 2\n\tli t3, 3\n\t"
                 "sd t1, 0(%0)\n\tsd t2, 0(%0)\n\tsd t3, 0(%0)\n\tnop\n\tnop"
                 ::"r"(&word) : "t1", "t2", "t3", "memory");
}
int main(void) {
    store();
    return 0;
}
"""
"""Three stores to one word, one right behind the other."""

PIPES = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
char own[8], others[8];
int first[2], second[2];
void *wait_for_bytes(void *given) {
    return (void *)read(second[0], others, 8);
}
int main(void) {
    if (pipe(first) != 0 || pipe(second) != 0 || write(first[1], "abcdefgh", 8) != 8)
        return 1;
    if (read(first[0], own, 4) != 4)
        return 1;
    own[7] = 'x'; /* here */
    pthread_t thread;
    pthread_create(&thread, 0, wait_for_bytes, 0);
    for (volatile int i = 0; i < 20000; i++)
        ;
    if (write(second[1], "12345678", 8) != 8)
        return 1;
    pthread_join(thread, 0);
    return 0;
}
"""
"""Has its bytes written by the kernel: at once, and for a thread that has waited for them."""


@pytest.fixture
def gdb(command: Command, tmp_path: Path) -> Callable[..., Ended]:
    """Debugs with a script of gdb's; `stdout` has all that was printed."""

    def run(script: str, *words: str | Path, of: str = "debug") -> Ended:
        file = tmp_path / "script.gdb"
        file.write_text(script)
        ended = command(of, "--script", file, *words)
        # What the machine tells through gdb is on its standard error.
        return Ended(ended.status, ended.stdout + ended.stderr, ended.stderr)

    return run


def hashes(text: str) -> list[str]:
    """The digests of the machine's state that a session printed."""
    return re.findall(r"^[0-9a-f]{16,64}$", text, re.MULTILINE)


def test_breakpoints_steps_and_watch_points_go_both_ways(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """A watch point forward and backward meets the same store; a step and its reverse cancel."""
    script = """
break work
continue
watch counter
continue
continue
perdure hash
print counter
reverse-stepi
stepi
perdure hash
reverse-continue
print counter
reverse-continue
print counter
delete
reverse-continue
"""
    ended = gdb(script, "--", build(SOURCE, tmp_path), "1000")
    out = ended.stdout
    assert "Breakpoint 1, work (n=" in out, out
    assert re.findall(r"\$\d+ = (\d+)", out) == ["2", "1", "0"], out
    assert "Old value = 0\nNew value = 1" in out and "Old value = 2\nNew value = 1" in out
    first, second = hashes(out)
    assert first == second
    assert "nothing is before this" in out
    assert "/* here */" in out


def changes(text: str) -> list[tuple[int, int]]:
    """The old and the new value of each stop at a watch point."""
    found = re.findall(r"^Old value = (\d+)\nNew value = (\d+)$", text, re.MULTILINE)
    return [(int(old), int(new)) for old, new in found]


@pytest.mark.parametrize("ways", ["continue", "stepi"])
def test_no_store_to_a_watched_word_is_passed(
    gdb: Callable[..., Ended], tmp_path: Path, ways: str
) -> None:
    """Each of three stores is met both ways, right behind it and right before it."""
    script = f"""
break store
continue
watch word
continue
echo <here>\\n
perdure hash
print $pc
{ways}
print $pc
{ways}
print $pc
reverse-{ways}
print $pc
reverse-{ways}
print $pc
perdure hash
perdure wrote word
reverse-{ways}
print $pc
"""
    ended = gdb(script, "--", build(STORES, tmp_path))
    out = ended.stdout
    there, back = [(0, 1), (1, 2), (2, 3)], [(3, 2), (2, 1), (1, 0)]
    assert changes(out) == there + back, out
    places = [
        int(at, 16) for at in re.findall(r"^\$\d+ = .*(0x[0-9a-f]+) <store", out, re.MULTILINE)
    ]
    second = places[0]
    assert [at - second for at in places] == [0, 4, 8, 4, 0, -4], out
    first, again = hashes(out)
    assert first == again
    assert f"at {second - 4:#x} <store+" in out


def test_a_breakpoint_at_a_watched_store_is_met_as_well(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """Both ways; the store is met besides."""
    script = """
break store
continue
watch word
continue
eval "break *%lu", (long)$pc
continue
reverse-continue
continue
"""
    out = gdb(script, "--", build(STORES, tmp_path)).stdout
    assert changes(out) == [(0, 1), (1, 2), (2, 1), (1, 2)], out
    assert out.count("Breakpoint 3, 0x") == 1, out


def test_harts_that_store_to_one_word_are_met_both_ways(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """Every change of a word that two threads change: backward, the same as forward."""
    there, back = "continue\n" * 20, "reverse-continue\n" * 20
    script = f"watch shared\n{there}{back}"
    out = gdb(script, "--harts", "3", "--", build(THREADS, tmp_path)).stdout
    met = changes(out)
    assert len(met) == 40, out
    assert all(new == old for (_, new), (old, _) in pairwise(met)), out
    assert all(new - old in (1, 2) for old, new in met[:20]), out
    assert met[20:] == [(new, old) for old, new in reversed(met[:20])], out


def test_steps_of_one_thread_among_others_that_contend(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """A thread is stepped over a breakpoint alone; gdb is told of no other one's stop."""
    script = "break run\ncontinue\ndelete\nnext\nnext\nnext\nprint 40 + 2\n"
    out = gdb(script, "--harts", "4", "--", build(CONTENDED, tmp_path)).stdout
    assert "internal-error" not in out and "= 42" in out, out


def test_a_breakpoint_that_others_pass_is_told(gdb: Callable[..., Ended], tmp_path: Path) -> None:
    """Where gdb lets one thread go on, the others run as ever: where the first was is said."""
    many = ("--harts", "3", "--", build(THREADS, tmp_path))
    alone = "thread 1\nset scheduler-locking on\ncontinue\nprint shared\n"
    out = gdb(f"break bump\ncontinue\n{alone}", *many).stdout
    found = re.findall(r"thread [23] has passed the breakpoint at 0x.* goto (\d+) goes there", out)
    assert len(found) == 1 and "$1 = 150" in out, out
    out = gdb(f"perdure goto {found[0]}\nbreak bump\ncontinue\n", *many).stdout
    assert "hit Breakpoint 1, bump" in out and "has passed" not in out, out


def test_the_session_is_killed_and_the_script_goes_on(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """The command `kill` ends the session, and nothing else."""
    ended = gdb("kill\necho still here\\n\n", "--", build(SOURCE, tmp_path))
    assert "[Inferior 1 (process 1) killed]\nstill here" in ended.stdout, ended.stdout
    assert ended.status == 0


def test_the_end_can_be_left_again_and_output_comes_once(
    gdb: Callable[..., Ended], command: Command, tmp_path: Path
) -> None:
    """The session stands before the exit first; the run is the one that `perdure run` makes."""
    program = build(SOURCE, tmp_path)
    plain = command("run", "--json", "run.json", "--", program, "1000")
    assert plain.status == 3
    script = """
continue
perdure where
reverse-stepi
continue
continue
"""
    ended = gdb(script, "--", program, "1000")
    out = ended.stdout
    assert out.count("begin\n") == 1 and out.count("sum ") == 1, out
    assert out.count("the program exits with status 3 next") == 2
    assert "exited with code 03" in out


def test_threads_of_several_harts(gdb: Callable[..., Ended], tmp_path: Path) -> None:
    """Each thread has its registers and its stack, and is stepped by itself."""
    script = """
break bump if shared > 20
continue
info threads
thread apply all print $sp
delete
finish
next
print shared
reverse-next
perdure harts
"""
    ended = gdb(script, "--harts", "3", "--", build(THREADS, tmp_path))
    out = ended.stdout
    assert re.search(r"hit Breakpoint 1, bump \(who=(who@entry=)?[12]\)", out), out
    assert "on hart" in out and "waits for a futex" in out
    stacks = re.findall(r"\$\d+ = \(void \*\) (0x[0-9a-f]+)", out)
    assert len(set(stacks)) == 3, out
    assert "hart 2: cycle" in out


def test_a_bookmark_remembers_its_thread(gdb: Callable[..., Ended], tmp_path: Path) -> None:
    """What is told there is what was told when it was made, though another thread was looked at."""
    script = """
break bump if shared > 20
continue
delete
perdure bookmark q
perdure goto start
perdure goto q
print who > 0
"""
    out = gdb(script, "--harts", "3", "--", build(THREADS, tmp_path)).stdout
    (made,) = re.findall(r"^bookmark q: (.*)$", out, re.MULTILINE)
    assert re.search(r": thread [23] on hart", made), out
    assert out.count(f"\n{made}\n") == 1, out
    assert "$1 = 1" in out, out


def test_a_cut_in_the_middle_and_the_life_after_it(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """After `cut` the program goes on from an epoch, and time still goes back before the cut."""
    script = """
break work
continue
watch counter
continue
continue
continue
print counter
perdure epochs
perdure bookmark now
perdure goto end
perdure bookmark late
perdure goto now
perdure cut
perdure bookmarks
print counter
perdure lives
delete
continue
reverse-stepi
watch counter
reverse-continue
reverse-continue
continue
"""
    program = build(SOURCE, tmp_path)
    ended = gdb(script, "--set", "epoch.instructions=2000", "--", program, "20000")
    out = ended.stdout
    assert "the power fails at cycle" in out and "goes back to the end of epoch" in out, out
    assert "ended by a power cut" in out and "life 2" in out
    assert "the bookmark late is forgotten: it was later than the cut" in out
    assert re.search(r"^now: life 1, ", out, re.MULTILINE) and "\nlate: " not in out, out
    assert "the program exits with status 3 next" in out
    assert out.count("begin\n") == 1 and out.count("sum ") == 1


def test_a_cut_before_its_life_begins_is_refused(gdb: Callable[..., Ended], tmp_path: Path) -> None:
    """By the command and by the option, with the life's first cycle; the past is still there."""
    program = build(SOURCE, tmp_path)
    few = ("--set", "epoch.instructions=2000")
    script = """
perdure goto 600000
perdure cut
perdure cut 5
perdure lives
"""
    out = gdb(script, *few, "--", program, "200000").stdout
    found = re.search(r"cut 5: life 2 begins at cycle (\d+)", out)
    assert found is not None and int(found[1]) > 5, out
    assert "cut at cycle 5\n" not in out and "not lived to its end yet" in out
    script = """
continue
continue
perdure where
reverse-stepi
perdure cut
perdure where
"""
    out = gdb(script, *few, "--cut", "600000", "--cut", "5", "--", program, "200000").stdout
    refused = r"the cut at cycle 5 was to end life 2, which begins at cycle \d{4,}, after the cut"
    assert re.search(refused, out) and "life 1, " in out and "life 2, " in out, out


def test_what_would_survive_and_who_wrote_it(gdb: Callable[..., Ended], tmp_path: Path) -> None:
    """A line that was cleaned survives, its neighbour does not, and the program starts again."""
    (tmp_path / "pools").mkdir()
    script = """
break done
continue
perdure durable pool->first
perdure durable &pool->second
eval "monitor wrote %lu:8", &pool->first
perdure wrote pool->second
perdure cut
continue
continue
"""
    pools = ("--machine", "x86-pm", "--design", "ideal", "--pmem", tmp_path / "pools")
    ended = gdb(script, *pools, "--", build(POOL, tmp_path))
    out = ended.stdout
    assert "every byte would come back as the program sees it" in out, out
    assert "one byte would be another" in out
    assert "it was durable at cycle" in out and "it is not durable yet" in out
    assert re.search(r"main\+\d+> program.c:2\d", out), out
    assert "again 42 0" in out


def test_watch_points_meet_what_the_kernel_writes(
    gdb: Callable[..., Ended], tmp_path: Path
) -> None:
    """Forward, for a thread that has waited, and backward; and `wrote` tells it from a store."""
    script = """
watch *(long *)own
continue
perdure wrote own
continue
perdure wrote own
delete
watch *(long *)others
continue
perdure wrote others
reverse-continue
perdure wrote others
"""
    ended = gdb(script, "--design", "picl", "--", build(PIPES, tmp_path))
    out = ended.stdout
    values = [int(value) for value in re.findall(r"^New value = (\d+)$", out, re.MULTILINE)]
    read = int.from_bytes(b"abcd", "little")
    stored = int.from_bytes(b"abcd\0\0\0x", "little")
    assert values == [read, stored, int.from_bytes(b"12345678", "little"), 0], out
    assert re.findall(r"written last by (.*) on hart 0, at \S+ <(\w+)\+", out) == [
        ("the kernel for thread 1", "read"),
        ("thread 1", "main"),
        ("the kernel for thread 2", "read"),
    ], out
    assert "nobody has changed anything there" in out


def test_a_token_is_debugged_where_the_power_fails(
    gdb: Callable[..., Ended], command: Command, tmp_path: Path
) -> None:
    """The session of a token begins at its cut, with the past behind it and the next life ahead."""
    program = build(SOURCE, tmp_path)
    words = ("--at", "60000", "--json", "cut.json", "--", program, "20000")
    assert command("cut", *words).status == 0
    folder = Path(program).parent
    (result,) = json.loads((folder / "cut.json").read_text())["results"]
    script = """
perdure where
perdure lives
reverse-stepi
continue
perdure hash
stepi
perdure where
reverse-stepi
perdure hash
"""
    ended = gdb(script, result["token"], of="replay")
    out = ended.stdout
    assert "to be cut at cycle 60000" in out or "ended by a power cut at cycle 60000" in out, out
    assert "SIGPWR" in out and "life 2, " in out
    first, second = hashes(out)
    assert first == second


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--listen", "nowhere"), "write HOST:PORT"),
        (("--gdb-program", "no-such-gdb", "--gdb"), "no such command"),
        (("--gdb-argument=-batch",), "give --gdb, too"),
        (("--script", "no-such-script"), "no such file"),
        (("--restart",), "name their folder, as in --pmem DIR"),
    ],
)
def test_what_cannot_be_is_one_message(
    command: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """Exit status 2, and what to do."""
    ended = command("debug", *words, "--", build(SOURCE, tmp_path))
    assert ended.status == 2 and message in ended.stderr and ended.stderr.count("\n") == 1

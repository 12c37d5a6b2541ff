"""What a guest can make grow has a limit, and the simulator's memory a bound.

Always true here: each command runs in a process of its own, whose peak memory is what the kernel of
this host says it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.api import Json

MIB = 1 << 20
TIMEOUT_SECONDS = 120
PERDURE = Path(sys.executable).with_name("perdure")
SMALL = (
    *("--set", "nvm.bytes=256MiB"),
    *("--set", "picl.log_limit_bytes=32MiB"),
    *("--set", "picl.log_extent_bytes=4MiB"),
)
PRELUDE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
"""


@dataclass(frozen=True)
class Ended:
    """What a command left behind, and the most memory that it had."""

    status: int
    stdout: str
    stderr: str
    peak_bytes: int
    result: Json


@pytest.fixture
def guest(tmp_path: Path, compiled: Callable[[str], Path]) -> Callable[..., Ended]:
    """Runs a guest that is written out in a test, on a small machine, by a command."""

    def call(source: str, *words: str, arguments: tuple[str, ...] = ()) -> Ended:
        program = compiled(PRELUDE + source)
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        command, *more = words or ("run",)
        line = [PERDURE, command, *SMALL, *more, "--json", tmp_path / "result.json"]
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            child = subprocess.Popen(
                [str(word) for word in (*line, "--", program, *arguments)],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        errors = (tmp_path / "err").read_text()
        assert "Traceback" not in errors, errors
        assert child.returncode != 2, errors
        return Ended(
            child.returncode,
            (tmp_path / "out").read_text(),
            errors,
            usage.ru_maxrss * 1024,
            json.loads((tmp_path / "result.json").read_text()),
        )

    return call


def test_a_file_of_a_tebibyte_takes_what_was_written(
    guest: Callable[..., Ended], tmp_path: Path
) -> None:
    source = r"""
    int main(void) {
        int file = open("huge", O_RDWR | O_CREAT, 0644);
        if (ftruncate(file, 1L << 40) || pwrite(file, "end", 3, (1L << 40) - 3) != 3) return 1;
        fsync(file);
        char found[4] = "";
        pread(file, found, 3, (1L << 40) - 3);
        puts(found);
        if (ftruncate(file, 1L << 50) == 0 || errno != EFBIG) return 2;
        return 0;
    }
    """
    kept = tmp_path / "kept"
    ended = guest(source, "run", "--files", str(kept))
    assert (ended.status, ended.stdout) == (0, "end\n"), ended.stderr
    assert ended.peak_bytes < 600 * MIB
    huge = (kept / "work/huge").stat()
    assert huge.st_size == 1 << 40
    assert huge.st_blocks * 512 < MIB
    ended = guest(
        source, "cut", "--cuts", "5", "--resume", "all", "--set", "epoch.instructions=2e4"
    )
    assert (ended.result["verified"], ended.result["resumed"]) == (5, 5)
    assert ended.peak_bytes < 600 * MIB


def test_output_is_spilled_and_has_a_limit(guest: Callable[..., Ended]) -> None:
    source = r"""
    static char page[1 << 16];
    int main(void) {
        memset(page, 'x', sizeof page);
        page[sizeof page - 1] = '\n';
        long total = 0, count;
        while ((count = write(1, page, sizeof page)) > 0) total += count;
        fprintf(stderr, "%ld %s\n", total, strerrorname_np(errno));
        return 0;
    }
    """
    limit = ("--set", f"kernel.host_limit_bytes={40 * MIB}")
    ended = guest(source, "run", *limit)
    assert ended.status == 0
    # Standard error is on the full disk, too.
    assert len(ended.stdout) == 40 * MIB
    assert ended.peak_bytes < 600 * MIB
    small = ("--set", "kernel.output_memory_bytes=1MiB")
    ended = guest(source, "cut", "--cuts", "5", "--resume", "all", *limit, *small)
    assert (ended.result["verified"], ended.result["resumed"]) == (5, 5)
    assert ended.peak_bytes < 600 * MIB


def test_long_calls_are_done_in_steps_that_a_signal_comes_between(
    guest: Callable[..., Ended],
) -> None:
    source = r"""
    static volatile int beats;
    static void beat(int signal) { (void)signal, beats++; }
    int main(void) {
        size_t length = 6 << 20;
        char *bytes = mmap(0, 64 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *back = mmap(0, 64 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; i < length; i += 8) *(size_t *)(bytes + i) = i * 2654435761u;
        int file = open("long", O_RDWR | O_CREAT, 0644), pipes[2];
        if (write(file, bytes, length) != (long)length) return 1;
        if (lseek(file, 0, 1) != (long)length) return 1;
        if (pwrite(file, bytes, length, 5) != (long)length) return 2;
        if (pread(file, back, length, 5) != (long)length) return 3;
        if (memcmp(bytes, back, length)) return 3;
        if (pread(file, back, 60 << 20, 1 << 20) != (long)(length + 5 - (1 << 20))) return 4;
        // A child takes what the parent writes in one call.
        pipe(pipes);
        if (!fork()) {
            close(pipes[1]);
            size_t got = 0;
            for (long n; (n = read(pipes[0], back + got, 1 << 20)) > 0;) got += n;
            _exit(got == length && !memcmp(back, bytes, length) ? 0 : 1);
        }
        close(pipes[0]);
        if (write(pipes[1], bytes, length) != (long)length) return 5;
        close(pipes[1]);
        int status;
        wait(&status);
        if (status) return 6;
        // A signal ends a long call with what is done, or it is not there to see.
        struct sigaction action = {.sa_handler = beat, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, 0);
        struct itimerval often = {{0, 300}, {0, 300}};
        setitimer(ITIMER_REAL, &often, 0);
        lseek(file, 0, 0);
        size_t got = 0;
        for (long n; (n = read(file, back + got, (60 << 20) - got)) > 0;) got += n;
        if (got != length + 5 || memcmp(back + 5, bytes, length)) return 7;
        puts(beats ? "in steps" : "at once");
        fflush(stdout);
        struct itimerval never = {};
        setitimer(ITIMER_REAL, &never, 0);
        return 0;
    }
    """
    ended = guest(source, "run", "--design", "ideal")
    assert (ended.status, ended.stdout) == (0, "in steps\n"), ended.stderr


SMALLEST = (
    *("--set", "nvm.bytes=64MiB"),
    *("--set", "picl.log_limit_bytes=16MiB"),
    *("--set", "picl.log_extent_bytes=1MiB"),
    *("--set", "epoch.instructions=2e5"),
)

# Each makes something until it is refused, says how many and why, lets go, and makes one again.
EXHAUSTED = {
    "processes": (
        "EAGAIN",
        r"""
        static int children[5000];
        static int make(long at) {
            children[at] = fork();
            if (children[at] == 0) { pause(); _exit(0); }
            return children[at] < 0 ? -1 : 0;
        }
        static void drop(long at) {
            kill(children[at], SIGKILL);
            waitpid(children[at], 0, 0);
        }
        """,
    ),
    "descriptors": (
        "EMFILE",
        r"""
        static int files[5000];
        static int make(long at) {
            files[at] = open("/dev/null", O_RDONLY);
            return files[at] < 0 ? -1 : 0;
        }
        static void drop(long at) { close(files[at]); }
        """,
    ),
    "mappings": (
        "ENOMEM",
        r"""
        static char *base;
        static int make(long at) {
            if (!base)
                base = mmap(0, 1L << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            return mprotect(base + (at << 13), 4096, PROT_READ);
        }
        static void drop(long at) { mprotect(base + (at << 13), 4096, PROT_NONE); }
        """,
    ),
    "page tables": (
        "EFAULT|ENOMEM",
        r"""
        static char *base;
        static int zeros;
        static int make(long at) {
            if (!base) {
                base = mmap(0, 1L << 40, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                zeros = open("/dev/zero", O_RDONLY);
            }
            /* A table for each page, which a call touches: it can say that it cannot. */
            return read(zeros, base + (at << 21), 1) == 1 ? 0 : -1;
        }
        static void drop(long at) { madvise(base + (at << 21), 4096, MADV_DONTNEED); }
        """,
    ),
    "files": (
        "ENOSPC|ENFILE",
        r"""
        static char name[300];
        static int make(long at) {
            sprintf(name, "%0240ld", at);
            int file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
            return file < 0 ? -1 : close(file);
        }
        static void drop(long at) {
            sprintf(name, "%0240ld", at);
            unlink(name);
        }
        """,
    ),
    "signals": (
        "EAGAIN",
        r"""
        static int make(long at) {
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGRTMIN);
            sigprocmask(SIG_BLOCK, &set, 0);
            return sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = at});
        }
        static void drop(long at) {
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGRTMIN);
            sigwaitinfo(&set, 0);
        }
        """,
    ),
    "epoll": (
        "EMFILE",
        r"""
        static int poller, file;
        static int make(long at) {
            if (!poller) { poller = epoll_create1(0); file = eventfd(0, 0); }
            int next = dup(file);
            struct epoll_event event = {.events = EPOLLIN};
            return next < 0 ? -1 : epoll_ctl(poller, EPOLL_CTL_ADD, next, &event);
        }
        static void drop(long at) {
            epoll_ctl(poller, EPOLL_CTL_DEL, file + 1 + at, 0);
            close(file + 1 + at);
        }
        """,
    ),
}

EXHAUSTING = r"""
int main(void) {
    const long limit = LIMIT;
    long made = 0;
    while (made < limit && make(made) == 0) made++;
    const char *error = made < limit ? strerrorname_np(errno) : "none";
    static char text[100];
    sprintf(text, "%ld %s\n", made, error);
    for (long at = made - 1; at >= 0; at--) drop(at);
    write(1, text, strlen(text));
    if (make(0)) return 3;
    drop(0);
    return 0;
}
"""


@pytest.mark.parametrize("what", EXHAUSTED)
def test_what_is_used_up_is_refused_as_on_linux_and_the_program_goes_on(
    guest: Callable[..., Ended], what: str
) -> None:
    errors, source = EXHAUSTED[what]
    most = {"mappings": 70_000, "processes": 5000, "descriptors": 5000}.get(what, 40_000)
    ended = guest(source + EXHAUSTING.replace("LIMIT", str(most)), "run", *SMALLEST)
    assert ended.status == 0, ended.stdout + ended.stderr
    made, error = ended.stdout.split()
    assert error in errors.split("|"), ended.stdout
    assert int(made) > 30
    assert ended.peak_bytes < 600 * MIB


def test_a_fork_bomb_ends_when_it_is_told_to(guest: Callable[..., Ended]) -> None:
    source = r"""
    int main(void) {
        int ends[2];
        pipe(ends);
        int first = getpid();
        /* Each child goes on forking, until nobody can. */
        for (;;) {
            int child = fork();
            if (child < 0) break;
            if (child > 0 && getpid() != first) continue;
        }
        const char *name = strerrorname_np(errno);
        if (getpid() != first) { close(ends[1]); close(ends[0]); pause(); }
        signal(SIGTERM, SIG_IGN);
        kill(0, SIGTERM);
        while (wait(0) > 0) continue;
        puts(name);
        int child = fork();
        if (child == 0) _exit(7);
        int status = 0;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status) == 7 ? 0 : 3;
    }
    """
    ended = guest(source, "run", *SMALLEST)
    assert (ended.status, ended.stdout) == (0, "EAGAIN\n"), ended.stderr
    assert ended.peak_bytes < 600 * MIB


def test_a_thread_bomb_is_refused(guest: Callable[..., Ended]) -> None:
    source = r"""
    #include <pthread.h>
    static void *rest(void *unused) { for (;;) pause(); }
    int main(void) {
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        pthread_t thread;
        long made = 0;
        int error = 0;
        while (made < 10000 && !(error = pthread_create(&thread, &small, rest, 0))) made++;
        printf("%s\n", made > 100 ? strerrorname_np(error) : "few");
        fflush(stdout);
        _exit(0);
    }
    """
    ended = guest(source, "run", *SMALLEST)
    assert (ended.status, ended.stdout) == (0, "EAGAIN\n"), ended.stderr


def test_the_room_is_the_same_after_a_cut(guest: Callable[..., Ended]) -> None:
    source = EXHAUSTED["processes"][1]
    program = source + EXHAUSTING.replace("LIMIT", "5000")
    ended = guest(program, "cut", "--cuts", "5", "--resume", "all", *SMALLEST)
    assert (ended.result["verified"], ended.result["resumed"]) == (5, 5), ended.stderr

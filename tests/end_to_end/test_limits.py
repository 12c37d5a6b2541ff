"""What a guest can make grow has a limit, and the simulator's memory a bound.

Always true here: each command runs in a process of its own, whose peak memory is what the kernel of
this host says it was.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Command

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
#include <sys/uio.h>
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


STARTER = """
import pathlib, resource, subprocess, sys
ended = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
pathlib.Path(sys.argv[1]).write_text(str(used.ru_maxrss))
sys.exit(ended)
"""
"""A small process between: what one has ever used counts what its parent had when it was made."""


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., Ended]:
    """Runs a program on a small machine by a command, in a folder of its own."""

    def call(program: Path, *words: str, arguments: tuple[str, ...] = ()) -> Ended:
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        command, *more = words or ("run",)
        line = [sys.executable, "-c", STARTER, tmp_path / "peak", PERDURE]
        line += [command, *SMALL, *more, "--json", tmp_path / "result.json"]
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            child = subprocess.run(
                [str(word) for word in (*line, "--", program, *arguments)],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False,
            )  # fmt: skip
        errors = (tmp_path / "err").read_text(errors="replace")
        assert "Traceback" not in errors and "panicked" not in errors, errors
        assert child.returncode != 2, errors
        return Ended(
            child.returncode,
            (tmp_path / "out").read_text(errors="replace"),
            errors,
            int((tmp_path / "peak").read_text()) * 1024,
            json.loads((tmp_path / "result.json").read_text()),
        )

    return call


@pytest.fixture
def guest(measured: Callable[..., Ended], compiled: Callable[[str], Path]) -> Callable[..., Ended]:
    """Runs a guest that is written out in a test."""

    def call(source: str, *words: str, arguments: tuple[str, ...] = ()) -> Ended:
        return measured(compiled(PRELUDE + source), *words, arguments=arguments)

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


def test_limits_of_memory_processes_signals_and_time_are_linux_s(
    command: Command, programs: Path
) -> None:
    # A second of processor time is two million instructions.
    ended = command("run", "--set", "core.frequency_mhz=2", "--", programs / "guests/limits")
    assert ended.status == 0, ended.stderr
    expected = Path(__file__).parents[1] / "guests/expected/limits.txt"
    assert ended.stdout == expected.read_text()


def test_limits_come_back_after_a_cut(command: Command, programs: Path) -> None:
    ended = command(
        "cut", "--cuts", "6", "--resume", "all",
        "--set", "core.frequency_mhz=2", "--set", "epoch.instructions=2e5",
        "--", programs / "guests/limits",
    )  # fmt: skip
    assert ended.status == 0, ended.stdout + ended.stderr


STORM_BYTES = 256 * MIB
"""What the host may need for a storm of system calls on a machine of 64 MiB."""

STORMS = [(17, "ideal", 1), (50, "picl", 2), (21, "picl", 3), (None, "ideal", 2), (None, "picl", 1)]


@pytest.mark.parametrize(("seed", "design", "harts"), STORMS)
def test_a_storm_of_system_calls_harms_nobody(
    measured: Callable[..., Ended],
    programs: Path,
    tmp_path: Path,
    seed: int | None,
    design: str,
    harts: int,
) -> None:
    """Every call with every kind of argument, from as many processes as there can be."""
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"storm {seed} under {design} on {harts} harts")
    work = tmp_path / "work"
    work.mkdir()
    (work / "host").write_text("the host's own\n")
    ended = measured(
        programs / "guests/storm", "run", *SMALLEST, "--design", design,
        "--harts", str(harts), "--stop-after", "25000000", arguments=(str(seed), "20"),
    )  # fmt: skip
    # It ends by itself, is stopped, or is hit by a signal of its own making.
    signals = range(129, 193)
    assert ended.status == 0 or ended.status in signals, (seed, ended.status, ended.stderr)
    assert ended.peak_bytes < STORM_BYTES, (seed, ended.peak_bytes)
    assert ended.result["sim"]["instructions"] < 26_000_000
    found = {path.name: path.read_text() for path in work.iterdir()}
    assert found == {"host": "the host's own\n"}, seed


def test_a_storm_goes_on_after_a_cut(measured: Callable[..., Ended], programs: Path) -> None:
    fresh = random.SystemRandom().randrange(1 << 32)
    for seed, rounds in ((3, "3"), (333961533, "2"), (fresh, "2")):  # the second: FIFO for nothing
        print(f"storm {seed}")
        ended = measured(
            programs / "guests/storm", "cut", "--cuts", "4", "--resume", "all", *SMALLEST,
            arguments=(str(seed), rounds),
        )  # fmt: skip
        # Promises are kept, whatever the storm does with its own memory.
        assert (ended.status, ended.result["failed"]) == (0, 0), (seed, ended.stdout)
        assert ended.peak_bytes < 2 * STORM_BYTES, (seed, ended.peak_bytes)


def test_a_log_that_gets_full_ends_epochs_early(guest: Callable[..., Ended]) -> None:
    source = r"""
    static char bytes[24 << 20];
    int main(void) {
        long sum = 0;
        for (int round = 0; round < 3; round++)
            for (long at = 0; at < (long)sizeof bytes; at += 64) sum += bytes[at] += at >> 6;
        printf("%ld\n", sum);
        return 0;
    }
    """
    small = ("--set", "picl.log_limit_bytes=8MiB", "--set", "picl.log_extent_bytes=1MiB")
    ended = guest(source, "run", *small)
    assert ended.status == 0, ended.stderr
    statistics = ended.result["statistics"]
    assert statistics["epoch.overflowed"]["value"] > 3
    assert statistics["picl.log_live_peak"]["value"] <= 8 * MIB
    ended = guest(source, "cut", "--cuts", "5", "--resume", "all", *small)
    assert (ended.result["verified"], ended.result["resumed"]) == (5, 5)


def test_names_have_paths_of_bounded_length(guest: Callable[..., Ended], tmp_path: Path) -> None:
    """However deep a tree is, all that is done with it takes time in proportion."""
    source = r"""
    static const char *name(void) { return errno ? strerrorname_np(errno) : "none"; }
    int main(void) {
        long depth = 0;
        while (mkdir("d", 0755) == 0 && chdir("d") == 0) depth++;
        printf("%ld %s\n", depth, name());
        errno = 0;
        printf("%d", open("f", O_CREAT | O_WRONLY, 0644));
        printf(" %s\n", name());
        static char path[5000];
        printf("%d\n", getcwd(path, sizeof path) && strlen(path) > 4000);
        chdir("/work");
        /* What is long already does not get longer by being moved. */
        mkdir("other", 0755);
        errno = 0;
        rename("d", "other/d");
        printf("%s\n", name());
        errno = 0;
        rename("d", "e");
        printf("%s\n", name());
        memset(path, 'n', 4096);
        path[255] = 0;
        printf("%d\n", mkdir(path, 0755));
        path[255] = 'n', path[256] = 0, errno = 0;
        mkdir(path, 0755);
        printf("%s\n", name());
        for (int at = 0; at < 4096; at++) path[at] = at % 2 ? '/' : '.';
        path[4095] = 0, errno = 0;
        printf("%d\n", access(path, F_OK));
        path[4095] = '/', path[4096] = 0, errno = 0;
        access(path, F_OK);
        printf("%s\n", name());
        fsync(open("last", O_CREAT | O_WRONLY, 0644));
        /* And gone. */
        chdir("e");
        for (long at = 1; at < depth; at++) chdir("d");
        for (long at = 1; at < depth; at++) {
            chdir("..");
            if (rmdir("d")) return 1;
        }
        chdir("/work");
        return rmdir("e") ? 2 : 0;
    }
    """
    ended = guest(source, "run", "--files", str(tmp_path / "kept"))
    assert ended.status == 0, ended.stdout + ended.stderr
    assert ended.stdout.split("\n")[:-1] == [
        "2045 ENAMETOOLONG", "-1 ENAMETOOLONG", "1", "ENAMETOOLONG", "none", "0", "ENAMETOOLONG",
        "0", "ENAMETOOLONG",
    ]  # fmt: skip
    assert ended.peak_bytes < 600 * MIB


def test_tables_that_are_everybody_s_are_full_some_time(guest: Callable[..., Ended]) -> None:
    source = r"""
    int main(void) {
        struct rlimit most = {4096, 4096};
        setrlimit(RLIMIT_NOFILE, &most);
        int ends[2];
        pipe(ends);
        long made = 0;
        /* Each has as many descriptors as it may, until there are no files left. */
        for (;;) {
            int child = fork();
            if (child != 0) { waitpid(child, 0, WUNTRACED); if (kill(child, 0)) break; }
            else {
                while (open("/dev/null", O_RDONLY) >= 0) made++;
                if (errno != EMFILE) {
                    dprintf(1, "%s\n", strerrorname_np(errno));
                    kill(0, SIGKILL);
                }
                raise(SIGSTOP);
            }
        }
        return 0;
    }
    """
    ended = guest(source, "run")
    assert (ended.status, ended.stdout) == (137, "ENFILE\n"), ended.stderr
    source = r"""
    int main(void) {
        int file = open("locks", O_CREAT | O_RDWR, 0644);
        long made = 0;
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
        while (made < 20000 && fcntl(file, F_SETLK, &lock) == 0) lock.l_start += 2, made++;
        printf("%ld %s\n", made, strerrorname_np(errno));
        lock = (struct flock){.l_type = F_UNLCK, .l_whence = SEEK_SET};
        return fcntl(file, F_SETLK, &lock);
    }
    """
    ended = guest(source, "run")
    assert (ended.status, ended.stdout) == (0, "8192 ENOLCK\n"), ended.stderr


def test_a_program_that_runs_is_not_written_to(guest: Callable[..., Ended]) -> None:
    source = r"""
    int main(int count, char **words) {
        const char *how[] = {"", "", ""};
        if (open(words[0], O_RDWR) < 0) how[0] = strerrorname_np(errno);
        if (open("/proc/self/exe", O_RDONLY | O_TRUNC) < 0) how[1] = strerrorname_np(errno);
        if (truncate("/proc/self/exe", 0)) how[2] = strerrorname_np(errno);
        printf("%s %s %s\n", how[0], how[1], how[2]);
        return 0;
    }
    """
    ended = guest(source, "run")
    assert (ended.status, ended.stdout) == (0, "ETXTBSY ETXTBSY ETXTBSY\n"), ended.stderr


@pytest.mark.timeout(60)
def test_as_many_mappings_as_may_be_are_made_in_no_time(guest: Callable[..., Ended]) -> None:
    source = r"""
    int main(void) {
        long made = 0;
        char *last = 0;
        for (;; made++) {
            char *at = mmap(0, 4096, made & 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at == MAP_FAILED) break;
            if (last && at != last - 4096) return 1;
            last = at;
        }
        /* What was let go is found again. */
        munmap(last + (100 << 12), 8192);
        munmap(last + (50 << 12), 4096);
        if (mmap(0, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != last + (101 << 12)) return 2;
        if (mmap(0, 8192, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != last - 8192) return 3;
        if (mmap(0, 4096, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != last + (100 << 12)) return 4;
        printf("%d %s\n", made > 65000, strerrorname_np(errno));
        return 0;
    }
    """
    ended = guest(source, "run", "--design", "ideal")
    assert (ended.status, ended.stdout) == (0, "1 ENOMEM\n"), ended.stderr
    assert ended.result["host"]["seconds"] < 15


def test_a_run_stops_inside_a_long_call(guest: Callable[..., Ended]) -> None:
    source = r"""
    int main(void) {
        /* Steps of a call retire nothing by themselves; the other process does. */
        if (!fork()) for (volatile long at = 0;; at++) continue;
        static char bytes[1 << 20];
        int zeros = open("/dev/zero", O_RDONLY);

        struct iovec pieces[1024];
        for (int at = 0; at < 1024; at++) pieces[at] = (struct iovec){bytes, sizeof bytes};

        write(1, "begins\n", 7);
        fsync(1);
        for (;;) if (readv(zeros, pieces, 1024) != 1L << 30) return 1;
    }
    """
    ended = guest(
        source,
        "run", "--design", "ideal", "--harts", "2", "--stop-after", "3000000",
    )  # fmt: skip
    assert ended.stdout == "begins\n"
    assert 3_000_000 <= ended.result["sim"]["instructions"] < 3_200_000
    assert ended.result["exit_code"] is None
    assert ended.result["host"]["seconds"] < 10


def test_what_waits_to_leave_fits_into_the_kernel_s_state(guest: Callable[..., Ended]) -> None:
    """However much may wait by the configuration, and however many names have come and gone."""
    source = r"""
    static char page[1 << 16];
    int main(void) {
        memset(page, 'x', sizeof page);
        for (int at = 0; at < 200; at++)
            if (write(1, page, sizeof page) != sizeof page) return 1;
        return 0;
    }
    """
    much = ("--set", "kernel.output_limit_bytes=1GiB")
    ended = guest(source, "run", *SMALLEST, *much)
    assert (ended.status, len(ended.stdout)) == (0, 200 << 16), ended.stderr
    source = r"""
    static char name[300];
    int main(void) {
        int kept = open("kept", O_WRONLY | O_CREAT, 0644);
        for (long round = 0; round < 150; round++) {
            for (int pass = 0; pass < 2; pass++) {
                for (long at = 0; at < 100; at++) {
                    sprintf(name, "%0240ld", round * 100 + at);
                    if (pass) unlink(name);
                    else if (close(open(name, O_WRONLY | O_CREAT, 0644))) {
                        dprintf(2, "%ld %s\n", round, strerrorname_np(errno));
                        return 1;
                    }
                }
                fsync(kept);
            }
        }
        return 0;
    }
    """
    ended = guest(source, "run", *SMALLEST, "--design", "ideal")
    assert ended.status == 0, ended.stderr
    assert [file["path"] for file in ended.result["files"]] == ["/work/kept"]
    assert ended.peak_bytes < 600 * MIB

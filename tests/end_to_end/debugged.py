"""What the tests of the debugger share: a program, and a session that waits at a socket."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from conftest import PATIENCE_SECONDS

from perdure import toolchain

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
volatile long counter;
long table[64];
__attribute__((noinline)) long work(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        table[i % 64] += i;
        sum += table[i % 64] ^ counter;
        if (i % 100 == 99)
            counter = counter + 1; /* here */
    }
    return sum;
}
int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000;
    printf("begin\n");
    long got = work(n);
    printf("sum %ld counter %ld\n", got, counter);
    return 3;
}
"""


THREADS = r"""
#include <pthread.h>
#include <stdio.h>
int shared;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void bump(int who) {
    pthread_mutex_lock(&lock);
    shared += who;
    pthread_mutex_unlock(&lock);
}
void *run(void *given) {
    for (int i = 0; i < 50; i++)
        bump((int)(long)given);
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, run, (void *)(i + 1));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("%d\n", shared);
    return 0;
}
"""


def symbol(program: Path, name: str) -> int:
    """The address of a function or of an object of a program's."""
    listed = subprocess.run(
        ["riscv64-linux-gnu-nm", program], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(rf"^([0-9a-f]+) \w {name}$", listed, re.MULTILINE)
    assert found is not None, name
    return int(found[1], 16)


def build(source: str, folder: Path) -> Path:
    """Compiles a C program with what a debugger needs of it."""
    compiler = toolchain.installed()
    assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
    file = folder / "program.c"
    file.write_text(source)
    return compiler.build(file, folder / "program", ("-g", "-O1", "-pthread"))


@contextmanager
def listening(*words: str | Path, cwd: Path) -> Iterator[tuple[socket.socket, str]]:
    """A session that waits at a socket, and a connection to it."""
    place = cwd / "socket"
    command = Path(sys.executable).with_name("perdure")
    started = subprocess.Popen(
        [command, "debug", "--listen", place, *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        client = None
        while client is None:
            assert started.poll() is None, started.communicate()[1]
            assert time.monotonic() < deadline
            # Between its making and the waiting for clients, the socket refuses them.
            with suppress(FileNotFoundError, ConnectionRefusedError):
                client = connected(place)
            time.sleep(0.02)
        yield client, str(place)
    finally:
        started.terminate()
        started.communicate(timeout=PATIENCE_SECONDS)


def connected(place: str | Path) -> socket.socket:
    """A client's end."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE_SECONDS)
    try:
        client.connect(str(place))
    except OSError:
        client.close()
        raise
    return client

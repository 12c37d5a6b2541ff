"""Processes that have imported everything once, and fork for each task: both sides of the pipe.

Always true here: a task is a line on a server's standard input. A child of the server's does it, on
the server's standard output: first `child PID`, then what the child says, then `ended STATUS`,
negative for a signal. A child that crashes ends itself and no other; with the thread that started a
server end the server and its child. A child's number is nobody else's until the next task: only
then is it taken from the system's table, so a signal never meets a stranger.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1

CHILD = "child "
ENDED = "ended "


@dataclass(frozen=True)
class Ended:
    """How a task ended: its process's status, its last line, and what it complained of."""

    status: int
    last: str
    complaints: str


class Server:
    """A server, as the thread that started it sees it."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        # Never full, unlike a pipe; a child's come behind those of the server's own start.
        self._complaints = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        # In a session of its own: Ctrl-C at a terminal reaches the one that coordinates.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            errors="replace",
            start_new_session=True,
            env=environment,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it can be given a task."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends it, and its child with it."""
        self._process.kill()

    def do(
        self, task: str, begun: Callable[[int], object], heard: Callable[[str], object]
    ) -> Ended:
        """Has a child do a task; `begun` learns its number, `heard` each line that it says."""
        try:
            return self._done(task, begun, heard)
        except BaseException:
            # Nobody waits for the task any more, nor reads what is still to come.
            self.kill()
            raise

    def _done(
        self, task: str, begun: Callable[[int], object], heard: Callable[[str], object]
    ) -> Ended:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None and pipe_out is not None
        # One that has ended already says so by its status.
        with suppress(BrokenPipeError):
            pipe_in.write(f"{task}\n")
            pipe_in.flush()
        last = ""
        for line in pipe_out:
            if line.startswith(CHILD):
                begun(int(line.removeprefix(CHILD)))
            elif line.startswith(ENDED):
                return Ended(int(line.removeprefix(ENDED)), last, self._complained())
            elif line.strip():
                last = line
                heard(line)
        return Ended(self._process.wait(), last, self._complained())

    def _complained(self) -> str:
        """What was complained of since the last time."""
        self._complaints.seek(0)
        said = self._complaints.read()
        self._complaints.seek(0)
        self._complaints.truncate()
        return said

    def __del__(self) -> None:
        # The thread is ending, and takes an idle server along: one to which no more tasks come. The
        # time that its children took counts as this process's only once it was waited for.
        process = getattr(self, "_process", None)
        if process is not None:
            with suppress(OSError):
                process.stdin.close()
            process.wait()
            process.stdout.close()
            self._complaints.close()


def serve(do: Callable[[str], object]) -> None:
    """Has a child `do` each task that comes; returns where no more comes."""
    _end_with(os.getppid())
    child = 0
    while task := sys.stdin.readline():
        if child:
            os.waitpid(child, 0)
        server = os.getpid()
        child = os.fork()
        if child == 0:
            _end_with(server)
            _become_a_process_of_its_own()
            do(task)
            sys.stdout.flush()
            sys.stderr.flush()
            # Python's own end would visit, and so copy, all that the server has imported: 70 ms.
            os._exit(0)
        end = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert end is not None
        status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        # What the child said may have no end.
        print(f"\n{ENDED}{status}", flush=True)
    if child:
        os.waitpid(child, 0)


def _end_with(parent: int) -> None:
    """Has this process end when the thread that started it does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _become_a_process_of_its_own() -> None:
    """Takes from a child what is its server's, and says that it can be interrupted."""
    # Whoever started the server may have had it ignore Ctrl-C, as shells do in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    print(f"{CHILD}{os.getpid()}", flush=True)

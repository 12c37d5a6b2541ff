"""Runs one point in a process of its own: `python -m perdure.experiments.execute`.

Always true here: a task on standard input gives one outcome on standard output, both JSON; the
guest's working directory and scratch directories are fresh and empty; a crash or a lack of memory
ends this process and no other; when the process that waits for the outcome ends, so does this.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import perdure
from perdure import PerdureError, __version__, _core
from perdure.experiments.point import SCRATCH, core_digest, file_digest, scratch_mounts

PR_SET_PDEATHSIG = 1


class Running:
    """The processes that this one waits for, so that an interrupt can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def reset(self) -> None:
        """Lets processes start again after `stop`."""
        with self._lock:
            self._stopped = False

    def start(self) -> subprocess.Popen[str]:
        """Starts a process that executes one task."""
        with self._lock:
            if self._stopped:
                raise PerdureError("interrupted")
            # In a session of its own: Ctrl-C at a terminal reaches the one that coordinates.
            process = subprocess.Popen(
                [sys.executable, "-m", "perdure.experiments.execute"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": _python_path()},
            )
            self._processes.add(process)
            return process

    def finished(self, process: subprocess.Popen[str]) -> None:
        """The process has ended."""
        with self._lock:
            self._processes.discard(process)

    def stop(self) -> None:
        """Ends all of them and starts no more."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.kill()


RUNNING = Running()


def _python_path() -> str:
    """Where the child finds this very package."""
    own = str(Path(perdure.__file__).parents[1])
    return os.pathsep.join([own, *filter(None, [os.environ.get("PYTHONPATH")])])


def execute(task: str) -> str:
    """Runs a task's point in a process of its own. Runs on a Dask worker; never raises.

    The outcome has `result`, the core's, or `error`, one message.
    """
    try:
        process = RUNNING.start()
    except (OSError, PerdureError) as error:
        return json.dumps({"error": f"cannot start: {error}"})
    try:
        output, complaint = process.communicate(task)
    finally:
        RUNNING.finished(process)
    if process.returncode == 0:
        return output
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        hint = ": out of memory?" if name == "SIGKILL" else ""
        return json.dumps({"error": f"the simulator's process was ended by {name}{hint}"})
    last = complaint.strip().splitlines()[-12:]
    return json.dumps({"error": "\n".join(last) or f"exit status {process.returncode}"})


def task_of(request: dict[str, Any], command: str, files: dict[str, str]) -> str:
    """A task: what to ask of the core, of which build, with programs of which contents."""
    return json.dumps(
        {
            "command": command,
            "request": request,
            "core": core_digest(),
            "version": __version__,
            "files": files,
        }
    )


def _checked(task: dict[str, Any]) -> str | None:
    """Why this worker cannot run the task as it was meant; None if it can."""
    if (task["version"], task["core"]) != (__version__, core_digest()):
        return (
            f"this worker has another build of Perdure ({__version__}, {core_digest()}) than the "
            f"one that asks ({task['version']}, {task['core']}): install the same on both"
        )
    for path, digest in task["files"].items():
        if not Path(path).is_file():
            return (
                f"this worker does not see {path}: give --out a folder that all workers share "
                "under the same path"
            )
        if file_digest(Path(path)) != digest:
            return f"{path} is not what it was when the points were planned"
    return None


def _outcome(task: dict[str, Any]) -> dict[str, Any]:
    refusal = _checked(task)
    if refusal is not None:
        return {"error": refusal}
    request = task["request"]
    with tempfile.TemporaryDirectory(prefix="perdure-point-") as folder:
        parent = Path(folder)
        work = parent / "work"
        work.mkdir()
        os.chdir(work)
        request["mounts"] = scratch_mounts(request["mounts"], parent)
        # Where the guest's files go: points must not write into each other's mounts.
        request["out"] = str(parent / "out")
        failed = _make_pools(request, parent)
        if failed is not None:
            return {"error": failed}
        call = _core.run if task["command"] == "run" else _core.cut
        try:
            return {"result": json.loads(call(json.dumps(request), None))}
        except PerdureError as error:
            return {"error": str(error)}
        finally:
            os.chdir("/")


WORLD = ("machine", "design", "set", "harts", "sysroot", "mounts", "environment", "out", "pmem")
"""What of a request a run that makes a pool has, too."""


def _make_pools(request: dict[str, Any], parent: Path) -> str | None:
    """Gives the point a folder in which its programs have made their pools, or says why not."""
    if request.get("pmem") != SCRATCH:
        return None
    request["pmem"] = str(parent / "pmem")
    for command in request.pop("made"):
        asked = {**{key: request[key] for key in WORLD}, "program": command}
        try:
            made = json.loads(_core.run(json.dumps(asked), None))
        except PerdureError as error:
            return f"a pool cannot be made: {error}"
        if made.get("exit_code") != 0:
            return f"{' '.join(command)} ended with status {made.get('exit_code')}"
    return None


def main() -> None:
    """Reads a task, runs it, writes the outcome."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    json.dump(_outcome(json.loads(sys.stdin.read())), sys.stdout)


if __name__ == "__main__":
    main()

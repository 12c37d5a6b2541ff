"""Runs one point, or a part of a campaign of power cuts, in a process of its own.

Always true here: a task gives one outcome as the last line of its process's standard output, both
JSON; what a task says on its way stands in lines before. A point's working directory and scratch
directories are fresh, and empty but for what `_as_in` puts there. A crash or a lack of memory ends
this process and no other; when the process that waits for the outcome ends, so does this. All of a
thread's processes are forked from one that has imported and hashed the core: that takes as long as
a short point.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import perdure
from perdure import PerdureError, __version__, _core, interpreter, pools
from perdure.experiments.point import SCRATCH, core_digest, file_digest, scratch_mounts
from perdure.experiments.programs import what_makes
from perdure.experiments.servers import Server, serve

Told: TypeAlias = Callable[[int, int, str, str], object]
"""Called with a task's progress, as the core says it."""


class Running:
    """The tasks that this process waits for, so that an interrupt can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()
        self._campaigns: dict[Server, str] = {}
        self._children: dict[Server, int] = {}
        self._interrupted: set[str] = set()
        self._stopped = False

    def reset(self) -> None:
        """Lets tasks start again after `stop`."""
        with self._lock:
            self._stopped = False

    def start(self, campaign: str = "") -> Server:
        """The thread's own server, for one task, perhaps of a campaign that has a name."""
        with self._lock:
            if self._stopped or campaign in self._interrupted:
                raise PerdureError("interrupted")
            server: Server | None = getattr(self._own, "server", None)
            if server is None or not server.is_alive:
                command = [*interpreter.MODULE, "perdure.experiments.execute"]
                server = Server(command, {**os.environ, "PYTHONPATH": _python_path()})
                self._own.server = server
            self._campaigns[server] = campaign
            return server

    def begun(self, server: Server, child: int) -> None:
        """A server's child is at work, and may be interrupted."""
        with self._lock:
            self._children[server] = child
            if self._campaigns[server] in self._interrupted:
                _interrupt(child)

    def finished(self, server: Server) -> None:
        """The task has ended."""
        with self._lock:
            del self._campaigns[server]
            self._children.pop(server, None)

    def interrupt(self, campaign: str) -> None:
        """Lets the tasks of a campaign end with what they have, and starts no more of it."""
        with self._lock:
            self._interrupted.add(campaign)
            for server, child in self._children.items():
                if self._campaigns[server] == campaign:
                    _interrupt(child)

    def stop(self) -> None:
        """Ends all of them and starts no more."""
        with self._lock:
            self._stopped = True
            for server in self._campaigns:
                server.kill()


RUNNING = Running()


def _interrupt(child: int) -> None:
    # One whose server has been killed is gone.
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGINT)


def _python_path() -> str:
    """Where the server finds this very package."""
    own = str(Path(perdure.__file__).parents[1])
    return os.pathsep.join([own, *filter(None, [os.environ.get("PYTHONPATH")])])


def interrupt(campaign: str) -> None:
    """Ends what this Dask worker does for a campaign."""
    RUNNING.interrupt(campaign)


def execute(task: str, campaign: str = "", told: Told = lambda *_: None) -> str:
    """Runs a task in a process of its own. Runs on a Dask worker; never raises.

    The outcome has `result`, the core's, or `error`, one message.
    """

    def heard(line: str) -> None:
        if line.startswith("["):
            told(*json.loads(line))

    try:
        server = RUNNING.start(campaign)
    except (OSError, PerdureError) as error:
        return json.dumps({"error": f"cannot start: {error}"})
    try:
        ended = server.do(task, lambda child: RUNNING.begun(server, child), heard)
    finally:
        RUNNING.finished(server)
    if ended.status == 0:
        return ended.last
    if ended.status < 0:
        name = signal.Signals(-ended.status).name
        hint = ": out of memory?" if name == "SIGKILL" else ""
        return json.dumps({"error": f"the simulator's process was ended by {name}{hint}"})
    last = ended.complaints.strip().splitlines()[-12:]
    return json.dumps({"error": "\n".join(last) or f"exit status {ended.status}"})


def task_of(
    request: Mapping[str, Any], command: str, files: Mapping[str, str], folder: str | None = None
) -> str:
    """A task: what to ask of the core, of which build, with programs of which contents.

    One with a `folder` is done there, and says how it gets on.
    """
    return json.dumps(
        {
            "command": command,
            "folder": folder,
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
                f"this worker does not see {path}: all workers have to share its folder (that of "
                "--out, for what is made there) under the same path"
            )
        if file_digest(Path(path)) != digest:
            return f"{path} is not what it was when the points were planned"
    return None


def _outcome(task: dict[str, Any]) -> dict[str, Any]:
    refusal = _checked(task)
    if refusal is not None:
        return {"error": refusal}
    request = task["request"]
    if task["folder"] is not None:
        return _done_in(Path(task["folder"]), task["command"], request)
    with tempfile.TemporaryDirectory(prefix="perdure-point-") as folder:
        parent = Path(folder)
        work = parent / "work"
        work.mkdir()
        os.chdir(work)
        request["mounts"] = scratch_mounts(request["mounts"], parent)
        # Where the guest's files go: points must not write into each other's mounts.
        request["out"] = str(parent / "out")
        beside = request.pop("beside", None)
        failed = _make_pools(task, parent)
        if failed is not None:
            return {"error": failed}
        if beside is not None:
            _as_in(Path(beside), parent, request)
        try:
            return _asked(task["command"], request, None)
        finally:
            os.chdir("/")


POOLS = "pmem"
"""The folder of a point's pools."""

WORLD = ("machine", "design", "set", "harts", "sysroot", "mounts", "environment", "out")
"""What of a request a run that makes a pool has, too."""


def _make_pools(task: dict[str, Any], parent: Path) -> str | None:
    """Gives the point a folder with its pools, copied and made, or says why that cannot be.

    With a folder for all points, those that are made alike are made there once, on the machine as
    it is without overrides, but with those of its modules: what is in a pool follows from the
    command that makes it, and from what it lies on.
    """
    request = task["request"]
    if request.get("pmem") != SCRATCH:
        return None
    folder = parent / POOLS
    request["pmem"] = str(folder)
    kept, made, shared = (request.pop(key, None) for key in ("kept_pools", "made", "made_in"))
    world = {key: request.get(key) for key in WORLD}
    try:
        if shared is None or kept is not None or not made:
            if kept is not None:
                pools.copy(Path(kept), folder)
            return _made(made or (), world, folder)
        modules = [one for one in request["set"] if one.startswith("module.")]
        plain = {**world, "set": modules, "harts": None}
        place = Path(shared) / _name_of(made, plain, task)
        failed = None if place.is_dir() else _made_at(place, made, plain)
        if failed is None:
            pools.copy(place, folder)
    except (OSError, PerdureError) as error:
        return str(error)
    return failed


def _as_in(out: Path, parent: Path, request: dict[str, Any]) -> None:
    """Names programs and pools as seen from the folder of all that is made for the points.

    A campaign's tokens have these names. So they can be replayed there, on any host that has the
    same programs, and once the pools, which go with the point, have been made again as `pmem`.
    """
    work = parent / "work"
    (parent / POOLS).rename(work / POOLS)
    request["pmem"] = POOLS
    for line in filter(None, (request.get("program"), request.get("then"))):
        program = Path(line[0])
        if program.is_relative_to(out):
            line[0] = str(program.relative_to(out))
            link = work / program.relative_to(out).parts[0]
            if not link.is_symlink():
                link.symlink_to(out / link.name)


def _made(commands: Iterable[Sequence[str]], world: dict[str, Any], folder: Path) -> str | None:
    """Makes pools in a folder, or says why that cannot be."""
    for command in commands:
        asked = {**world, "pmem": str(folder), "program": command}
        try:
            made = json.loads(_core.run(json.dumps(asked), None))
        except PerdureError as error:
            return f"a pool cannot be made: {error}"
        if made.get("exit_code") != 0:
            return f"{' '.join(command)} ended with status {made.get('exit_code')}"
    return None


def _made_at(place: Path, commands: Iterable[Sequence[str]], world: dict[str, Any]) -> str | None:
    """Makes pools elsewhere, and puts them into their place unless somebody was faster."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="making-") as making:
        folder = Path(making) / "pmem"
        failed = _made(commands, world, folder)
        if failed is None:
            with suppress(OSError):
                folder.rename(place)
        return failed


def _name_of(commands: Sequence[Sequence[str]], world: dict[str, Any], task: dict[str, Any]) -> str:
    """A name for what commands make: by their programs' contents, and by what of them shows."""
    said = [
        [task["files"].get(first, first), *words] for first, *words in map(what_makes, commands)
    ]
    text = json.dumps([task["core"], world["machine"], world["design"], world["set"], said])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _done_in(folder: Path, command: str, request: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a task that is done in the folder of who gave it."""
    try:
        os.chdir(folder)
    except OSError as error:
        return {
            "error": f"this worker cannot go to {folder} ({error.strerror}): all workers have to "
            "share the folder of who asks, under the same path"
        }
    return _asked(command, request, lambda *said: print(json.dumps(said), flush=True))


def _asked(command: str, request: dict[str, Any], told: Told | None) -> dict[str, Any]:
    """What the core answers."""
    try:
        return {"result": json.loads(getattr(_core, command)(json.dumps(request), told))}
    except PerdureError as error:
        return {"error": str(error)}


def main() -> None:
    """Does tasks, each in a child: reads it, runs it, writes the outcome."""
    core_digest()
    serve(lambda task: json.dump(_outcome(json.loads(task)), sys.stdout))


if __name__ == "__main__":
    main()

"""What the end-to-end tests share: the built programs, the command, and runs in clean folders.

Always true here: the core is the compiled one; every run of a guest has an empty folder of its own
as working directory, because a folder's content is part of what a guest can see; nothing is
written into the repository except the build in `out/programs`.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import capture, sysroot, toolchain
from perdure.experiments.toml import Table

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("PERDURE_PROGRAMS", REPOSITORY / "out/programs"))
TIMEOUT_SECONDS = 300
"""For one command; it takes about a second."""
PATIENCE_SECONDS = 120
"""For a process in the background to get where a test wants it."""
TIMES = int(os.environ.get("PERDURE_TIMES", "1"))
"""How many times as many cuts campaigns make, with fresh seeds: `make test-long` says."""
ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
"""What a guest and its reference have in common."""


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class GuestRun:
    """A run through the Python API, with the guest's standard output as it was released."""

    result: perdure.RunResult
    stdout: bytes


Command = Callable[..., Ended]
RunGuest = Callable[..., GuestRun]


def seed(fixed: int) -> int:
    """The seed of a campaign: fixed, or for a night a fresh one; every failure has a token."""
    return fixed if TIMES == 1 else random.SystemRandom().randrange(1 << 32)


def catalogue(file: str) -> dict[str, Table]:
    """The tables of a catalogue in `workloads/`, by name."""
    return dict(Table.read(REPOSITORY / "workloads" / file).table("workload").tables())


def arguments_of(entries: Mapping[str, Table]) -> Callable[..., list[str]]:
    """What gives a workload's arguments at a size, of those of a catalogue."""

    def arguments(name: str, size: str = "tiny") -> list[str]:
        return list(entries[name].table(size).texts("arguments"))

    return arguments


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """One test process at a time makes what belongs there."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built(kind: str) -> Path:
    """The folder of `build.sh`; building again does nothing where nothing changed."""
    build = [REPOSITORY / "workloads/build.sh", PROGRAMS, "--compiler", "gcc", f"--{kind}"]
    with alone(PROGRAMS):
        done = subprocess.run(
            list(map(str, build)), capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr
    return PROGRAMS


def under_qemu(words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """A static program under qemu-riscv64: the reference."""
    return subprocess.run(
        ["qemu-riscv64", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built benchmarks, and of the guests in `guests`."""
    return built("guests")


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the command keeps between calls is kept for the tests alone."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs `perdure` as a shell would."""

    def call(*words: str | Path, cwd: Path = tmp_path, given: str | None = None) -> Ended:
        script = Path(sys.executable).with_name("perdure")
        done = subprocess.run(
            [script, *words],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "80"},
            stdin=subprocess.DEVNULL if given is None else None,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def run_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunGuest:
    """Runs a guest in this process, in a new folder or in the one given."""
    runs = 0

    def call(
        machine: perdure.Machine,
        program: Sequence[str | Path],
        cwd: Path | None = None,
        **more: Any,
    ) -> GuestRun:
        nonlocal runs
        runs += 1
        if cwd is None:
            cwd = tmp_path / f"run-{runs}"
            cwd.mkdir()
        monkeypatch.chdir(cwd)
        with capture.standard_output() as output:
            result = machine.run(program, passthrough=True, **more)
        return GuestRun(result, output.content)

    return call


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., Path]:
    """Compiles a C program that is written out in a test."""

    def build(source: str, *flags: str) -> Path:
        compiler = toolchain.installed()
        assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
        file = tmp_path / "program.c"
        file.write_text(source)
        return compiler.build(file, tmp_path / "program", flags)

    return build


@pytest.fixture(scope="session")
def root(request: pytest.FixtureRequest) -> Path:
    """A Debian sysroot; made once, then found again without the network.

    It holds the `PACKAGES` of every test file that was collected, so that no file's own wishes
    change it while another file's tests run.
    """
    modules = {item.module for item in request.session.items if isinstance(item, pytest.Function)}
    return debian({name for module in modules for name in getattr(module, "PACKAGES", ())})


def debian(packages: Iterable[str], beside: str = "") -> Path:
    """The sysroot with some packages, or another one beside it; skips who cannot have it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = Path(os.environ.get("PERDURE_SYSROOT") or cache / "perdure/sysroot")
    directory = directory.with_name(directory.name + beside)
    try:
        with alone(directory):
            sysroot.make(directory, sorted(packages))
    except perdure.PerdureError as refusal:
        pytest.skip(f"no Debian riscv64 programs: {refusal}")
    return directory


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative path."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def without_host_time(result: perdure.api.Json) -> dict[str, object]:
    """A result without the one part that may differ between equal runs."""
    return {key: value for key, value in result.items() if key != "host"}


class Terminal:
    """A terminal that a test looks at: what is written to its `device`, and what is typed."""

    def __init__(self) -> None:
        self._end, self.device = pty.openpty()
        self._written = ""
        self._more = threading.Condition()
        self._asleep, self._wake = os.pipe()
        # As somebody who looks away: whoever writes on never waits for the test to read.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while self._end in select.select([self._end, self._asleep], [], [])[0]:
            some = os.read(self._end, 65536).decode(errors="replace")
            with self._more:
                self._written += some
                self._more.notify_all()

    @property
    def environment(self) -> dict[str, str]:
        """In which progress is drawn, wherever the tests were started."""
        return {**os.environ, "TERM": "xterm", "COLUMNS": "120"}

    def wait_for(self, pattern: str) -> None:
        """Reads until something fits, and forgets what was written up to there."""
        with self._more:
            there = self._more.wait_for(lambda: re.search(pattern, self._written), PATIENCE_SECONDS)
            assert there, f"waited in vain for {pattern}; there is {self._written!r}"
            self._written = self._written[there.end() :]

    def type(self, text: str) -> None:
        """As if somebody typed it."""
        os.write(self._end, text.encode())

    def close(self) -> None:
        """Hangs up."""
        os.write(self._wake, b"x")
        self._reader.join()
        for file in (self._end, self.device, self._asleep, self._wake):
            os.close(file)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal of the test's own."""
    made = Terminal()
    yield made
    made.close()


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Dask scheduler and two workers, as somebody would start them in three terminals.

    Each is two processes that import Dask, so that all tests of a session share them.
    """
    folder = tmp_path_factory.mktemp("scheduler")
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    commands = [
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", *common],
        *[[*dask, "worker", "--host", "127.0.0.1", "--nthreads", "1", *common]] * 2,
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            quiet = subprocess.DEVNULL
            started.append(subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not file.exists():
                assert time.monotonic() < deadline, "the scheduler did not start"
                time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(PATIENCE_SECONDS)

"""How a debugger is reached: gdb, which is started on a session, or a socket where one connects.

Always true here: with `--gdb`, gdb has the terminal and Ctrl-C, and the session ends with it;
without it, the session waits at its socket until a client ends it, the program has ended, or Ctrl-C
comes.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Annotated, Any, NoReturn

import typer

from perdure import PerdureError, api
from perdure.commands.shared import finish

LISTEN = "127.0.0.1:0"
GDBS = ("gdb-multiarch", "riscv64-linux-gnu-gdb", "riscv64-unknown-linux-gnu-gdb", "gdb")
SCRIPT = Path(__file__).resolve().parent.parent / "inside_gdb.py"
"""What gdb sources: commands that know that the monitor moves in time."""
KILL = b"$k#6b"
"""The packet that ends a session."""
PATIENCE_SECONDS = 120
"""For the machine to boot, or to come to the cut that a token names."""


@dataclass(frozen=True)
class Debugger:
    """How the debugger is reached."""

    gdb: Annotated[
        bool, typer.Option("--gdb", help="Start gdb on it; the session ends with gdb.")
    ] = False
    gdb_program: Annotated[
        str | None,
        typer.Option("--gdb-program", metavar="PATH", help="This gdb, and no other one."),
    ] = None
    gdb_argument: Annotated[
        list[str] | None,
        typer.Option(
            "--gdb-argument",
            metavar="WORD",
            help="A further word for gdb's command line, as in --gdb-argument=-batch.",
        ),
    ] = None
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Let gdb carry out a script, and end."),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT|PATH",
            help="Where a debugger connects to.",
            show_default="a free port of 127.0.0.1",
        ),
    ] = None
    copies: Annotated[
        int,
        typer.Option(
            "--copies",
            min=2,
            metavar="N",
            help="Copies of the machine to go back to, of each life at most.",
        ),
    ] = 64

    @property
    def starts_gdb(self) -> bool:
        """Whether gdb is to be started."""
        return self.gdb or self.script is not None

    def asked(self) -> dict[str, Any]:
        """What the core is asked for."""
        if not self.starts_gdb and (self.gdb_program or self.gdb_argument):
            raise PerdureError("--gdb-program and --gdb-argument: give --gdb, too")
        if self.script is not None and not self.script.is_file():
            why = "it is a folder" if self.script.is_dir() else "no such file"
            raise PerdureError(f"--script {self.script}: {why}")
        return {"copies": self.copies}


def _gdb(wanted: str | None) -> str:
    """A gdb that knows RISC-V."""
    if wanted is not None:
        found = which(wanted)
        if found is None:
            raise PerdureError(f"--gdb-program {wanted}: no such command")
        return found
    for name in GDBS:
        found = which(name)
        if found is not None and (name != "gdb" or _knows_riscv(found)):
            return found
    raise PerdureError(
        "--gdb: there is no gdb that knows RISC-V; install gdb-multiarch, or name one with "
        "--gdb-program"
    )


def _knows_riscv(gdb: str) -> bool:
    command = [gdb, "-nx", "-batch", "-ex", "set architecture riscv:rv64"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return asked.returncode == 0 and "Undefined" not in asked.stderr


def _command(debugger: Debugger, gdb: str, place: Path) -> list[str]:
    """The command line of gdb."""
    first = ["set sysroot target:", f"source {SCRIPT}", f"target remote {place}"]
    if debugger.script is not None:
        first = ["set pagination off", *first]
    given = [word for line in first for word in ("-iex" if "set" in line else "-ex", line)]
    batch = [] if debugger.script is None else ["-batch", "-x", str(debugger.script)]
    return [gdb, "-q", *given, *batch, *(debugger.gdb_argument or ())]


@contextmanager
def _left_to_gdb() -> Iterator[None]:
    """Ctrl-C is gdb's."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _own_interrupts() -> None:
    """In gdb's process: what this one ignores, gdb does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _beside_gdb(asked: Mapping[str, Any], debugger: Debugger) -> int:
    """Serves a session to the gdb that is started on it; gdb's exit status."""
    gdb = _gdb(debugger.gdb_program)
    ended: list[int] = []
    with tempfile.TemporaryDirectory(prefix="perdure-debug-") as folder, _left_to_gdb():
        place = Path(folder) / "socket"
        served = threading.Event()

        def run() -> None:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not place.exists() and not served.is_set() and time.monotonic() < deadline:
                time.sleep(0.01)
            if not place.exists():
                return
            words = _command(debugger, gdb, place)
            # The other threads of this process hold no lock that the child would need.
            started = subprocess.run(words, check=False, preexec_fn=_own_interrupts)
            ended.append(started.returncode)
            with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place))
                client.sendall(KILL)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            api.debug({**asked, "listen": str(place), "quiet": True})
        finally:
            served.set()
            thread.join()
    return ended[0] if ended else 2


def serve(asked: Mapping[str, Any], debugger: Debugger) -> NoReturn:
    """Serves a session, and ends the command as it ended."""
    asked = {**asked, **debugger.asked()}
    if debugger.starts_gdb:
        finish(_beside_gdb(asked, debugger))
    result = api.debug({**asked, "listen": debugger.listen or LISTEN})
    ended = result["debug"]
    finish(ended["exit_code"] or 0, ended["interrupted"])

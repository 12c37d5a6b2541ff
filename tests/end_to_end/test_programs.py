"""Unmodified Debian programs that use most of what Linux has: the same as under qemu-riscv64.

Always true here: a script starts the programs as a login shell would, by name, and prints nothing
that depends on who comes first. What qemu-riscv64 makes of the script is the reference; where
qemu-riscv64 cannot run a program, the table says why, and the reference is a text. Where there is
no Debian mirror, every test of this file is skipped and says why.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, RunGuest

from perdure import Machine

SCRIPTS = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Program:
    """Debian programs that `programs/NAME.sh` starts, and what they are here for."""

    packages: str
    covers: str
    not_qemu: str = ""
    """Why qemu-riscv64 is no reference; then `programs/NAME.txt` is, and the status 0."""


PROGRAMS = {
    "bash": Program("bash", "job control, traps, FIFOs, /dev/fd, coprocesses"),
    "bc": Program("bc dc jq ed m4", "long numbers, floating point, pipes"),
    "busybox": Program("busybox", "one static program that is all of them, HTTP over TCP"),
    "coreutils": Program("coreutils", "timer_create, threads, niceness, inotify, preloads"),
    "cowsay": Program("cowsay", "#! scripts, a login shell's PATH"),
    "expect": Program("expect", "ptys: sessions, echo, interrupts, windows"),
    "gawk": Program("gawk", "coprocesses over pipes and over a pty"),
    "git": Program("git", "many files, renames, packs in mappings, programs that start others"),
    "inotify": Program("inotify-tools", "inotify"),
    "ipcs": Program("util-linux", "/proc/sysvipc, /proc/sys, /sys", "it shows the host's"),
    "lmdb": Program(
        "lmdb-utils", "robust mutexes of several processes, shared mappings", "it has none of them"
    ),
    "make": Program("make", "job servers over a pipe and over a FIFO, times of files"),
    "netcat": Program("netcat-openbsd", "TCP, UDP, UNIX sockets, poll"),
    "perl": Program("perl", "System V, sequenced packets, flock, alarm, files without names"),
    "ps": Program(
        "procps", "/proc of other processes, their descriptors, stops", "its /proc is the host's"
    ),
    "python": Program("python3", "pty, O_TMPFILE, memfd, splice, eventfd"),
    "rsync": Program(
        "rsync",
        "socketpairs, several processes, FIFOs, times",
        "it goes down from a descriptor of /, which qemu takes for the sysroot's",
    ),
    "socat": Program("socat", "TCP, UDP, UNIX sockets, IPv6, ptys, select"),
    "stress-ng": Program(
        "stress-ng", "calls that are rarely made, each looked at", "it shows what the host allows"
    ),
    "tar": Program("tar gzip cpio findutils diffutils", "pipelines, links, holes"),
    "tcl": Program("tcl", "an event loop, TCP, threads, getaddrinfo"),
    "util-linux": Program(
        "util-linux bsdutils bsdextrautils", "flock, limits, sessions, signalfd, timerfd, pidfds"
    ),
    "zsh": Program("zsh", "a shell's own ptys and sockets"),
}

PACKAGES = (*" ".join(program.packages for program in PROGRAMS.values()).split(), "sed", "grep")


def inside(root: Path, path: str) -> Path | None:
    """The file at a path of the sysroot; links are followed as the guest would."""
    rest, at, links = [part for part in path.split("/") if part], root, 0
    while rest:
        part = rest.pop(0)
        at = at.parent if part == ".." else at / part
        if at.is_symlink():
            links += 1
            target = str(at.readlink())
            at = root if target.startswith("/") else at.parent
            rest = [step for step in target.split("/") if step] + rest
            if links > 20:
                return None
    return at if at.is_file() else None


@pytest.fixture(scope="module")
def shims(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script for each program of the sysroot, which runs it under qemu-riscv64.

    qemu-riscv64 looks for the program of an execve on the host; so does, here, who looks in PATH.
    """
    qemu = f"{shutil.which('qemu-riscv64')} -L {root}"
    folder = tmp_path_factory.mktemp("shims")
    for place in ("usr/sbin", "usr/games", "usr/bin"):
        for entry in sorted((root / place).glob("*")):
            program = inside(root, f"{place}/{entry.name}")
            if program is None:
                continue
            with program.open("rb") as file:
                head = file.read(256)
            words = [f"{qemu} -0 {entry.name}", str(program)]
            if head.startswith(b"#!"):
                interpreter, *argument = head.split(b"\n")[0][2:].decode().split(None, 1)
                found = inside(root, interpreter)
                words = [qemu, str(found), *argument, str(program)]
            elif not head.startswith(b"\x7fELF"):
                continue
            shim = folder / entry.name
            shim.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
            shim.chmod(0o755)
    return folder


def on_linux(folder: Path, shims: Path) -> tuple[str, int]:
    """Output and exit status of the folder's script on this host's Linux."""
    done = subprocess.run(
        [shims / "bash", "script"],
        cwd=folder,
        env={**ENVIRONMENT, "HOME": "/", "TERM": "dumb", "PATH": str(shims), "SHIMS": str(shims)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=100,
        check=False,
    )
    return done.stdout.decode(), done.returncode


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_they_do_on_linux(
    name: str, root: Path, shims: Path, tmp_path: Path, run_guest: RunGuest
) -> None:
    program = PROGRAMS[name]
    linux, ours = tmp_path / "linux/work", tmp_path / "ours/work"
    for folder in (linux, ours):
        folder.mkdir(parents=True)
        shutil.copy(SCRIPTS / f"{name}.sh", folder / "script")
    if program.not_qemu:
        expected = (SCRIPTS / f"{name}.txt").read_text(), 0
    else:
        expected = on_linux(linux, shims)
    run = run_guest(
        Machine(design="ideal", harts=2, sysroot=root), ["/usr/bin/bash", "script"], cwd=ours
    )
    assert (run.stdout.decode(), run.result.exit_code) == expected
    assert run.result.unknown_system_calls == []


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) > 15
    assert {path.stem for path in SCRIPTS.glob("*.sh")} == set(PROGRAMS)

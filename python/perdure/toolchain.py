"""Compilers for guest programs.

Always true here: a program built here is a static RV64GC Linux executable, so it needs no
sysroot. Debian's cross compiler is used where it is installed, otherwise the C compiler in the
PyPI package `ziglang`, which needs no root rights.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure import PerdureError, interpreter, workloads

ZIGLANG = "ziglang>=0.13,<0.16"
ZIGLANG_MEGABYTES = 101
COMMON_FLAGS = ("-O2", "-static", "-pthread", "-Wall")


@dataclass(frozen=True)
class Compiler:
    """A C compiler for riscv64 Linux: its command, and what to call it in a report."""

    name: str
    command: tuple[str, ...]

    def build(self, source: Path, output: Path, flags: Sequence[str] = ()) -> Path:
        """Compiles one C file to a static executable and returns its path."""
        output.parent.mkdir(parents=True, exist_ok=True)
        guest = workloads.folder("guest")
        includes = [f"-I{path}" for path in (guest, guest / "include") if path.is_dir()]
        command = [*self.command, *COMMON_FLAGS, *includes, *flags, str(source), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PerdureError(
                f"{self.name} cannot compile {source}:\n{done.stderr.strip() or done.stdout}"
            )
        return output


def installed() -> Compiler | None:
    """The compiler that this machine has, if any."""
    gcc = shutil.which("riscv64-linux-gnu-gcc")
    if gcc is not None:
        return Compiler("riscv64-linux-gnu-gcc", (gcc,))
    if importlib.util.find_spec("ziglang") is not None:
        zig = (*interpreter.MODULE, "ziglang", "cc", "-target", "riscv64-linux-musl")
        return Compiler("zig cc (from PyPI)", zig)
    return None


def find(report: Callable[[str], object] = print) -> Compiler:
    """A compiler; fetches `ziglang` from PyPI into this Python where there is none."""
    compiler = installed()
    if compiler is not None:
        return compiler
    report(f"fetching the C compiler of PyPI's ziglang ({ZIGLANG_MEGABYTES} MB)")
    command = [*interpreter.MODULE, "pip", "install", "--quiet", ZIGLANG]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    compiler = installed()
    if compiler is None:
        said = done.stderr.strip().splitlines()
        raise PerdureError(
            "no C compiler for riscv64: install Debian's gcc-riscv64-linux-gnu, or `pip install "
            f"'{ZIGLANG}'`, which just failed: {said[-1] if said else 'no reason given'}"
        )
    return compiler

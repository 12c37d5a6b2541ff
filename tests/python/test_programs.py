"""Programs of a catalogue: compiled while packages come."""

import time

import pytest

from perdure import PerdureError, sysroot, toolchain, workloads
from perdure.experiments import programs
from perdure.experiments.programs import Entry, Size

KERNEL = Entry("a", "mcf", "…", "kernel", "a", (), (), {"quick": Size((), 0, 0)})
DEBIAN = Entry("b", "gcc", "…", "debian", "/usr/bin/b", ("b",), (), {"quick": Size((), 0, 0)})


@pytest.fixture
def provide(monkeypatch, tmp_path):
    """Provides a kernel and a Debian program with another build script, and other packages."""
    monkeypatch.setattr(workloads, "folder", lambda _: tmp_path)
    monkeypatch.setattr(programs, "_write_inputs", lambda *_: {})
    monkeypatch.setattr(toolchain, "find", lambda _: toolchain.Compiler("gcc", ("gcc",)))

    def provided(script, make):
        (tmp_path / "build.sh").write_text(script)
        monkeypatch.setattr(sysroot, "make", make)
        out = tmp_path / "out"
        return programs.provide([KERNEL, DEBIAN], ["quick"], out, report=lambda _: None)

    return provided


def until(path):
    """Waits for a file."""
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.01)


def test_packages_come_while_programs_are_compiled(provide, tmp_path):
    """Either waits for the other: one after the other they would wait for ever."""

    def make(root, _packages, *, report):
        until(tmp_path / "compiling")
        root.mkdir(parents=True)
        (tmp_path / "come").touch()

    found = provide(
        f"""cd {tmp_path} && touch compiling && mkdir -p out/programs/kernels
        until [ -e come ]; do sleep 0.01; done
        touch out/programs/kernels/a""",
        make,
    )
    assert found.available == ["a", "b"] and found.digests.keys() >= {"kernel/a", "sysroot"}


def test_what_the_compiler_says_is_the_error(provide):
    def make(root, _packages, *, report):
        root.mkdir(parents=True)

    with pytest.raises(PerdureError, match=r"cannot be built:\na\.c:1: nonsense"):
        provide("echo 'a.c:1: nonsense' >&2; exit 1", make)


def test_an_interrupt_ends_the_compiler(provide, tmp_path):
    def make(_root, _packages, *, report):
        until(tmp_path / "compiling")
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        provide(f"touch {tmp_path}/compiling; exec sleep 60", make)
    assert time.monotonic() - begun < 50

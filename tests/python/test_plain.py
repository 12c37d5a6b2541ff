"""A line that `perdure.plain` answers is answered as `perdure.lines` would: held to that."""

import random

import pytest

from perdure import plain

WIDTHS = (60, 80, 200)

VALUES = {
    "--machine": ["picl", "spms", "./mine.toml", ""],
    "--design": ["picl", "frm", "ideal,picl", ""],
    "--set": ["picl.acs_gap=2", "nvm.bytes=1", "", "--", "-x"],
    "--harts": ["1", "8", "007", "0", "-1", "x", "1_0", "3.5", "٣", "9" * 20, "9" * 5000],
    "--sysroot": ["root", "/a/b", "./root", "a//b", "/a/", ".", "a/../b", "", "-"],
    "--mount": ["/a:/b", "a"],
    "--env": ["A=b", "A=", "A"],
    "--stdin": ["input", "./input", ""],
    "--pmem": ["pools", "./pools", "pools/", ""],
    "--engine": ["fast", "compiled", "plain", "slow", "FAST", ""],
    "--stop-after": ["1", "3000", "3e7", "3_000", "0", "-1", "1.5", "9223372036854775808"],
    "--json": ["-", "/dev/null", "/no/such/folder/file", ""],
    "--designs": ["frm"],
    "--warm-up": ["5"],
}
FLAGS = ("--repeat", "--measure-threads", "--probe-cuts", "-v", "-h", "--hel", "--no")
PROGRAMS = (["true"], ["a", "b", "--json"], ["-"], ["--", "true", "-x"], ["a", "--", "other"],
            ["--"], [], ["--", "a", "--", "b"], ["--", "--", "b"], ["--", "-h"])  # fmt: skip


def line(chosen):
    """Words behind `run`, most of them good."""
    words = []
    for _ in range(chosen.randrange(4)):
        if chosen.random() < 0.1:
            words.append(chosen.choice(FLAGS))
            continue
        name = chosen.choice(list(VALUES))
        value = chosen.choice([VALUES[name][0]] * 6 + VALUES[name])
        words += [f"{name}={value}"] if chosen.random() < 0.3 else [name, value]
    return words + chosen.choice([PROGRAMS[0], PROGRAMS[3], *PROGRAMS])


@pytest.fixture
def both(core, command, monkeypatch):
    """Does a line by `perdure.lines` alone and as the command does; returns how many were plain."""
    ways = {"plain": 0}

    def call(*words):
        core.requests.clear()
        told = command(*words)
        return *told, [*core.requests]

    def compared(*words):
        answered = plain.answered
        with monkeypatch.context() as patched:
            patched.setattr(plain, "answered", lambda _: None)
            whole = call(*words)

        def counted(given):
            status = answered(given)
            ways["plain"] += status is not None
            return status

        with monkeypatch.context() as patched:
            patched.setattr(plain, "answered", counted)
            assert call(*words) == whole, words
        return ways["plain"]

    return compared


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_answered_as_by_what_reads_every_line(both, seed):
    chosen = random.Random(seed)
    lines = 60
    for _ in range(lines):
        answered = both("run", *line(chosen))
    # Many of the lines have words that only the other way reads.
    assert lines / 5 < answered < lines


@pytest.mark.parametrize("width", WIDTHS)
def test_the_help_of_all_commands_and_the_version_are_the_same(both, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert [both(word) for word in ("--help", "-h", "--version")] == [1, 2, 3]


@pytest.mark.parametrize("more", [
    {"interrupted": True, "exit_code": None},
    {"exit_code": 139, "fatal_signal": {"signal": "SIGSEGV", "cause": "no page", "pc": "0x10",
                                        "symbol": "main", "address": "0x0", "instruction": None}},
    {"remarks": ["the epoch was not persisted"]},
    {"unknown_system_calls": [{"number": 999, "name": None, "count": 1}]},
    {"refused": [{"kind": "ioctl", "number": 1, "name": "A", "count": 2, "expected": False}]},
    {"refused_output": "out/files: no space"},
    {"refused_output": "/work/a: no space", "exit_code": 3},
    {"refused_output": "/work/a: no space", "exit_code": None,
     "files": [{"path": "/work/a", "size": 3, "kept": False, "refused": True}]},
    {"files": [{"path": "/work/a", "size": 3, "kept": False}]},
    {"pools": {"not_synchronised": ["a"]}},
    {"pools": {"not_synchronised": []}},
    {"pools": {"not_synchronised": ["a"]}, "interrupted": True, "exit_code": None},
    {"exit_code": 7},
    {"exit_code": None},
])  # fmt: skip
@pytest.mark.parametrize("words", [(), ("--json", "-"), ("--pmem", "pools")])
def test_what_a_run_says_at_its_end_is_the_same(both, core, more, words):
    core.results["run"].update(more)
    assert both("run", *words, "true") == 1


def test_a_refusal_is_the_same(both, core):
    core.refusal = "configuration: unknown variant `x`, expected one of `a`, `b` in `nvm.kind`"
    both("run", "--set", "nvm.kind=x", "true")
    core.refusal = "interrupted before anything was done"
    both("run", "true")


def test_a_shell_that_asks_what_may_come_next_is_not_answered_here(monkeypatch):
    monkeypatch.setenv(plain.ASKS, "complete_bash")
    assert plain.answered(["--help"]) is None

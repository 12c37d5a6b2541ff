"""The command as newcomers meet it: what stands on which stream, how wide, and how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_SECONDS, REPOSITORY, Command

Compiled = Callable[[str], Path]

ENDLESS = """
#include <stdio.h>
#include <unistd.h>
int main(void) {
    FILE *file = fopen("file", "w");
    fputs("kept\\n", file);
    fflush(file);
    fsync(fileno(file));
    puts("begun");
    fflush(stdout);
    for (volatile unsigned long i = 0;; i++)
        ;
}
"""
SHORT = """
#include <stdio.h>
static volatile unsigned long counted;
int main(void) {
    puts("the guest's line");
    fflush(stdout);
    for (int i = 0; i < 200000; i++)
        counted += i;
    return 0;
}
"""


def test_json_is_alone_on_standard_output(command: Command, compiled: Compiled) -> None:
    program = compiled(SHORT)
    for words in (["run"], ["compare", "--design", "ideal,picl"], ["cut", "--at", "1000"]):
        ended = command(*words, "--json", "-", "--", program)
        assert ended.status == 0, ended.stderr
        json.loads(ended.stdout)
    assert "the guest's line" in command("run", "--json", "-", "--", program).stderr
    assert command("run", "--", program).stdout == "the guest's line\n"


@pytest.mark.parametrize("out", [True, False])
def test_ctrl_c_ends_a_run_and_says_what_was_kept(
    compiled: Compiled, tmp_path: Path, out: bool
) -> None:
    program = compiled(ENDLESS)
    script = Path(sys.executable).with_name("perdure")
    words = ["--out", "kept"] if out else []
    process = subprocess.Popen(
        [script, "run", "--design", "ideal", *words, "--", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "perdure: interrupted after " in told
    if out:
        assert "kept, as of then: kept (result and configuration), 1 file of the guest's" in told
        assert json.loads((tmp_path / "kept/result.json").read_text())["interrupted"] is True
        assert (tmp_path / "kept/files/work/file").read_text() == "kept\n"
    else:
        assert "nothing of it is kept; --out DIR" in told


def test_a_short_name_repeats_the_cut_that_was_shown(command: Command, compiled: Compiled) -> None:
    program = compiled(SHORT)
    lost = command("cut", "--design", "ideal", "--at", "500000", "--", program)
    assert lost.status == 0
    name = lost.stdout.split("again: perdure replay ")[1].split()[0]
    again = command("replay", name)
    assert again.status == 0, again.stderr
    for line in (line for line in lost.stdout.splitlines() if "cycle 500,000" in line):
        assert line in again.stdout


def test_tables_in_a_pipe_are_as_wide_as_they_need_to_be() -> None:
    script = Path(sys.executable).with_name("perdure")
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    lines = subprocess.run(
        [script, "list", "designs"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert any("epoch-prefix" in line and line.startswith("│ picl ") for line in lines)


def test_a_wrong_key_is_answered_by_meaning(command: Command, compiled: Compiled) -> None:
    ended = command("run", "--set", "cache.size=1MB", "--", compiled(SHORT))
    assert ended.status == 2
    assert "no key 'cache.size'" in ended.stderr
    assert "'llc.bytes_per_hart'" in ended.stderr and "'l2.bytes'" in ended.stderr


def test_arguments_behind_a_second_dash_get_a_hint(command: Command, compiled: Compiled) -> None:
    program = compiled(SHORT)
    ended = command("run", program, "--", "100")
    assert ended.status == 2
    assert f"write: -- {program} 100" in ended.stderr


def test_the_manual_page_is_good_roff(command: Command) -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    page = command("man").stdout
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-P-cbou"],
        input=page,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "perdure cut" in done.stdout
    assert done.stderr == ""


def test_the_manual_page_that_wheels_carry_is_this_one(command: Command) -> None:
    kept = REPOSITORY / "wheel/data/share/man/man1/perdure.1"
    assert kept.read_text() == command("man").stdout, "run make manual"


def test_man_finds_the_page_of_what_is_installed(tmp_path: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("no man")
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["man", "--where", "perdure"],
        env={"PATH": f"{programs}:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    found = done.stdout.strip()
    assert found == str(programs.parent / "share/man/man1/perdure.1"), done.stderr

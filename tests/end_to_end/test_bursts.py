"""Bursts of short epochs: started by a store to a watched symbol, or by the program's own hint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from conftest import Command

from perdure.api import Json

PROGRAM = """
#include <stdio.h>
volatile long seldom;
static volatile long often[4096];
int main(void) {
    for (long step = 0; step < 200000; step++) {
        often[step & 4095] += step;
        if (step == 100000) {
#ifdef HINT
            __asm__ volatile(".insn r 0x2b, 0, 0x7f, x0, x0, x0" : : : "memory");
#else
            seldom = step;
#endif
        }
    }
    printf("%ld\\n", often[7]);
    return 0;
}
"""
MACHINE = ("--machine", "nvoverlay", "--design", "nvoverlay", "--harts", "2")
BURST = ("--burst-stores", "1000", "--burst-instructions", "100000")


def result_of(command: Command, *words: str | Path) -> Json:
    file = Path(str(words[-1])).with_name("result.json")
    ended = command("run", *MACHINE, "--json", file, *words)
    assert ended.status == 0, ended
    result: Json = json.loads(file.read_text("utf-8"))
    return result


def epochs(command: Command, *words: str | Path) -> int:
    return int(result_of(command, *words)["statistics"]["epoch.committed"]["value"])


def test_a_store_to_a_watched_symbol_starts_a_burst(
    command: Command, compiled: Callable[[str], Path]
) -> None:
    program = compiled(PROGRAM)
    usual = epochs(command, "--", program)
    watched = epochs(command, "--watch", "seldom", *BURST, "--", program)
    assert watched > usual + 10
    assert epochs(command, "--watch", "main:4", *BURST, "--", program) == usual


def test_the_program_may_start_one_itself(
    command: Command, compiled: Callable[[str], Path]
) -> None:
    program = compiled("#define HINT\n" + PROGRAM)
    usual = epochs(command, "--", program)
    assert epochs(command, *BURST, "--", program) > usual + 10


def test_a_run_over_time(command: Command, compiled: Callable[[str], Path]) -> None:
    program = compiled(PROGRAM)
    series = result_of(command, "--sample-cycles", "1e5", "--", program)["series"]
    assert [sample["cycle"] for sample in series[:3]] == [100_000, 200_000, 300_000]
    written = [sample["nvm_written_bytes"] for sample in series]
    assert written == sorted(written)


def test_what_cannot_be_watched_is_refused(
    command: Command, compiled: Callable[[str], Path]
) -> None:
    program = compiled(PROGRAM)
    for words, said in [
        (("--watch", "no_such_thing"), "no such symbol"),
        (("--watch", "seldom:x"), "SYMBOL:BYTES"),
        (("--burst-stores", "7"), "at least 100"),
        (("--burst-instructions", "1000"), "--burst-stores"),
        (("--sample-cycles", "5"), "at least 1000"),
    ]:
        ended = command("run", *MACHINE, *words, "--", program)
        assert ended.status == 2
        assert said in ended.stderr

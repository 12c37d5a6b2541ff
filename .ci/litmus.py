#!/usr/bin/env python3
"""Writes down what machines leave of every litmus test: docs/litmus.md.

    litmus.py            runs every test on every machine, and writes the page
    litmus.py --check    writes nothing, and fails where the page is not what was found

The seed and the number of cuts are fixed, so that the page says the same on every computer. It
takes minutes; `make test-long` checks it, with the installed package.
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from perdure import litmus

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests/litmus"
PAGE = ROOT / "docs/litmus.md"
CUTS = 2000
HEAD = f"""# What machines leave of litmus tests

Made by `.ci/litmus.py`: every file of [`tests/litmus`](../tests/litmus), with `--cuts {CUTS}` on
each machine. [Persistency](persistency.md) says what the models are, how machines are made unlucky,
and what the verdicts mean. *allowed* is how many contents of memory the model allows; under each
machine stands how many its cuts left, which were all allowed unless the verdict is *unsound*.
Machines are stronger than the models: their accesses take effect in order, so that tests of
reordering are seldom complete.
"""


def verdict(machine: dict[str, Any]) -> str:
    """In a word or two."""
    if machine["unsound"]:
        return "**unsound**: " + "; ".join(one["contents"] for one in machine["unsound"])
    missed = len(machine["not_reached"])
    return f"sound, {missed} not reached" if missed else "complete"


def row(test: dict[str, Any]) -> list[str]:
    """A test's."""
    file = Path(test["file"])
    machine = test["machine"]
    reached = [str(len(tried["contents"])) for tried in machine["presets"]]
    name = f"[{file.stem}](../tests/litmus/{file.parent.name}/{file.name})"
    return [name, str(len(test["contents"])), *reached, verdict(machine)]


def section(model: str, tests: list[dict[str, Any]]) -> str:
    """A model's tests."""
    ran = [test for test in tests if test["machine"]]
    if not ran:
        return f"\n## {model}\n\n{len(tests)} tests, decided by their model alone.\n"
    presets = ran[0]["machine"]["presets"]
    machines = [f"`{tried['machine']}` `{tried['design']}`" for tried in presets]
    head = ["test", "allowed", *machines, "verdict"]
    rows = [head, ["---"] * len(head), *map(row, ran)]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    return f"\n## {model}\n\n{table}"


def page() -> str:
    """The page, of tests that are run anew."""
    tests = litmus.decide(sorted(TESTS.glob("*/*.toml")), cuts=CUTS)["tests"]
    models = groupby(tests, key=lambda test: Path(test["file"]).parent.name)
    return HEAD + "".join(section(model, list(of_model)) for model, of_model in models)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Runs every litmus test on every machine.")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    now = page()
    if not asked.check:
        PAGE.write_text(now)
        return 0
    before = PAGE.read_text().splitlines()
    for line in sorted({*before} ^ {*now.splitlines()}):
        print(f"{'-' if line in before else '+'} {line}")
    return int(before != now.splitlines())


if __name__ == "__main__":
    sys.exit(main())

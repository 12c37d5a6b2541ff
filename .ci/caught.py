#!/usr/bin/env python3
"""Hunts every design's planted bugs anew, and writes down where the rarer ones were caught.

    caught.py [--check] [DESIGN ...]

`perdure mutants` tries a planted bug first where crates/perdure/src/mutants/caught.txt says that it
was caught, and in every trial only if that does not catch it any more. `--check` writes nothing,
and fails where the file is not what was found: `make test-long` calls it, with the installed
package.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from perdure import _core, api

ROOT = Path(__file__).parents[1]
CAUGHT = ROOT / "crates/perdure/src/mutants/caught.txt"


def found(design: str) -> list[str]:
    """The design's lines: bugs that its first trial does not catch."""
    request = {"design": design, "jobs": os.cpu_count() or 1, "anew": True}
    bugs = json.loads(_core.mutants(json.dumps(request), None))["mutants"]
    return [f"{design} {bug['name']} {bug['place']}" for bug in bugs if bug["place"]]


def main() -> int:
    """The command."""
    known = [one.name for one in api.catalogue().designs if one.raw.get("planted_bugs")]
    parser = argparse.ArgumentParser(description="Hunts every planted bug anew.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("designs", nargs="*", metavar="DESIGN", default=known)
    asked = parser.parse_args()
    before = CAUGHT.read_text().splitlines()
    others = [line for line in before if line.split()[0] not in asked.designs]
    now = sorted([*others, *(line for design in asked.designs for line in found(design))])
    if not asked.check:
        CAUGHT.write_text("".join(f"{line}\n" for line in now))
    for line in sorted({*before} ^ {*now}):
        print(f"{'-' if line in before else '+'} {line}")
    return int(asked.check and before != now)


if __name__ == "__main__":
    sys.exit(main())

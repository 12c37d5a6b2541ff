"""Records what the compiled core answers, for the tests of the Python side: `recorded.json`.

    python tests/python/record.py

Always true: the requests are these and nothing else, so `tests/end_to_end/test_recorded.py` can
make them again and hold the core's answers against the record, key by key and kind by kind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "recorded.json"

SMALL = [
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
]
REQUEST = {"design": "picl", "program": ["@exerciser:1832:32:100"], "set": SMALL}
CUTS = {"cuts": 3, "seed": 7, "resume": "all"}


def answers() -> dict[str, Any]:
    """One answer of each kind."""
    from perdure import _core

    def asked(function: Any, request: dict[str, Any]) -> Any:
        return json.loads(function(json.dumps(request)))

    broken = {**REQUEST, "cuts": 40, "seed": 7, "planted_bug": "forward-scan", "resume": "none"}
    failing = asked(_core.cut, broken)
    failed = next(one for one in failing["results"] if "first_difference" in one)
    return {
        "run": asked(_core.run, REQUEST),
        "cut": asked(_core.cut, REQUEST | CUTS),
        "broken": failed,
        "mutants": asked(_core.mutants, {"design": "replication"}),
        "configuration": asked(_core.configuration, {"design": "picl"}),
        "catalogue": json.loads(_core.catalogue()),
    }


def main() -> None:
    """Writes the record."""
    RECORD.write_text(json.dumps(answers(), indent=1) + "\n")


if __name__ == "__main__":
    main()

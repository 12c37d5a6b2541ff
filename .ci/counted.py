"""Of what a compiler's counters have counted, functions that run often, for `.ci/tuned`.

    counted.py <COUNTS.txt >KEPT.txt

Both are LLVM's text format. Always true: what is left out is, for the compiler, not cold but not
counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

OFTEN = 100_000
"""So often runs some way through a function that is kept: of 10 MB of counts one is left."""


def kept(text: str) -> Iterable[str]:
    """The functions of `text` that are, each with its name, hash and counts."""
    for function in text.split("\n\n"):
        counts = function.partition("# Counter Values:\n")[2].partition("#")[0]
        if any(int(count) >= OFTEN for count in counts.split()):
            yield function


def main() -> None:
    """From standard input to standard output."""
    kind = "# IR level Instrumentation Flag\n:ir\n"
    text = sys.stdin.read()
    if not text.startswith(kind):
        sys.exit(f"counted.py: these are not counts of a compiler's: they begin with {text[:40]!r}")
    sys.stdout.write(kind + "\n\n".join(kept(text.removeprefix(kind))) + "\n")


if __name__ == "__main__":
    main()

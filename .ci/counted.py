"""Of what a compiler's counters have counted, functions that run often, for `.ci/tuned`.

    counted.py <COUNTS.txt >KEPT.txt

Both are LLVM's text format. A function that nothing outside its part of a crate calls has the
part's number in its name (`perdure.HASH-cgu.14;NAME`), and a change anywhere can number them anew.

Always true: what is left out is, for the compiler, not cold but not counted; what is hottest of our
own crates keeps its counts whichever part it comes to be in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

OFTEN = 100_000
"""So often runs some way through a function that is kept: of 10 MB of counts one is left."""

HOT = 10_000_000
"""So often through one that is kept for all parts of its crate, which takes one more."""

PARTS = 16
"""Of a crate: `codegen-units` of the profile `release`."""

LOCAL = re.compile(r"(perdure\w*\.[0-9a-f]+-cgu\.)\d+(;.*)")
"""The name of a function of ours with its part's number."""


def counts(function: str) -> list[int]:
    """How often each way through it ran."""
    values = function.partition("# Counter Values:\n")[2].partition("#")[0]
    return [int(count) for count in values.split()]


def kept(text: str) -> Iterable[str]:
    """The functions of `text` that are, each with its name, hash and counts."""
    hot: dict[tuple[str, str], str] = {}
    for function in text.split("\n\n"):
        most = max(counts(function), default=0)
        if most < OFTEN:
            continue
        name, _, rest = function.partition("\n")
        local = LOCAL.fullmatch(name)
        if local and most >= HOT:
            # Two parts may have one each, which are one as far as anybody can tell.
            place = (local[1], local[2])
            hot[place] = max(hot.get(place, rest), rest, key=lambda one: sum(counts(one)))
        else:
            yield function
    for (crate, symbol), rest in hot.items():
        for part in range(PARTS):
            yield f"{crate}{part:02}{symbol}\n{rest}"


def main() -> None:
    """From standard input to standard output."""
    kind = "# IR level Instrumentation Flag\n:ir\n"
    text = sys.stdin.read()
    if not text.startswith(kind):
        sys.exit(f"counted.py: these are not counts of a compiler's: they begin with {text[:40]!r}")
    sys.stdout.write(kind + "\n\n".join(kept(text.removeprefix(kind))) + "\n")


if __name__ == "__main__":
    main()

"""Chance for generators: numbers that follow from a seed alone, on every host.

Always true here: the numbers are those of SHAKE-128, so no Python and no library changes them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Random numbers that follow from a seed, by SHAKE-128 in counter mode."""

    _BLOCK_WORDS = 4096

    def __init__(self, seed: str) -> None:
        self._words = self._stream(seed)

    def _stream(self, seed: str) -> Iterator[int]:
        layout = struct.Struct(f"<{self._BLOCK_WORDS}I")
        block = 0
        while True:
            digest = hashlib.shake_128(f"{seed}/{block}".encode()).digest(layout.size)
            yield from layout.unpack(digest)
            block += 1

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1, `bound` at most 2**32."""
        return next(self._words) * bound >> 32

    def between(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`."""
        return least + self.below(most - least + 1)

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def rank(self, bits: int) -> int:
        """A whole number below 2**`bits` that comes up about as often as Zipf's law says.

        Each power of two is as likely as the next, so a number's share falls with its size.
        """
        bit = self.below(bits)
        return (1 << bit) - 1 + self.below(1 << bit)

"""The programs whose speed is measured."""

from __future__ import annotations

from dataclasses import dataclass

HARTS = 8


@dataclass(frozen=True)
class Case:
    """One measurement: a program, its harts, and the MIPS under picl that it must reach."""

    name: str
    source: str
    arguments: tuple[str, ...]
    harts: int
    floor_mips: float
    aim_mips: float


CASES = (
    Case("integer compute", "bench/compute.c", (), 1, 150, 400),
    Case("streaming updates, 32 MB", "bench/stream.c", (), 1, 60, 150),
    Case("B+tree, 1 M random inserts", "bench/btree.c", (), 1, 45, 100),
    Case("hash table, 64 MB, random", "bench/hash.c", (), 1, 22, 45),
    Case("compute on each of 8 harts", "bench/mixed.c", (str(HARTS), "compute"), HARTS, 120, 250),
    Case("the four mixed twice, 8 harts", "bench/mixed.c", (str(HARTS), "mixed"), HARTS, 35, 60),
)

"""Positions of Go and chess, as commands of the programs that play them.

Always true here: a program is told how deep to think and never how long, so its moves do not depend
on the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.inputs.chance import Chance

GO_LETTERS = "ABCDEFGHJKLMNOPQRST"


def positions(scale: int) -> bytes:
    """Go positions as commands of the Go Text Protocol, with moves to be found in each.

    Stones lie where players put them: in the corners first, and near others.
    """
    boards, stones, moves = ((6, 60, 4), (1, 8, 1), (1, 2, 1))[scale]
    size = (19, 9, 5)[scale]
    chance = Chance("positions")
    lines = []
    for _ in range(boards):
        lines += [f"boardsize {size}", "clear_board", "komi 6.5"]
        taken: list[tuple[int, int]] = []
        while len(taken) < stones:
            point = _go_point(chance, size, taken)
            if point not in taken:
                lines.append(f"play {_colour(len(taken))} {GO_LETTERS[point[0]]}{point[1] + 1}")
                taken.append(point)
        lines += [f"genmove {_colour(stones + move)}" for move in range(moves)]
        lines.append("showboard")
    return "".join(f"{line}\n" for line in [*lines, "quit"]).encode()


def _go_point(chance: Chance, size: int, taken: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Where the next stone goes."""
    if len(taken) < 8 or chance.below(4) == 0:
        column, row = (chance.choice((2, 3, 4, size - 5, size - 4, size - 3)) for _ in "cr")
    else:
        near = chance.choice(taken[-12:])
        column, row = (place + chance.between(-2, 2) for place in near)
    return min(max(column, 0), size - 1), min(max(row, 0), size - 1)


def _colour(move: int) -> str:
    return ("black", "white")[move % 2]


CHESS_OPENINGS = (
    "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5 c2c3 g8f6 d2d3 d7d6",
    "d2d4 d7d5 c2c4 e7e6 b1c3 g8f6 c1g5 f8e7 e2e3 b8d7",
    "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 a7a6",
    "c2c4 e7e5 b1c3 g8f6 g1f3 b8c6 g2g3 d7d5 c4d5 f6d5",
)
"""Games' first moves, as books have them: Italian, Queen's Gambit, Najdorf, English."""


def chess(scale: int) -> bytes:
    """Commands for a chess engine: a move to be found after each opening, at a fixed depth."""
    openings, depth = ((4, 11), (2, 4), (1, 3))[scale]
    lines = ["xboard"]
    for opening in CHESS_OPENINGS[:openings]:
        lines += ["new", "force", *opening.split()]
        lines += ["st 100000", f"sd {depth}", "go"]
    return "".join(f"{line}\n" for line in [*lines, "quit"]).encode()

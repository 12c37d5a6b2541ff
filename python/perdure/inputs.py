"""The files that Debian workloads read, made from nothing.

Always true here: a file's bytes follow from its name and its scale alone. They are the same on
every host and with every Python, because chance comes from SHAKE-128 and no generator calls the
mathematics library (whose last digits differ), iterates over a set, or reads the clock; and
`workloads/debian/SHA256SUMS`, which every written file is compared with, says which bytes.

A name of `workloads/debian/` (scripts and style sheets) is copied as it is. Every other name has
a generator here.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, get_args

from perdure import PerdureError, workloads

Scale: TypeAlias = Literal["full", "quick", "tiny"]
"""`full` is a reference run's data, `quick` about an eighth of it, `tiny` for power cuts."""

SCALES: tuple[Scale, ...] = get_args(Scale)
SUMS = "SHA256SUMS"

T = TypeVar("T")


def write_inputs(names: Iterable[str], scale: Scale, directory: Path) -> None:
    """Writes the inputs `names` into `directory`; what is there and right is left alone.

    Raises:
        PerdureError: a name or a scale does not exist, the folder cannot be written, or the bytes
            made here are not those that every host must make.
    """
    if scale not in SCALES:
        raise PerdureError(f"there is no scale {scale!r}: the scales are {', '.join(SCALES)}")
    expected = _expected()
    for name in sorted(set(names)):
        wanted = expected.get(f"{scale}/{name}")
        if wanted is None:
            raise PerdureError(f"there is no input {name!r}: the inputs are {', '.join(known())}")
        path = directory / name
        if path.is_file() and _digest(path.read_bytes()) == wanted:
            continue
        content = make(name, scale)
        if _digest(content) != wanted:
            raise PerdureError(
                f"the input {scale}/{name} was made with other bytes than {SUMS} says "
                f"(Python {sys.version.split()[0]}): results would not be comparable"
            )
        _write(path, content)


def make(name: str, scale: Scale) -> bytes:
    """The bytes of one input."""
    generator = GENERATORS.get(name)
    if generator is not None:
        return generator(SCALES.index(scale))
    return (_scripts() / name).read_bytes()


def known() -> list[str]:
    """Every input's name."""
    kept = (path.name for path in _scripts().iterdir() if path.name != SUMS)
    return sorted([*GENERATORS, *kept])


def sums() -> str:
    """What `SHA256SUMS` has to say: `python -m perdure.inputs > workloads/debian/SHA256SUMS`."""
    lines = (
        f"{_digest(make(name, scale))}  {scale}/{name}\n" for scale in SCALES for name in known()
    )
    return "".join(lines)


def _scripts() -> Path:
    return workloads.folder("workloads") / "debian"


def _expected() -> dict[str, str]:
    """The digest of each `scale/name`."""
    lines = (_scripts() / SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: two runs may make the same one at the same time."""
    partial = path.with_name(f".{path.name}.{_digest(content)[:8]}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise PerdureError(
            f"cannot write the input {path}: {error.strerror} ({error.filename})"
        ) from error


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


# ---- Text ---------------------------------------------------------------------------------------

VOCABULARY_BITS = 15
SUCCESSORS = 4
SYLLABLES = [
    onset + nucleus
    for onset in ("b", "c", "ch", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "st", "t", "v")
    for nucleus in ("a", "e", "i", "o", "u", "ai", "an", "en", "er", "in", "or", "ou")
]


class Language:
    """Words by Zipf's law; every other word follows from the one before it."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        # Frequent words are short, as everywhere.
        self.words = [
            "".join(chance.choice(SYLLABLES) for _ in range(1 + chance.below(2 + rank // 2**12)))
            for rank in range(len(range((1 << VOCABULARY_BITS) - 1)))
        ]
        self._successors = [
            chance.rank(VOCABULARY_BITS) for _ in range(len(self.words) * SUCCESSORS)
        ]
        self._word = 0

    def word(self) -> str:
        """The next word."""
        if self._chance.below(2):
            self._word = self._chance.rank(VOCABULARY_BITS)
        else:
            step = self._word * SUCCESSORS + self._chance.below(SUCCESSORS)
            self._word = self._successors[step]
        return self.words[self._word]

    def sentence(self) -> str:
        """A sentence of 4 to 19 words."""
        words = [self.word() for _ in range(self._chance.between(4, 19))]
        if self._chance.below(4) == 0:
            words[len(words) // 2] += ","
        return " ".join(words).capitalize() + self._chance.choice((".", ".", ".", "?", "!"))


def text(scale: int) -> bytes:
    """Prose, one paragraph a line."""
    size = (8 << 20, 640 << 10, 24 << 10)[scale]
    chance = Chance("text")
    language = Language(chance)
    lines: list[str] = []
    length = 0
    while length < size:
        line = " ".join(language.sentence() for _ in range(chance.between(1, 6))) + "\n"
        lines.append(line)
        length += len(line)
    return "".join(lines).encode()


def mail(scale: int) -> bytes:
    """A mailbox of wanted and unwanted messages, each of which says in X-Kind what it is."""
    messages = (1_500, 110, 3)[scale]
    chance = Chance("mail")
    language = Language(chance)
    return "".join(_message(chance, language, number) for number in range(messages)).encode()


def _message(chance: Chance, language: Language, number: int) -> str:
    """One message; no sign of either kind is certain."""
    spam = chance.below(5) < 2
    sender = f"{language.word()}@{language.word()}.example"
    subject = " ".join(language.word() for _ in range(chance.between(2, 7)))
    lines = [language.sentence() for _ in range(chance.between(3, 24))]
    header = [
        f"From {sender} Thu Jan  1 00:00:00 1970",
        f"From: {language.word().capitalize()} {language.word().capitalize()} <{sender}>",
        f"Message-ID: <{number}.{chance.below(10**6)}@{language.word()}.example>",
        f"X-Kind: {'spam' if spam else 'ham'}",
    ]
    # A mark of either kind comes up in most of its own messages and in a few of the other kind.
    if chance.below(8) < (5 if spam else 1):
        lines.append(f"Only ${chance.between(5, 90)},{chance.between(100, 999)}.00 today!!")
        subject += chance.choice((" free", " offer", " winner", ""))
    if chance.below(8) < (5 if spam else 1):
        address = ".".join(str(chance.below(256)) for _ in range(4))
        lines.append(f'<a href="http://{address}/{language.word()}">Click here</a>')
    if chance.below(8) < (3 if spam else 0):
        subject = subject.upper()
    if chance.below(8) < (1 if spam else 5):
        header.append(f"In-Reply-To: <{chance.below(number + 1)}@{language.word()}.example>")
        lines[:2] = [f"> {line}" for line in lines[:2]]
    body = "\n".join(lines)
    if chance.below(3) == 0:
        header.append("Content-Transfer-Encoding: quoted-printable")
        body = body.replace("=", "=3D").replace("ou", "=6F=75").replace(" st", "=\n st")
    return "\n".join([*header, f"Subject: {subject}", "", body, "", ""])


# ---- Parameters of scripts ----------------------------------------------------------------------


def molecule(scale: int) -> bytes:
    """What hartree-fock.gp computes."""
    atoms, primitives = ((6, 3), (4, 2), (2, 1))[scale]
    return f"atoms = {atoms}; primitives = {primitives}; spacing = 1.8;\n".encode()


def crystal(scale: int) -> bytes:
    """What refinement.gp refines."""
    atoms, reflections, cycles = ((40, 5, 4), (8, 3, 4), (3, 1, 5))[scale]
    return f"atoms = {atoms}; reflections = {reflections}; cycles = {cycles};\n".encode()


# ---- Go -----------------------------------------------------------------------------------------

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


Generator: TypeAlias = Callable[[int], bytes]
"""From a scale's place in `SCALES` to the bytes."""

GENERATORS: dict[str, Generator] = {
    "crystal.gp": crystal,
    "mail": mail,
    "molecule.gp": molecule,
    "positions.gtp": positions,
    "text": text,
}


if __name__ == "__main__":
    sys.stdout.write(sums())

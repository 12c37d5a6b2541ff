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


def orders_sql(scale: int) -> bytes:
    """A shop's database filled, changed, asked and checked, as a script for sqlite3."""
    customers, rounds = ((60_000, 12), (3_000, 6), (60, 1))[scale]
    script = f"""PRAGMA cache_size = -262144;
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, town TEXT, balance INTEGER);
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER, article INTEGER, amount INTEGER);
CREATE TABLE article(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price INTEGER, stock INTEGER);
CREATE INDEX customer_by_town ON customer(town, name);
CREATE INDEX sale_by_customer ON sale(customer);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {customers})
  INSERT INTO customer SELECT i, printf('name %08x', i * 2654435761 % 4294967296),
    'town ' || (i * 7919 % 997), 1000 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {customers} / 4)
  INSERT INTO article SELECT i, printf('article %08x', i * 40503 % 1000003), 3 + i * 31 % 97, 1000
    FROM n;
"""
    for number in range(rounds):
        script += f"""BEGIN;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {customers} / 2)
  INSERT INTO sale(customer, article, amount)
    SELECT 1 + (i * 7907 + {number} * 104729) % {customers}, 1 + i * 5323 % ({customers} / 4),
      1 + i % 5 FROM n;
UPDATE customer SET balance = balance - coalesce((SELECT sum(amount * price) FROM sale
  JOIN article ON article.id = sale.article WHERE sale.customer = customer.id), 0)
  WHERE id % {rounds} = {number};
DELETE FROM sale WHERE customer % 7 = {number} AND amount > 3;
COMMIT;
SELECT town, count(*), sum(balance) FROM customer GROUP BY town ORDER BY 3, 1 LIMIT 3;
"""
    script += """SELECT count(*), sum(amount), sum(customer) FROM sale;
PRAGMA integrity_check;
"""
    return script.encode()


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


# ---- C ------------------------------------------------------------------------------------------

C_TYPES = ("int", "long", "unsigned", "double", "unsigned char")
C_OPERATORS = ("+", "-", "*", "&", "|", "^", "+", "-", "<<", ">>")


def source(scale: int) -> bytes:
    """A preprocessed C file: records, tables, and functions that call earlier ones."""
    functions = (400, 6, 1)[scale]
    chance = Chance("source")
    lines = []
    for number in range(max(2, functions // 20)):
        lines.append(f"struct record{number} {{")
        lines.append("  struct record0 *next;")
        lines += [f"  {chance.choice(C_TYPES)} field{field};" for field in range(8)]
        lines.append("};")
        values = ", ".join(str(chance.below(1000)) for _ in range(64))
        lines.append(f"static const int table{number}[64] = {{{values}}};")
    records = max(2, functions // 20)
    for number in range(functions):
        lines += _CFunction(chance, number, records).lines()
    return "".join(f"{line}\n" for line in lines).encode()


class _CFunction:
    """One function: every variable is set before it is used, every loop ends."""

    def __init__(self, chance: Chance, number: int, records: int) -> None:
        self._chance = chance
        self._number = number
        self._record = f"record{chance.below(records)}"
        self._table = f"table{chance.below(records)}"
        self._integers = ["n", *(f"i{place}" for place in range(chance.between(3, 7)))]
        self._reals = [f"x{place}" for place in range(chance.between(1, 4))]

    def lines(self) -> list[str]:
        """The whole function."""
        chance = self._chance
        body = [f"  long {name} = {chance.below(50)} + n;" for name in self._integers[1:]]
        body += [f"  double {name} = n * {chance.below(90)}.25;" for name in self._reals]
        for _ in range(chance.between(3, 7)):
            body += self._statement(1, 2)
        result = " + ".join([*self._integers, *(f"(long){name}" for name in self._reals)])
        return [
            f"long function{self._number}(long n, struct {self._record} *r, long *a, double *d)",
            "{",
            *body,
            f"  return {result};",
            "}",
        ]

    def _integer(self, depth: int) -> str:
        """An expression with a whole value."""
        chance = self._chance
        kind = chance.below(8 if depth > 0 else 4)
        if kind == 0:
            return str(chance.below(200))
        if kind <= 2:
            return chance.choice(self._integers)
        if kind == 3:
            return f"(long)r->field{chance.below(8)}"
        if kind == 4:
            return f"a[({self._integer(depth - 1)}) & 255]"
        if kind == 5:
            return f"{self._table}[({self._integer(depth - 1)}) & 63]"
        operator = chance.choice(C_OPERATORS)
        right = self._integer(depth - 1)
        if operator in ("<<", ">>"):
            right = f"(({right}) & 15)"
        return f"({self._integer(depth - 1)} {operator} {right})"

    def _real(self, depth: int) -> str:
        """An expression with a real value."""
        chance = self._chance
        kind = chance.below(5 if depth > 0 else 2)
        if kind == 0:
            return f"{chance.below(100)}.5"
        if kind == 1:
            return chance.choice(self._reals)
        if kind == 2:
            return f"d[({self._integer(depth - 1)}) & 255]"
        return f"({self._real(depth - 1)} {chance.choice('+-*')} {self._real(depth - 1)})"

    def _condition(self) -> str:
        return f"{self._integer(1)} {self._chance.choice(('<', '>', '==', '!='))} {self._integer(1)}"

    def _statement(self, indent: int, depth: int) -> list[str]:
        """One statement, blocks up to `depth` deep."""
        chance = self._chance
        pad = "  " * indent
        kind = chance.below(10 if depth > 0 else 5)
        if kind == 0:
            return [f"{pad}{chance.choice(self._reals)} = {self._real(3)};"]
        if kind == 1:
            return [f"{pad}a[({self._integer(1)}) & 255] = {self._integer(3)};"]
        if kind == 2:
            return [f"{pad}d[({self._integer(1)}) & 255] += {self._real(2)};"]
        if kind in (3, 4):
            return [f"{pad}{chance.choice(self._integers)} {chance.choice('+-^')}= {self._integer(3)};"]
        if kind in (5, 6):
            count = chance.choice((16, 64, 256))
            inner = self._block(indent + 1, depth - 1)
            place = f"l{indent}"
            copy = f"{pad}  a[{place}] = a[{place}] * {chance.below(9)} + {self._table}[{place} & 63];"
            return [f"{pad}for (long {place} = 0; {place} < {count}; {place}++) {{", copy, *inner, f"{pad}}}"]
        if kind in (7, 8):
            inner = self._block(indent + 1, depth - 1)
            other = self._block(indent + 1, depth - 1)
            return [f"{pad}if ({self._condition()}) {{", *inner, f"{pad}}} else {{", *other, f"{pad}}}"]
        if self._number > 0 and chance.below(2):
            called = f"function{chance.below(self._number)}"
            return [f"{pad}n += {called}({self._integer(2)}, (void *)r->next, a, d);"]
        lines = [f"{pad}switch (({self._integer(2)}) & 7) {{"]
        for case in range(chance.between(3, 7)):
            lines += [f"{pad}case {case}:", *self._block(indent + 1, depth - 1), f"{pad}  break;"]
        return [*lines, f"{pad}}}"]

    def _block(self, indent: int, depth: int) -> list[str]:
        """One or two statements."""
        lines = self._statement(indent, depth)
        return lines + self._statement(indent, depth) if self._chance.below(2) else lines


# ---- Linear programs ----------------------------------------------------------------------------


def planning(scale: int) -> bytes:
    """A production plan as a linear program in MPS format: plants, goods, periods.

    Minimise the cost of making, storing and shipping goods so that every demand is met. Enough
    can be bought at a high price, so a solution exists; all costs are positive, so an optimum does.
    """
    plants, goods, periods = ((12, 30, 24), (5, 10, 8), (2, 3, 3))[scale]
    chance = Chance("planning")
    rows: list[str] = []
    columns: list[str] = []
    right: list[str] = []
    places = range(plants)

    def column(name: str, entries: Sequence[tuple[str, int]]) -> None:
        columns.extend(f"    {name:12}  {row:12}  {value}" for row, value in entries)

    for period in range(periods):
        for plant in places:
            rows.append(f" L  cap{plant}_{period}")
            right.append(f"    rhs           cap{plant}_{period}  {chance.between(100, 200) * goods}")
        for good in range(goods):
            rows += [f" E  bal{plant}_{good}_{period}" for plant in places]
            right += [
                f"    rhs           bal{plant}_{good}_{period}  {chance.between(20, 160)}"
                for plant in places
            ]
    for good in range(goods):
        for period in range(periods):
            for plant in places:
                balance = f"bal{plant}_{good}_{period}"
                made = [("cost", chance.between(5, 60)), (balance, 1)]
                column(
                    f"make{plant}_{good}_{period}",
                    [*made, (f"cap{plant}_{period}", chance.between(1, 4))],
                )
                column(f"buy{plant}_{good}_{period}", [("cost", 900), (balance, 1)])
                if period + 1 < periods:
                    store = [("cost", chance.between(1, 9)), (balance, -1)]
                    column(
                        f"keep{plant}_{good}_{period}",
                        [*store, (f"bal{plant}_{good}_{period + 1}", 1)],
                    )
                for other in sorted({(plant + 1) % plants, (plant + 5) % plants} - {plant}):
                    ship = [("cost", chance.between(2, 30)), (balance, -1)]
                    column(
                        f"ship{plant}_{other}_{good}_{period}",
                        [*ship, (f"bal{other}_{good}_{period}", 1)],
                    )
    lines = ["NAME          planning", "ROWS", " N  cost", *rows, "COLUMNS", *columns]
    return "".join(f"{line}\n" for line in [*lines, "RHS", *right, "ENDATA"]).encode()


# ---- Pictures -----------------------------------------------------------------------------------


def scene(scale: int) -> bytes:
    """A scene for POV-Ray: spheres in a glass-like lattice, carved solids, two lamps."""
    spheres, solids = ((3_000, 300), (400, 40), (20, 4))[scale]
    chance = Chance("scene")
    lines = [
        "#version 3.7;",
        "global_settings { assumed_gamma 1.0 max_trace_level 4 }",
        "camera { location <0, 6, -22> look_at <0, 1, 0> angle 48 }",
        "light_source { <20, 40, -30> color rgb <1, 0.95, 0.9> }",
        "light_source { <-30, 20, -20> color rgb <0.3, 0.35, 0.5> shadowless }",
        "plane { y, -3 pigment { checker color rgb 0.9 color rgb 0.25 scale 2 }"
        " finish { reflection 0.15 } }",
        "#declare Glass = finish { reflection 0.2 phong 0.8 phong_size 60 }",
    ]
    for _ in range(spheres):
        place = ", ".join(_tenths(chance.between(-90, 90)) for _ in "xyz")
        colour = ", ".join(_tenths(chance.between(1, 10)) for _ in "rgb")
        lines.append(
            f"sphere {{ <{place}>, 0.{chance.between(10, 45)} pigment {{ color rgb <{colour}> }}"
            " finish { Glass } }"
        )
    for number in range(solids):
        place = ", ".join(_tenths(chance.between(-80, 80)) for _ in "xyz")
        turn = ", ".join(str(chance.below(360)) for _ in "xyz")
        kind = ("bozo", "marble", "granite", "wood")[number % 4]
        lines.append(
            f"difference {{ box {{ -0.6, 0.6 }} sphere {{ 0, 0.{chance.between(65, 78)} }}"
            f" cylinder {{ -y, y, 0.3 }} pigment {{ {kind} scale 0.5 turbulence 0.4 }}"
            f" rotate <{turn}> translate <{place}> }}"
        )
    return "".join(f"{line}\n" for line in lines).encode()


def _tenths(value: int) -> str:
    """A number of tenths as a decimal, without arithmetic that could round."""
    return f"{'-' if value < 0 else ''}{abs(value) // 10}.{abs(value) % 10}"


VIDEO_SIZE = ((352, 288), (176, 144), (64, 64))
VIDEO_FRAMES = (24, 5, 2)


def video(scale: int) -> bytes:
    """Frames in planar YUV 4:2:0: a panning background, patches that move over it, a little noise."""
    width, height = VIDEO_SIZE[scale]
    chance = Chance("video")
    margin = 64
    background = _texture(chance, width + margin, height + margin)
    patches = [
        (_texture(chance, 48, 40), chance.between(-3, 3), chance.between(-3, 3), chance.below(width))
        for _ in range(6)
    ]
    frames = bytearray()
    for frame in range(VIDEO_FRAMES[scale]):
        luma = [
            bytearray(row[frame % margin : frame % margin + width])
            for row in background[frame // 2 % margin :][:height]
        ]
        for patch, right, down, start in patches:
            left = (start + right * frame) % (width - 48)
            top = (start + down * frame) % (height - 40)
            for row, line in enumerate(patch):
                luma[top + row][left : left + 48] = line
        for _ in range(width * height // 16):
            line = luma[chance.below(height)]
            place = chance.below(width)
            line[place] = min(255, line[place] + 6)
        frames += b"".join(luma)
        for shift in (40, 80):
            for row in range(0, height, 2):
                frames += bytes((value + shift) // 2 for value in luma[row][::2])
    return bytes(frames)


def _texture(chance: Chance, width: int, height: int) -> list[bytes]:
    """Rows of soft patterns: random values every eight pixels, joined by straight lines."""
    step = 8
    columns, rows = width // step + 2, height // step + 2
    grid = [[chance.between(16, 235) for _ in range(columns)] for _ in range(rows)]

    def value(x: int, y: int) -> int:
        left, top, right, down = x // step, y // step, x % step, y % step
        upper = grid[top][left] * (step - right) + grid[top][left + 1] * right
        lower = grid[top + 1][left] * (step - right) + grid[top + 1][left + 1] * right
        return (upper * (step - down) + lower * down) // (step * step)

    return [bytes(value(x, y) for x in range(width)) for y in range(height)]


# ---- Sound --------------------------------------------------------------------------------------

SAMPLES_PER_SECOND = 16_000
# Sounds of a made-up voice: three formants in hertz, and whether the vocal cords swing.
SOUNDS = (
    (730, 1090, 2440, True),
    (270, 2290, 3010, True),
    (300, 870, 2240, True),
    (530, 1840, 2480, True),
    (570, 840, 2410, True),
    (490, 1350, 1690, True),
    (250, 1200, 2100, True),
    (1800, 2700, 4200, False),
    (2500, 4500, 5600, False),
)


def speech(scale: int) -> bytes:
    """A made-up voice at 16 kHz, 16 bits: pulses or noise through three resonators, and pauses."""
    milliseconds = (24_000, 1_200, 200)[scale]
    chance = Chance("speech")
    samples: list[int] = []
    phase = 0
    state = [[0, 0] for _ in range(3)]
    while len(samples) * 1000 < milliseconds * SAMPLES_PER_SECOND:
        *formants, voiced = chance.choice(SOUNDS)
        loud = chance.choice((0, 500, 700, 900))
        pitch = chance.between(110, 150)
        for _ in range(chance.between(60, 160) * SAMPLES_PER_SECOND // 1000):
            phase += pitch
            value = chance.between(-20, 20) if voiced else chance.between(-loud - 1, loud + 1)
            if phase >= SAMPLES_PER_SECOND:
                phase -= SAMPLES_PER_SECOND
                value += 8 * loud if voiced else 0
            samples.append(_resonated(value, formants, state))
    return struct.pack(f"<{len(samples)}h", *samples)


def _resonated(value: int, formants: Sequence[int], state: list[list[int]]) -> int:
    """One sample through two-pole resonators in a row, in fixed point with 14 bits.

    A pole at angle w and radius r needs 2 r cos w; the cosine is a polynomial in whole numbers.
    """
    for formant, past in zip(formants, state, strict=True):
        # w / (pi / 2) in 14 bits, reflected into the first quadrant.
        angle = formant * 4 * 16_384 // SAMPLES_PER_SECOND
        sign, angle = (1, angle) if angle <= 16_384 else (-1, 32_768 - angle)
        square = angle * angle >> 14
        cosine = sign * (16_384 - (square * (20_213 - (square * 4_156 >> 14)) >> 14))
        radius = 15_900
        pole = cosine * radius >> 13
        value += (pole * past[0] - (radius * radius >> 14) * past[1]) >> 14
        value = max(-200_000, min(200_000, value))
        past[1], past[0] = past[0], value
        value >>= 2
    return max(-32_768, min(32_767, value))


PHONES_OPEN = ("AA", "AE", "AH", "AO", "EH", "ER", "EY", "IH", "IY", "OW", "UH", "UW")
PHONES_CLOSED = ("B", "D", "F", "G", "K", "L", "M", "N", "P", "R", "S", "SH", "T", "V", "W", "Z")


def _pronunciations(scale: int) -> list[tuple[str, str]]:
    """Made-up words of one to three syllables, and how they are said."""
    chance = Chance("pronunciations")
    words = []
    for number in range((600, 60, 6)[scale]):
        phones = " ".join(
            f"{chance.choice(PHONES_CLOSED)} {chance.choice(PHONES_OPEN)}"
            for _ in range(chance.between(1, 3))
        )
        words.append((f"word{number}", phones))
    return words


def speech_dictionary(scale: int) -> bytes:
    """How each word is said."""
    return "".join(f"{word} {phones}\n" for word, phones in _pronunciations(scale)).encode()


def speech_grammar(scale: int) -> bytes:
    """A grammar in which any word follows any other."""
    words = " | ".join(word for word, _ in _pronunciations(scale))
    return f"#JSGF V1.0;\ngrammar speech;\npublic <sentence> = ( {words} )+;\n".encode()


def speech_list(_scale: int) -> bytes:
    """The list of recordings that the recogniser works through."""
    return b"speech\n"


# ---- Documents ----------------------------------------------------------------------------------


def document(scale: int) -> bytes:
    """A book as XML: parts, chapters, sections with notes, tables, and references between them."""
    sections = (12_000, 900, 12)[scale]
    chance = Chance("document")
    language = Language(chance)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<book>"]
    for number in range(sections):
        if number % 60 == 0:
            lines.append(f'<part title="{language.word()}">')
        if number % 6 == 0:
            lines.append(f'<chapter id="c{number // 6}" title="{language.word()}">')
        lines.append(f'<section id="s{number}" author="{language.words[chance.below(40)]}">')
        lines += [_paragraph(chance, language, sections) for _ in range(chance.between(1, 5))]
        if chance.below(3) == 0:
            lines.append(_xml_table(chance, language))
        lines.append("</section>")
        if number % 6 == 5 or number == sections - 1:
            lines.append("</chapter>")
        if number % 60 == 59 or number == sections - 1:
            lines.append("</part>")
    return "".join(f"{line}\n" for line in [*lines, "</book>"]).encode()


def _paragraph(chance: Chance, language: Language, sections: int) -> str:
    """Running text with marks in it."""
    words = language.sentence().split()
    place = chance.below(len(words))
    kind = chance.below(4)
    if kind == 0:
        words[place] = f"<em>{words[place]}</em>"
    elif kind == 1:
        words[place] += f'<ref to="s{chance.below(sections)}"/>'
    elif kind == 2:
        words[place] += f"<note><em>{language.word()}</em> {language.sentence()}</note>"
    return f"<p>{' '.join(words)}</p>"


def _xml_table(chance: Chance, language: Language) -> str:
    """A small table of figures."""
    rows = (
        f"<row><cell>{language.word()}</cell><cell>{chance.below(1000)}</cell></row>"
        for _ in range(chance.between(2, 8))
    )
    return f"<table>{''.join(rows)}</table>"


# ---- Biology ------------------------------------------------------------------------------------

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
# How often each comes up among 1,000 residues of proteins, and log-odds scores by that measure.
AMINO_FREQUENCIES = (83, 14, 54, 67, 39, 71, 23, 59, 58, 97, 24, 41, 47, 39, 55, 66, 53, 69, 11, 30)
MOTIF_LENGTH = (240, 120, 30)


def _residues(chance: Chance, count: int) -> str:
    """Residues by their frequencies."""
    drawn = "".join(
        letter * share for letter, share in zip(AMINO_ACIDS, AMINO_FREQUENCIES, strict=True)
    )
    return "".join(chance.choice(drawn) for _ in range(count))


def _motif(scale: int) -> str:
    """The family that the profile describes."""
    return _residues(Chance("motif"), MOTIF_LENGTH[scale])


def proteins(scale: int) -> bytes:
    """Protein sequences in FASTA; one in eight has a mutated copy of the family in it."""
    count = (4_000, 120, 6)[scale]
    chance = Chance("proteins")
    motif = _motif(scale)
    lines = []
    for number in range(count):
        sequence = _residues(chance, chance.between(80, 500))
        if number % 8 == 0:
            start = chance.below(len(motif) // 2)
            copy = [
                _residues(chance, chance.below(3)) if chance.below(6) == 0 else residue
                for residue in motif[start:]
            ]
            sequence = sequence[:40] + "".join(copy) + sequence[40:]
        lines.append(f">P{number:06d}")
        lines += [sequence[at : at + 60] for at in range(0, len(sequence), 60)]
    return "".join(f"{line}\n" for line in lines).encode()


def profile(scale: int) -> bytes:
    """A profile hidden Markov model of the family, in the format of HMMER 2.

    All scores are log-odds in thousandths of a bit; `*` is a probability of zero.
    """
    chance = Chance("profile")
    motif = _motif(scale)
    lines = [
        "HMMER2.0  [2.3.2]",
        "NAME  family",
        f"LENG  {len(motif)}",
        "ALPH  Amino",
        "RF    no",
        "CS    no",
        "MAP   no",
        "XT      -8455     -4  -1000  -1000  -8455     -4  -8455     -4 ",
        "NULT      -4  -8455",
        "NULE     595  -1558     85    338   -294    453  -1158    197    249    902  -1085   -142    "
        " -21   -313     45    531    201    384  -1998   -644 ",
        "HMM        " + "".join(f"{letter:7}" for letter in AMINO_ACIDS),
        "         m->m   m->i   m->d   i->m   i->i   d->m   d->d   b->m   m->e",
        f"{'':6}{-12:7}{'*':>7}{-7000:7}",
    ]
    for place, residue in enumerate(motif, 1):
        scores = [
            chance.between(1800, 3200) if letter == residue else -chance.between(400, 2600)
            for letter in AMINO_ACIDS
        ]
        last = place == len(motif)
        moves = ["*"] * 9 if last else [-24, -6700, -7500, -894, -1115, -701, -1378, "*", "*"]
        if place == 1:
            moves[7] = -12
        if last:
            moves[8] = 0
        lines += [
            f"{place:6}" + "".join(f"{score:7}" for score in scores),
            f"{'-':>6}" + f"{0:7}" * 20,
            f"{'-':>6}" + "".join(f"{move:>7}" for move in moves),
        ]
    return "".join(f"{line}\n" for line in [*lines, "//"]).encode()


Generator: TypeAlias = Callable[[int], bytes]
"""From a scale's place in `SCALES` to the bytes."""

GENERATORS: dict[str, Generator] = {
    "crystal.gp": crystal,
    "document.xml": document,
    "mail": mail,
    "molecule.gp": molecule,
    "orders.sql": orders_sql,
    "planning.mps": planning,
    "positions.gtp": positions,
    "profile.hmm": profile,
    "proteins": proteins,
    "scene.pov": scene,
    "source.i": source,
    "speech.dict": speech_dictionary,
    "speech.gram": speech_grammar,
    "speech.list": speech_list,
    "speech.raw": speech,
    "text": text,
    "video.yuv": video,
}


if __name__ == "__main__":
    sys.stdout.write(sums())

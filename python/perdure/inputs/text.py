"""Prose, mail and XML: words as a language has them.

Always true here: `scale` is a place in `SCALES`; the same scale gives the same bytes.
"""

from __future__ import annotations

from perdure.inputs.chance import Chance

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
            for rank in range((1 << VOCABULARY_BITS) - 1)
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


def prose(scale: int) -> bytes:
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


def document(scale: int) -> bytes:
    """A book as XML: parts, chapters, sections with notes, tables, and references between them."""
    sections = (6_000, 600, 12)[scale]
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

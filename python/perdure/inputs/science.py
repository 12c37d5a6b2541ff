"""Problems from chemistry, crystallography, planning and biology.

Always true here: each has a solution that its program finds, and `scale` is a place in `SCALES`.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.inputs.chance import Chance


def molecule(scale: int) -> bytes:
    """What hartree-fock.gp computes."""
    atoms, primitives = ((6, 3), (4, 2), (2, 1))[scale]
    return f"atoms = {atoms}; primitives = {primitives}; spacing = 1.8;\n".encode()


def crystal(scale: int) -> bytes:
    """What refinement.gp refines."""
    atoms, reflections, cycles = ((40, 5, 4), (8, 3, 4), (3, 1, 5))[scale]
    return f"atoms = {atoms}; reflections = {reflections}; cycles = {cycles};\n".encode()


def planning(scale: int) -> bytes:
    """A production plan as a linear program in MPS format: plants, goods, periods.

    Minimise the cost of making, storing and shipping goods so that every demand is met. Enough
    can be bought at a high price, so a solution exists; all costs are positive, so an optimum does.
    """
    plants, goods, periods = ((10, 20, 16), (4, 8, 6), (2, 3, 3))[scale]
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
            right.append(
                f"    rhs           cap{plant}_{period}  {chance.between(100, 200) * goods}"
            )
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


AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
# How often each comes up among 1,000 residues of proteins, and that measured against one in twenty
# in thousandths of a bit, as HMMER 2 has it.
AMINO_FREQUENCIES = (83, 14, 54, 67, 39, 71, 23, 59, 58, 97, 24, 41, 47, 39, 55, 66, 53, 69, 11, 30)
NULL_SCORES = (
    *(595, -1558, 85, 338, -294, 453, -1158, 197, 249, 902),
    *(-1085, -142, -21, -313, 45, 531, 201, 384, -1998, -644),
)
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
        "NULE  " + "".join(f"{score:7}" for score in NULL_SCORES),
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
        within = ("*",) * 7 if last else (-24, -6700, -7500, -894, -1115, -701, -1378)
        moves = (*within, -12 if place == 1 else "*", 0 if last else "*")
        lines += [
            f"{place:6}" + "".join(f"{score:7}" for score in scores),
            f"{'-':>6}" + f"{0:7}" * 20,
            f"{'-':>6}" + "".join(f"{move:>7}" for move in moves),
        ]
    return "".join(f"{line}\n" for line in [*lines, "//"]).encode()

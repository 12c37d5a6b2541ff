"""Programs for programs: C for the compiler, SQL for the database.

Always true here: the C is valid and sets every variable before it uses it, the SQL leaves a whole
database, and `scale` is a place in `SCALES`.
"""

from __future__ import annotations

from perdure.inputs.chance import Chance

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
        return (
            f"{self._integer(1)} {self._chance.choice(('<', '>', '==', '!='))} {self._integer(1)}"
        )

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
            return [
                f"{pad}{chance.choice(self._integers)} {chance.choice('+-^')}= {self._integer(3)};"
            ]
        if kind in (5, 6):
            count = chance.choice((16, 64, 256))
            inner = self._block(indent + 1, depth - 1)
            place = f"l{indent}"
            copy = (
                f"{pad}  a[{place}] = a[{place}] * {chance.below(9)} + {self._table}[{place} & 63];"
            )
            return [
                f"{pad}for (long {place} = 0; {place} < {count}; {place}++) {{",
                copy,
                *inner,
                f"{pad}}}",
            ]
        if kind in (7, 8):
            inner = self._block(indent + 1, depth - 1)
            other = self._block(indent + 1, depth - 1)
            return [
                f"{pad}if ({self._condition()}) {{",
                *inner,
                f"{pad}}} else {{",
                *other,
                f"{pad}}}",
            ]
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


def orders(scale: int) -> bytes:
    """A shop's database filled, changed, asked and checked, as a script for sqlite3."""
    customers, rounds = ((60_000, 12), (6_000, 3), (60, 1))[scale]
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

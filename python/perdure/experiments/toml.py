"""TOML files read strictly: every key is checked for its type, unknown keys are refused.

Always true here: a refusal names the file, the table and the key, and the nearest known one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure import PerdureError
from perdure.values import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REQUIRED: Any = object()


class Table:
    """One table of a TOML file; keys that are read are known, `finish` refuses the others."""

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self._values = values
        self._place = place
        self._known: set[str] = set()

    @classmethod
    def read(cls, path: Path) -> Table:
        """A whole file."""
        try:
            return cls(tomllib.loads(path.read_text(encoding="utf-8")), path.name)
        except (OSError, ValueError) as error:
            raise PerdureError(f"cannot read {path}: {error}") from error
        except RecursionError:
            raise PerdureError(f"cannot read {path}: its values are nested too deeply") from None

    def text(self, key: str, default: str = REQUIRED) -> str:
        """A text."""
        return str(self._get(key, str, default))

    def integer(self, key: str, default: int = REQUIRED) -> int:
        """A whole number."""
        return int(self._get(key, int, default))

    def number(self, key: str, default: float | None = REQUIRED) -> float | None:
        """A number, or the default."""
        value = self._get(key, (int, float), default)
        return None if value is None else float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self._get(key, bool, default))

    def texts(self, key: str, default: Sequence[str] = REQUIRED) -> list[str]:
        """Several texts."""
        return self._list(key, str, default)

    def numbers(self, key: str, default: Sequence[float] = REQUIRED) -> list[float]:
        """Several numbers."""
        return self._list(key, (int, float), default)

    def choice(self, key: str, choices: Sequence[str], default: str = REQUIRED) -> str:
        """One of some texts."""
        value = self.text(key, default)
        if value not in choices:
            raise self.wrong(key, f"is {value!r}, and must be one of {', '.join(choices)}")
        return value

    def table(self, key: str) -> Table:
        """A table within."""
        return Table(self._get(key, dict, REQUIRED), f"{self._place}: [{key}]")

    def optional_table(self, key: str) -> Table | None:
        """A table within, if it is there."""
        value = self._get(key, dict, None)
        return None if value is None else Table(value, f"{self._place}: [{key}]")

    def tables(self) -> Iterator[tuple[str, Table]]:
        """All tables within, by name."""
        for key in self._values:
            yield key, self.table(key)

    def names(self) -> list[str]:
        """All keys, in the order of the file."""
        return list(self._values)

    def list_of_tables(self, key: str) -> list[Table]:
        """Tables that repeat, as `[[key]]`."""
        found = self._list(key, dict, ())
        return [Table(one, f"{self._place}: [[{key}]] {i + 1}") for i, one in enumerate(found)]

    def finish(self) -> None:
        """Refuses keys that nobody asked for."""
        for key in self._values:
            if key not in self._known:
                hint = nearest(key, self._known, "`")
                raise PerdureError(f"{self._place}: there is no key `{key}`{hint}")

    def wrong(self, key: str, what: str) -> PerdureError:
        """A refusal of one key's value."""
        return PerdureError(f"{self._place}: `{key}` {what}")

    def _get(self, key: str, kind: Any, default: Any) -> Any:
        self._known.add(key)
        if key not in self._values:
            if default is REQUIRED:
                raise PerdureError(f"{self._place}: the key `{key}` is missing")
            return default
        value = self._values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"has the wrong type: {value!r}")
        return value

    def _list(self, key: str, kind: Any, default: Any) -> list[Any]:
        values = self._get(key, list, default)
        if not all(isinstance(one, kind) for one in values):
            raise self.wrong(key, f"has a member of the wrong type: {values!r}")
        return list(values)


def texts_by_name(table: Table | None) -> dict[str, tuple[str, ...]]:
    """A table of lists of texts; an empty one where there is none."""
    return {} if table is None else {name: tuple(table.texts(name)) for name in table.names()}

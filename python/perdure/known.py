"""What is known before a run, typed: configurations, designs, machines.

Always true here: as in `perdure.results`: fields are the keys of the JSON, but for those in
`fields.BESIDE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from perdure import cells, frames
from perdure.fields import BESIDE, Json

if TYPE_CHECKING:
    import polars as pl


class Setting(TypedDict):
    """A key's value: in which unit, what it means, where it is from, and what hangs on it."""

    value: Any
    unit: str
    meaning: str
    source: str
    decides: str


class Configuration(frames.Framed, msgspec.Struct, frozen=True):
    """The effective configuration: as TOML, with its hash, and value by value with units."""

    toml: str
    hash: str
    values: Mapping[str, Setting]
    raw: Json

    @classmethod
    def from_json(cls, result: Json) -> Configuration:
        """Reads the core's answer."""
        return msgspec.convert({**result, "raw": result}, cls)

    def to_frame(self) -> pl.DataFrame:
        """One row for each key, its value as text."""
        import polars

        rows = self.values.values()
        columns = {name: [str(row.get(name)) for row in rows] for name in Setting.__annotations__}
        return polars.DataFrame({"key": list(self.values), **columns})

    def __repr__(self) -> str:
        return f"Configuration({self.hash}, {len(self.values)} keys)"

    def _repr_html_(self) -> str:
        return cells.preformatted(f"configuration {self.hash}", self.toml)


class PlantedBug(msgspec.Struct, frozen=True):
    """A mistake that a design can be made to have, by name."""

    name: str
    summary: str


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has a name and one line about it."""

    name: str
    summary: str
    raw: Json

    def __repr__(self) -> str:
        names = (one for one in self.__struct_fields__ if one not in BESIDE)
        said = ", ".join(f"{one}={getattr(self, one)!r}" for one in names)
        return f"{type(self).__name__}({said})"


class KnownDesign(Named, frozen=True, kw_only=True):
    """A design: what it promises, whose its epochs are, and how one goes on after a cut."""

    promise: str
    epochs: str
    recovery: Literal["resume", "restart"]
    planted_bugs: Sequence[PlantedBug] = ()


class KnownMachine(Named, frozen=True, kw_only=True):
    """A machine that comes with Perdure: its preset is the file at `path`."""

    path: str


class Catalogue(msgspec.Struct, frozen=True):
    """The designs and machines that this build knows."""

    designs: Sequence[KnownDesign]
    machines: Sequence[KnownMachine]

    @classmethod
    def from_json(cls, known: Json) -> Catalogue:
        """Reads the core's answer."""
        kept = {kind: [{**one, "raw": one} for one in known[kind]] for kind in known}
        return msgspec.convert(kept, cls)

    def __repr__(self) -> str:
        return f"Catalogue({len(self.designs)} designs, {len(self.machines)} machines)"

    def _repr_html_(self) -> str:
        known = [*self.designs, *self.machines]
        return cells.html("designs and machines", [(one.name, one.summary) for one in known])

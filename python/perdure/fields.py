"""What the fields of results are made of: numbers that know their unit.

Always true here: a unit stands at a type and nowhere else; schemas (`docs/schemas`) and frames read
it there.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

Json: TypeAlias = Mapping[str, Any]

BESIDE = ("raw", "stdout", "stderr")
"""Fields of results that stand beside the JSON, which does not have them."""


def unit(name: str) -> msgspec.Meta:
    """Says of a type in which unit its values are."""
    return msgspec.Meta(extra_json_schema={"unit": name})


Bytes: TypeAlias = Annotated[int, unit("bytes")]
Cycles: TypeAlias = Annotated[int, unit("cycles")]
Instructions: TypeAlias = Annotated[int, unit("instructions")]
Nanoseconds: TypeAlias = Annotated[int, unit("ns")]
Seconds: TypeAlias = Annotated[float, unit("s")]
Mips: TypeAlias = Annotated[float, unit("million instructions a second")]


def units(owner: type) -> dict[str, str]:
    """The unit of each of a type's fields that has one."""
    hints = typing.get_type_hints(owner, include_extras=True)
    return {name: found for name, hint in hints.items() if (found := _of(hint))}


def _of(hint: Any) -> str | None:
    """The unit of a type, or of the one that may be missing."""
    for one in (hint, *typing.get_args(hint)):
        for meta in getattr(one, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.extra_json_schema:
                return str(meta.extra_json_schema["unit"])
    return None

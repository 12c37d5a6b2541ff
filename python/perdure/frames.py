"""Results as data frames, of polars or of pandas.

Always true here: neither library is imported before a frame is asked for, and pandas (which Perdure
does not need) only by who asks for its frames.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from perdure import extras
from perdure._core import PerdureError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

UNIONS = (typing.Union, types.UnionType)


class Framed:
    """What can be had as a data frame."""

    __slots__ = ()

    def to_frame(self) -> pl.DataFrame:
        """A data frame of polars."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The same as a data frame of pandas, which has to be installed."""
        frame = self.to_frame()
        try:
            import pandas
        except ImportError as error:
            raise PerdureError(
                "to_pandas() needs pandas, which is not installed: pip install pandas"
            ) from error
        # Not polars' own to_pandas: that wants pyarrow's and pandas' versions to fit each other.
        return pandas.DataFrame(frame.to_dict(as_series=False))


def of_rows(kind: type, rows: Iterable[Any]) -> pl.DataFrame:
    """A frame with a row for each object of a class, a column for each field of one value."""
    with extras.need_reports("a data frame"):
        import polars

    rows = list(rows)
    schema = {name: one for name, one in _types(kind).items() if one is not None}
    columns = {name: [getattr(row, name) for row in rows] for name in schema}
    return polars.DataFrame(columns, schema=schema)


def _types(kind: type) -> dict[str, Any]:
    """What polars calls the types of a class's fields; None for what is no single value."""
    import polars

    known = {int: polars.Int64, float: polars.Float64, bool: polars.Boolean, str: polars.String}
    found = {}
    for name, hint in typing.get_type_hints(kind).items():
        parts = typing.get_args(hint) if typing.get_origin(hint) in UNIONS else (hint,)
        single = [part for part in parts if part is not type(None)]
        found[name] = known.get(single[0]) if len(single) == 1 else None
    return found

"""What comes with `perdure[reports]`: libraries that a power cut does not need.

Always true here: running programs, cutting the power, comparing, hunting and litmus tests need
none of them; where one is used first, and is not there, the message says what to install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perdure._core import PerdureError

REPORTS = frozenset(
    {"altair", "dask", "distributed", "jinja2", "polars", "pyarrow", "vl_convert"},
)


@contextmanager
def need_reports(what: str) -> Iterator[None]:
    """Around imports, or on a function that has some: says what is missing for `what`.

    Raises:
        PerdureError: one of the libraries is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in REPORTS:
            raise
        raise PerdureError(
            f"{what} needs {missing}, which is not installed: pip install 'perdure[reports]', or "
            "'.[reports]' in a source tree"
        ) from None

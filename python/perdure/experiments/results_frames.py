"""What `results.json` says, as data frames.

Always true here: columns and their types do not depend on what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl


def values(results: Mapping[str, Any]) -> pl.DataFrame:
    """One row for each number of a figure."""
    rows = [
        {"experiment": experiment["name"], **value}
        for experiment in results["experiments"]
        for value in experiment["values"]
    ]
    return pl.DataFrame(
        rows,
        schema={
            "experiment": pl.String,
            "model": pl.String,
            "subject": pl.String,
            "design": pl.String,
            "axis": pl.Float64,
            "part": pl.String,
            "value": pl.Float64,
            "deviation": pl.Float64,
            "points": pl.List(pl.String),
        },
    )


def claims(results: Mapping[str, Any]) -> pl.DataFrame:
    """One row for each claim in each model, with its verdict."""
    texts = ("id", "model", "says", "section", "paper", "measured_text", "verdict", "reason")
    rows = [
        {
            "experiment": experiment["name"],
            **{key: claim[key] for key in texts},
            "scaled_by": claim["scaled_by"],
            "measured": claim["measured"],
        }
        for experiment in results["experiments"]
        for claim in experiment["claims"]
    ]
    numbers = {"scaled_by": pl.Int64, "measured": pl.Float64}
    schema = {"experiment": pl.String, **dict.fromkeys(texts, pl.String), **numbers}
    return pl.DataFrame(rows, schema=schema)

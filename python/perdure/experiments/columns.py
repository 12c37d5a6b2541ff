"""The columns of `results.parquet` that every point has: type, meaning, unit.

Always true here: a column's name is never given to another meaning; the columns of statistics and
of what power cuts cost follow from the points themselves, with their units and meanings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl


class Column(NamedTuple):
    """A column: what polars calls its type, what it means, and its unit where it has one."""

    type: Any
    meaning: str
    unit: str = ""


COLUMNS: Mapping[str, Column] = {
    "key": Column(pl.String, "hash of everything that decides the result"),
    "experiments": Column(pl.List(pl.String), "the experiments that use the point"),
    "name": Column(pl.String, "workload, mix or program"),
    "scale": Column(pl.String, "quick, full, or empty for a sweep"),
    "design": Column(pl.String, "crash-consistency design"),
    "machine": Column(pl.String, "preset's name, or a machine file's path"),
    "overrides": Column(pl.List(pl.String), "KEY=VALUE on top of the machine"),
    "harts": Column(pl.Int64, "hardware threads"),
    "programs": Column(pl.List(pl.String), "what ran, in the order of the harts"),
    "config_hash": Column(
        pl.String, "of the effective configuration, whose text is in the file's metadata"
    ),
    "state_hash": Column(pl.String, "of the machine's final state"),
    "version": Column(pl.String, "of Perdure"),
    "core": Column(pl.String, "hash of the compiled simulator"),
    "warm_up_instructions": Column(
        pl.Int64, "of each program, before the region; null: the whole run counts", "instructions"
    ),
    "measure_instructions": Column(
        pl.Int64, "of each program, in the region; null: there is no limit", "instructions"
    ),
    "measure_threads": Column(pl.Boolean, "the region follows the threads"),
    "whole_phase": Column(pl.Boolean, "the region is the whole parallel phase"),
    "cycles": Column(pl.Int64, "of the region, or of the whole run", "cycles"),
    "instructions": Column(pl.Int64, "the same, of all harts", "instructions"),
    "program_cycles": Column(
        pl.List(pl.Int64), "until each program had retired its share", "cycles"
    ),
    "program_instructions": Column(
        pl.List(pl.Int64), "of each program until the region's end", "instructions"
    ),
    "exit_code": Column(pl.Int64, "null: the program was stopped at the region's end"),
    "host_seconds": Column(pl.Float64, "what the simulation took", "s"),
    "host_mips": Column(pl.Float64, "how fast it was", "million instructions a second"),
}

MODELS = Column(pl.List(pl.String), "of a paper with models: those that use the point")
"""Where a paper has models: the column `models`."""

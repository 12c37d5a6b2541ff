"""Finished points as one data frame and as Parquet.

Always true here: the columns and their types do not depend on which points there are, apart from
one column for each statistic; only the columns that start with `host_` differ between equal runs. A
file says of each column what it means and in which unit, and has each configuration once.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure import PerdureError, extras, outputs
from perdure.experiments.cache import Stored
from perdure.experiments.point import Point

with extras.need_reports("an experiment"):
    import polars as pl

    from perdure.experiments.columns import COLUMNS, MODELS

CONFIGURATIONS = b"perdure.configurations"
"""In the file's metadata: the text (TOML) of each effective configuration, by its hash, as JSON."""


def measured(stored: Stored) -> dict[str, Any]:
    """What counts of a finished run: its region, or where it has none the whole of it.

    `ended` are the statistics of the whole run: sizes as they are at its end. `cut_cost` and what
    the program `told` are of the whole run, too.
    """
    result = stored["result"]
    ended = result.get("statistics", {})
    region = result.get("region")
    of_all = {
        "ended": ended,
        "cut_cost": result.get("cut_cost") or {},
        "told": told(result.get("output", "")),
    }
    if region is not None:
        return {
            "cycles": region["cycles"],
            "instructions": region["instructions"],
            "programs": region["programs"],
            "whole_phase": region.get("whole_phase", False),
            "statistics": region["statistics"],
            **of_all,
        }
    simulated = result["sim"]
    whole = {"cycles": simulated["cycles"], "instructions": simulated["instructions"]}
    return {
        **whole,
        "programs": [whole],
        "whole_phase": False,
        "statistics": ended,
        **of_all,
    }


def told(output: str) -> dict[str, int]:
    """What a program measured of itself: its lines of a name and a number."""
    words = (line.split() for line in output.splitlines())
    return {one[0]: int(one[1]) for one in words if len(one) == 2 and one[1].isdecimal()}


WRITTEN = {
    "nvm.written_bytes.total": "nvm_written_bytes",
    "nvm.written_bytes.data": "nvm_written_bytes_data",
    "nvm.written_bytes.log": "nvm_written_bytes_log",
    "nvm.written_bytes.metadata": "nvm_written_bytes_metadata",
}
"""What a run's series has of the statistics."""


def sampled(stored: Stored) -> int:
    """Up to how many instructions of all harts a run's series goes."""
    series = stored["result"]["series"]
    return int(series[-1]["instructions"]) if series else 0


def sliced(stored: Stored, begin: int, end: int) -> dict[str, Any] | None:
    """A part of a run, from its series: from so many instructions of all harts to so many.

    Between two samples everything is taken to grow evenly. None if the run does not go that far.
    """
    series = [dict.fromkeys(("cycle", "instructions", *WRITTEN.values()), 0)]
    series += stored["result"]["series"]
    at = [sample["instructions"] for sample in series]
    if end > at[-1] or begin >= end:
        return None

    def amount(name: str, mark: int) -> float:
        place = max(bisect_left(at, mark), 1)
        before, after = series[place - 1], series[place]
        width = after["instructions"] - before["instructions"]
        share = (mark - before["instructions"]) / width if width else 0.0
        return float(before[name] + share * (after[name] - before[name]))

    grown = {
        name: {"value": amount(column, end) - amount(column, begin)}
        for name, column in WRITTEN.items()
    }
    cycles, instructions = amount("cycle", end) - amount("cycle", begin), end - begin
    whole = {"cycles": cycles, "instructions": instructions}
    return {**whole, "programs": [whole], "whole_phase": False, "statistics": grown, "ended": {}}


def row(stored: Stored) -> dict[str, Any]:
    """A finished run as one row."""
    point, result, region = stored["point"], stored["result"], measured(stored)
    return {
        "key": stored["key"],
        "experiments": [],
        "name": point["name"],
        "scale": "",
        "design": point["design"],
        "machine": point["machine"],
        "overrides": point["overrides"],
        "harts": point["harts"],
        "programs": [program["name"] for program in point["programs"]],
        "config_hash": stored["config_hash"],
        "state_hash": result["state_hash"],
        "version": stored["version"],
        "core": stored["core"],
        "warm_up_instructions": point["warm_up_instructions"],
        "measure_instructions": point["measure_instructions"],
        "measure_threads": point["measure_threads"],
        "whole_phase": region["whole_phase"],
        "cycles": region["cycles"],
        "instructions": region["instructions"],
        "program_cycles": [program["cycles"] for program in region["programs"]],
        "program_instructions": [program["instructions"] for program in region["programs"]],
        "exit_code": result["exit_code"],
        "host_seconds": result["host"]["seconds"],
        "host_mips": result["host"]["mips"],
        **{name: entry["value"] for name, entry in region["statistics"].items()},
        **{name: value for name, (value, _, _) in cut_costs(stored).items()},
    }


def cut_costs(stored: Stored) -> dict[str, tuple[int, str, str]]:
    """What power cuts would have cost, where they were probed: value, unit and meaning by name."""
    found = stored["result"].get("cut_cost") or {}
    parts = {key: spread for key, spread in found.items() if key != "cuts"}
    return {
        f"cut_cost.{key}.{rank}": (value, key.rpartition("_")[2], f"{rank} of power cuts probed")
        for key, spread in parts.items()
        for rank, value in spread.items()
    }


def meanings(stored: Sequence[Stored]) -> dict[str, tuple[str, str]]:
    """Unit and meaning of every statistic and cost, by name, in the order of the names."""
    found: dict[str, tuple[str, str]] = {}
    for one in stored:
        for name, entry in measured(one)["statistics"].items():
            found.setdefault(name, (entry["unit"], entry["meaning"]))
        for name, (_, unit, meaning) in cut_costs(one).items():
            found.setdefault(name, (unit, meaning))
    return dict(sorted(found.items()))


def frame(
    finished: Sequence[tuple[Stored, Mapping[str, Any]]], columns: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """The data set, a row for each point in the order given.

    With each comes what else its row says: of the known columns, or of further `columns`.
    """
    rows = [{**row(stored), **more} for stored, more in finished]
    names = meanings([stored for stored, _ in finished])
    known = {name: column.type for name, column in COLUMNS.items()}
    schema = {**known, **(columns or {}), **{name: _type(name, rows) for name in names}}
    return pl.DataFrame(
        {column: [one.get(column) for one in rows] for column in schema}, schema=schema
    )


def _type(name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    values = [one[name] for one in rows if name in one]
    return pl.Int64 if all(isinstance(value, int) for value in values) else pl.Float64


def write(
    data: pl.DataFrame,
    stored: Sequence[Stored],
    out: Path,
    more: Mapping[str, tuple[str, str]] | None = None,
) -> Path:
    """Writes `results.parquet`, with units and meanings in its metadata, and `statistics.parquet`.

    `more` has unit and meaning of further columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = meanings(stored)
    table = data.to_arrow()
    columns = {**COLUMNS, "models": MODELS}
    told = {name: (column.unit, column.meaning) for name, column in columns.items()}
    told |= {**(more or {}), **names}
    fields = []
    for field in table.schema:
        unit, meaning = told.get(field.name, ("", ""))
        known = {key: text for key, text in (("unit", unit), ("meaning", meaning)) if text}
        fields.append(field.with_metadata(known) if known else field)
    once = {one["config_hash"]: one["configuration"] for one in stored}
    schema = pa.schema(fields, metadata={CONFIGURATIONS: json.dumps(once, sort_keys=True)})
    path = out / "results.parquet"
    described = pl.DataFrame(
        {
            "statistic": list(names),
            "unit": [unit for unit, _ in names.values()],
            "meaning": [meaning for _, meaning in names.values()],
        },
        schema={"statistic": pl.String, "unit": pl.String, "meaning": pl.String},
    )
    try:
        with outputs.written(path) as file:
            pq.write_table(table.cast(schema), file, compression="zstd")
        with outputs.written(out / "statistics.parquet") as file:
            described.write_parquet(file)
    except OSError as error:
        raise PerdureError(f"cannot write {path}: {error}") from error
    return path


def configurations(path: Path) -> dict[str, str]:
    """The effective configurations behind a `results.parquet`: their texts (TOML) by hash."""
    import pyarrow.parquet as pq

    kept: dict[str, str] = json.loads(pq.read_schema(path).metadata[CONFIGURATIONS])
    return kept


def failures(failed: Sequence[tuple[Point, str]]) -> pl.DataFrame:
    """Failed points, with their messages."""
    return pl.DataFrame(
        [
            {
                "name": point.name,
                "design": point.design,
                "overrides": list(point.overrides),
                "error": error,
            }
            for point, error in failed
        ],
        schema={
            "name": pl.String,
            "design": pl.String,
            "overrides": pl.List(pl.String),
            "error": pl.String,
        },
    )

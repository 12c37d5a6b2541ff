"""The persist order of a run as Parquet: every write that persistent media accepted.

Always true here: rows stand in the order in which they become durable, among equals in that of
acceptance; `sequence` counts them. Laying the rows that are durable by a cycle over the memory that
there was at the start gives what the media hold then. Units and meanings stand in the metadata of
the columns, and the run's configuration in that of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from perdure import extras, outputs
from perdure._core import PerdureError

if TYPE_CHECKING:
    import pyarrow as pa

ROW = struct.Struct("<6QIHHB7x")
"""A row as the core writes it, before its data (`crates/perdure/src/timeline/rows.rs`)."""
NO_HART = 0xFFFF
TRAFFIC = ("write-back", "flush", "log", "metadata")
ROWS_PER_GROUP = 1 << 16

COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("sequence", "uint64", "", "the row's number, from 0"),
    ("accepted_cycle", "uint64", "cycles", "the module's queue took it"),
    ("begun_cycle", "uint64", "cycles", "it begins where it survives; until then a cut loses it"),
    (
        "durable_cycle",
        "uint64",
        "cycles",
        "it survives; a cut in between may leave some 8-byte words",
    ),
    ("module", "string", "", "the memory module"),
    ("address", "uint64", "bytes", "the first byte's physical address"),
    ("length", "uint32", "bytes", "how many bytes"),
    ("home_line_address", "uint64", "bytes", "the program's line that the bytes belong to"),
    ("traffic", "string", "", "what the bytes are for: " + ", ".join(TRAFFIC)),
    ("epoch", "uint64", "", "the epoch that was executing; 0 where there are none"),
    ("hart", "uint16", "", "in whose turn it was accepted; null for engines of design and devices"),
    ("data", "binary", "bytes", "what is written"),
)
"""Name, type, unit and meaning."""


def check() -> None:
    """Refuses a persist order where there is no library that writes it."""
    with extras.need_reports("a persist order"):
        import pyarrow.parquet  # noqa: F401


def raw(file: Path) -> Path:
    """Where the core writes its rows, until they are converted."""
    return file.with_name(f"{file.name}.rows")


def schema(about: Mapping[str, str]) -> pa.Schema:
    """The columns, with what is known of the run."""
    import pyarrow as pa

    fields = [
        pa.field(
            name,
            getattr(pa, kind)(),
            nullable=name == "hart",
            metadata={"unit": unit, "meaning": meaning},
        )
        for name, kind, unit, meaning in COLUMNS
    ]
    return pa.schema(fields, metadata=dict(about))


def convert(file: Path, modules: Sequence[str], about: Mapping[str, str]) -> int:
    """Makes Parquet of the core's rows, which are gone then; returns how many bytes it has.

    Raises:
        PerdureError: it cannot be written; what was there is as it was.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    source = raw(file)
    columns = schema(about)
    try:
        with (
            outputs.written(file) as unfinished,
            source.open("rb") as rows,
            parquet.ParquetWriter(unfinished, columns) as writer,
        ):
            for group in _groups(rows, modules):
                writer.write_table(pa.Table.from_pylist(group, schema=columns))
        return file.stat().st_size
    except OSError as error:
        raise PerdureError(f"the persist order {file}: {error.strerror or error}") from error
    finally:
        source.unlink(missing_ok=True)


def _groups(rows: BinaryIO, modules: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """The rows, so many at a time."""
    group: list[dict[str, Any]] = []
    sequence = 0
    while len(head := rows.read(ROW.size)) == ROW.size:
        accepted, begun, durable, address, home, epoch, length, module, hart, traffic = ROW.unpack(
            head
        )
        group.append(
            {
                "sequence": sequence,
                "accepted_cycle": accepted,
                "begun_cycle": begun,
                "durable_cycle": durable,
                "module": modules[module],
                "address": address,
                "length": length,
                "home_line_address": home,
                "traffic": TRAFFIC[traffic],
                "epoch": epoch,
                "hart": None if hart == NO_HART else hart,
                "data": rows.read(length),
            }
        )
        sequence += 1
        if len(group) == ROWS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group

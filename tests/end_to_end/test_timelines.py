"""Traces through the command: a Perfetto file, the persist order, ChampSim's instructions.

Always true here: files are read by other readers than the code that wrote them.
"""

from __future__ import annotations

import gzip
import json
import lzma
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from conftest import Command

from perdure import persist_order

RUN = ("--set", "epoch.instructions=20000", "--harts", "2")
PROGRAM = ("--", "@exerciser:500:64:300:2")


def traced(command: Command, folder: Path, *options: str | Path) -> tuple[dict[str, Any], str]:
    """The result of a traced run of the exerciser, and what the command said."""
    result = folder / "result.json"
    done = command("trace", *RUN, "--json", result, *options, *PROGRAM)
    told = json.loads(result.read_text())
    # The exerciser's status is a number that it has computed.
    assert done.status == told["exit_code"], done.stderr
    return told, done.stderr


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: numbers, and bytes of what has a length."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
            yield key >> 3, value
        else:
            assert key & 7 == 2, "no other wire type is used"
            length, at = varint(at)
            yield key >> 3, message[at : at + length]
            at += length


def one(message: bytes, number: int) -> int | bytes | None:
    return next((value for found, value in fields(message) if found == number), None)


def test_a_perfetto_file_has_whole_packets_and_every_slice_ends(
    command: Command, tmp_path: Path
) -> None:
    trace = tmp_path / "run.pftrace.gz"
    told, said = traced(command, tmp_path, "--out", trace)
    assert f"trace {trace}: " in said and "ui.perfetto.dev" in said
    depth: dict[int, int] = {}
    tracks, slices = set(), 0
    for number, packet in fields(gzip.decompress(trace.read_bytes())):
        assert number == 1 and isinstance(packet, bytes)
        descriptor, event = one(packet, 60), one(packet, 11)
        if isinstance(descriptor, bytes):
            tracks.add(one(descriptor, 1))
        if isinstance(event, bytes):
            track, kind = one(event, 11), one(event, 9)
            assert track in tracks, "a track is described before its first event"
            assert isinstance(track, int)
            if kind in (1, 2):
                depth[track] = depth.get(track, 0) + (1 if kind == 1 else -1)
                slices += kind == 1
    assert slices > 1000
    assert set(depth.values()) == {0}
    report = told["trace"]
    assert report["left_out"] == 0 and report["bytes"] == trace.stat().st_size


def test_a_persist_order_is_in_order_and_knows_its_units(command: Command, tmp_path: Path) -> None:
    order = tmp_path / "order.parquet"
    out = ("--out", tmp_path / "run.json", "--persist-order", order)
    told, _ = traced(command, tmp_path, *out)
    assert list(tmp_path.glob("*.rows")) == []
    table = parquet.read_table(order)
    assert table.column_names == [name for name, *_ in persist_order.COLUMNS]
    metadata = table.schema.metadata
    assert metadata[b"perdure.config_hash"].decode() == told["config_hash"]
    assert table.schema.field("durable_cycle").metadata[b"unit"] == b"cycles"
    durable = table["durable_cycle"].to_pylist()
    assert durable == sorted(durable)
    assert table["sequence"].to_pylist() == list(range(len(table)))
    lengths = table["length"].to_pylist()
    assert lengths == [len(data) for data in table["data"].to_pylist()]
    written = told["nvm"]["written_bytes"]
    by_traffic = dict.fromkeys(persist_order.TRAFFIC, 0)
    for name, length in zip(table["traffic"].to_pylist(), lengths, strict=True):
        by_traffic[name] += length
    assert by_traffic["log"] == written["log"] and by_traffic["metadata"] == written["metadata"]
    home = by_traffic["write-back"] + by_traffic["flush"]
    assert home == written["data"] + written["context"]
    assert told["trace"]["persist_order"]["rows"] == len(table)


@pytest.mark.parametrize("ending", ["xz", "gz"])
def test_champsim_traces_follow_the_program(command: Command, tmp_path: Path, ending: str) -> None:
    trace = tmp_path / f"run.champsim.{ending}"
    told, _ = traced(command, tmp_path, "--out", tmp_path / "run.json", "--champsim", trace)
    files = told["trace"]["champsim"]
    assert sum(hart["instructions"] for hart in files) == told["sim"]["instructions"]
    opened = lzma.open if ending == "xz" else gzip.open
    with opened(files[0]["file"]) as file:
        content = file.read()
    records = list(struct.iter_unpack("<Q2B2B4B2Q4Q", content))
    assert len(records) == files[0]["instructions"]
    jumps = 0
    for before, after in pairwise(records):
        distance = after[0] - before[0]
        is_taken = before[2]
        # A system call, which does not retire, may stand between two that follow each other.
        jumps += not is_taken and distance not in (2, 4, 6, 8)
    # Another thread's instructions may.
    assert jumps <= 4
    taken = sum(record[2] for record in records)
    assert taken == files[0]["branches_taken"]


def test_a_trace_that_cannot_be_is_refused_with_one_message(command: Command) -> None:
    for options, part in (
        (("--sample", "4"), "is not 1/N"),
        (("--out", "a.txt"), "the name says the format"),
    ):
        done = command("trace", *options, *PROGRAM)
        assert done.status == 2 and part in done.stderr.replace("\n", " "), done.stderr

"""The persist order as Parquet: made of the core's rows, which go, and whole or not there."""

import errno

import pytest

from perdure import PerdureError, persist_order

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def file(core, tmp_path):
    """A file whose rows the core has written, and that was there before."""
    file = tmp_path / "order.parquet"
    file.write_text("before")
    row = persist_order.ROW.pack(1, 2, 3, 64, 64, 0, 4, 0, persist_order.NO_HART, 1)
    persist_order.raw(file).write_bytes((row + b"data") * 3)
    return file


def test_rows_become_a_file_and_are_gone(file):
    size = persist_order.convert(file, ["nvm"], {"perdure.design": "picl"})
    assert size == file.stat().st_size
    rows = parquet.read_table(file).to_pylist()
    assert [row["sequence"] for row in rows] == [0, 1, 2]
    assert rows[0]["data"] == b"data" and rows[0]["hart"] is None
    assert [one.name for one in file.parent.iterdir()] == ["order.parquet"]


def test_a_disk_that_is_full_leaves_the_earlier_file(file, monkeypatch):
    write = parquet.ParquetWriter.write_table

    def full(self, table):
        write(self, table)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(PerdureError, match=r"order\.parquet: No space left on device"):
        persist_order.convert(file, ["nvm"], {})
    assert file.read_text() == "before"
    assert [one.name for one in file.parent.iterdir()] == ["order.parquet"]

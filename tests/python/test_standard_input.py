"""What `--stdin -` takes: this command's own input, of which an end must be seen."""

import contextlib
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from perdure import PerdureError, standard_input


@pytest.fixture
def most(monkeypatch):
    monkeypatch.setattr(standard_input, "MOST_BYTES", 1000)


@pytest.fixture
def opened():
    """Opens a file that is closed again."""
    with contextlib.ExitStack() as files:
        yield lambda path: files.enter_context(Path(path).open())


def test_an_input_without_an_end_is_refused(core, command, monkeypatch, most, opened, tmp_path):
    monkeypatch.setattr(sys, "stdin", opened("/dev/zero"))
    status, out, err = command("run", "--stdin", "-", "--out", tmp_path / "kept", "--", "program")
    assert (status, out, core.requests) == (2, "", [])
    assert err == "perdure: --stdin -: standard input goes on after 0 GiB: give a file\n"


@pytest.mark.parametrize("size", [0, 1000])
def test_a_pipe_is_taken_whole(monkeypatch, most, size):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a" * size), fileno=_none))
    assert Path(standard_input.kept(None)).read_bytes() == b"a" * size


def test_a_file_has_an_end(monkeypatch, most, opened, tmp_path):
    (tmp_path / "long").write_bytes(b"a" * 2000)
    monkeypatch.setattr(sys, "stdin", opened(tmp_path / "long"))
    assert Path(standard_input.kept(tmp_path)).stat().st_size == 2000
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a" * 1001), fileno=_none))
    with pytest.raises(PerdureError, match="goes on after"):
        standard_input.kept(tmp_path)


def _none():
    raise io.UnsupportedOperation("fileno")

"""The catalogues of programs that keep pools.

Always true here: every program of a folder is in its catalogue and the reverse.
"""

from __future__ import annotations

import pytest
from conftest import REPOSITORY, arguments_of, catalogue

KINDS = ("flush", "strand", "nearpm")


@pytest.mark.parametrize("kind", KINDS)
def test_every_program_is_in_the_catalogue(kind: str) -> None:
    listed = {entry.text("program") for entry in catalogue(f"{kind}.toml").values()}
    sources = REPOSITORY / "workloads" / kind
    assert listed == {path.stem for path in sources.glob("*.c")}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in sorted(catalogue(f"{kind}.toml"))]
)
def test_the_catalogue_is_sound(kind: str, name: str) -> None:
    entries = catalogue(f"{kind}.toml")
    entry = entries[name]
    assert entry.text("kind") == kind
    assert entry.text("stands_for") and entry.text("summary")
    for size in ("full", "quick", "tiny"):
        assert arguments_of(entries)(name, size)[0].startswith("/pmem/")

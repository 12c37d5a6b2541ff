"""The tutorials: each runs from its first cell to its last, and its page is of this very notebook.

Always true here: a notebook runs in an empty folder, in a kernel of its own; what it claims it
asserts in its cells, so numbers may change with a compiler.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / ".ci"))

import tutorials

NAMES = [path.stem for path in tutorials.notebooks()]


def notebook(name: str) -> Path:
    return REPOSITORY / "docs/tutorials" / f"{name}.ipynb"


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs_and_makes_a_page(name: str, tmp_path: Path) -> None:
    done = tutorials.executed(notebook(name), tmp_path)
    text, files = tutorials.page(done, name)
    printed = [one.text for cell in done.cells for one in cell.get("outputs", ()) if "text" in one]
    assert printed and "RunResult(ran: " in text
    for file, data in files.items():
        assert f"]({file})" in text and b"<svg" in data[:200]
    # What a guest writes goes to its cell.
    assert name != "first-power-cut" or "2000000 in all accounts" in "".join(printed)


def test_every_page_is_of_its_notebook() -> None:
    assert NAMES == ["compare-designs", "find-the-bug", "first-power-cut", "write-a-design"]
    for name in NAMES:
        assert tutorials.missing(notebook(name)) == [], f"{name}: run make tutorials"
        assert not any(cell.get("outputs") for cell in tutorials.cells(notebook(name)))


def test_a_cell_that_is_not_in_the_page_is_noticed(tmp_path: Path) -> None:
    text = notebook(NAMES[0]).read_text().replace("one call for each design", "another text", 1)
    (tmp_path / "a.ipynb").write_text(text)
    (tmp_path / "a.md").write_text(notebook(NAMES[0]).with_suffix(".md").read_text())
    assert tutorials.missing(tmp_path / "a.ipynb") == ["## Run it under each"]


def test_rust_that_is_shown_is_the_examples() -> None:
    example = (REPOSITORY / "docs/examples/flush_at_epoch_end.rs").read_text()
    sources = [cell.source for cell in tutorials.cells(notebook("write-a-design"))]
    shown = [part.split("```")[0] for one in sources for part in one.split("```rust\n")[1:]]
    assert len(shown) == 5
    for part in shown:
        assert part.rstrip() in example

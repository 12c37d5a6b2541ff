"""Runs the tutorials and makes a page of each: docs/tutorials/NAME.ipynb becomes NAME.md.

    tutorials.py [NAME...]  runs these, or all of them, and writes pages and figures
    tutorials.py --check    only says what of the notebooks their pages do not have

Always true: a notebook is kept without what came of it, which stands in its page alone; a page has
every cell of its notebook, in order, and text in place of tables.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from nbconvert import MarkdownExporter

FOLDER = Path(__file__).parents[1] / "docs/tutorials"
SECONDS = 300
"""For one cell; each takes some seconds on a machine that has nothing else to do."""
SHOWN = ["image/svg+xml", "text/markdown", "text/plain"]
"""Of several forms of one output, the first that is there."""


def notebooks() -> list[Path]:
    """All tutorials."""
    return sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[Any]:
    """A notebook's cells, as they are kept."""
    return list(nbformat.read(path, as_version=4).cells)


def executed(path: Path, folder: Path) -> Any:
    """A notebook with what comes of it in an empty folder; an error of a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    return client.execute()


def page(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook that was executed, and the files of its figures."""
    exporter = MarkdownExporter()
    exporter.register_preprocessor(_plain, enabled=True)
    resources = {"unique_key": name, "output_files_dir": "."}
    text, made = exporter.from_notebook_node(notebook, resources=resources)
    body = "\n".join(line.rstrip() for line in text.strip().splitlines())
    body = re.sub(r"\n{4,}", "\n\n", body).replace("](./", "](")
    head = f"<!-- made of {name}.ipynb by .ci/tutorials.py -->\n\n"
    files = {Path(file).name: data for file, data in made["outputs"].items()}
    return f"{head}{body}\n", files


def _plain(notebook: Any, resources: Any) -> tuple[Any, Any]:
    """Leaves of each output the form that a page shows, and of erased progress nothing."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            forms = output.get("data", {})
            chosen = next((form for form in SHOWN if form in forms), None)
            if chosen is not None:
                output["data"] = {chosen: forms[chosen]}
        if "outputs" in cell:
            cell.outputs = [one for one in cell.outputs if one.get("data") != {"text/plain": ""}]
    return notebook, resources


def missing(path: Path) -> list[str]:
    """The cells of a notebook, by their first lines, that its page does not have in this order."""
    text = path.with_suffix(".md").read_text("utf-8")
    at, lacking = 0, []
    for cell in cells(path):
        source = "\n".join(line.rstrip() for line in cell.source.strip().splitlines())
        found = text.find(source, at)
        if found < 0:
            lacking.append(source.splitlines()[0])
        else:
            at = found + len(source)
    return lacking


def write(path: Path) -> None:
    """Runs a tutorial, and writes its page and figures."""
    with tempfile.TemporaryDirectory() as folder:
        text, files = page(executed(path, Path(folder)), path.stem)
    for old in FOLDER.glob(f"{path.stem}_*.svg"):
        old.unlink()
    path.with_suffix(".md").write_text(text, "utf-8")
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)


def main() -> None:
    """Makes the pages, or checks them."""
    os.environ["COLUMNS"] = "80"
    if sys.argv[1:] == ["--check"]:
        stale = [f"{path.name}: {line}" for path in notebooks() for line in missing(path)]
        sys.exit("\n".join(["not in the page; run make tutorials:", *stale]) if stale else 0)
    named = sys.argv[1:]
    for path in (path for path in notebooks() if not named or path.stem in named):
        print(f"· {path.relative_to(FOLDER.parents[1])}", flush=True)
        write(path)


if __name__ == "__main__":
    main()

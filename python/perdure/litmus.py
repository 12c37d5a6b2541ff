"""The command `perdure litmus`: what a power cut may leave of a few instructions, by a model.

Always true here: what is printed is the model's set; it never stands for what a machine did.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from perdure import _core, render, tables
from perdure.api import Json
from perdure.options import JsonOption

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Litmus tests, as docs/persistency.md has them."),
]


def decide(files: list[Path]) -> Json:
    """What the model of each test allows, and whether that is what the file states."""
    answer: Json = json.loads(_core.litmus(json.dumps({"files": [str(file) for file in files]})))
    return answer


def litmus(files: Files, json_file: JsonOption = None) -> None:
    """Decide litmus tests by their models; exit 1 if one allows something else than it states."""
    decided = decide(files)
    console = Console(stderr=json_file == "-", highlight=False)
    for test in decided["tests"]:
        console.print(tables.line(f"{test['file']}: {test['name']} ({test['model']})", "bold"))
        for contents in test["contents"]:
            console.print(tables.line(f"  {contents}"))
        for text in _verdict(test):
            console.print(tables.line(f"  {text}"))
    differing = [test for test in decided["tests"] if _differs(test)]
    count = len(decided["tests"])
    console.print(
        tables.line(f"{count - len(differing)} of {count} tests as stated; none ran on a machine")
    )
    render.write_json(decided, json_file)
    raise typer.Exit(int(bool(differing)))


def _differs(test: Json) -> bool:
    return test["stated"] is not None and not test["stated"]["agrees"]


def _verdict(test: Json) -> list[str]:
    """How a model's set compares with what the file states."""
    stated = test["stated"]
    if stated is None:
        return ["the file states nothing"]
    if stated["agrees"]:
        return ["as the file states"]
    missing = [f"stated, but not allowed: {contents}" for contents in stated["not_in_model"]]
    return missing + [f"allowed, but not stated: {contents}" for contents in stated["not_stated"]]

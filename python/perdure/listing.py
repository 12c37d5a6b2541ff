"""What can be listed: designs, machines, workloads, papers, planted bugs, configuration keys.

Always true here: each kind is asked of whoever has it, and is a list of plain rows; the table of a
kind has the rows' own fields, and nothing that they do not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.markup import escape

from perdure import PerdureError, api, experiments, workloads
from perdure.requests import NO_KEYS, spelled
from perdure.tables import number, table

Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of what can be listed.

    `rows` are what JSON has, `columns` the headings and how a row is shown; under those of `prose`
    there are sentences, under those of `numbers` there are numbers.
    """

    what: str
    rows: Callable[[], list[Row]]
    columns: Sequence[str]
    cells: Callable[[Row], Sequence[str]]
    prose: Sequence[str]
    numbers: int = 0
    keys: int = 1


def _designs() -> list[Row]:
    return [dict(one.raw) for one in api.catalogue().designs]


def _machines() -> list[Row]:
    return [dict(one.raw) for one in api.catalogue().machines]


def _workloads() -> list[Row]:
    return [
        {"name": one.name, "summary": one.summary, "source": str(one.source)}
        for one in workloads.catalogue()
    ]


def _papers() -> list[Row]:
    """Every paper's experiments."""
    from perdure.experiments import declaration

    found = []
    for name in experiments.papers():
        paper = declaration.paper(name)
        figures = [
            {"name": figure, "title": one.title}
            for figure, one in declaration.experiments(name, "quick").items()
        ]
        found.append(
            {
                "name": name,
                "title": paper.title,
                "reference": paper.reference,
                "machine": paper.machine,
                "experiments": figures,
            }
        )
    return found


def _bugs() -> list[Row]:
    return [
        {"design": design.name, **bug}
        for design in api.catalogue().designs
        for bug in design.raw.get("planted_bugs", ())
    ]


def _keys() -> list[Row]:
    """The first preset's keys, and each design's as the first preset that takes it has them."""
    values = dict(api.Machine().configuration().raw["values"])
    known = api.catalogue()
    for design in known.designs:
        for machine in known.machines:
            with suppress(PerdureError):
                has = api.Machine(machine=machine.name, design=design.name).configuration()
                own = f"{design.name}."
                values |= {
                    key: one for key, one in has.raw["values"].items() if key.startswith(own)
                }
                break
    return [{"key": key, **values[key]} for key in sorted(values) if key not in NO_KEYS]


KINDS = {
    "designs": Kind(
        "designs, for --design",
        _designs,
        ("design", "what it is", "what it promises", "planted bugs"),
        lambda row: (
            row["name"],
            row["summary"],
            str(row.get("promise", "")),
            number(len(row.get("planted_bugs", ()))),
        ),
        ("what it is",),
        numbers=1,
    ),
    "machines": Kind(
        "machine presets, for --machine",
        _machines,
        ("machine", "what it is", "file"),
        lambda row: (row["name"], row["summary"], str(row.get("path", ""))),
        ("what it is",),
    ),
    "workloads": Kind(
        "programs whose source comes with Perdure",
        _workloads,
        ("workload", "what it is", "source"),
        lambda row: (row["name"], row["summary"], _near(row["source"])),
        ("what it is",),
    ),
    "papers": Kind(
        "papers, with their experiments, for perdure reproduce PAPER [FIGURE]...",
        _papers,
        ("paper", "title", "from", "experiments"),
        lambda row: (
            row["name"],
            row["title"],
            row["reference"],
            ", ".join(one["name"] for one in row["experiments"]),
        ),
        ("title", "from", "experiments"),
    ),
    "bugs": Kind(
        "planted bugs, for --planted-bug with their --design, and for perdure mutants",
        _bugs,
        ("design", "bug", "what it does"),
        lambda row: (row["design"], row["name"], row["summary"]),
        ("what it does",),
    ),
    "keys": Kind(
        "keys of the configuration, for --set, as the machine picl has them",
        _keys,
        ("key", "value", "unit", "what it means"),
        lambda row: (row["key"], spelled(row["value"]), row["unit"], row["meaning"]),
        ("what it means",),
        keys=3,
    ),
}
"""Every kind by its name."""


def shown(kind: str, rows: Sequence[Row]) -> RenderableType:
    """A kind as a table."""
    one = KINDS[kind]
    left = len(one.columns) - one.numbers
    made = table("", *one.columns, left=left, keys=one.keys, prose=one.prose)
    for row in rows:
        made.add_row(*map(escape, one.cells(row)))
    return made


def overview(found: dict[str, list[Row]]) -> RenderableType:
    """Every kind: what it is, and how many there are."""
    made = table("", "perdure list …", "how many", "what", prose=("what",))
    for kind, rows in found.items():
        made.add_row(kind, number(len(rows)), KINDS[kind].what)
    return made


def _near(path: str) -> str:
    """A path as people write it here."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path

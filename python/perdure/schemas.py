"""JSON Schemas of all results, made of their types: `python -m perdure.schemas docs/schemas`.

Always true here: a schema says exactly what the types say, with the unit of every number that has
one (`unit`); those in `docs/schemas` are open: a result of a newer build may have more keys.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from perdure import answers, bench_results, check_results, cut_results, known, outputs, results
from perdure._core import PerdureError
from perdure.fields import BESIDE

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def kinds() -> Mapping[str, tuple[Any, str]]:
    """Every kind of result: its type, and what writes it."""
    from perdure.experiments import written

    return {
        "run": (results.RunResult, "perdure run, replicate, replica DIR resume; result.json"),
        "cut": (cut_results.CutReport, "perdure cut, replay; result.json"),
        "compare": (answers.Compare, "perdure compare; result.json"),
        "mutants": (results.MutantsReport, "perdure mutants DESIGN, --only GROUP"),
        "all-mutants": (answers.AllMutants, "perdure mutants"),
        "hunt": (answers.Hunt, "perdure hunt"),
        "check": (check_results.Check, "perdure check"),
        "check-state": (check_results.Again, "perdure check --state"),
        "litmus": (answers.Litmus, "perdure litmus"),
        "configuration": (known.Configuration, "perdure config"),
        "designs": (answers.ListedDesigns, "perdure list designs"),
        "machines": (answers.ListedMachines, "perdure list machines"),
        "workloads": (answers.ListedWorkloads, "perdure list workloads"),
        "replicate-from": (answers.Forwarded, "perdure replicate --from"),
        "store": (answers.Manifest, "store.json of a snapshot store"),
        "travel-epochs": (answers.Epochs, "perdure travel DIR epochs"),
        "travel-read": (answers.Read, "perdure travel DIR read"),
        "travel-history": (answers.History, "perdure travel DIR history"),
        "travel-diff": (answers.Diff, "perdure travel DIR diff"),
        "travel-dump": (answers.Dump, "perdure travel DIR dump"),
        "reproduction": (written.Results, "results.json of perdure reproduce"),
        "sensitivity": (written.Sensitivity, "sensitivity.json of perdure sensitivity"),
        "bench-speed": (bench_results.BenchSpeed, "perdure bench speed"),
        "bench-fork": (bench_results.BenchFork, "perdure bench fork"),
        "bench-cuts": (bench_results.BenchCuts, "perdure bench cuts"),
        "bench-check": (bench_results.BenchCheck, "perdure bench check"),
        "bench-misses": (bench_results.BenchMisses, "perdure bench misses"),
    }


def schema(kind: str, *, closed: bool = False) -> Schema:
    """The schema of one kind of result; `closed`, it refuses keys that it does not know.

    Raises:
        PerdureError: there is no such kind.
    """
    if kind not in kinds():
        raise PerdureError(f"there is no result {kind!r}: results are {', '.join(kinds())}")
    type_, writer = kinds()[kind]
    (top,), parts = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    for name, part in parts.items():
        if "description" in part:
            part["description"] = inspect.cleandoc(part["description"])
        for beside in _beside(name):
            part["properties"].pop(beside, None)
            part["required"] = [one for one in part["required"] if one != beside]
        if closed:
            part["additionalProperties"] = False
    return {"$schema": DIALECT, "title": writer, **top, "$defs": dict(sorted(parts.items()))}


def _beside(name: str) -> list[str]:
    """Fields of the class of that name which its JSON does not have."""
    owners = (getattr(module, name, None) for module in (results, cut_results, known))
    fields = getattr(next(filter(None, owners), None), "__struct_fields__", ())
    return [one for one in BESIDE if one in fields]


def texts() -> dict[str, str]:
    """The text of each schema's file, by its name."""
    return {
        f"{kind}.json": json.dumps(schema(kind), indent=1, ensure_ascii=False) + "\n"
        for kind in kinds()
    }


def main() -> None:
    """Writes all of them into a folder."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m perdure.schemas FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        outputs.write_text(folder / name, text)


if __name__ == "__main__":
    main()

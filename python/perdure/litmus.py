"""The command `perdure litmus`: what a cut may leave of a few instructions, what machines leave.

Always true here: the model's set and the machines' are printed apart; neither stands for the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure import PerdureError, _core, outputs, tables, terminal
from perdure.check_words import printable
from perdure.commands.shared import finish
from perdure.options import JsonOption, PlantedBugOption

if TYPE_CHECKING:
    from perdure.answers import Litmus, LitmusTest, OnMachines

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Litmus tests, as docs/persistency.md has them."),
]
CutsOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Cuts of each test on each machine; 0: models alone.",
        show_default="500",
    ),
]


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**64):
        raise typer.BadParameter(f"'{text}' is not a whole number from 0 to {2**64 - 1}")
    return int(text)


SeedOption = Annotated[
    int | None,
    typer.Option(
        parser=_seed, metavar="N", help="Seed of everything that is chosen.", show_default="1"
    ),
]


def decide(files: list[Path], **asked: int | str | None) -> Litmus:
    """What the model of each test allows, whether the file states that, and what machines left.

    What may be asked for are `cuts`, `seed` and `planted_bug`.
    """
    for file in files:
        if file.is_dir():
            raise PerdureError(f"{file} is a folder: name the tests in it, as {file}/*.toml does")
    request = {"files": [str(file) for file in files], **asked}
    answer: Litmus = json.loads(_core.litmus(json.dumps(request)))
    return answer


def litmus(
    files: Files,
    cuts: CutsOption = None,
    seed: SeedOption = None,
    planted_bug: PlantedBugOption = None,
    json_file: JsonOption = None,
) -> None:
    """Decide litmus tests by their models and run them on the machine.

    Exit 1 if a model allows something else than its file states, or a machine leaves what the model
    forbids. Ctrl-C ends it with what is decided so far, and what the cuts until then have left.
    """
    decided = decide(files, cuts=cuts, seed=seed, planted_bug=planted_bug)
    outputs.write_json(decided, json_file)
    console = terminal.tables(json_file)
    for test in decided["tests"]:
        head = printable(f"{test['file']}: {test['name']} ({test['model']})")
        console.print(tables.line(head, "bold"), highlight=False)
        for contents in test["contents"]:
            console.print(tables.line(f"  {contents}"), highlight=False)
        for text in _verdict(test) + _on_machine(test["machine"]):
            console.print(tables.line(f"  {text}"), highlight=False)
    for text in _summary(decided["tests"]):
        console.print(tables.line(text), highlight=False)
    wrong = any(_differs(test) or _is_unsound(test) for test in decided["tests"])
    finish(int(wrong), decided["interrupted"])


def _differs(test: LitmusTest) -> bool:
    return test["stated"] is not None and not test["stated"]["agrees"]


def _is_unsound(test: LitmusTest) -> bool:
    return test["machine"] is not None and bool(test["machine"]["unsound"])


def _verdict(test: LitmusTest) -> list[str]:
    """How a model's set compares with what the file states."""
    stated = test["stated"]
    if stated is None:
        return ["the file states nothing"]
    if stated["agrees"]:
        return ["as the file states"]
    missing = [f"stated, but not allowed: {contents}" for contents in stated["not_in_model"]]
    return missing + [f"allowed, but not stated: {contents}" for contents in stated["not_stated"]]


def _on_machine(machine: OnMachines | None) -> list[str]:
    """How what machines left compares with the model's set."""
    if machine is None:
        return ["no machine has run it"]
    if machine["unsound"]:
        return [
            f"unsound: {one['contents']}: {one['machine']}, {one['design']}, run {one['run']}, "
            f"cut at cycle {one['cycle']}: {', '.join(one['settings'])}"
            for one in machine["unsound"]
        ]
    made = f"{machine['cuts']:,} cuts on {len(machine['presets'])} machines"
    if not machine["not_reached"]:
        return [f"complete: {made}"]
    return [f"sound: {made} did not reach {'; '.join(machine['not_reached'])}"]


def _summary(tests: list[LitmusTest]) -> list[str]:
    stating = [test for test in tests if test["stated"] is not None]
    as_stated = f"{sum(not _differs(test) for test in stating)} of {len(stating)} tests as stated"
    if len(stating) < len(tests):
        as_stated += f", {len(tests) - len(stating)} without a statement"
    machines = [test["machine"] for test in tests if test["machine"] is not None]
    unsound = sum(bool(machine["unsound"]) for machine in machines)
    complete = sum(not machine["unsound"] and not machine["not_reached"] for machine in machines)
    return [
        as_stated,
        f"{len(machines)} ran on machines: {unsound} unsound, {complete} complete, "
        f"{len(machines) - unsound - complete} sound and not complete",
    ]

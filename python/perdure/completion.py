"""What a shell may complete: names that this build knows, and keys of the configuration.

Always true here: what is offered is asked of the core at that moment; where the core refuses, as
for a machine file that is half written, nothing is offered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from perdure import PerdureError, api, experiments

Offer = tuple[str, str]
"""A word, and what it means."""

ZSH_FILE = ".zfunc/_perdure"
"""Where typer puts the completion of zsh, in the home folder."""
ZSH_FIRST_TIME = """

# zsh runs this file for the first completion; else that one would only define the function.
[[ $zsh_eval_context[-1] == loadautofunc ]] && _perdure_completion "$@"
"""
ASKS = "_PERDURE_COMPLETE"
"""Set where a shell asks what a line may go on with."""


def whole(command: Any) -> Any:
    """The command as shells ask it, with an `--install-completion` that is enough for zsh, too."""
    if ASKS in os.environ:
        # What a word means is one line, which shells cut: a second one is another word to fish.
        os.environ["COLUMNS"] = "1000"
    option = next(one for one in command.params if one.name == "install_completion")
    install = option.callback

    def installed(context: Any, parameter: Any, value: Any) -> Any:
        try:
            return install(context, parameter, value)
        finally:
            file = Path.home() / ZSH_FILE
            if value and file.is_file() and ZSH_FIRST_TIME not in (text := file.read_text()):
                file.write_text(text + ZSH_FIRST_TIME)

    option.callback = installed
    return command


def designs(incomplete: str) -> Iterator[Offer]:
    """Designs, also as the last of several."""
    yield from _last_of(incomplete, [(one.name, one.summary) for one in api.catalogue().designs])


def machines(incomplete: str) -> Iterator[Offer]:
    """Machine presets."""
    known = api.catalogue().machines
    yield from _starting([(one.name, one.summary) for one in known], incomplete)


def keys(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Keys of the configuration of the machine that the command line names, each with its value."""
    given = {
        name: context.params[name] for name in ("machine", "design") if context.params.get(name)
    }
    if not isinstance(given.get("design", ""), str):
        del given["design"]
    with suppress(PerdureError):
        for key, one in api.Machine(**given).configuration().raw["values"].items():
            if not key.startswith(incomplete.partition("=")[0]):
                continue
            meaning = one["meaning"] or one["unit"]
            yield f"{key}=", meaning
            # A second word keeps a shell from putting a space behind the first one.
            yield f"{key}={_spelled(one['value'])}", meaning


def bugs(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Planted bugs of the design that the command line names."""
    wanted = context.params.get("design") or "picl"
    for design in api.catalogue().designs:
        if design.name == wanted:
            known = [(bug["name"], bug["summary"]) for bug in design.raw["planted_bugs"]]
            yield from _starting(known, incomplete)


def papers(incomplete: str) -> Iterator[Offer]:
    """Papers that can be reproduced."""
    yield from _starting([(name, "") for name in experiments.papers()], incomplete)


def presets_varied(incomplete: str) -> Iterator[Offer]:
    """Presets whose sensitivity can be measured."""
    yield from _starting([(name, "") for name in experiments.presets_varied()], incomplete)


def figures(context: typer.Context, incomplete: str) -> Iterator[Offer]:
    """Experiments of the paper that the command line names."""
    from perdure.experiments import declaration

    with suppress(PerdureError):
        known = declaration.experiments(context.params["paper"], "quick").items()
        yield from _starting([(name, one.title) for name, one in known], incomplete)


def bugs_of(groups: tuple[str, ...]) -> Callable[[str], Iterator[Offer]]:
    """Designs with planted bugs, and what else has some."""

    def complete(incomplete: str) -> Iterator[Offer]:
        known = [one for one in api.catalogue().designs if one.raw["planted_bugs"]]
        names = [(one.name, one.summary) for one in known]
        yield from _starting([*names, *((group, "") for group in groups)], incomplete)

    return complete


def _starting(known: list[Offer], incomplete: str) -> Iterator[Offer]:
    yield from (one for one in known if one[0].startswith(incomplete))


def _last_of(incomplete: str, known: list[Offer]) -> Iterator[Offer]:
    """The same for the last word of a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    yield from ((before + comma + name, help_) for name, help_ in _starting(known, last))


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

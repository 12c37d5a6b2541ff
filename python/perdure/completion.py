"""What a shell may complete: names that this build knows, and keys of the configuration.

Always true here: what is offered is asked of the core at that moment; where the core refuses, as
for a machine file that is half written, nothing is offered.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import typer

from perdure import PerdureError, api, experiments, plain, requests, values
from perdure.commands import OPTIONS

Offer = tuple[str, str]
"""A word, and what it means."""

ZSH_FILE = ".zfunc/_perdure"
"""Where typer puts the completion of zsh, in the home folder."""
ZSH_FIRST_TIME = """

# zsh runs this file for the first completion; else that one would only define the function.
[[ $zsh_eval_context[-1] == loadautofunc ]] && _perdure_completion "$@"
"""
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def whole(command: Any) -> Any:
    """The command as shells ask it; completion is installed or printed for any of them, whole."""
    if plain.ASKS in os.environ:
        # What a word means is one line, which shells cut: a second one is another word to fish.
        os.environ["COLUMNS"] = "1000"
    for option in command.params:
        if option.name == "install_completion":
            option.help = OPTIONS["--install-completion"]
            option.callback = _for_any_shell(option, option.callback, _complete_zsh)
        elif option.name == "show_completion":
            option.help = OPTIONS["--show-completion"]
            option.callback = _for_any_shell(option, _shown(option.callback), lambda: None)
    return command


def _for_any_shell(option: Any, callback: Any, then: Callable[[], None]) -> Any:
    """An option's callback that is told which shell the command line names behind it, if one."""

    def called(context: Any, parameter: Any, value: Any) -> Any:
        if not value or context.resilient_parsing:
            return value
        name = _word_behind(option.opts)
        if name not in ("", *SHELLS):
            raise PerdureError(f"{option.opts[0]}: {values.none_of(name, SHELLS)}")
        try:
            return callback(context, parameter, name or value)
        except typer.Exit as error:
            raise PerdureError(
                f"{option.opts[0]}: which shell this is, is not known; name one, as in "
                f"perdure {option.opts[0]} bash, of {', '.join(SHELLS)}"
            ) from error
        finally:
            then()

    return called


def _word_behind(names: Sequence[str]) -> str:
    at = next((at for at, word in enumerate(sys.argv) if word in names), len(sys.argv))
    word = "".join(sys.argv[at + 1 : at + 2])
    return "" if word.startswith("-") else word


def _shown(show: Any) -> Any:
    """What prints completion, for zsh as it has to be in a file."""

    def callback(context: Any, parameter: Any, value: Any) -> Any:
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                return show(context, parameter, value)
        finally:
            script = printed.getvalue()
            of_zsh = script.startswith("#compdef")
            sys.stdout.write(script.rstrip() + ZSH_FIRST_TIME if of_zsh else script)

    return callback


def _complete_zsh() -> None:
    file = Path.home() / ZSH_FILE
    if file.is_file() and ZSH_FIRST_TIME not in (text := file.read_text()):
        file.write_text(text + ZSH_FIRST_TIME)


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
            if key in requests.NO_KEYS or not key.startswith(incomplete.partition("=")[0]):
                continue
            meaning = one["meaning"] or one["unit"]
            yield f"{key}=", meaning
            # A second word keeps a shell from putting a space behind the first one.
            yield f"{key}={requests.spelled(one['value'])}", meaning


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

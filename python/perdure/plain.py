"""Command lines that ask for nothing unusual, answered without loading what reads and draws any.

Always true here: what this module answers, `perdure.lines` would have answered the same; it leaves
to that every line of which it does not know each word. So the help of all commands, the version,
and the most usual runs of a program take less than twice the time that Python and the core take to
be loaded; what reads every line takes five times that time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure import TIMING_VERSION, __version__, _core, requests, statuses, terminal

if TYPE_CHECKING:
    from perdure.notebook import Progress

ASKS = "_PERDURE_COMPLETE"
"""Set where a shell asks what a line may go on with."""

MOST_INSTRUCTIONS = 2**63 - 1

SAYS_NOTHING = frozenset(
    {
        *("design", "machine", "config_hash", "state_hash", "exit_code", "sim", "host", "nvm"),
        *("statistics", "programs", "modules", "output", "removed_files"),
    }
)
"""What of a result a run has nothing to say of at its end, whatever it is."""


class Option(NamedTuple):
    """An option of `run`: what requests call it, how its value is read, and whether it repeats."""

    name: str
    read: Callable[[str], Any]
    repeats: bool = False


class NotPlainError(Exception):
    """A line that this module does not read."""


def answered(words: Sequence[str]) -> int | None:
    """Does what the words behind `perdure` ask for; the exit status, or None: it was not done.

    Raises:
        PerdureError: it cannot be done.
    """
    if ASKS in os.environ:
        return None
    match words:
        case ["--help" | "-h"]:
            from perdure import helping

            helping.draw(helping.of_all())
            print()
            return 0
        case ["--version"]:
            print(version())
            return 0
        case ["run", *rest]:
            try:
                asked, program = read(rest)
            except NotPlainError:
                return None
            return _run(asked, program)
    return None


def version() -> str:
    """The version, and that of the timing."""
    return f"perdure {__version__}, timing version {TIMING_VERSION}"


def _text(text: str) -> str:
    return text


def _path(text: str) -> str:
    """A path that cannot be spelled shorter, which `pathlib` would do."""
    parts = text.split("/")
    if not text or "." in parts or "" in parts[1:]:
        raise NotPlainError
    return text


def _design(text: str) -> str:
    if "," in text:
        raise NotPlainError
    return text


def _engine(text: str) -> str:
    if text not in ("fast", "compiled", "plain"):
        raise NotPlainError
    return text


def _input(text: str) -> str:
    if text == "-":
        raise NotPlainError
    return text


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= MOST_INSTRUCTIONS):
        raise NotPlainError
    return int(text)


OPTIONS = {
    "--machine": Option("machine", _text),
    "--design": Option("design", _design),
    "--set": Option("set", _text, repeats=True),
    "--harts": Option("harts", _positive),
    "--sysroot": Option("sysroot", _path),
    "--mount": Option("mounts", _text, repeats=True),
    "--env": Option("environment", _text, repeats=True),
    "--stdin": Option("stdin", _input),
    "--pmem": Option("pmem", _path),
    "--engine": Option("engine", _engine),
    "--stop-after": Option("stop_after", _positive),
    "--json": Option("json_file", _text),
}


def read(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """What the words behind `run` ask for: values by name, and the program with its arguments.

    Raises:
        NotPlainError: this module does not read them.
    """
    asked: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            program = list(rest)
            break
        if not word.startswith("-"):
            program = [word, *rest]
            break
        name, equals, value = word.partition("=")
        option = OPTIONS.get(name)
        given = value if equals else next(rest, None)
        if option is None or given is None:
            raise NotPlainError
        found = option.read(given)
        asked[option.name] = [*asked.get(option.name, ()), found] if option.repeats else found
    else:
        raise NotPlainError
    # A second -- stands before another program.
    if not program or "--" in program:
        raise NotPlainError
    return asked, program


def _run(asked: dict[str, Any], program: list[str]) -> int:
    """Runs it; the exit status is the program's."""
    json_file = asked.pop("json_file", None)
    stop_after = asked.pop("stop_after", None)
    if json_file not in (None, "-"):
        from perdure import outputs

        outputs.check_json(json_file)
    request = {
        **requests.machine(**asked),
        "program": program,
        "stop_after": stop_after,
        "out": None,
        "passthrough": True,
    }
    with terminal.guests(json_file), _status_line() as show:
        result = json.loads(_core.run(json.dumps(request), show))
    if json_file is not None:
        from perdure import outputs

        outputs.write_json(result, json_file)
    if not all(_says_nothing(name, value) for name, value in result.items()):
        _tell(result, json_file)
    return statuses.INTERRUPTED if result["interrupted"] else result["exit_code"] or 0


def _says_nothing(name: str, value: Any) -> bool:
    """Whether a run has nothing to say at its end of this part of its result."""
    if name == "pools":
        return not value["not_synchronised"]
    return name in SAYS_NOTHING or not value


@contextmanager
def _status_line() -> Iterator[Progress | None]:
    """As `progress.status_line`, which is loaded where there is something to draw on."""
    if not os.isatty(2):
        yield None
        return
    from perdure import progress

    with progress.status_line() as show:
        yield show


def _tell(result: dict[str, Any], json_file: str | None) -> None:
    """Says what there is to say of a run."""
    from perdure import endings
    from perdure.results import RunResult

    typed = RunResult.from_json(result)
    terminal.tell([*endings.ending(typed), *endings.kept(typed, None, None, json_file)])

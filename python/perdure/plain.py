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
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from perdure import TIMING_VERSION, __version__, _core, requests, statuses, terminal

if TYPE_CHECKING:
    from perdure.notebook import Progress

ASKS = "_PERDURE_COMPLETE"
"""Set where a shell asks what a line may go on with."""

MOST_DIGITS = 18
"""Of a number that is plain, which is one that the core can be asked for."""

SAYS_NOTHING = frozenset(
    {
        *("design", "machine", "config_hash", "state_hash", "exit_code", "sim", "host", "nvm"),
        *("statistics", "programs", "modules", "output", "removed_files"),
    }
)
"""What of a result a run has nothing to say of at its end, whatever it is."""


class Option(NamedTuple):
    """An option of `run`: what requests call it, which values are plain, and how one is read."""

    name: str
    is_plain: Callable[[str], bool] = lambda _: True
    read: Callable[[str], Any] = str
    repeats: bool = False


def _is_positive(text: str) -> bool:
    plain = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    return plain and int(text) > 0


def _is_shortest(text: str) -> bool:
    """Whether a path cannot be spelled shorter, as `pathlib` would do."""
    parts = text.split("/")
    return bool(text) and "." not in parts and "" not in parts[1:]


OPTIONS = {
    "--machine": Option("machine"),
    "--design": Option("design", lambda text: "," not in text),
    "--set": Option("set", repeats=True),
    "--harts": Option("harts", _is_positive, int),
    "--sysroot": Option("sysroot", _is_shortest),
    "--mount": Option("mounts", repeats=True),
    "--env": Option("environment", repeats=True),
    "--stdin": Option("stdin", lambda text: text != "-"),
    "--pmem": Option("pmem", _is_shortest),
    "--engine": Option("engine", lambda text: text in get_args(requests.Engine)),
    "--stop-after": Option("stop_after", _is_positive, int),
    "--json": Option("json_file"),
}


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
        case ["run", *rest] if (line := read(rest)) is not None:
            return _run(*line)
    return None


def version() -> str:
    """The version, and that of the timing."""
    return f"perdure {__version__}, timing version {TIMING_VERSION}"


def read(words: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
    """What the words behind `run` ask for: values by name, and the program with its arguments.

    None: not all of it is plain.
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
        if option is None or given is None or not option.is_plain(given):
            return None
        found = option.read(given)
        asked[option.name] = [*asked.get(option.name, ()), found] if option.repeats else found
    else:
        return None
    # A second -- stands before another program.
    return (asked, program) if program and "--" not in program else None


def _run(asked: dict[str, Any], program: list[str]) -> int:
    """Runs it; the exit status is the program's."""
    json_file = asked.pop("json_file", None)
    stop_after = asked.pop("stop_after", None)
    if json_file is not None:
        from perdure import outputs

        outputs.check_json(json_file)
        read_too = [
            (word, asked[OPTIONS[word].name])
            for word in outputs.READ
            if word in OPTIONS and OPTIONS[word].name in asked
        ]
        outputs.check_apart([*read_too, ("--json", json_file)])
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
        outputs.write_json(result, json_file)
    if not all(_says_nothing(name, value) for name, value in result.items()):
        _tell(result, json_file, asked.get("pmem"))
    return statuses.of_run(result["exit_code"], result["refused_output"], result["interrupted"])


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


def _tell(result: dict[str, Any], json_file: str | None, pmem: str | None) -> None:
    """Says what there is to say of a run."""
    from perdure import endings
    from perdure.results import RunResult

    typed = RunResult.from_json(result)
    kept = endings.kept(typed, None, None, json_file, pmem=pmem)
    terminal.tell([*endings.ending(typed), *kept])

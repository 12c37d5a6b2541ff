"""What requests say, in the words of the core.

Always true here: a request says nothing about what its caller left at the default.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perdure import _core

if TYPE_CHECKING:
    import pathlib

Path: TypeAlias = str | PathLike[str]
Command: TypeAlias = Path | Sequence[Path]
"""A program and its arguments: word by word, or as one text, as a shell would take it."""
Value: TypeAlias = str | int | float | bool
Schedule: TypeAlias = Literal[
    "random", "every-event", "near-events", "every-fence", "every-stack", "stratified"
]
Engine: TypeAlias = Literal["fast", "compiled", "plain"]
ENGINE: Engine = "compiled"
"""What runs harts unless another one is asked for."""
NO_KEYS = frozenset({"design"})
"""What the values of a configuration have beside keys of `--set`."""


def words(command: Command) -> list[str]:
    """A command word by word; a text with spaces that is no file's name is taken apart."""
    if isinstance(command, PathLike):
        return [fspath(command)]
    if not isinstance(command, str):
        try:
            return [fspath(word) for word in command]
        except TypeError as error:
            raise _core.PerdureError(
                f"the program {command!r} is neither a text, nor a path, nor a list of these"
            ) from error
    if len(command.split()) < 2 or _host_path(command).is_file():
        return [command] if command.strip() else []
    try:
        return shlex.split(command)
    except ValueError as error:
        raise _core.PerdureError(
            f"the program {command!r} cannot be taken apart into words ({error}): close the quote, "
            "or give a list of words"
        ) from error


def texts(given: str | Sequence[str], between: str | None = None) -> list[str]:
    """Several texts: a text by itself is one of them, or several with `between` between them."""
    if not isinstance(given, str):
        return list(given)
    return [one for one in (given.split(between) if between else [given]) if one]


def machine(
    machine: Path = "picl",
    design: str = "picl",
    set: Mapping[str, Value] | Sequence[str] = (),  # noqa: A002  # as a machine's field is called
    harts: int | None = None,
    sysroot: Path | None = None,
    mounts: Sequence[str] = (),
    environment: Mapping[str, str] | Sequence[str] = (),
    stdin: Path | None = None,
    pmem: Path | None = None,
    engine: Engine = ENGINE,
) -> dict[str, object]:
    """What a request says about the machine, and what programs find there (`api.Machine`)."""
    return {
        "machine": fspath(machine),
        "design": design,
        "set": assignments(set),
        "harts": harts,
        "sysroot": None if sysroot is None else fspath(sysroot),
        "mounts": texts(mounts),
        "environment": assignments(environment),
        "stdin": None if stdin is None else fspath(stdin),
        "engine": engine,
        **({} if pmem is None else {"pmem": fspath(pmem)}),
    }


def bursts(
    watch: Sequence[str],
    burst_stores: int | None,
    burst_instructions: int | None,
    sample_cycles: int | None,
) -> dict[str, Any]:
    """What a request says about watch points, bursts and samples, where it says anything."""
    said = {
        "watch": texts(watch) or None,
        "burst_stores": burst_stores,
        "burst_instructions": burst_instructions,
        "sample_cycles": sample_cycles,
    }
    return {key: value for key, value in said.items() if value is not None}


def judged(
    generations: int | None = None,
    check: Command = (),
    check_seconds: int | None = None,
    restart: bool = False,
    then: Command = (),
    expect: str | None = None,
    cores: Path | None = None,
    until_cut: bool = False,
) -> dict[str, Any]:
    """What a request says about what comes after a cut, where it says anything."""
    said = {
        "generations": generations,
        "check": words(check) or None,
        "check_seconds": check_seconds,
        "restart": restart or None,
        "then": words(then) or None,
        "expect": expect,
        "cores": None if cores is None else fspath(cores),
        "until_cut": until_cut or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def is_port(text: str) -> bool:
    """Whether this is a number that a port can have."""
    return text.isdecimal() and int(text) < 2**16


def target(to: str | Path) -> str:
    """Where a replica is: `HOST:PORT`, or a folder; an address gone wrong is taken for neither."""
    text = fspath(to)
    _, colon, port = text.rpartition(":")
    wrong = colon and isinstance(to, str) and "/" not in text and not is_port(port)
    if wrong and not _host_path(text).is_dir():
        raise _core.PerdureError(
            f"--to {text}: write HOST:PORT with a port below 65536, or a folder of that name as "
            f"./{text}"
        )
    return text


def replicated(to: str | Path | None, secret_file: Path | None, patience: int) -> dict[str, object]:
    """What a request says about a replica, if there is to be one."""
    if to is None:
        return {}
    secret = {} if secret_file is None else {"secret_file": fspath(secret_file)}
    return {"replicate_to": target(to), "patience_seconds": patience, **secret}


def several(program: Command, programs: str | Sequence[Command]) -> list[list[str]]:
    """The programs that run at once, word by word: `programs`, or `program` alone."""
    if program and programs:
        raise _core.PerdureError(
            "both `program` and `programs` are given: `programs` replaces `program`"
        )
    if not programs:
        return [words(program)]
    return [words(one) for one in ([programs] if isinstance(programs, str) else programs)]


def cuts(at: int | None, number: int | None) -> dict[str, Any]:
    """What a request says about how many cuts there are: one `at` a cycle, or so many."""
    if at is not None and number not in (None, 1):
        raise _core.PerdureError(
            "both `at` and `cuts` are given: `at` is the cycle of the one cut, `cuts` a number of "
            "them"
        )
    return {"at": at, "cuts": 100 if number is None else number}


def resumed(resume: str | None, generations: int | None, always: str | None) -> str | None:
    """Which cuts a request resumes: what is asked for, or else `always`."""
    if resume == "none" and generations is not None:
        raise _core.PerdureError(
            "`resume` is none beside `generations`: nothing goes on that could be cut again"
        )
    return resume or always


def together(
    program: Command,
    programs: str | Sequence[Command],
    repeat: bool,
    warm_up: int | None = None,
    measure: int | None = None,
    measure_threads: bool = False,
) -> dict[str, object]:
    """What a request says about several programs and a measured region, where it says anything."""
    asked = {
        "programs": several(program, programs) if programs else None,
        "repeat": repeat or None,
        "warm_up_instructions": warm_up,
        "measure_instructions": measure,
        "measure_threads": measure_threads or None,
    }
    return {key: value for key, value in asked.items() if value is not None}


def assignments(values: Mapping[str, Value] | Sequence[str]) -> list[str]:
    """`key=value` texts, as a configuration file would spell the values."""
    if not isinstance(values, Mapping):
        return texts(values)
    return [f"{key}={spelled(value)}" for key, value in values.items()]


def spelled(value: object) -> str:
    """A value as a configuration file and `--set` have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _host_path(text: str) -> pathlib.Path:
    """A path of this host; what has such paths is loaded where somebody asks for one."""
    from pathlib import Path

    return Path(text)

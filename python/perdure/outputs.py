"""Files that results go to: refused before a run where they cannot be written, and written whole.

Always true here: a file holds what it held before or all of what is new, because it is written
beside its place under another name and then renamed; what is no regular file (a terminal, a pipe,
`/dev/null`) is never replaced, but written to; a refusal is one line.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure._core import PerdureError

if TYPE_CHECKING:
    import inspect

SHOWN_CHARACTERS = 200
"""Of a name in a message."""

WRITTEN_IN_PLACE = ("/dev/", "/proc/")
"""Names of what is open already, as `/dev/stdout`: never replaced, whatever stands behind them."""

WRITTEN = (
    *("--out", "--json", "--html", "--sarif", "--junit", "--baseline", "--continue", "--trace"),
    *("--persist-order", "--champsim", "--cores", "--snapshots"),
)
"""Options that name a file which a command writes, or goes on from, or a folder of its own."""

READ = ("--machine", "--stdin", "--expect", "--invariant", "--script", "--secret-file")
"""Options that may name a file which a command reads."""

NAMES = (*READ, *WRITTEN)


def shown(name: str | PathLike[str]) -> str:
    """A name as a message shows it: in one line, and not endless."""
    text = fspath(name)
    if not text.isprintable() or not text.strip():
        text = ascii(text)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]}…{text[-half:]} ({len(text)} characters)"


def told(message: str, words: Iterable[str]) -> str:
    """A message in which the caller's own words are shown in one line and not endless."""
    for word in sorted(words, key=len, reverse=True):
        # An option's value stands in messages without the option's name.
        for part in (word, word.partition("=")[2]):
            if part.strip() and shown(part) != part:
                message = message.replace(part, shown(part))
    return "".join(
        one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in message
    )


def check_file(path: str | PathLike[str], option: str) -> None:
    """Refuses a file that a run could not write at its end; changes nothing."""
    with _refusing(path, option):
        place = _place(path)
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            status = None
        if status is None:
            _probe(place.parent)
            return
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        if not os.access(path, os.W_OK) or not status.st_mode & 0o222:
            raise PermissionError(errno.EACCES, "it is read-only")
        if _is_replaced(path):
            _probe(place.parent)


def check_folder(
    folder: str | PathLike[str], option: str = "--out", files: Iterable[str] = ()
) -> None:
    """Refuses a folder that could not be made or written to, or these files in it."""
    with _refusing(folder, option):
        existing = _place(folder)
        while True:
            try:
                status = existing.stat()
                break
            except FileNotFoundError:
                existing = existing.parent
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is not a directory")
        _probe(existing)
    if existing == _place(folder):
        for name in files:
            check_file(existing / name, option)


def of_options(
    parameters: Iterable[inspect.Parameter], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The files and folders that were named, each with the option that says so."""
    for one in parameters:
        for option in getattr(one.annotation, "__metadata__", ()):
            # An option's first name is what its maker takes for a default.
            name = getattr(option, "default", None)
            if name in NAMES and given.get(one.name) is not None:
                yield name, given[one.name]


def check_apart(named: Iterable[tuple[str, str | PathLike[str]]]) -> None:
    """Refuses results that would replace each other, or what is read."""
    # What is read comes first.
    named = sorted(named, key=lambda one: one[0] in WRITTEN)
    taken: dict[Path, str] = {}
    for option, path in named:
        # What is written to and not replaced, as /dev/null, takes the results of both.
        if fspath(path) in ("", "-") or not _is_one_file(path):
            continue
        place = _place(path)
        if option in READ and not place.is_file():
            continue
        before = taken.setdefault(place, option)
        if before != option and option in WRITTEN:
            raise PerdureError(
                f"{before} and {option} both name {shown(path)}: one would replace the other, so "
                "give each a file of its own"
            )


def check_json(file: str | None) -> str | None:
    """The target of `--json`, where it can be written."""
    if file is not None and file != "-":
        check_file(file, "--json")
    return file


def write_text(path: str | PathLike[str], text: str) -> None:
    """Writes a file whole.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    with written(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


@contextmanager
def written(path: str | PathLike[str]) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` when the block ends without an error."""
    if not _is_replaced(path):
        yield Path(path)
        return
    place = _place(path)
    unfinished = _beside(place)
    try:
        yield unfinished
        with suppress(FileNotFoundError):
            unfinished.chmod(stat.S_IMODE(place.stat().st_mode))
        unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)


def _is_replaced(path: str | PathLike[str]) -> bool:
    """Whether a new file takes the place of what is there."""
    if str(Path.cwd() / path).startswith(WRITTEN_IN_PLACE):
        return False
    return not Path(path).exists() or Path(path).is_file()


def _is_one_file(path: str | PathLike[str]) -> bool:
    """Whether a name stands for one place of a file or a folder; what cannot be asked does not."""
    try:
        return _is_replaced(path) or Path(path).is_dir()
    except (OSError, ValueError):
        return False


def _place(path: str | PathLike[str]) -> Path:
    """Where a file is: a link stays, and what it leads to is written."""
    if not fspath(path):
        raise FileNotFoundError(errno.ENOENT, "an empty name")
    return Path(os.path.realpath(path))


def _beside(place: Path) -> Path:
    """Another name in the same folder; the ending stays, for it says what is written."""
    return place.with_name(f".perdure-{os.urandom(6).hex()}-{place.name[-64:]}")


def _probe(folder: Path) -> None:
    """Makes a file in a folder, and removes it: permission bits alone don't say who may."""
    probe = _beside(folder / "probe")
    probe.touch(exist_ok=False)
    probe.unlink()


@contextmanager
def _refusing(path: str | PathLike[str], option: str) -> Iterator[None]:
    """Turns the host's refusal into one line that names option, path and reason."""
    try:
        yield
    except OSError as error:
        raise PerdureError(
            f"{option} cannot write {shown(path)}: {error.strerror or error}"
        ) from error
    except ValueError as error:
        # A name with a zero byte, or with characters that no file of this host can have.
        raise PerdureError(f"{option} cannot write {shown(path)}: {error}") from error


class NotKeptError(PerdureError):
    """The folder that a result was for did not take all of it; `result` has the whole."""

    def __init__(self, message: str, result: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.result = result


@contextmanager
def each(refused_before: Iterable[str] = ()) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Several results are written, each whatever becomes of the others; then the refusals are told.

    Raises:
        PerdureError: some could not be written, and why.
    """
    refused = list(refused_before)

    def write(one: Callable[[], object]) -> None:
        try:
            one()
        except PerdureError as error:
            refused.append(str(error))

    yield write
    if refused:
        raise PerdureError("\n".join(refused))


def store(folder: str | PathLike[str], name: str, text: str) -> None:
    """Writes one file of results into a folder, which is made if need be."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_text(Path(folder) / name, text)
    except OSError as error:
        raise PerdureError(f"cannot write {name} into {shown(folder)}: {error.strerror}") from error


def write_json(document: object, file: str | None) -> bool:
    """Writes a document where --json says; whether that was standard output, which is `-`."""
    if file is None:
        return False
    text = json.dumps(document, indent=2) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return True
    write_result(file, text, "--json")
    return False


def write_result(
    path: str | PathLike[str], text: str, option: str, *, makes_folder: bool = False
) -> None:
    """Writes what an option asked for.

    Raises:
        PerdureError: it cannot be written.
    """
    with _refusing(path, option):
        if makes_folder:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)

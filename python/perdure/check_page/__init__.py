"""What `perdure check` has found, as a page.

Always true here: the page needs nothing but itself, and says nothing that the report does not,
except for lines of the program's source, which are shown where they can be read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perdure import (
    check_reports,
    check_timeline,
    check_waste,
    check_words,
    explanation,
    explanation_page,
    extras,
)
from perdure.check_words import Mark
from perdure.source_excerpts import Line, Sources
from perdure.tables import number

if TYPE_CHECKING:
    from perdure.check_results import Bug, Check, Store, Word

FOLDER = Path(__file__).parent
OPEN = 3
"""Bugs that are shown unfolded."""


@dataclass(frozen=True)
class Row:
    """A row of an excerpt: a line of the source with what is said of it, or what belongs there."""

    kind: str
    number: int | None
    text: str
    said: Sequence[str] = ()


@dataclass(frozen=True)
class Shown:
    """An excerpt of a file."""

    file: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Changed:
    """A word of persistent memory: its place, and in two columns its bytes."""

    place: str
    durable: str
    newest: str

    def as_number(self, word: str) -> str:
        """The bytes as a number of the machine, whose first byte is the lowest one."""
        return f"{int.from_bytes(bytes.fromhex(word), 'little'):#x}"


@dataclass(frozen=True)
class Lines:
    """A line of persistent memory that the bug is about."""

    what: str
    columns: tuple[str, str]
    words: Sequence[Changed]


def need() -> None:
    """Says so if a page cannot be made here."""
    with extras.need_reports("a page"):
        import jinja2  # noqa: F401


def page(
    report: Check, new: set[str], command: Sequence[str] = (), sources: Sources | None = None
) -> str:
    """The page of a report; `command` is what made it, as words of a shell."""
    with extras.need_reports("a page"):
        import jinja2

    loader = jinja2.FileSystemLoader(FOLDER)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    read = sources or Sources()
    shown = [excerpts(bug, read) for bug in report["bugs"]]
    style = [
        (folder / "page.css").read_text("utf-8") for folder in (explanation_page.FOLDER, FOLDER)
    ]
    return environment.get_template("page.html").render(
        style="".join(style),
        report=report,
        new=new,
        command=shlex.join(command),
        bugs=list(zip(report["bugs"], shown, strict=True)),
        newer=read.newer_than(Path(report["program"][0])),
        OPEN=OPEN,
        words=check_words,
        text=check_reports,
        waste=check_waste,
        say=explanation,
        again=lambda bug: again(command, bug),
        lines=memory,
        missing=lambda bug: missing_sources(bug, read),
        steps=check_timeline.steps,
    )


def again(command: Sequence[str], bug: Bug) -> str:
    """The command that shows a bug's state again."""
    if not command:
        return check_reports.again(bug)
    at = command.index("check") + 1 if "check" in command else len(command)
    settings = [] if bug["cut"] is None else [f"--set={one}" for one in bug["cut"]["set"]]
    return shlex.join([*command[:at], *settings, "--state", bug["state"], *command[at:]])


def excerpts(bug: Bug, sources: Sources) -> list[Shown]:
    """The source around all places of a bug, the store to blame first."""
    by_file: dict[str, dict[int, list[Mark]]] = {}
    for mark in check_words.marks(bug):
        file, line = check_words.file_of(mark.place), mark.place["line"]
        if file is not None and line:
            by_file.setdefault(file, {}).setdefault(line, []).append(mark)
    return [
        Shown(file, list(_rows(excerpt.lines, marked)))
        for file, marked in by_file.items()
        for excerpt in sources.excerpts(file, marked)
    ]


def _rows(lines: Iterable[Line], marked: Mapping[int, Sequence[Mark]]) -> Iterator[Row]:
    for line in lines:
        here = marked.get(line.number, ())
        yield from _inserted(here, "before", line.text)
        own = [mark for mark in here if mark.beside == "at"]
        kind = next((mark.kind for mark in own), "")
        yield Row(kind, line.number, line.text, list(dict.fromkeys(mark.text for mark in own)))
        yield from _inserted(here, "behind", line.text)


def _inserted(marks: Iterable[Mark], beside: str, text: str) -> Iterator[Row]:
    """Rows for what belongs before or behind a line, as far in as the line is."""
    indent = text[: len(text) - len(text.lstrip())]
    for said in dict.fromkeys(mark.text for mark in marks if mark.beside == beside):
        yield Row("missing", None, f"{indent}/* {said} here */")


def missing_sources(bug: Bug, sources: Sources) -> list[str]:
    """The files of a bug that cannot be read."""
    files = {check_words.file_of(mark.place) for mark in check_words.marks(bug)}
    return sorted(file for file in files if file is not None and sources.path(file) is None)


def memory(bug: Bug) -> Iterator[Lines]:
    """Persistent memory as it was, each line once."""
    lost, kept = ("found: what was durable", "newest: what was volatile"), ("before", "found")
    shown = [("not durable", one, one["words"], lost) for one in bug["lost"]]
    found = check_reports.found_whole
    words = check_words.kept_words(bug)
    shown += [(words, one, found(bug, one), kept) for one in bug["kept"]]
    for what, one, changed, columns in shown:
        if changed:
            yield Lines(
                f"{what}: {check_words.where(one['place'])}", columns, _changed(one, changed)
            )


def _changed(one: Store, words: Sequence[Word]) -> list[Changed]:
    return [
        Changed(check_reports.word_place(one, word), word["found"], word["newest"])
        for word in words
    ]

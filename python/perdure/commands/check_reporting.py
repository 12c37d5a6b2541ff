"""In which forms `perdure check` writes what it has found, beside the text.

Always true here: what cannot be written is refused before anything runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure import PerdureError, check_exchange, check_page, checking, outputs, terminal
from perdure.source_excerpts import Sources

if TYPE_CHECKING:
    from perdure.check_results import Check

ONCE_VALUED = {"--html", "--sources", "--sarif", "--junit", "--json", "--baseline", "--scheduler"}
ONCE = {"--update-baseline", "--watch"}
"""Options that say nothing of what is checked: who looks at one state does not give them."""


@dataclass(frozen=True)
class Reports:
    """In which forms the result is written, beside the text."""

    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as a page, too.")
    ] = None
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--sources",
            metavar="DIR",
            help="For the page: a folder of sources that lie elsewhere now; repeatable.",
        ),
    ] = None
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write it as SARIF, too.")
    ] = None
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML, too.")
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Bugs in this file are known: no failure."),
    ] = None
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the bugs that were found to it.")
    ] = False

    def files(self) -> Iterator[tuple[str, Path]]:
        """What is to be written, each with the option that says so."""
        written = self.baseline if self.update_baseline else None
        named = (("--html", self.html), ("--sarif", self.sarif), ("--junit", self.junit))
        for option, path in (*named, ("--baseline", written)):
            if path is not None:
                yield option, path

    def refuse(self) -> None:
        """Says what is wrong with them, while nothing has run."""
        if self.update_baseline and self.baseline is None:
            raise PerdureError("--update-baseline: say by --baseline FILE where it is")
        if self.html is not None:
            check_page.need()
        for option, path in self.files():
            outputs.check_folder(path.parent, option, [path.name])
        for folder in self.sources or ():
            if not folder.is_dir():
                raise PerdureError(f"--sources {outputs.shown(folder)}: there is no such folder")
        self.known()
        if self.baseline is not None and not (self.update_baseline or self.baseline.exists()):
            file = outputs.shown(self.baseline)
            remark = f"--baseline {file}: there is no such file yet, so every bug is new"
            terminal.tell([f"{remark}; --update-baseline writes it"])

    def known(self) -> set[str]:
        """The bugs that are no failure."""
        return checking.known_in(self.baseline)

    def write(
        self, report: Check, new: set[str], write: Callable[[Callable[[], object]], None]
    ) -> None:
        """Writes what is asked for, each file by itself, into a folder that is made if need be."""
        for option, path in self.files():
            text = self._text(option, report, new)
            write(partial(outputs.write_result, path, text, option, makes_folder=True))

    def _text(self, option: str, report: Check, new: set[str]) -> str:
        match option:
            case "--html":
                sources = Sources(self.sources or ())
                return check_page.page(report, new, command(sys.argv[1:]), sources)
            case "--sarif":
                return check_exchange.sarif(report, new)
            case "--junit":
                return check_exchange.junit(report, new)
            case _:
                return check_exchange.baseline(report["bugs"])


def command(words: Sequence[str]) -> list[str]:
    """A command line without the options that say where results go."""
    kept, left = ["perdure"], list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*kept, word, *left]
        name, _, value = word.partition("=")
        if name in ONCE_VALUED:
            del left[: 0 if value else 1]
        elif word not in ONCE:
            kept.append(word)
    return kept

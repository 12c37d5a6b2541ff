"""`perdure check` as a call: a program in, what a power failure can break out.

Always true here: `raw` is the JSON of the command, and what prints is its text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from perdure import api, check_page, check_reports, checking, requests
from perdure.source_excerpts import Sources

if TYPE_CHECKING:
    from perdure.check_results import Bug, Check

X86 = api.Machine(machine="x86-pm", design="ideal")


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What was found; in a notebook it shows as the text that the command prints."""

    raw: Check = field(repr=False)

    @property
    def bugs(self) -> Sequence[Bug]:
        """The bugs, each once."""
        return self.raw["bugs"]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it early."""
        return self.raw["interrupted"]

    def html(self, *sources: api.Path) -> str:
        """The page of it, with the program's source, which may lie below these folders now."""
        folders = [Path(folder) for folder in sources]
        return check_page.page(self.raw, self._ids(), sources=Sources(folders))

    def _ids(self) -> set[str]:
        return {bug["id"] for bug in self.bugs}

    def _lines(self) -> Iterator[str]:
        return (text for text, _ in check_reports.lines(self.raw, self._ids()))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__


def check(
    program: api.Command,
    *,
    then: api.Command = (),
    check: api.Command = (),
    dump: api.Command = (),
    operations: Sequence[str] = (),
    invariant: api.Path | None = None,
    machine: api.Machine = X86,
    model: checking.Model = "px86",
    nested: bool = True,
    cuts: int | None = None,
    limits: checking.Limits | None = None,
    seed: int = 1,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: api.Progress | None = None,
) -> CheckReport:
    """Looks for what a power failure can break in a program that keeps data in persistent memory.

    After each failure `then` runs (or the program again) and has to end with status 0, `check`
    after it, or the C function of `invariant` looks at the pools; `dump` recovers and prints what
    is there. Calls of these `operations` are operations. `model` is by whose rules stores become
    durable. With `nested`, power fails in recovery, too. The machine itself is cut `cuts` times, as
    well. `limits` says how far it goes. `jobs` host threads share the work, or the workers of the
    Dask cluster whose `scheduler` is named, which see this host's files; they change no result.
    """
    subject = checking.Subject(
        machine,
        requests.words(program),
        then=requests.words(then),
        checker=requests.words(check),
        dump=requests.words(dump),
        operations=operations,
        invariant=None if invariant is None else Path(invariant),
        model=model,
        seed=seed,
        jobs=jobs or len(os.sched_getaffinity(0)),
        scheduler=scheduler,
    )
    found = checking.check(subject, nested=nested, cuts=cuts, limits=limits, progress=progress)
    return CheckReport(found)

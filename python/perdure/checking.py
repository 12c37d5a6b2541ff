"""Looking for crash-consistency bugs: what `perdure check` asks of the core, and what it answers.

Always true here: a bug's `id` names its cause by functions and not by lines, so that a baseline
holds while sources around it change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from perdure import (
    PerdureError,
    _core,
    check_shares,
    documents,
    invariants,
    notebook,
    outputs,
    requests,
)

if TYPE_CHECKING:
    from perdure.api import Machine, Progress
    from perdure.check_results import Again, Check

Model: TypeAlias = Literal["px86", "arm", "perdure", "machine"]


@dataclass(frozen=True)
class Limits:
    """How far a check goes, in how many MiB, and the file by which it can be continued."""

    states: int | None = None
    minutes: float | None = None
    states_of_a_point: int | None = None
    patience: int | None = None
    schedules: int | None = None
    memory: int | None = None
    keep: Path | None = None


@dataclass(frozen=True)
class Subject:
    """What is checked, on which machine, and by whose rules.

    After a failure `then` is started (or the program again), and has to end with status 0,
    `checker` after it; or `dump`, which shows what is in the pool: what was there before the
    operation under way, or after it. Operations are where the program says so, or calls of these
    functions. `invariant` is a C file that looks at the recovered pools, in place of a `checker`.
    `jobs` host threads share the work, or the workers of the Dask cluster whose `scheduler` is
    named, which see this host's files; they change nothing.
    """

    machine: Machine
    program: Sequence[str]
    then: Sequence[str] = ()
    checker: Sequence[str] = ()
    dump: Sequence[str] = ()
    operations: Sequence[str] = ()
    invariant: Path | None = None
    model: Model = "px86"
    seed: int = 1
    jobs: int = 1
    scheduler: str | None = None

    def request(self) -> dict[str, object]:
        """What the core is asked."""
        request = self.machine.request(
            list(self.program), then=list(self.then), restart=True, seed=self.seed, jobs=self.jobs
        )
        return {
            "request": request,
            "model": self.model,
            "checker": list(self.checker),
            "dump": list(self.dump),
            "operations": requests.texts(self.operations, ","),
            "invariant": self.invariant is not None,
        }

    @contextmanager
    def made_ready(self) -> Iterator[Subject]:
        """The same with its invariant compiled, as the checker."""
        if self.invariant is None:
            yield self
            return
        if self.checker:
            raise PerdureError("--invariant stands for --check: give one of them")
        with invariants.compiled(self.invariant) as checker:
            yield replace(self, checker=checker)


def check(
    subject: Subject,
    *,
    nested: bool = True,
    cuts: int | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Check:
    """What goes wrong when power fails while a program runs or, if `nested`, recovers.

    The machine itself is cut so often: under the model `machine` in all; under another one near
    persistence events, and near each bug's point to see whether the machine comes to its state.
    """
    asked_for = {**vars(limits or Limits()), "cuts": cuts}
    given = {key: value for key, value in asked_for.items() if value is not None}
    with subject.made_ready() as ready, notebook.following("check", progress) as show:
        text = json.dumps({**ready.request(), "nested": nested, **given}, default=str)
        if subject.scheduler is None:
            answer: Check = json.loads(_core.check(text, show))
        else:
            answer = check_shares.check(json.loads(text), subject.scheduler, show)
    return answer


def again(subject: Subject, state: str) -> Again:
    """What recovery comes to on one state, which a report of the same check names."""
    with subject.made_ready() as ready:
        asked = json.dumps({**ready.request(), "state": state})
        answer: Again = json.loads(_core.check(asked, None))
    return answer


def replay(token: str, pools: Path | None = None) -> Again:
    """What recovery comes to on the state of a bug's token, whose pools a folder may get."""
    asked = json.dumps({"token": token, "pools": None if pools is None else str(pools)})
    answer: Again = json.loads(_core.check_again(asked, None))
    return answer


def tokens_of(report: Check) -> list[str]:
    """All tokens that a report names."""
    on_machine = report["on_machine"]
    found = [bug["token"] for bug in report["bugs"]]
    return found + ([] if on_machine is None else on_machine["tokens"])


def known_in(baseline: Path | None) -> set[str]:
    """The bugs that a baseline file has."""
    if baseline is None or not baseline.exists():
        return set()
    named = f"--baseline {outputs.shown(baseline)}"
    remedy = "remove it, and --update-baseline makes a new one"
    content = documents.read(baseline, named, remedy)
    bugs = content.get("bugs") if isinstance(content, dict) else None
    if not isinstance(bugs, list):
        why = "it has no list of bugs"
    elif not all(isinstance(bug, dict) and isinstance(bug.get("id"), str) for bug in bugs):
        why = "one of its bugs has no id"
    else:
        return {bug["id"] for bug in bugs}
    raise PerdureError(f"{named} is no baseline that perdure check has written: {why}; {remedy}")

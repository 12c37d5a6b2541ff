"""Work in parts on a Dask cluster: campaigns of power cuts (`perdure cut --scheduler`).

Always true here: a schedule is dealt out in turn to as many parts as the cluster has threads. Each
part is made by a process of its own, in the folder of who asks, and together they are the report
that this host alone would have made, however many there are. Ctrl-C ends each part behind the cut
that it is at, and what is finished is reported.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import _core, extras
from perdure._core import PerdureError

if TYPE_CHECKING:
    from distributed import Client, Future

    from perdure.api import Json, Progress

PATIENCE_SECONDS = 30.0
"""After Ctrl-C, for the parts that run to end; those that have not begun are dropped."""

TELL_SECONDS = 0.5
"""Between two words of a part about how it gets on."""

SUMS = ("cuts", "verified", "lost", "failed", "resumed", "depends_on_timing", "restarted")
"""Counts of a report; what else is no list stands for the run that nobody cut."""

COSTS = (
    "lost_instructions",
    "lost_cycles",
    "recovery_cycles",
    "recovery_reads",
    "recovery_read_bytes",
    "recovery_writes",
    "recovery_written_bytes",
    "recovery_loaded_lines",
)
"""What a cut costs, in the order of a report."""

CONTRACT_BROKEN = "contract-broken"

EXPLAINED = frozenset(("explanation", "first_difference"))
EXPLANATIONS = 5
"""Of failures, the first so many are explained until one shows a wrong byte; as in the core's
campaigns (crates/perdure/src/campaign/mod.rs)."""


@extras.need_reports("a Dask cluster")
def cut(request: Json, scheduler: str | None, progress: Progress | None) -> Json:
    """What a request to cut the power comes to: here, or on the cluster of a scheduler."""
    if scheduler is None:
        report: Json = json.loads(_core.cut(json.dumps(request), progress))
        return report
    from perdure.experiments import cluster

    started = time.monotonic()
    with cluster.open_client(scheduler, 1) as client:
        cuts = 1 if request.get("at") is not None else int(request["cuts"])
        parts = max(1, min(cuts, cluster.threads(client)))
        own = {**request, "out": None, "jobs": 1}
        requests = [{**own, "part": [number, parts]} for number in range(parts)]
        lines = [request["program"], request.get("then") or (), *request.get("programs", ())]
        cutting = Parts(client, "cut", requests, digests(lines))
        reports, interrupted = cutting.run(progress, lambda said: together(said, "cuts"))
    whole = merged(reports, parts)
    host = {"seconds": time.monotonic() - started}
    ended = {"interrupted": True} if interrupted else {}
    return {**whole, **ended, "host": host}


def part(task: str, campaign: str, number: int) -> str:
    """Makes one part; a worker of the cluster calls it."""
    from distributed import get_worker

    from perdure.experiments import execute

    worker = get_worker()
    silent_until = 0.0

    def told(*said: int | str) -> None:
        nonlocal silent_until
        now = time.monotonic()
        if now >= silent_until:
            worker.log_event(campaign, [number, *said])
            silent_until = now + TELL_SECONDS

    return execute.execute(task, campaign, told)


Told: TypeAlias = tuple[int, int, str, str]
"""How somebody gets on: so much is done, of how much, of what, and a message."""


class Parts:
    """Work that a cluster does in parts: what the core is asked to do for each of them.

    `files` are those that every worker has to see, with their digests.
    """

    def __init__(
        self, client: Client, command: str, requests: Sequence[Json], files: dict[str, str]
    ) -> None:
        self._client = client
        self._name = f"perdure-{command}-{uuid.uuid4().hex}"
        self._said: dict[int, Told] = {}
        self._reports: dict[int, Json] = {}
        self._futures = self._submitted(command, requests, files)

    def run(
        self, progress: Progress | None, all_of: Callable[[Mapping[int, Told]], Told]
    ) -> tuple[Mapping[int, Json], bool]:
        """The parts' reports by their numbers, and whether Ctrl-C ended them.

        What parts say of how they get on is one word by `all_of`.
        """
        from perdure.experiments import execute

        def show() -> None:
            if progress is not None and self._said:
                progress(*all_of(self._said))

        interrupted = False
        with self._listening():
            try:
                self._collect(show)
            except KeyboardInterrupt:
                interrupted = True
                self._client.run(execute.interrupt, self._name)
                self._collect(show, time.monotonic() + PATIENCE_SECONDS)
            finally:
                if self._futures:
                    # On the way to an error: nobody waits for what is left.
                    with suppress(OSError, TimeoutError):
                        self._client.run(execute.interrupt, self._name)
                        self._client.cancel(list(self._futures))
        return self._reports, interrupted

    def _submitted(
        self, command: str, requests: Sequence[Json], files: dict[str, str]
    ) -> dict[Future[str], int]:
        from perdure.experiments import execute

        folder = str(Path.cwd())
        futures = {}
        for number, asked in enumerate(requests):
            task = execute.task_of(asked, command, files, folder)
            key = f"{self._name}-{number}"
            future = self._client.submit(part, task, self._name, number, key=key, pure=False)
            futures[future] = number
        return futures

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Hears how the parts get on."""

        def heard(event: tuple[float, Sequence[Any]]) -> None:
            number, *said = event[1]
            self._said[number] = (said[0], said[1], said[2], said[3])

        self._client.subscribe_topic(self._name, heard)
        try:
            yield
        finally:
            with suppress(OSError, ValueError):
                self._client.unsubscribe_topic(self._name)

    def _collect(self, show: Callable[[], None], until: float | None = None) -> None:
        """Takes in what finishes; once Ctrl-C was pressed, until a moment and without complaint."""
        from perdure.experiments import cluster

        for future in cluster.as_they_finish(self._client, list(self._futures), show, until):
            answer = cluster.answer(future)
            number = self._futures.pop(future)
            if "result" in answer:
                self._reports[number] = answer["result"]
            elif until is None:
                raise PerdureError(answer["error"])


def digests(lines: Iterable[Sequence[str]]) -> dict[str, str]:
    """Digests of the files of programs, by their command lines."""
    from perdure.experiments.point import file_digest

    paths = [Path(line[0]).absolute() for line in lines if line]
    return {str(path): file_digest(path) for path in paths if path.is_file()}


def together(said: Mapping[int, Told], unit: str) -> Told:
    """What parts say of how they get on as one word: of the unit, once one of them counts it."""
    counting = [one for one in said.values() if one[2] == unit]
    if not counting:
        return max(said.values())
    _, total, _, message = counting[0]
    return sum(one[0] for one in counting), total, unit, message


def merged(reports: Mapping[int, Json], parts: int) -> Json:
    """The report of a whole campaign from those of its parts, by their numbers."""
    if not reports:
        raise PerdureError("interrupted during the survey; nothing was cut yet")
    known = [reports[number] for number in sorted(reports)]
    first = known[0]
    for one in known:
        # Nothing can be judged of such a run: what one part says of it is what this host would say.
        if any(result["verdict"] == CONTRACT_BROKEN for result in one["results"]):
            return one
    results = _in_order(
        (number + place * parts, result)
        for number, report in reports.items()
        for place, result in enumerate(report["results"])
    )
    generations = [one["generations"] for one in known if one["generations"] is not None]
    whole = {
        **first,
        **{key: sum(one[key] for one in known) for key in SUMS if key in first},
        "interrupted": any(one["interrupted"] for one in known),
        "deterministic": all(one["deterministic"] for one in known),
        "generations": max(generations, default=None),
        "coverage": _coverage([one["coverage"] for one in known]),
        "cut_cost": _cost(results),
        "results": results,
    }
    # What is no part's own says what was run: there, and in the same state at its end.
    parts_own = {*SUMS, "coverage", "cut_cost", "deterministic", "generations", "host"}
    for key in first.keys() - parts_own - {"interrupted", "results"}:
        if any(one[key] != first[key] for one in known):
            raise PerdureError(
                f"the Dask workers differ in what the run came to ({key}): all of them have to see "
                "the same files under the same paths"
            )
    return whole


def _in_order(results: Iterable[tuple[int, Json]]) -> list[Json]:
    """Results in the order of the schedule; each part has explained its failures as if alone."""
    ordered = [result for _, result in sorted(results, key=lambda one: one[0])]
    looked_at = 0
    for place, result in enumerate(ordered):
        if result["verdict"] == "verified":
            continue
        looked_at += 1
        if looked_at > EXPLANATIONS:
            ordered[place] = {key: result[key] for key in result if key not in EXPLAINED}
        elif "first_difference" in result:
            looked_at = EXPLANATIONS
    return ordered


def _coverage(parts: Sequence[Json]) -> Json:
    """Counts of all parts; how often the uncut run took which path is the same in each."""
    whole: dict[str, Any] = {}
    for one in parts:
        for key, counted in one.items():
            if isinstance(counted, int):
                whole[key] = whole.get(key, 0) + counted
            elif key == "paths":
                whole[key] = counted
            else:
                counts = whole.setdefault(key, {})
                for name, count in counted.items():
                    counts[name] = counts.get(name, 0) + count
    return {
        key: dict(sorted(value.items())) if isinstance(value, dict) else value
        for key, value in whole.items()
    }


def _cost(results: Sequence[Json]) -> Json | None:
    """What cuts cost: of each part the median, the 99th percentile (by nearest rank), the worst."""
    if not results:
        return None
    keys = [key for key in COSTS if key in results[0]]
    made: dict[str, Any] = {"cuts": len(results)}
    for key in keys:
        values = sorted(result[key] for result in results)
        ranks = [values[max(1, -(-len(values) * percent // 100)) - 1] for percent in (50, 99, 100)]
        made[key] = dict(zip(("median", "percentile_99", "worst"), ranks, strict=True))
    return made

"""Hunts: machines drawn by seeds, here or on a Dask cluster, until one of them fails.

Always true here: seeds are dealt out by index in chunks, and chunks are taken in their order; the
report ends with the first one that found something, so that it is the same for any number of
workers, unless time or Ctrl-C ends it. What is done when Ctrl-C comes is reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from perdure import _core, extras, notebook
from perdure.api import Command, Machine, Progress

if TYPE_CHECKING:
    from distributed import Client, Future

    from perdure.answers import Hunt

CHUNK_SEEDS = 8


@extras.need_reports("a Dask cluster")
def hunt(
    machine: Machine,
    program: Command = (),
    *,
    programs: Sequence[Command] = (),
    minutes: float | None = None,
    cuts: int | None = None,
    first_seed: int = 1,
    planted_bug: str | None = None,
    scheduler: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Hunt:
    """Draws machines around `machine`, cuts them, and reports what was reached and what failed.

    It ends with the first failure, after `minutes`, or when `cuts` cuts have been made. Without
    a program, one is drawn for each seed. `scheduler` is the address of a Dask scheduler; without
    one, `jobs` threads share the seeds.
    """
    request = machine.request(
        program,
        programs=programs,
        **({} if planted_bug is None else {"planted_bug": planted_bug}),
    )
    asked: dict[str, Any] = {"request": request, "first_seed": first_seed}
    if scheduler is None:
        asked["request"] = {**request, "jobs": jobs}
        asked |= {} if cuts is None else {"cuts": cuts}
        asked |= {} if minutes is None else {"seconds": minutes * 60}
        with notebook.following("hunt", progress) as show:
            report: Hunt = json.loads(_core.hunt(json.dumps(asked), show))
        return report
    from perdure.experiments import cluster

    seconds = None if minutes is None else minutes * 60
    with cluster.open_client(scheduler, jobs) as client:
        return _on_cluster(client, asked, seconds, cuts, progress)


def chunk(request: str) -> str:
    """Runs a chunk of seeds; a worker of the cluster calls it."""
    return str(_core.hunt(request, None))


def merged(reports: Sequence[Any]) -> Hunt:
    """Reports of chunks that follow one another as one report."""
    first = reports[0]
    whole: Any = {
        **first,
        "found": next((one["found"] for one in reports if one["found"] is not None), None),
        "interrupted": any(one["interrupted"] for one in reports),
        "by_seed": [seed for one in reports for seed in one["by_seed"]],
    }
    for key in ("seeds", "cuts", "resumed", "gave_up"):
        whole[key] = sum(one[key] for one in reports)
    coverage: dict[str, Any] = {
        "cuts_during_recovery": sum(one["coverage"]["cuts_during_recovery"] for one in reports)
    }
    for key in ("design_states", "paths"):
        counts: dict[str, int] = {}
        for one in reports:
            for name, count in one["coverage"][key].items():
                counts[name] = counts.get(name, 0) + count
        coverage[key] = dict(sorted(counts.items()))
    # What was new to a chunk may have been seen by an earlier one.
    known: set[str] = set()
    for seed in whole["by_seed"]:
        seed["new"] = [name for name in seed["new"] if name not in known]
        known.update(seed["new"])
    return cast("Hunt", {**whole, "coverage": coverage})


def _on_cluster(
    client: Client,
    asked: dict[str, Any],
    seconds: float | None,
    cuts: int | None,
    progress: Progress | None,
) -> Hunt:
    """Keeps every worker busy, and takes chunks in their order until there is enough."""
    started = time.monotonic()
    waiting: list[Future[str]] = []
    reports: list[Hunt] = []
    next_seed = asked["first_seed"]
    interrupted = False
    try:
        while True:
            while len(waiting) < 2 * max(1, sum(client.nthreads().values())):
                one = {**asked, "first_seed": next_seed, "seeds": CHUNK_SEEDS}
                one["request"] = {**asked["request"], "jobs": 1}
                if seconds is not None:  # So that a chunk whose program never ends has an end.
                    one["seconds"] = max(0.0, started + seconds - time.monotonic())
                waiting.append(client.submit(chunk, json.dumps(one), pure=False))
                next_seed += CHUNK_SEEDS
            future = waiting.pop(0)
            reports.append(json.loads(future.result()))
            future.release()
            done = sum(one["cuts"] for one in reports)
            if progress is not None:
                progress(done, cuts or 0, "cuts", f"{sum(one['seeds'] for one in reports)} seeds")
            enough = cuts is not None and done >= cuts
            late = seconds is not None and time.monotonic() - started >= seconds
            if enough or late or reports[-1]["found"] is not None:
                break
    except KeyboardInterrupt:
        interrupted = True
    finally:
        client.cancel(waiting)
    if not reports:
        raise _core.PerdureError("interrupted before the first seeds were done")
    whole = merged(reports)
    return {**whole, "interrupted": interrupted or whole["interrupted"]}

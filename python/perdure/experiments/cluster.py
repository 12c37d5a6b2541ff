"""Runs points on a Dask cluster: one on this machine, or any whose scheduler is named.

Always true here: a point that is in the cache is not run; a point that fails is reported and stops
no other; Ctrl-C keeps what is finished; every outcome is handed to the caller in the thread that
called, and written by it alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as Promise
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure import PerdureError, __version__
from perdure.experiments import execute
from perdure.experiments.cache import Cache, Stored
from perdure.experiments.point import Point, core_digest

if TYPE_CHECKING:
    from distributed import Client, Future
    from tornado.ioloop import IOLoop

CLOSE_SECONDS = 10
CONNECT_SECONDS = 15
LOOK_SECONDS = 0.05
"""Between two looks at what has finished."""
QUIET = {
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.worker.profile.enabled": False,
}
"""A cluster of this process's own looks at itself less often: that took 5 % of a processor."""
WORKERS_SECONDS = 2.0
"""Between two looks at whether there are workers."""


@dataclass(frozen=True)
class Outcome:
    """What came of a point: it is kept, or there is one message about why not."""

    point: Point
    key: str
    stored: Stored | None
    error: str | None
    cached: bool


@dataclass(frozen=True)
class Finished:
    """All outcomes, in the order of the points; after Ctrl-C without those not reached."""

    outcomes: Sequence[Outcome]
    interrupted: bool
    workers: int

    @property
    def failures(self) -> list[Outcome]:
        """The points that failed."""
        return [outcome for outcome in self.outcomes if outcome.error is not None]


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def run(
    points: Sequence[Point],
    cache: Cache,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    watch: Callable[[Outcome, int, int], object] = lambda _outcome, _done, _total: None,
) -> Finished:
    """Runs every point that is not in the cache; equal points are run once.

    `scheduler` is the address of a Dask scheduler; without, `workers` points at a time run on
    this machine. `watch` is called with every outcome, and how many of how many are done.
    """
    keyed: dict[str, Point] = {}
    for point in points:
        keyed.setdefault(point.key(), point)
    outcomes: dict[str, Outcome] = {}

    def done(outcome: Outcome) -> None:
        outcomes[outcome.key] = outcome
        watch(outcome, len(outcomes), len(keyed))

    wanted: dict[str, Point] = {}
    for key, point in keyed.items():
        stored = cache.load(key, point)
        if stored is None:
            wanted[key] = point
        else:
            done(Outcome(point, key, stored, None, True))
    interrupted = False
    used = 0
    if wanted:
        with open_client(scheduler, workers or processors()) as client:
            used = threads(client)
            futures = _submitted(client, wanted, cache.pools)

            def take(future: Future[Any]) -> None:
                key = futures.pop(future)
                done(_judged(wanted[key], key, answer(future), cache))
                # What is kept on disk need not be kept by the cluster.
                future.release()

            try:
                for future in as_they_finish(client, list(futures)):
                    take(future)
            except KeyboardInterrupt:
                interrupted = True
                execute.RUNNING.stop()
                for future in [one for one in futures if one.status == "finished"]:
                    take(future)
            finally:
                client.cancel(list(futures))
                shutil.rmtree(cache.pools, ignore_errors=True)
    ordered = [outcomes[key] for key in keyed if key in outcomes]
    return Finished(ordered, interrupted, used)


def _submitted(client: Client, wanted: dict[str, Point], pools: Path) -> dict[Future[Any], str]:
    """Hands the points to the cluster; `pools` are those that are made alike."""
    futures = {}
    for index, key in enumerate(begun_in_order(wanted)):
        point = wanted[key]
        files = {program.command[0]: program.digest for program in point.programs if program.digest}
        request = point.request()
        if point.made:
            request["made_in"] = str(pools)
            if point.campaign is not None:
                request["beside"] = str(pools.parent)
        task = execute.task_of(request, point.command, files)
        future = client.submit(
            execute.execute, task, key=f"perdure-{key}", pure=False, priority=-index
        )
        futures[future] = key
    return futures


def begun_in_order(wanted: Mapping[str, Point]) -> list[str]:
    """The points in their order, but campaigns of power cuts last, those of most programs first.

    These take longest, and none is left for one processor while the others have nothing to do.
    """

    def turn(key: str) -> tuple[bool, int]:
        point = wanted[key]
        is_campaign = point.campaign is not None
        return is_campaign, -len(point.programs) if is_campaign else 0

    return sorted(wanted, key=turn)


def as_they_finish(
    client: Client,
    futures: Collection[Future[Any]],
    meanwhile: Callable[[], object] = lambda: None,
    until: float | None = None,
) -> Iterator[Future[Any]]:
    """Futures in the order in which they finish, `until` a moment; `meanwhile` is called between.

    What a cluster does that has lost its workers, or is gone, is not waited for.
    """
    from distributed import as_completed

    completed = as_completed(futures)
    left = len(futures)
    alive = looked = time.monotonic()
    while left and (until is None or time.monotonic() < until):
        batch = completed.next_batch(block=False)
        left -= len(batch)
        yield from batch
        now = time.monotonic()
        if now - looked >= WORKERS_SECONDS:
            alive = now if threads(client) else alive
            looked = now
        if now - alive >= CONNECT_SECONDS:
            raise PerdureError("the Dask cluster has lost all of its workers")
        if not batch:
            meanwhile()
            time.sleep(LOOK_SECONDS)


def threads(client: Client) -> int:
    """How many points the cluster can do at a time."""
    try:
        return sum(client.nthreads().values())
    except (OSError, AttributeError) as error:
        raise PerdureError(f"the Dask scheduler is gone ({error})") from error


def answer(future: Future[Any]) -> dict[str, Any]:
    """What a worker says: a result, or an error."""
    try:
        error = future.exception()
        if error is not None:
            return {"error": f"the worker gave up: {error}"}
        said: dict[str, Any] = json.loads(future.result())
    except CancelledError:
        return {"error": "the Dask scheduler is gone"}
    return said


def _judged(point: Point, key: str, answer: dict[str, Any], cache: Cache) -> Outcome:
    """Keeps a good answer."""
    error = answer.get("error") or problem(point, answer["result"])
    stored = cache.save(key, point, answer["result"]) if error is None else None
    return Outcome(point, key, stored, error, False)


def problem(point: Point, result: dict[str, Any]) -> str | None:
    """Why a result is no measurement of the point; None if it is one."""
    if result.get("interrupted"):
        return "interrupted"
    if point.campaign is not None:
        return None
    fatal = result.get("fatal_signal")
    if fatal is not None:
        return f"the program died by {fatal['signal']}: {fatal['cause']} at {fatal['pc']}"
    if point.pools and result.get("exit_code") not in (0, None):
        return f"the program ended with status {result['exit_code']}"
    if not point.is_measured:
        return None
    for program, report in zip(point.programs, result.get("programs", ()), strict=False):
        if report["exit_code"] not in (0, None):
            return f"{program.name} ended with status {report['exit_code']}"
    region = result.get("region")
    if region is None:
        return "the programs ended before the measured region"
    if region.get("whole_phase") or point.measure is None:
        return None
    for program, measured in zip(point.programs, region["programs"], strict=True):
        if measured["instructions"] < point.measure:
            return (
                f"{program.name} ended after {measured['instructions']:,} of the region's "
                f"{point.measure:,} instructions"
            )
    return None


def _identity() -> tuple[str, str]:
    return __version__, core_digest()


@contextmanager
def _loop() -> Iterator[IOLoop]:
    """What a cluster of this process's own waits with, in a thread that lasts as long as the block.

    Dask would make one by itself, but gives up if that has not begun within 10 seconds.
    """
    from tornado.ioloop import IOLoop

    begun: Promise[IOLoop] = Promise()
    ended = asyncio.Event()

    async def wait() -> None:
        begun.set_result(IOLoop.current())
        await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(wait()), name="Dask", daemon=True)
    thread.start()
    loop = begun.result()
    try:
        yield loop
    finally:
        loop.add_callback(ended.set)
        thread.join(CLOSE_SECONDS)


@contextmanager
def open_client(scheduler: str | None, workers: int) -> Iterator[Client]:
    """A client of the named cluster, or of one that lasts as long as the block."""
    import dask
    from distributed import Client, LocalCluster

    if scheduler is None:
        execute.RUNNING.reset()
        # Every point is a process of its own already, so the workers need be threads only: then
        # a script needs no `if __name__ == "__main__"`.
        with (
            dask.config.set(QUIET),
            _loop() as loop,
            LocalCluster(
                loop=loop,
                n_workers=1,
                threads_per_worker=workers,
                processes=False,
                dashboard_address="127.0.0.1:0",
                memory_limit=0,
                silence_logs=50,
            ) as cluster,
            Client(cluster) as client,
        ):
            try:
                yield client
            finally:
                execute.RUNNING.stop()
        return
    try:
        connected = Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise PerdureError(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error})"
        ) from error
    with connected as client:
        _check_workers(client)
        yield client


def check(scheduler: str | None) -> None:
    """Refuses a cluster that does not answer, or is none of Perdure's, before other work."""
    if scheduler is not None:
        with open_client(scheduler, 1):
            pass


def _check_workers(client: Client) -> None:
    """Refuses a cluster whose workers have another Perdure, or none."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        known = client.run(_identity)
    except TimeoutError as error:
        raise PerdureError(
            "the Dask scheduler has no workers: start some, then try again"
        ) from error
    except ImportError as error:
        raise PerdureError(
            f"the Dask workers cannot import Perdure ({error}): install it where they run"
        ) from error
    for worker, identity in known.items():
        if tuple(identity) != _identity():
            raise PerdureError(
                f"the Dask worker {worker} has another build of Perdure, {' '.join(identity)}, "
                f"than this one, {' '.join(_identity())}: install the same on both"
            )

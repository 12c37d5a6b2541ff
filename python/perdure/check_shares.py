"""Checks on a Dask cluster (`perdure check --scheduler`).

Always true here: each thread of the cluster does its share, in a process of its own and in the
folder of who asks: of the failure points first, and then, knowing all of those, of the causes of
what goes wrong there and of failures within recoveries. Together they are the report that this host
alone would have made (crates/perdure/src/crash_check/shares.rs). After Ctrl-C, what is finished is
reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perdure import _core, extras, spreading

if TYPE_CHECKING:
    from distributed import Client

    from perdure.api import Json, Progress
    from perdure.check_results import Check
    from perdure.spreading import Told


@extras.need_reports("a Dask cluster")
def check(asked: Json, scheduler: str, progress: Progress | None) -> Check:
    """The report of a check that a cluster has made."""
    from perdure.experiments import cluster

    started = time.monotonic()
    with cluster.open_client(scheduler, 1) as client:
        told, interrupted = _points(client, asked, progress)
        if not interrupted and asked["model"] != "machine":
            more, interrupted = _causes(client, asked, told, progress)
            told = [*told, *more]
    together = {"asked": asked, "told": told, "interrupted": interrupted}
    report: Check = json.loads(_core.check_together(json.dumps(together), progress))
    return {**report, "host": {"seconds": time.monotonic() - started}}


def _points(client: Client, asked: Json, progress: Progress | None) -> tuple[list[str], bool]:
    unit = "cuts" if asked["model"] == "machine" else "failure points"
    shares = _shares(client, asked, [])
    return _told(*shares.run(progress, lambda said: spreading.together(said, unit)))


def _causes(
    client: Client, asked: Json, told: list[str], progress: Progress | None
) -> tuple[list[str], bool]:
    def furthest(said: Mapping[int, Told]) -> Told:
        return max(said.values())

    return _told(*_shares(client, asked, told).run(progress, furthest))


def _shares(client: Client, asked: Json, told: list[str]) -> spreading.Parts:
    from perdure.experiments import cluster

    parts = cluster.threads(client)
    own = {**asked, "request": {**asked["request"], "jobs": 1}}
    requests = [{"asked": own, "part": [number, parts], "told": told} for number in range(parts)]
    request = asked["request"]
    lines = [request["program"], request.get("then") or (), asked["checker"], asked["dump"]]
    return spreading.Parts(client, "check_share", requests, spreading.digests(lines))


def _told(reports: Mapping[int, Json], interrupted: bool) -> tuple[list[str], bool]:
    ended = interrupted or any(one["interrupted"] for one in reports.values())
    return [reports[number]["told"] for number in sorted(reports)], ended

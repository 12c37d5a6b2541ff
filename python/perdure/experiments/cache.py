"""Finished points on disk: `points/KEY.json` in the output folder.

Always true here: a file is whole or absent (written under another name, then renamed); it holds no
path of this host; what cannot be read counts as not computed.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from perdure import PerdureError, __version__
from perdure.experiments.point import SCHEMA, Point, core_digest

Stored: TypeAlias = dict[str, Any]
"""A finished point: what was asked, of which build, the effective configuration, the result."""


class Cache:
    """The finished points of one output folder."""

    def __init__(self, out: Path) -> None:
        self.folder = out / "points"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PerdureError(f"--out cannot use {out}: {error.strerror}") from error

    def load(self, key: str) -> Stored | None:
        """What is kept of a point, if it has finished."""
        try:
            stored: Stored = json.loads(self._path(key).read_text())
        except (OSError, ValueError):
            return None
        return stored if stored.get("key") == key and stored.get("schema") == SCHEMA else None

    def save(self, key: str, point: Point, result: dict[str, Any]) -> Stored:
        """Keeps a finished point, and returns what is kept."""
        effective = point.configuration()
        stored: Stored = {
            "schema": SCHEMA,
            "key": key,
            "version": __version__,
            "core": core_digest(),
            "config_hash": effective.hash,
            "configuration": effective.toml,
            "point": described(point),
            "result": result,
        }
        path = self._path(key)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(stored, indent=1))
            temporary.replace(path)
        except OSError as error:
            raise PerdureError(f"cannot keep a result in {path}: {error.strerror}") from error
        return stored

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def described(point: Point) -> dict[str, Any]:
    """The point without this host's paths."""
    return {
        "name": point.name,
        "design": point.design,
        "machine": Path(point.machine).name,
        "overrides": list(point.overrides),
        "harts": point.harts or len(point.programs),
        "programs": [
            {
                "name": program.name,
                "command": [Path(program.command[0]).name, *program.command[1:]],
                "digest": program.digest,
            }
            for program in point.programs
        ],
        "surroundings": point.surroundings.digest,
        "restart": point.restart,
        "warm_up_instructions": point.warm_up,
        "measure_instructions": point.measure,
        "measure_threads": point.measure_threads,
        "sample_cycles": point.sample_cycles,
        "stop_after": point.stop_after,
        "campaign": None if point.campaign is None else asdict(point.campaign),
    }

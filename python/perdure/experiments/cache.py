"""Finished points on disk: `points/KEY.json` in the output folder.

Always true here: a file is whole or absent (written under another name, then renamed); it holds no
path of this host, and a checksum over all that it holds; what is not exactly what this build kept
for the very point that is asked for is named in one line and counts as not computed.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from perdure import PerdureError, __version__, outputs
from perdure.experiments.point import SCHEMA, Point, core_digest

Stored: TypeAlias = dict[str, Any]
"""A finished point: what was asked, of which build, the effective configuration, the result."""

CHECKSUM = "checksum"
"""The key of the checksum: SHA-256 over the others and their values, as `_checksum` writes them."""

DEPTH_MOST = 200
"""How deep the values of a file may be nested; those of a result are some ten levels deep."""


class Cache:
    """The finished points of one output folder. `say` is told of each that cannot be used.

    `pools` is where pools that several points begin with are while points run.
    """

    def __init__(self, out: Path, say: Callable[[str], object] = warnings.warn) -> None:
        self.folder = out / "points"
        self.pools = (out / "pools").resolve()
        self._say = say
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PerdureError(f"--out cannot use {out}: {error.strerror}") from error

    def load(self, key: str, point: Point) -> Stored | None:
        """What is kept of a point, if it has finished."""
        path = self._path(key)
        try:
            stored = _parsed(path.read_bytes())
            _check(stored, self._inputs(key, point))
        except FileNotFoundError:
            return None
        except (OSError, _DamagedError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._say(f"{outputs.shown(path)}: {reason}: the point is computed again")
            return None
        return stored

    def save(self, key: str, point: Point, result: dict[str, Any]) -> Stored:
        """Keeps a finished point, and returns what is kept."""
        stored: Stored = {**self._inputs(key, point), "result": result}
        stored[CHECKSUM] = _checksum(stored)
        path = self._path(key)
        try:
            outputs.write_text(path, json.dumps(stored, indent=1))
        except OSError as error:
            raise PerdureError(f"cannot keep a result in {path}: {error.strerror}") from error
        return stored

    def _inputs(self, key: str, point: Point) -> Stored:
        """All that a file holds besides the result, as JSON gives it back."""
        effective = point.configuration()
        inputs: Stored = json.loads(
            json.dumps(
                {
                    "schema": SCHEMA,
                    "key": key,
                    "version": __version__,
                    "core": core_digest(),
                    "config_hash": effective.hash,
                    "configuration": effective.toml,
                    "point": described(point),
                }
            )
        )
        return inputs

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


class _DamagedError(Exception):
    """Why a file cannot be used."""


def _parsed(content: bytes) -> Stored:
    """A file's content as a table of values."""
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError):
        raise _DamagedError("it is damaged: no JSON text") from None
    if not isinstance(stored, dict) or _too_deep(stored):
        raise _DamagedError("it is damaged: not what is kept of a point")
    return stored


def _too_deep(value: object) -> bool:
    """Whether values are nested so deep that what walks through them could fail."""
    level = [value]
    for _ in range(DEPTH_MOST):
        if not level:
            return False
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return True


def _check(stored: Stored, inputs: Stored) -> None:
    """Refuses a file that is not what was kept, or not of these inputs."""
    if stored.get("schema") != SCHEMA:
        raise _DamagedError("it has the format of another version of Perdure")
    if stored.get(CHECKSUM) != _checksum(stored):
        raise _DamagedError("it is damaged: its checksum is another one")
    if not isinstance(stored.get("result"), dict):
        raise _DamagedError("it is damaged: it has no result")
    for name, value in inputs.items():
        if stored.get(name) != value:
            raise _DamagedError(f"it was kept for something else: its {name} is another one")


def _checksum(stored: Stored) -> str:
    """SHA-256 over everything but the checksum itself, keys sorted, as ASCII without spaces."""
    values = {name: value for name, value in stored.items() if name != CHECKSUM}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def described(point: Point) -> dict[str, Any]:
    """The point without this host's paths."""
    return {
        "name": point.name,
        "design": point.design,
        "machine": Path(point.machine).name,
        "overrides": list(point.overrides),
        "harts": point.harts_of_machine,
        "programs": [
            {
                "name": program.name,
                "command": [Path(program.command[0]).name, *program.command[1:]],
                "digest": program.digest,
            }
            for program in point.programs
        ],
        "surroundings": point.surroundings.digest,
        "repeat": point.repeat,
        "warm_up_instructions": point.warm_up,
        "measure_instructions": point.measure,
        "measure_threads": point.measure_threads,
        "sample_cycles": point.sample_cycles,
        "probe_cuts": point.probe_cuts,
        "stop_after": point.stop_after,
        "campaign": None if point.campaign is None else point.campaign.asked(),
        **({"made": [[Path(one[0]).name, *one[1:]] for one in point.made]} if point.pools else {}),
    }

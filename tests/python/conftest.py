"""Tests of the Python side: a recorded core stands in for the compiled one.

Always true here: `perdure._core` is the recording below, so these tests say what Python asks of
the core and what it makes of the answers; the core has tests of its own.
"""

import copy
import json
import sys
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

RUN = {
    "design": "picl",
    "machine": "picl",
    "config_hash": "c0ffee00c0ffee00",
    "state_hash": "5eed5eed5eed5eed",
    "exit_code": 0,
    "sim": {"instructions": 300_000_000, "cycles": 450_000_000},
    "host": {"seconds": 1.5, "mips": 200.0},
    "nvm": {
        "written_bytes": {
            "data": 64_000_000,
            "log": 8_000_000,
            "metadata": 4_096,
            "context": 5_120,
            "total": 72_009_216,
        },
        "read_bytes": 32_000_000,
    },
    "statistics": {
        "l1d.misses": {"value": 1_000_000, "unit": "lines", "meaning": "loads and stores missed"},
        "l1i.misses": {"value": 500_000, "unit": "lines", "meaning": "instruction fetches missed"},
    },
    "interrupted": False,
}

VERIFIED = {
    "cycle": 1_000_000,
    "recovered_epoch": 3,
    "resumed": True,
    "verdict": "verified",
    "token": "p1-aaaa",
    "location": "main+0x10",
}
BROKEN = {
    "cycle": 2_000_000,
    "recovered_epoch": None,
    "resumed": False,
    "verdict": "memory equals no committed epoch",
    "token": "p1-bbbb",
    "location": "main+0x20",
    "first_difference": {
        "address": 0x8000_1000,
        "symbol": "store+0x40",
        "kind": "lost line",
        "expected": "01 02",
        "found": "00 00",
    },
}
CUT = {
    "design": "picl",
    "machine": "picl",
    "config_hash": "c0ffee00c0ffee00",
    "cuts": 1,
    "verified": 1,
    "failed": 0,
    "coverage": {"undo buffer flush": 12, "acs": {"running": 3}},
    "results": [VERIFIED],
}
MUTANTS = {
    "design": "picl",
    "mutants": [
        {
            "name": "log-scanned-forwards",
            "summary": "recovery applies the oldest entry last",
            "caught": True,
            "by": "epoch prefix",
            "cuts": 4,
            "token": "p1-cccc",
        }
    ],
    "clean": {"cuts": 200, "false_alarms": 0},
}
CONFIGURATION = {"toml": "[nvm]\nread_ns = 128\n", "hash": "c0ffee00c0ffee00", "values": {}}
CATALOGUE = {
    "designs": [
        {"name": "ideal", "summary": "no protection", "promise": "nothing", "planted_bugs": []},
        {
            "name": "picl",
            "summary": "cache-driven logging",
            "promise": "epoch prefix",
            "planted_bugs": [{"name": "log-scanned-forwards", "summary": "…"}],
        },
    ],
    "machines": [{"name": "picl", "summary": "Table IV", "path": "machines/picl.toml"}],
}


class RecordedError(Exception):
    """Stands in for the core's exception."""


class RecordedCore(types.ModuleType):
    """Answers with recorded results and keeps every request."""

    PerdureError = RecordedError
    __version__ = "0.0.0"
    TIMING_VERSION = 7

    def __init__(self):
        super().__init__("perdure._core")
        self.reset()

    def reset(self):
        self.requests = []
        self.results = {
            "run": copy.deepcopy(RUN),
            "cut": copy.deepcopy(CUT),
            "replay": copy.deepcopy(CUT),
            "mutants": copy.deepcopy(MUTANTS),
        }
        self.refusal = None

    def _answer(self, name, request):
        self.requests.append((name, request))
        if self.refusal is not None:
            raise RecordedError(self.refusal)
        result = self.results[name]
        if name in ("run", "cut"):
            result = {**result, "design": request["design"]}
        return json.dumps(result)

    def run(self, request, _progress=None):
        return self._answer("run", json.loads(request))

    def cut(self, request, _progress=None):
        return self._answer("cut", json.loads(request))

    def mutants(self, request, _progress=None):
        return self._answer("mutants", json.loads(request))

    def replay(self, token, _progress=None):
        return self._answer("replay", token)

    def configuration(self, request):
        self.requests.append(("configuration", json.loads(request)))
        if self.refusal is not None:
            raise RecordedError(self.refusal)
        return json.dumps(CONFIGURATION)

    def catalogue(self):
        return json.dumps(CATALOGUE)


sys.modules["perdure._core"] = RecordedCore()


@pytest.fixture
def core():
    """The recording, fresh for each test, and with nothing kept of what others answered."""
    from perdure.experiments import point

    recorded = sys.modules["perdure._core"]
    recorded.reset()
    point._configuration.cache_clear()
    return recorded


@pytest.fixture
def command(core, capsys, monkeypatch):
    """Runs the command line as a shell would: returns (status, stdout, stderr)."""
    from perdure import cli

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["perdure", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    monkeypatch.setenv("COLUMNS", "200")
    return call

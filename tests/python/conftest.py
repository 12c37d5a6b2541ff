"""Tests of the Python side: a recorded core stands in for the compiled one.

Always true here: `perdure._core` answers with `recorded.json`, so these tests say what Python asks
of the core and what it makes of the answers; that the core still answers so is seen end to end
(`tests/end_to_end/test_recorded.py`), and the core has tests of its own.
"""

import copy
import dataclasses
import json
import sys
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

RECORD = json.loads(Path(__file__).with_name("recorded.json").read_text())
"""What the compiled core answered to `record.py`."""

RUN, CUT, MUTANTS = RECORD["run"], RECORD["cut"], RECORD["mutants"]
CONFIGURATION, CATALOGUE = RECORD["configuration"], RECORD["catalogue"]
VERIFIED, BROKEN = CUT["results"][0], RECORD["broken"]


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
        self.said = []

    def _answer(self, name, request):
        self.requests.append((name, request))
        if self.refusal is not None:
            raise RecordedError(self.refusal)
        result = self.results[name]
        if name in ("run", "cut"):
            result = {**result, "design": request["design"]}
        return json.dumps(result)

    def run(self, request, _progress=None, output=None):
        for descriptor, data in self.said:
            output(descriptor, data)
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

    def demangled(self, name):
        return {"_ZN4list4fillEv": "list::fill()"}.get(name, name)


sys.modules["perdure._core"] = RecordedCore()


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """What the command keeps between calls is kept for the test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def core():
    """The recording, fresh for each test, and with nothing kept of what others answered."""
    from perdure.experiments import point

    recorded = sys.modules["perdure._core"]
    recorded.reset()
    point._configuration.cache_clear()
    return recorded


@pytest.fixture
def provided(paper, tmp_path):
    """All programs of the test module's `paper`, as if they had been compiled."""
    from perdure.experiments import declaration, programs

    entries = programs.catalogue(files=paper.catalogues)
    entries = programs.measured(entries, declaration.regions(paper.name, "quick"), "quick")
    digests = {f"{entry.kind}/{entry.program}": entry.program for entry in entries}
    entries = {one.name: one for one in entries}
    return programs.Provided(entries, {}, tmp_path, None, {}, digests)


def check_schema(kind, document):
    """Holds a result against its schema, and refuses keys that this does not know."""
    import jsonschema

    from perdure import schemas

    jsonschema.Draft202012Validator(schemas.schema(kind, closed=True)).validate(document)


def planned_of(figure, paper, provided, **more):
    """What runs for a figure at quick that has `more` of its own."""
    from perdure.experiments import declaration, plan

    experiment = declaration.experiments(paper.name, "quick")[figure]
    experiment = dataclasses.replace(experiment, **more)
    return plan.plan(experiment, paper, paper.scales["quick"], provided, paper.mixes)


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

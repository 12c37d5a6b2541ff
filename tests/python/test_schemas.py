"""The JSON Schemas of results: made of the types, as they lie in docs/schemas, and true."""

import json
from pathlib import Path

import jsonschema
import pytest
from conftest import BROKEN, CATALOGUE, CONFIGURATION, CUT, MUTANTS, RUN, check_schema
from test_litmus import AGREES, DIFFERS, answer

from perdure import PerdureError, schemas

FOLDER = Path(__file__).parents[2] / "docs/schemas"

RECORDED = {
    "run": RUN,
    "cut": CUT | {"results": [*CUT["results"], BROKEN]},
    "mutants": MUTANTS,
    "all-mutants": {"designs": [MUTANTS]},
    "compare": {"program": ["a"], "results": [RUN, RUN]},
    "configuration": CONFIGURATION,
    "designs": {"designs": CATALOGUE["designs"]},
    "machines": {"machines": CATALOGUE["machines"]},
}


@pytest.mark.parametrize("kind", schemas.kinds())
def test_the_files_are_what_the_types_say(kind):
    kept = json.loads((FOLDER / f"{kind}.json").read_text())
    made = json.loads(schemas.texts()[f"{kind}.json"])
    assert kept == made, "run python -m perdure.schemas docs/schemas"
    jsonschema.Draft202012Validator.check_schema(kept)


def test_there_are_no_other_files():
    assert {path.name for path in FOLDER.iterdir()} == {f"{kind}.json" for kind in schemas.kinds()}


def test_the_page_names_all_of_them():
    page = (FOLDER.parent / "python.md").read_text()
    assert [kind for kind in schemas.kinds() if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("kind", RECORDED)
def test_what_the_core_answers_has_no_key_that_is_not_typed(kind):
    check_schema(kind, RECORDED[kind])


@pytest.mark.parametrize("kind", RECORDED)
def test_another_key_and_a_missing_one_are_noticed(kind):
    first = next(iter(schemas.schema(kind)["$defs"].values()))
    assert "additionalProperties" not in first
    with pytest.raises(jsonschema.ValidationError, match="unexpected"):
        check_schema(kind, {**RECORDED[kind], "another": 1})
    with pytest.raises(jsonschema.ValidationError, match="required property"):
        check_schema(kind, {})


@pytest.mark.parametrize("stated", [None, AGREES, DIFFERS])
def test_a_litmus_test(stated):
    (test,) = answer(stated)["tests"]
    tests = [{**test, "source": "", "states": 3}]
    check_schema("litmus", {"tests": tests, "interrupted": False})


def test_units_are_in_the_schema():
    parts = schemas.schema("run")["$defs"]
    assert parts["Simulated"]["properties"]["cycles"]["unit"] == "cycles"
    assert parts["CutCost"]["properties"]["lost_cycles"]["unit"] == "cycles"
    assert "raw" not in parts["RunResult"]["properties"]
    assert "stdout" not in parts["RunResult"]["properties"]


def test_an_unknown_result_is_refused():
    with pytest.raises(PerdureError, match="there is no result 'runs': results are run, cut"):
        schemas.schema("runs")

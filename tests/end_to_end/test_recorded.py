"""The record that the tests of the Python side answer from, against the compiled core.

Always true here: the core is asked what `tests/python/record.py` asks; where its answers have
other keys, or values of another kind, the record is stale, and that program makes it anew.
"""

from __future__ import annotations

import json
import runpy
from typing import Any

from conftest import REPOSITORY

RECORD = runpy.run_path(str(REPOSITORY / "tests/python/record.py"))


def shape(value: Any) -> Any:
    """Keys and kinds of values; of a list, the shapes that its entries have."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        shapes = {json.dumps(shape(one), sort_keys=True) for one in value}
        return [json.loads(one) for one in sorted(shapes)]
    return "number" if isinstance(value, int | float) else type(value).__name__


def test_the_core_still_answers_as_it_was_recorded() -> None:
    recorded = json.loads(RECORD["RECORD"].read_text())
    answers = RECORD["answers"]()
    assert set(answers) == set(recorded)
    for name, answer in answers.items():
        assert shape(answer) == shape(recorded[name]), f"{name}: run tests/python/record.py"


def test_a_key_more_and_another_kind_are_noticed() -> None:
    recorded = json.loads(RECORD["RECORD"].read_text())["run"]
    assert shape({**recorded, "more": 1}) != shape(recorded)
    assert shape({**recorded, "exit_code": "0"}) != shape(recorded)
    assert shape({**recorded, "exit_code": 1}) == shape(recorded)

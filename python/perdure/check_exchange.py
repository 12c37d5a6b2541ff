"""What `perdure check` has found, for other programs: SARIF, JUnit, and the baseline of itself.

Always true here: a source below the working folder is named from there, as hosts of code name it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from perdure.check_reports import again, is_empty, told
from perdure.check_words import ADVICE, MEANING, Mark, file_of, marks, title, where

if TYPE_CHECKING:
    from perdure.check_results import Bug, Check, Place


def _uri(file: str) -> str:
    """A source file from the working folder, if it lies below it; else where it lies."""
    below = os.path.relpath(file)
    if not below.startswith(os.pardir):
        return Path(below).as_posix()
    return Path(file).as_uri() if Path(file).is_absolute() else file


def _location(place: Place | None, text: str) -> list[dict[str, Any]]:
    """A place as SARIF has it."""
    file = None if place is None else file_of(place)
    if place is None or file is None:
        return []
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if place["line"]:
        physical["region"] = {"startLine": place["line"]}
    return [{"physicalLocation": physical, "message": {"text": text}}]


def _said(mark: Mark) -> str:
    beside = "" if mark.beside == "at" else f" {mark.beside} this line"
    return f"{where(mark.place)}: {mark.text}{beside}"


def _result(bug: Bug, is_new: bool) -> dict[str, Any]:
    """A bug as SARIF has it: at the store to blame, or else where power fails."""
    places = [found for mark in marks(bug) for found in _location(mark.place, _said(mark))]
    said = ". ".join(text for _, text in told(bug))
    others = [{"id": number, **one} for number, one in enumerate(places[1:], 1)]
    return {
        "ruleId": bug["defect"],
        "level": "error",
        "baselineState": "new" if is_new else "unchanged",
        "message": {"text": f"{title(bug)}. {said}. Again: {again(bug)}"},
        "locations": places[:1],
        "relatedLocations": others,
        "partialFingerprints": {"perdureCause/v1": bug["id"]},
    }


def sarif(report: Check, new: set[str]) -> str:
    """The report as SARIF 2.1.0, as code hosts show it in a change."""
    rules = [
        {"id": name, "shortDescription": {"text": MEANING[name]}, "help": {"text": text}}
        for name, text in ADVICE.items()
    ]
    results = [_result(bug, bug["id"] in new) for bug in report["bugs"]]
    driver = {"name": "perdure check", "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def junit(report: Check, new: set[str]) -> str:
    """The report as JUnit has it: a case for each bug, and one for all if there is none."""
    bugs, program = report["bugs"], " ".join(report["program"])
    suite = ElementTree.Element("testsuite", name="perdure check")
    suite.set("tests", str(len(bugs) or 1))
    suite.set("failures", str(sum(bug["id"] in new for bug in bugs)))
    for bug in bugs:
        case = ElementTree.SubElement(suite, "testcase", classname=program, name=title(bug))
        if bug["id"] in new:
            failure = ElementTree.SubElement(case, "failure", message=bug["symptom"])
            failure.text = "\n".join(
                [*("  " * depth + text for depth, text in told(bug)), f"again: {again(bug)}"]
            )
        else:
            ElementTree.SubElement(case, "skipped", message="in the baseline")
    if not bugs:
        case = ElementTree.SubElement(
            suite, "testcase", classname=program, name="crash consistency"
        )
        if is_empty(report):
            suite.set("errors", "1")
            ElementTree.SubElement(case, "error", message="nothing was looked at")
    ElementTree.indent(suite, "")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, "unicode")}\n'


def baseline(bugs: Iterable[Bug]) -> str:
    """The bugs as a baseline file has them, with a line about each for who reads it."""
    rows = [{"id": bug["id"], "title": title(bug)} for bug in bugs]
    return json.dumps({"bugs": rows}, indent=2) + "\n"

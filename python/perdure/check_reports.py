"""What `perdure check` has found, as text, SARIF and JUnit.

Always true here: a place whose source is not known is shown by its function, or else its address.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from perdure import tokens

if TYPE_CHECKING:
    from perdure.check_results import Again, Bug, Check, Place, Store

ADVICE = {
    "missing-flush": "flush the line behind this store, and wait for that with a fence, before "
    "anything that relies on it",
    "flush-too-early": "flush the line again behind this store, or flush it only then, and wait "
    "for that with a fence",
    "missing-fence": "the line is flushed; wait for that with a fence before anything that relies "
    "on it",
    "wrong-order": "make this store durable before the one that leads to it, or that relies on it",
    "torn": "these stores have to be seen together: put them into one store of eight bytes, write "
    "a copy and switch to it, or log them first",
    "not-recoverable": "nothing has to be lost for this: do not make that store before all that it "
    "stands for is durable, or log the change first, so that recovery can finish or undo it",
}
"""What would mend each kind of defect."""


def where(place: Place | None) -> str:
    """A place of the program, in few words."""
    if place is None:
        return "somewhere"
    source = place.get("file")
    line = f" ({Path(source).name}:{place['line']})" if source and place.get("line") else ""
    return f"{place.get('function') or place['pc']}{line}"


def title(bug: Bug) -> str:
    """A bug in a line."""
    defect = str(bug["defect"]).replace("-", " ")
    places = sorted({where(one["place"]) for one in bug["lost"] or bug["kept"]})
    if not places:
        when = "before" if bug["cut"] is None else "behind the store in"
        return f"{defect}: power fails {when} {where(bug['point']['place'])}"
    return f"{defect}: {', '.join(places)}"


def at_point(bug: Bug) -> str:
    """When power fails, in words."""
    point = bug["point"]
    reason = str(point["reason"])
    during = "" if point["operation"] is None else f", during operation {point['operation']}"
    if point["in_recovery"]:
        during = f" of {point['in_recovery']}, after it had failed{during}"
    if reason.startswith("cut at"):
        return f"power is {reason}{during}, behind the store in {where(point['place'])}"
    if reason == "end":
        return f"power fails when the program has ended{during}"
    what = {"fence": "before the fence in", "flush": "before the flush in"}.get(
        reason, f"before {reason.replace(' begins', '')} begins in"
    )
    return f"power fails {what} {where(point['place'])}{during}"


def lines_of(bug: Bug) -> list[str]:
    """A bug for a person to read, but for its title."""
    points = "cut" if bug["cut"] is not None else "failure point"
    told = [f"{'; '.join(bug['symptoms'])} (at {counted(bug['points'], points)})"]
    told += [f"  {line}" for line in bug["detail"]]
    told += [f"not durable: {_store(one)}" for one in bug["lost"]]
    kept = "yet durable" if bug["lost"] else "too early"
    told += [f"{kept}: {_store(one)}" for one in bug["kept"]]
    told += [
        f"a flush belongs behind {where(one['behind'])}"
        for one in bug["lost"]
        if bug["defect"] in ("missing-flush", "flush-too-early")
    ]
    told += [at_point(bug), *on_machine(bug), f"to do: {ADVICE[bug['defect']]}"]
    token = tokens.shown(bug["token"])
    return [*told, f"again: perdure replay {token}, or perdure debug {token}"]


def on_machine(bug: Bug) -> list[str]:
    """Whether the machine comes to the state of a bug, and how easily."""
    cut, sought = bug["cut"], bug["on_machine"]
    if cut is not None:
        machine = " ".join(f"--set {one}" for one in cut["set"]) or "the machine as it is"
        cuts = counted(bug["points"], "cut")
        return [f"seen on this machine, in {cuts} (first {cut['schedule']}, {machine})"]
    if sought is None:
        return []
    if sought["seen"]:
        return [
            f"seen on this machine, in {sought['seen']:,} of {sought['cuts']:,} cuts near there"
        ]
    return [f"allowed by the model, not seen on this machine in {sought['cuts']:,} cuts near there"]


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _store(one: Store) -> str:
    place = "" if one["pool"] is None else f", {one['pool']}+{one['offset']:#x}"
    words = ", ".join(
        f"+{word['offset']}: {word['found']}, not {word['newest']}" for word in one["words"][:2]
    )
    callers = " < ".join(where(frame) for frame in (one["stack"] or [])[1:4])
    told = [f"the store in {where(one['place'])}{place}{f' [{words}]' if words else ''}"]
    told += [f"called from {callers}"] if callers else []
    told += [f"durable only at {where(one['durable_at'])}"] if one["durable_at"] else []
    return ", ".join(told)


def _location(place: Place | None) -> list[dict[str, Any]]:
    """A place as SARIF has it."""
    if place is None or not place.get("file"):
        return []
    physical: dict[str, Any] = {"artifactLocation": {"uri": place["file"]}}
    if place.get("line"):
        physical["region"] = {"startLine": place["line"]}
    return [{"physicalLocation": physical, "message": {"text": where(place)}}]


def sarif(report: Check, new: set[str]) -> str:
    """The report as SARIF 2.1.0, as code hosts show it in a change."""
    rules = [{"id": name, "help": {"text": text}} for name, text in ADVICE.items()]
    results = []
    for bug in report["bugs"]:
        places = [one["place"] for one in (*bug["lost"], *bug["kept"])]
        first, *others = [*places, bug["point"]["place"]]
        results.append(
            {
                "ruleId": bug["defect"],
                "level": "error",
                "baselineState": "new" if bug["id"] in new else "unchanged",
                "message": {"text": f"{title(bug)}. " + ". ".join(lines_of(bug))},
                "locations": _location(first),
                "relatedLocations": [one for place in others for one in _location(place)],
                "partialFingerprints": {"perdureCause/v1": bug["id"]},
            }
        )
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
            failure.text = "\n".join(lines_of(bug))
        else:
            ElementTree.SubElement(case, "skipped", message="in the baseline")
    if not bugs:
        ElementTree.SubElement(suite, "testcase", classname=program, name="crash consistency")
    ElementTree.indent(suite, "")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, "unicode")}\n'


def lines(report: Check, new: set[str]) -> Iterator[tuple[str, str]]:
    """The report for a person: lines, each with its style."""
    points, states, seen = report["points"], report["states"], report["on_machine"]
    all_of = f"{points['exhaustively']:,} of them exhaustively"
    explored = f"{points['explored']:,} of {points['found']:,} failure points"
    wrong, coverage = f"{states['wrong']:,} of them wrong", f"{states['coverage']:.1%}"
    yield f"{' '.join(report['program'])}: {report['model']}", "bold"
    if report["machines"]:
        yield from _of_machines(report)
    else:
        yield f"  {explored}, from {points['call_stacks']:,} call stacks; {all_of}", ""
        yield f"  {states['run']:,} recoveries that differ, {wrong}; coverage there {coverage}", ""
    if points["in_recoveries"]:
        yield f"  {points['in_recoveries']:,} failure points of recoveries", ""
    for notice in report["notices"]:
        yield f"  note: {notice}", ""
    for number, bug in enumerate(report["bugs"], 1):
        known = "" if bug["id"] in new else " (in the baseline)"
        yield "", ""
        yield f"bug {number}{known}: {title(bug)}", "bold" if known else "bold red"
        for text in lines_of(bug):
            yield f"  {text}", ""
    if report["unexplained"]:
        yield f"\n{report['unexplained']:,} kinds of failures more, whose causes are not known", ""
    if report["waste"]:
        yield "\nfor nothing:", "bold"
    for row in report["waste"]:
        what = str(row["what"]).replace("-", " ")
        yield f"  {what}, {row['count']:,} times: {where(row['place'])}", ""
    if seen is not None:
        cuts = f"{seen['failed']:,} of {seen['cuts']:,} cuts"
        yield f"\non {seen['machine']}: recovery fails after {cuts}", "bold"
        for token in seen["tokens"]:
            yield f"  perdure replay {tokens.shown(token)}", ""
    if not report["bugs"]:
        yield "\nno bug found" + ("" if not report["limited"] else ", as far as was looked"), ""


def _of_machines(report: Check) -> Iterator[tuple[str, str]]:
    """Which machines were cut, and how often that went wrong."""
    rounds, states = report["machines"], report["states"]
    cuts = f"{report['points']['explored']:,} of {report['points']['found']:,} cuts"
    runs = counted(len(rounds), "run")
    yield f"  {cuts}, of {runs}; recovery is wrong after {states['wrong']:,}", ""
    for one in rounds:
        machine = " ".join(one["set"]) or "the machine as it is"
        failed = f"{one['failed']:,} of {one['cuts']:,}"
        yield f"    {failed} {one['schedule']} cuts: {machine}", ""


def lines_again(once: Again) -> Iterator[tuple[str, str]]:
    """How recovery ended on one state, and what is wrong with that."""
    for life in once["lives"]:
        yield f"{life['program']}: {life['end']}", "bold"
        for text in (life["output"] + "\n" + life["error"]).splitlines():
            yield f"  {text}", ""
    yield f"wrong: {once['wrong']}" if once["wrong"] else "nothing is wrong", "bold"
    for text in once["detail"]:
        yield f"  {text}", ""

"""What `perdure check` has found, as text for a person.

Always true here: a line has at most 80 columns, unless it is to be copied or a word of it has more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perdure import check_waste, tokens
from perdure.check_words import (
    ADVICE,
    at_point,
    belongs,
    callers,
    kept_words,
    printable,
    title,
    where,
)
from perdure.explanation import plural

if TYPE_CHECKING:
    from perdure.check_results import Again, Bug, Check, Store, Word

COLUMNS = 80
STEP = 2
"""Columns that a line is further in than the one that it belongs to."""
WORDS_SHOWN = 4
"""Of a line of memory, words that differ."""
LINE_BYTES = 64


def folded(text: str, depth: int = 0) -> list[str]:
    """Text in lines that a narrow terminal shows whole, broken between words alone."""
    indent = " " * STEP * depth
    return textwrap.wrap(
        text,
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent + " " * STEP,
        break_long_words=False,
        break_on_hyphens=False,
    )


def told(bug: Bug) -> Iterator[tuple[int, str]]:
    """A bug for a person, but for its title: sentences, each with how far in it stands."""
    times = plural(bug["points"], "failure point" if bug["cut"] is None else "cut")
    yield 0, f"{'; '.join(bug['symptoms'])} (at {times})"
    for line in bug["detail"]:
        yield 1, printable(line)
    for one in bug["lost"]:
        yield from _store("not durable", one, "{place}: {found}, newest {newest}", one["words"])
    for one in bug["kept"]:
        said, words = "{place}: {newest}, before {found}", found_whole(bug, one)
        yield from _store(kept_words(bug), one, said, words)
    for mark in belongs(bug):
        yield 0, f"{mark.text} {mark.beside} {where(mark.place)}"
    yield 0, at_point(bug)
    if machine := on_machine(bug):
        yield 0, machine
    yield 0, f"to do: {ADVICE[bug['defect']]}"


def on_machine(bug: Bug) -> str | None:
    """Whether the machine comes to the state of a bug, and how easily."""
    cut, sought = bug["cut"], bug["on_machine"]
    if cut is not None:
        machine = _settings(bug) or "the machine as it is"
        cuts = plural(bug["points"], "cut")
        return f"seen on this machine, in {cuts} (first {cut['schedule']}, {machine})"
    if sought is None:
        return None
    if sought["seen"]:
        seen = f"{sought['seen']:,} of {plural(sought['cuts'], 'cut')}"
        return f"seen on this machine, in {seen} near there"
    cuts = plural(sought["cuts"], "cut")
    return f"allowed by the model, not seen on this machine in {cuts} near there"


def _settings(bug: Bug) -> str:
    """The options that make a machine the one that was cut."""
    return "" if bug["cut"] is None else " ".join(f"--set {one}" for one in bug["cut"]["set"])


def again(bug: Bug) -> str:
    """What shows the bug's state again, behind the same command."""
    settings = f"{_settings(bug)} " if _settings(bug) else ""
    return f"{settings}--state '{bug['state']}'"


def found_whole(bug: Bug, kept: Store) -> list[Word]:
    """The words of a store that is kept, where nothing of their line is lost."""
    line = word_places(kept)
    return [] if line in map(word_places, bug["lost"]) else kept["words"]


def word_places(one: Store) -> list[str]:
    """Where the words of a store's line lie."""
    return [word_place(one, word) for word in one["words"]]


def _store(what: str, one: Store, said: str, words: list[Word]) -> Iterator[tuple[int, str]]:
    yield 0, f"{what}: the store in {where(one['place'])}, to {place_of(one)}"
    for word in words[:WORDS_SHOWN]:
        yield 1, said.format(place=word_place(one, word), **word)
    rest = len(words) - WORDS_SHOWN
    if rest > 0:
        yield 1, f"… and {rest} words more of this line"
    if called := callers(one):
        yield 1, f"called from {called}"
    if one["durable_at"]:
        yield 1, f"durable only at {where(one['durable_at'])}"


def place_of(one: Store) -> str:
    """Where in its pool a store goes."""
    if one["pool"] is None or one["offset"] is None:
        return "what belongs to no pool"
    return f"{one['pool']}+{one['offset']:#x}"


def word_place(one: Store, word: Word) -> str:
    """Where in its pool a word lies, or else in its line, and what it is to the program."""
    part = f" {word['part']}" if word["part"] else ""
    if one["pool"] is None or one["offset"] is None:
        return f"+{word['offset']:#x}{part}"
    line = one["offset"] - one["offset"] % LINE_BYTES
    return f"{one['pool']}+{line + word['offset']:#x}{part}"


def lines(report: Check, new: set[str]) -> Iterator[tuple[str, str]]:
    """The report for a person: lines, each with its style."""
    yield from _styled(f"{' '.join(report['program'])}: {report['model']}", "bold")
    for text in (*seen(report), *(f"note: {notice}" for notice in report["notices"])):
        yield from _styled(text, "", 1)
    for number, bug in enumerate(report["bugs"], 1):
        yield from _bug(number, bug, bug["id"] in new)
    if report["unexplained"]:
        yield "", ""
        more = f"{report['unexplained']:,} kinds of failures more, whose causes are not known"
        yield from _styled(more)
    yield from _wasted(report)
    yield from _on_machine(report)
    if ended := _ended(report):
        yield "", ""
        yield ended, ""


def _ended(report: Check) -> str:
    """What there is to say in the end: that nothing was found, or that there may be more."""
    early = "interrupted: " if report["interrupted"] else ""
    if report["bugs"]:
        return f"{early}there may be more" if early else ""
    if is_empty(report):
        return f"{early}nothing was looked at, so nothing is known"
    whole = not (early or report["limited"])
    return f"{early}no bug found{'' if whole else ', as far as was looked'}"


def is_empty(report: Check) -> bool:
    """Whether a limit, or Ctrl-C, ended a check before it had looked at anything."""
    ended = report["limited"] or report["interrupted"]
    return ended and not report["bugs"] and report["points"]["explored"] == 0


def seen(report: Check) -> Iterator[str]:
    """How much was looked at."""
    if report["machines"]:
        yield from _of_machines(report)
        return
    points, states = report["points"], report["states"]
    explored = f"{points['explored']:,} of {points['found']:,} failure points"
    all_of = f"{points['exhaustively']:,} of them exhaustively"
    yield f"{explored}, from {points['call_stacks']:,} call stacks; {all_of}"
    if points["in_recoveries"]:
        yield f"{points['in_recoveries']:,} failure points of recoveries"
    if points["by_orders"]:
        overlap = plural(points["by_orders"], "failure point")
        yield f"{overlap} at which operations overlap, compared with all their orders"
    covered = f"; coverage there {states['coverage']:.1%}" if points["explored"] else ""
    yield f"{states['run']:,} recoveries that differ, {states['wrong']:,} of them wrong{covered}"


def _styled(text: str, style: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    for line in folded(text, depth):
        yield line, style


def _bug(number: int, bug: Bug, is_new: bool) -> Iterator[tuple[str, str]]:
    known, style = ("", "bold red") if is_new else (" (in the baseline)", "bold")
    yield "", ""
    yield from _styled(f"bug {number}{known}: {title(bug)}", style)
    for depth, text in told(bug):
        yield from _styled(text, "", depth + 1)
    token = tokens.shown(bug["token"])
    yield f"  again: perdure replay {token}, or perdure debug {token}", ""


def _wasted(report: Check) -> Iterator[tuple[str, str]]:
    found = [*check_waste.rows(report), *check_waste.costs(report)]
    if found:
        yield "", ""
        yield "for nothing:" if report["waste"] else "flushes and fences:", "bold"
    for text in found:
        yield from _styled(text, "", 1)


def _on_machine(report: Check) -> Iterator[tuple[str, str]]:
    cut = report["on_machine"]
    if cut is not None:
        yield "", ""
        cuts = f"{cut['failed']:,} of {cut['cuts']:,} cuts"
        yield f"on {cut['machine']}: recovery fails after {cuts}", "bold"
        for token in cut["tokens"]:
            yield f"  perdure replay {tokens.shown(token)}", ""


def _of_machines(report: Check) -> Iterator[str]:
    """Which machines were cut, and how often that went wrong."""
    rounds, states = report["machines"], report["states"]
    cuts = f"{report['points']['explored']:,} of {report['points']['found']:,} cuts"
    yield f"{cuts}, of {plural(len(rounds), 'run')}; recovery is wrong after {states['wrong']:,}"
    for one in rounds:
        machine = " ".join(one["set"]) or "the machine as it is"
        again = one["in_recoveries"]
        inner = f", {again['failed']:,} of {again['cuts']:,} in recoveries" if again["cuts"] else ""
        yield f"  {one['failed']:,} of {one['cuts']:,} {one['schedule']} cuts{inner}: {machine}"


def lines_again(once: Again) -> Iterator[tuple[str, str]]:
    """How recovery ended on one state, and what is wrong with that."""
    for life in once["lives"]:
        yield f"{life['program']}: {life['end']}", "bold"
        for text in (life["output"] + "\n" + life["error"]).splitlines():
            yield f"  {printable(text)}", ""
    yield f"wrong: {once['wrong']}" if once["wrong"] else "nothing is wrong", "bold"
    for text in once["detail"]:
        yield f"  {printable(text)}", ""

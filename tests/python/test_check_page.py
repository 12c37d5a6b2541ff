"""The page of `perdure check`: what it shows, and that all of it can be read in a browser.

Always true here: reports are those of `test_checking`; the source is one that a test has written.
"""

from pathlib import Path

import pytest
from browsing import OPEN_ALL, emulate, headless
from test_checking import BUG, FILL, LEAD, PLACE, REPORT, STORE, at, moment, with_stack

from perdure import check_page
from perdure.check_timeline import lacking, steps
from perdure.check_words import at_point
from perdure.source_excerpts import AROUND, Sources

LINES = [f"line {number};" for number in range(1, 61)]
COMMAND = ["perdure", "check", "--model", "arm", "--", "./list", "a b"]
NAMES = ("_ZN4list4fillEv", "main.(*list).push", "a_name_as_long_as_they_get_" * 8)


@pytest.fixture
def sources(tmp_path):
    """A folder that has /src/list.c."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/list.c").write_text("\n".join(LINES))
    return Sources([tmp_path])


def happens(places):
    """All kinds of moments of a bug that loses two stores and keeps a third, by two threads."""
    place, caller = places[0], places[1]
    return [
        moment("missing-order", 90, [0, 1], place),
        moment("lost", 100, [0], place),
        moment("missing-flush", 100, [0], place),
        moment("flush", 110, [0], place, caller=caller, by="clwb", waits=False),
        moment("fence", 120, [], times=1234),
        moment("fence", 130, [], place, thread=2, by="dmb ish", waits=False),
        moment("lost", 140, [1], None),
        moment("flush", 150, [1], by="kernel", waits=False),
        moment("flush", 160, [], times=1),
        moment("missing-fence", 200, [0, 1], None),
        moment("kept", 200, [2], place, thread=2),
        moment("fence", 210, [], place, thread=2, by="kernel", waits=True),
        moment("power", 300, [], place),
    ]


def many(count):
    """A report with so many bugs, of all kinds."""
    kinds = ["missing-flush", "flush-too-early", "missing-fence", "wrong-order", "torn"]
    bugs = []
    for number in range(count):
        places = [at(NAMES[number % 3], 7), at("push", 20), at("main", 50)]
        lost = [with_stack(places, 100), {**STORE, "pool": None, "offset": None, "stack": None}]
        kind = {"id": f"{number}", "defect": kinds[number % 5], "detail": ["shown <b> " * 30]}
        bugs.append({**BUG, **kind, "lost": lost, "kept": [LEAD], "timeline": happens(places)})
    timeline = [moment("kept", 200, [0], at("push", 20)), moment("power", 300)]
    last = {"defect": "not-recoverable", "lost": [], "timeline": timeline}
    bugs[-1] = {**bugs[-1], **last}
    return {**REPORT, "bugs": bugs}


def test_an_excerpt_is_what_is_around_lines_and_lines_that_are_near_share_one(sources):
    first, second = sources.excerpts("/src/list.c", [10, 14, 60, 999])
    assert [line.number for line in first.lines] == list(range(10 - AROUND, 14 + AROUND + 1))
    assert second.lines[-1].text == "line 60;"
    assert sources.excerpts("/src/other.c", [1]) == []


def test_a_source_is_found_by_the_end_of_its_name(tmp_path, sources, monkeypatch):
    assert sources.path("/build/of/somebody/src/list.c") == tmp_path / "src/list.c"
    assert sources.path("../../src/list.c") == tmp_path / "src/list.c"
    assert Sources().path("/src/list.c") is None
    monkeypatch.chdir(tmp_path)
    assert Sources().path("src/list.c") == Path("src/list.c")


def test_what_belongs_somewhere_is_a_row_there(sources):
    bug = {**BUG, "lost": [{**STORE, "behind": at("fill", 8)}]}
    (shown,) = check_page.excerpts(bug, sources)
    rows = [(row.kind, row.text) for row in shown.rows]
    behind = rows.index(("missing", "/* a flush belongs here */"))
    assert rows[behind - 1] == ("", "line 8;")
    assert ("lost", "line 7;") in rows
    bug = {**BUG, "defect": "missing-fence", "lost": [FILL], "kept": [LEAD]}
    rows = [row.text for shown in check_page.excerpts(bug, sources) for row in shown.rows]
    assert rows[rows.index("/* a fence belongs here */") + 1] == "line 22;"


def test_a_page_says_what_the_report_says(sources):
    page = check_page.page({**REPORT, "bugs": [BUG]}, {"a"}, COMMAND, sources)
    for part in (
        "missing flush: fill (list.c:7)",
        "&lt;line&gt; &amp; more",
        "line 7;",
        "recovery does not find this store",
        "store to x+0x40 node.key, which recovery does not find: <b>fill (list.c:7)</b>",
        "a flush of the line of A belongs here: <b>fill (list.c:9)</b>",
        "sfence: <b>0x20</b>",
        "20 instructions later",
        "1,234 instructions after the start: <b>A was never flushed</b>",
        '<span class="wrong">01</span>',
        "perdure check --state 0/1:40=1 --model arm -- ./list &#39;a b&#39;",
        "perdure replay p1-a",
        "flushed twice",
        "x+0x40 node.key",
    ):
        assert part in page
    assert "(in the baseline)" not in page
    assert "(in the baseline)" in check_page.page(
        {**REPORT, "bugs": [BUG]}, set(), COMMAND, sources
    )


def told(timeline, **others):
    """What is said of a bug's moments; what the stores were, the report need not know here."""
    return [step.what for step in steps({**BUG, **others, "timeline": timeline})]


def test_moments_are_told_in_order_with_their_threads():
    lost = {"lost": [FILL, {**STORE, "pool": None, "offset": None}], "kept": [LEAD]}
    assert told(happens([at("fill", 7), at("push", 20)]), **lost) == [
        "thread 1: A and B belong here, with flush and fence",
        "thread 1: store to x+0x40 node.key, which recovery does not find",
        "thread 1: a flush of the line of A belongs here",
        "thread 1: clwb flushes the line of A",
        "… 1,234 more fences",
        "thread 2: dmb ish, which waits for no flush",
        "thread 1: store to what belongs to no pool, which recovery does not find",
        "thread 1: the kernel flushes the line of B",
        "… 1 more flush",
        "thread 1: a fence belongs here, which waits for the flush of A and B",
        "thread 2: store to x+0x40 node.key, which recovery finds",
        "thread 2: the kernel waits",
        f"thread 1: {at_point(BUG)}",
    ]


@pytest.mark.parametrize(
    ("behind", "lacks"),
    [
        ([], "A was never flushed"),
        ([moment("flush", 110, [], times=3)], None),
        ([moment("flush", 110, [0])], "A was flushed, and no fence has waited for that"),
        ([moment("flush", 110, [0]), moment("fence", 111, waits=True)], None),
        ([moment("flush", 110, [0]), moment("fence", 111, times=2)], None),
        (
            [moment("flush", 110, [0]), moment("fence", 111, waits=True, thread=2)],
            "A was flushed, and no fence has waited for that",
        ),
        (
            [moment("flush", 110, [0]), moment("fence", 111, waits=False)],
            "A was flushed, and no fence has waited for that",
        ),
    ],
)
def test_what_a_lost_store_lacks_is_said_as_far_as_all_is_known(behind, lacks):
    timeline = [moment("lost", 100, [0], PLACE), *behind, moment("power", 300)]
    assert list(lacking({**BUG, "timeline": timeline})) == ([lacks] if lacks else [])
    early = [moment("flush", 50, [0]), *timeline]
    lacks = "A was flushed too early, and not since" if not behind else lacks
    assert list(lacking({**BUG, "timeline": early})) == ([lacks] if lacks else [])


def test_who_has_no_source_is_told_how_to_give_it():
    page = check_page.page(REPORT, {"a"}, COMMAND, Sources())
    assert "/src/list.c cannot be read here" in page
    assert "<table" in page  # the bytes


def test_a_source_that_is_newer_than_the_program_is_said_to_be(sources, tmp_path):
    program = tmp_path / "list"
    program.write_text("")
    report = {**REPORT, "program": [str(program)]}
    assert "newer than the program" not in check_page.page(report, {"a"}, COMMAND, sources)
    (tmp_path / "src/list.c").touch()
    assert "newer than the program" in check_page.page(report, {"a"}, COMMAND, sources)


def test_nothing_found_is_a_page_too():
    page = check_page.page({**REPORT, "bugs": [], "waste": [], "on_machine": None}, set())
    assert "No bug found, as far as was looked" in page
    assert "<details" not in page


BEYOND = """
const wide = document.documentElement.scrollWidth - innerWidth;
const found = [];
for (const one of document.querySelectorAll("p, li, td.code, h1, h2, h3, dd, code, figcaption")) {
  const box = one.getBoundingClientRect(), frame = one.closest(".scroll");
  const edge = frame ? frame.getBoundingClientRect().right : innerWidth;
  if (box.width && box.right > edge + 1 || one.scrollWidth > one.clientWidth + 1 &&
      getComputedStyle(one).display !== "inline") found.push(one.outerHTML.slice(0, 80));
}
return [wide, found];
"""
"""How far the page is too wide, and what of its text is beyond an edge."""


NOWRAP = "for (const one of document.querySelectorAll('p, li')) one.style.whiteSpace = 'nowrap'"


def test_all_text_can_be_read_on_any_screen(tmp_path, sources):
    file = tmp_path / "page.html"
    reports = {0: {**REPORT, "bugs": []}, 1: many(1), 50: many(50)}
    with headless() as driver:
        for report in reports.values():
            file.write_text(check_page.page(report, {"0"}, COMMAND, sources))
            for width, scheme in ((390, "light"), (820, "dark"), (1300, "light")):
                emulate(driver, width, scheme)
                driver.get(file.as_uri())
                driver.execute_async_script(OPEN_ALL)
                wide, beyond = driver.execute_script(BEYOND)
                assert (wide <= 0, beyond) == (True, [])
                assert driver.get_log("browser") == []
        driver.execute_script(NOWRAP)
        assert driver.execute_script(BEYOND)[1] != []

"""Dead links of the pages are found, and the site has every page once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))
import links
import site_pages
import style

REPOSITORY = style.ROOT

PAGE = """# A page

## What `it` is, and why?

## Twice

## Twice

<a id="by-hand"></a>
"""


@pytest.fixture
def dead(tmp_path, monkeypatch):
    """What is wrong with the links of a text beside a page and a folder."""
    monkeypatch.setattr(style, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "code.rs").write_text("fn main() {}\n")
    (tmp_path / "unknown.md").write_text("# Not in the repository\n")
    known = {tmp_path, tmp_path / "page.md", tmp_path / "code.rs", tmp_path / "asked.md"}

    def wrong(text):
        (tmp_path / "asked.md").write_text(text)
        links.page_of.cache_clear()
        return list(links.dead(tmp_path / "asked.md", known))

    return wrong


@pytest.mark.parametrize(
    "text",
    [
        "[one](page.md) [two](page.md#what-it-is-and-why) [three](page.md#twice-1)",
        "[four](page.md#by-hand) [five](code.rs) [six](.) [seven](code.rs#L3)",
        "# Here\n\n[here](#here)",
        "[outside](https://no.such.place/x) <mailto:a@b.c>",
        "```text\n[in code](gone.md)\n```\n\nand `[in code](gone.md)`",
    ],
)
def test_links_that_lead_somewhere(dead, text):
    assert dead(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[gone](gone.md)", "asked.md:1: gone.md: the repository has no gone.md"),
        ("text\n\n[untracked](unknown.md)", "asked.md:3: unknown.md: the repository has no"),
        ("![picture](gone.svg)", "gone.svg: the repository has no"),
        ("[by reference][it]\n\n[it]: gone.md", "gone.md: the repository has no"),
        ('<img src="gone.png">', "gone.png: the repository has no"),
        ("[a](page.md#twice-2)", "page.md#twice-2: no heading of that name; the nearest is #twice"),
        ("[a](#nowhere)", "#nowhere: no heading of that name"),
        ("| a |\n|---|\n| [in a table](gone.md) |", "gone.md: the repository has no"),
    ],
)
def test_links_that_lead_nowhere(dead, text, why):
    (found,) = dead(text)
    assert why in found


def test_every_link_of_this_repository_leads_somewhere():
    assert links.main() == 0


def test_the_site_has_every_page_once():
    pages = [style.named(path) for path in style.tracked(".md")]
    listed = [page for _, found in site_pages.sections(pages) for page in found]
    assert sorted(listed) == sorted(pages)
    # A page that has no place yet would be under "More".
    assert [name for name, _ in site_pages.sections(pages)] == [
        name for name, _ in site_pages.SECTIONS if name != "More"
    ]


def test_pages_of_the_site_lead_to_the_repository_for_what_is_no_page():
    page = REPOSITORY / "docs/extend.md"
    copied = {REPOSITORY / "docs/machine.md", REPOSITORY / "docs/designs/README.md"}
    text = "[a](machine.md#x) [b](../Cargo.toml) [c](../crates) [d](designs/) [e](https://x.y/z)"
    assert site_pages.on_the_web(page, text, copied) == (
        "[a](machine.md#x) [b](https://github.com/perdure/perdure/blob/main/Cargo.toml) "
        "[c](https://github.com/perdure/perdure/tree/main/crates) [d](designs/README.md) "
        "[e](https://x.y/z)"
    )

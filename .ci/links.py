"""Links of the pages: each leads to a file of the repository, and to a heading that is there.

    links.py    names every link that leads nowhere, and fails if there is one

What leads out of the repository is not looked at: no network is needed. Headings have the anchors
that GitHub, and the site that `make docs` builds, give them.
"""

import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import style
from markdown_it import MarkdownIt
from markdown_it.token import Token

OUTSIDE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
HTML_LINK = re.compile(r"\b(?:src|href)=\"([^\"]+)\"")
HTML_ANCHOR = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")


@dataclass
class Page:
    """What a page has: places that links may lead to, and links with their lines."""

    anchors: set[str] = field(default_factory=set)
    links: list[tuple[int, str]] = field(default_factory=list)


def read(text: str) -> Page:
    """The anchors and links of a page."""
    page, seen = Page(), Counter[str]()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for token, following in zip(tokens, [*tokens[1:], Token("", "", 0)], strict=True):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "heading_open":
            slug = anchor(following)
            page.anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        for part in token.children or [token]:
            if part.type in ("link_open", "image"):
                page.links.append((line, str(part.attrs.get("href") or part.attrs.get("src"))))
            elif part.type in ("html_inline", "html_block"):
                page.links += [(line, target) for target in HTML_LINK.findall(part.content)]
                page.anchors.update(HTML_ANCHOR.findall(part.content))
    return page


def anchor(heading: Token) -> str:
    """The anchor of a heading: lower case, no punctuation, hyphens for spaces."""
    kinds = ("text", "code_inline")
    text = "".join(part.content for part in heading.children or () if part.type in kinds)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@cache
def page_of(path: Path) -> Page:
    """The page in a file."""
    return read(path.read_text("utf-8"))


def dead(path: Path, known: set[Path]) -> Iterator[str]:
    """The links of a page that lead nowhere; `known` are files and folders of the repository."""
    for line, link in page_of(path).links:
        if OUTSIDE.match(link):
            continue
        name, _, fragment = unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path
        place = f"{style.named(path)}:{line}: {link}"
        if target not in known:
            yield f"{place}: the repository has no {name}"
        elif fragment and target.suffix == ".md" and fragment not in page_of(target).anchors:
            near = difflib.get_close_matches(fragment, page_of(target).anchors, 1, 0)
            yield f"{place}: no heading of that name; the nearest is #{''.join(near)}"


def main() -> int:
    """Looks at every page."""
    files = style.tracked("")
    known = {folder for file in files for folder in (file, *file.parents)}
    pages = [file for file in files if file.suffix == ".md"]
    wrong = [line for page in pages for line in dead(page, known)]
    print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

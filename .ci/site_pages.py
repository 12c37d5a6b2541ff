"""The documentation as a site: the pages of the repository, laid out for a site builder.

    site_pages.py DIR    writes them and mkdocs.yml there, for `zensical build -f DIR/mkdocs.yml`

Pages keep their places, so their links to one another and to pictures stay as they are. Links to
what is no page lead to the repository on the web.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import links
import style

CARGO = (style.ROOT / "Cargo.toml").read_text("utf-8")
PICTURES = {".svg", ".png"}
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Perdure",
        (
            "README.md",
            "docs/install.md",
            "docs/glossary.md",
            "docs/stability.md",
            "CHANGELOG.md",
        ),
    ),
    (
        "Using it",
        (
            "docs/terminal.md",
            "docs/python.md",
            "docs/tutorials/*.md",
            "docs/machine.md",
            "docs/experiments.md",
            "docs/clusters.md",
            "docs/persistency.md",
            "docs/check.md",
            "docs/check-ci.md",
            "docs/litmus.md",
            "docs/timelines.md",
            "docs/debugging.md",
            "docs/travel.md",
            "docs/replication.md",
            "docs/servers.md",
            "docs/workloads.md",
            "docs/check-corpus.md",
            "docs/transparent.md",
            "docs/check/README.md",
            "workloads/README.md",
        ),
    ),
    ("Designs", ("docs/designs/README.md", "docs/designs/*.md")),
    ("Machines", ("docs/machines/*.md",)),
    ("Evaluations", ("docs/fidelity.md", "docs/evaluations/*.md")),
    ("Extending it", ("docs/add-*.md", "docs/examples/*.md", "docs/extend.md")),
    (
        "Inside",
        (
            "ARCHITECTURE.md",
            "docs/decisions.md",
            "docs/speed.md",
            "docs/testing.md",
            "CONTRIBUTING.md",
        ),
    ),
    ("More", ("*.md",)),
)
"""What stands where in the site's menu: a page is in the first section that has it."""


def sections(pages: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The sections with the pages of each, none twice."""
    left = dict.fromkeys(pages)
    for name, patterns in SECTIONS:
        found = [page for one in patterns for page in left if fnmatchcase(page, one)]
        ordered = list(dict.fromkeys(found))
        for page in ordered:
            del left[page]
        if ordered:
            yield name, ordered


def title(page: str) -> str:
    """What the menu calls a page: its heading, up to a colon; of an evaluation, paper and scale."""
    if page.startswith("docs/evaluations/"):
        return Path(page).stem
    first = (style.ROOT / page).read_text("utf-8").partition("\n")[0]
    return first.lstrip("# ").partition(":")[0].replace("`", "")


def on_the_web(page: Path, text: str, copied: set[Path]) -> str:
    """A page's text, whose links to what is not copied lead to the repository on the web."""
    repository = re.search(r'^repository = "(.*)"', CARGO, re.MULTILINE)
    assert repository

    def link(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        outside = links.OUTSIDE.match(found[1]) or not target.exists()
        if outside or target in copied:
            return found[0]
        index = target / "README.md"
        if index in copied:
            return f"]({found[1].rstrip('/')}/README.md{found[2] or ''})"
        kind = "tree" if target.is_dir() else "blob"
        return f"]({repository[1]}/{kind}/main/{style.named(target)}{found[2] or ''})"

    return LINK.sub(link, text)


def configuration(pages: list[str]) -> dict[str, object]:
    """What the builder is told. Nothing is fetched when a page is read: no fonts, no scripts."""
    return {
        "site_name": "Perdure",
        "site_description": "A computer whose memory survives losing power, simulated",
        "docs_dir": "pages",
        "site_dir": "html",
        "use_directory_urls": False,
        "nav": [
            {name: [{title(page): page} for page in listed]} for name, listed in sections(pages)
        ],
        "theme": {
            "font": False,
            "features": ["navigation.indexes", "content.code.copy", "toc.follow"],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {scheme})",
                    "scheme": name,
                    "toggle": {"icon": icon, "name": f"Switch to {other} mode"},
                }
                for scheme, name, icon, other in (
                    ("light", "default", "lucide/sun", "dark"),
                    ("dark", "slate", "lucide/moon", "light"),
                )
            ],
        },
        "markdown_extensions": [
            "admonition",
            "md_in_html",
            "tables",
            {"pymdownx.highlight": {"use_pygments": True}},
            "pymdownx.superfences",
            {
                "toc": {
                    "permalink": True,
                    "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
                }
            },
        ],
    }


def main() -> int:
    """Writes it."""
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    files = style.tracked(".md", *PICTURES)
    copied = {file for file in files if file.suffix == ".md" or "docs" in file.parts}
    pages = sorted(style.named(file) for file in copied if file.suffix == ".md")
    for file in copied:
        place = folder / "pages" / style.named(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            place.write_text(on_the_web(file, file.read_text("utf-8"), copied), "utf-8")
        else:
            shutil.copyfile(file, place)
    text = json.dumps(configuration(pages), indent=1, ensure_ascii=False)
    (folder / "mkdocs.yml").write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

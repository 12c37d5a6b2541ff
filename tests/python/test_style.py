"""The checker of style: it finds each kind of mistake, and nothing in what is right."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))
import style

LONG = "fn long() {\n" + "    step();\n" * 69 + "}\n"
RIGHT = {
    "README.md": "[a page](docs/page.md)\n",
    "docs/page.md": "![a picture](picture.svg)\n",
    "docs/picture.svg": "<svg/>\n",
    "crates/one/src/lib.rs": "//! A crate.\nmod part;\n\nfn read(key: &Key) -> u64 { key.bytes }\n",
    "crates/one/src/part.rs": LONG.replace("    step();\n", "", 1),
    "crates/one/tests/all.rs": "#[test]\nfn it_holds() {}\n",
    ".ci/style.txt": "# Longer than the budget.\n72 crates/one/src/lib.rs listed\n",
}
LISTED = LONG.replace("long", "listed").replace("{\n", "{\n    step();\n")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Writes a small repository, and says what is wrong with it."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    monkeypatch.setattr(style, "ROOT", tmp_path)
    monkeypatch.setattr(style, "EXCEPTIONS", tmp_path / ".ci/style.txt")
    monkeypatch.setattr(style.presets, "keys", lambda _: [Key("nvm.bytes")])

    def wrong(changes):
        files = RIGHT | {"crates/one/src/lib.rs": RIGHT["crates/one/src/lib.rs"] + LISTED} | changes
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        checks = (style.too_long, style.wide_or_banned, style.dead_files, style.dead_keys)
        return [line for check in checks for line in check()]

    return wrong


class Key:
    """A key of a preset."""

    def __init__(self, name):
        self.name = name


def test_nothing_is_wrong_with_what_is_right(repository):
    assert repository({}) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"crates/one/src/part.rs": LONG}, "part.rs long: 71 lines, and more than 70"),
        ({"crates/one/src/part.rs": "//! Part.\n" * 501}, "part.rs: 501 lines, and more than 500"),
        ({".ci/style.txt": "71 crates/one/src/lib.rs listed\n"}, "72 lines, after 71"),
        ({".ci/style.txt": RIGHT[".ci/style.txt"] + "501 README.md\n"}, "within its budget now"),
        ({"crates/one/src/part.rs": "// " + "wide " * 30}, "a comment of 153 columns"),
        ({"docs/page.md": RIGHT["docs/page.md"] + "TO" + "DO: more"}, "says nothing to a reader"),
        ({"crates/one/src/other.rs": "//! Nobody's.\n"}, "other.rs: no module of any crate"),
        ({"docs/other.md": "Nobody's.\n"}, "other.md: no page leads to it"),
        ({"README.md": "No page.\n"}, "picture.svg: no page leads to it"),
        ({"crates/one/src/lib.rs": "mod part;\n" + LISTED}, "nvm.bytes: no code reads this key"),
    ],
)
def test_each_mistake_is_found(repository, changes, expected):
    found = repository(changes)
    assert any(expected in line for line in found), found


def test_the_list_of_exceptions_only_shrinks(repository, tmp_path):
    listed = "# Longer than the budget.\n90 crates/one/src/lib.rs listed\n80 README.md gone\n"
    assert len(repository({".ci/style.txt": listed})) == 1
    style.update()
    text = (tmp_path / ".ci/style.txt").read_text("utf-8")
    assert text == "# Longer than the budget.\n72 crates/one/src/lib.rs listed\n"

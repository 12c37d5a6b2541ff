"""The command `perdure new-design`: a design that works, as the place to begin one's own.

Always true here: what is written is the worked example of `docs/add-a-design.md` under another
name, file by file, so what tests say of the example holds for it; nothing is written unless
everything can be, and no file that is there already is changed but where designs are listed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from perdure import PerdureError

NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*")
LONGEST = 32
EXAMPLE = "flush-at-epoch-end"

MODULE = "docs/examples/flush_at_epoch_end.rs"
TEST = "crates/designs/tests/all/flush_at_epoch_end_random.rs"
PAGE = "docs/examples/flush-at-epoch-end.md"
REGISTRY = "crates/designs/src/lib.rs"
TESTS = "crates/designs/tests/all/main.rs"
OVERVIEW = "docs/designs/README.md"
FRONT = "README.md"
PRESETS = "machines"
STATISTICS = "docs/machine.md"
TABLES = ".ci/tables.py"
NEEDED = (MODULE, TEST, PAGE, REGISTRY, TESTS, OVERVIEW, FRONT, "machines/picl.toml", TABLES)

RUST_WORDS = """
abstract as async await become box break const continue crate do dyn else enum extern false final
fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static
struct super trait true try type typeof unsafe unsized use virtual where while yield
"""
RUST_PRELUDE = """
AsMut AsRef Box Clone Copy Debug Default Drop Eq Err Extend Fn FnMut FnOnce From FromIterator Hash
Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Send Some String Sync
ToOwned ToString TryFrom TryInto Unpin Vec
"""
"""Types, traits and variants that every Rust file has, though nothing in it says so."""
GROUPS = frozenset({"machine", "persistence", "replication", "verifier", "state", "none", "all"})
"""What stands beside the names of designs on a command line."""


def new_design(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="In lower case, words joined by hyphens.")
    ],
    checkout: Annotated[
        Path | None,
        typer.Option(
            "--checkout", metavar="DIR", help="Perdure's source tree.  [default: around here]"
        ),
    ] = None,
) -> None:
    """Begin a design in a source tree: a module that works, test, page and registration."""
    root = find_checkout(checkout)
    written = write(root, name)
    for path in written:
        typer.echo(path)
    typer.echo(
        f"\n{name} is the worked example under another name: it works, keeps its promise and has\n"
        f"planted bugs. Now change it (docs/add-a-design.md), and see, in {root}:\n"
        f"  make quick                                   compile and install it\n"
        f"  .venv/bin/perdure cut --design {name} --cuts 200 -- PROGRAM\n"
        f"  .venv/bin/perdure mutants --design {name}\n"
        f"  cargo test -p perdure-designs {snake(name)}_random::\n"
        f"  make lint"
    )


def find_checkout(given: Path | None) -> Path:
    """The source tree that was given, or the one around the working folder.

    Raises:
        PerdureError: there is none.
    """
    here = Path.cwd()
    places = [given] if given is not None else [here, *here.parents]
    for place in places:
        if all((place / name).is_file() for name in NEEDED):
            return place.resolve()
    asked = f"--checkout {given}" if given is not None else f"{here}"
    lacks = [name for name in NEEDED if not (places[0] / name).is_file()]
    raise PerdureError(
        f"{asked}: no source tree of Perdure (it lacks {lacks[0]}): a design is compiled in, so "
        "clone the repository, and give --checkout DIR or go there"
    )


def write(root: Path, name: str) -> list[str]:
    """Writes a new design into a source tree: the paths that are new or changed.

    Raises:
        PerdureError: the name cannot be a design's, or the tree has something of that name.
    """
    check_name(root, name)
    fresh = new_files(root, name)
    changed = registration(root, name)
    for path in fresh:
        if (root / path).exists():
            raise PerdureError(f"{root / path} is there already: choose another name, or remove it")
    try:
        for path, text in {**fresh, **changed}.items():
            (root / path).write_text(text, "utf-8")
    except OSError as error:
        raise PerdureError(f"{error.filename}: {error.strerror}") from None
    _run_tools(root, [root / path for path in fresh if path.endswith(".rs")])
    return [*fresh, *changed, STATISTICS]


def check_name(root: Path, name: str) -> None:
    """Refuses what cannot be a design's name, and says why.

    Raises:
        PerdureError: it cannot be.
    """
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise PerdureError(
            f"'{name}' cannot be a design's name: at most {LONGEST} characters, words of "
            "lower-case letters and digits that begin with a letter, joined by hyphens: undo-log"
        )
    registered = re.findall(r'NAME: &\'static str = "([^"]+)"', _sources(root))
    if name in registered:
        raise PerdureError(f"there is a design '{name}' already: choose another name")
    words = set(RUST_WORDS.split())
    modules = set(re.findall(r"^(?:pub )?mod (\w+);", _read(root, REGISTRY), re.MULTILINE))
    if snake(name) in words | modules | {snake(EXAMPLE)}:
        what = "a word of Rust" if snake(name) in words else "a module's name already"
        raise PerdureError(f"'{name}' is {what}: choose another name")
    if camel(name) in types_taken(root):
        raise PerdureError(
            f"'{name}' would be the type {camel(name)}, which means something else in the files of "
            "a new design: choose another name"
        )
    files = sorted((root / PRESETS).glob("*.toml"))
    sections = {word for file in files for word in _sections(file.read_text("utf-8"))}
    if name in sections | GROUPS:
        raise PerdureError(f"'{name}' means something else in configurations: choose another name")


def types_taken(root: Path) -> set[str]:
    """Types that the worked example and its test import, declare or have without a word of it."""
    code = re.sub(r'//.*|"[^"\n]*"', "", _read(root, MODULE) + _read(root, TEST))
    # What stands behind `::` in an import is a name of the file, elsewhere it is another type's.
    imported = "".join(re.findall(r"^use [^;]+;", code, re.MULTILINE))
    found = re.findall(r"\b[A-Z]\w*", imported) + re.findall(r"(?<![:\w])[A-Z]\w*", code)
    return {*found, *RUST_PRELUDE.split()} - {camel(EXAMPLE)}


def new_files(root: Path, name: str) -> dict[str, str]:
    """Texts of the new files by path: those of the worked example, renamed."""
    module = f"crates/designs/src/{snake(name)}.rs"
    names = {
        MODULE: module,
        "use perdure_designs::": "use crate::",
        "perdure_designs::planted_bugs!": "crate::planted_bugs!",
        "use crate::flush_at_epoch_end::": f"use perdure_designs::{snake(name)}::",
        "FLUSHLOG": magic(name),
        "FlushAtEpochEnd": camel(name),
        EXAMPLE: name,
        "flush_at_epoch_end": snake(name),
        ", the textbook checkpoint": "",
        "The textbook checkpoint, as": "As",
    }
    return {
        module: _renamed(_read(root, MODULE), names),
        f"crates/designs/tests/all/{snake(name)}_random.rs": _renamed(_read(root, TEST), names),
        f"docs/designs/{name}.md": _renamed(_read(root, PAGE), names),
    }


def registration(root: Path, name: str) -> dict[str, str]:
    """Texts of the files that list designs, by path, with this one."""
    summary = "undo logging, and a synchronous flush at each epoch's end"
    rows = {
        FRONT: f"| `{name}` | {summary} | epoch prefix | [{name}](docs/designs/{name}.md) |",
        OVERVIEW: f"| [`{name}`]({name}.md) | old bytes in an undo log, written at evictions "
        "| stands still: flush, commit |",
    }
    after = {FRONT: r"^\| `[\w-]+` \|.*\(docs/designs/.*\|$", OVERVIEW: r"^\| \[`[\w-]+`\]\(.*\|$"}
    lists = {
        REGISTRY: _with_module(_read(root, REGISTRY), f"pub mod {snake(name)};"),
        TESTS: _with_module(_read(root, TESTS), f"mod {snake(name)}_random;"),
    }
    entry = f"    {snake(name)}::{camel(name)},\n"
    lists[REGISTRY] = re.sub(
        r"(\nregistry!\[\n(?:    .*\n)*)(\];)", rf"\g<1>{entry}\g<2>", lists[REGISTRY]
    )
    if entry not in lists[REGISTRY]:
        raise PerdureError(f"{root / REGISTRY}: found no list registry![…] to add {name} to")
    for path, row in rows.items():
        lists[path] = _after_last(root / path, _read(root, path), after[path], row)
    return lists


def snake(name: str) -> str:
    """A design's name as a module's."""
    return name.replace("-", "_")


def camel(name: str) -> str:
    """A design's name as a type's."""
    return "".join(word.capitalize() for word in name.split("-"))


def magic(name: str) -> str:
    """Eight bytes with which its log entries begin."""
    return f"{name.replace('-', '').upper()[:5]:0<5}LOG"


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with each of the names replaced, none in what another one became."""
    found = re.compile("|".join(re.escape(one) for one in names))
    return found.sub(lambda one: names[one[0]], text)


def _with_module(text: str, line: str) -> str:
    """The text with one more line among those that name modules, in their order."""
    lines = text.splitlines()
    named = re.compile(r"(?:pub )?mod (\w+);")
    word = named.fullmatch(line)
    modules = [(index, found[1]) for index, one in enumerate(lines) if (found := named.match(one))]
    assert word is not None and modules
    at = next((index for index, other in modules if other > word[1]), modules[-1][0] + 1)
    # An attribute belongs to the module below it.
    while lines[at - 1].startswith("#["):
        at -= 1
    return "\n".join([*lines[:at], line, *lines[at:]]) + "\n"


def _after_last(path: Path, text: str, pattern: str, row: str) -> str:
    """The text with a row more behind the last one of a table.

    Raises:
        PerdureError: there is no such table.
    """
    found = list(re.finditer(pattern, text, re.MULTILINE))
    if not found:
        raise PerdureError(f"{path}: found no table of designs to add a row to")
    at = found[-1].end()
    return f"{text[:at]}\n{row}{text[at:]}"


def _run_tools(root: Path, rust: Iterable[Path]) -> None:
    """Formats lines that are longer or shorter now, and makes the tables of docs/ anew."""
    if shutil.which("rustfmt"):
        files = [str(path) for path in rust]
        _run(["rustfmt", "--edition", "2024", *files], root)
    else:
        typer.echo("rustfmt is not installed: run cargo fmt before make lint", err=True)
    _run([sys.executable, str(root / TABLES)], root)


def _run(command: list[str], root: Path) -> None:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PerdureError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _sections(text: str) -> Iterator[str]:
    yield from re.findall(r"^\[+([\w-]+)", text, re.MULTILINE)


def _sources(root: Path) -> str:
    files = sorted((root / REGISTRY).parent.rglob("*.rs"))
    return "".join(file.read_text("utf-8") for file in files)


def _read(root: Path, path: str) -> str:
    return (root / path).read_text("utf-8")

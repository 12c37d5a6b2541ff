"""Style as a test: how long functions, files and lines may be, and what may not lie about.

    style.py             says what breaks a rule, and fails if anything does
    style.py --update    lowers the sizes in style.txt, and drops what is within its budget

`style.txt` lists the functions and files that are longer than the budget, with their lines. The
list only shrinks: what has grown, what is new beyond the budget, and what need not be listed any
more all fail.
"""

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import presets

ROOT = Path(__file__).parents[1]
EXCEPTIONS = ROOT / ".ci/style.txt"
FUNCTION_LINES = 70
FILE_LINES = 500
COMMENT_COLUMNS = 110
STATED = {"nvm.page_policy"}
"""Keys that can have one value: they say what is modelled."""
# What is said to those who work on a change, and not to those who read the code.
BANNED = re.compile(r"\b(?:TODO|FIXME|XXX)\b|DESIGN §|\b[Ii]ssue #?\d")
# Of a Rust function: how far it is indented, and its name.
FUNCTION = re.compile(r'^( *)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |async |extern "C" )*fn (\w+)')
COMMENT = re.compile(r"^\s*(?://|#(?!\[)|\*|/\*)")
# A row of a table, and a word that cannot be broken.
UNBROKEN = re.compile(r"^\s*//[/!] \||^\s*\S+ \S+$")
MODULE = re.compile(
    r'(?:#\[path = "([^"]+)"\]\s*)?^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);', re.MULTILINE
)
# Folders in which every Rust file is a program of its own.
ROOTS = {"tests", "examples", "benches"}
LINK = re.compile(r"\]\(([^)#\s]+)|(?:src|href)=\"([^\"#]+)\"")


def tracked(*endings: str) -> list[Path]:
    """The files of the repository that end so."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name.endswith(endings))
    return [path for path in paths if path.is_file()]


def named(path: Path) -> str:
    """A path as people write it."""
    return path.relative_to(ROOT).as_posix()


def rust_functions(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Names and lengths of functions in text that rustfmt has formatted."""
    for start, line in enumerate(lines):
        found = FUNCTION.match(line)
        if not found:
            continue
        head = itertools.takewhile(lambda at: not lines[at].endswith(";"), range(start, len(lines)))
        opens = next((at for at in head if lines[at].rstrip().endswith(("{", "}"))), None)
        if opens is None or lines[opens].endswith("}"):
            continue
        end = next((at for at in range(opens, len(lines)) if lines[at] == found[1] + "}"), opens)
        yield found[2], end - start + 1


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Names and lengths of functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def sizes() -> dict[str, int]:
    """What is longer than its budget, with its lines; of functions with one name, the longest."""
    found: dict[str, int] = {}
    for path in tracked(".rs", ".py"):
        text = path.read_text("utf-8")
        lines = text.splitlines()
        if len(lines) > FILE_LINES:
            found[named(path)] = len(lines)
        is_rust = path.suffix == ".rs"
        for name, length in rust_functions(lines) if is_rust else python_functions(text):
            key = f"{named(path)} {name}"
            if length > max(FUNCTION_LINES, found.get(key, 0)):
                found[key] = length
    return found


def exceptions() -> dict[str, int]:
    """What may be longer than its budget."""
    rows = (line.split(" ", 1) for line in EXCEPTIONS.read_text("utf-8").splitlines())
    return {name: int(size) for size, name in rows if size != "#"}


def too_long() -> Iterator[str]:
    """What is longer than it may be, and what is no exception any more."""
    now, listed = sizes(), exceptions()
    for name, size in now.items():
        budget = FUNCTION_LINES if " " in name else FILE_LINES
        if name not in listed:
            yield f"{name}: {size} lines, and more than {budget} are too many"
        elif size > listed[name]:
            yield f"{name}: {size} lines, after {listed[name]}; what is too long may only shrink"
    for name in listed.keys() - now.keys():
        yield f"{name}: within its budget now; run python3 .ci/style.py --update"


def update() -> None:
    """Lowers what is listed."""
    now = sizes()
    head = [line for line in EXCEPTIONS.read_text("utf-8").splitlines() if line.startswith("#")]
    kept = ((name, min(size, now[name])) for name, size in exceptions().items() if name in now)
    rows = [f"{size} {name}" for name, size in sorted(kept)]
    EXCEPTIONS.write_text("\n".join([*head, *rows]) + "\n", "utf-8")


def wide_or_banned() -> Iterator[str]:
    """Comments that are too wide, and words that are not for readers."""
    for path in tracked(".rs", ".py", ".c", ".cc", ".cpp", ".h", ".sh", ".md", ".toml"):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            place = f"{named(path)}:{number}"
            # The comment of a preset's key is one line, which the tables of docs/ are made from.
            has_width = path.suffix not in {".md", ".toml"}
            if (
                has_width
                and len(line) > COMMENT_COLUMNS
                and COMMENT.match(line)
                and not UNBROKEN.match(line)
            ):
                yield f"{place}: a comment of {len(line)} columns; {COMMENT_COLUMNS} are the most"
            if found := BANNED.search(line):
                yield f"{place}: '{found[0]}' says nothing to a reader"


def modules_of(path: Path) -> Iterator[Path]:
    """The files of the modules that a Rust file names."""
    is_root = path.name in {"mod.rs", "lib.rs", "main.rs"} or path.parent.name in ROOTS
    folder = path.parent if is_root else path.with_suffix("")
    for place, name in MODULE.findall(path.read_text("utf-8")):
        if place:
            yield (path.parent / place).resolve()
        else:
            yield from (folder / f"{name}.rs", folder / name / "mod.rs")


def dead_files() -> Iterator[str]:
    """Rust files that no crate has, and pages and pictures that nothing leads to."""
    rust = tracked(".rs")
    names = {"lib.rs", "main.rs", "build.rs"}
    targets = {path for path in rust if path.name in names}
    targets |= {path for path in rust if path.parent.name in ROOTS}
    reached: set[Path] = set()
    while targets:
        path = targets.pop()
        reached.add(path)
        targets |= {file for file in modules_of(path) if file.is_file() and file not in reached}
    yield from (f"{named(path)}: no module of any crate" for path in rust if path not in reached)

    linked, pages = set(), set(ROOT.glob("*.md"))
    while pages:
        page = pages.pop()
        linked.add(page)
        found = (one or other for one, other in LINK.findall(page.read_text("utf-8")))
        files = {(page.parent / target).resolve() for target in found if ":" not in target}
        pages |= {file for file in files if file.suffix == ".md" and file.is_file()} - linked
        linked |= files
        # A link to a folder leads to what is in it.
        pages |= {file / "README.md" for file in files if (file / "README.md").is_file()} - linked
    documents = (path for path in tracked(".md", ".svg") if path.is_relative_to(ROOT / "docs"))
    yield from (f"{named(path)}: no page leads to it" for path in documents if path not in linked)


def dead_keys() -> Iterator[str]:
    """Keys of the configuration that no code reads."""
    code = "".join(path.read_text("utf-8") for path in tracked(".rs") if "src" in path.parts)
    read = set(re.findall(r"\.(\w+)\b", code))
    for key in presets.keys(presets.BASE):
        field = key.name.rpartition(".")[2].replace("-", "_")
        if field not in read and key.name not in STATED:
            yield f"{key.name}: no code reads this key of the configuration"


def main() -> int:
    """Checks everything, or brings the exceptions up to date."""
    if "--update" in sys.argv:
        update()
    wrong = [*too_long(), *wide_or_banned(), *dead_files(), *dead_keys()]
    print("".join(f"{line}\n" for line in sorted(wrong)), end="", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

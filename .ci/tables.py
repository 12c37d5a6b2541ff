"""Keeps the tables of docs/ equal to their sources.

    tables.py            writes them
    tables.py --check    says which are out of date, and fails if any is

A table stands between the lines `<!-- table NAME -->` and `<!-- end -->`; what is between them is
made here and nowhere else.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import presets

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
CORPUS_FIGURES = {
    "random_cuts.txt": ["one cut", "three lives"],
    "checked.txt": ["check", "states", "seconds"],
    "cut.txt": ["machine", "wrong cuts", "seconds"],
}
"""What random cuts found, what checks did by a model, and by cuts of the machine."""
ROW = r'^ *(\w+), "([^"]+)", "([^"]+)"(?:, (?:gauge )?"([^"]+)")?;$'


def rows(header: list[str], body: list[list[str]]) -> str:
    """A table in Markdown, with an empty line on both sides."""
    lines = [header, ["---"] * len(header), *body]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def configuration() -> str:
    """Every key of the preset, with value, range, meaning and where the value is from."""
    body = [
        [f"`{key.name}`", f"`{key.value}`", key.limits, key.meaning, key.source]
        for key in presets.keys(presets.BASE)
    ]
    return rows(["key", "value", "range", "meaning", "from"], body)


def statistics() -> str:
    """Every counter, with unit and meaning: the designs' between the caches' and the memory's."""
    published = (ROOT / "crates/perdure/src/statistics.rs").read_text("utf-8")
    first_of_memory = re.search(r'FIRST_OF_MEMORY: &str = "(.*)"', published)
    order = re.search(r"const ORDER: &\[&str\] = &\[(.*?)\];", published, re.DOTALL)
    assert first_of_memory and order
    hardware = counters(ROOT / "crates/hardware/src/statistics.rs")
    memory = [name for name, _, _ in hardware].index(f"`{first_of_memory[1]}`")
    designs = [name.replace("-", "_") for name in re.findall(r'"(.*)"', order[1])]
    files = sorted(
        {design_of(file): file for file in of_designs("counters")}.items(),
        key=lambda found: (*designs, found[0]).index(found[0]),
    )
    # Designs that count the same have a row together, where the first of them stands.
    own = dict.fromkeys(tuple(row) for _, file in files for row in counters(file))
    body = [*hardware[:memory], *map(list, own), *hardware[memory:]]
    return rows(["statistic", "unit", "meaning"], body)


def verdicts() -> str:
    """Every verdict on a cut, with its meaning."""
    texts = (file.read_text("utf-8") for file in ROOT.glob("crates/perdure/src/**/*.rs"))
    text = next(text for text in texts if "pub enum Verdict {" in text)
    names = dict(re.findall(r'Self::(\w+) => "([a-z-]+)",', text))
    body = text.partition("pub enum Verdict {")[2].partition("\n}")[0]
    found = re.findall(r"((?:    /// .*\n)+)    (\w+),", body)
    meanings = [(name, " ".join(meaning.replace("///", "").split())) for meaning, name in found]
    return rows(
        ["verdict", "meaning"],
        [[f"`{names[name]}`", meaning.rstrip(".")] for name, meaning in meanings],
    )


def of_designs(macro: str) -> list[Path]:
    """Files in which designs declare something: of a design's folder, or its one file."""
    source = ROOT / "crates/designs/src"
    files = [*sorted(source.glob("*.rs")), *sorted(source.glob("*/*.rs"))]
    return [file for file in files if f"::{macro}! {{\n" in file.read_text("utf-8")]


def design_of(file: Path) -> str:
    """The module of a design, which is a folder or a file."""
    return file.relative_to(ROOT / "crates/designs/src").parts[0].removesuffix(".rs")


def counters(file: Path) -> list[list[str]]:
    """The counters that a file declares: name, unit, meaning. Shorter rows are planted bugs."""
    found = re.findall(ROW, file.read_text("utf-8"), re.MULTILINE)
    return [[f"`{name}`", unit, meaning] for _, name, unit, meaning in found if meaning]


def modules() -> str:
    """The counters of a memory module."""
    return rows(["statistic", "unit", "meaning"], counters(ROOT / "crates/hardware/src/module.rs"))


def module_keys() -> str:
    """The keys of a `[[module]]` table that are not those of `[nvm]` and `[link]`."""
    text = (ROOT / "crates/perdure/src/configuration/modules.rs").read_text("utf-8")
    own = text.partition("const OWN: ")[2].partition("];\n")[0]
    found = re.findall(r'"(\w+)",\s*"([^"]+)"', own)
    return rows(["key", "meaning"], [[f"`{key}`", meaning] for key, meaning in found])


def planted_bugs(file: Path) -> str:
    """A design's planted bugs. Longer rows are counters."""
    found = re.findall(ROW, file.read_text("utf-8"), re.MULTILINE)
    bugs = [[f"`{name}`", summary] for _, name, summary, meaning in found if not meaning]
    return rows(["bug", "what is wrong"], bugs)


def mistakes(header: str, prefix: str) -> str:
    """The mistakes that can be built into a library of guests, of its `enum PREFIX_mistake`."""
    text = (ROOT / "guest" / header).read_text("utf-8")
    body = text.partition(f"enum {prefix.lower()}_mistake {{")[2].partition("}")[0]
    found = re.findall(rf"^ +({prefix}_\w+),? +/\* (.*) \*/$", body, re.MULTILINE)
    named = [[f"`{name}`", said] for name, said in found]
    return rows([f"`{prefix}_MISTAKE`", "what is wrong"], named)


def dashed(name: str) -> str:
    """A constant of C as the command line has it."""
    return name.lower().replace("_", "-")


def corpus_bugs() -> Iterator[tuple[str, str, str, str]]:
    """Program, name, kind and summary of every bug of workloads/check."""
    folder = ROOT / "workloads/check"
    catalogue = (ROOT / "workloads/check.toml").read_text("utf-8")
    for program in re.findall(r'^program = "(.*)"$', catalogue, re.MULTILINE):
        text = next(folder.glob(f"{program}.c*")).read_text("utf-8")
        for library in re.findall(r'#include "((?:un|re)do\.h)"', text):
            text = (folder / library).read_text("utf-8") + text
        for name, kind, what in re.findall(r'BUG\((\w+), (\w+), "(.*)"\)', text):
            yield program, dashed(name), dashed(kind), what


def corpus_figures(name: str) -> dict[tuple[str, str], list[str]]:
    """What a file of figures says of each bug."""
    lines = (ROOT / "workloads/check" / name).read_text("utf-8").splitlines()
    return {(program, bug): counts for program, bug, *counts in map(str.split, lines)}


def forgiven() -> str:
    """Of how many bugs of each kind something was seen, where flushes count and where not."""
    random, transparent = (corpus_figures(name) for name in ("random_cuts.txt", "transparent.txt"))
    kinds: dict[str, list[tuple[str, str]]] = {}
    for program, bug, kind, _ in corpus_bugs():
        kinds.setdefault(kind, []).append((program, bug))
    body = []
    for kind, bugs in [*kinds.items(), ("all", [bug for of in kinds.values() for bug in of])]:
        shown = sum(any(map(int, random[bug])) for bug in bugs)
        columns = zip(*(map(int, transparent[bug]) for bug in bugs), strict=True)
        seen = [sum(count > 0 for count in column) for column in columns]
        name = kind if kind == "all" else f"`{kind}`"
        body.append([name, str(len(bugs)), str(shown), *map(str, seen)])
    head = ["kind", "bugs", "`x86-pm`", "`picl`, resumed", "`picl`, restarted"]
    return rows([*head, "`nvoverlay`, resumed", "`nvoverlay`, restarted"], body)


def not_forgiven() -> str:
    """The bugs that transparent designs show, in how many of 20 cuts of restarted programs."""
    figures = corpus_figures("transparent.txt")
    body = [
        [f"`{program}`", f"`{bug}`", kind, what, *figures[program, bug][1::2]]
        for program, bug, kind, what in corpus_bugs()
        if any(map(int, figures[program, bug]))
    ]
    return rows(["program", "bug", "kind", "what is wrong", "`picl`", "`nvoverlay`"], body)


def check_bugs() -> str:
    """The bugs of workloads/check, and how each was found."""
    files = [(corpus_figures(name), columns) for name, columns in CORPUS_FIGURES.items()]
    body = []
    for program, bug, kind, what in corpus_bugs():
        row = [f"`{program}`", f"`{bug}`", kind, what]
        for figures, columns in files:
            row += figures.get((program, bug), ["–"] * len(columns))
        body.append(row)
    heads = [column for columns in CORPUS_FIGURES.values() for column in columns]
    return rows(["program", "bug", "kind", "what is wrong", *heads], body)


def check_found() -> str:
    """Of how many bugs of each kind something was found, and in how many seconds."""
    random, checked, cut = map(corpus_figures, CORPUS_FIGURES)
    kinds: dict[str, list[tuple[str, str]]] = {}
    for program, bug, kind, _ in corpus_bugs():
        kinds.setdefault(f"`{kind}`", []).append((program, bug))
    everything = [bug for bugs in kinds.values() for bug in bugs]
    body = []
    for name, bugs in [*kinds.items(), ("all", everything)]:
        seen = sum(any(map(int, random[bug])) for bug in bugs)
        row = [name, str(len(bugs)), str(seen)]
        for figures in (cut, checked):
            verdicts = Counter(figures[bug][0] for bug in bugs)
            found = str(len(bugs) - verdicts["missed"])
            seconds = sum(float(figures[bug][2]) for bug in bugs)
            row += [found, str(verdicts["named"]), f"{seconds:.0f}"]
        body.append(row)
    head = ["kind", "bugs", "random cuts", "`machine`", "named", "seconds"]
    return rows([*head, "`px86`", "named", "seconds"], body)


def check_correct() -> str:
    """What checks of the programs without bugs took: by a model, and by cuts of the machine."""
    checked, cut = (corpus_figures(name) for name in list(CORPUS_FIGURES)[1:])
    body = [
        [f"`{program}`", *figures[1:], cut[program, bug][2]]
        for (program, bug), figures in checked.items()
        if bug == "-"
    ]
    return rows(["program", "states", "seconds", "`machine`, seconds"], body)


def check_kinds() -> str:
    """The kinds of these bugs, and how many there are of each."""
    folder = ROOT / "workloads/check"
    text = "".join(file.read_text("utf-8") for file in sorted(folder.iterdir()))
    kinds = text.partition("enum kind {\n")[2].partition("}")[0]
    found = re.findall(r"^ +(\w+),? +/\* (.*?) \*/$", kinds, re.MULTILINE)
    counts = Counter(re.findall(r'BUG\(\w+, (\w+), "', text))
    body = [[f"`{dashed(kind)}`", said, str(counts[kind])] for kind, said in found]
    return rows(["kind", "what it is", "bugs"], body)


def example() -> str:
    """The worked example of a design, whole."""
    text = (ROOT / "docs/examples/flush_at_epoch_end.rs").read_text("utf-8")
    return f"\n```rust\n{text}```\n\n"


def device_example() -> str:
    """The device of the worked example, without its design and its promise."""
    text = (ROOT / "docs/examples/page_zeroing.rs").read_text("utf-8")
    device = re.search(r"\n(/// A command that.*?\n)\n/// Of a machine:", text, re.DOTALL)
    assert device
    return f"\n```rust\n{device[1]}```\n\n"


def operation_example() -> str:
    """The worked example of a near-memory operation, without its tests."""
    text = (ROOT / "crates/designs/src/nearpm/operations/page_crc.rs").read_text("utf-8")
    return f"\n```rust\n{text.partition('#[cfg(test)]')[0].rstrip()}\n```\n\n"


TABLES = (
    presets.tables(rows)
    | {
        "configuration": configuration,
        "statistics": statistics,
        "verdicts": verdicts,
        "modules": modules,
        "module-keys": module_keys,
        "log-mistakes": partial(mistakes, "wal.h", "WAL"),
        "library-mistakes": partial(mistakes, "libnearpm/nearpm_pool.h", "NP"),
        "check-bugs": check_bugs,
        "check-correct": check_correct,
        "check-found": check_found,
        "check-kinds": check_kinds,
        "forgiven": forgiven,
        "not-forgiven": not_forgiven,
        "example": example,
        "device-example": device_example,
        "operation-example": operation_example,
    }
    | {
        f"planted-bugs-{file.stem.replace('_', '-')}": partial(planted_bugs, file)
        for file in sorted(ROOT.glob("docs/examples/*.rs"))
    }
    | {
        f"planted-bugs-{design_of(file).replace('_', '-')}": partial(planted_bugs, file)
        for file in of_designs("planted_bugs")
    }
)


def table(header: list[str], body: list[list[str]]) -> list[str]:
    """A table in Markdown, and an empty line."""
    plain = [[cell.replace("|", "/") for cell in line] for line in body]
    return [rows(header, plain).strip(), ""]


def number(value: float | None, unit: float, digits: int) -> str:
    """A number in its unit; a dash where none was measured."""
    return "–" if value is None else f"{value / unit:.{digits}f}"


def main() -> int:
    """Writes or checks every page."""
    stale = []
    for page in sorted(ROOT.glob("docs/**/*.md")):
        old = page.read_text("utf-8")
        new = PLACE.sub(lambda place: place[1] + TABLES[place[2]]() + place[3], old)
        if new == old:
            continue
        stale.append(page)
        if "--check" not in sys.argv:
            page.write_text(new, "utf-8")
    if stale and "--check" in sys.argv:
        names = " ".join(str(page.relative_to(ROOT)) for page in stale)
        print(f"{names}: out of date; run python3 .ci/tables.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

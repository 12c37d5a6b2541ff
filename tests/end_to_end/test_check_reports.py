"""What `perdure check` writes of a real check, `--watch`, and what it refuses.

Always true here: the program is `pushes`; a mistake is planted in its source where a program has to
be another one.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import PATIENCE_SECONDS, PROGRAMS, REPOSITORY, Command, Terminal

from perdure import toolchain

pytestmark = pytest.mark.usefixtures("programs")

PUSHES = PROGRAMS / "guests/pushes"
POOL = "/pmem/x"
SOURCE = (REPOSITORY / "tests/guests/pushes.c").read_text()
PERSIST = "        persist(node, sizeof *node);\n"
BUGGY = SOURCE.replace(PERSIST, "        ;\n")
Build = Callable[[str], Path]


def words(program: Path, *mistake: str) -> list[str | Path]:
    """A check's program and what recovers."""
    return ["--", program, POOL, "4", *mistake, "--then", program, POOL, "recover"]


def test_a_page_has_the_source_and_what_is_missing_in_it(command: Command, tmp_path: Path) -> None:
    page, report = tmp_path / "new/page.html", tmp_path / "report.json"
    options = ("--html", page, "--json", report, "--sources", REPOSITORY)
    ended = command("check", *options, *words(PUSHES, "no-fence"))
    assert ended.status == 1, ended.stderr
    text = page.read_text()
    assert "tests/guests/pushes.c" in text
    assert "node-&gt;check = key ^ next ^ MAGIC;" in text
    before, _, behind = text.partition("/* a fence belongs here */")
    assert before.endswith('<td class="code">        ')
    assert "lead_to(index);" in behind.partition("</tr>")[2].partition("</tr>")[0]
    (bug,) = json.loads(report.read_text())["bugs"]
    assert f"--state {bug['state']} " in text
    assert "--html" not in text
    assert max(map(len, ended.stdout.splitlines())) <= 80 + len(str(PUSHES))


def test_a_flush_that_came_too_early_is_told_though_it_came_first(
    command: Command, compiled: Build, tmp_path: Path
) -> None:
    last, behind = "    node->check =", '    if (makes("torn")) {'
    early = BUGGY.replace(last, f"    perdure_clwb(node);\n{last}")
    # It is flushed at last, so that nothing is never flushed.
    late = "    persist(&pool->nodes[index], sizeof pool->nodes[index]);\n"
    program = compiled(early.replace(behind, late + behind))
    report, page = tmp_path / "report.json", tmp_path / "page.html"
    ended = command("check", "--json", report, "--html", page, *words(program))
    assert ended.status == 1, ended.stderr
    (bug,) = json.loads(report.read_text())["bugs"]
    assert bug["defect"] == "flush-too-early"
    kinds = [(moment["kind"], moment["stores"]) for moment in bug["timeline"]]
    flushed = [("flush", [0]), ("lost", [0]), ("missing-flush", [0])]
    assert kinds == [*flushed, ("kept", [1]), ("flush", [1]), ("power", [])]
    assert "A was flushed too early, and not since" in page.read_text()


def test_a_flush_before_all_stores_of_its_line_came_too_early(
    command: Command, compiled: Build, tmp_path: Path
) -> None:
    first = "    node->"
    head, _, tail = BUGGY.partition(first)
    program = compiled(f"{head}    perdure_clwb(node);\n{first}{tail}")
    ended = command("check", "--json", tmp_path / "report.json", *words(program))
    assert ended.status == 1, ended.stderr
    bugs = json.loads((tmp_path / "report.json").read_text())["bugs"]
    assert {bug["defect"] for bug in bugs} == {"flush-too-early"}
    kinds = [moment["kind"] for moment in bugs[0]["timeline"]]
    assert kinds[0] == "flush" and "missing-flush" in kinds


def test_names_are_demangled_in_all_but_json(command: Command, tmp_path: Path) -> None:
    mangled = "_ZN4list4fillEmmm"
    declared = f'static void fill(uint64_t, uint64_t, uint64_t) __asm__("{mangled}");\n'
    program = build_without_lines(
        tmp_path, BUGGY.replace("static void fill", f"{declared}static void fill")
    )
    ended = command("check", "--json", "report.json", *words(program))
    assert ended.status == 1, ended.stderr
    assert "missing flush: list::fill(unsigned long, unsigned long, unsigned long)" in ended.stdout
    (bug,) = json.loads((tmp_path / "report.json").read_text())["bugs"]
    assert bug["lost"][0]["place"]["function"] == mangled
    assert "has no debug information: places are shown by function" in " ".join(
        ended.stdout.split()
    )


def build_without_lines(folder: Path, source: str) -> Path:
    """A program with symbols, and no debug information."""
    file = folder / "named.c"
    file.write_text(source)
    compiler = ["riscv64-linux-gnu-gcc", "-O1", "-fno-inline", "-static", "-pthread"]
    include = f"-I{REPOSITORY / 'guest'}"
    subprocess.run([*compiler, include, file, "-o", folder / "named"], check=True, timeout=120)
    return folder / "named"


def test_a_program_without_symbols_is_checked_and_says_so(command: Command, tmp_path: Path) -> None:
    program = tmp_path / "stripped"
    shutil.copy(PUSHES, program)
    subprocess.run(["riscv64-linux-gnu-strip", program], check=True, timeout=60)
    ended = command("check", "--html", "page.html", *words(program, "no-flush"))
    assert ended.status == 1, ended.stderr
    said = " ".join(ended.stdout.split())
    assert (
        "note: the program has no symbols: places are shown by address; compile it with -g" in said
    )
    assert "missing flush: 0x" in said
    assert "the program has no symbols" in (tmp_path / "page.html").read_text()


@contextmanager
def watching(program: Path, terminal: Terminal) -> Iterator[subprocess.Popen[bytes]]:
    """A check that watches a program."""
    script = Path(sys.executable).with_name("perdure")
    process = subprocess.Popen(
        [script, "check", "--watch", *words(program)],
        cwd=program.parent,
        stdout=terminal.device,
        stderr=terminal.device,
        env=terminal.environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def test_a_program_that_is_built_anew_is_checked_anew(compiled: Build, terminal: Terminal) -> None:
    program = compiled(SOURCE)
    with watching(program, terminal) as process:
        terminal.wait_for("no bug found")
        terminal.wait_for("waiting for changes")
        compiled(BUGGY)
        terminal.wait_for("has changed")
        terminal.wait_for(r"1 bug new[^\n]*\n[^\n]*new: missing flush")
        terminal.wait_for("waiting for changes")
        compiled(SOURCE.replace('makes("fails")', "1"))
        terminal.wait_for("the program itself fails")
        terminal.wait_for("waiting for changes")
        compiled(SOURCE)
        terminal.wait_for(r"1 bug gone[^\n]*\n[^\n]*gone: missing flush")
        terminal.wait_for("waiting for changes")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_ctrl_c_ends_the_waiting_with_the_last_status(compiled: Build, terminal: Terminal) -> None:
    with watching(compiled(BUGGY), terminal) as process:
        terminal.wait_for("waiting for changes")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--html", "/proc/page.html"), "--html cannot write /proc"),
        (("--sarif", "/dev/null/a"), "--sarif cannot write /dev/null"),
        (("--sources", "nowhere"), "--sources nowhere: there is no such folder"),
        (("--update-baseline",), "say by --baseline FILE where it is"),
        (("--watch", "--json", "-"), "--watch writes a report each time"),
        (("--watch", "--state", "0/1:"), "--watch writes a report each time"),
        (("--check", f"{PUSHES}"), "fails on the pool that the program leaves"),
        (("--dump", f"{PUSHES}"), "fails on the pool that the program leaves"),
        (("--check", "no/such/checker"), "no/such/checker"),
    ],
)
def test_what_cannot_be_done_is_one_message(
    options: tuple[str, ...], said: str, command: Command
) -> None:
    ended = command("check", *options, *words(PUSHES))
    assert (ended.status, ended.stdout) == (2, "")
    assert said in ended.stderr


LINKED = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include "perdure.h"

struct node { struct node *next; uint64_t key[2]; char rest[40]; };
struct list { struct node *first; char rest[56]; };
struct pool { struct list list; struct node nodes[8]; };
REACHED;

int main(int count, char **words)
{
    const int file = open(words[1], O_RDWR | O_CREAT, 0644);
    if (file < 0 || posix_fallocate(file, 0, sizeof(struct pool)) != 0) return 2;
    const int flags = MAP_SHARED_VALIDATE | MAP_SYNC, access = PROT_READ | PROT_WRITE;
    struct pool *pool = mmap(0, sizeof *pool, access, flags, file, 0);
    reached = &pool->list;
    for (struct node *node = pool->list.first; node; node = node->next) {
        if (node->key[1] == 0) return 1;
    }
    for (int i = 1; count > 2 && i < 4; i++) {
        struct node *node = &pool->nodes[i];
        node->next = pool->list.first;
        node->key[1] = i;
        pool->list.first = node;
        perdure_clwb(&pool->list);
        perdure_sfence();
    }
    return 0;
}
"""
BY_LOCALS = ("node.key[1]", "pool.list.first")
"""What names words where no global variable does."""


@pytest.mark.parametrize(
    ("variable", "lost", "kept"),
    [
        ("struct list *reached", "node.key[1]", "list.first"),
        ("struct { struct list *o; } a[2];\n#define reached a[1].o\n", "node.key[1]", "list.first"),
        ("typedef struct list *const other; other *to; void *reached", *BY_LOCALS),
        ("uintptr_t number;\n#define reached *(void **)&number\n", *BY_LOCALS),
    ],
)  # fmt: skip
def test_words_are_named_where_typed_pointers_lead_to_them(
    variable: str, lost: str, kept: str, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "linked.c"
    file.write_text(LINKED.replace("REACHED;", f"{variable};"))
    compiler = toolchain.installed()
    assert compiler is not None
    program = compiler.build(file, tmp_path / "linked", ["-g"])
    options = ("--json", "-", "--no-nested")
    ended = command("check", *options, "--", program, POOL, "fill", "--then", program, POOL)
    assert ended.status == 1, ended.stderr
    for bug in json.loads(ended.stdout)["bugs"]:
        for stores, part in ((bug["lost"], lost), (bug["kept"], kept)):
            parts = {word["part"] for one in stores for word in one["words"]}
            assert part in parts


def test_words_of_an_array_in_the_pool_are_named(command: Command) -> None:
    ended = command("check", "--json", "-", *words(PUSHES, "no-fence"))
    (bug,) = json.loads(ended.stdout)["bugs"]
    named = [one["words"][0]["part"] for one in (*bug["lost"], *bug["kept"])]
    assert named == ["pool.nodes[1].check", "pool.head"]

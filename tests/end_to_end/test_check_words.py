"""What `perdure check` calls words of a pool that only parameters and local variables lead to.

Always true here: a program has no global variable; a list leads to a node whose key may be lost.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Command
from test_check_languages import built, in_rust_of

from perdure import toolchain

POOL = "/pmem/x"
COMMON = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include "perdure.h"

struct node { struct node *next; uint64_t key; char rest[48]; };
struct list { struct node *first; char rest[56]; };
struct pool { struct list list; struct node nodes[8]; };
#define APART __attribute__((noinline)) static
#define WITHIN __attribute__((always_inline)) static inline

APART void set(uint64_t *word, uint64_t value)
{
    *word = value;
}

APART void lead(void **list, void *node)
{
    *list = node;
    perdure_clwb(list);
    perdure_sfence();
}

APART void *mapped(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT, 0644), access = PROT_READ | PROT_WRITE;
    if (file < 0 || posix_fallocate(file, 0, sizeof(struct pool)) != 0) return MAP_FAILED;
    return mmap(0, sizeof(struct pool), access, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0);
}

APART int is_wrong(const uint64_t *list)
{
    const uint64_t *node = (const uint64_t *)*list;
    return node && node[1] == 0;
}
"""
"""The pool, and what does with its words what it is told, by pointers without a structure."""

BY_PARAMETERS = r"""
APART void push(struct list *list, struct node *node, uint64_t key)
{
    node->key = key;
    list->first = node;
    perdure_clwb(list);
    perdure_sfence();
}

int main(int count, char **words)
{
    uint64_t *pool = mapped(words[1]);
    if (count > 2) push((void *)pool, (void *)(pool + 16), 7);
    return is_wrong(pool);
}
"""

BY_A_LOCAL_OF_WHO_CALLED = r"""
APART void fill(uint64_t *node, uint64_t *list)
{
    set(node + 1, 7);
    lead((void **)list, node);
}

int main(int count, char **words)
{
    struct pool *pool = mapped(words[1]);
    if (count > 2) fill((void *)&pool->nodes[1], (void *)&pool->list);
    return is_wrong((void *)pool);
}
"""

BY_WHAT_IS_INLINED = r"""
WITHIN void push(struct list *list, struct node *node, uint64_t key)
{
    node->key = key;
    lead((void **)list, node);
    set(&node->key, key);
}

int main(int count, char **words)
{
    void *pool = mapped(words[1]);
    if (count > 2) push(pool, (struct node *)((char *)pool + 128), 7);
    return is_wrong(pool);
}
"""

BY_A_LINK = r"""
APART void push(struct node *const *const *links, struct node *node)
{
    node->key = 7;
    lead((void **)*links, node);
}

int main(int count, char **words)
{
    void *pool = mapped(words[1]);
    struct node *const *const link = pool;
    if (count > 2) push(&link, (void *)((char *)pool + 128));
    return is_wrong(pool);
}
"""
"""A word to which nothing leads but a pointer to a pointer."""

BY_MEMBERS = r"""
typedef struct node *const to_node;
struct open { int file; struct { struct list *list; to_node nodes[3]; } of; };

APART void push(const volatile struct open *to)
{
    set((uint64_t *)to->of.nodes[2] + 1, 7);
    lead((void **)to->of.list, to->of.nodes[2]);
}

int main(int count, char **words)
{
    uint64_t *pool = mapped(words[1]);
    struct open at = {3, {(void *)pool, {0, 0, (void *)(pool + 16)}}};
    if (count > 2) push(&at);
    return is_wrong(pool);
}
"""

BY_NUMBERS = r"""
int main(int count, char **words)
{
    void *pool = mapped(words[1]);
    if (count > 2) set((uint64_t *)pool + 17, 7);
    if (count > 2) lead(pool, (char *)pool + 128);
    return is_wrong(pool);
}
"""

BY_ANOTHER_THREAD = r"""
APART void *fills(void *pool)
{
    set((uint64_t *)pool + 17, 7);
    lead(pool, (char *)pool + 128);
    *((volatile char *)pool + 8 * 64 + 16) = 1;
    return 0;
}

int main(int count, char **words)
{
    struct pool *const pool = mapped(words[1]);
    pthread_t thread;
    if (count > 2 && pthread_create(&thread, 0, fills, pool) == 0) {
        while (!*(volatile char *)&pool->nodes[7].rest[0]) {}
    }
    return pool->list.first && pool->list.first->key == 0;
}
"""

OLD_AND_NEW = r"""
APART void before(void *at)
{
    struct list *old = at;
    set((uint64_t *)&old, (uintptr_t)at);
}

APART void after(TYPE *node)
{
    FIRST
    ((uint64_t *)node)[1] = 7;
    THEN
    set((uint64_t *)&old, 0);
}

int main(int count, char **words)
{
    void *pool = mapped(words[1]);
    if (count > 2) before((char *)pool + 128);
    if (count > 2) after((void *)((char *)pool + 128));
    if (count > 2) lead(pool, (char *)pool + 128);
    return is_wrong(pool);
}
"""
"""`before` leaves a pointer in the place where `after` has one that got no value."""


def built_in_c(source: str, level: str, folder: Path) -> Path:
    file = folder / "words.c"
    file.write_text(COMMON + source)
    compiler = toolchain.installed()
    assert compiler is not None, "no C compiler for riscv64: `make test` installs one"
    return compiler.build(file, folder / "words", ["-g", "-Wno-uninitialized", level])


def named(command: Command, program: Path) -> tuple[set[str | None], set[str | None]]:
    """What the words are that are lost, and kept."""
    line = ("--", program, POOL, "fill", "--then", program, POOL)
    ended = command("check", "--json", "-", "--no-nested", *line)
    assert ended.status == 1, ended.stderr
    bugs = json.loads(ended.stdout)["bugs"]
    lost, kept = ([one for bug in bugs for one in bug[which]] for which in ("lost", "kept"))
    return of_words(lost), of_words(kept)


def of_words(stores: list[dict[str, list[dict[str, str | None]]]]) -> set[str | None]:
    return {word["part"] for one in stores for word in one["words"]}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("source", "lost", "kept"),
    [
        (BY_PARAMETERS, "node.key", "list.first"),
        (BY_A_LOCAL_OF_WHO_CALLED, "pool.nodes[1].key", "pool.list.first"),
        (BY_WHAT_IS_INLINED, "node.key", "list.first"),
        (BY_A_LINK, "node.key", "node *"),
        (BY_MEMBERS, "node.key", "list.first"),
        (BY_ANOTHER_THREAD, "pool.nodes[1].key", "pool.list.first"),
        (BY_NUMBERS, None, None),
    ],
)
def test_words_are_named_where_parameters_and_local_variables_lead_to_them(
    source: str, lost: str | None, kept: str | None, level: str, command: Command, tmp_path: Path
) -> None:
    assert named(command, built_in_c(source, level, tmp_path)) == ({lost}, {kept})


@pytest.mark.parametrize(
    ("of", "first", "then", "lost"),
    [
        ("void", "struct list *old;", "", "list.rest[0]"),
        ("void", "", "struct list *old;", None),
        ("struct node", "struct list *old;", "", "node.key"),
    ],
)
def test_what_has_no_value_yet_names_only_what_nothing_else_does(
    of: str, first: str, then: str, lost: str | None, command: Command, tmp_path: Path
) -> None:
    source = OLD_AND_NEW.replace("TYPE", of).replace("FIRST", first).replace("THEN", then)
    assert named(command, built_in_c(source, "-O0", tmp_path)) == ({lost}, {None})


IN_CXX = r"""
namespace persistent {
struct Node { Node *next; uint64_t key; char rest[48]; };

class List {
    Node *first;
    char rest[56];

public:
    __attribute__((noinline)) void push(Node &node, uint64_t key)
    {
        set(&node.key, key);
        lead(reinterpret_cast<void **>(this), &node);
        set(&node.key, key);
    }
};
}

int main(int count, char **words)
{
    void *pool = mapped(words[1]);
    auto &node = *reinterpret_cast<persistent::Node *>(static_cast<char *>(pool) + 128);
    if (count > 2) static_cast<persistent::List *>(pool)->push(node, 7);
    return is_wrong(static_cast<uint64_t *>(pool));
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_words_of_objects_are_named_in_cxx(level: str, command: Command, tmp_path: Path) -> None:
    compiler = "riscv64-linux-gnu-g++"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / "words.cpp"
    source.write_text((COMMON + IN_CXX).replace("#define _GNU_SOURCE", ""))
    guest = Path(__file__).resolve().parents[2] / "guest"
    words = [compiler, "-std=c++17", level, "-g", "-static", f"-I{guest}", str(source)]
    program = built([*words, "-o", str(tmp_path / "words")], tmp_path / "words")
    assert named(command, program) == ({"Node.key"}, {"List.first"})


IN_RUST = r"""
use std::arch::asm;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, how: i32, flags: i32, file: i32, from: i64) -> *mut u64;
}

#[repr(C)]
struct Node { next: u64, key: u64, rest: [u64; 6] }

#[repr(C)]
struct List { first: u64, rest: [u64; 7] }

#[inline(never)]
fn push(list: &mut List, node: &mut Node, key: u64) {
    node.key = key;
    list.first = 128;
    // SAFETY: a clean of a line that is mapped (cbo.clean), and a fence.
    unsafe { asm!(".insn i 0x0f, 2, x0, {0}, 1", "fence rw, rw", in(reg) list) };
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(&words[1]);
    let file = file.expect("a pool");
    file.set_len(4096).expect("room");
    // SAFETY: a file of so many bytes is mapped, for reading and writing, shared.
    let pool = unsafe { mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0) };
    // SAFETY: both lie in the pool, each by itself.
    let (list, node) = unsafe { (&mut *pool.cast::<List>(), &mut *pool.add(16).cast::<Node>()) };
    if words.len() > 2 {
        push(list, node, 7);
    }
    std::process::exit(i32::from(list.first != 0 && node.key == 0));
}
"""


@pytest.mark.parametrize("level", ["0", "2"])
def test_words_of_objects_are_named_in_rust(level: str, command: Command, tmp_path: Path) -> None:
    source = tmp_path / "words.rs"
    source.write_text(IN_RUST)
    program = in_rust_of(source, tmp_path / "words", level)
    assert named(command, program) == ({"Node.key"}, {"List.first"})

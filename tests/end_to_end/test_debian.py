"""Unmodified Debian riscv64 programs: the same output as under qemu-riscv64, power cuts or not.

Always true here: the packages come from the machine's own Debian mirror and are kept in a folder
outside the repository ($PERDURE_SYSROOT, or one in the user's cache); where there is no mirror,
every test of this file is skipped and says why. qemu-riscv64 stands for Linux.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, TIMES, Command, RunGuest, files, seed

from perdure import Machine

PACKAGES = (
    "bzip2",
    "coreutils",
    "dash",
    "gzip",
    "lua5.4",
    "python3",
    "sqlite3",
    "xz-utils",
    "zstd",
)
CUTS = 100 * TIMES

LUA = """
local queens, n = 0, 7
local function place(row, columns, left, right)
  if row > n then queens = queens + 1 return end
  for column = 1, n do
    local l, r = row + column, row - column
    if not (columns[column] or left[l] or right[r]) then
      columns[column], left[l], right[r] = true, true, true
      place(row + 1, columns, left, right)
      columns[column], left[l], right[r] = nil, nil, nil
    end
  end
end
place(1, {}, {}, {})
local file = assert(io.open("out.txt", "w"))
for i = 1, 50 do file:write(string.format("%d %.17g\\n", i, math.sin(i))) end
file:close()
print(queens, string.format("%.17g", math.exp(1)))
"""

PYTHON = """
import math
primes = [n for n in range(2, 2000) if all(n % d for d in range(2, math.isqrt(n) + 1))]
words = {}
for line in open("input.txt"):
    for word in line.split():
        words[word] = words.get(word, 0) + 1
with open("out.txt", "w") as file:
    for word in sorted(words, key=lambda word: (-words[word], word))[:20]:
        print(words[word], word, file=file)
try:
    [][1]
except IndexError as error:
    print(error, len(primes), sum(primes), 2 ** 200, repr(math.pi / 3))
"""

TRANSACTIONS = """
CREATE TABLE account(id INTEGER PRIMARY KEY, owner TEXT NOT NULL, balance INTEGER NOT NULL);
CREATE INDEX by_owner ON account(owner);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
  INSERT INTO account SELECT i, 'owner ' || (i * 7919 % 1009), 1000 FROM n;
COMMIT;
BEGIN;
UPDATE account SET balance = balance - 7 WHERE id % 2 = 0;
UPDATE account SET balance = balance + 7 WHERE id % 2 = 1;
COMMIT;
BEGIN;
DELETE FROM account WHERE id > 100;
ROLLBACK;
BEGIN;
UPDATE account SET owner = owner || '!' WHERE id % 5 = 0;
COMMIT;
SELECT count(*), sum(balance), min(owner), max(owner) FROM account;
PRAGMA integrity_check;
"""


@dataclass(frozen=True)
class Program:
    """A Debian program and what it is told to do with the files of `prepare`."""

    name: str
    words: tuple[str, ...]


PROGRAMS = (
    Program("bzip2", ("bzip2", "--keep", "input.txt")),
    Program("bzip2-back", ("bzip2", "--decompress", "--keep", "given.bz2")),
    Program("xz", ("xz", "--keep", "--threads=1", "-3", "input.txt")),
    Program("xz-back", ("xz", "--decompress", "--keep", "--threads=1", "given.xz")),
    Program("gzip", ("gzip", "--keep", "--no-name", "input.txt")),
    Program("gzip-back", ("gzip", "--decompress", "--keep", "given.gz")),
    Program("zstd", ("zstd", "--quiet", "--keep", "input.txt")),
    Program("lua", ("lua5.4", "program.lua")),
    Program("python", ("python3", "-I", "-S", "program.py")),
    Program("sqlite-rollback", ("sqlite3", "bank.db", ".read rollback.sql")),
    Program("sqlite-wal", ("sqlite3", "bank.db", ".read wal.sql")),
    Program("sort", ("sort", "--key=3", "--output=sorted.txt", "input.txt")),
    Program("sha256sum", ("sha256sum", "input.txt", "program.lua")),
    Program("split", ("split", "--lines=100", "input.txt")),
    Program("cp", ("cp", "--recursive", "folder", "copy")),
)

by_name = {program.name: program for program in PROGRAMS}
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def text(lines: int = 1000) -> bytes:
    """Words that compress, numbers that do not."""
    chance = random.Random(5)
    words = ("line", "cache", "epoch", "power", "commit", "undo", "resume", "recover", "memory")
    made = (
        f"{' '.join(chance.choice(words) for _ in range(8))} {chance.randrange(10**6)}"
        for _ in range(lines)
    )
    return "".join(f"{line}\n" for line in made).encode()


def prepare(folder: Path) -> Path:
    """A new working directory with everything that the programs read."""
    folder.mkdir()
    content = text()
    for name, data in {
        "input.txt": content,
        "given.bz2": bz2.compress(content),
        "given.xz": lzma.compress(content, preset=3),
        "given.gz": gzip.compress(content, mtime=0),
        "program.lua": LUA.encode(),
        "program.py": PYTHON.encode(),
        "rollback.sql": f"PRAGMA journal_mode=DELETE;{TRANSACTIONS}".encode(),
        "wal.sql": f"PRAGMA journal_mode=WAL;{TRANSACTIONS}".encode(),
    }.items():
        (folder / name).write_bytes(data)
    (folder / "folder/inner").mkdir(parents=True)
    (folder / "folder/inner/file").write_bytes(content[:1000])
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    """Makes working directories."""
    return lambda name: prepare(tmp_path / name)


def on(root: Path, design: str = "picl") -> Machine:
    """A machine with Debian in it; its epochs are short, so that a short program has many."""
    return Machine(design=design, sysroot=root, set={"epoch.instructions": 50_000})


def guest_words(root: Path, program: Program) -> list[str | Path]:
    """The command line, with the program's file in the sysroot."""
    name, *arguments = program.words
    return [root / "usr/bin" / name, *arguments]


@each_program
def test_output_and_files_are_linux_s(
    program: Program, root: Path, folder: Callable[[str], Path], run_guest: RunGuest
) -> None:
    words = guest_words(root, program)
    linux = folder("qemu")
    reference = subprocess.run(
        ["qemu-riscv64", "-L", root, *words],
        cwd=linux,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=True,
    )
    assert set(files(linux)) > set(files(folder("before"))) or reference.stdout
    for design in ("ideal", "picl"):
        ours = folder(design)
        run = run_guest(on(root, design), words, cwd=ours, write_through=[f"{ours}:/work"])
        assert run.result.exit_code == 0
        assert run.result.unknown_system_calls == []
        assert run.stdout == reference.stdout
        assert files(ours) == files(linux)


@each_program
def test_every_cut_is_recovered(
    program: Program,
    root: Path,
    folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cwd = folder("cut")
    before = files(cwd)
    monkeypatch.chdir(cwd)
    report = on(root).cut(guest_words(root, program), cuts=CUTS, seed=seed(7))
    assert [(cut.cycle, cut.verdict, cut.token) for cut in report.failures] == []
    assert report.verified == CUTS
    assert sum(cut.resumed for cut in report.results) >= CUTS // 20
    assert len({cut.recovered_epoch for cut in report.results}) > 1
    assert files(cwd) == before


@pytest.mark.parametrize("name", ["python", "xz"])
def test_an_unprotected_machine_loses_something(
    name: str, root: Path, folder: Callable[[str], Path], command: Command
) -> None:
    ended = command(
        "cut", "--design", "ideal", "--cuts", "100", "--sysroot", root,
        "--", *guest_words(root, by_name[name]), cwd=folder("cut"),
    )  # fmt: skip
    assert ended.status == 0, ended.stdout
    assert "of 100 cuts lost something" in ended.stdout


@pytest.mark.parametrize("name", ["sqlite-rollback", "sqlite-wal"])
def test_a_released_database_is_whole(
    name: str, root: Path, folder: Callable[[str], Path], run_guest: RunGuest
) -> None:
    cwd = folder("database")
    kept = cwd / "kept"
    run = run_guest(on(root), guest_words(root, by_name[name]), cwd=cwd, files=kept)
    assert not (cwd / "bank.db").exists()
    mode = b"wal" if name == "sqlite-wal" else b"delete"
    assert run.stdout.split(b"\n")[0] == mode
    with closing(sqlite3.connect(kept / "work/bank.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = database.execute("SELECT id, owner, balance FROM account ORDER BY id").fetchall()
    assert rows == [
        (i, f"owner {i * 7919 % 1009}" + "!" * (i % 5 == 0), 1007 if i % 2 else 993)
        for i in range(1, 201)
    ]


def test_what_was_compressed_can_be_read_by_others(
    root: Path, folder: Callable[[str], Path], run_guest: RunGuest
) -> None:
    cwd = folder("compressed")
    for name in ("bzip2", "xz", "gzip", "zstd"):
        words = guest_words(root, by_name[name])
        run_guest(on(root), words, cwd=cwd, write_through=[f"{cwd}:/work"])
    content = text()
    assert bz2.decompress((cwd / "input.txt.bz2").read_bytes()) == content
    assert lzma.decompress((cwd / "input.txt.xz").read_bytes()) == content
    assert gzip.decompress((cwd / "input.txt.gz").read_bytes()) == content
    back = [root / "usr/bin/zstd", "--quiet", "--decompress", "--stdout", "input.txt.zst"]
    assert run_guest(on(root), back, cwd=cwd).stdout == content


def test_a_shell_s_ulimit_holds_for_what_it_starts(root: Path, command: Command) -> None:
    line = """
        ulimit -n 64; ulimit -n; ulimit -f 2
        (head -c 5000 /dev/zero > big; echo "status $?"); wc -c < big
        ulimit -v 20000
        (head -c 50000000 /dev/zero | tail -c 40000000 | wc -c)
    """
    ended = command("run", "--sysroot", root, "--design", "ideal", "--", "sh", "-c", line)
    assert ended.stdout.split("\n") == ["64", "status 153", "1024", "0", ""], ended.stderr
    assert "memory exhausted" in ended.stderr

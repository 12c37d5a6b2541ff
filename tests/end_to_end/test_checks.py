"""`perdure check`: mistakes of a small program are found, and it without them is not accused.

Always true here: the program is `pushes` where no other is written out; which store is to blame is
asked of its source.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PROGRAMS, REPOSITORY, Command

import perdure

pytestmark = pytest.mark.usefixtures("programs")

PUSHES = PROGRAMS / "guests/pushes"
SOURCE = (REPOSITORY / "tests/guests/pushes.c").read_text().splitlines()
POOL = "/pmem/x"
DUMP = ("--dump", f"{PUSHES} {POOL} dump")

FLUSHES_WITHOUT_FENCES = """
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"

static volatile uint64_t *pool;

static void set(int line)
{
    pool[8 * line] = 1;
    perdure_clflush(&pool[8 * line]);
}

int main(int count, char **words)
{
    (void)words;
    const int file = open("/pmem/x", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) != 0) {
        return 2;
    }
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (count > 1) {
        return pool[8 * FLAG] == 1 && pool[8 * DATA] != 1 ? 3 : 0;
    }
    for (int line = 0; line < 4; line++) {
        set(line);
    }
    return 0;
}
"""
"""Recovery expects the line DATA to be durable before the line FLAG is."""

WITHOUT_MAP_SYNC = """
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"

static volatile uint64_t *count; /* on a page of its own; then a word that recovery writes first */
static volatile uint64_t *records;

static void persist(const char *how, volatile uint64_t *word)
{
    if (strcmp(how, "msync") == 0) {
        msync((void *)((uintptr_t)word & ~4095UL), 4096, MS_SYNC);
    } else if (strcmp(how, "flush") == 0) {
        perdure_clwb(word);
        perdure_sfence();
    }
}

static int recover(void)
{
    count[1] = 7;
    for (uint64_t at = 0; at < count[0]; at++) {
        if (records[at] != at + 1) {
            return 3;
        }
    }
    return count[1] == 7 ? 0 : 4;
}

int main(int number, char **words)
{
    const int file = open("/pmem/x", O_RDWR | O_CREAT, 0600);
    if (number < 2 || ftruncate(file, 8192) != 0) {
        return 2;
    }
    count = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    records = count + 512;
    if (strcmp(words[1], "recover") == 0) {
        return recover();
    }
    for (uint64_t at = 0; at < 6; at++) {
        records[at] = at + 1;
        persist(words[1], &records[at]);
        count[0] = at + 1;
        persist("flush", count);
    }
    return 0;
}
"""
"""A log in a file that has neither `MAP_SYNC` nor `fsync`; recovery writes before it reads."""


def check(command: Command, *words: str, options: tuple[str, ...] = DUMP) -> tuple[int, Any]:
    """The status and the JSON of a check of so many operations, or with a mistake."""
    program = ("--", PUSHES, POOL, *words, "--then", PUSHES, POOL, "recover")
    ended = command("check", *options, "--json", "-", *program)
    assert ended.status in (0, 1), ended.stderr
    return ended.status, json.loads(ended.stdout)


def line_of(text: str) -> int:
    """The line of the source that has this."""
    (number,) = [number for number, line in enumerate(SOURCE, 1) if text in line]
    return number


@pytest.mark.parametrize("model", ["px86", "arm", "perdure"])
def test_a_correct_program_is_not_accused(model: str, command: Command) -> None:
    status, report = check(command, "10", options=(*DUMP, "--model", model))
    assert (status, report["bugs"], report["states"]["wrong"]) == (0, [], 0)
    points = report["points"]
    assert points["explored"] == points["exhaustively"] == points["found"] > 10
    assert report["uncut"]["operations"] == 10
    assert report["states"]["run"] > points["found"]


@pytest.mark.parametrize(
    ("mistake", "defect", "lost", "kept"),
    [
        ("no-flush", "missing-flush", {"fill"}, {"lead_to"}),
        ("no-fence", "missing-fence", {"fill"}, {"lead_to"}),
        ("no-last-flush", "missing-flush", {"lead_to"}, set()),
        ("wrong-order", "wrong-order", {"fill"}, {"lead_to"}),
        ("torn", "torn", {"push"}, {"push"}),
        ("hangs", "missing-flush", {"fill"}, {"lead_to"}),
    ],
)
def test_a_mistake_is_found_with_what_is_to_blame(
    mistake: str, defect: str, lost: set[str], kept: set[str], command: Command
) -> None:
    status, report = check(command, "6", mistake)
    assert status == 1
    (bug,) = report["bugs"]
    assert bug["defect"] == defect
    assert {store["place"]["function"] for store in bug["lost"]} == lost
    assert {store["place"]["function"] for store in bug["kept"]} == kept
    for store in bug["lost"]:
        assert store["pool"] == "x"
        assert store["place"]["file"].endswith("pushes.c")
        assert store["stack"][-1]["function"] == "main"
        assert all(word["found"] != word["newest"] for word in store["words"])
    if mistake == "wrong-order":
        kinds = [moment["kind"] for moment in bug["timeline"]]
        durable = ["kept", "flush", "fence"]
        assert kinds == ["missing-order", *durable, "lost", "flush", "power"]
    if mistake == "torn":
        lines = [bug[part][0]["place"]["line"] for part in ("kept", "lost")]
        assert lines == [line_of("last.key = key"), line_of("last.twice = 2 * key;")]


def test_what_is_done_for_nothing_is_told_with_the_machine_s_cycles(
    command: Command, tmp_path: Path
) -> None:
    _, report = check(command, "6", options=())
    rows = {(row["what"], row["place"]["function"]): row for row in report["waste"]}
    flushed = rows["flush-of-clean-line", "persist"]
    costs = report["uncut"]["costs"]
    assert flushed["cycles"] <= costs["flush_cycles"] < costs["fence_cycles"] < costs["cycles"]
    assert 0 < flushed["count"] < costs["flushes"]
    # The rest of a string of zeros.
    unread = rows["never-read", "recover"]
    assert unread["place"]["line"] == line_of("strncpy(pool->mistake")
    machine = perdure.Machine(machine="x86-pm", design="ideal", pmem=tmp_path)
    assert machine.run([PUSHES, POOL, "6"]).sim.cycles == costs["cycles"]


FLUSHES_IN_A_ROW = """
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"

int main(void)
{
    const size_t bytes = 256 << 10;
    const int file = open("/pmem/x", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, bytes) != 0) {
        return 2;
    }
    char *pool = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(pool, 1, bytes);
    perdure_clean_range(pool, bytes);
    perdure_sfence();
    return 0;
}
"""
"""Thousands of lines, each of which is flushed, and one fence for all of them."""


@pytest.mark.parametrize("in_order", [True, False])
def test_flushes_that_overlap_cost_no_more_than_the_run(
    in_order: bool, command: Command, compiled: Callable[[str], Path]
) -> None:
    core = ("--set", "core.model=in-order", "--set", "l1d.latency_cycles=1") if in_order else ()
    line = ("check", *core, "--states", "1", "--json", "-", "--", compiled(FLUSHES_IN_A_ROW))
    ended = command(*line)
    costs = json.loads(ended.stdout)["uncut"]["costs"]
    assert costs["flushes"] == 4096
    assert 4096 < costs["flush_cycles"] + costs["fence_cycles"] < costs["cycles"]


def test_recovery_that_cannot_be_cut_is_found_by_cutting_it(command: Command) -> None:
    status, report = check(command, "5", "not-idempotent")
    assert status == 1
    assert {bug["point"]["in_recovery"] for bug in report["bugs"]} <= {"recovery", "the dump"}
    stores = [store for bug in report["bugs"] for store in (*bug["lost"], *bug["kept"])]
    assert {store["place"]["function"] for store in stores} == {"recover"}
    for bug in report["bugs"]:
        flushes = [moment for moment in bug["timeline"] if moment["kind"] == "flush"]
        assert {moment["place"]["function"] for moment in flushes} == {"persist"}
        assert bug["timeline"][-1]["kind"] == "power"
    status, report = check(command, "5", "not-idempotent", options=(*DUMP, "--no-nested"))
    assert (status, report["bugs"]) == (0, [])


NEW_FILE = r"""
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "perdure.h"

static void persist(volatile uint64_t *word, uint64_t value)
{
    *word = value;
    perdure_clwb(word);
    perdure_sfence();
}

int main(int count, char **words)
{
    (void)words;
    const int new = count > 1 ? open("/pmem/new", O_RDWR | O_CREAT | O_EXCL, 0600) : 0;
    if (new < 0 || (count > 1 && fsync(new) != 0)) return 3;
    const int file = open("/pmem/x", O_RDWR | O_CREAT, 0600), all = open("/pmem", O_RDONLY);
    if (ftruncate(file, 4096) != 0) return 2;
    volatile uint64_t *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    persist(pool, pool[0] + 1);
    if (count > 1) unlink("/pmem/new");
    return fsync(all) != 0;
}
"""
"""Recovery makes a file that must not be there yet before it looks at any pool."""


def test_a_file_that_recovery_has_made_is_there_when_it_recovers_again(
    command: Command, compiled: Callable[..., Path]
) -> None:
    program = compiled(NEW_FILE, "-g", "-O1")
    line = ("--", program, "--then", program, "recover")
    ended = command("check", "--json", "-", *line)
    (bug,) = json.loads(ended.stdout)["bugs"]
    assert (bug["defect"], bug["point"]["in_recovery"]) == ("not-recoverable", "recovery")
    assert command("check", "--no-nested", *line).status == 0


def test_nothing_depends_on_the_number_of_host_threads(command: Command) -> None:
    reports = []
    for jobs in ("1", "2", "3"):
        _, report = check(command, "6", "no-flush", options=(*DUMP, "--jobs", jobs))
        del report["host"]
        reports.append(report)
    assert reports[0] == reports[1] == reports[2]


def test_fewer_states_than_there_are_are_drawn_and_said_to_be(command: Command) -> None:
    _, report = check(command, "6", "no-flush", options=(*DUMP, "--states-of-a-point", "2"))
    assert report["points"]["exhaustively"] < report["points"]["explored"]
    assert 0 < report["states"]["coverage"] < 1
    assert report["bugs"]
    _, report = check(command, "6", options=(*DUMP, "--states", "1"))
    assert report["limited"]
    assert report["points"]["explored"] < report["points"]["found"]


def test_a_baseline_is_for_bugs_that_are_known(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    program = ("--", PUSHES, POOL, "4", "no-flush", "--then", PUSHES, POOL, "recover")
    baseline = ("--baseline", str(file))
    ended = command("check", *baseline, *program)
    assert (ended.status, "no such file yet" in ended.stderr) == (1, True), ended.stderr
    ended = command("check", *baseline, "--update-baseline", *program)
    assert (ended.status, "no such file yet" in ended.stderr) == (1, False), ended.stderr
    assert command("check", *baseline, *program).status == 0
    file.write_text("{}")
    ended = command("check", *baseline, *program)
    assert ended.status == 2
    assert "--baseline" in ended.stderr


def test_sarif_and_junit_name_the_place(command: Command, tmp_path: Path) -> None:
    sarif, junit = tmp_path / "a.sarif", tmp_path / "a.xml"
    program = ("--", PUSHES, POOL, "4", "no-fence", "--then", PUSHES, POOL, "recover")
    ended = command("check", "--sarif", str(sarif), "--junit", str(junit), *program)
    assert ended.status == 1
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    (location,) = result["locations"]
    place = location["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("pushes.c")
    assert "fill" in location["message"]["text"]
    assert 'failures="1"' in junit.read_text()
    assert "missing fence" in ended.stdout


@pytest.mark.parametrize("mistake", ["no-flush", "not-idempotent"])
def test_a_state_that_a_report_names_is_seen_again(mistake: str, command: Command) -> None:
    _, report = check(command, "5", mistake)
    bug = report["bugs"][0]
    program = ("--", PUSHES, POOL, "5", mistake, "--then", PUSHES, POOL, "recover")
    ended = command("check", *DUMP, "--json", "-", "--state", bug["state"], *program)
    assert ended.status == 1, ended.stderr
    lives = json.loads(ended.stdout)["lives"]
    assert [life["program"] for life in lives] == ["recovery", "the dump"]
    assert (lives[0]["end"] == "exit status 3") == (mistake == "no-flush")
    for state, said in (("7", "not a state"), ("0/999:", "no failure point 999")):
        ended = command("check", "--state", state, *program)
        assert ended.status == 2
        assert said in ended.stderr


def test_the_machine_is_cut_beside(command: Command) -> None:
    options = (*DUMP, "--cuts", "6", "--states", "20")
    _, report = check(command, "5", "no-flush", options=options)
    seen = report["on_machine"]
    assert (seen["machine"], seen["cuts"]) == ("x86-pm", 6)
    assert 0 <= seen["failed"] <= 6
    assert len(seen["tokens"]) == min(seen["failed"], 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("6", "never-ends"), "has not ended"),
        (("6", "fails"), "the program itself fails"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    words: tuple[str, ...], said: str, command: Command
) -> None:
    ended = command("check", "--", PUSHES, POOL, *words, "--then", PUSHES, POOL, "recover")
    assert ended.status == 2
    assert said in ended.stderr


@pytest.mark.parametrize(
    ("model", "state"), [("px86", "0/3:>dump#1:"), ("machine", "120000~1>dump#9~0")]
)
def test_a_state_in_a_program_that_is_not_there_is_refused(
    model: str, state: str, command: Command
) -> None:
    line = ("--", PUSHES, POOL, "4", "--then", PUSHES, POOL, "recover")
    ended = command("check", "--model", model, "--state", state, *line)
    assert ended.status == 2
    assert "power fails again in the dump, and no such program is given" in ended.stderr


def test_who_never_stores_to_persistent_memory_is_told_so(command: Command) -> None:
    ended = command("check", "--", PROGRAMS / "guests/fp")
    assert ended.status == 2
    assert "never stores to persistent memory" in ended.stderr


def test_a_recovery_that_fails_by_itself_is_no_bug(command: Command) -> None:
    ended = command("check", "--", PUSHES, POOL, "4", "--then", PUSHES)
    assert ended.status == 2
    assert "recovery fails on the pool that the program leaves" in ended.stderr
    assert "usage: pushes" in ended.stderr


@pytest.mark.parametrize(("data", "flag", "status"), [(0, 1, 0), (1, 0, 1)])
def test_power_fails_before_each_flush_that_needs_no_fence(
    data: int, flag: int, status: int, command: Command, compiled: Callable[[str], Path]
) -> None:
    source = FLUSHES_WITHOUT_FENCES.replace("DATA", str(data)).replace("FLAG", str(flag))
    program = compiled(source)
    ended = command("check", "--json", "-", "--", program, "--then", program, "recover")
    report = json.loads(ended.stdout)
    assert ended.status == status
    assert report["points"]["found"] == report["points"]["exhaustively"] == 4


@pytest.mark.parametrize(("how", "status"), [("flush", 0), ("msync", 0), ("nothing", 1)])
def test_a_pool_without_map_sync_is_there_and_a_note_says_so(
    how: str, status: int, command: Command, compiled: Callable[[str], Path]
) -> None:
    program = compiled(WITHOUT_MAP_SYNC)
    checked = ("check", "--json", "-", "--cuts", "20")
    ended = command(*checked, "--", program, how, "--then", program, "recover")
    assert ended.status == status, ended.stderr
    report = json.loads(ended.stdout)
    notes = [note for note in report["notices"] if note.startswith("x: mapped without MAP_SYNC")]
    assert len(notes) == (how != "msync")
    for bug in report["bugs"]:
        assert bug["symptom"] == "recovery ends with status 3"
        assert [(lost["pool"], lost["offset"]) for lost in bug["lost"]] == [("x", 4096)]
        again = command("replay", bug["token"])
        assert "exit status 3" in again.stdout
    # The machine keeps no such file, and recovery makes an empty one.
    assert report["on_machine"]["failed"] == 0


def test_pools_to_begin_with_are_there_and_stay_as_they_are(
    command: Command, tmp_path: Path
) -> None:
    pools = tmp_path / "pools"
    domain = ("--set", "persistence.domain=eadr")
    run = ("run", "--machine", "x86-pm", "--design", "ideal", *domain, "--pmem", pools)
    assert command(*run, "--", PUSHES, POOL, "3").status == 0
    before = (pools / "x").read_bytes()
    status, report = check(command, "2", "no-fence", options=(*DUMP, "--pmem", str(pools)))
    assert status == 0 and report["uncut"]["operations"] == 2
    assert (pools / "x").read_bytes() == before
    assert check(command, "2", "no-fence")[0] == 1


PAIRS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include "perdure.h"

enum { PAIRS = 64, WORDS = 8 };

static void set(volatile uint64_t *word)
{
    *word = 1;
    perdure_clwb((void *)word);
    perdure_sfence();
}

int main(int count, char **words)
{
    const int file = open(words[1], O_RDWR | O_CREAT, 0644), flags = MAP_SHARED_VALIDATE | MAP_SYNC;
    if (file < 0 || posix_fallocate(file, 0, 8192) != 0) return 2;
    volatile uint64_t *first = mmap(0, 8192, PROT_READ | PROT_WRITE, flags, file, 0);
    if (first == MAP_FAILED) return 2;
    volatile uint64_t *second = first + PAIRS * WORDS;
    for (int pair = 0; pair < PAIRS * WORDS; pair += WORDS) {
        if (count > 2) {
            set(&first[pair]);
            set(&second[pair]);
        }
        while (first[pair] && !second[pair]) sched_yield();
    }
    return 0;
}
"""
"""Recovery waits for the second of two words where it finds the first."""


@pytest.fixture
def pairs(compiled: Callable[..., Path]) -> Path:
    return compiled(PAIRS, "-g", "-O1")


def test_what_is_durable_before_what_it_relies_on_is_in_the_wrong_order(
    pairs: Path, command: Command
) -> None:
    line = ("--", pairs, POOL, "all", "--then", pairs, POOL)
    ended = command("check", "--patience", "100000", "--states", "60", "--json", "-", *line)
    bugs = json.loads(ended.stdout)["bugs"]
    assert {bug["defect"] for bug in bugs} == {"wrong-order", "not-recoverable"}
    assert {symptom for bug in bugs for symptom in bug["symptoms"]} == {"recovery does not end"}


def test_a_bound_in_minutes_is_kept_where_recoveries_hang(pairs: Path, command: Command) -> None:
    line = ("--", pairs, POOL, "all", "--then", pairs, POOL)
    ended = command("check", "--minutes", "0.05", "--json", "-", *line)
    report = json.loads(ended.stdout)
    assert (report["limited"], report["interrupted"]) == (True, False)
    assert report["points"]["explored"] < 64 < report["points"]["found"]

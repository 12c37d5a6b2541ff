"""Failed cuts explain themselves: versions, members, places, core files and the page.

Always true here: failures come from planted bugs and from machines that promise nothing, so that
what must be found is known beforehand.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Command

from perdure import Machine, replay

SMALL = {
    "l1i.bytes": 4096,
    "l1d.bytes": 2048,
    "l2.bytes": 8192,
    "llc.bytes_per_hart": 16384,
    "epoch.instructions": 100_000,
}
EXERCISER = "@exerciser:1832:32:100"
ACCOUNTS = r"""
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
struct owner { char name[16]; uint32_t kind; uint64_t since; };
struct account { uint64_t balance; struct owner owner; int64_t history[4]; };
static struct account accounts[64];
static unsigned char noise[256];
int main(void) {
  uint64_t seed = 1;
  for (int n = 0; n < 60000; n++) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    unsigned to = (seed >> 40) % 64;
    accounts[to].balance += n;
    accounts[to].history[n & 3] = n;
    accounts[to].owner.since = n;
    if (n % 64 == 0) getrandom(noise, sizeof noise, 0);
  }
  printf("%lu\n", (unsigned long)accounts[3].balance);
  return 0;
}
"""


@pytest.fixture(scope="session")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with debug information, whose variable is stored to all the time."""
    folder = tmp_path_factory.mktemp("accounts")
    source = folder / "accounts.c"
    source.write_text(ACCOUNTS)
    compiler = ["riscv64-linux-gnu-gcc", "-g", "-O1", "-static"]
    subprocess.run([*compiler, source, "-o", folder / "accounts"], check=True, timeout=120)
    return folder / "accounts"


def explained(report: Any) -> dict[str, Any]:
    """The first explanation of a report."""
    found: dict[str, Any] = next(
        one.raw["explanation"] for one in report.results if "explanation" in one.raw
    )
    return found


def lines(explanation: dict[str, Any]) -> list[dict[str, Any]]:
    """All lines that it shows."""
    return [line for thing in explanation["things"] for line in thing["shown"]]


def test_wrong_lines_are_told_by_version_and_by_member(accounts: Path) -> None:
    report = Machine(design="ideal", set=SMALL).cut([accounts], at=900_000, resume="none")
    (cut,) = report.results
    found = explained(report)
    assert cut.verdict == "lost"
    assert sum(found["kinds"].values()) == found["lines"] == cut.raw["first_difference"]["lines"]
    # The program's own variable comes before the library's.
    first = found["things"][0]
    assert (first["class"], first["name"]) == ("data", "accounts")
    parts = {word["part"] for line in first["shown"] for word in line["words"]}
    assert any(part.endswith(".balance") for part in parts), parts
    assert {part.partition("]")[0][0] for part in parts} == {"["}
    for line in lines(found):
        assert line["says"].startswith(line["kind"])
        for word in line["words"]:
            assert word["expected"] != word["found"]
    newest = [
        place for line in first["shown"] for place in line["places"] if "newest" in place["has"]
    ]
    assert newest
    stores = [event for event in found["timeline"] if event["what"] == "store"]
    assert stores and all(event["at"] <= 900_000 for event in stores)


def test_the_last_store_names_its_instruction(accounts: Path, command: Command) -> None:
    """A debugger that goes back to it finds the same one."""
    cut = ("--design", "ideal", *(f"--set={key}={value}" for key, value in SMALL.items()))
    found = explained(Machine(design="ideal", set=SMALL).cut([accounts], at=900_000, resume="none"))
    things = {thing["name"]: thing["shown"] for thing in found["things"]}
    source = ACCOUNTS.splitlines()
    for line in things["accounts"]:
        store, place = line["last_store"], line["last_store"]["instruction"]
        assert (store["kernel"], place["function"], place["file"]) == (None, "main", "accounts.c")
        assert "accounts[to]." in source[place["line"] - 1], place
    stores = [line["last_store"] for line in things["noise"]]
    assert {(one["kernel"], one["instruction"]["function"]) for one in stores} == {
        ("getrandom", "getrandom")
    }
    line = things["accounts"][0]
    store, place = line["last_store"], line["last_store"]["instruction"]
    script = accounts.parent / "script"
    script.write_text(f"perdure goto 900000\nperdure wrote {line['address']}:64\n")
    ended = command("debug", "--script", script, *cut, "--", accounts)
    said = ended.stdout + ended.stderr
    at = f"{place['address']} <main+{place['offset']}> accounts.c:{place['line']}"
    assert f"on hart {store['hart']}, at {at}\n" in said, said


@pytest.mark.parametrize(
    ("design", "bug", "kinds"),
    [
        ("picl", "forward-scan", {"newer"}),
        ("picl", "no-undo-for-clean", {"newer", "mixed"}),
    ],
)
def test_bugs_are_told_apart(design: str, bug: str, kinds: set[str]) -> None:
    machine = Machine(design=design, set={**SMALL, "epoch.instructions": 5000})
    report = machine.cut([EXERCISER], cuts=40, seed=7, resume="none", planted_bug=bug)
    assert report.failed > 0
    found = explained(report)
    assert found["lines"] > 0
    assert kinds & set(found["kinds"])
    # The replay of a failure explains it as the campaign did.
    cut = next(one for one in report.results if "explanation" in one.raw)
    assert explained(replay(cut.token)) == found
    # And so does the replay of one that the campaign left alone.
    other = next(one for one in reversed(report.failures))
    assert explained(replay(other.token))["lines"] > 0


def test_a_run_is_the_same_whether_it_is_explained_or_not(accounts: Path) -> None:
    machine = Machine(design="ideal", set=SMALL)
    bad = machine.cut([accounts], at=900_000, resume="none").raw
    assert bad["state_hash"] == machine.run([accounts]).state_hash


def test_a_hunt_explains_what_it_finds(command: Command, tmp_path: Path) -> None:
    ended = command(
        "hunt", "--planted-bug", "forward-scan", "--cuts", "2000", "--jobs", "2",
        "--cores", tmp_path / "cores", "--html", tmp_path / "found.html",
        "--json", tmp_path / "found.json",
    )  # fmt: skip
    assert ended.status == 1, ended.stderr
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert found["explanation"]["lines"] > 0
    assert command(*found["command"][1:]).status == 1, "its smallest command fails as it did"
    cores = found["explanation"]["cores"]
    for key in ("expected", "found"):
        assert Path(cores[key]).read_bytes().startswith(b"\x7fELF")
        assert f"{key}: gdb-multiarch {cores['program']} {cores[key]}" in ended.stdout
    page = (tmp_path / "found.html").read_text()
    assert found["token"] in page and found["verdict"] in page and "<svg" in page
    assert explained(replay(found["token"])) == {**found["explanation"], "cores": None}


def test_a_broken_contract_is_reported_though_no_memory_explains_it(
    command: Command, tmp_path: Path
) -> None:
    asked = ("--cores", tmp_path / "cores", "--html", tmp_path / "found.html", "--json")
    ended = command(
        "hunt", "--design", "journaling", "--planted-bug", "rewrite-dropped", "--cuts", "1",
        "--seed", "14", *asked, tmp_path / "found.json",
    )  # fmt: skip
    assert ended.status == 1, ended.stderr
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert found["verdict"] == "contract-broken" and "hook" in found["message"]
    for missing in ("--html wrote no page", "--cores wrote no core files"):
        assert f"not one of memory at a cut, so {missing}" in " ".join(ended.stderr.split())
    assert "nothing failed" not in ended.stderr
    again = command("replay", found["token"], *asked, tmp_path / "again.json")
    smallest = command(*found["command"][1:])
    assert (again.status, smallest.status) == (1, 1), again.stderr + smallest.stderr
    (result,) = json.loads((tmp_path / "again.json").read_text())["results"]
    assert (result["verdict"], result["message"]) == ("contract-broken", found["message"])
    assert "contract-broken" in smallest.stdout


def test_a_pool_without_flushes_says_where_its_bytes_were(programs: Path, tmp_path: Path) -> None:
    pools = tmp_path / "pools"
    pools.mkdir()
    ledger = programs / "guests/ledger"
    machine = Machine(machine="x86-pm", design="ideal", pmem=pools)
    report = machine.cut(
        [ledger, "/pmem", "40", "careless"],
        cuts=8,
        seed=5,
        restart=True,
        then=[ledger, "/pmem", "0"],
    )
    assert report.failed > 0
    found = explained(report)
    assert (found["against"], found["marks"], found["epoch"]) == ("newest", "cycle", None)
    assert found["lines"] == found["kinds"]["older"]
    assert {thing["class"] for thing in found["things"]} == {"pool"}
    for line in lines(found):
        holders = [place for place in line["places"] if "newest" in place["has"]]
        assert holders and not any(place["survives"] for place in holders)
        # No version lasts beyond what followed it, and nothing is stored after the cut.
        said = re.fullmatch(r"older: as it was from .* to (?:cycle )?(\d+)", line["says"])
        assert said is not None, line["says"]
        until = int(said[1])
        assert until < line["last_store"]["at"] <= found["cycle"]
    assert all(event["at"] <= found["cycle"] for event in found["timeline"])


def test_core_files_and_a_page_are_written(
    accounts: Path, command: Command, tmp_path: Path
) -> None:
    sets = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    ended = command(
        "cut", "--design", "ideal", *sets, "--at", "900000", "--resume", "none",
        "--cores", tmp_path / "cores", "--html", tmp_path / "cut.html",
        "--json", tmp_path / "cut.json",
        "--", accounts,
    )  # fmt: skip
    assert ended.status == 0, ended.stderr
    assert all(len(line) <= 80 for line in ended.stdout.splitlines() if "replay" not in line
               and "gdb-multiarch" not in line), ended.stdout  # fmt: skip
    (cut,) = json.loads((tmp_path / "cut.json").read_text())["results"]
    cores = cut["explanation"]["cores"]
    assert cores["program"] == str(accounts)
    page = (tmp_path / "cut.html").read_text()
    assert "<svg" in page and "accounts" in page and cut["token"] in page
    assert "http" not in page.replace("http-equiv", "")
    if shutil.which("gdb-multiarch") is None:
        pytest.skip("gdb-multiarch is not installed")
    line = cut["explanation"]["things"][0]["shown"][0]
    word = line["words"][0]
    address = int(line["address"], 16) + 8 * word["word"]
    for key in ("expected", "found"):
        gdb = ["gdb-multiarch", "-batch", "-ex", f"x/1gx {address:#x}", "-ex", "info registers pc"]
        said = subprocess.run(
            [*gdb, str(accounts), cores[key]],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert word[key] in said.stdout, said.stdout + said.stderr
        assert "main" in said.stdout or "pc" in said.stdout

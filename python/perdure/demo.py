"""The demonstration: a program, a power cut, and the machine coming back, told as a story.

Always true here: everything printed was measured in this very run, and the moment of the power
cut follows from a printed seed, so that the story can be told again.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from perdure import (
    PerdureError,
    api,
    capture,
    figures,
    progress,
    render,
    reports,
    sysroot,
    tables,
    terminal,
    tokens,
    toolchain,
)
from perdure import workloads as guest_programs
from perdure.outputs import store

MACHINE = "picl"
UNPROTECTED = "ideal"
PROTECTED = "picl"
KV_OPERATIONS = 60_000
SQLITE_TRANSFERS = 400
LINES_SHOWN = 4
INDENT = (0, 0, 0, 3)

# The paper's epochs have 30 million instructions; these programs are short, and shall have many.
EPOCH = {"epoch.instructions": 5_000_000}
# Cuts before the first epochs are persisted, or at the very end, would make a dull story.
EARLIEST, LATEST = 0.3, 0.95

SQLITE_TABLES = """\
PRAGMA journal_mode = WAL;
CREATE TABLE account (number INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
  INSERT INTO account SELECT i, 1000 FROM n;
CREATE TABLE ledger (moment INTEGER PRIMARY KEY, source INTEGER, target INTEGER, amount INTEGER);
CREATE TRIGGER move AFTER INSERT ON ledger BEGIN
  UPDATE account SET balance = balance - new.amount WHERE number = new.source;
  UPDATE account SET balance = balance + new.amount WHERE number = new.target;
END;
"""
SQLITE_CHECK = """\
SELECT count(*) || ' transfers', 'moved ' || sum(amount) FROM ledger;
SELECT count(*) || ' accounts', 'in total ' || sum(balance) FROM account;
"""


@dataclass(frozen=True)
class Scene:
    """A program of the story, and the words for it."""

    name: str
    title: str
    what: str
    program: Sequence[str]
    machine: api.Machine


class Narrator:
    """Prints numbered steps, with why each is taken."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._step = 0

    def chapter(self, title: str) -> None:
        """Begins a part of the story."""
        self.console.print()
        self.console.print(Rule(f"[bold]{escape(title)}", align="left", style="cyan"))

    def step(self, what: str, why: str) -> None:
        """Announces a step before it is taken."""
        self._step += 1
        self.console.print()
        self.console.print(Text(f"{self._step}. {what}", style="bold cyan"))
        self.say(why, style="dim")

    def say(self, text: str, style: str = "") -> None:
        """Tells something, a paragraph a line."""
        for line in text.splitlines():
            self.console.print(Padding(Text(line, style=style), INDENT))

    def quote(self, lines: Sequence[str]) -> None:
        """Shows a program's own output, shortened in the middle."""
        if len(lines) > 2 * LINES_SHOWN:
            hidden = len(lines) - 2 * LINES_SHOWN
            lines = [*lines[:LINES_SHOWN], f"… {hidden} lines …", *lines[-LINES_SHOWN:]]
        for line in lines:
            self.console.print(Padding(Text(f"│ {line}", style="green"), INDENT))


def tell(out: Path, *, seed: int | None = None, sqlite: bool = True) -> int:
    """Tells the whole story; returns 0 if the protected machine came back every time, else 1."""
    narrator = Narrator(Console())
    narrator.chapter("Perdure: a computer whose memory survives losing power")
    narrator.say(
        "The machine below is simulated to the byte: a RISC-V processor, caches, and non-volatile "
        "memory (NVM) where others have DRAM. NVM keeps its bytes without power; caches do not. "
        "A power cut therefore leaves memory half new and half old, unless a design prevents it. "
        f"We try two: {UNPROTECTED}, which does nothing, and {PROTECTED}, which keeps old bytes "
        "in a log in NVM and undoes with them what was half done. The programs know nothing of "
        "either. Time is cut into epochs, here of 5 million instructions; what comes back is "
        "always the machine as it was at the end of one."
    )
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    moments = random.Random(seed)
    kept = _act(narrator, _key_value_scene(narrator, out), out / "kv", moments, seed)
    scene = _sqlite_scene(narrator, out) if sqlite and kept is not None else None
    if scene is not None:
        again = _act(narrator, scene, out / "sqlite", moments, seed)
        kept = None if again is None else kept and again
    if kept is None:
        return 130
    narrator.chapter("What to try next")
    for line, why in (
        (f"perdure cut --cuts 1000 -- {out / 'programs/kv'}", "a thousand cuts, every one judged"),
        ("perdure mutants", "are the judges any good?"),
        ("perdure --help", "everything else"),
    ):
        narrator.say(line, style="bold")
        narrator.say(f"  {why}")
    return 0 if kept else 1


def _key_value_scene(narrator: Narrator, out: Path) -> Scene:
    """Compiles the key-value store."""
    narrator.chapter("Part one: a key-value store that was never written to survive")
    source = guest_programs.source("kv/kv.c")
    narrator.step(
        f"Compile {source.name} for RISC-V Linux",
        "An ordinary C program: its data is in plain memory, with no file, no fsync, no recovery.",
    )
    compiler = toolchain.find(narrator.say)
    binary = compiler.build(source, out / "programs/kv")
    narrator.say(f"{compiler.name} made {binary} ({tables.size(binary.stat().st_size)})")
    return Scene(
        name="kv",
        title="a key-value store in plain memory",
        what=f"{KV_OPERATIONS:,} puts, gets, deletes and transfers; it prints digests on its way.",
        program=[str(binary), str(KV_OPERATIONS)],
        machine=api.Machine(machine=MACHINE, set=EPOCH),
    )


def _sqlite_scene(narrator: Narrator, out: Path) -> Scene | None:
    """Fetches Debian's sqlite3; None, with the reason told, where that cannot be done."""
    narrator.chapter("Part two: the same with sqlite3, exactly as Debian ships it")
    narrator.step(
        "Fetch the riscv64 sqlite3 from the Debian mirror",
        "No recompiling: the machine runs the distribution's own binary and libraries.",
    )
    directory = out / "sysroot"
    try:
        sysroot.make(directory, ["sqlite3"], report=narrator.say)
    except PerdureError as error:
        narrator.say(f"skipped: {error}", style="yellow")
        return None
    script = out / "transfers.sql"
    store(out, script.name, _sqlite_script())
    return Scene(
        name="sqlite3",
        title="Debian's sqlite3, a database file with a write-ahead log",
        what=f"{SQLITE_TRANSFERS:,} transfers between accounts, each its own transaction.",
        program=[str(directory / "usr/bin/sqlite3"), "/tmp/bank.db"],
        machine=api.Machine(machine=MACHINE, set=EPOCH, sysroot=directory, stdin=script),
    )


def _sqlite_script() -> str:
    """What sqlite3 is told to do: transfers, with the books checked now and then."""
    parts = [SQLITE_TABLES]
    for i in range(1, SQLITE_TRANSFERS + 1):
        source, target, amount = 1 + i * 7 % 1000, 1 + i * 13 % 1000, 1 + i % 50
        parts.append(f"INSERT INTO ledger VALUES ({i}, {source}, {target}, {amount});\n")
        if i % (SQLITE_TRANSFERS // 5) == 0:
            parts.append(SQLITE_CHECK)
    return "".join([*parts, "PRAGMA integrity_check;\n"])


def _act(
    narrator: Narrator, scene: Scene, out: Path, moments: random.Random, seed: int
) -> bool | None:
    """One program's part of the story; True if its memory came back, None if interrupted."""
    designs = (UNPROTECTED, PROTECTED)
    machines = {design: replace(scene.machine, design=design) for design in designs}
    outputs: dict[str, list[str]] = {}
    results: dict[str, api.RunResult] = {}
    for design in designs:
        narrator.step(
            f"Run it under {design}, with the power on",
            scene.what
            if design == UNPROTECTED
            else "The same program and the same caches; now every overwritten byte is logged.",
        )
        with capture.standard_output() as captured, _bar(f"{scene.name} under {design}") as show:
            results[design] = machines[design].run(scene.program, passthrough=True, progress=show)
        result = results[design]
        if result.interrupted:
            return None
        outputs[design] = captured.lines
        if design == UNPROTECTED:
            narrator.quote(captured.lines)
        elif outputs[design] == outputs[UNPROTECTED]:
            narrator.say("The same output, to the last byte.")
        else:
            narrator.say("The output differs, which must never happen:", style="bold red")
            narrator.quote(captured.lines)
        narrator.say(
            f"exit status {result.exit_code}; {result.sim.instructions:,} instructions in "
            f"{result.sim.cycles:,} cycles ({result.host.seconds:.1f} s here, "
            f"{result.host.mips:.0f} million instructions a second)"
        )
    fraction = moments.uniform(EARLIEST, LATEST)
    verdicts = {}
    for design in designs:
        cycle = int(results[design].sim.cycles * fraction)
        narrator.step(
            f"Cut the power under {design} at cycle {cycle:,}",
            f"A random moment, {fraction:.0%} into the run (seed {seed}). Registers and caches are "
            "gone; recovery gets the surviving NVM bytes and nothing else.",
        )
        with _bar(f"{scene.name}: cut, recover, resume") as show:
            report = machines[design].cut(scene.program, at=cycle, resume="all", progress=show)
        if report.interrupted:
            return None
        verdicts[design] = report
        _tell_cut(narrator, report, outputs[design])
    narrator.step(
        "What the protection costs",
        "Time in simulated cycles, and wear: bytes written to NVM, by what they were for.",
    )
    ordered = [results[design] for design in designs]
    narrator.console.print(Padding(render.cost(ordered), INDENT))
    if why := render.why_faster(*ordered):
        narrator.say(why)
    png, html = figures.save(
        figures.cost(ordered, f"What surviving a power cut costs {scene.title}"), out / "cost"
    )
    narrator.say(f"figure: {png} and {html}")
    document = {
        "seed": seed,
        "program": [str(word) for word in scene.program],
        "runs": {design: result.raw for design, result in results.items()},
        "cuts": {design: report.raw for design, report in verdicts.items()},
    }
    store(out, "result.json", json.dumps(document, indent=2))
    return verdicts[PROTECTED].failed == 0 and outputs[PROTECTED] == outputs[UNPROTECTED]


def _tell_cut(narrator: Narrator, report: api.CutReport, output: Sequence[str]) -> None:
    """What came back after one cut."""
    for result in report.results:
        if result.recovered_epoch is None:
            narrator.say("Nothing could be recovered.")
        else:
            narrator.say(
                f"Recovery brought memory and registers back to the end of epoch "
                f"{result.recovered_epoch}."
            )
        if result.verified:
            narrator.say("Compared byte by byte with what the machine held then: equal.")
            if result.resumed:
                resumed = result.raw.get("resumed_output")
                narrator.say(
                    "The program went on from there, not from its start, and ended with:"
                    if resumed
                    else "The program went on from there, not from its start, to its end."
                )
                if resumed:
                    narrator.quote(str(resumed).splitlines()[-LINES_SHOWN:])
                narrator.say(
                    f"All {len(output):,} lines of its output and its exit status are identical "
                    "to the uninterrupted run's.",
                    style="bold green",
                )
        else:
            told = (
                "Nothing was promised, and memory is lost" if result.lost else "The memory is wrong"
            )
            narrator.say(f"{told}: {result.verdict}", style="bold red")
            for line in reports.difference(result.raw):
                narrator.say(line)
        tokens.remember([result.token])
        for line in tokens.again(result.token)[:1]:
            narrator.say(line, style="dim")


def _bar(title: str) -> progress.Shown:
    return progress.bar(terminal.errors(), title)

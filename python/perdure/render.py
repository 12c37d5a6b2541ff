"""Results as tables for people.

Always true here: every function takes a result and returns something that rich can print; every
number stands with its unit; nothing is computed that the result does not say.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from perdure import explanation, outputs
from perdure._core import PerdureError
from perdure.api import (
    Catalogue,
    Json,
    MutantsReport,
    RunResult,
)
from perdure.reports import cut_costs
from perdure.sweeps import Sweep
from perdure.tables import line, number, table
from perdure.workloads import Workload

if TYPE_CHECKING:
    from perdure.experiments.reproduction import Reproduction
    from perdure.experiments.sensitivity import Found as Sensitivity

FILES_NAMED = 3


def write_json(document: object, file: str | None) -> bool:
    """Writes a document where --json says; whether that was standard output, which is `-`."""
    if file is None:
        return False
    text = json.dumps(document, indent=2) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return True
    try:
        outputs.write_text(file, text)
    except OSError as error:
        raise PerdureError(
            f"--json cannot write {outputs.shown(file)}: {error.strerror}"
        ) from error
    return False


def ending(result: RunResult) -> Iterator[str]:
    """What there is to say after a run, line by line: fatal signal, remarks, what was refused."""
    fatal = result.fatal_signal
    if fatal is not None:
        yield f"{fatal.signal}: {fatal.cause}"
        place = f" ({fatal.symbol})" if fatal.symbol else ""
        # A signal that was sent, or memory that ran out, is no instruction's fault.
        fetched = "" if fatal.address != fatal.pc else ": no instruction there"
        blamed = f": {fatal.instruction}" if fatal.instruction else fetched
        yield f"  pc {fatal.pc}{place}{blamed}"
        if fatal.address is not None:
            yield f"  address {fatal.address}"
    yield from result.remarks
    if result.unknown_system_calls:
        calls = ", ".join(
            f"{call.name} ({call.number})" if call.name else str(call.number)
            for call in result.unknown_system_calls
        )
        yield f"system calls that this kernel does not have, answered with ENOSYS: {calls}"
    for kind in dict.fromkeys(one.kind for one in result.refused):
        chosen = [one for one in result.refused if one.kind == kind and not one.expected]
        names = ", ".join(one.name for one in chosen)
        if kind == "system call" and chosen:
            why = "refused on purpose with ENOSYS, from which programs fall back"
            yield f"system calls {why}: {names}"
        elif chosen:
            yield f"{kind}: commands that this kernel does not have, refused: {names}"
    yield from (*_files(result), *result.lost_pools)
    if result.refused_output is not None:
        yield f"the host refused a file of the guest's: {result.refused_output}"
    replication = result.raw.get("replication")
    if replication is not None:
        held = replication["epoch"]
        holds = "nothing" if held is None else f"epochs up to {held}"
        newest = replication["recoverable_epoch"]
        yield f"replica {replication['to']}: holds {holds}, of {newest} that are recoverable"
        if replication["trouble"] is not None:
            yield f"  {replication['trouble']}"


def _files(result: RunResult) -> Iterator[str]:
    """Which files the guest wrote that are gone now, and how to keep them."""
    lost = [file.path for file in result.files if not file.kept]
    if not lost:
        return
    named = [path.removeprefix("/work/") for path in lost[:FILES_NAMED]]
    more = ", …" if len(lost) > FILES_NAMED else ""
    what = "1 file" if len(lost) == 1 else f"{len(lost)} files"
    verb = "is" if len(lost) == 1 else "are"
    them = "it" if len(lost) == 1 else "them"
    names = ", ".join(name if name.isprintable() else ascii(name) for name in named)
    yield (f"{what} written by the guest {verb} not kept: {names}{more}; --files DIR keeps {them}")


def run(result: RunResult) -> Table:
    """What one run did and cost."""
    made = table(f"{result.design} on {result.machine}", "what", "value", "unit")
    written = result.nvm.written_bytes
    for name, value, unit in (
        ("exit status", str(result.exit_code), ""),
        ("instructions", number(result.sim.instructions), ""),
        ("simulated time", number(result.sim.cycles), "cycles"),
        ("NVM written", number(written.total), "bytes"),
        ("  data", number(written.data), "bytes"),
        ("  log", number(written.log), "bytes"),
        ("  metadata", number(written.metadata), "bytes"),
        ("  context", number(written.context), "bytes"),
        ("NVM read", number(result.nvm.read_bytes), "bytes"),
        ("host time", f"{result.host.seconds:.3f}", "s"),
        ("host speed", f"{result.host.mips:.1f}", "MIPS"),
        ("configuration", result.config_hash, ""),
        ("final state", result.state_hash, ""),
    ):
        made.add_row(name, value, unit)
    return made


def sweep(done: Sweep) -> RenderableType:
    """A sweep: each point's time, relative to the first design with the same values.

    Where power cuts were probed, their cost is the median's.
    """
    medians = ("cut_cost.lost_cycles.median", "cut_cost.recovery_cycles.median")
    probed = [name for name in medians if name in done.data.columns]
    made = table(
        f"{len(done.data)} points, time relative to {done.designs[0]}",
        *done.keys,
        "design",
        "cycles",
        "time",
        "NVM written (bytes)",
        "epochs",
        *(("work lost (cycles)", "recovery (cycles)") if probed else ()),
        left=len(done.keys) + 1,
    )
    for row in done.rows():
        relative = row["relative"]
        made.add_row(
            *(escape(row[key]) for key in done.keys),
            row["design"],
            number(row["cycles"]),
            "–" if relative is None else f"{relative:.3f} ×",
            *(
                "–" if row.get(name) is None else number(row[name])
                for name in ("nvm.written_bytes.total", "epoch.committed", *probed)
            ),
        )
    parts: list[RenderableType] = [made]
    for failure in done.failures.iter_rows(named=True):
        what = " ".join([failure["name"], failure["design"], *failure["overrides"]])
        parts.append(line(f"failed: {what}: {failure['error']}", style="bold red"))
    if done.interrupted:
        parts.append(line("interrupted; run it again to go on", style="bold yellow"))
    return Group(*parts)


VERDICT_STYLES = {"holds": "green", "differs": "red", "not comparable": "yellow"}


def reproduction(done: Reproduction) -> RenderableType:
    """A reproduction: every claim with its verdict, then what failed."""
    results = done.results
    models = results["models"] or [{"name": None, "label": None}]
    made = table(f"claims of {results['paper']['name']}, {results['scale']}", "claim", left=5)
    made.add_column("paper", overflow="fold")
    for model in models:
        for column in ("measured", "verdict"):
            place = f", in {model['label']}" if model["label"] else ""
            made.add_column(f"{column}{place}", overflow="fold")
    claims = list(done.claims.iter_rows(named=True))
    for name, claim in {claim["id"]: claim for claim in claims}.items():
        judged = {one["model"]: one for one in claims if one["id"] == name}
        cells = [
            cell
            for model in models
            for one in (judged[model["name"]],)
            for cell in (
                escape(one["measured_text"]),
                Text(one["verdict"], style=VERDICT_STYLES[one["verdict"]]),
            )
        ]
        made.add_row(
            escape(f"{claim['experiment']}: {claim['says']}"), escape(claim["paper"]), *cells
        )
    parts: list[RenderableType] = [made]
    cuts = results["tables"]["cuts"]
    if cuts:
        counted = table("power cuts", "design", "programs", "cuts", "verified")
        for design in dict.fromkeys(row["design"] for row in cuts):
            mine = [row for row in cuts if row["design"] == design]
            total, verified = (sum(row[key] for row in mine) for key in ("cuts", "verified"))
            broken = " (has to fail)" if mine[0]["expected"] == "broken" else ""
            counted.add_row(design + broken, number(len(mine)), number(total), number(verified))
        parts.append(counted)
    for failure in results["failures"]:
        what = f"{failure['name']} {failure['design']} ({', '.join(failure['experiments'])})"
        parts.append(line(f"failed: {what}: {failure['reason']}", style="bold red"))
    if done.interrupted:
        parts.append(line("interrupted; run it again to go on", style="bold yellow"))
    return Group(*parts)


def sensitivity(done: Sensitivity) -> RenderableType:
    """A preset's sensitivity: each design's time and rank at every setting, then what failed."""
    found = done.table
    labels = {one["name"]: one["label"] for one in found["designs"]}
    made = table(
        f"{found['preset']}: times relative to {found['baseline']}, ranks",
        "setting",
        *labels.values(),
    )
    for setting in found["settings"]:
        name = f"{setting['key']}={setting['value']}" if setting["value"] else setting["key"]
        cells = [
            "–" if one["mean"] is None else f"{one['mean']:.3f} ({one['rank']})"
            for one in (setting["designs"][design] for design in labels)
        ]
        made.add_row(escape(name), *cells)
    parts: list[RenderableType] = [made]
    for failed in done.failures:
        what = " ".join([failed.point.name, failed.point.design, *failed.point.overrides])
        parts.append(line(f"failed: {what}: {failed.error}", style="bold red"))
    if done.interrupted:
        parts.append(line("interrupted; run it again to go on", style="bold yellow"))
    return Group(*parts)


def statistics(result: RunResult) -> RenderableType:
    """Every statistic of a run; where there are several memory modules, theirs behind it."""
    made = Table(title="statistics", title_justify="left", title_style="bold")
    made.add_column("name")
    made.add_column("value", justify="right")
    made.add_column("unit")
    made.add_column("meaning")
    for name, entry in result.statistics.items():
        made.add_row(escape(name), number(entry.value), escape(entry.unit), escape(entry.meaning))
    modules = result.raw.get("modules", ())
    return Group(made, _modules(modules)) if modules else made


def _modules(modules: Sequence[Json]) -> Table:
    """What each memory module has done, side by side."""
    made = table("memory modules", "statistic", *(escape(one["name"]) for one in modules))
    for key in ("kind", "persistence"):
        made.add_row(key, *(one[key] for one in modules))
    for name, entry in modules[0]["statistics"].items():
        values = (number(one["statistics"][name]["value"]) for one in modules)
        made.add_row(escape(f"{name} ({entry['unit']})"), *values)
    return made


def compare(results: Sequence[RunResult]) -> RenderableType:
    """Designs side by side: what they cost the simulated machine, and what that cost the host."""
    made = table("the simulation itself", "design", "host time (s)", "host speed (MIPS)")
    for result in results:
        made.add_row(escape(result.design), f"{result.host.seconds:.2f}", f"{result.host.mips:.1f}")
    probed = {result.design: result.cut_cost for result in results if result.cut_cost}
    return Group(cost(results), *([cut_costs(probed)] if probed else []), made)


def cost(results: Sequence[RunResult]) -> Table:
    """Time and NVM traffic of designs, a column each, relative to the first."""
    first = results[0]
    made = table(
        f"{first.sim.instructions:,} instructions on {first.machine}, relative to {first.design}",
        "what",
        "unit",
        left=2,
    )
    for result in results:
        made.add_column(escape(result.design), justify="right")
        if result is not first:
            made.add_column(f"{escape(result.design)} / {escape(first.design)}", justify="right")
    for name, unit, value in COSTS:
        cells = []
        for result in results:
            cells.append(number(value(result)))
            if result is not first:
                cells.append(ratio(value(result), value(first)))
        made.add_row(name, unit, *cells)
    return made


COSTS: tuple[tuple[str, str, Callable[[RunResult], float]], ...] = (
    ("time", "cycles", lambda result: result.sim.cycles),
    ("NVM written", "bytes", lambda result: result.nvm.written_bytes.total),
    ("  data", "bytes", lambda result: result.nvm.written_bytes.data),
    ("  log", "bytes", lambda result: result.nvm.written_bytes.log),
    ("  metadata", "bytes", lambda result: result.nvm.written_bytes.metadata),
    ("  context", "bytes", lambda result: result.nvm.written_bytes.context),
    ("NVM read", "bytes", lambda result: result.nvm.read_bytes),
)
"""What a design can cost: its name, its unit, and where a result has it."""


def ratio(value: float, base: float) -> str:
    """How many times `base` a value is."""
    return f"{value / base:.3f} ×" if base else "–"


MUTANTS_SHOWN = 100


def mutants(report: MutantsReport) -> RenderableType:
    """Planted bugs, caught or not; where there are very many, those that were not."""
    made = Table(title=f"planted bugs of {report.design}", title_justify="left", title_style="bold")
    for column in ("bug", "what it does", "caught", "by", "after"):
        made.add_column(column, justify="right" if column == "after" else "left", overflow="fold")
    shown = report.mutants
    if len(shown) > MUTANTS_SHOWN:
        shown = [bug for bug in shown if not bug.caught]
    for bug in shown:
        made.add_row(
            escape(bug.name),
            escape(bug.summary),
            Text("yes", style="green") if bug.caught else Text("NO", style="bold red"),
            escape(bug.by or "–"),
            f"{bug.cuts:,} cuts",
        )
    again = [
        line(f"{bug.name}, again: perdure replay {bug.token}")
        for bug in shown
        if bug.token and bug.token.startswith("p2-")  # what ends a run at once has a message
    ]
    return Group(made, *again, mutants_verdict(report))


def mutants_verdict(report: MutantsReport) -> Text:
    """The last line about planted bugs: whether verification can be trusted."""
    missed = [bug.name for bug in report.mutants if not bug.caught]
    caught = len(report.mutants) - len(missed)
    text = f"{report.design}: {caught} of {len(report.mutants)} planted bugs caught; the clean "
    text += f"design was accused at {report.false_alarms:,} of {report.clean_cuts:,} cuts"
    if excused := report.raw.get("unnoticeable"):
        text += f"; {len(excused)} entries of the list excuse what else is there"
    if missed:
        text += f"; missed: {', '.join(missed)}"
    if report.interrupted:
        text += "; interrupted"
    return line(text, style="bold green" if report.passed else "bold red")


def hunt(report: Json) -> RenderableType:
    """What a hunt reached, and what it found."""
    made = Table(title=f"hunt in {report['design']}", title_justify="left", title_style="bold")
    made.add_column("reached", overflow="fold")
    made.add_column("times", justify="right")
    for name, count in report["coverage"]["design_states"].items():
        made.add_row(f"state: {escape(name)}", number(count))
    for name, count in report["coverage"]["paths"].items():
        made.add_row(f"path: {escape(name)}", number(count))
    first, seeds = report["first_seed"], report["seeds"]
    text = f"{report['design']}: {report['cuts']:,} cuts of {seeds:,} machines (seeds {first} to "
    text += f"{first + seeds - 1}), {report['resumed']:,} resumed"
    if report["gave_up"]:
        text += f"; {report['gave_up']:,} runs ended early, for want of room"
    if report["interrupted"]:
        text += "; interrupted"
    found = report["found"]
    if found is None:
        return Group(made, line(f"{text}; nothing failed", style="bold green"))
    told = [
        line(f"{text}; seed {found['seed']} failed", style="bold red"),
        line(f"cycle {found['cycle']:,}: {found['verdict']}"),
        line(f"  {found['message'] or ''}"),
        *([explanation.terminal(found["explanation"])] if found.get("explanation") else []),
        line(f"  smallest: {shlex.join(found['command'])}"),
        line(f"  again: perdure replay {found['token']}"),
    ]
    return Group(made, *told)


def designs(catalogue: Catalogue) -> RenderableType:
    """The designs, with what they promise."""
    made = Table()
    for column in ("design", "what it is", "what it promises", "planted bugs"):
        made.add_column(column, justify="right" if column == "planted bugs" else "left")
    for design in catalogue.designs:
        made.add_row(
            escape(design.name),
            escape(design.summary),
            escape(str(design.raw.get("promise", ""))),
            number(len(design.raw.get("planted_bugs", ()))),
        )
    return made


def machines(catalogue: Catalogue) -> RenderableType:
    """The machine presets."""
    made = Table()
    for column in ("machine", "what it is", "file"):
        made.add_column(column, overflow="fold")
    for machine in catalogue.machines:
        made.add_row(
            escape(machine.name), escape(machine.summary), escape(str(machine.raw.get("path", "")))
        )
    return made


def workloads(found: Sequence[Workload]) -> RenderableType:
    """The workloads."""
    made = Table()
    for column in ("workload", "what it is", "source"):
        made.add_column(column, overflow="fold")
    for workload in found:
        made.add_row(escape(workload.name), escape(workload.summary), escape(str(workload.source)))
    return made

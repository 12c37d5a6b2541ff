"""Results as tables for people.

Always true here: every function takes a result and returns something that rich can print; every
number stands with its unit; nothing is computed that the result does not say.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from perdure import outputs
from perdure._core import PerdureError
from perdure.api import (
    Catalogue,
    CutCost,
    CutReport,
    CutResult,
    Json,
    MutantsReport,
    RunResult,
    Spread,
)
from perdure.sweeps import Sweep
from perdure.tables import number, table
from perdure.workloads import Workload

if TYPE_CHECKING:
    from perdure.experiments.reproduction import Reproduction
    from perdure.experiments.sensitivity import Found as Sensitivity

FAILURES_SHOWN = 10
FILES_NAMED = 3


def line(text: str = "", style: str = "") -> Text:
    """Text that is never broken at the width of the terminal, so that it can be copied whole.

    A token with a line break in it repeats nothing.
    """
    return Text(text, style=style, no_wrap=True, overflow="ignore")


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
    """What there is to say after a run, line by line: the fatal signal, and what was refused."""
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
            counted.add_row(design, number(len(mine)), number(total), number(verified))
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


def cut(report: CutReport) -> RenderableType:
    """A report of power cuts: by place, coverage, and what failed."""
    parts: list[RenderableType] = [_cuts_by_place(report)]
    if report.cost is not None:
        parts.append(cut_costs({report.design: report.cost}))
    coverage = list(_flattened(report.coverage))
    if coverage:
        made = table("coverage: what the cuts hit", "design state or path", "count")
        for name, value in coverage:
            made.add_row(escape(name), value)
        parts.append(made)
    for shown, what in ((report.failures, "failures"), (report.losses, "losses")):
        parts += map(_failure, shown[:FAILURES_SHOWN])
        if len(shown) > FAILURES_SHOWN:
            parts.append(line(f"… and {len(shown) - FAILURES_SHOWN} more {what}"))
    parts.append(cut_verdict(report))
    return Group(*parts)


def cut_verdict(report: CutReport) -> Text:
    """The last line of a report: whether the promise held."""
    if report.interrupted:
        return line(f"interrupted after {report.cuts} cuts", style="bold yellow")
    if report.lost:
        return line(
            f"{report.design} promises nothing: {report.lost:,} of {report.cuts:,} cuts lost "
            "something",
            style="bold yellow",
        )
    resumed = sum(result.resumed for result in report.results)
    if report.failed == 0:
        timing = sum(result.depends_on_timing for result in report.results)
        checked = report.raw.get("checked", False)
        ended = "to the checker's satisfaction" if checked else "with identical output"
        if timing:
            ended = f"{resumed - timing:,} of them {ended} and {timing:,} with one that depends on "
            ended += "timing and not on the power cut"
        return line(
            f"{report.design}: {report.verified:,} of {report.cuts:,} cuts verified; {resumed:,} "
            f"resumed to the program's end, {ended}",
            style="bold green",
        )
    return line(
        f"{report.design}: {report.failed:,} of {report.cuts:,} cuts broke the promise",
        style="bold red",
    )


CUT_COSTS: tuple[tuple[str, str, Callable[[CutCost], Spread]], ...] = (
    ("work lost", "instructions", lambda cost: cost.lost_instructions),
    ("work lost", "cycles", lambda cost: cost.lost_cycles),
    ("recovery", "cycles", lambda cost: cost.recovery_cycles),
    ("  read", "bytes", lambda cost: cost.recovery_read_bytes),
    ("  written", "bytes", lambda cost: cost.recovery_written_bytes),
)
"""What a power cut can cost: its name, its unit, and where a summary has it."""


def cut_costs(costs: Mapping[str, CutCost]) -> Table:
    """What power cuts cost under each design."""
    cuts = "; ".join(f"{cost.cuts:,} under {design}" for design, cost in costs.items())
    made = table(
        f"what a power cut costs ({cuts})",
        *("design", "what", "unit", "median", "99 %", "worst"),
        left=3,
    )
    for design, cost in costs.items():
        for index, (name, unit, spread) in enumerate(CUT_COSTS):
            found = spread(cost)
            cells = (found.median, found.percentile_99, found.worst)
            made.add_row("" if index else escape(design), name, unit, *map(number, cells))
        made.add_section()
    return made


def _cuts_by_place(report: CutReport) -> Table:
    """Cuts counted by where the power went away, and by what came of them."""
    counted: dict[str, Callable[[CutResult], bool]] = {
        "verified": lambda result: result.verified,
        "lost": lambda result: result.lost,
        "failed": lambda result: not (result.verified or result.lost),
        "resumed": lambda result: result.resumed,
    }
    if not report.lost:
        del counted["lost"]
    title = f"power cuts: {report.design} on {report.machine}"
    made = table(title, "where the cut struck", "cuts", *counted)
    places: dict[str, list[CutResult]] = {}
    for result in report.results:
        places.setdefault(place_of(result), []).append(result)

    def add(name: str, results: Sequence[CutResult]) -> None:
        sums = (sum(map(counts, results)) for counts in counted.values())
        made.add_row(escape(name), *map(number, (len(results), *sums)))

    for place, results in sorted(places.items(), key=lambda item: (-len(item[1]), item[0])):
        add(place, results)
    if len(places) > 1:
        made.add_section()
    if len(places) != 1:
        add("all", report.results)
    return made


def place_of(result: CutResult) -> str:
    """Where a cut struck, in words: the design's state and the code that was running."""
    known = (result.raw.get("design_state"), result.raw.get("location"))
    return ", in ".join(str(part) for part in known if part) or "anywhere"


def _failure(result: CutResult) -> Text:
    """One broken promise: what was wrong first, and how to see it again."""
    text = line()
    text.append(f"cycle {result.cycle:,}: {result.verdict}", style="bold red")
    epoch = "nothing" if result.recovered_epoch is None else f"epoch {result.recovered_epoch}"
    text.append(f" (recovered {epoch})\n")
    for said in difference(result.raw):
        text.append(f"  {said}\n")
    text.append(f"  again: perdure replay {result.token}")
    return text


def difference(result: Mapping[str, Any]) -> Iterator[str]:
    """The first lost or mixed line of a failed cut, in words."""
    if result.get("message"):
        yield str(result["message"])
    first = result.get("first_difference")
    if isinstance(first, Mapping):
        symbol = f" ({first['symbol']})" if first.get("symbol") else ""
        kind = first.get("kind") or "first wrong line"
        yield f"{kind} at {_address(first.get('address'))}{symbol}"
        for name in ("expected", "found"):
            if first.get(name) is not None:
                yield f"  {name + ':':<10}{first[name]}"


def _address(value: object) -> str:
    return f"{value:#x}" if isinstance(value, int) else str(value)


def _flattened(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested counts as rows: `outer · inner` and the number."""
    if isinstance(value, Mapping):
        if isinstance(value.get("count"), int):
            yield name, number(value["count"])
            return
        for key, inner in value.items():
            yield from _flattened(inner, f"{name} · {key}" if name else str(key))
    elif isinstance(value, bool):
        yield name, "hit" if value else "not hit"
    elif isinstance(value, int | float):
        yield name, number(value)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value)


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

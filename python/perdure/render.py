"""Results as tables for people.

Always true here: every function takes a result and returns something that rich can print; every
number stands with its unit; nothing is computed that the result does not say.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from perdure import explanation, tokens
from perdure.api import (
    Json,
    MutantsReport,
    RunResult,
    Statistic,
)
from perdure.reports import cut_costs
from perdure.tables import FirstThatFits, Sheet, line, number, table

if TYPE_CHECKING:
    from perdure.experiments.reproduction import Reproduction
    from perdure.experiments.sensitivity import Found as Sensitivity
    from perdure.sweeps import Sweep


def run(result: RunResult) -> Sheet:
    """What one run did and cost."""
    made = table(f"{result.design} on {result.machine}", "what", "value", "unit")
    written = result.nvm.written_bytes
    for name, value, unit in (
        ("exit status", "–" if result.exit_code is None else str(result.exit_code), ""),
        ("harts", number(result.raw["sim"]["harts"]), ""),
        ("  that ran", number(result.raw["sim"]["harts_used"]), ""),
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
        f"{explanation.plural(len(done.data), 'point')}, time relative to {done.designs[0]}",
        *done.keys,
        "design",
        "cycles",
        "time",
        "NVM written (bytes)",
        "epochs",
        *(("work lost (cycles)", "recovery (cycles)") if probed else ()),
        left=len(done.keys) + 1,
        keys=len(done.keys) + 1,
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
    from perdure.experiments.claim import paper_says

    results = done.results
    models: list[tuple[str | None, str]]
    models = [(one["name"], f", in {one['label']}") for one in results["models"]]
    models = models or [(None, "")]
    places = [place for _, place in models]
    measured = [f"measured{place}" for place in places]
    columns = [name for place in places for name in (f"measured{place}", f"verdict{place}")]
    made = table(
        f"claims of {results['paper']['name']}, {results['scale']}",
        *("experiment", "claim", "paper", *columns),
        left=3 + len(columns),
        prose=("claim", "paper", *measured),
    )
    claims = list(done.claims.iter_rows(named=True))
    for name, claim in {claim["id"]: claim for claim in claims}.items():
        judged = {one["model"]: one for one in claims if one["id"] == name}
        cells = [
            cell
            for model, _ in models
            for one in (judged[model],)
            for cell in (
                escape(one["measured_text"]),
                Text(one["verdict"], style=VERDICT_STYLES[one["verdict"]]),
            )
        ]
        said = (claim["experiment"], claim["says"], paper_says(claim, results["scale"]))
        made.add_row(*map(escape, said), *cells)
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
    """The statistics of a run; where there are several memory modules, theirs behind it.

    What belongs to other designs, or to a part that the machine does not have, is all zero: the
    groups of names of which that holds are named, and not listed.
    """
    groups: dict[str, list[tuple[str, Statistic]]] = {}
    for name, entry in result.statistics.items():
        groups.setdefault(name.partition(".")[0], []).append((name, entry))
    silent = [
        group
        for group, entries in groups.items()
        if group != result.design and not any(entry.value for _, entry in entries)
    ]
    made = table("statistics", "name", "value", "unit", "meaning", keys=3, prose=("meaning",))
    for name, entry in (one for group in groups if group not in silent for one in groups[group]):
        made.add_row(escape(name), number(entry.value), escape(entry.unit), escape(entry.meaning))
    parts: list[RenderableType] = [made]
    if silent:
        parts.append(Text(f"all zero, and not shown (--json has them): {', '.join(silent)}", "dim"))
    modules = result.raw.get("modules", ())
    return Group(*parts, *([_modules(modules)] if modules else ()))


def _modules(modules: Sequence[Json]) -> Sheet:
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
    whys = (why_faster(results[0], other) for other in results[1:])
    return Group(
        cost(results),
        *(Text(why) for why in whys if why),
        *([cut_costs(probed)] if probed else []),
        made,
    )


def why_faster(baseline: RunResult, other: RunResult) -> str | None:
    """Why a design took less time than the baseline, if it did because it writes lines early."""
    evicted, waited = (
        [result.statistics[name].value for result in (baseline, other) if name in result.statistics]
        for name in ("nvm.operations.write_back", "nvm.read_wait")
    )
    if baseline.design != "ideal" or other.sim.cycles >= baseline.sim.cycles:
        return None
    if len(evicted) < 2 or len(waited) < 2 or evicted[1] >= evicted[0] or waited[1] >= waited[0]:
        return None
    return (
        f"{other.design} was faster than ideal, although ideal protects nothing, because it writes "
        f"early: ideal wrote {number(evicted[0])} lines only when a miss needed their place; "
        f"{other.design} had written many before, while the memory had nothing else to do, so that "
        f"{number(evicted[1])} were left to evict, and reads waited {number(waited[1])} cycles at "
        f"the NVM in place of {number(waited[0])}. --set ideal.eager_write_back=true lets the "
        "baseline write early, too."
    )


def cost(results: Sequence[RunResult]) -> FirstThatFits:
    """Time and NVM traffic of designs, relative to the first.

    A row for each design, or, where that is too wide, one for each quantity.
    """
    first = results[0]
    title = f"{first.sim.instructions:,} instructions on {first.machine}, "
    title += f"relative to {first.design}"
    by_design = table(title, "design")
    by_quantity = table(title, "what", "unit", left=2, keys=2)
    for result in results:
        by_design.add_row(escape(result.design))
        by_quantity.add_column(result.design)
        if result is not first:
            by_quantity.add_column(f"{result.design} / {first.design}")
    for name, unit, value in COSTS:
        values = [value(result) for result in results]
        found, relative = map(number, values), [ratio(one, values[0]) for one in values]
        pairs = list(zip(found, relative, strict=True))
        by_quantity.add_row(name, unit, pairs[0][0], *(cell for pair in pairs[1:] for cell in pair))
        by_design.put_column(f"{name.strip()} ({unit})", (cell for cell, _ in pairs))
        if values[0]:
            by_design.put_column(f"{name.strip()} / {first.design}", relative)
    return FirstThatFits([by_design, by_quantity])


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
    made = table(
        f"planted bugs of {report.design}",
        *("bug", "what it does", "caught", "by", "after"),
        left=4,
        prose=("what it does",),
    )
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
        line(f"{bug.name}, {said}")
        for bug in shown
        if tokens.is_token(bug.token)
        for said in tokens.again(bug.token)
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


def _machines(seeds: Sequence[int]) -> str:
    """How many machines were drawn, and by which seeds: an interrupted hunt may lack some."""
    if not seeds:
        return "no machine"
    if len(seeds) == 1:
        return f"1 machine (seed {seeds[0]})"
    of = "" if seeds[-1] - seeds[0] < len(seeds) else "of "
    return f"{len(seeds):,} machines ({of}seeds {seeds[0]} to {seeds[-1]})"


def hunt(report: Json) -> RenderableType:
    """What a hunt reached, and what it found."""
    made = table(f"hunt in {report['design']}", "reached", "times", prose=("reached",))
    for name, count in report["coverage"]["design_states"].items():
        made.add_row(f"state: {escape(name)}", number(count))
    for name, count in report["coverage"]["paths"].items():
        made.add_row(f"path: {escape(name)}", number(count))
    seeds = [one["seed"] for one in report["by_seed"]]
    text = f"{report['design']}: {report['cuts']:,} cuts of {_machines(seeds)}, "
    text += f"{report['resumed']:,} resumed"
    if report["gave_up"]:
        text += f"; {report['gave_up']:,} runs ended early, for want of room or of an end"
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
        *(line(f"  {said}") for said in tokens.again(found["token"])),
    ]
    return Group(made, *told)

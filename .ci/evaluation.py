"""Writes the page of an evaluation in docs/evaluations/ from what `perdure reproduce` left.

    evaluation.py out/picl-quick

Always true: every number on the page is from that folder's results.json, and nothing of the host
is on it, so equal results make an equal page.
"""

import json
import shutil
import sys
from pathlib import Path

from evaluated_cuts import cuts
from tables import number, table

from perdure.experiments import declaration
from perdure.experiments.claim import paper_says

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs/evaluations"


def scaled(results: dict) -> list[str]:
    """What the scale changes of the paper's."""
    body = [[one["what"], one["full"], one["quick"], one["reason"]] for one in results["scaled"]]
    return table(["what", "the paper", "here", "why"], body) if body else []


def models(results: dict) -> list[str]:
    """What each model assumes, what its banks can take, and what is sent to them."""
    if not results["models"]:
        return []
    lines = ["## The models", ""]
    bounds = results["tables"]["bounds"]
    for model in results["models"]:
        text = f"**In {model['label']}** (machine `{model['machine']}`):"
        lines += [text, "", *(f"- {one}" for one in model["assumptions"])]
        mine = [one for one in bounds if one["model"] == model["name"]]
        lines += [f"- {capacity(mine[0])}"] if mine else []
        lines += [""]
    return lines + loads(results)


def capacity(bound: dict) -> str:
    """What the NVM's banks can take, in words."""
    rate = bound["banks"] * bound["row_bytes"] / bound["row_write_ns"]
    return (
        f"Its physical bound: {bound['banks']} banks, each {bound['row_write_ns']:.0f} ns for "
        f"{bound['row_bytes']} bytes, take {rate:.1f} GB/s, "
        f"{bound['banks_lines_a_cycle']:.3f} lines in a cycle."
    )


def loads(results: dict) -> list[str]:
    """What is sent, relative to what the banks can take while the program runs at full speed."""
    bounds = results["tables"]["bounds"]
    if not bounds:
        return []
    found = {(one["workload"], one["model"]): one for one in bounds}
    labels = {one["name"]: one["label"] for one in results["models"]}
    label = next(one["label"] for one in results["designs"] if one["name"] == bounds[0]["design"])
    body = [
        [
            workload,
            *(
                cell
                for model in labels
                for one in (found.get((workload, model)),)
                for cell in (
                    (f"{one['writes']:,}", f"{one['lines_a_cycle']:.4f}", f"**{one['load']:.2f}**")
                    if one
                    else ("–", "–", "–")
                )
            ),
        ]
        for workload in dict.fromkeys(one["workload"] for one in bounds)
    ]
    header = ["workload"]
    for name in labels.values():
        header += [f"writes in {name}", "in a cycle", "of what the banks take"]
    text = (
        f"What {label} sends to the NVM (row writes), for each cycle that the work takes without "
        "snapshots, and relative to what the banks take, were it spread evenly over them. Above 1 "
        "nothing can hide it in a machine whose banks have to be waited for."
    )
    return [text, "", *table(header, body)]


def experiment(one: dict, figures: Path, results: dict) -> list[str]:
    """A figure with its claims and the reasons where they differ."""
    lines = [f"## {one['figure']}: {one['title']}", "", one["summary"], ""]
    if one["figure_files"]:
        lines += [f"![{one['title']}]({figures.name}/{one['name']}.svg)", ""]
    labels = {model["name"]: model["label"] for model in results["models"]} or {None: None}
    claims = one["claims"]
    by_claim: dict[str, dict] = {}
    for claim in claims:
        by_claim.setdefault(claim["id"], {})[claim["model"]] = claim
    body = []
    for judged in by_claim.values():
        claim = next(iter(judged.values()))
        cells = [
            cell
            for model in labels
            for cell in (judged[model]["measured_text"], f"**{judged[model]['verdict']}**")
        ]
        body.append(
            [f"{claim['says']} (§{claim['section']})", paper_says(claim, results["scale"]), *cells]
        )
    if claims:
        heads = [(f"in {label}" if label else "measured", "verdict") for label in labels.values()]
        columns = [column for pair in heads for column in pair]
        lines += table(["the paper says", "its value", *columns], body)
    else:
        lines += values(one)
    for claim in claims:
        if claim["reason"]:
            where = f", in {labels[claim['model']]}" if claim["model"] else ""
            lines += [f"*{claim['says']}*{where}: {claim['reason']}{shown_by(claim, results)}", ""]
        if claim["mechanism"]:
            where = f" in {labels[claim['model']]}" if claim["model"] else ""
            lines += [
                f"*{claim['says']}* (holds{where}, but for another reason): {claim['mechanism']}"
                f"{shown_by(claim, results)}",
                "",
            ]
    if claims and told(one):
        lines += values(one)
    return lines + [f"- {note}" for note in one["notes"]] + ([""] if one["notes"] else [])


def told(one: dict) -> bool:
    """Whether places of the axis are what programs are told, and no parts of a run."""
    axis = one["axis"]
    return axis is not None and not axis["key"] and axis["label"] != "of the run"


def shown_by(claim: dict, results: dict) -> str:
    """The probes that show a reason, with their numbers."""
    known = {one["name"]: one for one in results["tables"]["probes"]}
    said = [
        f"{name} ({number(known[name]['before'], 1, 3)} → {number(known[name]['after'], 1, 3)})"
        for name in claim["shown_by"]
        if name in known
    ]
    return f" Shown by: {', '.join(said)}." if said else ""


def probes(results: dict) -> list[str]:
    """The experiments that show the reasons: one thing changed."""
    labels = {model["name"]: model["label"] for model in results["models"]}
    body = [
        [
            one["name"],
            one["says"],
            labels.get(one["model"], ""),
            f"{one['figure']}: {one['subject']}, {one['design']}",
            " ".join(f"`{change}`" for change in one["changed"]),
            f"{number(one['before'], 1, 3)} {one['unit']}",
            f"{number(one['after'], 1, 3)} {one['unit']}",
        ]
        for one in results["tables"]["probes"]
    ]
    if not body:
        return []
    header = ["probe", "what it shows", "model", "of", "changed", "before", "after"]
    return ["## What shows the reasons", "", *table(header, body)]


def values(one: dict) -> list[str]:
    """What was measured under each design: of each subject, at each place of the axis."""
    designs = list(dict.fromkeys(value["design"] for value in one["values"]))
    several = one["axis"] is not None and len({value["subject"] for value in one["values"]}) > 1
    if told(one) or several:
        return all_values(one, designs)
    place = "subject" if one["axis"] is None else "axis"
    found = {(value[place], value["design"]): value["value"] for value in one["values"]}
    body = []
    for row in dict.fromkeys(value[place] for value in one["values"]):
        name = row if isinstance(row, str) else f"{row:,.0f}"
        body.append([name, *(number(found.get((row, design)), 1, 2) for design in designs)])
    if one["axis"] is not None:
        return table([one["axis"]["label"], *designs], body)
    average = {value["design"]: value["value"] for value in one["averages"]}
    mean = [one["average"], *(number(average.get(design), 1, 2) for design in designs)]
    return table([one["subject"], *designs], [*body, mean])


def all_values(one: dict, designs: list[str]) -> list[str]:
    """Every subject at every place of the axis."""
    found = {(value["subject"], value["axis"], value["design"]): value for value in one["values"]}
    rows = dict.fromkeys((subject, place) for subject, place, _ in found)
    digits = 0 if max(value["value"] for value in one["values"]) >= 1000 else 2
    body = []
    for subject, place in rows:
        known = [found.get((subject, place, design)) for design in designs]
        cells = [f"{value['value']:,.{digits}f}" if value else "–" for value in known]
        body.append([subject, f"{place:,.10g}", *cells])
    unit = f"{one['axis']['label']} ({one['axis']['unit']})"
    return [f"{one['metric']['label']}:", "", *table([one["subject"], unit, *designs], body)]


def command(results: dict) -> str:
    """What was run: the experiments are named where they are not all there are."""
    paper = results["paper"]["name"]
    probes = ["probes"] if declaration.probes(paper, results["scale"]) else []
    every = {*declaration.experiments(paper, results["scale"]), *probes, "cuts"}
    run = ["probes"] if results["tables"]["probes"] else []
    run += [one["name"] for one in results["experiments"]]
    run += ["cuts"] if results["tables"]["cuts"] else []
    named = [] if set(run) == every else run
    only = [f"--subject {name}" for name in results["only"]]
    return " ".join(["perdure reproduce", paper, *named, *only, f"--{results['scale']}"])


def workloads(results: dict) -> list[str]:
    """The measured classes of the workloads, and the mixes."""
    classes = [one for one in results["tables"]["classes"] if one["class"]]
    if not classes:
        return []
    body = [
        [
            row["workload"],
            row["stands_for"],
            number(row["write_set_bytes_per_epoch"], 1e6, 2),
            number(row["lines_per_written_page"], 1, 1),
            number(row["llc_misses_per_kilo_instruction"], 1, 2),
            number(row["llc_write_backs_per_kilo_instruction"], 1, 2),
            row["class"],
        ]
        for row in classes
    ]
    header = ["workload", "stands for", "write set of an epoch (MB)", "lines per written page"]
    header += ["misses per 1,000 instructions", "write-backs per 1,000 instructions", "class"]
    mixes = [[mix["name"], ", ".join(mix["programs"])] for mix in results["mixes"]]
    tags = results["designs"][-1]["label"]
    return [
        "## Workloads",
        "",
        f"Measured at the last-level cache under `ideal`; the write set by {tags}'s tags. A line "
        "that is evicted and written again counts again.",
        "",
        *table(header, body),
        *(table(["mix", "programs"], mixes) if mixes else []),
    ]


def page(results: dict, figures: Path) -> list[str]:
    """The page."""
    paper = results["paper"]
    lines = [
        f"# {paper['title']}",
        "",
        f"{paper['reference']}. What `{command(results)}` finds: {counted(results)}. The command's "
        "own report has every figure interactive, and every run's effective configuration.",
        "",
        *[f"- {note}" for note in results["notes"]],
        *preset(paper["name"]),
        "",
        *scaled(results),
        *models(results),
    ]
    for one in results["experiments"]:
        lines += experiment(one, figures, results)
    lines += probes(results)
    return lines + cuts(results, figures) + workloads(results)


def preset(name: str) -> list[str]:
    """Where the values of the machine are told."""
    if not (DOCS.parent / f"machines/{name}.md").exists():
        return [
            "- Where each value of a machine is from stands beside it, in its file in `machines/`."
        ]
    return [
        "- Where each value of the machine is from, and how far the order of the designs hangs on "
        f"it: [the preset](../machines/{name}.md). What was once wrong here: "
        "[fidelity](../fidelity.md).",
    ]


def counted(results: dict) -> str:
    """How many of the claims hold, in each model."""
    claims = [claim for one in results["experiments"] for claim in one["claims"]]
    count = len({claim["id"] for claim in claims})
    if results["models"]:
        parts = []
        for model in results["models"]:
            mine = [claim["verdict"] for claim in claims if claim["model"] == model["name"]]
            parts.append(f"{mine.count('holds')} {'' if parts else 'hold '}in {model['label']}")
        return f"of {count} claims, {', '.join(parts)}"
    verdicts = [claim["verdict"] for claim in claims]
    said = {"holds": "hold", "differs": "differ", "not comparable": "cannot be compared"}
    parts = [f"{verdicts.count(one)} {said[one]}" for one in said if one in verdicts]
    return f"of {count} claims, {', '.join(parts)}"


def main() -> None:
    """Writes page and figures."""
    out = Path(sys.argv[1])
    results = json.loads((out / "results.json").read_text("utf-8"))
    name = f"{results['paper']['name']}-{results['scale']}"
    figures = DOCS / name
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    for one in results["experiments"]:
        if one["figure_files"]:
            shutil.copy(out / one["figure_files"]["svg"], figures / f"{one['name']}.svg")
    text = "\n".join(page(results, figures)).rstrip() + "\n"
    costs = results["tables"]["cut_costs_figure"]
    if costs and "cuts.svg" in text:
        shutil.copy(out / costs["svg"], figures / "cuts.svg")
    (DOCS / f"{name}.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()

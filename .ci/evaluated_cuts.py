"""Power cuts on the page of an evaluation: what was verified, what broke, what it cost.

Always true: every number is from `results.json`.
"""

from pathlib import Path

from tables import number, table

SPREAD = ("median", "percentile_99", "worst")


def cuts(results: dict, figures: Path) -> list[str]:
    """How many power cuts of which design on which program were verified."""
    if not results["tables"]["cuts"]:
        return []
    found = {(one["program"], one["design"]): one for one in results["tables"]["cuts"]}
    programs = list(dict.fromkeys(program for program, _ in found))
    designs = list(dict.fromkeys(design for _, design in found))
    body = [
        [program, *(f"{found[program, one]['verified']:,}" for one in designs)]
        for program in programs
    ]
    if any(one["expected"] == "kept" for one in found.values()):
        return kept(found, programs, results)
    if any(one["restarted"] for one in found.values()):
        return restarted(found, programs, designs)
    total = [sum(found[program, one]["verified"] for program in programs) for one in designs]
    during = sum(one["cuts_during_recovery"] for one in found.values())
    failed = sum(one["failed"] for one in found.values())
    resumed = sum(one["resumed"] for one in found.values())
    return [
        "## Power cuts",
        "",
        f"Verified cuts; {failed} failed. {resumed:,} went on to the program's end, with identical "
        f"output; {during:,} more struck during recovery.",
        "",
        *table(["program", *designs], [*body, ["all", *(f"{one:,}" for one in total)]]),
        *cut_costs(results, figures),
    ]


def restarted(found: dict, programs: list[str], designs: list[str]) -> list[str]:
    """Program × primitive × cuts after which the pool was sound, or was found broken."""

    def cell(one: dict) -> str:
        broken = one["expected"] == "broken"
        return f"**{one['failed']:,} broken**" if broken else f"{one['verified']:,}"

    body = [[program, *(cell(found[program, one]) for one in designs)] for program in programs]
    sound = [one for one in found.values() if one["expected"] == "sound"]
    broken = [one for one in found.values() if one["expected"] == "broken"]
    said = some_broken(sound, broken) if broken else none_broken(sound)
    return ["## Power cuts", "", *said, "", *table(["program", *designs], body)]


def none_broken(sound: list[dict]) -> list[str]:
    """What was cut, where every design promises something."""
    cuts, during = (sum(one[key] for one in sound) for key in ("cuts", "cuts_during_recovery"))
    return [
        f"{max(one['cuts'] for one in sound):,} cuts of each program under each design, at random "
        "cycles of a run on a pool that was made before: processes are lost, and the program "
        "recovers and checks the pool that survived. Every operation is acknowledged to the "
        "outside world, and what was acknowledged has to be there. "
        f"{sum(one['failed'] for one in sound):,} of {cuts:,} cuts failed; {during:,} more struck "
        "during a design's own recovery. A number is of cuts verified.",
    ]


def some_broken(sound: list[dict], broken: list[dict]) -> list[str]:
    """What was cut, where some primitives promise nothing."""
    unseen = [one["program"] for one in broken if not one["failed"]]
    return [
        f"{max(one['cuts'] for one in [*sound, *broken]):,} cuts of each program with each "
        "primitive, at random cycles of a run on a pool that was made before: processes are lost, "
        "and the same program recovers the pool that survived, checks it, and goes on to its end. "
        "Every operation is acknowledged to the outside world, and what was acknowledged has to be "
        "there. A number is of cuts verified.",
        "",
        "With a promise (flushes under ADR, or caches that survive): "
        f"{sum(one['failed'] for one in sound)} of "
        f"{sum(one['cuts'] for one in sound):,} cuts failed. Without flushes under ADR the same "
        f"cuts have to find breakage: {sum(one['failed'] for one in broken):,} of "
        f"{sum(one['cuts'] for one in broken):,} did"
        + (f"; none in {', '.join(unseen)}." if unseen else ", some in every program."),
    ]


def kept(found: dict, programs: list[str], results: dict) -> list[str]:
    """Program × design × cuts verified, where some designs promise less than programs may need."""
    labels = {one["name"]: one["label"] for one in results["designs"]}
    designs = list(dict.fromkeys(design for _, design in found))

    def cell(one: dict) -> str:
        if one["expected"] == "broken":
            return f"**{one['failed']:,} broken**"
        faults = (
            one["failed"] - one["program_broken"] if one["expected"] == "kept" else one["failed"]
        )
        parts = [f"{one['verified']:,}"]
        parts += [f"**promise broken: {faults:,}**"] if faults else []
        finding = one["expected"] == "kept" and one["program_broken"]
        return ", ".join([*parts, *([f"**program broken: {finding:,}**"] if finding else [])])

    unprotected = [one for one in found.values() if one["expected"] == "broken"]
    promising = [one for one in found.values() if one["expected"] != "broken"]
    all_cuts = sum(one["cuts"] for one in promising)
    faults = sum(
        one["failed"] - (one["program_broken"] if one["expected"] == "kept" else 0)
        for one in promising
    )
    during = sum(one["cuts_during_recovery"] for one in promising)
    return [
        "## Power cuts",
        "",
        f"{max(one['cuts'] for one in promising):,} cuts of each program under each design, by one "
        "thread and by four (-4), at random cycles of a run with small caches, on a pool that was "
        "made before: processes are lost, and the program recovers and checks the pool that "
        f"survived. {faults:,} of {all_cuts:,} cuts broke a promise; {during:,} more struck during "
        "a design's own recovery. Without protection the same cuts have to find breakage: "
        f"{sum(one['failed'] for one in unprotected):,} of "
        f"{sum(one['cuts'] for one in unprotected):,} did. A number is of cuts verified.",
        "",
        *table(
            ["program", *(labels[one] for one in designs)],
            [[name, *(cell(found[name, one]) for one in designs)] for name in programs],
        ),
        *paths(found, designs, labels),
        *beside_cuts(found, labels, results),
    ]


def paths(found: dict, designs: list[str], labels: dict) -> list[str]:
    """How often the runs that were cut took each path of their design."""
    counts: dict[str, dict[str, int]] = {}
    for (_, design), one in found.items():
        for path, count in one["paths"].items():
            mine = counts.setdefault(path, {})
            mine[design] = mine.get(design, 0) + count
    chosen = [one for one in designs if any(one in mine for mine in counts.values())]
    body = [
        [path, *(f"{mine[one]:,}" if one in mine else "–" for one in chosen)]
        for path, mine in counts.items()
    ]
    text = "How often the runs that were cut took each path of their design:"
    return [text, "", *table(["path", *(labels[one] for one in chosen)], body)] if body else []


def beside_cuts(found: dict, labels: dict, results: dict) -> list[str]:
    """What cuts of designs that promise less came to, beside what these cost."""
    rows = results["tables"]["beside_cuts"]
    if not rows:
        return []
    figures = {one["name"]: one for one in results["experiments"]}
    chosen = [one for one in rows[0]["measured"] if one in figures]
    body = [
        [
            one["program"],
            labels[one["design"]],
            f"{one['cuts']:,}",
            f"{one['promise_broken']:,}",
            f"**{one['program_broken']:,}**" if one["program_broken"] else "0",
            f"{one['without']['without_loaded']:,}",
            f"{one['without']['without_before']:,}",
            *(number(one["measured"].get(name), 1, 2) for name in chosen),
        ]
        for one in rows
    ]
    header = ["program", "design", "cuts", "promise broken", "program broken"]
    header += ["without what was loaded", "without what the thread did before"]
    header += [
        f"{figures[one]['metric']['label']} ({figures[one]['metric']['unit']})" for one in chosen
    ]
    broken = [key for key, one in found.items() if one["expected"] == "kept" and one["example"]]
    examples = [(key, found[key]["example"]) for key in broken]
    return [
        "## Does a memory of whole strand groups hold what programs need?",
        "",
        "Cuts by one thread and by four together. *Without*: states that have a strand, and not "
        "one from whose line it had loaded, or not an earlier one of its thread. Measured values "
        "are of one thread.",
        "",
        *table(header, body),
        *(["The earliest cut of each after which the program is broken:", ""] if examples else []),
        *[f"- {example(*key, one, labels)}" for key, one in examples],
        *([""] if examples else []),
        *(repeated(examples, results) if examples else []),
    ]


def example(program: str, design: str, one: dict, labels: dict) -> str:
    """The earliest cut after which a program was broken, in words."""
    why = one["without_loaded"] or one["without_before"]
    said = f"`{one['said']}`" if one["said"] else "it did not end well"
    return f"{program} under {labels[design]}, cut at cycle {one['cycle']:,}: {said}" + (
        f": {why}." if why else "."
    )


def repeated(examples: list[tuple[tuple[str, str], dict]], results: dict) -> list[str]:
    """The commands that repeat the examples, each on a pool of its own."""
    lines = [f"cd out/{results['paper']['name']}-{results['scale']}"]
    for place, ((program, _), one) in enumerate(examples, 1):
        pool = f"perdure run --machine {one['machine']} --design {one['design']} --pmem pmem --"
        lines += ["", f"# {place}: {program}", "rm -rf pmem"]
        lines += [f"{pool} {' '.join(words)}" for words in one["made"]]
        lines += [f"perdure replay {one['token']}"]
    return [
        "<details><summary>Commands that repeat them</summary>",
        "",
        "In the folder that the command wrote. A token is refused where the compiler made another "
        "program of the same source; the results have tokens of their own there.",
        "",
        "```sh",
        *lines,
        "```",
        "",
        "</details>",
        "",
    ]


def cut_costs(results: dict, figures: Path) -> list[str]:
    """What these cuts cost."""
    costs = results["tables"]["cut_costs"]
    if not costs:
        return []
    body = [[one["design"], one["part"], *(f"{one[key]:,.0f}" for key in SPREAD)] for one in costs]
    return [
        "### What a cut costs",
        "",
        "Cycles on the small machine of these cuts (short epochs, small caches): *work lost* from "
        "the recovered point to the cut, *recovery* for its own reads and writes on the same "
        "controller, link and banks ([how](../machine.md#power-cuts-and-verdicts)). Medians are "
        "over the programs.",
        "",
        f"![What a power cut costs]({figures.name}/cuts.svg)",
        "",
        *table(["design", "what", "median", "99th percentile", "worst"], body),
    ]

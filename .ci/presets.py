"""The tables of the pages of presets: each value with its source, and how far ranks hang on it.

Always true here: values, sources and what they decide are those of the presets' comments; times and
ranks those of `docs/machines/PRESET.json`, which `perdure sensitivity PRESET --json` wrote; what a
sentence says of them is read off these numbers.
"""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = "picl"
# The meaning, then in brackets where the value is from, and what it decides.
COMMENT = re.compile(r"(.*?)\s*(?:\(((?:paper|artifact|ours)[^()]*?)(?:; decides: ([^()]*))?\))?")
CLEAR = 0.01
"""Designs that are nearer to each other than that, relative to the baseline, are level."""


@dataclass(frozen=True)
class Key:
    """A key of a preset: its value, and what the comment above it says."""

    name: str
    value: str
    limits: str
    meaning: str
    source: str
    decides: str


def keys(preset: str) -> list[Key]:
    """Every key that a preset's file has."""
    found, section, comment, limits = [], "", "", ""
    for line in (ROOT / f"machines/{preset}.toml").read_text("utf-8").splitlines():
        if line.startswith("# Range: "):
            limits = line.removeprefix("# Range: ").rstrip(".")
        elif line.startswith("#"):
            comment = f"{comment} {line.lstrip('# ')}".strip()
        elif line.startswith("["):
            section = line.strip("[]") + "."
        elif "=" in line:
            name, value = (part.strip() for part in line.split("=", 1))
            meaning, source, decides = COMMENT.fullmatch(comment).groups()
            found.append(Key(section + name, value, limits, meaning, source or "", decides or ""))
        if not line.startswith("#"):
            comment = limits = ""
    return found


def effective(preset: str) -> list[Key]:
    """Every key of a machine: what the file leaves out is the base's, and its source says so."""
    base = keys(BASE)
    if preset == BASE:
        return base
    own = {key.name: key for key in keys(preset)}
    assert set(own) <= {key.name for key in base}, sorted(own)
    return [
        Key(
            key.name,
            own[key.name].value,
            key.limits,
            key.meaning,
            own[key.name].source,
            own[key.name].decides or key.decides,
        )
        if key.name in own
        else Key(key.name, key.value, key.limits, key.meaning, f"{BASE}: {key.source}", key.decides)
        for key in base
    ]


def values(preset: str) -> tuple[list[str], list[list[str]]]:
    """Header and lines: all keys that have an influence on time."""
    body = [
        [f"`{key.name}`", f"`{key.value}`", key.source, key.decides]
        for key in effective(preset)
        if key.decides
    ]
    return ["key", "value", "from", "decides"], body


def found(preset: str) -> dict:
    """The times that were computed."""
    return json.loads((ROOT / f"docs/machines/{preset}.json").read_text("utf-8"))


def setting(one: dict) -> str:
    """A setting's name."""
    return f"`{one['key']} = {one['value']}`" if one["value"] else "the preset"


def times(results: dict, one: dict, subject: str | None) -> dict[str, float]:
    """Every design's time at a setting: of one subject, or the mean of all."""
    every = {}
    for design in (design["name"] for design in results["designs"]):
        here = one["designs"][design]
        every[design] = here["mean"] if subject is None else here["subjects"].get(subject)
    return {design: value for design, value in every.items() if value is not None}


def sensitivity(preset: str, subject: str | None) -> tuple[list[str], list[list[str]]]:
    """Header and lines: each design's time and rank at each setting."""
    results = found(preset)
    body = []
    for one in results["settings"]:
        here = times(results, one, subject)
        cells = [
            f"{here[name]:.3f} ({1 + sum(other < here[name] for other in here.values())})"
            if name in here
            else "–"
            for name in (design["name"] for design in results["designs"])
        ]
        body.append([setting(one), *cells])
    return ["", *(design["label"] for design in results["designs"])], body


def passed(before: dict[str, float], after: dict[str, float]) -> list[tuple[str, str]]:
    """The pairs of designs, the faster one first, whose clear order became a clear other one."""
    return [
        (fast, slow)
        for slow, fast in itertools.permutations(before, 2)
        if fast in after
        and slow in after
        and before[slow] < before[fast] - CLEAR
        and after[fast] < after[slow] - CLEAR
    ]


def said(preset: str, subject: str | None) -> str:
    """What decides a rank, and what a time, in words: from the numbers of the table alone."""
    results = found(preset)
    labels = {design["name"]: design["label"] for design in results["designs"]}
    first, *others = results["settings"]
    here = times(results, first, subject)
    others = [one for one in others if set(times(results, one, subject)) == set(here)]
    changes, decided = [], set()
    for one in others:
        there = times(results, one, subject)
        pairs = passed(here, there)
        if pairs:
            words = (f"{labels[fast]} passes {labels[slow]}" for fast, slow in pairs)
            changes.append(f"with {setting(one)}, {', '.join(words)}")
            decided.add(one["key"])
    sentences = [
        f"Ranks change: {'; '.join(changes)}." if changes else "No setting changes a rank."
    ]
    keys = [one["key"] for one in others]
    never = [f"`{key}`" for key in dict.fromkeys(keys) if key not in decided]
    if never and changes:
        sentences.append(f"What was tried of {', '.join(never)} changes none.")
    moves = [
        (abs(there[name] - here[name]), name, one)
        for one in others
        for there in [times(results, one, subject)]
        for name in here
        if name in there
    ]
    if moves:
        _, name, one = max(moves, key=lambda move: move[0])
        after = times(results, one, subject)[name]
        sentences.append(
            f"The largest move is {labels[name]}'s, from {here[name]:.3f} to {after:.3f} "
            f"with {setting(one)}."
        )
    ahead = [
        f"{labels[name]} {value:.3f} with {setting(one)}"
        for one in results["settings"]
        for name, value in times(results, one, subject).items()
        if value < 1 - CLEAR
    ]
    if ahead:
        sentences.append(f"Faster than {results['baseline']} itself: {'; '.join(ahead)}.")
    sentences.append(f"Differences below {CLEAR} count as none.")
    return " ".join(sentences)


def tables(rows: Callable[[list[str], list[list[str]]], str]) -> dict[str, Callable[[], str]]:
    """Every table of the pages of presets, by name."""

    def table(make: Callable, *arguments: object) -> str:
        return rows(*make(*arguments))

    def sentence(*arguments: object) -> str:
        return f"\n{said(*arguments)}\n\n"

    def computed(preset: str, make: Callable, *arguments: object) -> str:
        if (ROOT / f"docs/machines/{preset}.json").exists():
            return make(*arguments)
        return "\nNothing is kept here yet: the command below computes it.\n\n"

    made: dict[str, Callable[[], str]] = {}
    for page in sorted((ROOT / "docs/machines").glob("*.md")):
        preset = page.stem
        made[f"values-{preset}"] = partial(table, values, preset)
        for name, subject in (("", None), ("-mix", "mix")):
            made[f"sensitivity-{preset}{name}"] = partial(
                computed, preset, table, sensitivity, preset, subject
            )
            made[f"ranks-{preset}{name}"] = partial(computed, preset, sentence, preset, subject)
    return made

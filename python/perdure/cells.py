"""Results in a notebook's cell, and in one line.

Always true here: a line says what ran, how it ended and what it cost, and never more; every number
stands with its unit; what a program or its author named is escaped.
"""

from __future__ import annotations

import html as escaping
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

    from perdure.cut_results import CutReport, CutResult
    from perdure.results import MutantsReport, RunResult

Facts: TypeAlias = Sequence[tuple[str, str]]
"""What there is to say, each as a name and a text."""

CUTS_SHOWN = 10
ROWS_SHOWN = 50


def one_line(kind: str, facts: Facts) -> str:
    """The facts as a `repr`."""
    return f"{kind}({', '.join(f'{name}: {text}' for name, text in facts)})"


def title(result: RunResult | CutReport) -> str:
    """What ran where."""
    return f"{result.design} on {result.machine}"


def html(heading: str, facts: Facts, more: str = "") -> str:
    """The facts as a small table, with `more` HTML below."""
    rows = "".join(_row("td", *fact) for fact in facts)
    caption = f"<caption><strong>{escaping.escape(heading)}</strong></caption>"
    return f"<table>{caption}<tbody>{rows}</tbody></table>{more}"


def preformatted(heading: str, text: str) -> str:
    """A longer text that can be opened."""
    return _folded(heading, f"<pre>{escaping.escape(text)}</pre>")


def of_run(result: RunResult) -> Facts:
    """What one run came to."""
    ended = "not at its end" if result.exit_code is None else f"status {result.exit_code}"
    if result.fatal_signal is not None:
        ended += f" ({result.fatal_signal.signal})"
    return [
        ("ran", title(result)),
        ("ended", ended + (", interrupted" if result.interrupted else "")),
        ("time", f"{result.sim.cycles:,} cycles"),
        ("instructions", f"{result.sim.instructions:,}"),
        ("NVM written", f"{result.nvm.written_bytes.total:,} bytes"),
        ("NVM read", f"{result.nvm.read_bytes:,} bytes"),
    ]


def of_cut(result: CutResult) -> Facts:
    """What one power cut came to."""
    recovered = "nothing" if result.recovered_epoch is None else f"epoch {result.recovered_epoch}"
    facts = [("cycle", f"{result.cycle:,}"), ("recovered", recovered), ("verdict", result.verdict)]
    if result.message is not None:
        facts.append(("message", result.message))
    return [*facts, ("token", _shortened(result.token))]


def of_cuts(report: CutReport) -> Facts:
    """What power cuts came to."""
    counted = [("verified", report.verified), ("lost", report.lost), ("failed", report.failed)]
    facts = [("cut", title(report)), ("cuts", f"{report.cuts:,}")]
    facts += [(name, f"{count:,}") for name, count in counted]
    facts += [("resumed", f"{report.resumed:,}")] if report.resumed else []
    if report.cut_cost is not None:
        cost = report.cut_cost
        facts += [
            ("work lost", f"{cost.lost_cycles.median:,} cycles (median)"),
            ("recovery", f"{cost.recovery_cycles.median:,} cycles (median)"),
        ]
    return facts


def of_mutants(report: MutantsReport) -> Facts:
    """What became of planted bugs."""
    caught = sum(bug.caught for bug in report.mutants)
    alarms = f"{report.false_alarms:,} of {report.clean_cuts:,} cuts"
    return [
        ("design", report.design),
        ("caught", f"{caught} of {len(report.mutants)} bugs"),
        ("clean design accused", alarms),
    ]


def statistics(result: RunResult) -> str:
    """Every counter of a run, to be opened."""
    rows = (
        (name, f"{one.value:,}", one.unit, one.meaning) for name, one in result.statistics.items()
    )
    count = f"{len(result.statistics)} statistics"
    return _folded(count, _table(("statistic", "value", "unit", "meaning"), rows))


def cuts(shown: Sequence[CutResult]) -> str:
    """The first cuts of those that went wrong."""
    if not shown:
        return ""
    rows = ((f"{one.cycle:,}", one.verdict, one.message or "", one.token) for one in shown)
    left = len(shown) - CUTS_SHOWN
    more = f"<p>… and {left:,} more</p>" if left > 0 else ""
    heads = ("cycle", "verdict", "message", "token, for perdure.replay")
    return _table(heads, list(rows)[:CUTS_SHOWN]) + more


def frame(rows: pl.DataFrame) -> str:
    """The rows of a data frame, the first of them."""
    shown = rows.head(ROWS_SHOWN).rows()
    left = len(rows) - len(shown)
    more = f"<p>… and {left:,} more</p>" if left > 0 else ""
    return _table(rows.columns, (list(map(_text, row)) for row in shown)) + more


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _shortened(token: str) -> str:
    return token if len(token) <= 24 else f"{token[:24]}…"


def _folded(heading: str, inner: str) -> str:
    return f"<details><summary>{escaping.escape(heading)}</summary>{inner}</details>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(_row("td", *row) for row in rows)
    return f"<table><thead>{_row('th', *heads)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, *cells: str) -> str:
    inner = "".join(f"<{tag}>{escaping.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"

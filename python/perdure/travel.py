"""The command `perdure travel`: looking at the snapshots of a finished run.

Always true here: a command opens the store, asks it one question, and prints the answer, as a table
or, with --json, as JSON whose keys docs/travel.md lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape

from perdure import outputs, terminal
from perdure.api import Json
from perdure.options import EpochOption, JsonOption
from perdure.snapshots import Snapshots, open_snapshots
from perdure.tables import Sheet

SHOWN = 20

app = typer.Typer(
    help="Look at memory as it was at the end of any epoch of a finished run.",
    no_args_is_help=True,
)

Where = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS|SYMBOL",
        help="0x… of the program, p:0x… physical, or SYMBOL, SYMBOL+16, SYMBOL@FILE.",
    ),
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        "-t",
        metavar="TYPE",
        help="u8 to u64, i8 to i64, f32, f64, ptr, char[N], hex[N] (by the size).",
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option("--count", "-n", min=1, help="Values to show (all of a symbol)."),
]
ProcessOption = Annotated[
    int | None,
    typer.Option("--process", metavar="NUMBER", help="Whose memory, where that is not clear."),
]


@app.callback()
def travel(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `perdure run --snapshots DIR` kept.")
    ],
) -> None:
    """Look at memory as it was at the end of any epoch of a finished run."""
    context.obj = directory


@app.command()
def epochs(context: typer.Context, json_file: JsonOption = None) -> None:
    """List the epochs that can be read."""
    answer = _opened(context).describe()
    if outputs.write_json(answer, json_file):
        return
    manifest = answer["manifest"]
    held = manifest["epochs"]
    print(
        f"{manifest['design']} on {manifest['machine']}, {manifest['harts']} harts: "
        f"epochs {held['oldest']} to {held['newest']}; without --epoch, {answer['default_epoch']}"
    )
    columns = ("epoch", "virtual ms", "versions", "program lines", "machine lines")
    made = _table(*columns, "writers", "processes")
    for epoch in answer["epochs"]:
        made.add_row(
            str(epoch["epoch"]),
            f"{epoch['virtual_ns'] / 1e6:.3f}",
            *(f"{epoch[key]:,}" for key in ("versions", "program_lines", "machine_lines")),
            _ranges(epoch["writers"]),
            _ranges(epoch["processes"]),
        )
    terminal.output().print(made, highlight=False)


@app.command()
def read(
    context: typer.Context,
    where: Where,
    epoch: EpochOption = None,
    type_: TypeOption = None,
    count: CountOption = None,
    process: ProcessOption = None,
    json_file: JsonOption = None,
) -> None:
    """Show what a place held at the end of an epoch."""
    reading = _opened(context).read(where, epoch, type=type_, count=count, process=process)
    if outputs.write_json(reading.raw, json_file):
        return
    for value in reading.raw["values"]:
        print(value)
    written = "as it was from the start"
    if reading.written is not None:
        written = f"written in epoch {reading.written[0]} by hart {reading.written[1]}"
    place = f"{_place(reading.raw)}, {reading.type}, at the end of epoch {reading.epoch}"
    terminal.tell([f"{place}: {written}"])
    missing = _missing(reading.raw)
    if missing and count is None:
        terminal.tell([f"{missing:,} bytes of {reading.raw['symbol']['name']} are not shown"])


@app.command()
def history(
    context: typer.Context,
    where: Where,
    type_: TypeOption = None,
    count: CountOption = None,
    process: ProcessOption = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="Leave versions out that changed other bytes only.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """List every version of a place: epoch, writer, value."""
    answer = _opened(context).ask("history", what=where, type=type_, count=count, process=process)
    if changes:
        answer["versions"] = [version for version in answer["versions"] if version["changed"]]
    if outputs.write_json(answer, json_file):
        return
    made = _table("epoch", "hart", f"{_place(answer)}, {answer['type']}")
    for version in answer["versions"]:
        values = version["values"]
        shown = "not mapped" if values is None else " ".join(map(str, values))
        writer = "" if version["writer"] is None else str(version["writer"])
        made.add_row(str(version["epoch"]), writer, escape(shown))
    terminal.output().print(made, highlight=False)


@app.command()
def diff(
    context: typer.Context,
    old: Annotated[int, typer.Argument(metavar="E1", min=0, help="The epoch before.")],
    new: Annotated[int, typer.Argument(metavar="E2", min=0, help="The epoch after.")],
    process: ProcessOption = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"Not only the first {SHOWN} lines without symbols.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Show what differs between the ends of two epochs, by symbol and by line."""
    answer = _opened(context).diff(old, new, process=process)
    if outputs.write_json(answer, json_file):
        return
    for one in answer["processes"]:
        title = f"process {one['process']} ({one['executable']})"
        if one["state"] != "lives":
            print(f"{title}: {one['state']} between")
            continue
        print(title)
        symbols = _table("symbol", f"epoch {old}", f"epoch {new}", left=3)
        for symbol in one["symbols"]:
            offset = f"+{symbol['offset']}" if symbol["offset"] else ""
            cells = (f"{symbol['name']}{offset}", str(symbol["old"]), str(symbol["new"]))
            symbols.add_row(*map(escape, cells))
        if one["symbols"]:
            terminal.output().print(symbols, highlight=False)
        for kind in ("mapped", "unmapped"):
            for part in one[kind]:
                print(f"  {kind}: {part['start']}–{part['end']} {part['name']}".rstrip())
        shown = one["lines"] if every else one["lines"][:SHOWN]
        for line in shown:
            print(f"  {line['address']} {line['region'] or ''}".rstrip())
            for word in range(0, len(line["old"]), 16):
                was, became = line["old"][word : word + 16], line["new"][word : word + 16]
                if was != became:
                    print(f"    +{word // 2:<3} {_word(was)} → {_word(became)}")
        if len(shown) < len(one["lines"]):
            print(f"  and {len(one['lines']) - len(shown)} more lines; --all shows them")
    print(
        f"machine: {answer['lines']:,} lines differ: {answer['context_lines']:,} of contexts, "
        f"{answer['kernel_lines']:,} of kernel state, {answer['other_lines']:,} of frames that no "
        "process shown here has; the others are those above"
    )


@app.command()
def dump(
    context: typer.Context,
    epoch: Annotated[int, typer.Argument(metavar="E", min=0, help="The epoch.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The core file to write.")],
    process: ProcessOption = None,
    json_file: JsonOption = None,
) -> None:
    """Write an ELF core file of the program at the end of an epoch, for gdb."""
    answer = _opened(context).dump(file, epoch, process=process)
    if outputs.write_json(answer, json_file):
        return
    print(
        f"{file}: process {answer['process']} ({answer['executable']}) at the end of epoch "
        f"{epoch}, {len(answer['threads'])} threads"
    )
    for thread in answer["threads"]:
        where = "" if thread["hart"] is None else f", on hart {thread['hart']}"
        symbol = f" ({thread['symbol']})" if thread["symbol"] else ""
        print(f"  thread {thread['thread']} {thread['name']}: pc {thread['pc']}{symbol}{where}")


def _word(digits: str) -> str:
    """Up to eight bytes as they lie in memory, as one number."""
    return f"{int.from_bytes(bytes.fromhex(digits), 'little'):#018x}"


def _opened(context: typer.Context) -> Snapshots:
    return open_snapshots(context.obj)


def _place(answer: Json) -> str:
    """A place in words."""
    symbol: Any = answer["symbol"]
    address = answer["address"] if answer["process"] is not None else f"p:{answer['address']}"
    if symbol is None:
        return str(address)
    offset = f"+{symbol['offset']}" if symbol["offset"] else ""
    return f"{symbol['name']}{offset} ({address})"


def _missing(answer: Json) -> int:
    """How many bytes of a symbol are behind those that were read."""
    symbol: Any = answer["symbol"]
    if symbol is None:
        return 0
    behind: int = symbol["bytes"] - symbol["offset"] - len(answer["bytes"]) // 2
    return max(0, behind)


def _table(*columns: str, left: int = 0) -> Sheet:
    """A table without lines between columns, for those who search in it."""
    return Sheet("", list(columns), left, frame=SIMPLE_HEAD)


def _ranges(numbers: Sequence[int]) -> str:
    """0, 1, 2, 5 as `0–2 5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)

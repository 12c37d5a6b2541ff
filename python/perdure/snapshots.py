"""Snapshot stores: memory as it was at the end of every epoch of a finished run.

>>> import perdure
>>> machine = perdure.Machine(machine="nvoverlay", design="nvoverlay")
>>> machine.run(["./program"], snapshots="store")             # doctest: +SKIP
>>> store = perdure.open_snapshots("store")                   # doctest: +SKIP
>>> store.read("counter", epoch=7).value                      # doctest: +SKIP
>>> [(v.epoch, v.value) for v in store.history("counter")]    # doctest: +SKIP

Always true here: a call asks the core one question in JSON, and what it returns is the answer with
names; `raw` keeps the whole of it. A store is never changed. Every refusal is a `PerdureError`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import _core
from perdure.api import Json

if TYPE_CHECKING:
    from perdure import answers

Path: TypeAlias = str | PathLike[str]
Where: TypeAlias = str | int
"""An address of the program, or `"p:0x…"`, or `"SYMBOL"`, `"SYMBOL+16"`, `"SYMBOL@FILE"`."""

Value: TypeAlias = int | float | str


@dataclass(frozen=True)
class Epoch:
    """One epoch that can be read.

    `versions` lines were written in it (of the oldest one after a compaction: in it and before), of
    which `program_lines` are programs' memory and `machine_lines` contexts and kernel state, by the
    harts `writers` (the first of those that share an L2). `virtual_ns` is the program's clock when
    the last of its harts left the epoch; `processes` live at its end.
    """

    epoch: int
    versions: int
    program_lines: int
    machine_lines: int
    writers: Sequence[int]
    virtual_ns: int
    processes: Sequence[int]


@dataclass(frozen=True)
class Symbol:
    """A named place: `offset` bytes behind the start of `name`, which has `bytes` bytes."""

    name: str
    offset: int
    bytes: int
    file: str


@dataclass(frozen=True)
class Reading:
    """What a place held at the end of `epoch`.

    `values` are of `type`; `bytes` the same as bytes. `written` names the epoch and the hart of
    the newest version (None: it was so from the start). `physical` is where it lies in the NVM's
    address space (None: nobody has touched its page yet), `process` whose memory it is (None: the
    address was physical).
    """

    epoch: int
    address: int
    physical: int | None
    process: int | None
    symbol: Symbol | None
    type: str
    values: Sequence[Value]
    bytes: bytes
    written: tuple[int, int] | None
    raw: Json = field(repr=False)

    @property
    def value(self) -> Value:
        """The first value."""
        return self.values[0]


@dataclass(frozen=True)
class Version:
    """One version of a place: written in `epoch` by the hart `writer`.

    Of harts that share an L2, `writer` is the first, whichever wrote. It is None for what was there
    from the start, and where the place came into being or went away without being written. Then
    `values` is None if it is not mapped from here on. `changed` says whether the place's own bytes
    differ from the version before: others of its line may have.
    """

    epoch: int
    writer: int | None
    values: Sequence[Value] | None
    bytes: bytes | None
    changed: bool

    @property
    def value(self) -> Value | None:
        """The first value."""
        return None if self.values is None else self.values[0]


class Snapshots:
    """An open snapshot store. `open_snapshots` makes one."""

    def __init__(self, directory: Path) -> None:
        self._store = _core.Snapshots(fspath(directory))
        self.directory = fspath(directory)

    def __repr__(self) -> str:
        return f"perdure.open_snapshots({self.directory!r})"

    def ask(self, ask: str, **more: object) -> Any:
        """The answer to a question, as docs/travel.md has it; the methods below do the same."""
        question = {key: value for key, value in more.items() if value is not None}
        return json.loads(self._store.ask(json.dumps({"ask": ask, **question})))

    @property
    def manifest(self) -> answers.Manifest:
        """What the store is of: the content of `store.json`."""
        return self.describe()["manifest"]

    def describe(self) -> answers.Epochs:
        """The answer behind `epochs` and `manifest`, as it is."""
        answer: answers.Epochs = self.ask("epochs")
        return answer

    def epochs(self) -> list[Epoch]:
        """The epochs that can be read, the oldest first."""
        return [Epoch(**epoch) for epoch in self.describe()["epochs"]]

    def read(
        self,
        where: Where,
        epoch: int | None = None,
        *,
        type: str | None = None,  # noqa: A002
        count: int | None = None,
        process: int | None = None,
    ) -> Reading:
        """What a place held at the end of `epoch` (None: the newest in which a program lives).

        `type` is u8 to u64, i8 to i64, f32, f64, ptr, char[N] or hex[N]; without it, unsigned
        numbers of a symbol's size. `count` values are read; without it, as many as the symbol has.
        """
        answer = self.ask(
            "read", what=_named(where), epoch=epoch, type=type, count=count, process=process
        )
        written, physical = answer["written"], answer["physical"]
        return Reading(
            epoch=answer["epoch"],
            address=int(answer["address"], 16),
            physical=None if physical is None else int(physical, 16),
            process=answer["process"],
            symbol=None if answer["symbol"] is None else Symbol(**answer["symbol"]),
            type=answer["type"],
            values=_values(answer["type"], answer["values"]),
            bytes=bytes.fromhex(answer["bytes"]),
            written=None if written is None else (written["epoch"], written["writer"]),
            raw=answer,
        )

    def history(
        self,
        where: Where,
        *,
        type: str | None = None,  # noqa: A002
        count: int | None = None,
        process: int | None = None,
        changes: bool = False,
    ) -> list[Version]:
        """Every version of a place, the oldest first; with `changes`, only those that differ."""
        answer = self.ask("history", what=_named(where), type=type, count=count, process=process)
        return [
            Version(
                epoch=version["epoch"],
                writer=version["writer"],
                values=_values(answer["type"], version["values"]),
                bytes=None if version["bytes"] is None else bytes.fromhex(version["bytes"]),
                changed=version["changed"],
            )
            for version in answer["versions"]
            if version["changed"] or not changes
        ]

    def diff(self, old: int, new: int, *, process: int | None = None) -> answers.Diff:
        """What differs between the ends of two epochs, as docs/travel.md describes it."""
        answer: answers.Diff = self.ask("diff", **{"from": old, "to": new}, process=process)
        return answer

    def dump(
        self, file: Path, epoch: int | None = None, *, process: int | None = None
    ) -> answers.Dump:
        """Writes an ELF core file of a process at the end of `epoch`, which gdb opens."""
        answer: answers.Dump = self.ask("dump", file=fspath(file), epoch=epoch, process=process)
        return answer


def open_snapshots(directory: Path) -> Snapshots:
    """Opens the snapshot store that a run with `snapshots=` left in `directory`."""
    return Snapshots(directory)


def _named(where: Where) -> str:
    return hex(where) if isinstance(where, int) else where


def _values(type: str, values: Sequence[Value] | None) -> Any:  # noqa: A002
    """Values, of which JSON writes some that it has no numbers for as text."""
    if values is None or not type.startswith("f"):
        return values
    return [float(value) for value in values]

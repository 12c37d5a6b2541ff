"""Power cuts as they are declared: of which designs, on which programs, how many.

Always true here: a declaration is data and names no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from perdure.experiments.point import Campaign
from perdure.experiments.toml import Table, texts_by_name


@dataclass(frozen=True)
class Cuts:
    """Power cuts of a paper's designs: on which programs, how many, on which small machine.

    `cuts` are of each program under each design, but for those in `cuts_of`. With `restart`,
    processes are lost: the program is started again on the pools that survive, and judges them;
    with `recover` it does no more than that. Recoveries are cut, too, `during_recovery`, of all
    designs or of `during_recovery_of` these. `machine_of` has designs on another machine than the
    paper's, `arguments` what programs are told beside their `tiny` arguments, `told` what they are
    told further under a design. Where a file has `panels`, each program is one for each of them.
    """

    designs: tuple[str, ...]
    programs: Mapping[str, tuple[str, ...]]
    cuts: int
    cuts_of: Mapping[str, int]
    seed: int
    during_recovery: bool
    harts: int | None
    overrides: tuple[str, ...]
    notes: tuple[str, ...]
    restart: bool = False
    machine_of: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recover: bool = False
    during_recovery_of: tuple[str, ...] = ()
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def campaign(self, design: str) -> Campaign:
        """How the power is cut under a design."""
        return Campaign(
            self.cuts_of.get(design, self.cuts),
            self.seed,
            self.during_recovery or design in self.during_recovery_of,
            restart=self.restart,
            recover=self.recover,
        )


def read_cuts(table: Table, scale: str) -> Cuts:
    """All of a paper's `cuts.toml`, for a scale."""
    programs, arguments = _panels(
        texts_by_name(table.table("programs")),
        texts_by_name(table.optional_table("arguments")),
        texts_by_name(table.optional_table("panels")),
    )
    machines = table.optional_table("machine_of")
    counts, counts_of = {}, {}
    for one in ("quick", "full"):
        size = table.table(one)
        counts[one] = size.integer("cuts_of_each")
        of = size.optional_table("cuts_of")
        counts_of[one] = {} if of is None else {design: of.integer(design) for design in of.names()}
        size.finish()
    made = Cuts(
        designs=tuple(table.texts("designs")),
        programs=programs,
        cuts=counts[scale],
        cuts_of=counts_of[scale],
        seed=table.integer("seed"),
        during_recovery=table.flag("during_recovery"),
        harts=table.integer("harts", 0) or None,
        overrides=tuple(table.texts("set", ())),
        notes=tuple(table.texts("notes", ())),
        restart=table.flag("restart"),
        machine_of={}
        if machines is None
        else {one: machines.text(one) for one in machines.names()},
        arguments=arguments,
        recover=table.flag("recover"),
        during_recovery_of=tuple(table.texts("during_recovery_of", ())),
        told=texts_by_name(table.optional_table("told")),
    )
    table.finish()
    return made


Words: TypeAlias = Mapping[str, tuple[str, ...]]


def _panels(programs: Words, arguments: Words, panels: Words) -> tuple[Words, Words]:
    """Each program in each of the `panels`, and what it is told: first the panel's words."""
    if not panels:
        return programs, arguments
    pairs = [(program, panel) for program in programs for panel in panels]
    return (
        {f"{program}-{panel}": programs[program] for program, panel in pairs},
        {
            f"{program}-{panel}": (*panels[panel], *arguments.get(program, ()))
            for program, panel in pairs
        },
    )

"""The command `perdure debug`: a program under gdb, forward and back in time.

Always true here: a session takes what `perdure run` takes, less what keeps results of a run.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from perdure import PerdureError, tokens
from perdure.commands.attaching import Debugger, serve
from perdure.commands.cutting import split_then
from perdure.commands.replaying import debug_token
from perdure.commands.shared import Program, machine_of, programs
from perdure.options import (
    DesignOption,
    GuestWithPools,
    MachineOption,
    PlantedBugOption,
    StopAfterOption,
    count,
    grouped,
)


@grouped
def debug(
    program: Program,
    machine: MachineOption = "picl",
    design: DesignOption = "picl",
    *,
    guest: GuestWithPools,
    stop_after: StopAfterOption = None,
    cut: Annotated[
        list[int] | None,
        typer.Option(
            "--cut",
            parser=count,
            metavar="CYCLE",
            help="The power fails then; given again, in the life after that.",
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="After a cut, start the program again on the pools that survived, or what stands "
            "after --then behind its arguments. Designs that cannot resume always do.",
        ),
    ] = False,
    planted_bug: PlantedBugOption = None,
    debugger: Debugger,
) -> None:
    """Debug a program with gdb, forward and backward in time, and across power cuts.

    A token in its place is debugged as perdure replay TOKEN --debug does.
    """
    if (token := tokens.found(program[0])) is not None:
        if program[1:]:
            raise PerdureError(f"{' '.join(program[1:])}: options stand before the token")
        debug_token(token, debugger)
    chosen = machine_of(machine, design, guest, None)
    words, then = split_then(program)
    more: dict[str, Any] = {"restart": True} if restart or then else {}
    if then:
        more["then"] = list(then)
    with programs(words) as asked:
        request = chosen.request(**asked, stop_after=stop_after, planted_bug=planted_bug, **more)
        serve({"request": request, "cuts": list(cut or ())}, debugger)

"""What `perdure debug --gdb` lets gdb source: the monitor's commands as gdb's own, `perdure …`.

Always true here: after a command that may have moved in time, gdb forgets what it knew of
registers, memory and threads, and stands in the thread that the machine stopped in.

This runs in gdb's Python, and knows nothing of the package around it.
"""

from __future__ import annotations

import gdb

MOVES = ("goto", "cut")
"""Commands after which everything is different."""

OF_BYTES = ("durable", "wrote")
"""Commands about a place in memory, which gdb may know by an expression of the program's."""


def _monitor(line: str) -> str:
    return str(gdb.execute(f"monitor {line}", to_string=True))


def _look_again() -> None:
    """Lets gdb see the machine as it is now."""
    number = int(_monitor("thread").split()[1])
    # Asking for the threads lets gdb notice which are gone, perhaps the one that it stood in.
    for thread in gdb.selected_inferior().threads():
        if number in thread.ptid:
            thread.switch()
    for command in ("maintenance flush register-cache", "maintenance flush dcache"):
        gdb.execute(command, to_string=True)
    if gdb.selected_thread() is not None:
        gdb.execute("frame 0")


def _place(expression: str) -> str:
    """Where a variable, a member or an element lies, and how long it is; else the text as it is."""
    try:
        value = gdb.parse_and_eval(expression)
        if value.address is not None:
            return f"{int(value.address):#x}:{value.type.sizeof}"
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
            return f"{int(value):#x}:{value.dynamic_type.target().sizeof}"
    except gdb.error:
        pass
    return expression


class Perdure(gdb.Command):  # type: ignore[misc]  # gdb has no types
    """Ask the machine: perdure help says what."""

    def __init__(self) -> None:
        """Defines the command."""
        super().__init__("perdure", gdb.COMMAND_RUNNING)

    def invoke(self, argument: str, _from_tty: bool) -> None:
        """Carries out one."""
        command, _, more = argument.partition(" ")
        if command in OF_BYTES and more:
            argument = f"{command} {_place(more)}"
        gdb.write(_monitor(argument))
        if command in MOVES:
            _look_again()


Perdure()

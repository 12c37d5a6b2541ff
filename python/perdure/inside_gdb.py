"""What `perdure debug --gdb` lets gdb source: the monitor's commands as gdb's own, `perdure …`.

Always true here: after a command that may have moved in time, gdb forgets what it knew of
registers, memory and threads, and stands in the thread that the machine stopped in.

This runs in gdb's Python, and knows nothing of the package around it.
"""

from __future__ import annotations

import gdb

MOVES = ("goto", "cut")
"""Commands after which everything is different."""


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


class Perdure(gdb.Command):
    """Ask the machine: perdure help says what."""

    def __init__(self) -> None:
        """Defines the command."""
        super().__init__("perdure", gdb.COMMAND_RUNNING)

    def invoke(self, argument: str, _from_tty: bool) -> None:
        """Carries out one."""
        gdb.write(_monitor(argument))
        if argument.split()[:1] and argument.split()[0] in MOVES:
            _look_again()


Perdure()

"""The commands of `perdure`: where each stands, and what the help of all of them says.

Always true here: nothing is loaded, neither a command nor what reads command lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SAYS = (
    "A computer whose memory survives losing power: run a program on it, cut the power, and see "
    "what comes back."
)
OPTIONS = {
    "--version": "Print the version, and the timing version.",
    "--install-completion": "Install completion for this shell, or for another: bash, zsh, fish.",
    "--show-completion": "Print completion for this shell, or for another: bash, zsh, fish.",
    "--help, -h": "Show this message and exit.",
}
"""Those of the whole command, with what its help says of each."""

RUN, CUT, COMPARE, SHOW = "Run", "Cut the power", "Compare and measure", "Look and prepare"


class Entry(NamedTuple):
    """A command: where it stands, and what the help of all of them says, which so loads none."""

    place: str
    panel: str
    says: str
    has_guest: bool = False


# In the order of the help; the arguments of commands with a guest are that guest's.
COMMANDS: Mapping[str, Entry] = {
    "run": Entry(
        "commands.running:run",
        RUN,
        "Run a program; its output and exit status are passed through.",
        True,
    ),
    "trace": Entry(
        "commands.tracing:trace",
        RUN,
        "Run a program and draw what the machine does, for the Perfetto viewer.",
        True,
    ),
    "debug": Entry(
        "commands.debugging:debug",
        RUN,
        "Debug a program with gdb, forward and backward in time, and across power cuts.",
        True,
    ),
    "replicate": Entry(
        "commands.running:replicate",
        RUN,
        "Run a program and copy each epoch that becomes recoverable to a replica.",
        True,
    ),
    "travel": Entry(
        "travel:app",
        RUN,
        "Look at memory as it was at the end of any epoch of a finished run.",
    ),
    "replica": Entry(
        "replication:app",
        RUN,
        "Hold the epochs of a machine that runs elsewhere, and go on from any of them.",
    ),
    "cut": Entry(
        "commands.cutting:cut",
        CUT,
        "Cut the power, recover from what survived, and judge; exit 1 if a promise was broken.",
        True,
    ),
    "replay": Entry(
        "commands.replaying:replay",
        CUT,
        "Repeat exactly the power cut that a token names, and explain it if it fails.",
    ),
    "hunt": Entry(
        "commands.cutting:hunt",
        CUT,
        "Cut machines drawn at random until something fails; exit 1 if anything did.",
        True,
    ),
    "mutants": Entry(
        "commands.cutting:mutants",
        CUT,
        "Plant known bugs; exit 0 only if every one is caught and no clean design accused.",
    ),
    "check": Entry(
        "commands.checking:check",
        CUT,
        "Find what a power failure can break in a program; exit 1 if there is such a bug.",
        True,
    ),
    "litmus": Entry(
        "litmus:litmus",
        CUT,
        "Decide litmus tests by their models and run them on the machine.",
    ),
    "compare": Entry(
        "commands.comparing:compare",
        COMPARE,
        "Run one program under several designs; exit 1 if its exit status differs between them.",
        True,
    ),
    "sweep": Entry(
        "commands.comparing:sweep",
        COMPARE,
        "Run a program for all designs × values; exit 1 if a point failed.",
        True,
    ),
    "reproduce": Entry(
        "commands.comparing:reproduce",
        COMPARE,
        "Run a paper's experiments and judge its claims; exit 1 if a point failed.",
    ),
    "sensitivity": Entry(
        "commands.comparing:sensitivity",
        COMPARE,
        "Vary what a paper leaves open of its machine, a key at a time; exit 1 if a point failed.",
    ),
    "bench": Entry(
        "bench:app",
        COMPARE,
        "Measure the simulator itself.",
    ),
    "list": Entry(
        "commands.showing:list_",
        SHOW,
        "List designs, machines, workloads, papers with their experiments, planted bugs, or keys.",
    ),
    "config": Entry(
        "commands.showing:config",
        SHOW,
        "Print the effective configuration and its hash.",
    ),
    "demo": Entry(
        "commands.showing:demo",
        SHOW,
        "Show the whole story: a program, a power cut, and the machine coming back.",
    ),
    "sysroot": Entry(
        "commands.showing:sysroot_",
        SHOW,
        "Fill a folder with unmodified Debian riscv64 packages, for --sysroot.",
    ),
    "man": Entry(
        "commands.showing:man",
        SHOW,
        "Print the manual page, made from the commands: perdure man | man -l -.",
    ),
    "new-design": Entry(
        "new_design:new_design",
        SHOW,
        "Begin a design in a source tree: a module that works, test, page and registration.",
    ),
}

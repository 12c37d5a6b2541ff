"""Exit statuses that the command has of its own.

Always true here: a program's own status, which `run` exits with, is none of these on purpose.
"""

from __future__ import annotations

REFUSED = 2
"""A request that cannot be carried out, or files that the host did not take."""
INTERRUPTED = 130
"""Ctrl-C ended a command after the finished results were written."""
GONE = 141
"""Nobody reads standard output any more: what a shell says of a program that SIGPIPE ended."""


def was_interrupted(error: Exception) -> bool:
    """Whether a call was ended by Ctrl-C before it had anything to return."""
    return str(error).startswith("interrupted")


def of_refusal(error: Exception) -> int:
    """The status of a command that a refusal ends."""
    return INTERRUPTED if was_interrupted(error) else REFUSED


def of_run(exit_code: int | None, refused_output: str | None, interrupted: bool) -> int:
    """The status of a command that ran a program: the program's, unless that hides a refusal."""
    if interrupted:
        return INTERRUPTED
    return exit_code or (0 if refused_output is None else REFUSED)

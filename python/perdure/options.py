"""Options that several of the commands have, each declared once.

Always true here: an option says the same in the help of every command that has it.
"""

from pathlib import Path
from typing import Annotated

import typer

from perdure import outputs

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the result as JSON.",
        callback=outputs.check_json,
    ),
]
FilesOption = Annotated[
    Path | None,
    typer.Option("--files", metavar="DIR", help="Keep the guest's files.  [default: OUT/files]"),
]
WriteThroughOption = Annotated[
    list[str] | None,
    typer.Option(
        "--write-through", metavar="HOST:GUEST", help="Let the guest change a folder of the host."
    ),
]
EpochOption = Annotated[
    int | None,
    typer.Option("--epoch", "-e", min=0, help="Which one (the newest in which a program lives)."),
]

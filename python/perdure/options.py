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
OnlySubjectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subject",
        metavar="NAME",
        help="Only this workload or mix, for a first look or a point at full size; repeatable.",
    ),
]
OnlyDesignOption = Annotated[
    list[str] | None,
    typer.Option("--design", metavar="NAME", help="Only this design and its baseline; repeatable."),
]
OnlyPlaceOption = Annotated[
    list[float] | None,
    typer.Option("--at", metavar="NUMBER", help="Only this place of an axis; repeatable."),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, as tcp://host:8786."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Points at a time here (all processors)."),
]

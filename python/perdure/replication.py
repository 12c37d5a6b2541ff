"""Replicas: the epochs of a running machine, held somewhere else; the command `perdure replica`.

Always true here: a call builds one JSON request and makes one call of the core; what is held, and
whether it is whole, is the core's business alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import fspath
from pathlib import Path as HostPath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from perdure import _core, capture, endings, notebook, outputs, progress, requests, terminal
from perdure.api import Path, Progress, RunResult
from perdure.commands.shared import finish_run
from perdure.options import EpochOption, FilesOption, JsonOption, WriteThroughOption

if TYPE_CHECKING:
    from perdure.answers import Forwarded

LISTEN = "127.0.0.1:7433"


def replicate(
    source: Path, to: str | Path, *, secret_file: Path | None = None, report: Progress | None = None
) -> Forwarded:
    """Sends what the replica in the folder `source` holds on to another one.

    `to` is a folder, or `HOST:PORT` of a replica that listens and shares the secret in
    `secret_file`. Returns `epoch`, the newest there now, and `epochs_sent`. For a running machine,
    see `Machine.run(replicate_to=...)`.
    """
    to = requests.target(to)
    request = {"from": fspath(source), "to": to, "secret_file": _path(secret_file)}
    answer: Forwarded = json.loads(_core.forward(json.dumps(request), report))
    return answer


def serve_replica(
    directory: Path,
    *,
    listen: str = LISTEN,
    secret_file: Path | None = None,
    once: bool = False,
) -> int | None:
    """Receives epochs into a folder until Ctrl-C, or with `once` until one primary is done.

    What happens is told on standard output, the address first. The shared secret is made if its
    file (`secret` in the folder) is not there. Returns the newest epoch that is held.
    """
    host, _, port = listen.rpartition(":")
    if not host or not requests.is_port(port):
        raise _core.PerdureError(f"--listen {listen}: write HOST:PORT, as in {LISTEN}; port 0: any")
    request = {
        "directory": fspath(directory),
        "listen": listen,
        "secret_file": _path(secret_file),
        "once": once,
    }
    answer = json.loads(_core.serve(json.dumps(request)))
    epoch: int | None = answer["epoch"]
    return epoch


def resume_replica(
    directory: Path,
    epoch: int | None = None,
    *,
    sysroot: Path | None = None,
    mounts: Sequence[str] = (),
    stop_after: int | None = None,
    out: Path | None = None,
    files: Path | None = None,
    write_through: Sequence[str] = (),
    passthrough: bool | None = None,
    report: Progress | None = None,
) -> RunResult:
    """Restores an epoch that a replica holds and goes on with the program there, to its end.

    Without `epoch`, it is the newest in which a program lives. Files that the program had found
    come from the replica; others from the primary's directories, or from `sysroot` and `mounts`
    (`HOST:GUEST`) in their place. `out`, `files` and `write_through` are those of `Machine.run`;
    files that the primary had let out are kept with those that are written here. The result has
    `restored_epoch`, and `output_from`: the place in each stream of the program where its output
    here begins.
    """
    if out is not None:
        outputs.check_folder(out)
    none = _core.PerdureError(
        f"{outputs.shown(directory)} is no replica; 'perdure replicate --to DIR -- PROGRAM ARG...' "
        "makes one"
    )
    if not HostPath(directory).is_dir():
        raise none
    shown = notebook.active() and passthrough is not False
    request = {
        "directory": fspath(directory),
        "epoch": epoch,
        "sysroot": _path(sysroot),
        "mounts": requests.texts(mounts),
        "stop_after": stop_after,
        "out": _path(out),
        "files": _path(files),
        "write_through": requests.texts(write_through),
        "passthrough": bool(passthrough) and not shown,
    }
    heard = capture.Heard(shown)
    with notebook.following("resumed run", report) as show:
        try:
            result = json.loads(_core.resume(json.dumps(request), show, heard))
        except _core.PerdureError as error:
            # The store of a replica is opened as one of snapshots, which others make.
            if "is no snapshot store; " not in str(error):
                raise
            raise none from error
    return RunResult.from_json(result, **heard.texts)


def _path(path: Path | None) -> str | None:
    return None if path is None else fspath(path)


class _ServesUnlessTold(TyperGroup):
    """`perdure replica DIR [OPTION...]` is `perdure replica DIR serve [OPTION...]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[1:2] and args[1] in self.commands
        if args and not args[0].startswith("-") and not named:
            args = [args[0], "serve", *args[1:]]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ServesUnlessTold,
    help="Hold the epochs of a machine that runs elsewhere, and go on from any of them.",
    no_args_is_help=True,
)


@app.callback()
def replica(
    context: typer.Context,
    directory: Annotated[HostPath, typer.Argument(metavar="DIR", help="The replica's folder.")],
) -> None:
    """Hold the epochs of a machine that runs elsewhere, and go on from any of them.

    Without a command, serve.
    """
    context.obj = directory


@app.command()
def serve(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to wait; port 0: any.")
    ] = LISTEN,
    secret_file: Annotated[
        HostPath | None,
        typer.Option(
            "--secret-file", metavar="FILE", help="The shared secret.", show_default="DIR/secret"
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when one primary is done.")] = False,
) -> None:
    """Receive the epochs that `perdure replicate --to` sends, until Ctrl-C."""
    serve_replica(context.obj, listen=listen, secret_file=secret_file, once=once)


@app.command()
def resume(
    context: typer.Context,
    epoch: EpochOption = None,
    sysroot: Annotated[
        HostPath | None,
        typer.Option("--sysroot", metavar="DIR", help="In place of the primary's."),
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="HOST:GUEST", help="In place of the primary's."),
    ] = None,
    stop_after: Annotated[
        int | None, typer.Option("--stop-after", min=1, metavar="INSTRUCTIONS", help="End there.")
    ] = None,
    out: Annotated[
        HostPath | None,
        typer.Option("--out", metavar="DIR", help="Keep the guest's files, in DIR/files."),
    ] = None,
    files: FilesOption = None,
    write_through: WriteThroughOption = None,
    json_file: JsonOption = None,
) -> None:
    """Restore an epoch and run the program from there to its end; its exit status is this one's."""
    with terminal.guests(json_file), progress.status_line() as show:
        result = resume_replica(
            context.obj,
            epoch,
            sysroot=sysroot,
            mounts=mount or (),
            stop_after=stop_after,
            out=out,
            files=files,
            write_through=write_through or (),
            passthrough=True,
            report=show,
        )
    terminal.tell([f"resumed at the end of epoch {result.raw['restored_epoch']}"])
    outputs.write_json(result.raw, json_file)
    left = endings.kept(result, out, files, json_file, write_through or ())
    terminal.tell([*endings.ending(result), *left])
    finish_run(result)

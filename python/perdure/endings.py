"""How a run ended, in lines of text for people.

Always true here: nothing is computed that the result does not say, and nothing is styled, so that a
run does not load what draws tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

from perdure import timelines
from perdure.results import RunResult, WrittenFile

FILES_NAMED = 3


def ending(result: RunResult) -> Iterator[str]:
    """What there is to say after a run, line by line: fatal signal, remarks, what was refused."""
    fatal = result.fatal_signal
    if fatal is not None:
        yield f"{fatal.signal}: {fatal.cause}"
        place = f" ({fatal.symbol})" if fatal.symbol else ""
        # A signal that was sent, or memory that ran out, is no instruction's fault.
        fetched = "" if fatal.address != fatal.pc else ": no instruction there"
        blamed = f": {fatal.instruction}" if fatal.instruction else fetched
        yield f"  pc {fatal.pc}{place}{blamed}"
        if fatal.address is not None:
            yield f"  address {fatal.address}"
    if result.region is not None and not result.region.complete:
        retired = ", ".join(f"{one.instructions:,}" for one in result.region.programs)
        yield f"a program was over before it had retired --measure: {retired} instructions measured"
    yield from result.remarks
    if result.unknown_system_calls:
        calls = ", ".join(
            f"{call.name} ({call.number})" if call.name else str(call.number)
            for call in result.unknown_system_calls
        )
        yield f"system calls that this kernel does not have, answered with ENOSYS: {calls}"
    for kind in dict.fromkeys(one.kind for one in result.refused):
        chosen = [one for one in result.refused if one.kind == kind and not one.expected]
        names = ", ".join(one.name for one in chosen)
        if kind == "system call" and chosen:
            why = "refused on purpose with ENOSYS, from which programs fall back"
            yield f"system calls {why}: {names}"
        elif chosen:
            yield f"{kind}: commands that this kernel does not have, refused: {names}"
    yield from (
        *_files(result),
        *result.lost_pools,
        *timelines.told(result.trace, result.sim.cycles),
    )
    if result.refused_output is not None:
        yield f"the host refused a file of the guest's: {_refused(result)}"
    replication = result.raw.get("replication")
    if replication is not None:
        held = replication["epoch"]
        holds = "nothing" if held is None else f"epochs up to {held}"
        newest = replication["recoverable_epoch"]
        yield f"replica {replication['to']}: holds {holds}, of {newest} that are recoverable"
        if replication["trouble"] is not None:
            yield f"  {replication['trouble']}"


def kept(
    result: RunResult,
    out: Path | None,
    files: Path | None,
    json_file: str | None,
    write_through: Sequence[str] = (),
    pmem: str | PathLike[str] | None = None,
) -> Iterator[str]:
    """What a run that Ctrl-C ended has left, and where; nothing of a run that came to its end."""
    if not result.interrupted:
        return
    done = f"{result.sim.instructions:,} instructions, at cycle {result.sim.cycles:,}"
    yield f"interrupted after {done}"
    places = [] if out is None else [f"{out} (result and configuration)"]
    if json_file is not None:
        places.append("standard output (JSON)" if json_file == "-" else json_file)
    written = sum(file.kept for file in result.files)
    if written:
        what = "1 file" if written == 1 else f"{written} files"
        kept_in = files or (None if out is None else out / "files")
        folders = [] if kept_in is None else [str(kept_in)]
        folders += [one.rpartition(":")[0] for one in write_through]
        places.append(f"{what} of the guest's" + (f" in {' or '.join(folders)}" if folders else ""))
    if result.pools is not None and pmem is not None:
        places.append(f"{pmem} (pools, what survived of them)")
    snapshots = result.raw.get("snapshots")
    if snapshots is not None:
        newest = snapshots["epochs"]["newest"]
        places.append(f"{snapshots['directory']} (snapshots up to epoch {newest})")
    places += timelines.kept(result.trace)
    replica = result.raw.get("replication")
    if replica is not None and replica["epoch"] is not None:
        places.append(f"{replica['to']} (replica, epochs up to {replica['epoch']})")
    if places:
        yield f"kept, as of then: {', '.join(places)}"
    else:
        yield "nothing of it is kept; --out DIR keeps what is known then, and the guest's files"


def _files(result: RunResult) -> Iterator[str]:
    """Which files the guest wrote that are gone now, and how to keep them."""
    lost = [file for file in result.files if not file.kept and not file.refused]
    if lost:
        what, names = _named(lost)
        verb, them = ("is", "it") if len(lost) == 1 else ("are", "them")
        yield f"{what} written by the guest {verb} not kept: {names}; --files DIR keeps {them}"


def _refused(result: RunResult) -> str:
    """Why the host refused the first file, and which files it has not kept for such reasons."""
    lost = [file for file in result.files if file.refused]
    if not lost:
        return str(result.refused_output)
    what, names = _named(lost)
    return f"{result.refused_output}; {what} {'is' if len(lost) == 1 else 'are'} not kept: {names}"


def _named(files: Sequence[WrittenFile]) -> tuple[str, str]:
    """How many files, and the first of their names."""
    names = [file.path.removeprefix("/work/") for file in files[:FILES_NAMED]]
    shown = ", ".join(name if name.isprintable() else ascii(name) for name in names)
    what = "1 file" if len(files) == 1 else f"{len(files)} files"
    return what, shown + (", …" if len(files) > FILES_NAMED else "")

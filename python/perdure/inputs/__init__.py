"""The files that Debian workloads read, made from nothing.

Always true here: a file's bytes follow from its name and its scale alone. They are the same on
every host and with every Python, because chance comes from SHAKE-128 and no generator calls the
mathematics library (whose last digits differ), iterates over a set, or reads the clock; and
`workloads/debian/SHA256SUMS`, which every written file is compared with, says which bytes.

A name of `workloads/debian/` (scripts and style sheets) is copied as it is. Every other name has
a generator here.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from perdure import PerdureError, workloads
from perdure.inputs import code, games, media, science, text

Scale: TypeAlias = Literal["full", "quick", "tiny"]
"""`full` is a reference run's data, `quick` about an eighth of it, `tiny` for power cuts."""

SCALES: tuple[Scale, ...] = get_args(Scale)
SUMS = "SHA256SUMS"

Generator: TypeAlias = Callable[[int], bytes]
"""From a scale's place in `SCALES` to the bytes."""

GENERATORS: dict[str, Generator] = {
    "chess": games.chess,
    "crystal.gp": science.crystal,
    "document.xml": text.document,
    "mail": text.mail,
    "molecule.gp": science.molecule,
    "orders.sql": code.orders,
    "planning.mps": science.planning,
    "positions.gtp": games.positions,
    "profile.hmm": science.profile,
    "proteins": science.proteins,
    "scene.pov": media.scene,
    "source.i": code.source,
    "speech.dict": media.speech_dictionary,
    "speech.gram": media.speech_grammar,
    "speech.list": media.speech_list,
    "speech.raw": media.speech,
    "text": text.prose,
    "video.yuv": media.video,
}


def write_inputs(names: Iterable[str], scale: Scale, directory: Path) -> None:
    """Writes the inputs `names` into `directory`; what is there and right is left alone.

    Raises:
        PerdureError: a name or a scale does not exist, the folder cannot be written, or the bytes
            made here are not those that every host must make.
    """
    if scale not in SCALES:
        raise PerdureError(f"there is no scale {scale!r}: the scales are {', '.join(SCALES)}")
    expected = _expected()
    for name in sorted(set(names)):
        wanted = expected.get(f"{scale}/{name}")
        if wanted is None:
            raise PerdureError(f"there is no input {name!r}: the inputs are {', '.join(known())}")
        path = directory / name
        if path.is_file() and _digest(path.read_bytes()) == wanted:
            continue
        content = make(name, scale)
        if _digest(content) != wanted:
            raise PerdureError(
                f"the input {scale}/{name} was made with other bytes than {SUMS} says "
                f"(Python {platform.python_version()}): results would not be comparable"
            )
        _write(path, content)


def make(name: str, scale: Scale) -> bytes:
    """The bytes of one input."""
    generator = GENERATORS.get(name)
    if generator is not None:
        return generator(SCALES.index(scale))
    return (_scripts() / name).read_bytes()


def known() -> list[str]:
    """Every input's name."""
    kept = (path.name for path in _scripts().iterdir() if path.name != SUMS)
    return sorted([*GENERATORS, *kept])


def sums() -> str:
    """What `SHA256SUMS` has to say."""
    lines = (
        f"{_digest(make(name, scale))}  {scale}/{name}\n" for scale in SCALES for name in known()
    )
    return "".join(lines)


def _scripts() -> Path:
    return workloads.folder("workloads") / "debian"


def _expected() -> dict[str, str]:
    """The digest of each `scale/name`."""
    lines = (_scripts() / SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: several runs may make the same one at the same time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as partial:
            partial.write(content)
        Path(partial.name).chmod(0o644)
        Path(partial.name).replace(path)
    except OSError as error:
        raise PerdureError(
            f"cannot write the input {path}: {error.strerror} ({error.filename})"
        ) from error

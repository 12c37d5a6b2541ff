"""A user's own question: one program, designs × values of the configuration.

Always true here: the points are the product of what was given, in the order in which it was given;
configuration keys are checked before anything runs; nothing heavy is imported before the call.
"""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure import api, cells, extras, frames, notebook, outputs, pools, requests
from perdure._core import PerdureError

if TYPE_CHECKING:
    import polars as pl

    from perdure.experiments.point import Point, Program, Surroundings

OUT = Path("out/sweep")

Values: TypeAlias = api.Value | Sequence[api.Value]
Watch: TypeAlias = notebook.Watch
"""Called with an outcome, and how many points of how many are done."""


@dataclass(frozen=True, repr=False)
class Sweep(frames.Framed):
    """What came of a sweep.

    `data` has one row for each finished point (docs/experiments.md lists the columns), in the order
    asked for, with a column for each key that was set; `failures` has one for each failed point,
    with its `error`. `figures` are the files drawn, and `report` is the page that has them all.
    """

    data: pl.DataFrame
    failures: pl.DataFrame
    designs: Sequence[str]
    keys: Sequence[str]
    figures: Sequence[Path]
    out: Path
    interrupted: bool
    report: Path | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The data row by row, with `relative`: time over the first design's, same values."""
        base: dict[tuple[str, ...], int] = {}
        for row in self.data.iter_rows(named=True):
            values = tuple(row[key] for key in self.keys)
            if row["design"] == self.designs[0]:
                base[values] = row["cycles"]
        for row in self.data.iter_rows(named=True):
            cycles = base.get(tuple(row[key] for key in self.keys))
            yield {**row, "relative": row["cycles"] / cycles if cycles else None}

    def to_frame(self) -> pl.DataFrame:
        """The data, with `relative`: time over the first design's, same values."""
        import polars

        relative = [row["relative"] for row in self.rows()]
        return self.data.with_columns(polars.Series("relative", relative, polars.Float64))

    def configurations(self) -> dict[str, str]:
        """The text of each effective configuration, by the data's `config_hash`."""
        from perdure.experiments import dataset

        return dataset.configurations(self.out / "results.parquet")

    def _facts(self) -> cells.Facts:
        return [
            ("points", f"{len(self.data):,}"),
            ("failed", f"{len(self.failures):,}"),
            ("designs", ", ".join(self.designs)),
            ("keys", ", ".join(self.keys) or "none"),
            ("in", str(self.out)),
        ]

    def __repr__(self) -> str:
        return cells.one_line("Sweep", self._facts())

    def _repr_html_(self) -> str:
        shown = ("design", *self.keys, "cycles", "relative", "nvm.written_bytes.total")
        found = self.to_frame()
        return cells.html(
            "sweep",
            self._facts(),
            cells.frame(found.select([name for name in shown if name in found.columns])),
        )


@extras.need_reports("a sweep")
def sweep(
    program: api.Command = (),
    *,
    programs: Sequence[api.Command] = (),
    designs: Sequence[str] = ("ideal", "picl"),
    set: Mapping[str, Values] | None = None,  # noqa: A002  (the word of every other call)
    machine: str = "picl",
    harts: int | None = None,
    sysroot: api.Path | None = None,
    mounts: Sequence[str] = (),
    environment: Mapping[str, str] | Sequence[str] = (),
    stdin: api.Path | None = None,
    pmem: api.Path | None = None,
    repeat: bool = False,
    warm_up: int | None = None,
    measure: int | None = None,
    measure_threads: bool = False,
    stop_after: int | None = None,
    probe_cuts: bool = False,
    out: api.Path = OUT,
    scheduler: str | None = None,
    workers: int | None = None,
    watch: Watch | None = None,
    say: Callable[[str], object] = warnings.warn,
) -> Sweep:
    """Runs `program` (or `programs` at once) for all designs × values of `set`.

    The points run `workers` at a time on this machine, or on the Dask cluster whose `scheduler`
    is named; what `out` has already is not run again, and `say` is told where it is
    damaged. A guest starts in an empty directory and reads its files from `mounts`, to which
    nothing is written back; every point begins with a copy of the pools in `pmem`. With
    `probe_cuts`, each point also has what power cuts would cost (columns `cut_cost.…`).
    """
    import polars

    from perdure.experiments import cluster, dataset, point
    from perdure.experiments.cache import Cache

    folder = _folder(Path(out))
    commands = requests.several(program, programs)
    designs = requests.texts(designs, ",")
    _refuse(designs, commands, _region_refused(warm_up, measure, measure_threads))
    axes = _axes(set or {})
    runnable = tuple(_program(words, sysroot) for words in commands)
    template = point.Point(
        name=" + ".join(one.name for one in runnable),
        design=designs[0],
        programs=runnable,
        machine=str(Path(machine).resolve()) if Path(machine).is_file() else machine,
        harts=harts,
        surroundings=_surroundings(sysroot, mounts, environment, stdin, pmem),
        pools=pmem is not None,
        kept_pools=None if pmem is None else str(Path(pmem).resolve()),
        repeat=repeat,
        warm_up=warm_up,
        measure=measure,
        measure_threads=measure_threads,
        stop_after=stop_after,
        probe_cuts=probe_cuts,
    )
    asked = _varied(template, axes, designs)
    with notebook.watching("sweep", watch) as watched:
        finished = cluster.run(
            [one for one, _ in asked],
            Cache(folder, say),
            scheduler=scheduler,
            workers=workers,
            watch=watched,
        )
    stored = {outcome.key: outcome.stored for outcome in finished.outcomes}
    kept = [(one, chosen) for asks, chosen in asked if (one := stored.get(asks.key()))]
    data = dataset.frame(kept, dict.fromkeys(axes, polars.String))
    configured = template.configuration().values
    told = {
        key: (configured[key]["unit"], configured[key]["meaning"])
        for key in axes & configured.keys()
    }
    dataset.write(data, [one for one, _ in kept], folder, told)
    failed = [(one.point, one.error or "") for one in finished.failures]
    failures = dataset.failures(failed)
    return _shown(
        Sweep(data, failures, designs, list(axes), [], folder, finished.interrupted), told
    )


def _shown(done: Sweep, told: Mapping[str, tuple[str, str]]) -> Sweep:
    """The sweep with its figures and its page. `told` is unit and meaning of keys."""
    from perdure.experiments import sweep_charts
    from perdure.experiments.report import of_sweep

    drawn = sweep_charts.save(list(done.rows()), done.keys, done.designs, done.out)
    page = of_sweep.write(done, drawn, told)
    return replace(
        done, figures=[path for files in drawn.values() for path in files.values()], report=page
    )


def _varied(
    template: Point, axes: Mapping[str, Sequence[str]], designs: Sequence[str]
) -> list[tuple[Point, dict[str, str]]]:
    """Every design with every combination of values, and with each what was chosen."""
    asked = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        overrides = tuple(f"{key}={value}" for key, value in chosen.items())
        varied = replace(template, overrides=overrides, remark=" ".join(overrides))
        asked += [(replace(varied, design=name), chosen) for name in designs]
    return asked


def _folder(out: Path) -> Path:
    """Where everything will be kept, if it can be."""
    outputs.check_folder(out, files=("results.parquet", "statistics.parquet", "report.html"))
    for name in ("points", "figures"):
        outputs.check_folder(out / name)
    return out


def _refuse(designs: Sequence[str], commands: Sequence[Sequence[str]], region: str | None) -> None:
    if region is not None:
        raise PerdureError(region)
    if not designs:
        raise PerdureError("a sweep needs a design, as in --design ideal,picl")
    if not all(commands):
        raise PerdureError(
            "no program: write it after --, as in perdure sweep -- ./program argument"
        )


def _region_refused(warm_up: int | None, measure: int | None, threads: bool) -> str | None:
    """Why no point could have such a measured region, in the core's words."""
    if warm_up is not None and threads:
        return "--warm-up with --measure-threads: the second thread begins the region"
    if warm_up is not None and measure is None:
        return "--warm-up without --measure: say how many instructions to measure"
    return None


def _axes(given: Mapping[str, Values]) -> dict[str, list[str]]:
    """Every key with its values."""
    if not isinstance(given, Mapping):
        raise PerdureError(
            f"set={given!r}: give keys with their values, as in {{'picl.acs_gap': [1, 3]}}"
        )
    return {key: _listed(key, values) for key, values in given.items()}


def _listed(key: str, values: Values) -> list[str]:
    """The values of one key, spelled as in a configuration file."""
    several = [values] if isinstance(values, str | int | float | bool) else list(values)
    if not several:
        raise PerdureError(f"--set {key}: no value is given")
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in several]


def _program(words: Sequence[str], sysroot: api.Path | None) -> Program:
    """A program as the kernel finds it: in the sysroot if there is one, else on this host."""
    from perdure.experiments.point import Program, file_digest

    path = Path(words[0])
    if sysroot is not None and (
        "/" not in words[0] or (Path(sysroot) / words[0].lstrip("/")).exists()
    ):
        return Program(path.name, tuple(words), "")
    if not path.is_file():
        raise PerdureError(f"the program {path} does not exist")
    return Program(path.name, (str(path.resolve()), *words[1:]), file_digest(path))


def _surroundings(
    sysroot: api.Path | None,
    mounts: Sequence[str],
    environment: Mapping[str, str] | Sequence[str],
    stdin: api.Path | None,
    pmem: api.Path | None,
) -> Surroundings:
    from perdure.experiments.point import (
        Surroundings,
        file_digest,
        sysroot_digest,
        tree_digest,
    )

    digests = []
    resolved = []
    if sysroot is not None:
        if not Path(sysroot).is_dir():
            raise PerdureError(
                f"--sysroot {fspath(sysroot)}: not a directory; 'perdure sysroot "
                f"{fspath(sysroot)}' makes one"
            )
        digests.append(sysroot_digest(Path(sysroot)))
    for mount in requests.texts(mounts):
        host, _, guest = mount.rpartition(":")
        if not Path(host).is_dir():
            raise PerdureError(f"--mount {mount}: {host or 'nothing'} is no directory")
        resolved.append(f"{Path(host).resolve()}:{guest}")
        digests.append(f"{guest}={tree_digest([Path(host)])}")
    if stdin is not None:
        digests.append(file_digest(Path(stdin)))
    if pmem is not None and pools.exist(Path(pmem)):
        digests.append(f"/pmem={tree_digest([Path(pmem)])}")
    return Surroundings(
        sysroot=None if sysroot is None else str(Path(sysroot).resolve()),
        mounts=tuple(resolved),
        environment=tuple(requests.assignments(environment)),
        stdin=None if stdin is None else str(Path(stdin).resolve()),
        digest=hashlib.sha256("\n".join(digests).encode()).hexdigest()[:32] if digests else "",
    )

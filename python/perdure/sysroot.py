"""Folders of unmodified Debian riscv64 packages, for `--sysroot`.

Always true here: packages come from the Debian mirror that this machine already uses, are checked
against Debian's keys by apt, and land below one folder; nothing of the machine's own package
database is read or changed, no script of a package runs, and no root rights are needed. A sysroot
is made beside its place and moved there when it is whole: one that fails leaves nothing, and what
was there as it was. Running twice changes nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure import PerdureError, maintainer, outputs

SUITE = "trixie"
"""The first Debian release that carries riscv64 on the ordinary mirrors."""

DEBIAN_SUITES = frozenset(
    ("stable", "testing", "unstable", "sid", "bullseye", "bookworm", "trixie", "forky", "duke")
)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MERGED_FOLDERS = ("bin", "sbin", "lib")
"""Top-level folders that Debian keeps as symbolic links into /usr."""

FORMAT = "2"
"""Of what a sysroot holds; one of another format is made anew when it is next asked for."""

AT_FDCWD = -100
RENAME_EXCHANGE = 2

Report = Callable[[str], object]


@dataclass(frozen=True)
class Source:
    """One place that apt takes packages from."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None

    @property
    def is_debian(self) -> bool:
        """Whether this is a Debian mirror's main archive (not security, updates or others')."""
        names_debian = "debian" in self.uri or "debian" in (self.signed_by or "")
        return names_debian and self.suite in DEBIAN_SUITES and "main" in self.components


@dataclass(frozen=True)
class Package:
    """One package of apt's plan."""

    name: str
    version: str
    architecture: str

    @property
    def file_name(self) -> str:
        """The name under which apt stores it."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


def one_line_sources(text: str) -> list[Source]:
    """Reads a `sources.list`: `deb [options] uri suite component…`, one a line."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            options, uri, suite, components = match.groups()
            signed_by = re.search(r"signed-by=(\S+)", options or "", re.IGNORECASE)
            found.append(
                Source(uri, suite, tuple(components.split()), signed_by and signed_by.group(1))
            )
    return found


def deb822_sources(text: str) -> list[Source]:
    """Reads a `.sources` file: paragraphs of `Field: value`, continued by indented lines."""
    found = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')} {line.strip()}"
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
            continue
        # A Signed-By may hold a whole key instead of a file's name.
        signed_by = fields.get("signed-by", "")
        found += [
            Source(
                uri,
                suite,
                tuple(fields.get("components", "").split()),
                signed_by if signed_by.startswith("/") else None,
            )
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        ]
    return found


def configured_sources(apt: Path = Path("/etc/apt")) -> list[Source]:
    """Every source that this machine's apt is configured with."""
    folder = apt / "sources.list.d"
    found: list[Source] = []
    for path in [apt / "sources.list", *sorted(folder.glob("*"))]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".sources":
            found += deb822_sources(text)
        elif path.suffix == ".list":
            found += one_line_sources(text)
    return found


def debian_mirror(sources: Iterable[Source]) -> Source | None:
    """The first Debian mirror among the sources."""
    return next((source for source in sources if source.is_debian), None)


def unavailable() -> str | None:
    """Why this machine cannot make a sysroot, and what it would need; None if it can."""
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        return (
            f"a sysroot is made by {' and '.join(missing)}, which this machine lacks: install "
            "apt and dpkg, or unpack Debian riscv64 packages into a folder by other means and "
            "pass it as --sysroot"
        )
    if debian_mirror(configured_sources()) is None:
        return (
            "no Debian mirror is configured under /etc/apt (looked in sources.list and "
            f"sources.list.d): name one with --mirror, for instance one that carries {SUITE}"
        )
    return None


def make(
    directory: Path,
    packages: Sequence[str],
    *,
    mirror: str | None = None,
    suite: str = SUITE,
    report: Report = print,
) -> list[Package]:
    """Puts Debian riscv64 `packages` and what they depend on into `directory`.

    Returns the packages that were unpacked now: none when all were there already. `report` is
    told what happens, one line at a time.

    Raises:
        PerdureError: a tool or a mirror is missing, a package does not exist, or the mirror
            refuses; the message says which, and what to do.
    """
    for name in packages:
        # Anything else would be read by apt as an option, a file or a pattern.
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
            raise PerdureError(
                f"{name!r} is not the name of a Debian package: names are separated by commas, as "
                "in --packages sqlite3,lua5.4"
            )
    directory = directory.resolve()
    if directory.exists() and not directory.is_dir():
        raise PerdureError(f"cannot make the sysroot {outputs.shown(directory)}: it is a file")
    outputs.check_folder(directory, "sysroot")
    state = directory / ".perdure"
    if directory.is_dir() and any(directory.iterdir()) and not state.is_dir():
        raise PerdureError(
            f"{outputs.shown(directory)} is neither empty nor a sysroot that this command made"
        )
    requested = _lines(state / "requested")
    current = _lines(state / "format") == {FORMAT}
    if packages and set(packages) <= requested and current:
        report(f"{directory} has {', '.join(packages)} already")
        return []
    source = _source(mirror, suite)
    wanted = packages if current else sorted(requested | set(packages))
    try:
        with _beside(directory) as fresh:
            unpacked = _filled(fresh, wanted, source, _lines(state / "unpacked"), report)
            _write_lines(fresh / ".perdure/requested", requested | set(packages))
            _write_lines(fresh / ".perdure/format", {FORMAT})
    except OSError as error:
        raise PerdureError(
            f"cannot make the sysroot {outputs.shown(directory)}: {error.strerror or error} "
            f"({outputs.shown(str(error.filename or directory))})"
        ) from error
    return unpacked


def _filled(
    directory: Path,
    packages: Sequence[str],
    source: Source,
    known: set[str],
    report: Report,
) -> list[Package]:
    """Adds packages, and what they depend on, to a folder that nobody uses yet."""
    state = directory / ".perdure"
    apt = _Apt(_prepared(directory, source))
    report(f"mirror: {source.uri} ({source.suite}, riscv64)")
    apt.run("update")
    plan = apt.plan(packages)
    unpacked = known if _lines(state / "format") == {FORMAT} else set()
    fresh = [package for package in plan if package.file_name not in unpacked]
    if fresh:
        apt.run("install", "--download-only", "--yes", *packages)
    for package in fresh:
        archive = state / "cache/archives" / package.file_name
        megabytes = archive.stat().st_size / 1e6 if archive.exists() else 0.0
        control = state / "scripts" / package.name
        shutil.rmtree(control, ignore_errors=True)
        control.parent.mkdir(exist_ok=True)
        _call(["dpkg-deb", "--control", str(archive), str(control)])
        _call(["dpkg-deb", "--extract", str(archive), str(directory)])
        report(f"{package.name} {package.version} ({megabytes:.1f} MB)")
        unpacked.add(package.file_name)
        archive.unlink(missing_ok=True)
    _write_lines(state / "unpacked", unpacked)
    scripts = {
        path.parent.name: path.read_text(errors="replace")
        for path in sorted((state / "scripts").glob("*/postinst"))
    }
    maintainer.finish(directory, scripts)
    for name in ("apt.conf", "sources.list"):
        (state / name).unlink()
    shutil.rmtree(state / "cache")
    return fresh


@contextmanager
def _beside(directory: Path) -> Iterator[Path]:
    """A copy of a folder beside it, which takes its place when the block ends without an error.

    Files are linked, not copied: whoever changes one replaces it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name[:64]}.unfinished-"
    for left in directory.parent.glob(f"{prefix}*"):
        if not Path("/proc", left.name.removeprefix(prefix)).exists():
            shutil.rmtree(left, ignore_errors=True)
    fresh = directory.with_name(f"{prefix}{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        if directory.is_dir():
            shutil.copytree(directory, fresh, symlinks=True, copy_function=_linked)
        else:
            fresh.mkdir()
        yield fresh
        _exchange(fresh, directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _exchange(fresh: Path, directory: Path) -> None:
    """Gives a new folder the place of an old one; what was there is then where the new one was."""
    if not directory.exists():
        fresh.rename(directory)
        return
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(fresh), os.fsencode(directory)
    if library.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return
    # A filesystem that cannot exchange two names at once: the old one steps aside first.
    aside = fresh.with_name(f"{fresh.name}-old")
    directory.rename(aside)
    try:
        fresh.rename(directory)
    except OSError:
        aside.rename(directory)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _source(mirror: str | None, suite: str) -> Source:
    """The mirror to use: the one named, or the configured one, at the release wanted."""
    keyring = str(KEYRING)
    if mirror is None:
        reason = unavailable()
        configured = debian_mirror(configured_sources())
        if reason is not None or configured is None:
            raise PerdureError(reason or "no Debian mirror is configured")
        mirror, keyring = configured.uri, configured.signed_by or keyring
    if not Path(keyring).exists():
        raise PerdureError(
            f"Debian's keys are missing ({keyring}): install the package debian-archive-keyring"
        )
    return Source(mirror, suite, ("main",), keyring)


def _prepared(directory: Path, source: Source) -> Path:
    """Lays out the sysroot's folders and an apt of its own; returns its configuration file."""
    state = directory / ".perdure"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    for name in MERGED_FOLDERS:
        (directory / "usr" / name).mkdir(parents=True, exist_ok=True)
        link = directory / name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(f"usr/{name}")
    (state / "status").touch()
    (state / "sources.list").write_text(
        f"deb [arch=riscv64 signed-by={source.signed_by}] "
        f"{source.uri} {source.suite} {' '.join(source.components)}\n"
    )
    settings = {
        "APT::Architecture": "riscv64",
        "APT::Architectures": "riscv64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        "Debug::NoLocking": "true",
        "Dir::Cache": f"{state}/cache",
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::sourcelist": f"{state}/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": str(state),
        "Dir::State::lists": f"{state}/lists",
        "Dir::State::status": f"{state}/status",
    }
    configuration = state / "apt.conf"
    lines = [*_transport_settings(), *(f'{key} "{value}";' for key, value in settings.items())]
    configuration.write_text("\n".join(lines) + "\n")
    return configuration


def _transport_settings() -> list[str]:
    """How this machine's apt reaches the network (proxies, certificates), and nothing else of it.

    Hooks of the machine's configuration must not run for a sysroot, so the rest stays out.
    """
    dump = _call(["apt-config", "dump", "Acquire"])
    return [line for line in dump.splitlines() if re.match(r'Acquire::https?::\S+ "', line)]


@dataclass(frozen=True)
class _Apt:
    """apt-get under the sysroot's own configuration."""

    configuration: Path

    def run(self, *arguments: str) -> str:
        environment = {**os.environ, "APT_CONFIG": str(self.configuration), "LC_ALL": "C"}
        return _call(["apt-get", "--quiet", *arguments], environment)

    def plan(self, packages: Sequence[str]) -> list[Package]:
        """What apt would install: the packages with all that they depend on."""
        simulation = self.run("install", "--simulate", *packages)
        found = re.findall(r"^Inst (\S+) \((\S+) .*\[(\w+)\]\)", simulation, re.MULTILINE)
        return [Package(name.partition(":")[0], version, kind) for name, version, kind in found]


def _call(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """Runs a command and returns its output."""
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, errors="replace"
        )
    except FileNotFoundError as error:
        raise PerdureError(f"{command[0]} is not installed: install apt and dpkg") from error
    # `apt-get update` exits 0 although it fetched nothing, with the failure as a warning.
    failures = re.findall(
        r"^(?:E:|W: Failed|Err:).*", f"{done.stderr}\n{done.stdout}", re.MULTILINE
    )
    if done.returncode != 0 or any("Failed to fetch" in line for line in failures):
        said = "\n  ".join(dict.fromkeys(failures)) or done.stderr.strip() or "no reason given"
        raise PerdureError(
            f"{command[0]} failed; it needs the configured Debian mirror within reach, with "
            f"{SUITE} or the suite named by --suite, and says:\n  {said}"
        )
    return done.stdout


def _lines(path: Path) -> set[str]:
    return set(path.read_text().split()) if path.exists() else set()


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in sorted(lines)))

"""What the maintainer scripts of Debian packages would have made in a sysroot.

Always true here: no script is run; the scripts, and the tables that packages bring for systemd, are
read for the few things that programs miss without them: users, alternatives' links, directories,
modes. What a script would compute is left out. Every path is followed inside the sysroot, so that
a link in it never leads out; a file that is there already is kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdure import outputs

USER_ID = 1000
"""Of every guest; its name is `user`."""

FIRST_SYSTEM_ID = 100
LINKS_MOST = 40

PASSWD = (
    "root:x:0:0:root:/root:/bin/sh",
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
    "bin:x:2:2:bin:/bin:/usr/sbin/nologin",
    "sys:x:3:3:sys:/dev:/usr/sbin/nologin",
    "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin",
    "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin",
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    f"user:x:{USER_ID}:{USER_ID}:user:/home/user:/bin/sh",
)
GROUP = (
    "root:x:0:", "daemon:x:1:", "bin:x:2:", "sys:x:3:", "adm:x:4:", "tty:x:5:", "disk:x:6:",
    "mail:x:8:", "www-data:x:33:", "utmp:x:43:", "staff:x:50:", "games:x:60:", "users:x:100:",
    "nogroup:x:65534:", f"user:x:{USER_ID}:",
)  # fmt: skip

FILES = {
    "/etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    "/etc/host.conf": "multi on\n",
    "/etc/hostname": "perdure\n",
    "/etc/resolv.conf": "",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
    "networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n",
}
COPIES = {
    "/usr/share/base-files/profile": "/etc/profile",
    "/usr/share/base-files/motd": "/etc/motd",
    "/usr/share/base-files/dot.profile": "/root/.profile",
}
FOLDERS = {
    "/tmp": 0o1777, "/var/tmp": 0o1777, "/run": 0o755, "/run/lock": 0o1777, "/root": 0o700,
    "/home/user": 0o755, "/var/lib": 0o755, "/var/cache": 0o755, "/var/log": 0o755,
    "/var/mail": 0o775, "/etc/alternatives": 0o755, "/dev": 0o755, "/proc": 0o755,
}  # fmt: skip
LINKS = {"/var/run": "/run", "/var/lock": "/run/lock", "/etc/mtab": "../proc/self/mounts"}
SHELLS = ("sh", "bash", "rbash", "dash", "ksh", "mksh", "zsh", "fish", "tcsh")


@dataclass(frozen=True)
class Alternative:
    """One program among several for a name. `slaves` follow it: link, name and path of each."""

    link: str
    name: str
    path: str
    priority: int
    slaves: Sequence[tuple[str, str, str]] = ()


@dataclass
class Wishes:
    """What scripts and tables ask for, in their order."""

    alternatives: list[Alternative] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)
    """The home of each."""
    groups: dict[str, None] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """The mode of each."""
    modes: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def finish(root: Path, scripts: Mapping[str, str]) -> None:
    """Makes it all; `scripts` are the packages' `postinst` by name. Doing it again adds nothing.

    Raises:
        OSError: the host refuses something.
    """
    wishes = Wishes()
    for name in sorted(scripts):
        read_script(scripts[name], wishes)
    for table in _tables(root, "usr/lib/sysusers.d"):
        _read_users(table, wishes)
    for table in _tables(root, "usr/lib/tmpfiles.d"):
        _read_folders(table, wishes)
    for name, target in {**LINKS, **wishes.links}.items():
        _link(root, name, target)
    for name, mode in {**wishes.folders, **FOLDERS}.items():
        _folder(root, name, mode)
    for name, text in FILES.items():
        _file(root, name, text)
    for source, name in COPIES.items():
        if (original := _found(root, source)) is not None and original.is_file():
            _file(root, name, original.read_text(errors="surrogateescape"))
    _accounts(root, wishes)
    _certificates(root)
    _choose(root, wishes.alternatives)
    if _found(root, "/bin/sh") is None:
        for shell in ("dash", "bash"):
            if _found(root, f"/usr/bin/{shell}") is not None:
                _link(root, "/usr/bin/sh", shell)
                break
    shells = [f"{at}/{name}" for name in SHELLS for at in ("/bin", "/usr/bin")]
    known = [shell for shell in shells if _found(root, shell) is not None]
    _file(root, "/etc/shells", "".join(f"{line}\n" for line in ["# valid login shells", *known]))
    for name, mode in wishes.modes.items():
        if (path := _found(root, name)) is not None:
            path.chmod(mode)


def read_script(script: str, wishes: Wishes) -> None:
    """Reads one script."""
    for words in commands(script):
        program, rest = words[0].rpartition("/")[2], words[1:]
        if program == "update-alternatives" and "--install" in rest:
            _read_alternative(rest, wishes)
        elif program in {"adduser", "useradd"}:
            _read_user(rest, wishes)
        elif program in {"addgroup", "groupadd"}:
            wishes.groups.update(dict.fromkeys(_operands(rest)[:1]))
        elif program == "mkdir" or (program == "install" and {"-d", "--directory"} & set(rest)):
            _read_directory(rest, wishes)
        elif program == "dpkg-statoverride" and "--add" in rest:
            operands = _operands(rest)
            if len(operands) == 4 and re.fullmatch(r"[0-7]{3,5}", operands[2]):
                # Who may be somebody else by it is no matter of this host.
                wishes.modes[operands[3]] = int(operands[2], 8) & 0o777 | 0o600


def commands(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, with loops over words unrolled and constants put in.

    A command with anything that only running the script could tell is left out.
    """
    text = re.sub(r"\\\n\s*", " ", script)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"\bfor (\w+) in ([^;\n$`*]+)[;\n]\s*do\b(.*?)\bdone\b", _unrolled, text, flags=re.DOTALL
    )
    constants = dict(re.findall(r"^\s*(\w+)=[\"']?([\w./+-]+)[\"']?\s*$", text, re.MULTILINE))
    for piece in re.split(r"[\n;()]|&&|\|\|?|\bthen\b|\belse\b|\bdo\b", text):
        line = re.sub(r"\s*\d?>>?\s*(?:&\d|\S+)", "", piece)
        line = re.sub(
            r"\$(?:\{(\w+)\}|(\w+))", lambda name: constants.get(name[1] or name[2], name[0]), line
        )
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        while words and words[0] in {"if", "!", "while", "exec", "{"}:
            words = words[1:]
        if words and not any(mark in word for word in words for mark in "$`*?"):
            yield words


def _unrolled(loop: re.Match[str]) -> str:
    """A loop's body once for each of its words."""
    name, listed, body = loop.groups()
    once = re.compile(rf"\$(?:\{{{name}\}}|{name}\b)")
    return "\n".join(once.sub(word, body) for word in listed.replace('"', "").split())


def _read_alternative(words: Sequence[str], wishes: Wishes) -> None:
    parts = list(words[words.index("--install") + 1 :])
    if len(parts) < 4 or not re.fullmatch(r"-?\d+", parts[3]):
        return
    slaves = [
        (parts[at + 1], parts[at + 2], parts[at + 3])
        for at in range(4, len(parts) - 3)
        if parts[at] == "--slave"
    ]
    wishes.alternatives.append(Alternative(parts[0], parts[1], parts[2], int(parts[3]), slaves))


VALUED = {
    "--home", "--home-dir", "-d", "--shell", "-s", "--gecos", "--comment", "-c", "--ingroup", "-g",
    "--gid", "--uid", "-u", "-G", "--groups", "-m", "--mode", "-o", "--owner", "--group",
    "--base-dir", "-b", "--firstuid", "--lastuid",
}  # fmt: skip
"""Options of these programs whose value is the next word."""


def _operands(words: Sequence[str], valued: Iterable[str] = VALUED) -> list[str]:
    """The words that are neither options nor their values."""
    found = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in valued
        else:
            found.append(word)
    return found


def _value(words: Sequence[str], *options: str) -> str | None:
    """The value of an option."""
    for at, word in enumerate(words):
        if word in options and at + 1 < len(words):
            return words[at + 1]
        for option in options:
            if word.startswith(f"{option}="):
                return word.partition("=")[2]
    return None


def _read_user(words: Sequence[str], wishes: Wishes) -> None:
    flags = {"--group"} if "--system" in words else set()
    operands = _operands(words, VALUED - flags)
    if operands and re.fullmatch(r"[a-z_][a-z0-9_-]*", operands[0]):
        home = _value(words, "--home", "--home-dir", "-d") or "/nonexistent"
        wishes.users.setdefault(operands[0], home)
        # A second word of adduser is a group that the user joins.
        wishes.groups.update(dict.fromkeys(operands))


def _read_directory(words: Sequence[str], wishes: Wishes) -> None:
    valued = {"-m", "--mode", "-o", "--owner", "-g", "--group"}
    mode = _value(words, "-m", "--mode") or ""
    for name in _operands(words, valued):
        if name.startswith("/") and ".." not in name:
            octal = re.fullmatch(r"[0-7]{3,4}", mode)
            wishes.folders[name] = int(mode, 8) | 0o700 if octal else 0o755


def _tables(root: Path, folder: str) -> list[str]:
    """The tables of a folder of systemd's, in the order of their names."""
    place = _found(root, folder)
    if place is None or not place.is_dir():
        return []
    paths = sorted(
        path for path in place.glob("*.conf") if path.is_file() and not path.is_symlink()
    )
    return [path.read_text(errors="replace") for path in paths]


def _read_users(table: str, wishes: Wishes) -> None:
    """Reads lines of sysusers.d: `u NAME ID "GECOS" HOME SHELL`, `g NAME ID`."""
    for words in _fields(table):
        if len(words) < 2 or not re.fullmatch(r"[a-z_][a-z0-9_-]*", words[1]):
            continue
        if words[0].rstrip("!") == "u":
            home = words[4] if len(words) > 4 and words[4] != "-" else "/nonexistent"
            wishes.users.setdefault(words[1], home)
        if words[0].rstrip("!") in {"u", "g"}:
            wishes.groups.setdefault(words[1])


def _read_folders(table: str, wishes: Wishes) -> None:
    """Reads lines of tmpfiles.d: `d PATH MODE …` for a folder, `L PATH - - - - TARGET` a link."""
    for words in _fields(table):
        if len(words) < 2 or not words[1].startswith("/") or {"%", "*", ".."} & set(words[1]):
            continue
        kind = words[0].rstrip("!+-=~^$")
        if kind in {"d", "D", "q", "Q", "v"}:
            mode = words[2].lstrip(":~") if len(words) > 2 else "-"
            octal = re.fullmatch(r"[0-7]{3,4}", mode)
            wishes.folders[words[1]] = int(mode, 8) | 0o700 if octal else 0o755
        elif kind == "L" and len(words) > 6:
            wishes.links[words[1]] = words[6]


def _fields(table: str) -> Iterator[list[str]]:
    for line in table.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield shlex.split(line)
            except ValueError:
                continue


def inside(root: Path, name: str) -> Path:
    """Where a guest's path is on this host, with every link on the way followed in the sysroot.

    Raises:
        OSError: links lead round in circles.
    """
    waiting = [part for part in reversed(name.split("/")) if part not in {"", "."}]
    at = root
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = at if at == root else at.parent
            continue
        step = at / part
        if not step.is_symlink():
            at = step
            continue
        links += 1
        if links > LINKS_MOST:
            raise OSError(f"{name}: too many links")
        target = str(step.readlink())
        at = root if target.startswith("/") else at
        waiting += [one for one in reversed(target.split("/")) if one not in {"", "."}]
    return at


def _found(root: Path, name: str) -> Path | None:
    """The file or folder at a guest's path, if there is one."""
    try:
        path = inside(root, name)
    except OSError:
        return None
    return path if path.exists() else None


def _place(root: Path, name: str) -> Path:
    """The path itself, a link included; its folder is made."""
    folder, _, last = name.rstrip("/").rpartition("/")
    parent = inside(root, folder)
    parent.mkdir(parents=True, exist_ok=True)
    return parent / last


def _folder(root: Path, name: str, mode: int) -> None:
    path = inside(root, name)
    if path.exists() and not path.is_dir():
        return
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    if made or name in FOLDERS:
        path.chmod(mode)


def _file(root: Path, name: str, text: str) -> None:
    """Writes a file, unless there is one."""
    path = _place(root, name)
    if not path.is_symlink() and not path.exists():
        path.write_text(text, errors="surrogateescape")


def _link(root: Path, name: str, target: str) -> None:
    """Makes a link, unless something is there; a folder that is empty gives way."""
    path = _place(root, name)
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
    if not path.is_symlink() and not path.exists():
        path.symlink_to(target)


def _accounts(root: Path, wishes: Wishes) -> None:
    """Names all users and groups, with numbers that stay what they were."""
    users = _entries(root, "/etc/passwd", PASSWD)
    groups = _entries(root, "/etc/group", GROUP)
    taken = {int(line.split(":")[2]) for line in [*users.values(), *groups.values()]}
    free = (number for number in range(FIRST_SYSTEM_ID + 1, USER_ID) if number not in taken)
    for name in [*wishes.groups, *wishes.users]:
        if name not in groups:
            groups[name] = f"{name}:x:{next(free)}:"
    for name, home in wishes.users.items():
        if name not in users:
            number = groups[name].split(":")[2]
            users[name] = f"{name}:x:{number}:{number}::{home}:/usr/sbin/nologin"
    for path, entries in (("/etc/passwd", users), ("/etc/group", groups)):
        outputs.write_text(_place(root, path), "".join(f"{one}\n" for one in entries.values()))


def _entries(root: Path, name: str, known: Sequence[str]) -> dict[str, str]:
    """The lines of a table of accounts by name: those that are there, then those known."""
    path = _found(root, name)
    there = [] if path is None else path.read_text(errors="replace").splitlines()
    entries: dict[str, str] = {}
    for line in [*there, *known]:
        fields = line.split(":")
        if len(fields) >= 3 and fields[2].isdecimal():
            entries.setdefault(fields[0], line)
    return entries


def _certificates(root: Path) -> None:
    """The authorities of ca-certificates in one file."""
    folder = _found(root, "/usr/share/ca-certificates")
    if folder is not None:
        texts = [path.read_text(errors="replace") for path in sorted(folder.rglob("*.crt"))]
        _file(root, "/etc/ssl/certs/ca-certificates.crt", "".join(texts))


def _choose(root: Path, alternatives: Sequence[Alternative]) -> None:
    """For each name, the alternative of the highest priority whose program is there."""
    best: dict[str, Alternative] = {}
    for one in alternatives:
        there = _found(root, one.path) is not None
        if there and (one.name not in best or one.priority > best[one.name].priority):
            best[one.name] = one
    for one in best.values():
        for link, name, path in [(one.link, one.name, one.path), *one.slaves]:
            if _found(root, path) is None or "/" in name:
                continue
            chosen = _place(root, f"/etc/alternatives/{name}")
            if chosen.is_symlink() or not chosen.exists():
                chosen.unlink(missing_ok=True)
                chosen.symlink_to(path)
            _link(root, link, f"/etc/alternatives/{name}")

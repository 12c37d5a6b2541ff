"""Sysroots: reading apt's sources, refusing clearly, whole or not at all. No network here."""

import pytest

DEB822 = """\
# comment
Types: deb
# http://snapshot.debian.org/archive/debian/20250520T000000Z
URIs: http://mirror.example.org/debian
 http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security
Components: main contrib

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: trixie
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: trixie
Components: main

Types: deb
URIs: http://key.example/debian
Suites: sid
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS/xcRfwEQWzr
"""

ONE_LINE = """\
# deb http://old.example/debian bookworm main
deb https://packages.cloud.google.com/apt cloud-sdk-bookworm main
deb [arch=amd64 signed-by=/k.gpg] https://download.docker.com/linux/debian bookworm stable
deb-src http://mirror.example.org/debian trixie main
deb http://mirror.example.org/debian-security bookworm-security main
  deb [ signed-by=/usr/share/d.gpg arch=amd64 ] http://ftp.example/debian trixie main contrib # x
"""


def test_deb822_sources():
    from perdure import sysroot

    found = sysroot.deb822_sources(DEB822)
    assert [(source.uri, source.suite) for source in found] == [
        ("http://mirror.example.org/debian", "bookworm"),
        ("http://mirror.example.org/debian", "bookworm-updates"),
        ("http://mirror.example/debian", "bookworm"),
        ("http://mirror.example/debian", "bookworm-updates"),
        ("http://mirror.example.org/debian-security", "bookworm-security"),
        ("http://key.example/debian", "sid"),
    ]
    assert found[0].signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert found[-1].signed_by is None
    assert [source.suite for source in found if source.is_debian] == ["bookworm"] * 2 + ["sid"]


def test_one_line_sources():
    from perdure import sysroot

    mirror = sysroot.debian_mirror(sysroot.one_line_sources(ONE_LINE))
    assert mirror == sysroot.Source(
        "http://ftp.example/debian", "trixie", ("main", "contrib"), "/usr/share/d.gpg"
    )


def test_sources_of_a_machine(tmp_path):
    from perdure import sysroot

    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / "debian.sources").write_text(DEB822)
    (folder / "other.list").write_text(ONE_LINE)
    (folder / "ignored.save").write_text("deb http://wrong.example/debian trixie main\n")
    found = sysroot.configured_sources(tmp_path)
    assert sysroot.debian_mirror(found).uri == "http://mirror.example.org/debian"
    assert not any("wrong" in source.uri for source in found)
    assert sysroot.configured_sources(tmp_path / "nowhere") == []


def test_a_machine_without_apt_is_told_what_is_needed(monkeypatch, tmp_path):
    from perdure import PerdureError, sysroot

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PerdureError, match="install apt and dpkg"):
        sysroot.make(tmp_path / "root", ["libc6"])


def test_a_machine_without_a_debian_mirror_is_told_of_the_option(monkeypatch, tmp_path):
    from perdure import PerdureError, sysroot

    monkeypatch.setattr(sysroot.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(sysroot, "configured_sources", lambda: [])
    with pytest.raises(PerdureError, match="--mirror"):
        sysroot.make(tmp_path / "root", ["libc6"])


@pytest.mark.parametrize("name", ["", "-o", "--help", "./file.deb", "a b", "Libc6", "x*"])
def test_only_names_of_packages_reach_apt(name, tmp_path):
    from perdure import PerdureError, sysroot

    with pytest.raises(PerdureError, match="not the name of a Debian package"):
        sysroot.make(tmp_path / "root", [name])


def test_what_is_there_already_is_not_fetched_again(tmp_path):
    from perdure import sysroot

    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure/requested").write_text("libc6\nsqlite3\n")
    (tmp_path / ".perdure/format").write_text("2\n")
    said = []
    assert sysroot.make(tmp_path, ["sqlite3"], report=said.append) == []
    assert "already" in said[0]


def test_apt_stores_epochs_in_file_names_escaped():
    from perdure import sysroot

    assert sysroot.Package("zlib1g", "1:1.3-1", "riscv64").file_name == (
        "zlib1g_1%3a1.3-1_riscv64.deb"
    )


POSTINST = {"beta": "update-alternatives --install /usr/bin/letter letter /usr/bin/beta 20\n"}


@pytest.fixture
def mirror(core, monkeypatch):
    """A mirror of packages `alpha`, `beta` and `gamma`; a call of a name in `broken` fails."""
    from perdure import PerdureError, sysroot

    broken = {}

    def call(command, environment=None):
        for word, error in broken.items():
            if any(word in one for one in command):
                raise error
        if command[0] == "apt-get" and "--simulate" in command:
            asked = command[command.index("--simulate") + 1 :]
            return "".join(f"Inst {name} (1.0 Debian [riscv64])\n" for name in asked)
        if command[:2] == ["dpkg-deb", "--extract"]:
            name = command[2].rpartition("/")[2].partition("_")[0]
            program = sysroot.Path(command[3]) / "usr/bin" / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.unlink(missing_ok=True)
            program.write_text(name)
        if command[:2] == ["dpkg-deb", "--control"]:
            folder = sysroot.Path(command[3])
            folder.mkdir()
            (folder / "postinst").write_text(POSTINST.get(folder.name, "#!/bin/sh\n"))
        return ""

    monkeypatch.setattr(sysroot, "_call", call)
    monkeypatch.setattr(
        sysroot, "_source", lambda *_: sysroot.Source("http://m", "trixie", ("main",), "/k")
    )
    broken["broken"] = PerdureError("no such package")
    return broken


def listing(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_packages_add_up(mirror, tmp_path):
    from perdure import sysroot

    root = tmp_path / "root"
    sysroot.make(root, ["alpha"], report=lambda _: None)
    (root / "etc/own").write_text("mine")
    fresh = sysroot.make(root, ["beta", "alpha"], report=lambda _: None)
    assert [package.name for package in fresh] == ["beta"]
    assert (root / "bin/alpha").read_text() == "alpha"
    assert (root / "usr/bin/letter").readlink() == sysroot.Path("/etc/alternatives/letter")
    assert (root / "etc/alternatives/letter").readlink() == sysroot.Path("/usr/bin/beta")
    assert (root / "etc/own").read_text() == "mine"
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert (root / "var/run").readlink() == sysroot.Path("/run")
    assert "user:x:1000:1000:" in (root / "etc/passwd").read_text()
    assert "localhost" in (root / "etc/hosts").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
    assert sysroot.make(root, ["beta"], report=lambda _: None) == []


@pytest.mark.parametrize("where", ["update", "--download-only", "gamma_", "--extract"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError, None])
def test_a_sysroot_that_fails_leaves_nothing_and_the_old_one_whole(where, kind, mirror, tmp_path):
    from perdure import PerdureError, sysroot

    error = PerdureError("it failed") if kind is None else kind(28, "No space left on device")
    root = tmp_path / "root"
    mirror[where] = error
    with pytest.raises((KeyboardInterrupt, PerdureError)):
        sysroot.make(root, ["gamma"], report=lambda _: None)
    assert list(tmp_path.iterdir()) == []
    del mirror[where]
    sysroot.make(root, ["alpha"], report=lambda _: None)
    before = listing(root)
    mirror[where] = error
    with pytest.raises((KeyboardInterrupt, PerdureError)):
        sysroot.make(root, ["alpha", "gamma"], report=lambda _: None)
    assert listing(root) == before
    assert list(tmp_path.iterdir()) == [root]


def test_only_a_sysroot_or_an_empty_folder_is_filled(mirror, tmp_path):
    from perdure import PerdureError, sysroot

    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/a").write_text("private")
    (tmp_path / "file").write_text("")
    with pytest.raises(PerdureError, match="neither empty nor a sysroot"):
        sysroot.make(tmp_path / "letters", ["alpha"])
    with pytest.raises(PerdureError, match="it is a file"):
        sysroot.make(tmp_path / "file", ["alpha"])
    with pytest.raises(PerdureError, match=r"cannot write .*Not a directory"):
        sysroot.make(tmp_path / "file/below", ["alpha"])
    (tmp_path / "empty").mkdir()
    sysroot.make(tmp_path / "empty", ["alpha"], report=lambda _: None)
    assert (tmp_path / "empty/usr/bin/alpha").is_file()


def test_a_sysroot_of_an_older_format_is_made_anew(mirror, tmp_path):
    from perdure import sysroot

    root = tmp_path / "root"
    sysroot.make(root, ["beta"], report=lambda _: None)
    (root / ".perdure/format").unlink()
    (root / "etc/passwd").unlink()
    fresh = sysroot.make(root, ["alpha"], report=lambda _: None)
    assert [package.name for package in fresh] == ["alpha", "beta"]
    assert (root / "etc/passwd").is_file()


SCRIPT = r"""#!/bin/sh
set -e
# update-alternatives --install /usr/bin/no no /usr/bin/no 99
HOMEDIR=/var/lib/thing
case "$1" in
  configure)
    update-alternatives \
        --install /usr/bin/awk awk /usr/bin/mawk 5 \
        --slave /usr/share/man/man1/awk.1.gz awk.1.gz /usr/share/man/man1/mawk.1.gz \
        --slave /usr/bin/nawk nawk /usr/bin/mawk
    for name in vi view; do
        update-alternatives --quiet --install "/usr/bin/$name" ${name} /usr/bin/vim 30
    done
    update-alternatives --install /usr/bin/unknown unknown $(which it) 1
    adduser --system --quiet --home $HOMEDIR --no-create-home --group thing || true
    if ! getent passwd other > /dev/null; then useradd -r -d /srv/other -s /bin/false other; fi
    addgroup --system helpers 2>/dev/null
    mkdir -p -m 2750 $HOMEDIR /var/log/thing && chown thing: $HOMEDIR
    install -d -o thing -g thing -m 0755 /run/thing
    mkdir "$1/elsewhere" /etc/../../outside
    dpkg-statoverride --update --add root thing 04755 /usr/bin/mawk
    rm -rf / --no-preserve-root
  ;;
esac
"""


def test_scripts_are_read_and_not_run(core, tmp_path):
    from perdure import maintainer

    wishes = maintainer.Wishes()
    maintainer.read_script(SCRIPT, wishes)
    assert wishes.alternatives == [
        maintainer.Alternative(
            "/usr/bin/awk", "awk", "/usr/bin/mawk", 5,
            [
                ("/usr/share/man/man1/awk.1.gz", "awk.1.gz", "/usr/share/man/man1/mawk.1.gz"),
                ("/usr/bin/nawk", "nawk", "/usr/bin/mawk"),
            ],
        ),
        maintainer.Alternative("/usr/bin/vi", "vi", "/usr/bin/vim", 30, []),
        maintainer.Alternative("/usr/bin/view", "view", "/usr/bin/vim", 30, []),
    ]  # fmt: skip
    assert wishes.users == {"thing": "/var/lib/thing", "other": "/srv/other"}
    assert list(wishes.groups) == ["thing", "other", "helpers"]
    assert wishes.folders == {
        "/var/lib/thing": 0o2750, "/var/log/thing": 0o2750, "/run/thing": 0o755
    }  # fmt: skip
    assert wishes.modes == {"/usr/bin/mawk": 0o755}


def test_the_highest_priority_wins_and_links_never_lead_out(core, tmp_path):
    from perdure import maintainer

    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / "usr/bin").mkdir(parents=True)
    for name in ("mawk", "gawk"):
        (root / "usr/bin" / name).write_text(name)
    (root / "var").mkdir()
    (root / "var/log").symlink_to(outside)
    (root / "var/escape").symlink_to("../../../../../.." + str(outside))
    (root / "usr/lib/sysusers.d").mkdir(parents=True)
    (root / "usr/lib/sysusers.d/db.conf").write_text(
        'u db - "A database" /var/lib/db /bin/sh\ng tape 26\n# u no -\n'
    )
    (root / "usr/lib/tmpfiles.d").mkdir()
    (root / "usr/lib/tmpfiles.d/db.conf").write_text(
        "d /run/db 2775 db db -\nL /etc/db - - - - /run/db\nd /run/%i 0755\n"
    )
    scripts = {
        "mawk": "update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5",
        "gawk": "update-alternatives --install /usr/bin/awk awk /usr/bin/gawk 10",
        "none": "update-alternatives --install /usr/bin/awk awk /usr/bin/not-there 99\n"
        "mkdir -p /var/log/x /var/escape/y",
    }
    maintainer.finish(root, scripts)
    first = listing(root)
    assert str((root / "etc/alternatives/awk").readlink()) == "/usr/bin/gawk"
    assert str((root / "usr/bin/awk").readlink()) == "/etc/alternatives/awk"
    assert list(outside.iterdir()) == []
    assert "db:x:" in (root / "etc/passwd").read_text()
    assert "tape:x:" in (root / "etc/group").read_text()
    assert (root / "run/db").stat().st_mode & 0o7777 == 0o2775
    assert str((root / "etc/db").readlink()) == "/run/db"
    maintainer.finish(root, scripts)
    assert listing(root) == first

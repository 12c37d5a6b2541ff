"""Sysroots: reading apt's sources, and refusing clearly. Nothing here touches the network."""

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
    said = []
    assert sysroot.make(tmp_path, ["sqlite3"], report=said.append) == []
    assert "already" in said[0]


def test_apt_stores_epochs_in_file_names_escaped():
    from perdure import sysroot

    assert sysroot.Package("zlib1g", "1:1.3-1", "riscv64").file_name == (
        "zlib1g_1%3a1.3-1_riscv64.deb"
    )

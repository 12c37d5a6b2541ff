"""What the command answers: exit statuses, messages, and refusals of bad input.

Always true here: a refusal is status 2 and one message on standard error that names what is wrong;
a traceback is a failure of the test, whatever else is right.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TIMEOUT_SECONDS, Command, Ended

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))
import presets

ELF_HEADER_BYTES = 64


def assert_refused(ended: Ended, *said: str) -> None:
    """Status 2, nothing on standard output, one line that says each of `said`."""
    assert ended.status == 2, ended
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("perdure: ")
    for word in said:
        assert word in lines[0]


@pytest.fixture
def kv(programs: Path) -> Path:
    """A program that runs for some seconds of simulated time."""
    return programs / "kv"


def test_the_guest_s_status_is_the_command_s(
    command: Command, compiled: Callable[[str], Path]
) -> None:
    program = compiled("int main(int count, char **words) { return count + 1; }")
    assert command("run", "--", program, "one").status == 3
    assert command("run", "--design", "ideal", program, "--design", "x").status == 4


@pytest.mark.parametrize(
    ("how", "status", "signal", "instruction"),
    [
        ("illegal", 132, "SIGILL", None),
        ("load", 139, "SIGSEGV", r"ld \w+,16\(\w+\)"),
        ("store", 139, "SIGSEGV", r"s[bhwd] \w+,-?\d+\(\w+\)"),
        ("breakpoint", 133, "SIGTRAP", "ebreak"),
    ],
)
def test_a_fatal_signal_ends_as_in_a_shell_and_is_explained(
    how: str, status: int, signal: str, instruction: str | None, command: Command, programs: Path
) -> None:
    ended = command("run", "--", programs / "guests/fault", how)
    assert ended.status == status
    said = ended.stderr
    assert re.search(rf"^perdure: {signal}: \S", said, re.MULTILINE), said
    place = re.search(r"pc 0x[0-9a-f]+ \((\w+)\): (.+)$", said, re.MULTILINE)
    assert place, said
    assert place.group(1).startswith("die")
    if instruction is not None:
        assert re.fullmatch(instruction, place.group(2)), said
    if signal == "SIGSEGV":
        assert re.search(r"address 0x[0-9a-f]+$", said, re.MULTILINE), said


def test_refused_commands_are_named_at_the_end(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "refused.c"
    source.write_text(
        "#include <fcntl.h>\n#include <sys/prctl.h>\n#include <sys/ioctl.h>\n"
        "#include <sys/syscall.h>\n#include <unistd.h>\n"
        "int main(void) { fcntl(0, 1024, 0); prctl(22, 1, 2, 3, 4); ioctl(0, 0xc020660b, 1);\n"
        "ioctl(0, 0x5401, 1); syscall(444, 0, 0, 0); return 0; }\n"
    )
    program = tmp_path / "refused"
    subprocess.run(
        ["riscv64-linux-gnu-gcc", "-static", "-o", program, source],
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    ended = command("run", "--json", tmp_path / "result.json", "--", program)
    assert "programs fall back: landlock_create_ruleset\n" in ended.stderr
    assert "fcntl: commands that this kernel does not have, refused: F_SETLEASE\n" in ended.stderr
    assert "prctl: commands that this kernel does not have, refused: PR_SET_SECCOMP" in ended.stderr
    assert (
        "ioctl: commands that this kernel does not have, refused: FS_IOC_FIEMAP\n" in ended.stderr
    )
    result = json.loads((tmp_path / "result.json").read_text())
    call = {
        "kind": "system call",
        "number": 444,
        "name": "landlock_create_ruleset",
        "expected": False,
    }
    assert call in result["refused"]


def test_unknown_system_calls_are_named_once_at_the_end(
    command: Command, compiled: Callable[[str], Path]
) -> None:
    program = compiled("""
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            for (int i = 0; i < 3; i++) {
                long answer = syscall(4000, 1, 2, 3);
                if (answer != -1) return 1;
            }
            if (syscall(4001) != -1) return 1;
            puts("done");
            return 0;
        }
    """)
    ended = command("run", "--", program)
    assert (ended.status, ended.stdout) == (0, "done\n")
    assert ended.stderr.count("4000") == 1
    assert ended.stderr.count("4001") == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "ENOSYS" in ended.stderr


def test_output_goes_through_and_json_beside_it(
    command: Command, programs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    ended = command("run", "--json", file, "--", programs / "guests/sharing", "2", "100")
    assert ended.status == 0
    assert ended.stdout
    result = json.loads(file.read_text())
    for name in ("design", "machine", "config_hash", "state_hash", "exit_code"):
        assert result[name] is not None
    written = result["nvm"]["written_bytes"]
    assert written["total"] == sum(written[part] for part in ("data", "log", "metadata", "context"))
    assert result["sim"]["instructions"] > 0
    assert result["host"]["mips"] > 0


def test_a_run_that_is_stopped_early_is_no_failure(
    command: Command, kv: Path, tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    ended = command("run", "--stop-after", "1000000", "--json", file, "--", kv)
    assert ended.status == 0, ended.stderr
    result = json.loads(file.read_text())
    assert result["exit_code"] is None
    assert 1_000_000 <= result["sim"]["instructions"] < 1_100_000


def test_not_an_elf(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_text("a text\n")
    assert_refused(command("run", "--", file), "not an ELF")
    file.write_bytes(b"")
    assert_refused(command("run", "--", file), "program")


def test_no_such_program(command: Command) -> None:
    assert_refused(command("run", "--", "./nowhere"), "./nowhere", "no such program")


def test_a_folder_is_no_program(command: Command, tmp_path: Path) -> None:
    assert_refused(command("run", "--", tmp_path), tmp_path.name)


def test_what_is_no_file_is_no_program(command: Command, tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    os.mkfifo(waits)
    for name in (waits, "/dev/zero", "/dev/urandom"):
        assert_refused(command("run", "--", name), f"{name}: not a regular file")
        assert_refused(command("cut", "--cuts", "1", "--", name), f"{name}: not a regular file")


def test_texts_without_an_end(command: Command, kv: Path, tmp_path: Path) -> None:
    said = "/dev/zero: it is longer than 1 MiB"
    assert_refused(command("litmus", "/dev/zero"), said)
    replica = ("--to", "127.0.0.1:1", "--secret-file", "/dev/zero")
    assert_refused(command("replicate", *replica, "--", kv, "10"), f"the shared secret {said}")
    guests = ("--guests", tmp_path, "--unnoticed", "/dev/zero")
    assert_refused(command("mutants", "--only", "state", *guests), f"reading {said}")


@pytest.mark.parametrize("length", [5, ELF_HEADER_BYTES, 200, 5000])
def test_a_truncated_elf(length: int, command: Command, kv: Path, tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(kv.read_bytes()[:length])
    assert_refused(command("run", "--", file), "program")


def test_another_architecture_s_elf(command: Command, kv: Path, tmp_path: Path) -> None:
    assert_refused(command("run", "--", sys.executable), "RISC-V")
    file = tmp_path / "program"
    machine_arm64 = 183
    content = bytearray(kv.read_bytes())
    struct.pack_into("<H", content, 18, machine_arm64)
    file.write_bytes(content)
    assert_refused(command("run", "--", file), "RISC-V")


def test_a_missing_interpreter(command: Command, kv: Path, tmp_path: Path) -> None:
    """A static program with a PT_INTERP of its own making: the loader must ask for a sysroot."""
    content = bytearray(kv.read_bytes())
    (offset,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    interpreter = b"/lib/ld-linux-riscv64-lp64d.so.1\0"
    program_interpreter, load = 3, 1
    headers = [offset + index * size for index in range(count)]
    spare = next(at for at in headers if struct.unpack_from("<I", content, at) != (load,))
    struct.pack_into(
        "<IIQQQQQQ", content, spare,
        program_interpreter, 4, len(content), 0, 0, len(interpreter), len(interpreter), 1,
    )  # fmt: skip
    file = tmp_path / "program"
    file.write_bytes(content + interpreter)
    for sysroot in ((), ("--sysroot", tmp_path)):
        ended = command("run", *sysroot, "--", file)
        assert_refused(ended, "/lib/ld-linux-riscv64-lp64d.so.1", "sysroot")


def test_a_script_is_named_as_typed_and_sees_its_folder(
    command: Command, kv: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert_refused(
        command("run", "--", "./script"), "./script: it is a script for /bin/sh", "sysroot"
    )
    # Its interpreter, which stands beside it, complains of the path that it was given.
    shutil.copy(kv, tmp_path / "kv")
    script.write_text("#!./kv 7\n")
    ended = command("run", "--", "./script")
    assert ended.status == 2
    assert 'kv: SEED is "./script"' in ended.stderr


def test_no_instruction_is_blamed_for_a_signal_that_was_sent(
    command: Command, programs: Path
) -> None:
    ended = command("run", "--", programs / "guests/fault", "abort")
    assert ended.status == 134
    assert "SIGABRT: it found an error of its own and gave up (abort)" in ended.stderr
    assert "no instruction" not in ended.stderr
    jumped = command("run", "--", programs / "guests/fault", "jump")
    assert jumped.status == 139
    assert "no instruction there" in jumped.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "picl.acs_gapp=1"), "picl.acs_gap"),
        (("--set", "l1d.byte=1"), "l1d.bytes"),
        (("--set", "epoch.instructions=often"), "epoch.instructions"),
        (("--set", "epoch.instructions"), "epoch.instructions"),
        (("--set", "core.model=in-ordre"), "in-order"),
        (("--set", "l1d.bytes=64"), "l1d"),
        (("--set", "l1d.ways=0"), "l1d.ways"),
        (("--design", "picle"), "picl"),
        (("--design", "spms"), "take the machine spms"),
        (("--set", "cores=4"), "'harts', "),
        (("--machine", "picle"), "picl"),
        (("--machine", "/nowhere/machine.toml"), "/nowhere/machine.toml"),
        (("--harts", "100000"), "harts"),
        (("--harts", "2", "--set", "harts=4"), "--harts 2 and --set harts=4 both say"),
        (("--mount", "/nowhere:/data"), "/nowhere"),
        (("--mount", "nonsense"), "nonsense"),
        (("--stdin", "/nowhere"), "/nowhere"),
        (("--sysroot", "/nowhere"), "/nowhere"),
        (("--env", "nonsense"), "nonsense"),
    ],
)
def test_what_is_wrong_with_the_machine_is_named(
    words: tuple[str, ...], said: str, command: Command, kv: Path
) -> None:
    assert_refused(command("run", *words, "--", kv, "10"), said)


def test_the_same_number_of_harts_may_be_said_twice(command: Command) -> None:
    said = ("config", "--harts", "2", "--set", "harts=0x2", "--json", "-")
    assert json.loads(command(*said).stdout)["values"]["harts"]["value"] == 2


def test_a_machine_file_with_an_unknown_key(command: Command, kv: Path, tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    file.write_text("[l1d]\nbites = 32768\n")
    assert_refused(command("run", "--machine", file, "--", kv), "bites", "bytes")
    file.write_text("[l1d\n")
    assert command("run", "--machine", file, "--", kv).status == 2


@pytest.mark.parametrize("preset", ["picl", "nvoverlay"])
@pytest.mark.parametrize("design", ["picl", "nvoverlay"])
def test_config_explains_values_as_the_pages_of_presets_do(
    command: Command, preset: str, design: str
) -> None:
    ended = command("config", "--machine", preset, "--design", design, "--json", "-")
    known = json.loads(ended.stdout)["values"]
    of_page = {one.name: one for one in presets.effective(preset)}
    shared = of_page.keys() & known.keys()
    assert known.keys() - shared == {"design"}
    for name in shared:
        page, said = of_page[name], known[name]
        assert [page.meaning, page.source, page.decides] == [
            said["meaning"],
            said["source"],
            said["decides"],
        ], name


def test_a_log_that_cannot_hold_an_epoch(command: Command, kv: Path) -> None:
    keys = command("config").stdout
    assert "log" in keys
    ended = command(
        "run", "--set", "picl.log_region_bytes=4096", "--set", "picl.log_regions_max=1", "--", kv
    )
    assert ended.status == 2, ended


def test_more_cuts_than_a_list_holds_are_refused(command: Command, kv: Path) -> None:
    ended = command("cut", "--cuts", "9000000000000000000", "--", kv, "10")
    assert_refused(ended, "--cuts 9000000000000000000", "at most 100000000")


def test_a_cut_beyond_the_end(command: Command, kv: Path) -> None:
    ended = command("cut", "--at", "99999999999999", "--", kv, "10")
    assert_refused(ended, "99999999999999", "end of the run")


def test_one_cut_at_an_exact_cycle(command: Command, kv: Path) -> None:
    ended = command("cut", "--at", "1000000", "--resume", "all", "--json", "-", "--", kv, "500")
    assert ended.status == 0, ended.stderr
    (result,) = json.loads(ended.stdout)["results"]
    assert result["cycle"] == 1_000_000
    assert result["resumed"] is True


def test_a_run_that_ends_with_its_cut(command: Command, kv: Path) -> None:
    words = ("cut", "--at", "1000000", "--until-cut")
    ended = command(*words, "--json", "-", "--", kv, "500")
    assert ended.status == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["verified"] == 1 and report["run_cycles"] is None
    token = report["results"][0]["token"]
    assert command("replay", "--until-cut", token).status == 0
    assert_refused(command("cut", "--until-cut", "--", kv, "500"), "--at CYCLE")
    assert_refused(command(*words, "--resume", "all", "--", kv, "500"), "--resume")
    assert_refused(command(*words, "--check", "true", "--", kv, "500"), "--check")
    ended = command("cut", "--at", "99999999999999", "--until-cut", "--", kv, "10")
    assert_refused(ended, "99999999999999", "end of the run")


def test_damaged_tokens(command: Command, kv: Path) -> None:
    report = command("cut", "--cuts", "1", "--json", "-", "--", kv, "10")
    (result,) = json.loads(report.stdout)["results"]
    token = result["token"]
    assert command("replay", token).status == 0
    swapped = "A" if token[40] != "A" else "B"
    for damaged in (
        "",
        "p2-",
        "p2-aaaa",
        "p1-aaaa",
        token[:-10],
        token + "A",
        f"{token[:40]}{swapped}{token[41:]}",
        f"p9-{token[3:]}",
        "nonsense",
    ):
        assert_refused(command("replay", damaged), "token")


def test_a_token_of_a_program_that_has_changed(
    command: Command, kv: Path, programs: Path, tmp_path: Path
) -> None:
    program = tmp_path / "kv"
    program.write_bytes(kv.read_bytes())
    program.chmod(0o755)
    report = command("cut", "--cuts", "1", "--json", "-", "--", program, "10")
    token = json.loads(report.stdout)["results"][0]["token"]
    program.write_bytes((programs / "compute").read_bytes())
    assert_refused(command("replay", token), "changed")
    program.unlink()
    assert_refused(command("replay", token), "kv", "not found")


def test_a_planted_bug_that_does_not_exist(command: Command, kv: Path) -> None:
    ended = command("cut", "--planted-bug", "forwards-scan", "--", kv, "10")
    assert_refused(ended, "forwards-scan", "forward-scan")


def test_a_design_that_promises_nothing_has_no_planted_bugs(command: Command) -> None:
    assert_refused(command("mutants", "--design", "ideal"), "ideal", "picl")


def test_designs_machines_and_workloads_are_listed(command: Command) -> None:
    assert "picl" in command("list", "designs").stdout
    assert "picl" in command("list", "machines").stdout
    assert "kv" in command("list", "workloads").stdout


def test_a_printed_configuration_is_a_machine(command: Command, kv: Path, tmp_path: Path) -> None:
    saved = tmp_path / "machine.toml"
    printed = command("config", "--set", "picl.acs_gap=2")
    saved.write_text(printed.stdout)
    again = command("config", "--machine", saved, "--json", "-")
    assert json.loads(again.stdout)["values"]
    assert re.search(r"acs_gap = 2\b", json.loads(again.stdout)["toml"])
    assert command("run", "--machine", saved, "--", kv, "10").status == 0


def test_compare(command: Command, kv: Path, tmp_path: Path) -> None:
    file = tmp_path / "compare.json"
    ended = command("compare", "--designs", "ideal,picl", "--json", file, "--", kv, "500")
    assert ended.status == 0, ended.stderr
    ideal, picl = json.loads(file.read_text())["results"]
    assert ideal["nvm"]["written_bytes"]["log"] == 0 < picl["nvm"]["written_bytes"]["log"]
    assert ideal["sim"]["instructions"] == pytest.approx(picl["sim"]["instructions"], rel=0.01)

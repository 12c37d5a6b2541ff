"""Replicas, end to end: processes that are killed at any moment, and what is left then.

Always true here: what a replica should hold follows from the program's source alone. The program
keeps a counter and a table that belongs to it, so an epoch that is no cut of one run shows.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Command

import perdure
from perdure import Machine, PerdureError

PACKAGES = ("python3",)
ROUNDS = 3000
SUM = sum(range(1, ROUNDS + 1))
FOR_EVER = 10**12

# In round r, 512 words become r, the counter first and its echo last.
PROGRAM = """
#include <stdio.h>
volatile long counter, table[512], echo;
int main(void) {
    long sum = 0;
    for (long round = 1; round <= %d; round++) {
        counter = round;
        for (int pass = 0; pass < 20; pass++)
            for (int i = 0; i < 512; i++) table[i] = round;
        echo = round;
        sum += table[round %% 512];
        if (round %% 100 == 0) { printf("round %%ld\\n", round); fflush(stdout); }
    }
    printf("sum %%ld\\n", sum);
    return 7;
}
"""

PERDURE = Path(sys.executable).with_name("perdure")
EPOCHS = ("--set", "epoch.stores=5000")


@pytest.fixture
def program(compiled: Callable[[str], Path]) -> Path:
    return compiled(PROGRAM % ROUNDS)


class Replica:
    """`perdure replica` in a process, and what it says."""

    def __init__(self, directory: Path, secret: Path, address: str = "127.0.0.1:0") -> None:
        self.log = directory.with_suffix(".txt")
        words = [str(PERDURE), "replica", str(directory), "serve", "--listen", address]
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [*words, "--secret-file", str(secret)], stdout=output, stderr=subprocess.STDOUT
            )
        self.address = self.wait_for(r"listening on ([\d.]+:\d+)")

    def wait_for(self, pattern: str, seconds: float = 60) -> str:
        """Waits until it has said something like that; returns the part in brackets."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found.group(found.lastindex or 0)
            time.sleep(0.01)
        raise AssertionError(f"no '{pattern}': {self.log.read_text()}")

    def kill(self) -> None:
        """Ends it as a failing host would."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Callable[..., Replica]]:
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    started: list[Replica] = []

    def start(directory: Path, address: str = "127.0.0.1:0") -> Replica:
        started.append(Replica(directory, tmp_path / "secret", address))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def primary(program: Path, to: str | Path, folder: Path) -> subprocess.Popen[str]:
    words = ["replicate", "--to", to, "--secret-file", folder / "secret", *EPOCHS]
    words += ["--json", folder / "result.json", "--", program]
    return subprocess.Popen(
        [str(PERDURE), *map(str, words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_held(directory: Path, epochs: int) -> None:
    """Waits until a replica holds so many epochs in which the program lives."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            held = perdure.open_snapshots(directory).epochs()
        except PerdureError:
            held = []
        if sum(bool(epoch.processes) for epoch in held) >= epochs:
            return
        time.sleep(0.01)
    raise AssertionError(f"{directory} does not grow")


def killed_primary(program: Path, replica: Replica, epochs: int, folder: Path) -> None:
    """A primary that is killed once its replica, in `folder/replica`, holds so many epochs."""
    run = primary(program, replica.address, folder)
    wait_until_held(folder / "replica", epochs)
    run.kill()
    run.communicate()
    replica.wait_for("lost: the primary went away")


def consistent(directory: Path, every: int = 10) -> int:
    """Checks that each epoch in which the program lives is a cut of its run; returns the newest."""
    store = perdure.open_snapshots(directory)
    living = [epoch.epoch for epoch in store.epochs() if epoch.processes]
    for epoch in living[1::every]:
        counter, echo = (int(store.read(name, epoch).value) for name in ("counter", "echo"))
        table = [int(value) for value in store.read("table", epoch, type="u64").values]
        assert counter - echo in (0, 1), f"epoch {epoch}"
        assert table == sorted(table, reverse=True), f"epoch {epoch}"
        assert set(table) <= {counter, echo}, f"epoch {epoch}"
    return living[-1]


def test_a_replica_killed_in_the_middle_and_restarted_gets_the_rest(
    program: Path, tmp_path: Path, replicas: Callable[..., Replica]
) -> None:
    directory = tmp_path / "replica"
    first = replicas(directory)
    run = primary(program, first.address, tmp_path)
    wait_until_held(directory, 20)
    first.kill()
    partly = consistent(directory)
    second = replicas(directory, first.address)
    output, errors = run.communicate(timeout=120)
    assert (run.returncode, output.splitlines()[-1]) == (7, f"sum {SUM}"), errors
    replication = json.loads((tmp_path / "result.json").read_text())["replication"]
    assert replication["trouble"] is None
    assert replication["connections"] >= 2, "it was killed before the end"
    second.wait_for("done; holds")
    second.kill()
    assert partly < consistent(directory) <= replication["recoverable_epoch"]


def test_a_primary_killed_in_the_middle_leaves_what_can_be_gone_on_with(
    program: Path, tmp_path: Path, command: Command, replicas: Callable[..., Replica]
) -> None:
    directory = tmp_path / "replica"
    replica = replicas(directory)
    killed_primary(program, replica, 20, tmp_path)
    partly = consistent(directory)
    resumed = command("replica", directory, "resume", "--epoch", str(partly))
    assert resumed.status == 7, resumed.stderr
    assert resumed.stdout.splitlines()[-1] == f"sum {SUM}"
    # The same run again: the replica gets what it lacks, and nothing twice.
    again = primary(program, replica.address, tmp_path)
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 7, errors
    replication = json.loads((tmp_path / "result.json").read_text())["replication"]
    assert replication["trouble"] is None
    assert replication["epochs_sent"] <= replication["recoverable_epoch"] - partly
    replica.wait_for("done; holds")
    consistent(directory)


def test_a_replica_that_stays_away_ends_in_an_error_and_nothing_is_lost(
    program: Path, tmp_path: Path, command: Command, replicas: Callable[..., Replica]
) -> None:
    directory = tmp_path / "replica"
    replica = replicas(directory)
    words = ["replicate", "--to", replica.address, "--secret-file", tmp_path / "secret", *EPOCHS]
    run = subprocess.Popen(
        [str(PERDURE), *map(str, words), "--patience", "0", "--", str(program)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_held(directory, 20)
    replica.kill()
    output, errors = run.communicate(timeout=120)
    assert output.splitlines()[-1] == f"sum {SUM}", "the run goes on"
    assert run.returncode == 2
    assert "run the same command again, and it goes on from there" in errors
    consistent(directory)
    longest = ("--patience", str(2**64 - 1))
    done = command("replicate", "--to", directory, *longest, *EPOCHS, "--", program)
    assert done.status == 7, done.stderr


def test_an_interrupted_primary_sends_what_is_recoverable(
    compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("none is needed for a folder")
    run = primary(compiled(PROGRAM % FOR_EVER), tmp_path / "replica", tmp_path)
    wait_until_held(tmp_path / "replica", 20)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    replication = json.loads((tmp_path / "result.json").read_text())["replication"]
    assert run.returncode == 130, errors
    assert replication["epoch"] == replication["recoverable_epoch"]
    assert consistent(tmp_path / "replica") <= replication["epoch"]


def test_it_listens_on_loopback_and_makes_a_secret(tmp_path: Path, command: Command) -> None:
    words = [str(PERDURE), "replica", str(tmp_path / "replica"), "--listen", "127.0.0.1:0"]
    serving = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    line = serving.stdout.readline()
    serving.send_signal(signal.SIGINT)
    assert serving.wait(timeout=30) == 0
    assert line.startswith("listening on 127.0.0.1:")
    secret = tmp_path / "replica/secret"
    assert str(secret) in line
    assert secret.stat().st_mode & 0o077 == 0, "only its owner may read it"
    assert len(secret.read_text().strip()) == 64
    text = command("replica", tmp_path, "serve", "--help").stdout
    assert "127.0.0.1:7433" in text, "the default is loopback"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "127.0.0.1:9", "--", "PROGRAM"], "needs --secret-file"),
        (["--to", "new"], "no program"),
        (["--to", "new", "--from", "nothing"], "there is no replica"),
        (["--to", "new", "--from", "nothing", "--", "PROGRAM"], "takes no program"),
        (["--to", "new", "--design", "picl", "--", "PROGRAM"], "keeps no snapshots"),
        (["--to", "127.0.0.1:9", "--secret-file", "SECRET", "--", "PROGRAM"], "no replica answers"),
        (["--to", ".", "--", "PROGRAM"], "not empty and no replica"),
    ],
)
def test_what_cannot_be_is_refused(
    words: list[str], message: str, program: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef")
    named = {"PROGRAM": str(program), "SECRET": str(tmp_path / "secret")}
    done = command("replicate", *(named.get(word, word) for word in words))
    assert done.status == 2
    assert message in done.stderr.replace("\n", " "), done.stderr
    assert not done.stdout


def test_the_same_program_with_another_input_is_another_run(
    compiled: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = compiled("""
        #include <stdio.h>
        volatile long words[512];
        int main(void) {
            long first = 0;
            FILE *input = fopen("input", "r");
            if (!input || fscanf(input, "%ld", &first) != 1) return 1;
            for (long i = 0; i < 40000; i++) words[i % 512] = first + i;
            return 0;
        }
    """)
    machine = Machine(machine="nvoverlay", design="nvoverlay", set={"epoch.stores": 2000})
    for text, trouble in (("5", None), ("6", "another run"), ("5", None)):
        Path("input").write_text(text)
        result = machine.run([program], replicate_to="replica")
        said = result.raw["replication"]["trouble"]
        assert result.exit_code == 0
        assert (said is None) if trouble is None else (trouble in said), said


def test_a_replica_is_read_like_a_store_from_python(program: Path, tmp_path: Path) -> None:
    machine = Machine(machine="nvoverlay", design="nvoverlay", set={"epoch.stores": 20_000})
    result = machine.run([program], replicate_to=tmp_path / "replica")
    assert result.exit_code == 7
    newest = consistent(tmp_path / "replica")
    answer = perdure.replicate(tmp_path / "replica", tmp_path / "copy")
    assert answer["epoch"] == result.raw["replication"]["recoverable_epoch"]
    assert consistent(tmp_path / "copy") == newest
    middle = perdure.resume_replica(tmp_path / "copy", newest // 2)
    assert middle.exit_code == 7
    assert middle.raw["output_from"][0]["offset"] > 0, "it had written something by then"
    with pytest.raises(PerdureError, match="is not in the snapshot store"):
        perdure.resume_replica(tmp_path / "copy", newest + 1000)


def test_an_unmodified_program_with_libraries_goes_on_elsewhere(tmp_path: Path, root: Path) -> None:
    script = "t = 0\nfor i in range(3000): t += i * i\nprint(t)"
    machine = Machine(
        machine="nvoverlay", design="nvoverlay", sysroot=root, set={"epoch.stores": 200_000}
    )
    python = root / "usr/bin/python3"
    result = machine.run([python, "-c", script], replicate_to=tmp_path / "replica")
    assert result.exit_code == 0
    store = perdure.open_snapshots(tmp_path / "replica")
    living = [epoch.epoch for epoch in store.epochs() if epoch.processes]
    assert len(living) > 10
    # Without the primary's files: what the program had found comes with the replica.
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    for epoch in (living[len(living) // 3], living[-1]):
        again = perdure.resume_replica(tmp_path / "replica", epoch, sysroot=nothing)
        assert again.exit_code == 0


def test_going_on_from_a_replica_delivers_the_files(
    tmp_path: Path,
    command: Command,
    compiled: Callable[[str], Path],
    replicas: Callable[..., Replica],
) -> None:
    """What was written before the epoch, since then, and what was removed."""
    program = compiled(
        r"""
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            int early = open("early", O_CREAT | O_WRONLY, 0644);
            open("gone", O_CREAT | O_WRONLY, 0644);
            write(early, "early", 5);
            fsync(early);
            for (volatile long at = 0; at < 20000000; at++) continue;
            int late = open("late", O_CREAT | O_WRONLY, 0644);
            write(late, "late", 4);
            write(early, " and late", 9);
            unlink("gone");
            fsync(late);
            puts("done");
            return 0;
        }
        """
    )
    directory = tmp_path / "replica"
    killed_primary(program, replicas(directory), 4, tmp_path)
    kept = tmp_path / "kept"
    resumed = command("replica", directory, "resume", "--files", kept)
    assert (resumed.status, resumed.stdout) == (0, "done\n"), resumed.stderr
    found = {path.name: path.read_text() for path in (kept / "work").iterdir()}
    assert found == {"early": "early and late", "late": "late"}

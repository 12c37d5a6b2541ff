"""Clients of `perdure debug`: gdb's remote protocol by hand, and the protocols of editors.

Always true here: a session that was left stands where it stood.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from conftest import PATIENCE_SECONDS
from debugged import SOURCE, THREADS, build, connected, listening, symbol


def asked(client: socket.socket, packet: str) -> str:
    """The answer to a packet."""
    sum_ = sum(packet.encode()) % 256
    client.sendall(f"${packet}#{sum_:02x}".encode())
    while True:
        text = b""
        while not (len(text) > 2 and text[-3:-2] == b"#"):
            got = client.recv(1)
            assert got, "the connection is gone"
            text += got
        client.sendall(b"+")
        answer = text.decode("latin-1").lstrip("+")[1:-3]
        if not (answer.startswith("O") and answer != "OK"):
            # "0*,": the character before it stands 15 times more, as the one behind it says.
            return re.sub(r"(.)\*(.)", lambda run: run[1] * (ord(run[2]) - 28), answer)


def test_a_client_may_send_anything_and_another_one_finds_the_session(tmp_path: Path) -> None:
    """Garbage ends its connection and nothing else; what would write is refused."""
    with listening("--", build(SOURCE, tmp_path), cwd=tmp_path) as (client, place):
        assert "vContSupported+" in asked(client, "qSupported:multiprocess+")
        assert asked(client, "?").startswith("T05thread:")
        assert asked(client, "P2=0000000000000000").startswith("E")
        assert asked(client, "M10000,1:00").startswith("E")
        assert asked(client, "m0,8").startswith("E")
        assert asked(client, "mffffffffffffffff,8").startswith("E")
        before = asked(client, "g")
        client.sendall(b"\x00\xff$$$###%%\x7f$m,#00$vCont;q:zz#11")
        client.close()
        again = connected(place)
        assert asked(again, "?").startswith("T05thread:")
        assert asked(again, "g") == before
        again.close()


def register(client: socket.socket, thread: str, number: int) -> int:
    """A register of a thread's."""
    assert asked(client, f"Hg{thread}") == "OK"
    return int.from_bytes(bytes.fromhex(asked(client, f"p{number:x}")), "little")


def test_a_client_that_leaves_its_watch_points_set_meets_each_store_once(tmp_path: Path) -> None:
    """The stop is before the store going forward, and behind it going back."""
    program = build(SOURCE, tmp_path)
    counter = symbol(program, "counter")
    with listening("--", program, "1000", cwd=tmp_path) as (client, _):
        asked(client, "qSupported:multiprocess+")
        assert asked(client, f"Z2,{counter:x},8") == "OK"
        met = []
        for packet in ["vCont;c", "vCont;c", "vCont;c", "bc", "bc"]:
            stop = asked(client, packet)
            assert re.search(rf"watch:0*{counter:x};", stop), stop
            value = int.from_bytes(bytes.fromhex(asked(client, f"m{counter:x},8")), "little")
            met.append((register(client, "p1.1", 32), value))
        (store,) = {pc for pc, _ in met[:3]}
        (behind,) = {pc for pc, _ in met[3:]}
        assert store < behind <= store + 4
        # Before the stores of 1, 2 and 3; back, behind those of 2 and 1.
        assert [value for _, value in met] == [0, 1, 2, 2, 1]


def test_one_thread_that_goes_on_is_the_one_that_stops(tmp_path: Path) -> None:
    """Whoever else comes to a breakpoint meanwhile is not told of."""
    four = THREADS.replace("threads[2]", "threads[4]").replace("i < 2", "i < 4")
    program = build(four, tmp_path)
    with listening("--harts", "4", "--", program, cwd=tmp_path) as (client, _):
        asked(client, "qSupported:multiprocess+;swbreak+")
        bump = symbol(program, "bump")
        assert asked(client, f"Z0,{bump:x},2") == "OK"
        first, second = (asked(client, "vCont;c").split(";")[0] for _ in range(2))
        assert first != second
        thread = second.removeprefix("T05thread:")
        alone = [asked(client, f"vCont;c:{thread}").split(";")[0] for _ in range(5)]
        assert alone == [second] * 5
        # All together, the others are met as well.
        together = {asked(client, "vCont;c").split(";")[0] for _ in range(60)}
        assert len(together) > 1


def test_a_long_way_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C of gdb, the byte 3, stops a run that would take minutes."""
    with listening("--", build(SOURCE, tmp_path), "2000000000", cwd=tmp_path) as (client, _):
        asked(client, "qSupported:multiprocess+")
        packet = "vCont;c"
        client.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
        time.sleep(0.5)
        client.sendall(b"\x03")
        answer = ""
        while "T02" not in answer:
            got = client.recv(1)
            assert got
            answer += got.decode("latin-1")
        client.close()


def speaks_dap() -> str:
    """A gdb that speaks the Debug Adapter Protocol, as of 14; skips who has none."""
    gdb = os.environ.get("PERDURE_DAP_GDB") or which("gdb-multiarch")
    assert gdb is not None, "no gdb-multiarch: `make test` installs one"
    asked_for = [gdb, "--version"]
    said = subprocess.run(asked_for, capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+)\.\d+", said)
    if version is None or int(version[1]) < 14:
        pytest.skip("this gdb is older than 14: PERDURE_DAP_GDB names another one")
    return gdb


class Adapter:
    """The Debug Adapter Protocol, as an editor speaks it."""

    def __init__(self, gdb: str) -> None:
        """Starts gdb."""
        words = [gdb, "-q", "-nx", "-iex", "set sysroot target:", "-i", "dap"]
        pipe = subprocess.PIPE
        self.gdb = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.sent = 0

    def send(self, command: str, **arguments: Any) -> int:
        """Sends a request; its number."""
        self.sent += 1
        request = {"seq": self.sent, "type": "request", "command": command}
        body = json.dumps({**request, "arguments": arguments}).encode()
        assert self.gdb.stdin is not None
        self.gdb.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.gdb.stdin.flush()
        return self.sent

    def message(self) -> dict[str, Any]:
        """The next message."""
        assert self.gdb.stdout is not None
        length = 0
        while line := self.gdb.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "gdb has ended"
        message: dict[str, Any] = json.loads(self.gdb.stdout.read(length))
        return message

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request."""
        while (message := self.message()).get("request_seq") != number:
            pass
        assert message["success"], message
        answer: dict[str, Any] = message.get("body", {})
        return answer

    def stopped(self) -> str:
        """Waits for a stop; its reason."""
        while (message := self.message()).get("event") != "stopped":
            pass
        return str(message["body"]["reason"])


def test_an_editor_debugs_by_the_adapter_protocol(tmp_path: Path) -> None:
    """Breakpoint, step and stack by the protocol; the way back by its console."""
    gdb = speaks_dap()
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if "/* here */" in text)
    with listening("--", build(SOURCE, tmp_path), cwd=tmp_path) as (client, place):
        client.close()
        adapter = Adapter(gdb)
        try:
            adapter.answer(adapter.send("initialize", adapterID="test", linesStartAt1=True))
            attached = adapter.send("attach", target=place)
            source = {"path": str(tmp_path / "program.c")}
            adapter.send("setBreakpoints", source=source, breakpoints=[{"line": line}])
            adapter.send("configurationDone")
            adapter.answer(attached)
            thread = adapter.answer(adapter.send("threads"))["threads"][0]["id"]
            adapter.send("continue", threadId=thread)
            assert adapter.stopped() == "breakpoint"
            where = adapter.send("evaluate", expression="monitor where", context="repl")
            first = adapter.answer(where)["result"]
            adapter.send("next", threadId=thread)
            assert adapter.stopped() == "step"
            adapter.send("evaluate", expression="reverse-continue", context="repl")
            assert adapter.stopped() == "breakpoint"
            where = adapter.send("evaluate", expression="monitor where", context="repl")
            assert adapter.answer(where)["result"] == first
            frames = adapter.answer(adapter.send("stackTrace", threadId=thread))["stackFrames"]
            assert frames[0]["name"] == "work" and frames[0]["line"] == line
        finally:
            adapter.gdb.kill()
            adapter.gdb.wait(PATIENCE_SECONDS)


def test_a_front_end_debugs_by_the_machine_interface(tmp_path: Path) -> None:
    """What Visual Studio Code's C/C++ extension speaks."""
    script = [
        '-interpreter-exec console "set sysroot target:"',
        "-target-select remote {place}",
        "-break-insert work",
        "-exec-continue",
        "-exec-next",
        "-exec-continue --reverse",
        "-gdb-exit",
    ]
    with listening("--", build(SOURCE, tmp_path), cwd=tmp_path) as (client, place):
        client.close()
        words = ["gdb-multiarch", "-q", "-nx", "-i", "mi"]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as started:
            assert started.stdin is not None and started.stdout is not None
            out = ""
            for line in script:
                started.stdin.write(line.format(place=place) + "\n")
                started.stdin.flush()
                waits = "*stopped" if "exec-" in line[:6] or "select" in line else "^"
                while not out.rpartition("\n")[0].rpartition("\n")[2].startswith(waits):
                    text = started.stdout.readline()
                    assert text and not text.startswith("^error"), out + text
                    out += text
                out += "(sent)\n"
    assert out.count('reason="breakpoint-hit"') == 2, out
    assert 'reason="end-stepping-range"' in out

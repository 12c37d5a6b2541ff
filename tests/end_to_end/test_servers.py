"""Unmodified Debian servers and their clients, as programs of one machine, and power cuts.

Always true here: each server and its clients are started by one small script inside the guest; what
is printed does not depend on who comes first. Where there is no Debian mirror, every test of this
file is skipped and says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import RunGuest

from perdure import Machine

PACKAGES = ("bash", "coreutils", "curl", "lighttpd", "memcached", "python3", "redis-server")
CUTS = 6

REDIS = """
redis-server --port 7000 --save "" --appendonly no --logfile redis.log &
until [ "$(redis-cli -p 7000 ping 2>&1)" = PONG ]; do sleep 0.01; done
redis-cli -p 7000 set greeting hello
redis-cli -p 7000 get greeting
for i in 1 2 3; do redis-cli -p 7000 incr counter; done
redis-benchmark -p 7000 -n 200 -c 5 -t lpush -q >benchmark.txt
redis-cli -p 7000 llen mylist
redis-cli -p 7000 shutdown nosave
wait
"""

MEMCACHED = """
memcached -p 7001 -U 0 -l 127.0.0.1 -t 2 &
server=$!
until exec 3<>/dev/tcp/127.0.0.1/7001; do sleep 0.01; done 2>/dev/null
for i in 1 2 3 4 5 6 7 8; do
    printf 'set key%d 0 0 6\\r\\nvalue%d\\r\\n' $i $i >&3
    read -r answer <&3
    echo "${answer%$'\\r'}"
done
printf 'get key3 key7\\r\\n' >&3
for i in 1 2 3 4 5; do read -r line <&3; echo "${line%$'\\r'}"; done
kill $server
wait $server
"""

LIGHTTPD = """
mkdir www
echo "a page" >www/index.html
head -c 300000 /dev/zero >www/large
cat >settings <<END
server.document-root = "/work/www"
server.bind = "127.0.0.1"
server.port = 7002
index-file.names = ("index.html")
END
/usr/sbin/lighttpd -D -f settings 2>log &
server=$!
until curl -s http://127.0.0.1:7002/ -o first; do sleep 0.01; done
cat first
curl -s http://127.0.0.1:7002/large -o large
[ "$(sha256sum <large)" = "$(sha256sum <www/large)" ] && echo the same
curl -s -o nothing -w '%{http_code}\\n' http://127.0.0.1:7002/missing
kill $server
wait $server
"""

ASYNCIO = """
import asyncio

async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def ask(port, name):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for i in range(20):
        writer.write(f"{name} {i}\\n".encode())
        answers.append((await reader.readline()).decode().strip())
    writer.close()
    await writer.wait_closed()
    return answers

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for lines in await asyncio.gather(*(ask(port, f"client {i}") for i in range(5))):
        print(lines[-1], len(lines))
    server.close()

asyncio.run(main())
"""


@dataclass(frozen=True)
class Server:
    """A server with its clients: a script for an interpreter, and what it prints."""

    name: str
    interpreter: str
    script: str
    expected: str


SERVERS = (
    Server("redis", "dash", REDIS, "OK\nhello\n1\n2\n3\n200\n"),
    Server(
        "memcached",
        "bash",
        MEMCACHED,
        "STORED\n" * 8 + "VALUE key3 0 6\nvalue3\nVALUE key7 0 6\nvalue7\nEND\n",
    ),
    Server("lighttpd", "dash", LIGHTTPD, "a page\nthe same\n404\n"),
    Server("asyncio", "python3", ASYNCIO, "".join(f"CLIENT {i} 19 20\n" for i in range(5))),
)

QUICK = SERVERS[:3]
"""Python compiles its library anew in each run, which takes too long for many of them."""

each_server = pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)


def words(root: Path, server: Server, folder: Path) -> list[str | Path]:
    """The command line; the script stands in the folder."""
    (folder / "script").write_text(server.script)
    return [root / "usr/bin" / server.interpreter, "script"]


def on(root: Path, design: str) -> Machine:
    """A machine with Debian in it, and a hart for the server beside its clients'."""
    if design == "nvoverlay":
        return Machine(machine="nvoverlay", design=design, harts=2, sysroot=root)
    return Machine(design=design, harts=2, sysroot=root)


@each_server
def test_servers_answer(server: Server, root: Path, tmp_path: Path, run_guest: RunGuest) -> None:
    run = run_guest(on(root, "ideal"), words(root, server, tmp_path), cwd=tmp_path)
    assert run.result.exit_code == 0
    assert run.stdout.decode() == server.expected


@pytest.mark.parametrize("design", ["picl", "nvoverlay"])
@pytest.mark.parametrize("server", QUICK, ids=lambda server: server.name)
def test_servers_and_clients_come_back_together(
    server: Server, design: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = on(root, design).cut(words(root, server, tmp_path), cuts=CUTS, seed=5, jobs=2)
    assert [(cut.cycle, cut.verdict, cut.token) for cut in report.failures] == []
    assert report.verified == CUTS
    assert any(cut.resumed for cut in report.results)

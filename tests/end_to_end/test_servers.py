"""Unmodified Debian servers and their clients, as programs of one machine, and power cuts.

Always true here: each server and its clients are started by one small script inside the guest; what
is printed does not depend on who comes first. Where there is no Debian mirror, every test of this
file is skipped and says why. Campaigns of hundreds of cuts are `long`: `make test-long`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ENVIRONMENT, REPOSITORY, TIMEOUT_SECONDS, RunGuest, alone, debian

from perdure import Machine

PACKAGES = (
    "bash", "coreutils", "curl", "erlang-base", "lighttpd", "memcached", "nginx-light",
    "postgresql", "python3", "redis-server",
)  # fmt: skip
CUTS = 3
CUTS_LONG = 200

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

# What a web server's clients ask it for, once it answers.
PAGES = """
server=$!
until curl -s http://127.0.0.1:PORT/ -o first; do sleep 0.01; done
cat first
curl -s http://127.0.0.1:PORT/large -o large
[ "$(sha256sum <large)" = "$(sha256sum <www/large)" ] && echo the same
curl -s -o nothing -w '%{http_code}\\n' http://127.0.0.1:PORT/missing
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
"""

NGINX = """
mkdir www scratch
echo "a page" >www/index.html
head -c 300000 /dev/zero >www/large
cat >settings <<END
daemon off;
pid /work/nginx.pid;
worker_processes 1;
error_log /work/log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path scratch;
    proxy_temp_path scratch;
    fastcgi_temp_path scratch;
    uwsgi_temp_path scratch;
    scgi_temp_path scratch;
    server { listen 127.0.0.1:7003; root /work/www; }
}
END
/usr/sbin/nginx -p /work -c /work/settings &
"""

INITDB = """
PATH=/usr/lib/postgresql/17/bin:$PATH
initdb -D data -A trust -U user --no-sync --locale=C >log 2>&1 || cat log
cat data/PG_VERSION
"""

POSTGRES = """
# A guest sees the folders of its host as open to all.
PATH=/usr/lib/postgresql/17/bin:$PATH
chmod 700 data
postgres -D data -c unix_socket_directories=/tmp -c listen_addresses=127.0.0.1 -c port=7004 \
    -c max_connections=8 -c shared_buffers=1MB -c autovacuum=off >log 2>&1 &
server=$!
until pg_isready -q -h 127.0.0.1 -p 7004; do sleep 0.01; done
psql -h 127.0.0.1 -p 7004 -U user -d postgres -At <<END
create table account(id int primary key, balance int);
insert into account select i, 1000 from generate_series(1, 50) i;
begin;
update account set balance = balance - 7 where id % 2 = 0;
update account set balance = balance + 7 where id % 2 = 1;
commit;
select sum(balance), min(balance), max(balance) from account;
END
psql -h /tmp -p 7004 -U user -d postgres -At -c 'select count(*) from account'
kill -INT $server
wait $server
"""

ERLANG = """
erl -noshell -eval '
{ok, Listener} = gen_tcp:listen(0, [binary, {packet, 2}, {active, false}, {ip, {127, 0, 0, 1}}]),
{ok, Port} = inet:port(Listener),
spawn(fun() ->
    {ok, Server} = gen_tcp:accept(Listener),
    (fun Echo() ->
        case gen_tcp:recv(Server, 0) of
            {ok, Bytes} -> gen_tcp:send(Server, Bytes), Echo();
            {error, closed} -> ok
        end
    end)()
end),
{ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, 2}, {active, false}]),
Ask = fun(Number) ->
    ok = gen_tcp:send(Client, integer_to_binary(Number)),
    {ok, Answer} = gen_tcp:recv(Client, 0),
    binary_to_integer(Answer)
end,
io:format("~p~n", [lists:sum([Ask(Number) || Number <- lists:seq(1, 50)])]),
init:stop().'
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


# What Python's maintainer script does (`py_compile.py`), for the modules that asyncio takes. The
# result does not say when its source was changed: a guest sees another time than this host.
COMPILE = """
import asyncio, py_compile, sys
root, folder = sys.argv[1:]
for module in list(sys.modules.values()):
    source = getattr(module, "__file__", None) or ""
    if source.startswith(root) and source.endswith(".py"):
        name = source.removeprefix(root)
        compiled = f"{folder}{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(source, compiled, name, doraise=True, invalidation_mode=mode)
"""


@dataclass(frozen=True)
class Server:
    """A server with its clients: a script for an interpreter, and what it prints."""

    name: str
    interpreter: str
    script: str
    expected: str
    prepared: str = ""
    """The folder that was made before, and stands beside the script."""
    slow: bool = False
    """One run, with what it needs, takes ten seconds or more: too long for cuts at every change."""


SERVERS = (
    Server("redis", "dash", REDIS, "OK\nhello\n1\n2\n3\n200\n"),
    Server(
        "memcached",
        "bash",
        MEMCACHED,
        "STORED\n" * 8 + "VALUE key3 0 6\nvalue3\nVALUE key7 0 6\nvalue7\nEND\n",
    ),
    Server("lighttpd", "dash", LIGHTTPD + PAGES.replace("PORT", "7002"), "a page\nthe same\n404\n"),
    Server("nginx", "dash", NGINX + PAGES.replace("PORT", "7003"), "a page\nthe same\n404\n"),
    Server(
        "postgres",
        "dash",
        POSTGRES,
        "CREATE TABLE\nINSERT 0 50\nBEGIN\nUPDATE 25\nUPDATE 25\nCOMMIT\n50000|993|1007\n50\n",
        prepared="data",
        slow=True,
    ),
    Server("erlang", "dash", ERLANG, "1275\n", slow=True),
    Server(
        "asyncio",
        "python3",
        ASYNCIO,
        "".join(f"CLIENT {i} 19 20\n" for i in range(5)),
        prepared="compiled",
        slow=True,
    ),
)
CLUSTER = Server("initdb", "dash", INITDB, "17\n", slow=True)

QUICK = [server for server in SERVERS if not server.slow]


def named(server: Server) -> str:
    return server.name


each_server = pytest.mark.parametrize("server", SERVERS, ids=named)
each_design = pytest.mark.parametrize("design", ["picl", "nvoverlay"])

Prepare = Callable[[str], Path]


def on(root: Path, design: str) -> Machine:
    """A machine with Debian in it, and a hart for the server beside its clients'."""
    return Machine(
        machine="nvoverlay" if design == "nvoverlay" else "picl",
        design=design,
        harts=2,
        sysroot=root,
        environment={
            **ENVIRONMENT,
            "HOME": "/home/user",
            "PYTHONPYCACHEPREFIX": "/work/compiled",
        },
    )


def words(root: Path, server: Server, folder: Path) -> list[str | Path]:
    """The command line; the script stands in the folder."""
    (folder / "script").write_text(server.script)
    return [root / "usr/bin" / server.interpreter, "script"]


def make_cluster(root: Path, folder: Path) -> None:
    """`initdb`, in a machine of its own."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        on(root, "ideal").run(words(root, CLUSTER, folder), files=folder / "kept")
    (folder / "kept/work/data").rename(folder / "data")


def make_compiled(root: Path, folder: Path) -> None:
    """The modules of Python's library that asyncio takes, compiled: a tenth of the time."""
    python = root / "usr/bin/python3"
    command = ["qemu-riscv64", "-L", root, python, "-B", "-c", COMPILE, root, folder / "compiled"]
    subprocess.run(
        list(map(str, command)),
        env=ENVIRONMENT,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )


def test_the_page_names_what_its_example_needs(run_guest: RunGuest, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/servers.md").read_text()
    made, ran = r"--packages (\S+)\n\$ cat >session\n", r"\$ perdure run .*? -- sh session\n"
    found = re.search(f"{made}(.*?\n){ran}(.*?)\\$ perdure cut", page, re.DOTALL)
    assert found is not None
    packages, script, expected = found.groups()
    # A sysroot with nothing else: what others ask for would hide what the page forgets.
    root = debian(packages.split(","), f"-{packages}")
    (tmp_path / "session").write_text(script)
    machine = Machine(harts=2, sysroot=root)
    done = run_guest(machine, ["sh", "session"], tmp_path, stop_after=1_000_000_000)
    assert (done.result.exit_code, done.stdout.decode()) == (0, expected)


@pytest.fixture(scope="session")
def prepare(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """Makes what some servers need before they start, once for all test processes."""
    common = tmp_path_factory.getbasetemp().parent
    makers = {"data": make_cluster, "compiled": make_compiled}

    def prepared(name: str) -> Path:
        folder = common / f"servers-{name}"
        with alone(folder):
            if not (folder / name).is_dir():
                shutil.rmtree(folder, ignore_errors=True)
                makers[name](root, folder)
        return folder / name

    return prepared


@pytest.fixture
def folder(tmp_path: Path, prepare: Prepare) -> Callable[[Server], Path]:
    """Makes a working directory with what a server needs."""

    def made(server: Server) -> Path:
        if server.prepared:
            shutil.copytree(prepare(server.prepared), tmp_path / server.prepared)
        return tmp_path

    return made


def check_cuts(server: Server, design: str, root: Path, folder: Path, cuts: int, jobs: int) -> None:
    """Cuts a server and its clients; what comes back goes on as if nothing had been."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        report = on(root, design).cut(words(root, server, folder), cuts=cuts, seed=5, jobs=jobs)
    assert [(cut.cycle, cut.verdict, cut.token) for cut in report.failures] == []
    assert report.verified == cuts
    assert any(cut.resumed for cut in report.results)


@each_server
def test_servers_answer(
    server: Server, root: Path, folder: Callable[[Server], Path], run_guest: RunGuest
) -> None:
    cwd = folder(server)
    run = run_guest(on(root, "ideal"), words(root, server, cwd), cwd=cwd)
    assert run.result.exit_code == 0
    assert run.stdout.decode() == server.expected
    assert run.result.unknown_system_calls == []


@each_design
@pytest.mark.parametrize("server", QUICK, ids=named)
def test_servers_and_clients_come_back_together(
    server: Server, design: str, root: Path, folder: Callable[[Server], Path]
) -> None:
    check_cuts(server, design, root, folder(server), CUTS, jobs=1)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@each_design
@pytest.mark.parametrize("server", [*SERVERS, CLUSTER], ids=named)
def test_two_hundred_cuts(
    server: Server, design: str, root: Path, folder: Callable[[Server], Path]
) -> None:
    check_cuts(server, design, root, folder(server), CUTS_LONG, jobs=2)

"""Servers that fork for each task: what a child does ends with it, and what waits is never left.

Always true here: a task is a line of Python, done by a child of a real server.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from perdure.experiments import servers

# As a file, not as a module of the package: a server of these tests needs no compiled core.
SERVER = f"""
import importlib.util, os, signal, sys, time
spec = importlib.util.spec_from_file_location("servers", {servers.__file__!r})
servers = sys.modules["servers"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(servers)
servers.serve(lambda task: exec(task, globals()))
"""
PATIENCE_SECONDS = 20


def new_server():
    return servers.Server([sys.executable, "-c", SERVER], dict(os.environ))


@pytest.fixture
def server():
    return new_server()


def do(server, task, begun=lambda _: None, heard=lambda _: None):
    said = []
    ended = server.do(task, begun, lambda line: (said.append(line), heard(line)))
    return ended.status, [line.strip() for line in said], ended.complaints


def runs(process):
    """Whether it does, and is not only still in the system's table."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(process):
    until = time.monotonic() + PATIENCE_SECONDS
    while runs(process):
        assert time.monotonic() < until, "it still runs"
        time.sleep(0.01)


def test_every_task_has_a_child_of_one_server_as_it_was(server):
    children, parents = [], []
    for _ in range(3):
        task = "print(os.getppid(), 'kept' in globals()); kept = 1"
        _, (said,), _ = do(server, task, children.append)
        parents.append(said)
    assert len(set(children)) == 3
    assert len(set(parents)) == 1
    assert parents[0].endswith("False"), "a task sees what another left"


@pytest.mark.parametrize(
    ("task", "status"),
    [
        ("os.abort()", -signal.SIGABRT),
        ("print('half a line', end='', flush=True); os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os._exit(3)", 3),
        ("raise ValueError('no such thing')", 1),
    ],
)
def test_a_child_that_crashes_takes_nothing_with_it(server, task, status):
    ended, _, complaints = do(server, task)
    assert ended == status
    assert ("no such thing" in complaints) == (status == 1)
    assert do(server, "print('well')") == (0, ["well"], "")


def test_a_server_that_cannot_start_says_why():
    broken = servers.Server([sys.executable, "-c", "import nowhere"], dict(os.environ))
    status, said, complaints = do(broken, "print(1)")
    assert (status, said) == (1, [])
    assert "No module named 'nowhere'" in complaints
    assert not broken.is_alive


def test_an_interrupt_reaches_a_child_and_not_its_server(server):
    children = []
    lines = (
        "try: print('at work', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: print('end')"
    )
    ended = do(
        server,
        f"exec({lines!r})",
        children.append,
        lambda line: os.kill(children[0], signal.SIGINT) if "work" in line else None,
    )
    assert ended == (0, ["at work", "end"], "")
    assert do(server, "print('well')") == (0, ["well"], "")


def test_a_child_that_has_begun_is_ready_to_be_interrupted():
    ignoring = SERVER.replace("servers.serve", "signal.signal(2, signal.SIG_IGN); servers.serve")
    server = servers.Server([sys.executable, "-c", ignoring], dict(os.environ))
    status, _, _ = do(server, "time.sleep(60)", lambda child: os.kill(child, signal.SIGINT))
    assert status == -signal.SIGINT


def test_a_child_s_number_is_its_own_until_the_next_task(server):
    children = []
    do(server, "pass", children.append)
    os.kill(children[0], signal.SIGINT)
    do(server, "pass", children.append)
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def test_a_server_that_is_killed_takes_its_child_along(server):
    children = []

    def begun(child):
        children.append(child)
        server.kill()

    assert do(server, "time.sleep(60)", begun)[0] == -signal.SIGKILL
    wait_until_gone(children[0])


def test_a_task_that_nobody_waits_for_is_ended(server):
    children = []

    def begun(child):
        children.append(child)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do(server, "time.sleep(60)", begun)
    wait_until_gone(children[0])


def test_an_idle_server_ends_with_its_thread():
    own = threading.local()
    seen = []

    def work():
        own.server = new_server()
        seen.append(int(do(own.server, "print(os.getppid())")[1][0]))
        assert runs(seen[0])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    wait_until_gone(seen[0])


def test_server_and_child_end_with_the_process_that_waits():
    waiting = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import conftest, test_servers
def begun(child): print(child, flush=True)
test_servers.new_server().do("print(os.getppid(), flush=True); time.sleep(60)", begun,
                             lambda line: print(line, end="", flush=True))
"""
    process = subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, text=True)
    child, server = (int(process.stdout.readline()) for _ in range(2))
    assert runs(child) and runs(server)
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until_gone(child)
    wait_until_gone(server)

"""What is loaded before anything is done: names that start-up must not import, never a time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure import extras

HERE = Path(__file__).resolve().parent
LARGE = extras.REPORTS | {
    *("IPython", "asyncio", "dask_jobqueue", "jsonschema", "multiprocessing", "numpy", "pandas"),
    *("rich.progress", "ssl", "tomli", "tomllib", "urllib.request", "yaml"),
}
"""Modules that take long to import, and that few commands need."""

# The core is replaced by a module that has its names, so that what is seen is Python's alone.
BEGIN = f"""
import sys
from types import ModuleType
core = sys.modules["perdure._core"] = ModuleType("perdure._core")
core.PerdureError, core.__version__, core.TIMING_VERSION = ValueError, "0.0.0", 7
sys.path.insert(0, {str(HERE.parents[1] / "python")!r})
"""
COMMAND = """
import contextlib, io
from perdure import cli
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main()
"""
RUN = f"""
def run(*_):
    import json
    with open({str(HERE / "recorded.json")!r}) as file:
        return json.dumps(json.load(file)["run"])
core.run = run
"""
TYPER = """
import contextlib, io, typer
app = typer.Typer()
@app.command()
def bare(word: str = "") -> None:
    pass
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    app()
"""
END = """
import json
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*parts, words=()):
    """The modules that a process has at the end of a program; the interpreter's are there, too."""
    program = BEGIN + "".join(parts) + END
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def of_perdure(modules):
    return {one for one in modules if one.partition(".")[0] == "perdure"}


def test_the_package_loads_the_core_alone():
    modules = loaded("import perdure\n")
    assert of_perdure(modules) == {"perdure", "perdure._core"}
    assert not modules & (LARGE | {"dataclasses", "msgspec", "pathlib", "rich", "typer"})


@pytest.mark.parametrize("words", [("run", "--help"), ("run", "--repeat", "true")])
def test_a_command_loads_nothing_large(words):
    bare = ("--help",) if "--help" in words else ()
    unneeded = loaded(RUN, COMMAND, words=words) & LARGE - loaded(TYPER, words=bare)
    assert not unneeded


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("run", "--set", "a=b", "true")])
def test_a_plain_line_loads_neither_what_reads_lines_nor_what_types_results(words):
    modules = loaded(RUN, COMMAND, words=words)
    assert not modules & {"typer", "rich", "msgspec", "dataclasses", "inspect", "pathlib"}
    assert not of_perdure(modules) & {"perdure.api", "perdure.lines", "perdure.results"}


def test_a_run_does_not_load_the_other_commands():
    modules = loaded(RUN, COMMAND, words=("run", "--repeat", "true"))
    assert "perdure.commands.running" in modules
    assert not {one for one in modules if one.partition(".")[0] == "rich"} - loaded(TYPER)
    others = {
        "commands.comparing",
        "commands.cutting",
        "commands.showing",
        "bench",
        "guard",
        "travel",
    }
    assert not of_perdure(modules) & {f"perdure.{one}" for one in others | {"answers", "sweeps"}}


def test_the_help_of_all_commands_loads_none():
    modules = loaded(RUN, COMMAND, words=("--help",))
    assert "perdure.helping" in modules
    assert not {one for one in modules if one.startswith("perdure.commands.")}


def test_what_is_loaded_later_is_all_there():
    for name in perdure.__all__:
        assert getattr(perdure, name) is getattr(perdure, name)
        assert name in dir(perdure)
    assert set(perdure.ELSEWHERE) <= set(perdure.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = perdure.nothing


def test_every_command_is_where_its_table_says():
    from perdure import helping, lines
    from perdure.commands import COMMANDS

    commands = lines.Commands()
    assert list(commands) == list(COMMANDS)
    for name, command in commands.items():
        assert command.name == name
        assert helping.first(command.help) == COMMANDS[name].says

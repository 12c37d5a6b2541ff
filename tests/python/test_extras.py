"""Without `perdure[reports]`: what a power cut needs works, the rest says what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import extras

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
LEAN = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Missing())
sys.path.insert(0, {tests!r})
import conftest
from perdure import cli
cli.main()
"""


def lean(*words, folder):
    """The command where the extra is not installed, with the recorded core."""
    program = LEAN.format(missing=set(extras.REPORTS), tests=str(HERE))
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--", "program"),
        ("cut", "--cuts", "3", "--", "program"),
        ("compare", "--", "program"),
        ("list", "designs"),
        ("config",),
        ("mutants", "--only", "replication"),
        ("--help",),
    ],
)
def test_what_power_cuts_need_works(words, tmp_path):
    done = lean(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("sweep", "--", "program"), "a sweep needs polars"),
        (("reproduce", "picl"), "a reproduction needs "),
        (("sensitivity", "picl"), "an experiment needs polars"),
        (("compare", "--out", "out", "--", "program"), "a figure needs altair"),
        (("check", "--html", "page.html", "--", "program"), "a page needs jinja2"),
        (("demo",), "a figure needs altair"),
        (("cut", "--scheduler", "tcp://x:1", "--", "program"), "a Dask cluster needs d"),
        (("hunt", "--scheduler", "tcp://x:1"), "a Dask cluster needs d"),
    ],
)
def test_what_needs_more_says_so(words, what, tmp_path):
    done = lean(*words, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"perdure: {what}"), done.stderr
    assert "pip install 'perdure[reports]'" in done.stderr and done.stderr.count("\n") == 1


def test_another_missing_module_is_no_matter_of_extras():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), extras.need_reports("this"):
        import no_such_module  # noqa: F401


def test_the_extra_is_what_the_package_declares():
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    names = {line.partition(">")[0] for line in project["optional-dependencies"]["reports"]}
    modules = {"dask[distributed]": {"dask", "distributed"}, "vl-convert-python": {"vl_convert"}}
    assert set().union(*(modules.get(name, {name}) for name in names)) == extras.REPORTS

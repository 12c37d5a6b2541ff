"""The workflows of docs/check-ci.md: what they run between installing and uploading, as it stands.

Always true here: the shell lines are the page's own; the project is `pushes`, as the page says of
its list.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/check-ci.md").read_text()
GITHUB, GITLAB = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S))
(BEGIN,) = re.findall(r"^\$ (perdure check .*)$", PAGE, re.M)
PERSIST = "        persist(node, sizeof *node);\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the program."""
    for folder, file in (("src", "tests/guests/pushes.c"), ("include", "guest/perdure.h")):
        (tmp_path / folder).mkdir()
        shutil.copy(REPOSITORY / file, tmp_path / folder)
    (tmp_path / "src/pushes.c").rename(tmp_path / "src/list.c")
    return tmp_path


def plant(project: Path) -> None:
    """Leaves a flush out."""
    file = project / "src/list.c"
    text = file.read_text()
    assert PERSIST in text
    file.write_text(text.replace(PERSIST, "        ;\n"))


def shell(script: str, project: Path) -> int:
    """Runs lines as a runner does; the status."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = ["bash", "-e", "-o", "pipefail", "-c", script]
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        words,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def github(project: Path) -> int:
    """The job's own lines but for those that install; the status of the last."""
    steps = [step for step in GITHUB["jobs"]["check"]["steps"] if "run" in step]
    assert [step["name"] for step in steps] == ["Install", "Build", "Check"]
    assert shell(steps[1]["run"], project) == 0
    return shell(steps[2]["run"], project)


def gitlab(project: Path) -> int:
    """The same of the other workflow."""
    return shell("\n".join(GITLAB["crash-consistency"]["script"]), project)


@pytest.mark.parametrize("workflow", [github, gitlab])
def test_a_workflow_passes_a_correct_program_and_fails_a_new_bug(
    workflow: object, project: Path
) -> None:
    assert callable(workflow)
    assert workflow(project) == 0
    report = ElementTree.parse(project / "reports/check.xml").getroot()
    assert report.get("failures") == "0"
    plant(project)
    assert workflow(project) == 1
    report = ElementTree.parse(project / "reports/check.xml").getroot()
    assert report.get("failures") == "1"
    assert "missing flush" in (project / "reports/check.html").read_text()
    assert shell(BEGIN, project) == 1
    assert workflow(project) == 0


def test_a_host_of_code_finds_the_source(project: Path) -> None:
    plant(project)
    assert github(project) == 1
    (run,) = json.loads((project / "reports/check.sarif").read_text())["runs"]
    (result,) = run["results"]
    places = [one["physicalLocation"] for one in result["locations"] + result["relatedLocations"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"src/list.c"}
    upload = GITHUB["jobs"]["check"]["steps"][-2]["with"]["sarif_file"]
    assert (project / upload).exists()


def test_what_is_uploaded_is_what_is_written() -> None:
    steps = GITHUB["jobs"]["check"]["steps"]
    check = next(step["run"] for step in steps if step.get("name") == "Check")
    assert "reports/check.sarif" in check
    artifacts = GITLAB["crash-consistency"]["artifacts"]
    assert artifacts["reports"]["junit"] in "".join(GITLAB["crash-consistency"]["script"])

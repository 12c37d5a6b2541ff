"""What is said at the end of a run of files that are not kept, and the status that it ends with."""

import pytest

from perdure import endings, statuses
from perdure.results import RunResult

WHY = "/work/big: No space left on device (os error 28)"
BIG = {"path": "/work/big", "size": 400_000, "kept": False, "refused": True}
OTHER = {"path": "/work/other", "size": 3, "kept": False}


@pytest.fixture
def said(core):
    """What is said after a run of whose result a part is this."""

    def lines(**more):
        result = {**core.results["run"], **more}
        return list(endings.ending(RunResult.from_json(result)))

    return lines


def test_a_file_that_the_host_refused_is_not_said_to_be_kept_by_an_option(said):
    (line,) = said(files=[BIG], refused_output=WHY)
    assert line == f"the host refused a file of the guest's: {WHY}; 1 file is not kept: big"


def test_files_that_nobody_keeps_are_told_apart_from_those_that_the_host_refused(said):
    refused = [{**BIG, "path": f"/work/{name}"} for name in ("a", "b\n", "c", "d")]
    kept = {**OTHER, "path": "/work/kept", "kept": True}
    assert said(files=[*refused, OTHER, kept], refused_output=WHY) == [
        "1 file written by the guest is not kept: other; --files DIR keeps it",
        f"the host refused a file of the guest's: {WHY}; 4 files are not kept: a, 'b\\n', c, …",
    ]


def test_what_was_refused_may_be_no_file(said):
    (line,) = said(files=[], refused_output="removed.json: No space left on device")
    assert line.endswith("of the guest's: removed.json: No space left on device")


def test_a_region_that_ended_too_early_is_told(said):
    region = {"cycles": 9, "instructions": 1007, "statistics": {}, "whole_phase": False}
    shares = [{"cycles": 5, "instructions": 7}, {"cycles": 9, "instructions": 1000}]
    assert said(region=region | {"programs": shares, "complete": True}) == []
    (line,) = said(region=region | {"programs": shares, "complete": False})
    assert line == (
        "a program was over before it had retired --measure: 7, 1,000 instructions measured"
    )


@pytest.mark.parametrize(("exit_code", "refused", "status"), [
    *((0, None, 0), (7, None, 7), (None, None, 0)),
    *((0, WHY, statuses.REFUSED), (7, WHY, 7), (None, WHY, statuses.REFUSED)),
])  # fmt: skip
@pytest.mark.parametrize("words", [
    ("run",), ("run", "--verbose"), ("run", "--files", "kept"), ("trace", "--out", "trace.json"),
])  # fmt: skip
def test_a_program_that_ended_well_hides_no_refusal(
    core, command, monkeypatch, tmp_path, words, exit_code, refused, status
):
    monkeypatch.chdir(tmp_path)
    core.results["run"].update(exit_code=exit_code, refused_output=refused)
    assert command(*words, "--", "program")[0] == status


def test_ctrl_c_ends_a_run_with_its_own_status(core, command):
    core.results["run"].update(exit_code=None, refused_output=WHY, interrupted=True)
    assert command("run", "program")[0] == statuses.INTERRUPTED

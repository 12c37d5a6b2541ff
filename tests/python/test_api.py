"""The Python API: plain calls, plain data."""

import pytest


def test_values_are_spelled_as_in_a_configuration_file(core):
    import perdure

    perdure.Machine(set={"a": True, "b": 3, "c": 0.5, "d": "adr"}, environment={"HOME": "/"}).run(
        ["program"]
    )
    assert core.requests[0][1]["set"] == ["a=true", "b=3", "c=0.5", "d=adr"]
    assert core.requests[0][1]["environment"] == ["HOME=/"]
    assert core.requests[0][1]["passthrough"] is False


def test_a_run_is_a_dataclass(core):
    import perdure

    result = perdure.Machine().run(["program", "argument"])
    recorded = core.results["run"]
    assert result.sim.cycles == recorded["sim"]["cycles"]
    assert result.nvm.written_bytes.total == recorded["nvm"]["written_bytes"]["total"]
    assert result.statistics["l1d.misses"].unit == "accesses"
    assert result.raw["design"] == "picl"


def test_a_report_knows_its_failures(core):
    from conftest import BROKEN, VERIFIED

    import perdure

    core.results["cut"].update(cuts=2, failed=1, results=[VERIFIED, BROKEN])
    report = perdure.Machine().cut(["program"], cuts=2)
    assert [result.token for result in report.failures] == [BROKEN["token"]]


def test_a_refusal_is_a_perdure_error(core):
    import perdure

    core.refusal = "the program ./program does not exist"
    with pytest.raises(perdure.PerdureError, match="does not exist"):
        perdure.Machine().run(["./program"])


def test_results_that_cannot_be_kept_are_a_perdure_error(core, tmp_path):
    import perdure

    (tmp_path / "file").write_text("")
    with pytest.raises(perdure.PerdureError, match=r"cannot write .*file: it is not a directory"):
        perdure.Machine().run(["program"], out=tmp_path / "file")
    assert core.requests == []


def test_several_programs_and_a_measured_region(core):
    import perdure

    core.results["run"]["region"] = {
        "cycles": 900,
        "instructions": 600,
        "statistics": {"nvm.reads": {"value": 3, "unit": "operations", "meaning": "reads"}},
        "programs": [
            {"cycles": 800, "instructions": 300},
            {"cycles": 900, "instructions": 300},
        ],
    }
    core.results["run"]["programs"] = [
        {"arguments": ["a"], "exit_code": 0, "runs": 2, "instructions": 700},
        {"arguments": ["b"], "exit_code": None, "runs": 0, "instructions": 400},
    ]
    result = perdure.Machine().run(programs=[["a"], ["b"]], repeat=True, warm_up=0, measure=300)
    assert core.requests[0][1]["warm_up_instructions"] == 0
    assert result.region is not None
    assert [program.cycles for program in result.region.programs] == [800, 900]
    assert result.region.statistics["nvm.reads"].value == 3
    assert [program.runs for program in result.programs] == [2, 0]
    with pytest.raises(perdure.PerdureError, match="replaces"):
        perdure.Machine().run(["a"], programs=[["b"]])


@pytest.mark.parametrize("program", [5, None, ["program", 5]])
def test_what_is_no_program_is_refused(core, program):
    import perdure

    with pytest.raises(perdure.PerdureError, match="is neither a text, nor a path, nor a list"):
        perdure.run(program)
    assert core.requests == []


def test_one_text_stands_for_a_list_of_texts(core):
    import perdure

    machine = perdure.Machine(set="picl.acs_gap=2", environment="A=B", mounts="here:/there")
    machine.run("program", watch="counter", write_through="out:/out")
    machine.run(programs="one 1")
    (_, alone), (_, several) = core.requests
    assert alone["set"] == ["picl.acs_gap=2"] and alone["environment"] == ["A=B"]
    assert alone["mounts"] == ["here:/there"] and alone["write_through"] == ["out:/out"]
    assert alone["watch"] == ["counter"]
    assert several["programs"] == [["one", "1"]]


def test_one_cut_and_a_number_of_cuts_exclude_each_other(core):
    import perdure

    with pytest.raises(perdure.PerdureError, match="both `at` and `cuts` are given"):
        perdure.cut("program", at=1000, cuts=3)
    perdure.cut("program", at=1000)
    perdure.cut("program", at=1000, cuts=1)
    perdure.cut("program")
    assert [(one["at"], one["cuts"]) for _, one in core.requests] == [
        (1000, 100),
        (1000, 1),
        (None, 100),
    ]

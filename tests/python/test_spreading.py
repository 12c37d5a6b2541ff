"""Reports of a campaign's parts, put together: the report that one host would have made.

Always true here: what a part would say is made up from what the whole says.
"""

import random

import pytest

import perdure
from perdure import spreading

VERDICTS = ("verified", "memory-differs", "resume-differs", "lost", "recovery-failed")


def explained(results, limit):
    """As the core explains failures: one after the other, until one of them shows something."""
    kept = [dict(one) for one in results]
    looked_at = 0
    for one in kept:
        shows = one.pop("shows")
        if one["verdict"] != "verified" and looked_at < limit:
            looked_at += 1
            one["explanation"] = {"cycle": one["cycle"]}
            if shows:
                one["first_difference"] = {"address": one["cycle"]}
                looked_at = limit
    return kept


def report(drawn):
    """What the core says of these results."""
    results = explained(drawn, spreading.EXPLANATIONS)
    states = {}
    for one in results:
        states[one["state"]] = states.get(one["state"], 0) + 1
    cost = None
    if results:
        cost = {"cuts": len(results)}
        for key in spreading.COSTS:
            values = sorted(one[key] for one in results)
            median = values[(len(values) + 1) // 2 - 1]
            high = values[(len(values) * 99 + 99) // 100 - 1]
            cost[key] = {"median": median, "percentile_99": high, "worst": values[-1]}
    return {
        "state_hash": "same",
        "interrupted": False,
        "deterministic": True,
        "cuts": len(results),
        "verified": sum(one["verdict"] == "verified" for one in results),
        "lost": sum(one["verdict"] == "lost" for one in results),
        "failed": sum(one["verdict"] not in ("verified", "lost") for one in results),
        "resumed": 0,
        "depends_on_timing": 0,
        "generations": max((one["generations"] for one in results), default=None),
        "coverage": {"design_states": dict(sorted(states.items())), "paths": {"p": 3}, "torn": 0},
        "cut_cost": cost,
        "results": results,
        "host": {"seconds": 1.0},
    }


# Processes that share the tests collect them each for itself: no name may depend on the clock.
@pytest.mark.parametrize("fixed", [11, None], ids=["fixed", "fresh"])
def test_parts_make_the_report_of_the_whole(fixed):
    seed = random.SystemRandom().randrange(1 << 32) if fixed is None else fixed
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(300):
        drawn = [
            {
                "cycle": cycle,
                "verdict": draw.choice(VERDICTS),
                "state": draw.choice("ab"),
                "shows": draw.random() < 0.3,
                "generations": draw.randrange(4),
                **{key: draw.randrange(100) for key in spreading.COSTS},
            }
            for cycle in range(draw.randrange(1, 40))
        ]
        for count in (1, 2, 5):
            parts = {number: report(drawn[number::count]) for number in range(count)}
            assert spreading.merged(parts, count) == report(drawn)


def test_what_was_finished_before_ctrl_c_stands_in_its_order():
    base = report([])
    results = [
        {"cycle": cycle, "verdict": "verified", **dict.fromkeys(spreading.COSTS, 0)}
        for cycle in range(6)
    ]
    one = {**base, "cuts": 1, "interrupted": True, "results": results[1:2]}
    other = {**base, "cuts": 2, "results": [results[2], results[5]]}
    whole = spreading.merged({1: one, 2: other}, 3)
    assert [result["cycle"] for result in whole["results"]] == [1, 2, 5]
    assert (whole["cuts"], whole["interrupted"]) == (3, True)
    with pytest.raises(perdure.PerdureError, match="nothing was cut yet"):
        spreading.merged({}, 3)


def test_workers_that_run_something_else_are_found():
    other = {**report([]), "state_hash": "another"}
    with pytest.raises(perdure.PerdureError, match=r"\(state_hash\)"):
        spreading.merged({0: report([]), 1: other}, 2)


def test_progress_is_of_the_cuts_once_there_are_some():
    survey = (700, 0, "instructions", "survey")
    assert spreading.together({0: survey, 1: (300, *survey[1:])}, "cuts") == survey
    cutting = (4, 20, "cuts", "cutting")
    assert spreading.together({0: survey, 1: cutting, 2: cutting}, "cuts") == (
        8,
        20,
        "cuts",
        "cutting",
    )


def test_a_campaign_without_a_cluster_asks_the_core_as_ever(core):
    perdure.Machine().cut(["./program"], cuts=3)
    ((name, request),) = core.requests
    assert name == "cut" and "part" not in request

"""Families of runs that ask for the same calls again and again: what the detector `calls` is for."""

import json
from random import Random

from tests.loops.families.shapes import READERS, args_of, third
from tests.loops.traces import (
    AFTER_LATEST,
    Loop,
    Turn,
    call,
    calls,
    fresh,
    looping,
    page,
    route,
    scrambled,
    words,
    work,
)


@looping
def equal_calls(rng: Random) -> Loop:
    tool, args, result = rng.choice(READERS), args_of(rng), page(rng)
    return third([call(tool, args, result, why=words(rng, 4)) for _ in range(3 + AFTER_LATEST)])


@looping
def equal_calls_with_new_results(rng: Random) -> Loop:
    """What a call answers does not matter: the third equal one is refused."""
    tool, args = rng.choice(READERS), args_of(rng)
    return third([call(tool, args, page(rng)) for _ in range(3 + AFTER_LATEST)])


@looping
def keys_and_white_space_differ(rng: Random) -> Loop:
    tool, args, result = rng.choice(READERS), args_of(rng), page(rng)
    outcome = call(tool, args, result).outcomes
    details = [{"tool_name": tool, "tool_params": args} for _ in range(3 + AFTER_LATEST)]
    said = [{"action": "USE_TOOL", "action_reasoning": words(rng, 3), "action_details": d} for d in details]
    return third([Turn(text=scrambled(decision, rng), outcomes=outcome) for decision in said])


@looping
def order_of_calls_differs(rng: Random) -> Loop:
    several = [(tool, args_of(rng), page(rng, 2)) for tool in rng.sample(READERS, rng.randrange(2, 5))]
    turns = []
    for _ in range(3 + AFTER_LATEST):
        rng.shuffle(several)
        turns.append(calls(*several))
    return third(turns)


@looping
def equal_calls_of_several_agents(rng: Random) -> Loop:
    """Who asks does not matter."""
    args, result = args_of(rng), page(rng)
    asked = call("read", args, result)
    turns = (asked, route("writer", words(rng, 3)), asked, route("critic", words(rng, 3)), asked, route("lead"), asked)
    return Loop(turns=turns, earliest=5, latest=5)


@looping
def equal_calls_between_polls(rng: Random) -> Loop:
    """Polling in between hides nothing."""
    args, job = args_of(rng), {"job": fresh(rng)}
    pair = [call("fetch", args, page(rng)), call("job", job, {"state": "running"})]
    return Loop(turns=tuple(pair * 4), earliest=5, latest=5)


@looping
def the_same_write_again(rng: Random) -> Loop:
    args = {"path": fresh(rng), "text": words(rng, 6)}
    return third([call("write", args, {"written": True, "revision": number}) for number in range(3 + AFTER_LATEST)])


@looping
def a_loop_after_long_work(rng: Random) -> Loop:
    """What was done before does not count for what is done now."""
    before = [work(rng) for _ in range(rng.randrange(10, 20))]
    tool, args = rng.choice(READERS), json.loads(json.dumps(args_of(rng)))
    turns = [*before, *(call(tool, args, page(rng)) for _ in range(3 + AFTER_LATEST))]
    return Loop(turns=tuple(turns), earliest=len(before) + 3, latest=len(before) + 3)

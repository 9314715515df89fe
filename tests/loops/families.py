"""Families of runs that go round in circles. Each is a rule with a seed; its label is fixed (see `traces`)."""

import json
from random import Random

from tests.loops.traces import (
    AFTER_LATEST,
    WORDS,
    Loop,
    Turn,
    call,
    calls,
    decided,
    denied,
    failed,
    fresh,
    looping,
    page,
    route,
    scrambled,
    word,
    words,
    work,
)

from towpath_contracts.base import JsonObject

ROUNDS = 4
"""Rounds that a trace of a cycle goes on for."""

READERS = ("search", "read", "list", "check", "look", "fetch")


def _third(turns: list[Turn]) -> Loop:
    """Three of a kind: the third is the loop, neither sooner nor later."""
    return Loop(turns=tuple(turns), earliest=3, latest=3)


def _args(rng: Random) -> JsonObject:
    return {
        "path": fresh(rng),
        "depth": rng.randrange(9),
        "options": {"sort": word(rng), "tags": [word(rng), word(rng)]},
    }


def in_time(length: int) -> int:
    """Steps of a cycle of *length* after which it must have been found."""
    return 3 * length if length <= 3 else 2 * length + 1


def _cycle(turns: list[Turn]) -> Loop:
    """Repeat *turns*: found when they have come round twice at the earliest."""
    length = len(turns)
    return Loop(turns=tuple(turns * ROUNDS), earliest=2 * length, latest=in_time(length))


@looping
def equal_calls(rng: Random) -> Loop:
    tool, args, result = rng.choice(READERS), _args(rng), page(rng)
    return _third([call(tool, args, result, why=words(rng, 4)) for _ in range(3 + AFTER_LATEST)])


@looping
def equal_calls_with_new_results(rng: Random) -> Loop:
    """What a call answers does not matter: the third equal one is refused."""
    tool, args = rng.choice(READERS), _args(rng)
    return _third([call(tool, args, page(rng)) for _ in range(3 + AFTER_LATEST)])


@looping
def keys_and_white_space_differ(rng: Random) -> Loop:
    tool, args, result = rng.choice(READERS), _args(rng), page(rng)
    outcome = call(tool, args, result).outcomes
    details = [{"tool_name": tool, "tool_params": args} for _ in range(3 + AFTER_LATEST)]
    said = [{"action": "USE_TOOL", "action_reasoning": words(rng, 3), "action_details": d} for d in details]
    return _third([Turn(text=scrambled(decision, rng), outcomes=outcome) for decision in said])


@looping
def order_of_calls_differs(rng: Random) -> Loop:
    several = [(tool, _args(rng), page(rng, 2)) for tool in rng.sample(READERS, rng.randrange(2, 5))]
    turns = []
    for _ in range(3 + AFTER_LATEST):
        rng.shuffle(several)
        turns.append(calls(*several))
    return _third(turns)


@looping
def equal_calls_of_several_agents(rng: Random) -> Loop:
    """Who asks does not matter."""
    args, result = _args(rng), page(rng)
    asked = call("read", args, result)
    turns = (asked, route("writer", words(rng, 3)), asked, route("critic", words(rng, 3)), asked, route("lead"), asked)
    return Loop(turns=turns, earliest=5, latest=5)


@looping
def equal_calls_between_polls(rng: Random) -> Loop:
    """Polling in between hides nothing."""
    args, job = _args(rng), {"job": fresh(rng)}
    pair = [call("fetch", args, page(rng)), call("job", job, {"state": "running"})]
    return Loop(turns=tuple(pair * 4), earliest=5, latest=5)


@looping
def equal_errors(rng: Random) -> Loop:
    message = f"{word(rng)} of the {word(rng)} is {word(rng)}"
    tool = rng.choice(READERS)
    return _third([call(tool, _args(rng), failed(message)) for _ in range(3 + AFTER_LATEST)])


@looping
def unknown_tools_of_a_tool(rng: Random) -> Loop:
    """A tool that runs others answers "Unknown tool", each time with another name."""
    forms = ("Unknown tool: {}", "unknown tool '{}'", "no such tool {}", "ERROR unknown TOOL ({})")
    return _third([call("fetch", _args(rng), failed(rng.choice(forms).format(word(rng)))) for _ in range(5)])


@looping
def unknown_tools(rng: Random) -> Loop:
    return _third([call(f"{word(rng)}_{number}", {}) for number in range(3 + AFTER_LATEST)])


@looping
def errors_that_differ_in_details(rng: Random) -> Loop:
    forms = (
        "row {n} of {n} is missing",
        "bad pointer 0x{n:x} near 0x{n:x}",
        "no key '{w}' in table \"{w}\"",
        "{n} bytes left at offset {n}",
        "job '{w}' stopped in line {n}",
    )
    form = rng.choice(forms)
    messages = [form.format(n=rng.randrange(10**6), w=word(rng)) for _ in range(3 + AFTER_LATEST)]
    return _third([call(rng.choice(READERS), _args(rng), failed(message)) for message in messages])


@looping
def errors_of_one_class(rng: Random) -> Loop:
    """The same cause in other words."""
    kinds = (
        ("permission denied: {}", "403: you lack permission for {}", "not authorised to open {}", "Forbidden: {}"),
        ("{} timed out", "timeout while reading {}", "deadline exceeded at {}", "read of {} timed out after 3 s"),
        ("connection refused by {}", "{} is unreachable", "Connection reset by peer: {}", "can't connect to {}"),
    )
    kind = rng.choice(kinds)
    forms = [*rng.sample(kind, 4), rng.choice(kind)]
    return _third([call("fetch", _args(rng), failed(form.format(word(rng)))) for form in forms])


@looping
def equal_errors_between_outages(rng: Random) -> Loop:
    """External causes neither count nor clear."""
    message = f"{word(rng)} is not {word(rng)}"
    turns = []
    for _ in range(5):
        turns.append(call("write", _args(rng), failed(message)))
        turns += [call("fetch", _args(rng), failed("HTTP 503", code="unavailable", external=True))] * rng.randrange(2)
    own = [step for step, turn in enumerate(turns, 1) if not turn.outcomes[0].external]
    return Loop(turns=tuple(turns), earliest=own[2], latest=own[2])


@looping
def denied_again_and_again(rng: Random) -> Loop:
    return _third([call(rng.choice(("send", "write", "move")), _args(rng), denied()) for _ in range(3 + AFTER_LATEST)])


@looping
def refused_decisions(rng: Random) -> Loop:
    forms = (
        [route(f"{word(rng)}-{n}") for n in range(5)],
        [Turn(text=decided("DANCE", {"with": "me"}))] * 5,
        [Turn(text=decided("RESPOND", {"answer": "no payload"}))] * 5,
    )
    return _third(list(rng.choice(forms)))


@looping
def unreadable_answers(rng: Random) -> Loop:
    return _third([Turn(text="")] * (3 + AFTER_LATEST))


def _varied(rng: Random, length: int) -> list[Turn]:
    """*length* different steps, each with its own unchanging outcome; now and then one of them fails."""
    turns = []
    for number in range(length):
        args, name = {**_args(rng), "number": number}, rng.choice(READERS)
        fails = number and rng.random() < 0.2
        turns.append(call(name, args, failed(f"{words(rng, 3)} {'x' * number}") if fails else page(rng, 3)))
    return turns


@looping
def cycle_of_2(rng: Random) -> Loop:
    return _cycle(_varied(rng, 2))


@looping
def cycle_of_3(rng: Random) -> Loop:
    return _cycle(_varied(rng, 3))


@looping
def cycle_of_4(rng: Random) -> Loop:
    return _cycle(_varied(rng, 4))


@looping
def cycle_of_5(rng: Random) -> Loop:
    return _cycle(_varied(rng, 5))


@looping
def cycle_of_6(rng: Random) -> Loop:
    return _cycle(_varied(rng, 6))


@looping
def cycle_with_volatile_results(rng: Random) -> Loop:
    """The results differ in nothing but how long they took, and which request they were."""
    length = rng.randrange(2, 4)
    steps = [(rng.choice(READERS), {**_args(rng), "number": n}, page(rng, 3)) for n in range(length)]
    turns = []
    for _ in range(ROUNDS):
        for tool, args, result in steps:
            told = {"took_ms": rng.randrange(1000), "request_id": fresh(rng)}
            turns.append(call(tool, args, {**result, **told}))
    return Loop(turns=tuple(turns), earliest=2 * length, latest=in_time(length))


@looping
def cycle_with_polls(rng: Random) -> Loop:
    """Polling inside a cycle does not hide it, however often it is done."""
    steps = _varied(rng, 2)
    turns: list[Turn] = []
    own: list[int] = []
    for turn in steps * ROUNDS:
        own.append(len(turns) + 1)
        turns += [turn] + [call("job", {"job": fresh(rng)}, {"state": "running"})] * rng.randrange(3)
    return Loop(turns=tuple(turns), earliest=own[3], latest=own[in_time(2) - 1])


@looping
def edits_that_undo_each_other(rng: Random) -> Loop:
    path, texts = f"src/{fresh(rng)}.py", rng.sample(WORDS, 2)
    return _cycle([call("write", {"path": path, "text": text}, {"written": True}) for text in texts])


@looping
def edit_and_test_in_circles(rng: Random) -> Loop:
    """Two edits in turn, and the tests never change their mind."""
    path, report = f"src/{fresh(rng)}.py", {"failed": rng.randrange(1, 9), "names": words(rng, 3)}
    tested = call("test", {"suite": "unit"}, report)
    first, second = (call("write", {"path": path, "text": words(rng, 4)}, {"written": True}) for _ in range(2))
    return _cycle([first, tested, second, tested])


@looping
def the_same_write_again(rng: Random) -> Loop:
    args = {"path": fresh(rng), "text": words(rng, 6)}
    return _third([call("write", args, {"written": True, "revision": number}) for number in range(3 + AFTER_LATEST)])


@looping
def write_and_read_back_in_circles(rng: Random) -> Loop:
    path, text = fresh(rng), words(rng, 6)
    return _cycle([call("write", {"path": path, "text": text}, {"written": True}), call("read", {"path": path}, text)])


@looping
def an_error_and_a_step_that_does_nothing(rng: Random) -> Loop:
    """The step in between succeeds, and so the errors are never three in a row."""
    message, idle = f"{word(rng)} has no {word(rng)}", call("think", {"about": words(rng, 2)}, "ok")
    turns = []
    for _ in range(ROUNDS + 1):
        turns += [call("write", _args(rng), failed(message)), idle]
    return Loop(turns=tuple(turns), earliest=4, latest=in_time(2))


@looping
def two_refusals_in_turn(rng: Random) -> Loop:
    return _cycle([route("nobody"), Turn(text=decided("RESPOND", {"answer": "no payload"}))])


@looping
def the_same_page_again(rng: Random) -> Loop:
    """The tool takes no notice of the page that it is asked for."""
    result, first = page(rng), rng.randrange(3)
    turns = [call("list", {"page": first + number, "size": 8}, result) for number in range(3 + AFTER_LATEST)]
    return _third(turns)


@looping
def other_words_for_the_same_search(rng: Random) -> Loop:
    result = page(rng, 4)
    turns = [call("search", {"query": words(rng, rng.randrange(2, 5))}, result) for _ in range(3 + AFTER_LATEST)]
    return _third(turns)


@looping
def the_same_search_but_for_its_timing(rng: Random) -> Loop:
    result = page(rng, 4)
    turns = [
        call("search", {"query": words(rng, 4)}, {**result, "took_ms": rng.randrange(1000)})
        for _ in range(3 + AFTER_LATEST)
    ]
    return _third(turns)


def _carousel(agents: tuple[str, ...], contexts: dict[str, str], rounds: int) -> tuple[Turn, ...]:
    following = [*agents[1:], agents[0]]
    return tuple(route(target, contexts[target]) for _ in range(rounds) for target in following)


@looping
def ping_pong(rng: Random) -> Loop:
    """Two agents hand the same thing to each other; the third equal handoff is the loop."""
    contexts = {agent: words(rng, 4) for agent in ("lead", "writer")}
    return Loop(turns=_carousel(("lead", "writer"), contexts, 4), earliest=4, latest=5)


@looping
def carousel(rng: Random) -> Loop:
    agents = ("lead", *rng.sample(("writer", "critic"), 2))
    contexts = {agent: words(rng, 4) for agent in agents}
    return Loop(turns=_carousel(agents, contexts, 4), earliest=6, latest=7)


@looping
def ping_pong_in_other_words(rng: Random) -> Loop:
    """Nobody does anything but hand over: five exchanges are enough talk."""
    turns = [route(("writer", "lead")[number % 2], f"please {words(rng, 4)}") for number in range(14)]
    return Loop(turns=tuple(turns), earliest=7, latest=11)


@looping
def handing_over_after_the_same_look(rng: Random) -> Loop:
    """Each agent looks at the same thing before it hands over: looking is no progress."""
    looks = {key: call("read", {"path": fresh(rng)}, page(rng)) for key in ("lead", "writer")}
    turn = [looks["lead"], route("writer", "yours"), looks["writer"], route("lead", "yours")]
    return Loop(turns=tuple(turn * ROUNDS), earliest=8, latest=in_time(4))


@looping
def a_loop_after_long_work(rng: Random) -> Loop:
    """What was done before does not count for what is done now."""
    before = [work(rng) for _ in range(rng.randrange(10, 20))]
    tool, args = rng.choice(READERS), json.loads(json.dumps(_args(rng)))
    turns = [*before, *(call(tool, args, page(rng)) for _ in range(3 + AFTER_LATEST))]
    return Loop(turns=tuple(turns), earliest=len(before) + 3, latest=len(before) + 3)

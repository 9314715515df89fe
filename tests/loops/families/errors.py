"""Families of runs that fail in the same way again and again: what the detector `errors` is for."""

from random import Random

from tests.loops.families.shapes import READERS, args_of, third
from tests.loops.traces import (
    AFTER_LATEST,
    Loop,
    Turn,
    call,
    decided,
    denied,
    denied_by_rule,
    failed,
    looping,
    route,
    word,
)


@looping
def equal_errors(rng: Random) -> Loop:
    message = f"{word(rng)} of the {word(rng)} is {word(rng)}"
    tool = rng.choice(READERS)
    return third([call(tool, args_of(rng), failed(message)) for _ in range(3 + AFTER_LATEST)])


@looping
def unknown_tools_of_a_tool(rng: Random) -> Loop:
    """A tool that runs others answers "Unknown tool", each time with another name."""
    forms = ("Unknown tool: {}", "unknown tool '{}'", "no such tool {}", "ERROR unknown TOOL ({})")
    return third([call("fetch", args_of(rng), failed(rng.choice(forms).format(word(rng)))) for _ in range(5)])


@looping
def unknown_tools(rng: Random) -> Loop:
    return third([call(f"{word(rng)}_{number}", {}) for number in range(3 + AFTER_LATEST)])


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
    return third([call(rng.choice(READERS), args_of(rng), failed(message)) for message in messages])


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
    return third([call("fetch", args_of(rng), failed(form.format(word(rng)))) for form in forms])


@looping
def equal_errors_between_outages(rng: Random) -> Loop:
    """External causes neither count nor clear."""
    message = f"{word(rng)} is not {word(rng)}"
    turns = []
    for _ in range(5):
        turns.append(call("write", args_of(rng), failed(message)))
        turns += [call("fetch", args_of(rng), failed("HTTP 503", code="unavailable", external=True))] * rng.randrange(2)
    own = [step for step, turn in enumerate(turns, 1) if not turn.outcomes[0].external]
    return Loop(turns=tuple(turns), earliest=own[2], latest=own[2])


@looping
def denied_again_and_again(rng: Random) -> Loop:
    return third([call(rng.choice(("send", "write", "move")), args_of(rng), denied()) for _ in range(3 + AFTER_LATEST)])


@looping
def denied_by_one_rule(rng: Random) -> Loop:
    """The same tool and rule, with other arguments each time."""
    tool, rule = rng.choice(("send", "write", "move")), f"careful/{word(rng)}"
    return third([call(tool, args_of(rng), denied_by_rule(tool, rule)) for _ in range(3 + AFTER_LATEST)])


@looping
def refused_decisions(rng: Random) -> Loop:
    forms = (
        [route(f"{word(rng)}-{n}") for n in range(5)],
        [Turn(text=decided("DANCE", {"with": "me"}))] * 5,
        [Turn(text=decided("RESPOND", {"answer": "no payload"}))] * 5,
    )
    return third(list(rng.choice(forms)))


@looping
def unreadable_answers(rng: Random) -> Loop:
    return third([Turn(text="")] * (3 + AFTER_LATEST))

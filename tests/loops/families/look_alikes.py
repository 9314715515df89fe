"""Families of runs that only look like loops: a detector that fires in one of them is wrong (see `traces`)."""

from random import Random

from tests.loops.families.shapes import READERS
from tests.loops.traces import (
    Turn,
    benign,
    call,
    calls,
    denied,
    denied_by_rule,
    failed,
    fresh,
    page,
    route,
    word,
    words,
    work,
)

LONG = "Your message was accepted for delivery and will be sent within the next few minutes. Thank you."
"""An acknowledgement with something in it, and yet the same for every message."""


@benign
def polling(rng: Random) -> tuple[Turn, ...]:
    job = {"job": fresh(rng)}
    running = [call("job", job, {"state": "running", "log": words(rng, 3)})] * rng.randrange(3, 15)
    return (*running, call("job", job, {"state": "done"}))


@benign
def paging(rng: Random) -> tuple[Turn, ...]:
    return tuple(call("list", {"page": number, "size": 8}, page(rng)) for number in range(rng.randrange(3, 12)))


@benign
def retrying_after_an_outage(rng: Random) -> tuple[Turn, ...]:
    """The same call until its server is back; that it was away is not the model's doing."""
    args = {"url": fresh(rng)}
    down = [call("fetch", args, failed("HTTP 503", code="unavailable", external=True))] * rng.randrange(1, 6)
    return (*down, call("fetch", args, page(rng)), work(rng))


@benign
def one_tool_gets_on(rng: Random) -> tuple[Turn, ...]:
    tool = rng.choice(READERS)
    return tuple(call(tool, {"path": fresh(rng)}, page(rng, 2)) for _ in range(rng.randrange(4, 15)))


@benign
def two_agents_work_together(rng: Random) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for _ in range(rng.randrange(3, 6)):
        turns += [call("write", {"path": "draft.md", "text": words(rng, 8)}, {"written": True})]
        turns += [route("critic", "please look at the draft")]
        turns += [call("read", {"path": "draft.md"}, {"text": words(rng, 8) + fresh(rng)})]
        turns += [route("lead", f"change {words(rng, 3)}")]
    return tuple(turns)


@benign
def two_agents_talk(rng: Random) -> tuple[Turn, ...]:
    """Up to five exchanges, each with something new to say."""
    exchanges = rng.randrange(2, 6)
    return tuple(route(key, f"{key}: {fresh(rng)}") for _ in range(exchanges) for key in ("writer", "lead"))


@benign
def chapters_in_turn(rng: Random) -> tuple[Turn, ...]:
    """Only a number differs in what is handed over."""
    turns: list[Turn] = []
    for chapter in range(1, rng.randrange(3, 5)):
        turns += [route("writer", f"write chapter {chapter}"), route("lead", f"chapter {chapter} is written")]
    return tuple(turns)


@benign
def one_file_grows(rng: Random) -> tuple[Turn, ...]:
    """Read it, write it with more in it, read it again."""
    text, turns = "", []
    for _ in range(rng.randrange(3, 7)):
        turns += [call("read", {"path": "list.md"}, {"text": text})]
        text += words(rng, 4) + "\n"
        turns += [call("write", {"path": "list.md", "text": text}, {"written": True})]
    return tuple(turns)


@benign
def failures_shrink(rng: Random) -> tuple[Turn, ...]:
    failing, turns = rng.randrange(4, 9), []
    while failing:
        turns += [call("test", {"suite": "unit"}, {"passed": 20 - failing, "failed": failing})]
        turns += [call("write", {"path": "fix.py", "text": words(rng, 5)}, {"written": True})]
        failing -= 1
    return (*turns, call("test", {"suite": "unit"}, {"passed": 20, "failed": 0}))


@benign
def several_fixes_until_one_helps(rng: Random) -> tuple[Turn, ...]:
    """The tests say the same after each edit, but every edit is another one."""
    report, turns = {"passed": 10, "failed": 2, "names": words(rng, 4)}, []
    for _ in range(rng.randrange(3, 6)):
        turns += [call("test", {"suite": "unit"}, report)]
        turns += [call("write", {"path": "fix.py", "text": words(rng, 6) + fresh(rng)}, {"written": True})]
    return (*turns, call("test", {"suite": "unit"}, {"passed": 12, "failed": 0}))


@benign
def a_batch_of_writes(rng: Random) -> tuple[Turn, ...]:
    answer = rng.choice(({"written": True}, "ok", None, {"status": LONG, "code": 202}, LONG))
    tool = rng.choice(("write", "send"))
    return tuple(call(tool, {"to": fresh(rng), "text": words(rng, 5)}, answer) for _ in range(rng.randrange(4, 13)))


@benign
def a_batch_of_checks(rng: Random) -> tuple[Turn, ...]:
    """Most things are in order, and the tool says so in few words."""
    answer = rng.choice(
        ("valid", "ok", True, None, [], "", {"errors": [], "valid": True}, {"matches": []}, {"failed": 0})
    )
    return tuple(call("check", {"path": fresh(rng)}, answer) for _ in range(rng.randrange(4, 13)))


@benign
def searches_that_find_nothing(rng: Random) -> tuple[Turn, ...]:
    nothing = rng.choice(([], {"items": [], "total": 0}, "no results"))
    misses = [call("search", {"query": words(rng, 3)}, nothing) for _ in range(rng.randrange(3, 7))]
    return (*misses, call("search", {"query": fresh(rng)}, page(rng, 2)))


@benign
def a_batch_together(rng: Random) -> tuple[Turn, ...]:
    """Several calls of one decision, over and over, each for something else."""
    return tuple(
        calls(*(("write", {"path": fresh(rng)}, {"written": True}) for _ in range(3)))
        for _ in range(rng.randrange(3, 8))
    )


@benign
def walking(rng: Random) -> tuple[Turn, ...]:
    """Two steps in turn, and each time one is somewhere else."""
    turns: list[Turn] = []
    for place in range(rng.randrange(3, 8)):
        turns += [call("move", {"towards": "north"}, {"at": [0, place]})]
        turns += [call("look", {}, {"seen": words(rng, 3), "place": place})]
    return tuple(turns)


@benign
def looking_twice(rng: Random) -> tuple[Turn, ...]:
    """Twice the same is no loop, wherever it happens."""
    turns: list[Turn] = []
    for _ in range(rng.randrange(2, 6)):
        again = call(rng.choice(READERS), {"path": fresh(rng)}, page(rng, 2))
        turns += [again, again, work(rng)]
    return tuple(turns)


@benign
def a_list_and_its_items(rng: Random) -> tuple[Turn, ...]:
    """The list is looked at before every item, and stays the same."""
    listing, turns = call("list", {"path": "inbox"}, page(rng)), []
    for _ in range(rng.randrange(3, 8)):
        turns += [listing, call("send", {"to": fresh(rng), "text": words(rng, 3)}, {"accepted": True})]
    return tuple(turns)


@benign
def two_rounds_of_asking(rng: Random) -> tuple[Turn, ...]:
    """Several servers are asked in turn; in the third round one of them is ready."""
    servers = [fresh(rng) for _ in range(rng.randrange(2, 7))]
    once = [call("fetch", {"server": server}, {"state": "pending", "server": server}) for server in servers]
    ready = [call("fetch", {"server": server}, {"state": "ready", "at": fresh(rng)}) for server in servers]
    return (*once, *once, *ready)


@benign
def errors_of_several_kinds(rng: Random) -> tuple[Turn, ...]:
    kinds = rng.sample(("disk is full", "row is missing", "name is taken", "unknown tool: x", "request timed out"), 4)
    turns = [call("fetch", {"path": fresh(rng)}, failed(message)) for message in kinds]
    return (*turns, work(rng), *turns[:2], work(rng))


@benign
def typed_failures_of_several_kinds(rng: Random) -> tuple[Turn, ...]:
    """One code of a tool for whatever does not fit: each time another reason, until it fits."""
    kinds = ("the line is not there", "the file is read-only", "the text stands there twice", "the block has no end")
    refused = [failed(message, code="edit_refused") for message in rng.sample(kinds, rng.randrange(3, 5))]
    turns = [call("write", {"path": fresh(rng)}, outcome) for outcome in refused]
    return (*turns, work(rng), *turns[:2], work(rng))


@benign
def errors_that_are_overcome(rng: Random) -> tuple[Turn, ...]:
    """Twice the same error, then it works; and so on."""
    turns: list[Turn] = []
    for _ in range(rng.randrange(2, 5)):
        message = f"{word(rng)} is {word(rng)}"
        turns += [call("write", {"path": fresh(rng)}, failed(message)) for _ in range(2)]
        turns += [work(rng)]
    return tuple(turns)


@benign
def outages_of_a_server(rng: Random) -> tuple[Turn, ...]:
    """The same error many times, with other arguments, and none of it the model's doing."""
    down = failed("connection refused", code="unavailable", external=True)
    return (*(call("fetch", {"url": fresh(rng)}, down) for _ in range(rng.randrange(3, 8))), work(rng))


@benign
def denied_then_something_else(rng: Random) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for _ in range(rng.randrange(2, 6)):
        turns += [call("send", {"to": fresh(rng)}, denied()), work(rng)]
    return tuple(turns)


@benign
def denied_for_different_reasons(rng: Random) -> tuple[Turn, ...]:
    """Something that was read makes the agent try several forbidden things; then it goes on with its task."""
    tools, rules = ("send", "write", "move"), ("strangers", "made-up", "deleting")
    tried = rng.sample([(tool, rule) for tool in tools for rule in rules], rng.randrange(4, 8))
    return (*(call(tool, {"to": fresh(rng)}, denied_by_rule(tool, rule)) for tool, rule in tried), work(rng))


@benign
def refusals_that_get_better(rng: Random) -> tuple[Turn, ...]:
    return (call("no_such_tool", {}), route("nobody"), work(rng), route("nobody"), work(rng))


@benign
def text_only(rng: Random) -> tuple[Turn, ...]:
    return tuple(route(rng.choice(("writer", "lead")), fresh(rng)) for _ in range(rng.randrange(2)))


@benign
def a_total_after_every_item(rng: Random) -> tuple[Turn, ...]:
    """The same question after each change has another answer."""
    total, turns = 0, []
    for _ in range(rng.randrange(3, 7)):
        total += rng.randrange(1, 50)
        turns += [
            call("send", {"item": fresh(rng)}, {"accepted": True}),
            call("look", {"what": "total"}, {"total": total}),
        ]
    return tuple(turns)


@benign
def plain_work(rng: Random) -> tuple[Turn, ...]:
    return tuple(work(rng) for _ in range(rng.randrange(5, 20)))

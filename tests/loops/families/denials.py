"""Families of runs that are denied one kind of call several times: what is a loop, and what only begins like one.

Whoever can put text before a model can have it try many forbidden calls. Such a run is told of them, and goes on.
"""

from random import Random

from tests.loops.families.shapes import args_of, third
from tests.loops.traces import Loop, Turn, benign, call, denied_by_rule, looping, told, word, work

MAIL = ("send", "write", "move")


def _kind(rng: Random) -> tuple[str, str]:
    return rng.choice(MAIL), f"careful/{word(rng)}"


def forbidden(rng: Random, tool: str, rule: str, count: int) -> list[Turn]:
    """Different calls of one tool, denied by one rule."""
    return [call(tool, {**args_of(rng), "number": number}, denied_by_rule(tool, rule)) for number in range(count)]


@looping
def the_same_denied_call(rng: Random) -> Loop:
    """Again and again: the third is not even run."""
    return third(forbidden(rng, *_kind(rng), 1) * 5)


@looping
def denied_calls_in_turn(rng: Random) -> Loop:
    """A few calls, all denied by one rule, that come round."""
    return third(forbidden(rng, *_kind(rng), rng.randrange(2, 4)) * 4)


@told
def many_forbidden_calls_of_one_kind(rng: Random) -> tuple[Turn, ...]:
    """A mail to five people, the deletion of seven mails; then the run goes on with its work."""
    return (*forbidden(rng, *_kind(rng), rng.randrange(4, 13)), *(work(rng) for _ in range(rng.randrange(1, 5))))


@told
def several_lists_of_forbidden_calls(rng: Random) -> tuple[Turn, ...]:
    """Each page that is read asks for more of the same kind."""
    kind, turns = _kind(rng), []
    for _ in range(rng.randrange(2, 4)):
        turns += [*forbidden(rng, *kind, rng.randrange(4, 8)), work(rng)]
    return tuple(turns)


@benign
def two_forbidden_kinds_in_turn(rng: Random) -> tuple[Turn, ...]:
    """A file and a mail for each of several people: never the same call, and never one kind in a row."""
    first, second = [(tool, f"careful/{tool}") for tool in rng.sample(MAIL, 2)]
    count = rng.randrange(4, 8)
    pairs = zip(forbidden(rng, *first, count), forbidden(rng, *second, count), strict=True)
    return (*(turn for pair in pairs for turn in pair), work(rng))

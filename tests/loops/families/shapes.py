"""What families of loops have in common: tools that only read, arguments, and that the third of a kind is the loop."""

from random import Random

from tests.loops.traces import Loop, Turn, fresh, word

from towpath_contracts.base import JsonObject

READERS = ("search", "read", "list", "check", "look", "fetch")


def third(turns: list[Turn]) -> Loop:
    """Three of a kind: the third is the loop, neither sooner nor later."""
    return Loop(turns=tuple(turns), earliest=3, latest=3)


def args_of(rng: Random) -> JsonObject:
    return {
        "path": fresh(rng),
        "depth": rng.randrange(9),
        "options": {"sort": word(rng), "tags": [word(rng), word(rng)]},
    }

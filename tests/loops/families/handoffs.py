"""Families of runs whose agents hand over and do nothing: what the detector `handoffs` is for."""

from random import Random

from tests.loops.traces import Loop, Turn, looping, route, words


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

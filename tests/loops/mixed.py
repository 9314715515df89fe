"""Runs put together of several families: a harder question than each by itself, as nobody marks where one ends."""

from random import Random

from tests.loops.traces import BENIGN, LOOPING, Label, Trace, Turn, benign_trace, looping_trace

MOST_TURNS = 95
"""A trace stays below the world's limit of steps."""


def _benign_turns(rng: Random) -> tuple[Turn, ...]:
    """Return a benign run without its answer."""
    return benign_trace(rng.choice(sorted(BENIGN)), rng.randrange(10**6)).turns[:-1]


def mixed(count: int, seed: int = 7) -> list[Trace]:
    """Return *count* runs of three benign parts, and as many that begin a loop after a benign part."""
    rng, made = Random(seed), []
    for number in range(count):
        turns = tuple(turn for _ in range(3) for turn in _benign_turns(rng))[:MOST_TURNS]
        made.append(Trace(family="three_benign_parts", seed=number, turns=turns, label=Label(loops=False), restarts=()))
    for number in range(count):
        before = _benign_turns(rng)
        loop = looping_trace(rng.choice(sorted(LOOPING)), rng.randrange(10**6))
        begin, until = len(before) + loop.label.earliest, len(before) + loop.label.latest
        label = Label(loops=True, earliest=begin, latest=until)
        turns = (*before, *loop.turns)
        made.append(Trace(family="a_loop_after_work", seed=number, turns=turns, label=label, restarts=(begin,)))
    return made

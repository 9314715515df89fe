"""Decides which fault strikes at which event of which run.

A plan is a pure function of the boundaries, the faults, the number of strikes and the seed. The boundaries come from an
undisturbed run of the same network, so the same network and seed give the same plan.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

IGNORED = frozenset({"effect_resent"})
"""Events about repeated sends. An undisturbed run has none, so they are no boundaries."""

LONGEST_DELAY_S = 0.12
"""Of every second strike after its boundary: about the time that a step takes."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StrikeTrigger:
    """The *nth* event of a type in the log of a run of *network*: the moment right after it was stored."""

    network: str
    event: str
    nth: int

    @property
    def label(self) -> str:
        return f"{self.network} {self.event}#{self.nth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrikePlanEntry:
    """One strike that a campaign is to make, *delay_s* after its boundary.

    One strike of the plan; *delay_s* after the boundary, so that some fall between two events.
    """

    number: int
    fault: str
    boundary: StrikeTrigger
    delay_s: float = 0.0


def boundaries_of(network: str, types: Iterable[str]) -> tuple[StrikeTrigger, ...]:
    """Return the boundaries of a log, given the types of its events in order."""
    seen: Counter[str] = Counter()
    found: list[StrikeTrigger] = []
    for event in types:
        if event not in IGNORED:
            seen[event] += 1
            found.append(StrikeTrigger(network=network, event=event, nth=seen[event]))
    return tuple(found)


def make_plan(
    boundaries: Sequence[StrikeTrigger], faults: Sequence[str], count: int, seed: int, *, rare: Sequence[str] = ()
) -> tuple[StrikePlanEntry, ...]:
    """Return *count* strikes, spread as evenly as they can be over faults and boundaries, and among them *rare* ones.

    Every round visits each boundary once with another fault than in the rounds before, so `len(faults)` rounds are the
    whole matrix; equal faults lie far apart, so that a service is well again before it is struck again. Each entry of
    *rare* strikes once, somewhere between the others.
    """
    chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
    order = list(range(len(boundaries)))
    chance.shuffle(order)
    turns = list(faults)
    chance.shuffle(turns)
    pairs: list[tuple[str, StrikeTrigger]] = []
    turn = 0
    while len(pairs) < count and order and turns:
        pairs += [(turns[(place + turn) % len(turns)], boundaries[index]) for place, index in enumerate(order)]
        turn += 1
        if turn % len(turns) == 0:  # the matrix is complete: the next one in another order
            chance.shuffle(order)
    del pairs[count:]
    for fault in rare if boundaries else ():
        pairs.insert(chance.randrange(len(pairs) + 1), (fault, chance.choice(boundaries)))
    return tuple(
        StrikePlanEntry(
            number=n, fault=fault, boundary=boundary, delay_s=chance.uniform(0, LONGEST_DELAY_S) if n % 2 else 0.0
        )
        for n, (fault, boundary) in enumerate(pairs, 1)
    )

"""Facts that this process makes itself: timers, admissions, answers to its own questions.

They are stored nowhere before they are committed. Each follows again from the state of its run or from a row, so a
process that dies with some of them in its queue loses nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from towpath_contracts.facts import AnyFact, MessageDeadFact
from towpath_fabric.turns.fair_queue import take_in_turns


class LocalFactQueue:
    """A queue that everything in the process may add to, and the commit loop takes from."""

    def __init__(self, arrived: asyncio.Event) -> None:
        """*arrived* is the event that the commit loop waits for; the broker's messages set it too."""
        self.arrived = arrived
        self._facts: deque[AnyFact] = deque()

    def __len__(self) -> int:
        return len(self._facts)

    def add(self, fact: AnyFact) -> None:
        self._facts.append(fact)
        self.arrived.set()

    async def add_dead(self, fact: MessageDeadFact) -> bool:
        """Add the fact that a message of a run was set aside; always done, as whoever sets messages aside asks."""
        self.add(fact)
        return True

    def take(self, most: int) -> list[AnyFact]:
        """Return the oldest facts, at most *most*, without waiting."""
        return [self._facts.popleft() for _ in range(min(most, len(self._facts)))]

    def take_in_turns(self, most: int, most_of_one: int, owner_of: Callable[[AnyFact], str]) -> list[AnyFact]:
        """Return facts in turns of their owners without waiting: at most *most*, of one owner *most_of_one*."""
        return take_in_turns(self._facts, most, most_of_one, owner_of)

"""Answers of the API that one caller had a moment ago, for figures that cost more to count than to show.

A page that is drawn again every few seconds asks for them less often than it is drawn. What one caller was told is
never told to another, and a caller who may no longer ask is refused by what the page asks for anew.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from time import monotonic
from typing import Any

FRESH_S, OLDEST_S = 15.0, 600.0
"""How old an answer may be that cost little to find, and how old any may be."""

ASKING_SHARE = 0.001
"""Of the time of each caller, at most, for which one answer is being asked for: what takes long is asked for rarely."""

ANSWERS_AT_ONCE = 256
"""The one that was asked for longest ago makes room."""


class KeptAnswers:
    """Answers by whose they are and what was asked."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[float, dict[str, Any]]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Return what is kept under *key*, or what *ask* answers, which is kept then; a refusal is not."""
        until, answer = self._answers.get(key, (0.0, {}))
        if until > monotonic():
            return answer
        began = monotonic()
        answer = await ask()
        now = monotonic()
        self._answers[key] = (now + min(max(FRESH_S, (now - began) / ASKING_SHARE), OLDEST_S), answer)
        self._answers.move_to_end(key)
        while len(self._answers) > ANSWERS_AT_ONCE:
            self._answers.popitem(last=False)
        return answer

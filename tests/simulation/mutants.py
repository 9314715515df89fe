"""Guards that can be taken away, one at a time, to see that the simulation bites.

Law: a mutant is what a careless change would leave behind: one condition, one order of two lines. The rest is the real
code, so whoever catches it would catch the change.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from towpath_contracts.budgets import NOTHING
from towpath_engine import accounting, cancel
from towpath_engine.budget_state import settle
from towpath_engine.effects import message_of
from towpath_engine.ending import finish
from towpath_engine.state import Status
from towpath_fabric.pull import ack
from towpath_orchestrator import children, loop, resuming, sender
from towpath_orchestrator.loop import CommitLoop
from towpath_tas.app import book, outcomes, requests
from towpath_tas.core import claims
from towpath_tas.core import outcomes as core_outcomes

Patch = tuple[Any, str, Any]


def _claim() -> list[Patch]:
    """Every claim on a known call is granted."""
    return [(claims, "_refusal", lambda call, *_asked, **_more: "" if call is not None else "unknown_call")]


def _fence() -> list[Patch]:
    """Nobody looks at the stored fence."""
    picture = book._picture

    def blind(*parts: Any) -> Any:
        seen = picture(*parts)
        seen.fence = 0
        return seen

    return [(book, "_picture", blind)]


def _ack_before_commit() -> list[Patch]:
    """Facts are acknowledged when they are taken."""
    gather = CommitLoop._gather

    async def hasty(loop: Any) -> Any:
        items = await gather(loop)
        await loop._acknowledge(items)
        return items

    return [(CommitLoop, "_gather", hasty)]


def _dispatch_before_commit() -> list[Patch]:
    """What a transition wants sent goes out before it is stored."""
    commit = CommitLoop._commit

    async def hasty(loop: Any, batch: Any, now: Any) -> Any:
        for moved in batch:
            for pending in moved.state.pending:
                await loop.sender.send(message_of(moved.state, pending))
        return await commit(loop, batch, now)

    return [(CommitLoop, "_commit", hasty)]


def _invoke_before_commit() -> list[Patch]:
    """The tool-access service sends invocations before the ledger has their rows."""
    handle, decide = requests.Requests._handle, requests.Item.decide
    sent: set[asyncio.Task[None]] = set()
    sender: list[Any] = []

    async def handled(self: Any, items: Any) -> None:
        sender[:] = [self._sender]
        await handle(self, items)

    def hasty(item: Any, picture: Any) -> Any:
        step = decide(item, picture)
        task = asyncio.ensure_future(sender[0].send(step))
        sent.add(task)
        return step

    return [(requests.Requests, "_handle", handled), (requests.Item, "decide", hasty)]


def _confirm_before_commit() -> list[Patch]:
    """Workers are told that the ledger holds what it does not hold yet."""
    handle = outcomes.Outcomes._handle

    async def hasty(self: Any, items: Any) -> None:
        for item in items:
            await self._confirm(outcomes._confirm_to(item.message), item.outcome.key)
            await ack(item.message)
        await handle(self, items)

    return [(outcomes.Outcomes, "_handle", hasty)]


def _overtaken() -> list[Patch]:
    """A late success of an earlier start ends the call, whatever was begun since."""
    real = core_outcomes._overtaken
    believed = lambda call, said: "" if said.status == "succeeded" else real(call, said)  # noqa: E731
    return [(core_outcomes, "_overtaken", believed)]


def _budget_released() -> list[Patch]:
    """What nobody answered for is given back."""
    return [(accounting, "lose", lambda budget, hold: settle(budget, hold, NOTHING))]


def _budget_again() -> list[Patch]:
    """A model is asked once more in the same attempt, by whoever starts anew or connects again."""
    every: Any = lambda state: list(state.pending)  # noqa: E731
    return [(place, "sayable_again", every) for place in (loop, resuming, sender)]


def _child_unasked() -> list[Patch]:
    """A parent believes that it hears of its children by itself."""
    return [(children.Children, "ask", lambda _self, _request: None)]


def _child_unawaited() -> list[Patch]:
    """A cancelled run does not wait for its children."""
    return [(cancel, "finish_if_quiet", _hasty_end)]


def _hasty_end(t: Any) -> None:
    if not cancel._pending_calls(t):
        finish(t, Status.CANCELLED, "cancelled", f"cancelled by {t.state.cancelled_by}")


def _nothing() -> list[Patch]:
    return []


TABLE_GUARDS = {"unique": "unique", "fence": "fence", "revision": "revision", "audit_first": "audit"}

MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "claim": _claim,
    "fence": _fence,
    "unique": _nothing,
    "revision": _nothing,
    "seq": _nothing,
    "audit_first": _nothing,
    "ack_before_commit": _ack_before_commit,
    "dispatch_before_commit": _dispatch_before_commit,
    "invoke_before_commit": _invoke_before_commit,
    "confirm_before_commit": _confirm_before_commit,
    "overtaken": _overtaken,
}


BUDGET_MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "budget_unguarded": _nothing,
    "budget_released": _budget_released,
    "budget_again": _budget_again,
}
"""Guards of budgets, which only the worlds of `budget_world` need."""


CHILD_MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "child_unasked": _child_unasked,
    "child_unawaited": _child_unawaited,
}
"""Guards between parents and children, which only the worlds of errands need."""


class Mutants:
    """Which guard is off in one world; none by default."""

    def __init__(self, name: str = "") -> None:
        """Raises LookupError for an unknown name."""
        self.name = name
        self._patches = {**MUTANTS, **BUDGET_MUTANTS, **CHILD_MUTANTS}[name] if name else _nothing

    def weaken(self, world: Any) -> None:
        """Take guards out of the tables."""
        if self.name in TABLE_GUARDS:
            setattr(world.ledger.guards, TABLE_GUARDS[self.name], False)
        if self.name == "budget_unguarded":
            world.budgets.unguarded = True
        if self.name == "seq":
            world.runs.ignore_seq = True

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Take guards out of the code until the block ends."""
        before = []
        for place, name, instead in self._patches():
            before.append((place, name, getattr(place, name)))
            setattr(place, name, instead)
        try:
            yield
        finally:
            for place, name, real in before:
                setattr(place, name, real)

"""Guards that can be taken away, one at a time, to see that the simulation bites.

A mutant is what a careless change would leave behind: one condition, one order of two lines. The rest is the real code,
so whoever catches it would catch the change.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from tests.mutation.in_process import applied
from tests.mutation.mutations import Mutation

_ANY_CLAIM = Mutation(
    symbol="towpath_tas:on_claim",
    old="_refusal(call, request, fault, now=now, fence=fence)",
    new='""',
)
"""Every claim on a known call is granted."""

_ANY_FENCE = Mutation(
    symbol="towpath_tas:CallUpdate.context_of", old="found.approval, found.fence", new="found.approval, 0"
)
"""Nobody looks at the stored fence."""

_ACK_BEFORE_COMMIT = Mutation(
    symbol="towpath_orchestrator:Inbox._take",
    old="return facts",
    new="await self.acknowledge(facts); return facts",
)
"""Facts are acknowledged when they are taken."""

_DISPATCH_BEFORE_COMMIT = Mutation(
    symbol="towpath_orchestrator:CommitLoop._commit",
    old="result = await self._committer.commit(batch, runs.now)",
    new="""
from towpath_engine.requests.effects import message_of
for transition in batch:
    for pending in transition.state.pending:
        await self._dispatcher.send(message_of(transition.state, pending), transition.state)
result = await self._committer.commit(batch, runs.now)
""",
)
"""What a transition wants sent goes out before it is stored."""

_INVOKE_BEFORE_COMMIT = (
    Mutation(
        symbol="towpath_tas:ToolRequestConsumer._handle",
        old="await self._ledger.apply(self._lane, updates)",
        new="self._ledger.dispatcher = self._dispatcher; await self._ledger.apply(self._lane, updates)",
    ),
    Mutation(
        symbol="towpath_tas:LedgerStore._store",
        old="changes = [update.change for update in group]",
        new="""
changes = [update.change for update in group]
for change in changes if hasattr(self, "dispatcher") else ():
    await self.dispatcher.send(change)
""",
    ),
)
"""The tool-access service sends invocations before the ledger has their rows."""

_CONFIRM_BEFORE_COMMIT = Mutation(
    symbol="towpath_tas:ToolOutcomeConsumer._handle",
    old="await self._ledger.apply(self._lane, updates)",
    new="""
for item in items:
    await self._confirm_all({confirm_subject(item.message, item.project, item.toolset): [item.outcome.key]})
    await ack(item.message)
await self._ledger.apply(self._lane, updates)
""",
)
"""Workers get a confirmation for what the ledger does not hold yet."""

_OVERTAKEN = Mutation(
    symbol="towpath_tas:_superseded_reason",
    old="begun and last is not None and last.claim_id != outcome.claim_id",
    new="False",
)
"""A late success of an earlier start ends the call, whatever was begun since."""

_BUDGET_RELEASED = Mutation(
    symbol="towpath_engine:settle_as_lost",
    old="""
settled = settle(budget, hold, hold.amounts, hold.amounts)
return replace(settled, lost=(*budget.lost, hold)[-MAX_LOST:])
""",
    new="return settle(budget, hold, NOTHING)",
)
"""Reservations without an answer are given back."""

_BUDGET_AGAIN = Mutation(
    symbol="towpath_engine:resendable_effects",
    old="asked if state.budget is None else [p for p in asked if p.kind is not EffectKind.DECIDE]",
    new="list(state.pending)",
)
"""A model is asked once more in the same attempt, by whoever starts anew or connects again."""

_CHILD_UNASKED = Mutation(
    symbol="towpath_orchestrator:EffectDispatcher.send", old="self._children.ask(message)", new="pass"
)
"""A parent expects the reports of its children without asking."""

_CHILD_UNAWAITED = Mutation(
    symbol="towpath_engine:finish_if_quiet",
    old="not _pending_calls(run) and not pending_children(run.state)",
    new="not _pending_calls(run)",
)
"""A cancelled run does not wait for its children."""

TABLE_GUARDS = {"unique": "unique", "fence": "fence", "revision": "revision", "audit_first": "audit"}

MUTANTS: Mapping[str, tuple[Mutation, ...]] = {
    "claim": (_ANY_CLAIM,),
    "fence": (_ANY_FENCE,),
    "unique": (),
    "revision": (),
    "seq": (),
    "audit_first": (),
    "ack_before_commit": (_ACK_BEFORE_COMMIT,),
    "dispatch_before_commit": (_DISPATCH_BEFORE_COMMIT,),
    "invoke_before_commit": _INVOKE_BEFORE_COMMIT,
    "confirm_before_commit": (_CONFIRM_BEFORE_COMMIT,),
    "overtaken": (_OVERTAKEN,),
}
"""Those without mutations take a guard out of the simulated tables."""

BUDGET_MUTANTS: Mapping[str, tuple[Mutation, ...]] = {
    "budget_unguarded": (),
    "budget_released": (_BUDGET_RELEASED,),
    "budget_again": (_BUDGET_AGAIN,),
}
"""Guards of budgets, which only the worlds of `budget_world` need."""

CHILD_MUTANTS: Mapping[str, tuple[Mutation, ...]] = {
    "child_unasked": (_CHILD_UNASKED,),
    "child_unawaited": (_CHILD_UNAWAITED,),
}
"""Guards between parents and children, which only the worlds of errands need."""


class MutantSwitches:
    """Which guard is off in one world; none by default."""

    def __init__(self, name: str = "") -> None:
        """Raises LookupError for an unknown name."""
        self.name = name
        self._mutations = {**MUTANTS, **BUDGET_MUTANTS, **CHILD_MUTANTS}[name] if name else ()

    def weaken(self, world: Any) -> None:
        """Take guards out of the tables."""
        if self.name in TABLE_GUARDS:
            setattr(world.ledger.guards, TABLE_GUARDS[self.name], False)
        if self.name == "budget_unguarded":
            world.budgets.unguarded = True
        if self.name == "seq":
            world.runs.ignore_seq = True

    def applied(self) -> AbstractContextManager[None]:
        """Take guards out of the code until the block ends."""
        return applied(*self._mutations)

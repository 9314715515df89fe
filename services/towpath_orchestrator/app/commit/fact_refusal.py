"""Sets a fact aside that makes of its run what Postgres can't store, and tells the run.

The rule: the fact's message leaves the stream only when its run has learned of it, or will be told by what it still
waits for. A run of which not even that can be stored is taken out of the way in its row.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from towpath_contracts.runs.refused_transition import TransitionRefusedFact
from towpath_fabric.dead_letters import DeadLetterOwner, message_dead_fact
from towpath_fabric.postgres.refused_values import refusal_reason
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.commit.inbox import Inbox, InboxFact, local_fact
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.core.refused_facts import Remedy, answered_effect, remedy_for

INBOX = "INBOX"
VALUE_REFUSED_REASON = "value_refused"

CommitFact = Callable[[UUID, InboxFact], Awaitable[bool]]
"""Commits a fact of a run by itself; False where another replica moves the run meanwhile."""


class FactRefusal:
    """Refuses facts for the commit loop. One per process."""

    def __init__(
        self, inbox: Inbox, local_facts: LocalFactQueue, cache: StateCache, store: RunStore, log: Logger
    ) -> None:
        self._inbox = inbox
        self._local_facts = local_facts
        self._cache = cache
        self._store = store
        self._log = log

    async def refuse(self, item: InboxFact, error: Exception, commit: CommitFact) -> None:
        """Refuse one fact because of *error*, once: a batch may be handled again when Postgres was away."""
        run_id, reason = item.fact.run_id, refusal_reason(error)
        self._log.error(
            "postgres can't store what a fact makes of its run",
            run_id=str(run_id),
            fact=item.fact.type,
            error=reason,
        )
        if isinstance(item.fact, TransitionRefusedFact):
            self._cache.drop(run_id)
            await self._store.park(run_id, VALUE_REFUSED_REASON)
            return
        remedy = remedy_for(item.fact, self._cache.get(run_id))
        if remedy is Remedy.PARK and not await commit(run_id, self._parked(item, reason)):
            await self._inbox.give_back([item], None)
            return
        effect_id = answered_effect(item.fact) if remedy is Remedy.ASK_AGAIN else None
        owner = DeadLetterOwner(run_id=run_id, effect_id=effect_id)
        if item.message is not None:
            await self._inbox.refuse(item.message, reason, owner)
        elif effect_id is not None:
            self._local_facts.add(message_dead_fact(INBOX, reason, run_id, owner))
        item.is_refused = True

    @staticmethod
    def _parked(item: InboxFact, reason: str) -> InboxFact:
        return local_fact(TransitionRefusedFact(run_id=item.fact.run_id, refused=item.fact.type, message=reason))

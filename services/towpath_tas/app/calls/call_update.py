"""One message about one call, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from towpath_tas.adapters.ledger_tables import LedgerReadResult
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.call import LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.restore_doubts import unasked_since, with_possible_start
from towpath_tas.core.run_facts import postponed

NO_CHANGE = LedgerChange()


@dataclass(slots=True, eq=False)
class CallUpdate:
    """One message about one call on its way through the ledger, and what came of it; `decide` is pure.

    *fresh*: no row is expected. *read*: the row must be read and not taken from the cache. Limits of a run are counted
    under *usage_run_id*: the root run, whichever run below it calls, or the one whose counts a fork shares.
    *root_run_id* is the run on top of the tree, where the message says it, and *attempt* numbers the requests of a run
    for one call. `apply` sets `change`, or `error`, or `contested`, or `erased`: the row was erased with its run, and
    nothing is decided about it any more. `stored_use` is what limited rules had stored of their use before this batch,
    of runs and of projects, where the call is refused on top of others of the batch.
    """

    run_id: UUID
    execution_id: UUID
    decide: Callable[[LedgerContext], LedgerChange]
    project: str = ""
    usage_run_id: UUID | None = None
    root_run_id: UUID | None = None
    attempt: int = 0
    fresh: bool = False
    read: bool = False
    change: LedgerChange = NO_CHANGE
    base: dict[str, int] = field(default_factory=dict)
    stored_use: tuple[dict[str, int], dict[str, int]] | None = None
    postponed_until: datetime | None = None
    context: LedgerContext | None = None
    error: str = ""
    contested: bool = False
    erased: bool = False

    def postpone(self, until: datetime) -> None:
        """Store nothing of a new call, and have its run ask again: the quota of its project has no room for it."""
        call = self.change.call
        self.postponed_until = until
        if call is not None:
            self.change = LedgerChange(
                effects=(SendFact(run_id=call.run_id, fact=postponed(call, self.attempt, until)),)
            )

    def context_of(
        self, call: LedgerCall | None, found: LedgerReadResult | None, now: datetime, bundle: ProjectAuthorizer
    ) -> LedgerContext:
        """Return what *call* is decided from: as it was *found*, or as it is guessed where it was not read."""
        since = unasked_since(bundle.restored, call, self.run_id, self.root_run_id)
        if call is not None:
            call = with_possible_start(call, since)
        context = LedgerContext(call=call, approval=None, fence=0, now=now, bundle=bundle, lost_since=since)
        if found is not None:
            context.approval, context.fence = found.approval, found.fence
        return context

    @property
    def usage_key(self) -> UUID:
        return self.usage_run_id or self.run_id

    @property
    def owner(self) -> str:
        """Return the project of the call, which its row says where there is one."""
        call = self.context.call if self.context is not None else None
        return self.project if call is None else call.project

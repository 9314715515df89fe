"""One message about one call, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.core.call import LedgerChange

NO_CHANGE = LedgerChange()


@dataclass(slots=True, eq=False)
class CallUpdate:
    """One message about one call on its way through the ledger, and what came of it; `decide` is pure.

    *fresh*: no row is expected. *read*: the row must be read and not taken from the cache. Limits of a run are counted
    under *usage_run_id*: the root run, whichever run below it calls, or the one whose counts a fork shares. `apply`
    sets `change`, or `error`, or `contested`, or `erased`: the row was erased with its run, and nothing is decided
    about it any more.
    """

    run_id: UUID
    execution_id: UUID
    decide: Callable[[LedgerContext], LedgerChange]
    project: str = ""
    usage_run_id: UUID | None = None
    fresh: bool = False
    read: bool = False
    change: LedgerChange = NO_CHANGE
    base: dict[str, int] = field(default_factory=dict)
    context: LedgerContext | None = None
    error: str = ""
    contested: bool = False
    erased: bool = False

    @property
    def usage_key(self) -> UUID:
        return self.usage_run_id or self.run_id

    @property
    def owner(self) -> str:
        """Return the project of the call, which its row says where there is one."""
        call = self.context.call if self.context is not None else None
        return self.project if call is None else call.project

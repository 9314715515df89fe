"""Broken variants of services: each has one guard turned off, so that it can be shown that the tests notice.

No service knows of this. A mutant is a process of its own, started by `tests.chaos.mutated_service` and by nothing
else, and only where crash points may be armed.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.mutation.mutations import Mutation


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A service without one of its guards. `module` is what `python -m` runs; `figure` is what has to detect it."""

    name: str
    summary: str
    module: str
    figure: str
    mutations: tuple[Mutation, ...]

    @property
    def role(self) -> str:
        """The role that is broken."""
        return self.module.removeprefix("towpath_")

    @property
    def commands(self) -> dict[str, tuple[str, ...]]:
        """What a `Platform` has to be given as `commands` to run the mutant in place of the service."""
        # Without anything before the interpreter, so that it can be forked.
        return {self.role: (sys.executable, "-m", "tests.chaos.mutated_service", self.name, self.module)}


_NEWEST_FENCE: Final = "2**31 - 1"
"""A fence that no stored one is newer than: the statements compare the stored one with that of the row."""

_ALL: Final = (
    Mutant(
        name="no_fence_check",
        summary="requests, claims and outcomes are decided, and stored, whatever fence was raised",
        module="towpath_tas",
        figure="late",
        mutations=(
            Mutation(
                symbol="towpath_tas:CallUpdate.context_of", old="found.approval, found.fence", new="found.approval, 0"
            ),
            *(
                Mutation(
                    symbol=f"towpath_tas:{function}",
                    old=f"values = {values}(call)",
                    new=f"from dataclasses import replace; values = {values}(replace(call, fence={_NEWEST_FENCE}))",
                )
                for function, values in (("_call_row", "_call_values"), ("_change_row", "_change_values"))
            ),
        ),
    ),
    Mutant(
        name="no_ledger_uniqueness",
        summary="an execution may be opened, and claimed, although the ledger has it already",
        module="towpath_tas",
        figure="dup",
        mutations=(
            Mutation(
                symbol="towpath_tas:on_request",
                old="differing = _conflict(call, request, args_digest)",
                new="""
if call.status in {CallStatus.PERMITTED, CallStatus.STARTED, CallStatus.SUCCEEDED, CallStatus.FAILED}:
    again = call.next_revision(status=CallStatus.PERMITTED, attempt=call.attempt + 1, claims=(), fact=None)
    return LedgerChange(call=again, effects=(DispatchCall(call=again),))
differing = _conflict(call, request, args_digest)
""",
            ),
            Mutation(
                symbol="towpath_tas:on_claim",
                old="reason = _refusal(call, request, fault, now=now, fence=fence)",
                new="""
call = call and replace(call, claims=())
reason = _refusal(call, request, fault, now=now, fence=fence)
""",
            ),
        ),
    ),
    Mutant(
        name="ack_before_commit",
        summary="facts are acknowledged before their transition is stored",
        module="towpath_orchestrator",
        figure="differences",
        mutations=(
            Mutation(
                symbol="towpath_orchestrator:CommitLoop._process",
                old="tries = 0",
                new="""
tries = 0
await self._inbox.acknowledge(items)
for message in [item.message for item in items if item.message is not None]:
    await message._client.flush()
""",
            ),
        ),
    ),
    Mutant(
        name="dispatch_before_commit",
        summary="calls are dispatched before the ledger has them",
        module="towpath_tas",
        figure="audit_holes",
        mutations=(
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
    await self.dispatcher._bus.nc.flush()
""",
            ),
        ),
    ),
)

MUTANTS: Final[Mapping[str, Mutant]] = {mutant.name: mutant for mutant in _ALL}
"""Every mutant by name."""

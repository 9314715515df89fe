"""Commands about stored calls: raise a fence, decide an approval, settle an unknown call, record an internal outcome.

A command counts from the commit that stores it, and is not answered before. A refusal says why.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.runs.views import ActionDone, ResolveGate
from towpath_contracts.tools.access import FencedCalls, RaiseFence, SettleCall
from towpath_contracts.tools.calls import CallStatus
from towpath_contracts.tools.internal_outcomes import InternalOutcomeAnswer, RecordInternalOutcome
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_tas.adapters.ledger_tables import QUERIES, call_from_row, change_calls
from towpath_tas.app.calls.call_update import NO_CHANGE, CallUpdate
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.core.approvals import approval_votes
from towpath_tas.core.authorization_query import query_of_call
from towpath_tas.core.call import FINAL, LedgerCall, LedgerChange, key_detail
from towpath_tas.core.calls.internal_calls import on_recorded
from towpath_tas.core.calls.restore_doubts import unasked_since, with_possible_start
from towpath_tas.core.calls.settlement import is_live, on_fence, on_settle, retry_problem
from towpath_tas.core.calls.switch_holds import hold
from towpath_tas.core.restored_runs import RestoredRuns


class LedgerCommands:
    """Applies commands to the ledger; with *single_person* whoever asked for a call may approve it."""

    def __init__(
        self, pool: Database, ledger: LedgerStore, dispatcher: LedgerEffectPublisher, *, single_person: bool = False
    ) -> None:
        self._single_person = single_person
        self._pool = pool
        self._ledger = ledger
        self._dispatcher = dispatcher

    async def raise_fence(self, request: RaiseFence) -> FencedCalls:
        """Store a fence, void calls that have not started, ask running ones to stop. May be repeated."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(QUERIES.lock_fence, request.run_id)
            row = await connection.fetchrow(QUERIES.raise_fence, request.run_id, request.project, request.fence)
            stored = await connection.fetch(QUERIES.calls_of_run, request.run_id, request.project)
            calls = await _with_possible_starts(connection, request, [call_from_row(found) for found in stored])
            changes = [on_fence(call, request.reason, now=row["at"]) for call in calls]
            changed = [change for change in changes if change.call is not None]
            if changed:
                crash_point("tas.fence_before_change")
                await change_calls(connection, changed, [])
            crash_point("tas.fence_before_commit")
        crash_point("tas.fence_committed")
        for change in changes:
            await self._dispatcher.send(change)
        await crash_point_after_flush("tas.fence_before_reply")
        after = [change.call or call for call, change in zip(calls, changes, strict=True)]
        return _fence_answer(request, row["fence"], after, row["at"])

    async def resolve_approval(self, request: ResolveGate) -> ActionDone:
        """Store a person's vote on an approval, then inform the run; raises ProblemError if it does not count."""
        found = await self._pool.fetchrow(QUERIES.find_approval, request.approval_id, request.project)
        if found is None:
            raise ProblemError(
                problem("gate_not_found", f"no approval {request.approval_id} in the project {request.project}")
            )

        def decide(context: LedgerContext) -> LedgerChange | Problem:
            if context.call is None or context.approval is None:
                return problem("gate_not_found", "the call is not in the ledger")
            if context.approval.approval_id != request.approval_id:
                if approval_votes.is_repeated_edit(context.call, context.approval, request):
                    return NO_CHANGE
                return problem("gate_settled", "the call has a newer approval, which shows what changed")
            return approval_votes.resolve(
                *(context.call, context.approval, request, context.authorize),
                now=context.now,
                single_person=self._single_person,
            )

        update = await self._apply(found["run_id"], found["execution_id"], request.project, decide)
        return ActionDone(detail=f"approval {request.approval_id}: {_approval_progress(update)}")

    async def settle_call(self, request: SettleCall) -> ActionDone:
        """Store a person's decision about an unknown call, then inform the run; raises ProblemError if settled."""

        def decide(context: LedgerContext) -> LedgerChange | Problem:
            call = context.call
            if call is None or call.project != request.project:
                return problem(
                    "tool_call_not_found", f"no call {request.execution_id} in the project {request.project}"
                )
            change = on_settle(
                call, request.verdict, request.actor, request.reason, now=context.now, fence=context.fence
            )
            if isinstance(change, Problem):
                return change
            if request.verdict == "retry":
                decision = context.authorize(query_of_call(call))
                refused = retry_problem(
                    *(call, context.approval, decision, request.actor), single_person=self._single_person
                )
                if refused is not None:
                    return refused
                change = replace(change, policy_bound=True)
            return _with_key(change, request)

        await self._apply(request.run_id, request.execution_id, request.project, decide)
        return ActionDone(detail=f"call {request.execution_id}: {request.verdict}")

    async def record_outcome(self, request: RecordInternalOutcome) -> InternalOutcomeAnswer:
        """Store the outcome of a call that its run applied itself."""
        refused: list[str] = [""]

        def decide(context: LedgerContext) -> LedgerChange:
            change, refused[0] = on_recorded(context.call, request)
            return change

        await self._apply(request.run_id, request.execution_id, request.project, decide)
        return InternalOutcomeAnswer(execution_id=request.execution_id, refused=refused[0])

    async def _apply(
        self,
        run_id: UUID,
        execution_id: UUID,
        project: str,
        decide: Callable[[LedgerContext], LedgerChange | Problem],
    ) -> CallUpdate:
        refused: list[Problem] = []

        def decide_or_refuse(context: LedgerContext) -> LedgerChange:
            refused.clear()
            result = decide(context)
            if isinstance(result, Problem):
                refused.append(result)
                return NO_CHANGE
            return hold(context.call, result, context.active_switch())

        update = CallUpdate(
            run_id=run_id, execution_id=execution_id, project=project, decide=decide_or_refuse, read=True
        )
        lane = PinnedDatabaseConnection(self._pool)
        try:
            await self._ledger.apply(lane, [update])
        finally:
            await lane.close()
        crash_point("tas.word_written")
        if update.erased:
            raise ProblemError(problem("run_erased", f"run {run_id} was erased", run_id=str(run_id)))
        if refused:
            raise ProblemError(refused[0])
        if update.error or update.contested:
            raise ProblemError(problem("unavailable", update.error or "the call is contested", retry_after_s=1))
        await self._dispatcher.send(update.change)
        await crash_point_after_flush("tas.word_told")
        return update


async def _with_possible_starts(connection: Any, request: RaiseFence, calls: list[LedgerCall]) -> list[LedgerCall]:
    """Return *calls* with the starts that a restored database may know nothing of: such a call is not void."""
    if all(call.status in FINAL for call in calls):
        return calls
    rows = await connection.fetch(QUERIES.restored_runs, request.project)
    restored = RestoredRuns({row["run_id"]: row["lost_since"] for row in rows})
    return [with_possible_start(call, unasked_since(restored, call, request.run_id)) for call in calls]


def _with_key(change: LedgerChange, request: SettleCall) -> LedgerChange:
    """Return *change* with the key that a person's word came with in what it records."""
    by = key_detail(request.key_prefix, request.key_commitment)
    notes = tuple(replace(note, detail={**(note.detail or {}), **by}) for note in change.notes)
    return replace(change, notes=notes)


def _approval_progress(update: CallUpdate) -> str:
    """Describe how far the approval is after the vote, or as it was found if the vote was a repetition."""
    found = update.context.approval if update.context is not None else None
    approval = update.change.approvals[-1] if update.change.approvals else found
    return approval_votes.format_progress(approval) if approval is not None else ""


def _fence_answer(request: RaiseFence, fence: int, calls: Sequence[LedgerCall], now: datetime) -> FencedCalls:
    return FencedCalls(
        run_id=request.run_id,
        fence=fence,
        voided=tuple(call.execution_id for call in calls if call.status is CallStatus.VOID),
        live=tuple(call.execution_id for call in calls if is_live(call, now)),
        unknown=tuple(call.execution_id for call in calls if call.status is CallStatus.UNKNOWN and not call.settled_by),
    )

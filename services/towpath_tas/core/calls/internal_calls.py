"""Calls of internal tools: permitted here, applied by the run itself, and closed by its report.

No worker is involved and no ticket is issued. The run's log is the source of truth about such a call: its report counts
whatever a deadline or a fence has made of the row meanwhile. A call that was never permitted can't have been applied.
"""

from towpath_contracts.canonical import digest, json_safe
from towpath_contracts.facts import InternalToolPermittedFact, ToolFinishedFact
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS, ORCHESTRATE
from towpath_contracts.tools.calls import CallStatus
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome
from towpath_contracts.tools.internal_tools import PLATFORM_TOOLSET, PLATFORM_WORKER
from towpath_tas.core.call import CallAuditEntry, LedgerCall, LedgerChange
from towpath_tas.core.run_facts import executed_args
from towpath_tas.core.tools.registry import ToolVersion, platform_tool_version

ACCEPTED_FROM_RUN = "run"
"""`accepted` in rows whose outcome the run reported."""

_NEVER_PERMITTED = frozenset({CallStatus.DENIED, CallStatus.AWAITING_APPROVAL})
"""Without `requested`: a held call is in that state although the run may have received its permission before."""

BUILT_IN: tuple[ToolVersion, ...] = tuple(
    tool for name in BUILT_IN_TOOLS if (tool := platform_tool_version(name)) is not None
)
"""Tools that every project has without registration."""


def platform_tools(*, orchestrate: bool) -> tuple[ToolVersion, ...]:
    """Return the platform's own tools without those that are switched off."""
    return tuple(tool for tool in BUILT_IN if orchestrate or tool.spec.name != ORCHESTRATE)


def is_internal(call: LedgerCall) -> bool:
    """Return whether the run itself applies *call*."""
    return call.toolset == PLATFORM_TOOLSET


def permission_fact(call: LedgerCall) -> str:
    """Return the permission as JSON; sent again for every repeated request until the call has ended."""
    return InternalToolPermittedFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:permitted:{call.attempt}",
        execution_id=call.execution_id,
        policy_version=call.policy_version,
        executed_args=executed_args(call),
        edited_by=call.edited_by,
    ).model_dump_json(exclude={"contents"})


def on_recorded(call: LedgerCall | None, outcome: RecordInternalOutcome) -> tuple[LedgerChange, str]:
    """Return the change that the run's report makes, and why it makes none, if so."""
    if call is None or (call.run_id, call.project) != (outcome.run_id, outcome.project):
        return LedgerChange(), "no such call is in the ledger"
    if not is_internal(call) or call.tool != outcome.tool:
        return LedgerChange(), "it is no call of an internal tool"
    if call.accepted:
        return LedgerChange(), ""  # a repeat: the confirmation was lost
    if call.status in _NEVER_PERMITTED:
        return LedgerChange(), f"the call is {call.status}: it can't have been applied"
    ended = call.next_revision(
        status=CallStatus(outcome.status), fact=_finished(call, outcome), accepted=ACCEPTED_FROM_RUN, settled_by=""
    )
    detail = {"result_digest": digest(json_safe(outcome.result)), "was": str(call.status)}
    if outcome.failure is not None:
        detail = {"code": outcome.failure.code, "reason": outcome.failure.message, "was": str(call.status)}
    note = CallAuditEntry(phase="outcome", verdict=outcome.status, call=ended, actor=PLATFORM_WORKER, detail=detail)
    return LedgerChange(call=ended, notes=(note,)), ""


def _finished(call: LedgerCall, outcome: RecordInternalOutcome) -> str:
    result = json_safe(outcome.result)
    return ToolFinishedFact(
        run_id=call.run_id,
        fact_id=f"{call.execution_id}:outcome:{call.attempt}",
        execution_id=call.execution_id,
        status=outcome.status,
        result=result,
        result_digest=digest(result),
        failure=outcome.failure,
        worker=PLATFORM_WORKER,
        policy_version=call.policy_version,
        attempt=call.attempt,
        executed_args=executed_args(call),
        edited_by=call.edited_by,
    ).model_dump_json()

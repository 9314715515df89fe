"""A call as authorization is asked about it: made from a request, or again from what the ledger has of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.grants import Grants, grant_chain
from towpath_tas.core.call import LedgerCall
from towpath_tas.core.policy.conditions import ConditionBudget, ConditionContext
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.provenance.call_values import CallProvenance


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationQuery:
    """A call as the matrix is asked about it. `args_text` is the canonical JSON of `args`.

    `origin` is what conditions see of where the values come from; `call_origin` has all of it, where it was looked up.
    """

    run_id: UUID | None
    project: str
    principal: CallPrincipal
    step: int
    tool: str
    operation: str
    args: Mapping[str, Any]
    args_text: str
    labels: Mapping[str, str]
    grants: Grants = ()
    spent_usd: float | None = None
    origin: JsonObject | None = None
    call_origin: CallProvenance | None = None
    snapshot_digest: str = ""

    def context(self) -> dict[str, Any]:
        """Return what conditions see."""
        return {
            "args": self.args,
            "run": {
                "id": str(self.run_id or ""),
                "project": self.project,
                "network": self.principal.network,
                "step": self.step,
                "labels": dict(self.labels),
            },
            "agent": {"key": self.principal.agent, "type": self.principal.agent_type},
            "caller": self.principal.caller,
            "origin": self.origin or {},
        }

    def condition_context(self, budget: ConditionBudget | None = None) -> ConditionContext:
        """Return what conditions see, for conditions that are evaluated on *budget*."""
        return ConditionContext(self.context(), budget, self.args_text)


def query_of_request(request: ToolRequest, args_text: str) -> AuthorizationQuery:
    return AuthorizationQuery(
        run_id=request.run_id,
        project=request.project,
        principal=CallPrincipal(
            request.network, request.agent_key, request.agent_type, request.caller, request.project
        ),
        step=request.step,
        tool=request.tool,
        operation=request.operation,
        args=request.args,
        args_text=args_text,
        labels=request.labels,
        spent_usd=request.spent_usd,
        grants=grant_chain(request.grants, request.grant),
        snapshot_digest=request.snapshot_digest,
    )


def with_edited_args(query: AuthorizationQuery, call: LedgerCall) -> AuthorizationQuery:
    """Return *query* with the arguments that a person put in place of the requested ones."""
    return replace(query, args=json.loads(call.args), args_text=call.args)


def query_of_call(call: LedgerCall) -> AuthorizationQuery:
    """Return the query of a stored call, to authorize it again."""
    context = json.loads(call.context)
    return AuthorizationQuery(
        run_id=call.run_id,
        project=call.project,
        principal=CallPrincipal(call.network, call.agent_key, call.agent_type, call.caller, call.project),
        step=call.step,
        tool=call.tool,
        operation="call",
        args=json.loads(call.args),
        args_text=call.args,
        labels=context.get("labels", {}),
        spent_usd=context.get("spent_usd"),
        origin=context.get("origin"),
        grants=grant_chain(context.get("grants", ()), context.get("grant")),
        snapshot_digest=call.snapshot_digest,
    )

"""Finds the gates at which a run waits, so that who reads its answer can name them to whoever decides."""

from collections.abc import Sequence
from uuid import UUID

from towpath_contracts import rpc
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.runs.views import GatePage, GateView, ListGates, RunView
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_gateway.app.asking_stream import MAX_ASKED
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.core.api_keys import Principal


async def waiting_gates(
    dependencies: GatewayDependencies, principal: Principal, view: RunView | None
) -> list[JsonObject]:
    """Return the gates of a run, and of all below it, that a word can open; none to a key that may not see them.

    Where they can't be listed at the moment there are none either: the run is there all the same, and who is refused
    would have it a second time.
    """
    if view is None or not view.waits or "gates:read" not in principal.scopes:
        return []
    try:
        found = await _listed(dependencies, principal, root_run_id=view.run_id)
        found = found or await _listed(dependencies, principal, run_id=view.run_id)
    except ProblemError:
        return []
    return [_told(gate) for gate in found]


async def _listed(
    dependencies: GatewayDependencies,
    principal: Principal,
    *,
    run_id: UUID | None = None,
    root_run_id: UUID | None = None,
) -> Sequence[GateView]:
    asked = ListGates(project=principal.project, run_id=run_id, root_run_id=root_run_id, paused=False, limit=MAX_ASKED)
    page: GatePage = await dependencies.platform.request(rpc.LIST_GATES, asked)
    return page.gates


def _told(gate: GateView) -> JsonObject:
    told: JsonObject = {"gate_id": str(gate.gate_id), "gate_type": gate.gate_type}
    more = {
        "tool": gate.detail.get("tool"),
        "summary": summary_of_gate(gate.detail),
        "doubts": doubt_lines(gate.detail),
    }
    return told | {name: value for name, value in more.items() if value}

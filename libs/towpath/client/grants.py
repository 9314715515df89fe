"""Proposals of grants: what one task may use, made from a network, a plan, past runs or a model's answer. HTTP only.

Nothing here changes a right: a proposal is looked at, and its `grant` given to `submit` or `run` as an option.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from towpath.client.transport import Transport
from towpath.errors import RefusedError, RunTimeoutError
from towpath.tasks.plans import plan_json
from towpath_contracts.base import JsonObject
from towpath_contracts.grant_proposals.network_grants import grant_of_network, grant_of_plan
from towpath_contracts.grant_proposals.proposals import MIN_SHARE, GrantProposal
from towpath_contracts.networks.plan_checks import check_plan
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.near_names import unknown_agent
from towpath_contracts.problems.registry import problem
from towpath_fabric.clock import monotonic

if TYPE_CHECKING:
    from towpath.tasks.plans import PlanDraft

PROPOSAL_WAIT_S = 130.0
"""How long a model is waited for: a little longer than the run that asks it may take."""


class GrantResource:
    """Ways to make a grant."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def from_network(
        self, network: str, *, agent_key: str | None = None, version: int | None = None
    ) -> GrantProposal:
        """Return a grant of all tools of the agents that a task of *network* can reach; no run and no model is asked.

        A task that begins with *agent_key* may reach fewer.
        """
        return network_proposal(await self._version(network, version), agent_key)

    async def from_plan(
        self, network: str, plan: "PlanDraft | JsonObject", *, version: int | None = None
    ) -> GrantProposal:
        """Return a grant of the tools of the agents that *plan* names on *network*, and of those they hand over to.

        *plan* is a `towpath.plan`, or one as JSON. Raises RefusedError with every fault of a bad plan.
        """
        return plan_proposal(await self._version(network, version), plan_json(plan))

    async def from_runs(
        self,
        network: str,
        *,
        since: datetime | None = None,
        label: str | None = None,
        min_share: float = MIN_SHARE,
        tight: bool = False,
    ) -> GrantProposal:
        """Return a grant of the tools that completed runs of *network* have used in the last 30 days, or *since*.

        What a smaller share of them than *min_share* used is left out; *label* (`key=value`) picks runs. With *tight*
        an entry is bound to the destinations that were the same in each of at least three calls.
        """
        query: dict[str, Any] = {"label": label, "min_share": min_share, "tight": tight}
        query["since"] = None if since is None else since.isoformat()
        answer = await self._transport.request("GET", f"/v1/grants/from-runs/{network}", query=query)
        return GrantProposal.model_validate(answer)

    async def propose(
        self,
        network: str,
        message: str,
        *,
        model: str | None = None,
        version: int | None = None,
        script: list[Any] | None = None,
        idempotency_key: str | None = None,
    ) -> GrantProposal:
        """Return the grant that a model proposes for a task of *network* that says *message*.

        The model, the network's own unless *model* names another, sees *message* and the names, effect classes and
        descriptions of the tools; give it nothing that others wrote. It is asked in a run of yours, whose id is
        `run_id`. Raises RefusedError `grant_not_proposed` where its answer can't be a grant, and RunTimeoutError.
        """
        body: JsonObject = {"network": network, "user_message": message, "model": model, "version": version}
        body |= {"script": script, "idempotency_key": idempotency_key or f"client-{uuid4().hex}"}
        sent = {name: value for name, value in body.items() if value is not None}
        began = monotonic()
        while True:
            try:
                answer = await self._transport.request("POST", "/v1/grants/propose", body=sent)
            except RunTimeoutError:
                if monotonic() - began > PROPOSAL_WAIT_S:
                    raise
            else:
                return GrantProposal.model_validate(answer)

    async def _version(self, network: str, version: int | None) -> NetworkVersion:
        answer = await self._transport.request("GET", f"/v1/networks/{network}", query={"version": version})
        return NetworkVersion.model_validate(answer)


def network_proposal(version: NetworkVersion, agent_key: str | None = None) -> GrantProposal:
    """Return the grant of a network that was read, or only validated; raises RefusedError for an unknown agent."""
    if version.snapshot is None:
        raise RefusedError(problem("version_not_found", f"{version.name} comes without its snapshot"))
    try:
        return grant_of_network(version.snapshot, version.version, agent_key)
    except LookupError as error:
        detail = unknown_agent(agent_key or "", version.snapshot.agents)
        raise RefusedError(problem("agent_not_found", detail)) from error


def plan_proposal(version: NetworkVersion, task: JsonObject) -> GrantProposal:
    """Return the grant of *task*, what a task says as its plan, on a network that was read.

    Raises RefusedError with every fault of the plan, and for one that a model is yet to make.
    """
    written = task.get("plan")
    if version.snapshot is None:
        raise RefusedError(problem("version_not_found", f"{version.name} comes without its snapshot"))
    if not isinstance(written, dict):
        detail = "a plan that a model is to make may name any agent: make the grant of the network instead"
        raise RefusedError(problem("plan_invalid", detail))
    swarm = version.snapshot.swarm
    members = {*version.snapshot.agents, *(swarm.swarms if swarm is not None else ())}
    plan, faults = check_plan(written, agents=members, bindings=task.get("bindings") or ())
    if plan is None or faults:
        raise RefusedError(problem("plan_invalid", tell_faults(faults), errors=tuple(faults)))
    return grant_of_plan(version.snapshot, version.version, plan)

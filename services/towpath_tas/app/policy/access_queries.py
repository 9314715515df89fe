"""Queries about rights: dry runs, what an agent may do, which tools there are.

A query changes nothing, and is answered by the code that decides live calls.
"""

from functools import partial
from typing import Any

from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.access import (
    AccessVerdict,
    AgentPermissions,
    CheckAccess,
    CheckGrant,
    DescribeTools,
    GetPermissions,
    GrantChecked,
    ToolsDescribed,
    ToolVersionProposal,
)
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.grants import chain_covers, grant_chain
from towpath_tas.adapters.cel import compile_grant
from towpath_tas.adapters.ledger_tables import QUERIES, read_rates
from towpath_tas.app.calls.value_origins import RunProvenanceCache
from towpath_tas.app.policy.policy_threads import MAX_ANSWER_CHARS, PolicyThreads
from towpath_tas.app.policy.policy_warnings import PolicyLinter
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.permission_comparison import permission_of
from towpath_tas.core.policy.conditions import ConditionBudget
from towpath_tas.core.policy.grants import grant_problems, grant_size_problem
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.teams import delegates_in

MAX_PROPOSALS = 200
"""Proposals in one answer: a person reviews them one by one."""

MAX_PROPOSAL_CHARS = 300_000
"""Characters of their specs and reasons in one answer, which is one message."""

_PROPOSAL_COLUMNS = ("version", "digest", "status", "reason", "owner", "worker", "held", "proposed_at")


class AccessQueries:
    """Answers questions about rights."""

    def __init__(self, pool: Any, policy_cache: PolicyCache, threads: PolicyThreads) -> None:
        self._pool = pool
        self._threads = threads
        self._policy_cache = policy_cache
        self._origins = RunProvenanceCache()
        self._advice = PolicyLinter(pool, policy_cache)

    async def check(self, request: CheckAccess) -> AccessVerdict:
        """Return what the matrix would decide about a call, and how each rule for the tool was evaluated.

        Raises ProblemError `grant_too_large`, and `overloaded` where the project asks for more than is answered.
        """
        too_large = grant_size_problem(request.grant or ())
        if too_large is not None:
            raise ProblemError(problem("grant_too_large", too_large.detail, errors=(too_large,)))
        async with self._threads.questions.turn(request.project):
            return await self._check(request)

    async def _check(self, request: CheckAccess) -> AccessVerdict:
        """Answer within a turn; what takes longer the more is asked is computed in its thread."""
        compute = self._threads.questions.compute
        bundle = await self._policy_cache.current(self._pool, request.project)
        principal = CallPrincipal(
            request.network, request.agent_key, request.agent_type, request.caller, request.project
        )
        query = await compute(partial(_query_of, request, principal))
        if request.run_id is not None:
            asked = {request.run_id: request.project}
            readers = asked if bundle.asks_readers(query) else ()
            known = await self._origins.of(self._pool, asked, readers)
            while request.run_id not in known:  # each time goes on where the last one ended
                known = await self._origins.of(self._pool, asked, readers)
            query = await compute(partial(bundle.with_origin, query, known[request.run_id]))
        budget = ConditionBudget()
        decision = await compute(partial(bundle.authorize, query, request.used, budget=budget))
        if request.rates and decision.rated:
            keys = [(request.project, rate) for rate in decision.rated]
            rates = {rule: used for (_, rule), used in (await read_rates(self._pool, keys)).items()}
            decision = await compute(partial(bundle.authorize, query, request.used, rates, budget))
        tool = bundle.registry.tools.get(request.tool)
        operation = tool.spec.operation if tool else query.operation
        denial = decision.denial
        trace = partial(bundle.matrix.trace, principal, request.tool, operation, query.condition_context(budget))
        return AccessVerdict(
            verdict=decision.effect,
            rule=decision.rule,
            rule_at=bundle.matrix.place_of(decision.rule),
            reason=decision.reason,
            violation_type=denial.violation_type if denial else "",
            policy_version=decision.policy_version,
            allowed_tools=denial.allowed_tools if denial else (),
            suggestion=denial.suggestion if denial else "",
            trace=await compute(partial(trace, discovered=tool is not None and tool.spec.discovered)),
            denial=denial,
            origins=query.call_origin.shown() if query.call_origin is not None else (),
            hints=await self._advice.about_question(principal, request.tool, bundle, self._threads.questions),
        )

    async def permissions(self, request: GetPermissions) -> AgentPermissions:
        """List every tool that a rule allows or denies to this agent, for any caller; a lead's delegates too.

        Raises ProblemError `answer_too_large`, and `overloaded` where the project asks for more than is answered.
        """
        questions = self._threads.questions
        async with questions.turn(request.project):
            bundle = await self._policy_cache.current(self._pool, request.project)
            network = await self._pool.fetchval(QUERIES.network_spec, request.project, request.network)
            return await questions.compute(partial(_permissions, request, bundle, network))

    async def describe(self, request: DescribeTools) -> ToolsDescribed:
        """Return current specs; unknown names are left out, and tools that the grants exclude."""
        bundle = await self._policy_cache.current(self._pool, request.project)
        known = bundle.registry.tools
        names = known.keys() if request.names is None else set(request.names)
        tools = [
            tool
            for name, tool in known.items()
            if name in names and chain_covers(request.grants, name, tool.spec.operation)
        ]
        return ToolsDescribed(
            tools=tuple(tool.spec for tool in tools),
            versions={tool.spec.name: tool.version for tool in tools},
            held={tool.spec.name: tool.held_by for tool in tools if tool.held_by},
            doubts={tool.spec.name: tool.doubt for tool in tools if tool.doubt} if request.proposals else {},
            owners={tool.spec.name: tool.owner for tool in tools if tool.owner} if request.proposals else {},
            proposals=await self._proposals(request) if request.proposals else (),
        )

    async def check_grant(self, request: CheckGrant) -> GrantChecked:
        """Return all problems of the conditions of a grant, including names that they may not use."""
        too_large = grant_size_problem(request.grant)
        if too_large is not None:
            return GrantChecked(problems=(too_large,))
        check = partial(grant_problems, request.grant, compile_grant)
        return GrantChecked(problems=await self._threads.grants.run(request.project, check))

    async def _proposals(self, request: DescribeTools) -> tuple[ToolVersionProposal, ...]:
        """Return what waits for a policy admin, and what was refused and is still offered."""
        found: list[ToolVersionProposal] = []
        room = MAX_PROPOSAL_CHARS
        for row in await self._pool.fetch(QUERIES.proposals, request.project, MAX_PROPOSALS, request.names):
            room -= len(row["spec"]) + len(row["reason"])
            if room < 0:
                break
            spec = ToolSpec.model_validate_json(row["spec"])
            found.append(ToolVersionProposal(spec=spec, **{name: row[name] for name in _PROPOSAL_COLUMNS}))
        return tuple(found)


def _query_of(request: CheckAccess, principal: CallPrincipal) -> AuthorizationQuery:
    try:
        text = canonical_json(request.args)
    except ValueError as error:
        raise ProblemError(problem("request_invalid", f"args: {error}")) from error
    return AuthorizationQuery(
        run_id=request.run_id,
        project=request.project,
        principal=principal,
        step=request.step,
        tool=request.tool,
        operation=request.operation or "call",
        args=request.args,
        args_text=text,
        labels=request.labels,
        grants=grant_chain((), request.grant),
        spent_usd=request.spent_usd,
        origin=request.origin,
    )


def _permissions(request: GetPermissions, bundle: ProjectAuthorizer, network: str | None) -> AgentPermissions:
    """Hold every tool against every rule; a lead's delegates come with the spec of its published *network*."""
    principal = CallPrincipal(request.network, request.agent_key, request.agent_type, "*", request.project)
    found = []
    known = bundle.registry.tools
    delegates = () if network is None else delegates_in(network, request.agent_key)
    room = MAX_ANSWER_CHARS
    for spec in (*(tool.spec for tool in known.values()), *delegates):
        rules = bundle.matrix.candidates(principal, spec.name, spec.operation, discovered=spec.discovered)
        if rules:
            tool = known.get(spec.name)
            found.append(permission_of(spec.name, spec.operation, rules, "" if tool is None else tool.doubt))
            room -= sum(map(len, found[-1].rules))
        if room < 0:
            detail = f"the names of the rules for {request.agent_key} are more than one message holds"
            raise ProblemError(problem("answer_too_large", detail))
    return AgentPermissions(policy_version=bundle.matrix.version, permissions=tuple(found))

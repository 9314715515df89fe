"""Calls of the platform's own tools in the ledger: permitted, applied by the run, closed by its word."""

import json
from typing import Any

import pytest
from tests.support.tas.tas_calls import RUN, ask, decision, outcome, request

from towpath_contracts.canonical import canonical_json
from towpath_contracts.facts import InternalToolPermittedFact, ToolFinishedFact, fact_adapter
from towpath_contracts.json_schema import MAX_SCHEMA_DEPTH
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolFailure, ToolSpec
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome
from towpath_contracts.tools.internal_tools import INTERNAL_TOOLS, PLATFORM_TOOLSET
from towpath_contracts.tools.workers import RegisterTools
from towpath_tas.adapters.cel import compile_condition, compile_grant, matches
from towpath_tas.app.policy.registration_checks import MAX_ACTOR_CHARS, check_registration
from towpath_tas.core.authorization import AuthorizationDecision, ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import DispatchCall, LedgerCall
from towpath_tas.core.calls.internal_calls import BUILT_IN, is_internal, on_recorded, permission_fact
from towpath_tas.core.calls.ledger import void
from towpath_tas.core.denial_alternatives import AgentDirectoryEntry
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix, Rule
from towpath_tas.core.policy.policy_checks import ProjectToolsAndAgents, check
from towpath_tas.core.run_facts import reported
from towpath_tas.core.teams import agents_of, delegates_in
from towpath_tas.core.tools.registry import ProjectToolRegistry, platform_tool_version

PLAN = next(one for one in BUILT_IN if one.spec.name == "plan_setup")
ALLOWED = decision(tool=PLAN, effect_class=EffectClass.IDEMPOTENT)


def permitted_call(**changes: Any) -> LedgerCall:
    change = ask(None, request(tool="plan_setup", toolset=PLATFORM_TOOLSET), ALLOWED)
    assert change.call is not None and isinstance(change.effects[0], DispatchCall)
    return change.call.next_revision(**changes) if changes else change.call


def run_outcome(call: LedgerCall, status: str = "succeeded", **more: Any) -> RecordInternalOutcome:
    body = {"run_id": RUN, "project": "default", "execution_id": call.execution_id, "tool": "plan_setup", **more}
    return RecordInternalOutcome.model_validate({"status": status, "result": {"plan_status": "active"}, **body})


def test_a_permitted_call_is_reported_to_its_run_and_to_no_worker() -> None:
    call = permitted_call()
    assert is_internal(call) and call.status is CallStatus.PERMITTED
    fact = fact_adapter.validate_json(permission_fact(call))
    assert (
        isinstance(fact, InternalToolPermittedFact) and fact.execution_id == call.execution_id and fact.contents == {}
    )
    assert "contents" not in json.loads(permission_fact(call))


def test_the_word_of_the_run_closes_the_row_once() -> None:
    call = permitted_call()
    change, refused = on_recorded(call, run_outcome(call))
    assert not refused and change.call is not None and change.call.status is CallStatus.SUCCEEDED
    assert [(note.phase, note.verdict) for note in change.notes] == [("outcome", "succeeded")]
    again, refused = on_recorded(change.call, run_outcome(call))
    assert again.call is None and not refused, "its confirmation was lost"
    failure = ToolFailure(code="plan_missing", message="none")
    failed, _ = on_recorded(call, run_outcome(call, "failed", failure=failure))
    assert failed.call is not None and failed.call.status is CallStatus.FAILED


def test_what_was_applied_counts_although_a_fence_came_between() -> None:
    voided = void(permitted_call()).call
    assert voided is not None and voided.status is CallStatus.VOID
    change, refused = on_recorded(voided, run_outcome(voided))
    assert not refused and change.call is not None and change.call.status is CallStatus.SUCCEEDED


@pytest.mark.parametrize(
    "changes", [{"status": CallStatus.DENIED}, {"status": CallStatus.AWAITING_APPROVAL}, {"toolset": "orders"}]
)
def test_what_was_never_permitted_or_is_a_workers_is_not_closed(changes: dict[str, Any]) -> None:
    call = permitted_call(**changes)
    change, refused = on_recorded(call, run_outcome(call))
    assert change.call is None and refused
    assert on_recorded(None, run_outcome(call))[1]
    other = run_outcome(call).model_copy(update={"project": "another"})
    assert on_recorded(permitted_call(), other)[1]


def test_no_worker_may_offer_what_looks_like_a_tool_of_the_platform() -> None:
    mine = ToolSpec(name="mine", toolset="mine")
    for spec in (
        INTERNAL_TOOLS["plan_setup"].model_copy(update={"toolset": "mine"}),
        mine.model_copy(update={"internal": True}),
        mine.model_copy(update={"toolset": PLATFORM_TOOLSET}),
        mine.model_copy(update={"toolset": "Platform"}),
        mine.model_copy(update={"toolset": "towpath"}),
        mine.model_copy(update={"name": "TOWPATH.audit"}),
        mine.model_copy(update={"name": "platform.read"}),
        mine.model_copy(update={"name": "Plan-Setup"}),
        mine.model_copy(update={"name": "Delegate_To_billing"}),
    ):
        with pytest.raises(ProblemError) as refused:
            check_registration(RegisterTools(toolset=spec.toolset, worker="w", owner="o", tools=(spec,)))
        assert refused.value.problem.errors[0].code == "tool_reserved"
    check_registration(RegisterTools(toolset="mine", worker="w", owner="o", tools=(mine,)))
    team = mine.model_copy(update={"name": "platform-ops.page", "toolset": "platform-ops"})
    check_registration(RegisterTools(toolset="platform-ops", worker="w", owner="o", tools=(team,)))


def test_no_worker_and_no_owner_bears_a_name_by_which_the_log_means_the_platform() -> None:
    mine = ToolSpec(name="mine", toolset="mine")
    with pytest.raises(ProblemError) as refused:
        check_registration(RegisterTools(toolset="mine", worker="Platform", owner="TowPath", tools=(mine,)))
    assert [(one.code, one.pointer) for one in refused.value.problem.errors] == [
        ("actor_reserved", "/owner"),
        ("actor_reserved", "/worker"),
    ]
    check_registration(RegisterTools(toolset="mine", worker="worker", owner="worker", tools=(mine,)))


def test_what_each_tool_of_a_registration_repeats_is_short() -> None:
    mine = ToolSpec(name="mine", toolset="mine")
    long = "w" * (MAX_ACTOR_CHARS + 1)
    with pytest.raises(ProblemError) as refused:
        check_registration(RegisterTools(toolset="mine", worker=long, owner=long, tools=(mine,)))
    assert [one.pointer for one in refused.value.problem.errors] == ["/owner", "/worker"]
    assert long not in refused.value.problem.model_dump_json()
    check_registration(RegisterTools(toolset="mine", worker=long[1:], owner=long[1:], tools=(mine,)))


def test_a_tool_whose_schema_has_too_many_levels_is_refused_with_a_code_of_its_own() -> None:
    schema: Any = {}
    for _ in range(MAX_SCHEMA_DEPTH):
        schema = {"items": schema}
    deep = ToolSpec(name="deep", toolset="mine", parameters=schema)
    with pytest.raises(ProblemError) as refused:
        check_registration(RegisterTools(toolset="mine", worker="w", owner="o", tools=(deep,)))
    (detail,) = refused.value.problem.errors
    assert (detail.code, detail.pointer) == ("schema_too_deep", "/tools/0/parameters")


def test_a_tool_whose_schema_multiplies_work_is_refused_with_a_code_and_the_place() -> None:
    twice = {"properties": {"x": {"allOf": [{"$ref": "#/$defs/n"}] * 2}}}
    spec = ToolSpec(name="bomb", toolset="mine", parameters={"$defs": {"n": twice}, "$ref": "#/$defs/n"})
    with pytest.raises(ProblemError) as refused:
        check_registration(RegisterTools(toolset="mine", worker="w", owner="o", tools=(spec,)))
    (detail,) = refused.value.problem.errors
    assert (detail.code, detail.pointer) == ("schema_too_costly", "/tools/0/parameters")
    assert "#/$defs/n/properties/x" in detail.detail


def test_a_run_gets_the_reason_why_changes_of_its_files_are_lost() -> None:
    call = permitted_call()
    report = outcome(call, changes_lost={"code": "workspace_full", "path": "big.txt"})
    fact = fact_adapter.validate_json(reported(call, report, None))
    assert isinstance(fact, ToolFinishedFact) and fact.status == "succeeded"
    assert fact.changes_lost == report.changes_lost is not None
    assert "changes_lost" not in reported(call, outcome(call), None), "and nothing is said where nothing is lost"


ROWS = (
    Rule(name="team", tool="delegate_to_*", operation="delegate", agent="lead", effect="allow", digest="d"),
    Rule(name="not-eve", tool="delegate_to_eve", effect="deny", digest="e"),
    Rule(name="plans", tool="agent_orchestrate", operation="orchestrate", effect="require_approval", digest="f"),
)
LAW = ProjectAuthorizer(Matrix(ROWS, compile_condition, 1), ProjectToolRegistry(BUILT_IN, matches, 1), compile_grant)


def may(
    tool: str, agent: str = "lead", operation: str = "call", bundle: ProjectAuthorizer = LAW, **args: Any
) -> AuthorizationDecision:
    return bundle.authorize(
        AuthorizationQuery(
            run_id=RUN,
            project="default",
            principal=CallPrincipal("crew", agent, "", "anna"),
            step=1,
            tool=tool,
            operation=operation,
            args=args,
            args_text=canonical_json(args),
            labels={},
        )
    )


def test_b11_delegates_are_permitted_by_rules_like_any_tool() -> None:
    """Row B11: `delegate_to_<name>(task)` needs a rule; nobody registers it."""
    allowed = may("delegate_to_ann", task="count")
    assert (allowed.effect, allowed.rule) == ("allow", "team")
    assert allowed.tool is not None and allowed.tool.spec.internal and not allowed.tool.spec.trusted_output
    assert may("delegate_to_ann", operation="delegate", task="count").effect == "allow"
    for decision_, violation in (
        (may("delegate_to_eve", task="count"), "permission_denied"),
        (may("delegate_to_ann", "ann", task="count"), "permission_denied"),
        (may("delegate_to_ann", operation="read", task="count"), "operation_unknown"),
        (may("delegate_to_ann", task=""), "invalid_arguments"),
        (may("delegate_to_ann", task="count", model="x"), "invalid_arguments"),
        (may("delegate_to_", task="count"), "tool_unknown"),
    ):
        assert decision_.effect == "deny" and decision_.denial is not None
        assert decision_.denial.violation_type == violation
    assert "delegate_to_ann (delegate)" in may("delegate_to_ann", "ann", task="count").reason


def test_e1_a_plan_by_the_tool_is_held_against_its_schema_and_the_rules() -> None:
    """Row E1: `plan` XOR `prompt`, timeout_ms and max_parallel of at least 1 and at most what holds anyway."""
    plan = {"steps": [{"type": "agent", "agent": {"agent_key": "ann"}}]}
    assert may("agent_orchestrate", plan=plan).effect == "require_approval"
    assert may("agent_orchestrate", prompt="Do it.", timeout_ms=1, max_parallel=4).rule == "plans"
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"plan": plan, "prompt": "Do it."},
        {"prompt": "Do it.", "max_parallel": 0},
        {"prompt": "Do it.", "max_parallel": 5},
        {"prompt": "Do it.", "timeout_ms": 0},
        {"plan": {"steps": []}},
        {"plan": {"steps": [{"type": "agent"}] * 13}},
        {"prompt": "Do it.", "depth": 9},
    )
    for args in wrong:
        denial = may("agent_orchestrate", **args).denial
        assert denial is not None and denial.violation_type == "invalid_arguments", args


def test_a_lead_that_is_denied_gets_the_members_whom_it_may_ask() -> None:
    bundle = ProjectAuthorizer(
        Matrix(ROWS, compile_condition, 1), ProjectToolRegistry(BUILT_IN, matches, 1), compile_grant
    )
    tools = frozenset({"delegate_to_ann", "delegate_to_eve", "plan_setup"})
    bundle.directories = {"": {"lead": AgentDirectoryEntry(key="lead", agent_type="", tools=tools, routes=frozenset())}}
    denial = may("plan_setup", bundle=bundle, objective="o", steps=[]).denial
    assert denial is not None and denial.allowed_tools == ("delegate_to_ann",)


def test_a_delegate_that_ran_for_hours_is_closed_by_the_word_of_its_run() -> None:
    """Its row stays permitted as long as its child runs: nothing but a request looks at its clock, and none is made."""
    own = platform_tool_version("delegate_to_ann")
    change = ask(
        None, request(tool="delegate_to_ann", toolset=PLATFORM_TOOLSET, args={"task": "x"}), decision(tool=own)
    )
    assert change.call is not None and change.call.status is CallStatus.PERMITTED
    late = void(change.call).call
    assert late is not None
    failure = ToolFailure(code="delegation_failed", message="Delegation to 'ann' failed: cancelled", began=True)
    ended, refused = on_recorded(late, run_outcome(late, "failed", tool="delegate_to_ann", failure=failure))
    assert not refused and ended.call is not None and ended.call.status is CallStatus.FAILED


def test_b11_a_rule_for_a_lead_of_a_team_speaks_of_tools_that_it_has() -> None:
    """Row B11: advice about a matrix knows who leads a team; a network of before without one is looked at as ever."""
    team = {"name": "crew", "swarm": {"mode": "team"}, "agents": [{"key": key} for key in ("lead", "ann", "eve")]}
    agents = {agent.key: agent.tools for agent in agents_of(json.dumps(team))}
    assert agents == {"lead": ("delegate_to_ann", "delegate_to_eve"), "ann": (), "eve": ()}
    assert [spec.name for spec in delegates_in(json.dumps(team), "lead")] == list(agents["lead"])
    plain = {"name": "n", "agents": [{"key": "a", "equipped_tools": ["echo"]}]}
    assert [agent.tools for agent in agents_of(json.dumps(plain))] == [("echo",)]
    around = ProjectToolsAndAgents(project="default", networks={"crew": agents_of(json.dumps(team))})
    rules = [Rule(name="ask", network="crew", agent="lead", tool="delegate_to_*", effect="allow", digest="d")]
    assert check(rules, None, around) == ()

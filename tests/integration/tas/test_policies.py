"""The matrix over time, asked of a real TAS process: versions, single rules, diffs, the shadow, figures."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.oracles import policy_diff
from tests.support.tas.tas_caller import ARGS, OPEN, TasCaller, query, tool
from tests.support.tas.tas_running import Running, Shared, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.policy import DiffGroup, PolicyImpact, merge_diffs
from towpath_tas.app.policy.policies import PolicyFileWatcher, PolicyStore
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.metrics import TasMetrics

__all__ = ["shared_tas", "tas"]

CAREFUL = """kind: Policy
rules:
  # Anybody may look.
  - name: look
    tool: orders.find
    effect: allow
  - {name: small, tool: orders.refund, effect: allow, when: args.amount <= 100}
  - {name: large, tool: orders.refund, effect: require_approval, when: args.amount > 100}
"""
LARGE = {"order_id": "A-1", "amount": 500}


async def ask(tas: Running, method: rpc.RpcMethod, **values: Any) -> Any:
    return await tas.caller.ask(method, project=tas.caller.project, **values)


async def change(tas: Running, name: str, rule: Any = None, **more: Any) -> Any:
    return await ask(tas, rpc.CHANGE_RULE, actor="ann", name=name, rule=rule, **more)


async def code_of(asking: Any) -> str:
    with pytest.raises(ProblemError) as caught:
        await asking
    return caught.value.problem.code


def differences(groups: tuple[DiffGroup, ...]) -> dict[tuple[str, str, str], int]:
    return {(group.change, group.was, group.tool): group.calls for group in groups}


async def test_every_version_is_kept_shown_and_can_come_back(tas: Running) -> None:
    await tas.caller.apply(CAREFUL)
    found = await ask(tas, rpc.POLICY_VERSIONS)
    assert found.current == 2
    assert [(one.version, one.rules, one.applied_by) for one in found.versions] == [(2, 3, "tester"), (1, 1, "tester")]
    old = await ask(tas, rpc.GET_POLICY, version=1)
    assert (old.version, old.text) == (1, OPEN)
    back = await ask(tas, rpc.ROLL_BACK_POLICY, version=1, actor="ann", note="too strict", if_version=2)
    assert (back.version, back.changed) == (3, True)
    assert (await ask(tas, rpc.GET_POLICY)).text == OPEN
    await tas.caller.call("orders.refund", args=LARGE)
    page = await ask(tas, rpc.POLICY_VERSIONS, limit=2)
    assert ([one.version for one in page.versions], page.next_before) == ([3, 2], 2)
    rest = await ask(tas, rpc.POLICY_VERSIONS, limit=2, before=page.next_before)
    assert ([one.version for one in rest.versions], rest.next_before) == ([1], None)
    assert await code_of(ask(tas, rpc.GET_POLICY, version=9)) == "version_not_found"
    assert await code_of(ask(tas, rpc.ROLL_BACK_POLICY, version=9, actor="ann")) == "version_not_found"


async def test_rules_stand_where_their_file_has_them_also_after_others_were_changed(tas: Running) -> None:
    """A path is its author's: of one that is written out from the root the name is shown, and no more."""

    async def places(version: int | None = None) -> dict[str, str]:
        view = await ask(tas, rpc.GET_POLICY, version=version)
        return {rule["name"]: rule["at"] for rule in view.rules}

    await ask(tas, rpc.APPLY_POLICY, actor="ann", text=CAREFUL, source="/srv/shop/policies.yaml")
    stood = {"look": "policies.yaml:4", "small": "policies.yaml:7", "large": "policies.yaml:8"}
    assert await places() == stood
    verdict = await ask(tas, rpc.CHECK_ACCESS, network="support", agent_key="billing", tool="orders.refund", args=LARGE)
    assert (verdict.rule, verdict.rule_at) == ("large", "policies.yaml:8")
    assert {one.rule: one.at for one in verdict.trace} == {"small": "policies.yaml:7", "large": "policies.yaml:8"}
    await change(tas, "small", {"name": "small", "tool": "orders.refund", "effect": "deny"})
    assert await places() == {**stood, "small": ""}
    await ask(tas, rpc.ROLL_BACK_POLICY, version=2, actor="ann")
    assert await places() == stood
    log = await ask(tas, rpc.POLICY_CHANGES, limit=2)
    assert [[one.name for one in entry.changes] for entry in log.changes] == [["small"], ["small"]]
    await ask(tas, rpc.APPLY_POLICY, actor="ann", text=f"# moved\n{CAREFUL}", source="console")
    assert await places() == dict.fromkeys(stood, "")
    assert (await ask(tas, rpc.POLICY_CHANGES, limit=1)).changes[0].changes == (), "it was only moved"


async def test_the_change_log_says_who_why_and_which_rules(tas: Running) -> None:
    await tas.caller.apply(CAREFUL)
    await change(tas, "small", {"name": "small", "tool": "orders.refund", "effect": "deny"}, note="fraud")
    log = await ask(tas, rpc.POLICY_CHANGES)
    newest, second, first = log.changes
    assert (newest.version, newest.applied_by, newest.note, newest.source) == (3, "ann", "fraud", "rule small")
    (altered,) = newest.changes
    assert (altered.name, altered.change, set(altered.fields)) == ("small", "altered", {"effect", "when"})
    assert (altered.before["when"], altered.after["effect"]) == ("args.amount <= 100", "deny")
    assert {(one.name, one.change) for one in second.changes} == {
        ("look", "added"),
        ("small", "added"),
        ("large", "added"),
        ("everything", "removed"),
    }
    assert [(one.name, one.change) for one in first.changes] == [("everything", "added")]


async def test_one_rule_is_changed_at_a_time_on_the_version_one_has_seen(tas: Running) -> None:
    await tas.caller.apply(CAREFUL)
    tag = {"name": "tag", "tool": "orders.tag", "effect": "allow"}
    assert (await change(tas, "tag", tag, dry_run=True)).version == 2
    put = await change(tas, "tag", tag, if_version=2)
    assert (put.version, put.rules, put.rewritten) == (3, 4, False)
    assert await code_of(change(tas, "tag", {**tag, "effect": "deny"}, if_version=2)) == "policy_moved"
    await tas.caller.call("orders.tag")
    assert (await change(tas, "tag")).version == 4
    text = (await ask(tas, rpc.GET_POLICY)).text
    assert text == CAREFUL
    assert await code_of(change(tas, "tag")) == "rule_not_found"
    assert await code_of(change(tas, "tag", {**tag, "when": "amount >"})) == "policy_invalid"
    stale = ask(tas, rpc.APPLY_POLICY, actor="ann", text=OPEN, if_version=1)
    assert await code_of(stale) == "policy_moved"


async def test_c14_a_profile_is_stored_written_out_and_changed_like_any_policy(tas: Running, tmp_path: Path) -> None:
    """A restart with the same file leaves what was changed since then, though the stored text is another."""
    file, log = tmp_path / "policy.yaml", structlog.get_logger()
    file.write_text("profile: balanced\nrules:\n  - {name: no-refunds, tool: orders.refund, effect: deny}\n")
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())
        await PolicyFileWatcher(policies, file, tas.caller.project, log).check()
        view = await ask(tas, rpc.GET_POLICY)
        names = [rule["name"] for rule in view.rules]
        assert (view.version, names[0], names[1], "profile:" in view.text) == (2, "no-refunds", "balanced/work", False)
        assert (await tas.caller.apply(view.text)).changed is False
        loosened = {"name": "balanced/pointers", "tool": "orders.*", "effect": "deny", "when": "origin.writes && false"}
        assert (await change(tas, "balanced/pointers", loosened)).rewritten is False
        await PolicyFileWatcher(policies, file, tas.caller.project, log).check()
        assert (await ask(tas, rpc.GET_POLICY)).version == 3
    assert await code_of(ask(tas, rpc.APPLY_POLICY, actor="ann", text="profile: balanecd")) == "policy_invalid"
    shadow = await ask(tas, rpc.SET_SHADOW, actor="ann", text="profile: strict\n")
    assert (shadow.on, shadow.rules) == (True, 7)


async def test_accepting_an_older_definition_does_not_let_go_what_a_newer_one_holds(tas: Running) -> None:
    """The server offers the newest, so neither the first nor the one in the middle is what would run."""

    def defined(definition: str) -> ToolSpec:
        return tool("orders.look", "pure", operation="read", discovered=True, definition=definition)

    for definition in ("sha256:a", "sha256:b", "sha256:c"):
        await tas.caller.register(defined(definition))
    held = "SELECT version FROM tas.tool WHERE project = $1 AND held"
    fields = {"name": "orders.look", "actor": "ann", "accept": True}
    for version, left in ((2, [3]), (3, [])):
        await ask(tas, rpc.DECIDE_PROPOSAL, **fields, version=version)
        assert [found["version"] for found in await query(tas.dsn, held, tas.caller.project)] == left


async def diff(tas: Running, text: str, limit: int = 2_000, **more: Any) -> PolicyImpact:
    """Ask piece by piece, as the client does."""
    pieces: list[PolicyImpact] = [await ask(tas, rpc.DIFF_POLICY, text=text, limit=limit, **more)]
    while pieces[-1].next_after is not None:
        cursor = {"after": pieces[-1].next_after, "last": pieces[-1].last}
        pieces.append(await ask(tas, rpc.DIFF_POLICY, text=text, limit=limit, **cursor, **more))
    return merge_diffs(pieces)


async def test_a_diff_says_what_another_matrix_would_have_decided(tas: Running) -> None:
    caller = tas.caller
    first = await caller.call("orders.find")
    for amount in (50, 500):
        await caller.call("orders.refund", args={"order_id": "A-1", "amount": amount})
    await caller.fact(await caller.put(caller.request("orders.nope")), "tool.denied")
    await caller.fact(await caller.put(caller.request("orders.find", args={"amount": 1})), "tool.denied")
    assert (await diff(tas, OPEN)).groups == ()
    found = await diff(tas, CAREFUL, limit=1)
    assert (found.version, found.calls, found.limits) == (1, 3, "not replayed")
    assert found.left_out == {"tool_unknown": 1, "invalid_arguments": 1}
    assert differences(found.groups) == {("newly_gated", "allow", "orders.refund"): 1}
    (example,) = found.groups[0].examples
    assert (example.rule_then, example.rule_now, example.version_then) == ("everything", "large", 1)
    nothing = await diff(tas, "kind: Policy\nrules: []")
    assert differences(nothing.groups) == {
        ("newly_denied", "allow", "orders.find"): 1,
        ("newly_denied", "allow", "orders.refund"): 2,
    }
    by_tool = {group.tool: group for group in nothing.groups}
    assert by_tool["orders.find"].examples[0].execution_id == first.execution_id
    assert (await diff(tas, CAREFUL, since=datetime.now(UTC) + timedelta(hours=1))).calls == 0
    assert (await diff(tas, CAREFUL, until=datetime.now(UTC) - timedelta(hours=1))).calls == 0
    assert await code_of(diff(tas, "kind: Policy\nrules: [{name: a}]")) == "policy_invalid"


async def test_a_change_is_told_by_the_cells_of_published_networks(tas: Running) -> None:
    found = await ask(tas, rpc.DIFF_PERMISSIONS, text=CAREFUL)
    assert (found.agents, found.changes, found.left_out) == (0, (), 0), "nothing is published"
    assert await code_of(ask(tas, rpc.DIFF_PERMISSIONS, text="kind: Policy\nrules: [{name: a}]")) == "policy_invalid"


async def test_a_gated_or_denied_call_counts_once_by_its_first_decision(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(CAREFUL)
    refused = await caller.put(caller.request("orders.refund", args=LARGE))
    asked = await caller.fact(refused, "approval.required")
    fields = {"approval_id": asked["approval_id"], "gate_id": asked["approval_id"], "actor": "ben"}
    await ask(tas, rpc.RESOLVE_APPROVAL, **fields, roles=["approver"], verdict="denied", reason="no")
    await caller.fact(await caller.again(refused), "tool.denied")
    await caller.fact(await caller.put(caller.request("orders.ship")), "tool.denied")
    assert (await diff(tas, CAREFUL)).groups == ()
    assert differences((await diff(tas, OPEN)).groups) == {
        ("newly_allowed", "require_approval", "orders.refund"): 1,
        ("newly_allowed", "deny", "orders.ship"): 1,
    }


async def test_a_call_that_a_limit_stopped_is_left_out(tas: Running) -> None:
    caller = tas.caller
    limited = "kind: Policy\nrules: [{name: once, tool: 'orders.*', effect: allow, max_calls_per_run: 1}]"
    await caller.apply(limited)
    first = await caller.call("orders.find")
    await caller.fact(await caller.put(caller.request("orders.find", run_id=first.run_id)), "tool.denied")
    found = await diff(tas, limited)
    assert (found.calls, found.groups, found.left_out) == (1, (), {"limit_exceeded": 1})


async def test_a_shadow_is_weighed_for_live_calls_and_never_obeyed(tas: Running) -> None:
    caller = tas.caller
    assert not (await ask(tas, rpc.GET_SHADOW)).on
    view = await ask(tas, rpc.SET_SHADOW, actor="ann", text=CAREFUL, note="careful")
    assert (view.on, view.rules, view.set_by, view.divergences) == (True, 3, "ann", 0)
    await caller.call("orders.find")
    large = await caller.call("orders.refund", args=LARGE)
    tagged = await caller.call("orders.tag")
    for refused in (caller.request("orders.nope"), caller.request("orders.find", args={"amount": 1})):
        await caller.fact(await caller.put(refused), "tool.denied")  # before any matrix was asked
    view = await ask(tas, rpc.GET_SHADOW)
    assert differences(view.groups) == {
        ("newly_gated", "allow", "orders.refund"): 1,
        ("newly_denied", "allow", "orders.tag"): 1,
    }
    examples = {group.tool: group.examples[0] for group in view.groups}
    assert (examples["orders.refund"].execution_id, examples["orders.refund"].rule_now) == (large.execution_id, "large")
    assert examples["orders.tag"].rule_then == "everything"
    noted = await caller.audit(phase="shadow")
    assert [(one.execution_id, one.verdict) for one in noted] == [
        (large.execution_id, "allow->require_approval"),
        (tagged.execution_id, "allow->deny"),
    ]
    ended = await ask(tas, rpc.SET_SHADOW, actor="ben")
    assert (ended.on, ended.divergences) == (False, 2)
    await caller.call("orders.tag")
    assert (await ask(tas, rpc.GET_SHADOW)).divergences == 2
    phases = [one.phase for one in await caller.audit() if one.phase.startswith("policy.shadow")]
    assert phases == ["policy.shadow_set", "policy.shadow_ended"]
    bad = ask(tas, rpc.SET_SHADOW, actor="ann", text="kind: Policy")
    assert await code_of(bad) == "policy_invalid"


async def test_figures_are_counted_by_what_one_asks_for(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(CAREFUL)
    found = await caller.call("orders.find")
    key = await caller.report(found)
    await caller.confirmation(key)
    failed = await caller.call("orders.find", agent_key="other")
    failure = {"code": "broken", "message": "it broke"}
    await caller.confirmation(await caller.report(failed, status="failed", result=None, failure=failure))
    await caller.fact(await caller.put(caller.request("orders.ship")), "tool.denied")
    await caller.fact(await caller.put(caller.request("orders.refund", args=LARGE)), "approval.required")
    figures = await ask(tas, rpc.GET_STATISTICS)
    total = figures.total
    assert (total.allowed, total.denied, total.gated, total.succeeded, total.failed) == (2, 1, 1, 1, 1)
    assert (total.denial_rate, total.success_rate, figures.complete) == (0.25, 0.5, True)
    assert {row.key["tool"]: (row.allowed, row.denied, row.gated) for row in figures.rows} == {
        "orders.find": (2, 0, 0),
        "orders.ship": (0, 1, 0),
        "orders.refund": (0, 0, 1),
    }
    by_agent = await ask(tas, rpc.GET_STATISTICS, by=["agent", "tool"])
    assert {(row.key["agent"], row.key["tool"], row.success_rate) for row in by_agent.rows} == {
        ("billing", "orders.find", 1.0),
        ("other", "orders.find", 0.0),
        ("billing", "orders.ship", None),
        ("billing", "orders.refund", None),
    }
    past = await ask(tas, rpc.GET_STATISTICS, until=datetime.now(UTC) - timedelta(minutes=30))
    assert (past.total.allowed, past.rows) == (0, ())
    ever = await ask(
        tas, rpc.GET_STATISTICS, since=datetime.min.replace(tzinfo=UTC), until=datetime.max.replace(tzinfo=UTC)
    )
    assert ever.total.allowed >= figures.total.allowed


async def test_the_audit_is_searched_page_by_page_in_a_window(tas: Running) -> None:
    caller = tas.caller
    before = datetime.now(UTC) - timedelta(minutes=1)
    calls = [await caller.call(name) for name in ("orders.find", "orders.tag", "orders.find")]
    hits = {"phase": "decision", "tool": "orders.find"}
    newest = await ask(tas, rpc.AUDIT_QUERY, **hits, since=before, limit=1)
    assert ([one.execution_id for one in newest.entries], newest.total) == ([calls[2].execution_id], 2)
    older = await ask(tas, rpc.AUDIT_QUERY, **hits, since=before, limit=1, before=newest.next_before)
    assert ([one.execution_id for one in older.entries], older.next_before) == ([calls[0].execution_id], None)
    of_run = await ask(tas, rpc.AUDIT_QUERY, run_id=calls[1].run_id, phase="decision")
    assert ([one.tool for one in of_run.entries], of_run.total, of_run.next_before) == (["orders.tag"], 1, None)
    assert (await ask(tas, rpc.AUDIT_QUERY, **hits, until=before - timedelta(hours=1))).total == 0
    assert (await ask(tas, rpc.AUDIT_QUERY, **hits, since=before + timedelta(hours=1))).entries == ()


async def test_a_dry_run_weighs_the_grant_the_labels_and_what_was_used(tas: Running) -> None:
    await tas.caller.apply(
        "kind: Policy\nrules:\n"
        "  - {name: night, tool: orders.find, effect: allow, when: run.labels.shift == 'night' && run.step < 5}\n"
        "  - {name: once, tool: orders.tag, effect: allow, max_calls_per_run: 1, who: {caller: robot}}\n"
    )
    who = {"network": "support", "agent_key": "billing", "args": ARGS}

    async def verdict(tool: str, **more: Any) -> tuple[str, str]:
        found = await ask(tas, rpc.CHECK_ACCESS, tool=tool, **who, **more)
        return found.verdict, found.violation_type

    night = {"labels": {"shift": "night"}}
    assert await verdict("orders.find", **night) == ("allow", "")
    assert await verdict("orders.find", **night, step=5) == ("deny", "permission_denied")
    assert await verdict("orders.find", **night, grant=[{"tool": "orders.tag"}]) == ("deny", "not_granted")
    assert await verdict("orders.tag", caller="robot") == ("allow", "")
    assert await verdict("orders.tag", caller="robot", used={"once": 1}) == ("deny", "limit_exceeded")
    assert await verdict("orders.tag", caller="ann") == ("deny", "permission_denied")


async def test_a_diff_over_recorded_calls_is_what_brute_force_says(shared_tas: Shared) -> None:
    """The long form is `python -m tests.oracles.policy_diff`."""
    text = policy_diff.proposed(3, "shop")
    early, noise = policy_diff.recorded_cases(200, 5, "shop"), policy_diff.recorded_cases(200, 6, "sales")
    late = policy_diff.recorded_cases(1_000, 7, "shop")
    connection = await asyncpg.connect(shared_tas.dsn)
    await policy_diff.register(connection, "shop")
    await policy_diff.write(connection, early)
    await policy_diff.write(connection, noise)
    since = await connection.fetchval("SELECT clock_timestamp()")
    await policy_diff.write(connection, late)
    await connection.close()
    async with TasCaller(shared_tas.nats.url(), "shop") as caller:
        for begin, made in ((None, [*early, *late]), (since, late)):
            got = merge_diffs([piece async for piece in policy_diff.ask(caller, text, since=begin)])
            expected = policy_diff.evaluate(policy_diff.without_limits(text), made)
            assert policy_diff.differences(got, expected) == []
            assert len({group.change for group in got.groups}) == 3


async def test_what_is_reported_of_rights_includes_the_tools_that_ask_a_team(tas: Running) -> None:
    """Nobody registers them: they come with the network that is in force, and rules name them like any other."""
    caller = tas.caller
    team = {"name": "crew", "swarm": {"mode": "team"}, "agents": [{"key": key} for key in ("lead", "ann", "bob")]}
    digest = f"sha256:{caller.project}"
    await query(tas.dsn, "INSERT INTO runs.snapshot (digest, snapshot) VALUES ($1, '{}')", digest)
    stored = "INSERT INTO runs.network_version VALUES ($1, 'crew', 1, $2, $3, now(), 'me')"
    await query(tas.dsn, stored, caller.project, digest, json.dumps(team))
    rules = '{name: ask, who: {network: crew, agent: lead}, tool: "delegate_to_*", operation: delegate, effect: allow}'
    applied = await caller.apply(
        f"kind: Policy\nrules:\n  - {rules}\n  - {{name: d, tool: delegate_to_bob, effect: deny}}"
    )
    assert [one.code for one in applied.warnings] == []
    for key, expected in (("lead", {"delegate_to_ann": "allow", "delegate_to_bob": "deny"}), ("ann", {})):
        found = await caller.ask(rpc.GET_PERMISSIONS, project=caller.project, network="crew", agent_key=key)
        assert {one.tool: one.verdict for one in found.permissions} == expected
    lead = {"network": "crew", "agent_key": "lead", "toolset": "platform", "args": {"task": "count"}}
    await caller.fact(await caller.put(caller.request("delegate_to_ann", **lead)), "tool.permitted")
    await caller.fact(await caller.put(caller.request("delegate_to_bob", **lead)), "tool.denied")
    other = 'kind: Policy\nrules: [{name: b, tool: "delegate_to_b*", operation: delegate, effect: allow}]'
    assert differences((await diff(tas, other)).groups) == {
        ("newly_allowed", "deny", "delegate_to_bob"): 1,
        ("newly_denied", "allow", "delegate_to_ann"): 1,
    }
    cells = await ask(tas, rpc.DIFF_PERMISSIONS, text=other)
    assert (cells.agents, cells.left_out, cells.more) == (3, 0, 0)
    assert {(one.agent_key, one.tool, one.was, one.becomes) for one in cells.changes} == {
        ("lead", "delegate_to_ann", ("allow",), ("deny",)),
        ("lead", "delegate_to_bob", ("deny",), ("allow",)),
    }

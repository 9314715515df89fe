"""Budgets on the real orchestrator, with real NATS and Postgres: limits that people set, runs that end at them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use

from towpath_contracts import rpc
from towpath_contracts.budgets import Budget, BudgetAccountList, SetBudget, ShowBudgets
from towpath_contracts.decisions.request import Usage
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import GetEvents, GetRun
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.clock import monotonic
from towpath_orchestrator.app.api.budgets import CHANGES_EVERY_S, MOST


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    def three_steps(request: Any) -> dict[str, Any]:
        return use(f"step {request.step}") if request.step < 3 else respond("done")

    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        found.usage = Usage(input_tokens=90, output_tokens=10, total_tokens=100, model_calls=1)
        await found.start()
        yield found
        await found.stop()


async def submit(peers: Peers, **options: Any) -> dict[str, Any]:
    task = SubmitTask(network="solo", user_message="hello", **options)
    return dict(json.loads((await peers.raw("task.submit", task.model_dump_json().encode())).data))


async def ended(peers: Peers, **options: Any) -> Any:
    return await end_of(peers, (await submit(peers, **options))["run_id"])


async def end_of(peers: Peers, run_id: str) -> Any:
    while True:
        view = await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, wait_ms=5_000))
        if view.ended_at is not None:
            return view


async def limit(peers: Peers, budget: Budget | None, *roles: str, **whose: Any) -> Any:
    whose = {"kind": "caller", "name": "anonymous", "key_prefix": "k1", "key_commitment": "c1", **whose}
    request = SetBudget(
        project="default", budget=budget, actor="ann", roles=roles, reason="the month is tight", **whose
    )
    reply = await peers.raw(rpc.SET_BUDGET.subject, request.model_dump_json().encode())
    return json.loads(reply.data)


def of(accounts: BudgetAccountList, scope: str, unit: str) -> Any:
    (account,) = [one for one in accounts.accounts if one.scope == scope]
    return next(one for one in account.units if one.unit == unit)


async def types_of(peers: Peers, run_id: Any) -> list[str]:
    page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=str(run_id), limit=200))
    return [entry.event.type for entry in page.entries]


async def test_budget_runs_end_where_limits_do_and_cost_nothing_without(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))

        free = await ended(peers)
        assert free.status == "completed"
        assert not [name for name in await types_of(peers, free.run_id) if "budget" in name]
        assert await accounts_stored(database()) == 0

        await limited_while_it_runs(peers)

        poor = await ended(peers, budget=Budget(model_calls=2))
        assert (poor.status, poor.reason) == ("failed", "budget_exceeded")
        assert (poor.final["scope"], poor.final["unit"], poor.final["limit"]) == ("run", "model_calls", 2)
        assert poor.last_output == {"text": "step 2"}
        shown = await peers.ask(rpc.SHOW_BUDGETS, ShowBudgets(project="default", run_id=poor.run_id))
        calls = of(shown, "run", "model_calls")
        assert (calls.limit, calls.spent, calls.reserved, calls.left, calls.estimated) == (2, 2, 0, 0, 0)
        assert of(shown, "run", "tokens").spent == 200

        assert (await limit(peers, Budget(tool_calls=3)))["code"] == "role_missing"
        assert (await limit(peers, Budget(tool_calls=3), "operator"))["changed"]
        (action,) = peers.actions
        assert (action.action, action.actor, action.reason) == ("budget.set", "ann", "the month is tight")
        assert (action.detail["by_key"], action.detail["by_commitment"]) == ("k1", "c1")
        assert (await ended(peers)).status == "completed"
        second = await ended(peers)
        assert (second.reason, second.final["scope"], second.final["key"]) == ("budget_exceeded", "caller", "anonymous")
        assert "budget_warned" in await types_of(peers, second.run_id)
        shown = await peers.ask(rpc.SHOW_BUDGETS, ShowBudgets(project="default", caller="anonymous"))
        assert of(shown, "caller", "tool_calls").left == 0

        daily = await limit(peers, Budget(usd=0.5), "operator", kind="project", name="default", per_day=True)
        assert daily["account"]["scope"] == "day", daily
        refused = await submit(peers, model="openai:no-such-model")
        assert refused.get("code"), refused
        assert (refused["code"], refused["detail"]) == ("price_unknown", "no price is known of openai:no-such-model")
        await limit(peers, None, "operator")
        assert (await ended(peers)).status == "completed"
        shown = await peers.ask(rpc.SHOW_BUDGETS, ShowBudgets(project="default"))
        assert [one.scope for one in shown.accounts] == ["day"]
        assert of(shown, "day", "model_calls").spent == 3


async def limited_while_it_runs(peers: Peers) -> None:
    """A limit of money binds a run, too, whose model has no price: what it costs can't be counted, so it ends."""
    peers.answer_tools = False
    run_id = (await submit(peers, model="openai:no-such-model"))["run_id"]
    await peers.until(lambda: any(str(request.run_id) == run_id for request in peers.requests))
    await limit(peers, Budget(usd=5), "operator")
    peers.answer_tools = True
    await peers.finish(next(request for request in peers.requests if str(request.run_id) == run_id))
    unpriced = await end_of(peers, run_id)
    assert (unpriced.status, unpriced.reason) == ("failed", "price_unknown")
    assert (unpriced.final["unpriced"], unpriced.final["scope"]) == ("openai:no-such-model", "caller")
    await limit(peers, None, "operator")
    assert (await ended(peers, model="openai:no-such-model")).status == "completed"
    peers.actions.clear()


async def accounts_stored(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM runs.budget"))
    finally:
        await connection.close()


async def test_budget_limit_holds_from_the_moment_it_is_set_on_every_replica(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """One replica gets a limit; the other, which never looks by itself, and one that has just begun know it."""
    settings = {"dsn": database("orchestrator"), "nats_url": nats_server.url(), "TOWPATH_RECONCILE_MS": "3600000"}
    async with orchestrator(**settings) as first:
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
        async with orchestrator(**settings) as second:
            await asyncio.gather(first.wait_ready(), second.wait_ready())
            while not (await begun(first) and await begun(second)):
                await asyncio.gather(*(ended(peers) for _ in range(4)))
            peers.answer_tools = False
            under_way = [(await submit(peers))["run_id"] for _ in range(4)]
            await peers.until(lambda: set(under_way) <= {str(request.run_id) for request in peers.requests})
            peers.answer_tools = True

            await limit(peers, Budget(model_calls=1_000), "operator", kind="project", name="default")
            later = [run["run_id"] for run in await asyncio.gather(*(submit(peers) for _ in range(16)))]
            for request in [one for one in peers.requests if str(one.run_id) in under_way]:
                await peers.finish(request)
            for run_id in later:
                assert await unbound_questions(peers, run_id) == 0
            for run_id in under_way:
                assert await unbound_questions(peers, run_id) == 1, "the one before the limit was set"
            account = of(await peers.ask(rpc.SHOW_BUDGETS, ShowBudgets(project="default")), "project", "model_calls")
            assert (account.spent, account.reserved) == (3 * 16 + 2 * 4, 0)
    async with orchestrator(**settings):
        assert await unbound_questions(peers, (await submit(peers))["run_id"]) == 0


async def begun(service: Any) -> bool:
    return 'towpath_effects_sent_total{kind="decide"}' in await service.metrics()


async def unbound_questions(peers: Peers, run_id: str) -> int:
    """Return how often the run asked a model before it knew what it spends from, once it has ended."""
    assert (await end_of(peers, run_id)).status == "completed"
    types = await types_of(peers, run_id)
    return types[: types.index("budget_applied") if "budget_applied" in types else None].count("decision_requested")


async def test_limits_that_are_set_all_at_once_are_set_one_after_the_other_and_not_too_often(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """Each change lets the commits of all projects be made again; a project has a bounded number of limits."""
    async with orchestrator(database("orchestrator"), nats_server.url()):
        began = monotonic()
        sets = [limit(peers, Budget(tokens=9), "operator", name=f"c{place}") for place in range(60)]
        answers = await asyncio.gather(*sets)
        took = monotonic() - began
        changed = [answer for answer in answers if answer.get("changed")]
        assert {answer["code"] for answer in answers if not answer.get("changed")} == {"overloaded"}
        assert 5 <= len(changed) <= took / CHANGES_EVERY_S + 1
        assert len(peers.actions) == len(changed), "what is not set is not in the audit"
        connection = await asyncpg.connect(database())
        try:
            assert await connection.fetchval("SELECT version FROM runs.budget_version") <= len(changed) + 1
            await connection.execute(
                "INSERT INTO runs.budget_limit (project, kind, name, per_day, soft, on_soft, set_by, set_at)"
                " SELECT 'default', 'caller', 'd' || place, false, 1, 'warn', 'ann', now()"
                " FROM generate_series(1, $1) AS place",
                MOST - len(changed),
            )
        finally:
            await connection.close()
        assert (await limit(peers, Budget(tokens=9), "operator", name="more"))["code"] == "limit_exceeded"
        assert (await limit(peers, Budget(tokens=8), "operator", name="d1"))["changed"]
        assert (await limit(peers, None, "operator", name="d1"))["changed"]
        assert (await limit(peers, Budget(tokens=9), "operator", name="more"))["changed"]

"""A run forked from a step shares what came before, repeats none of it, and goes on live."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.orchestrator.replay.test_replay import change
from tests.integration.orchestrator.test_task_runs import ended, publish, submit, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator, respond

from towpath_contracts import rpc
from towpath_contracts.events.log import RunForked
from towpath_contracts.runs.forks import ForkOptions, ForkRun
from towpath_contracts.runs.records import ReplayRuns
from towpath_contracts.runs.views import GetEvents


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def fork(peers: Peers, run_id: str, step: int, project: str = "default", **options: Any) -> dict[str, Any]:
    how = ForkOptions(from_step=step, **options)
    request = ForkRun(project=project, run_id=run_id, caller="bob", actor="bob", options=how, key_prefix="k1")
    answer: dict[str, Any] = json.loads(
        (await peers.raw(rpc.FORK_RUN.subject, request.model_dump_json().encode())).data
    )
    return answer


async def test_a_fork_shares_the_past_and_repeats_none_of_it(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        parent = (await submit(peers))["run_id"]
        await ended(peers, parent)
        done = [request.execution_id for request in peers.requests]
        accepted = await fork(peers, parent, 2, note="Be brief.", idempotency_key="k")
        assert (await fork(peers, parent, 2, note="Be brief.", idempotency_key="k"))["run_id"] == accepted["run_id"]
        assert (await fork(peers, parent, 1, idempotency_key="k"))["code"] == "idempotency_conflict"
        (first,) = [action for action in peers.actions if action.action == "run.forked"]
        assert str(first.run_id) == accepted["run_id"], "the audit names runs that exist"

        view = await ended(peers, accepted["run_id"])
        assert (view.status, view.step, view.caller, view.final) == ("completed", 3, "bob", {"message": "done"})
        assert (str(view.forked_from.run_id), view.forked_from.step) == (parent, 2)
        (asked,) = [request for request in peers.requests if str(request.run_id) == accepted["run_id"]]
        assert (asked.step, asked.execution_id in done, len(done)) == (2, False, 2)
        assert str(asked.counts_run_id) == parent, "limits of rules per run count for both"
        shown = next(d for d in peers.decisions if str(d.run_id) == accepted["run_id"])
        assert (shown.step, shown.context.notes) == (2, ("Be brief.",))
        assert [output.text for output in shown.context.outputs] == ['{"text":"step 1"}']
        by = {"by_key": "k1", "by_commitment": ""}
        assert first.detail == {"parent": parent, "from_step": 2, "fresh_budget": False, **by}
        assert (first.actor, first.reason) == ("bob", "Be brief.")

        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=accepted["run_id"]))
        assert isinstance(page.entries[1].event, RunForked) and page.entries[1].event.by == "bob"
        replayed = await peers.ask(rpc.REPLAY_RUNS, ReplayRuns(project="default"))
        assert (replayed.runs, replayed.identical) == (2, 2)

        other = await fork(peers, parent, 3, script=[{"action": "RESPOND"}])
        assert other["status"] in ("queued", "running")
        assert (await ended(peers, other["run_id"])).status == "completed"
        script = next(d for d in peers.decisions if str(d.run_id) == other["run_id"])
        assert script.model == "scripted:task" and script.script is not None and script.script.cursors == {}
        await check_judged_by_script(peers)
        await check_changed(peers, parent)

        assert (await fork(peers, parent, 4))["code"] == "fork_refused"
        assert (await fork(peers, parent, 9))["code"] == "fork_refused"
        assert (await fork(peers, parent, 2, project="other"))["code"] == "run_not_found"
        assert (await fork(peers, accepted["run_id"], 1))["code"] == "fork_refused"
        peers.answer_tools = False
        waiting = (await submit(peers))["run_id"]
        await peers.until(lambda: any(str(request.run_id) == waiting for request in peers.requests))
        assert "step 1 is not over" in (await fork(peers, waiting, 2))["detail"]
        await change(database(), "DELETE FROM runs.network_version")
        assert (await fork(peers, parent, 2))["code"] == "version_not_found"
        assert {action.action for action in peers.actions} == {"network.published", "run.forked"}


async def check_judged_by_script(peers: Peers) -> None:
    """The script of a fork decides and judges in the place of the models that its parent asks."""
    settings = {"judge_model": "openai:judge", "allow_words": True}
    goal = {"goal": "Go.", "acceptance_criteria": [{"text": "It is done."}], "settings": settings}
    peers.answer_decisions = False
    parent = (await submit(peers, goal=goal, model="openai:acts"))["run_id"]
    await peers.until(lambda: any(str(asked.run_id) == parent for asked in peers.decisions))
    peers.answer_decisions = True
    met = {"valid": True, "criteria": [{"criterion": 0, "met": True}]}
    peers.decide = lambda asked: met if asked.kind == "validate" else respond("done")
    view = await ended(peers, (await fork(peers, parent, 1, script=[respond("done")]))["run_id"])
    assert (view.status, view.reason) == ("completed", "criteria_met")
    asked = [(one.kind, one.model) for one in peers.decisions if one.run_id == view.run_id]
    assert asked == [("decide", "scripted:task"), ("validate", "scripted:task")]
    peers.decide = three_steps


async def check_changed(peers: Peers, parent: str) -> None:
    """A fork asks another model, with other settings, and may take other steps; every mistake is told at once."""
    wanted = {"model": "openai:other", "model_settings": {"temperature": 0.5}, "max_steps": 7}
    view = await ended(peers, (await fork(peers, parent, 2, changes=wanted))["run_id"])
    asked = [one for one in peers.decisions if one.run_id == view.run_id]
    assert {(one.model, one.settings.temperature if one.settings else None) for one in asked} == {("openai:other", 0.5)}
    assert (view.status, view.max_steps) == ("completed", 7)
    assert peers.actions[-1].detail["changed"] == ["max_steps", "model", "model_settings"]
    wrong = {"model": "gpt-5", "max_steps": 1, "user_message": "Another one.", "budget": {"usd": 1.0}}
    refused = await fork(peers, parent, 2, changes=wrong)
    assert (refused["code"], [one["pointer"] for one in refused["errors"]]) == (
        "request_invalid", ["/changes/model", "/changes/max_steps", "/changes/budget", "/changes/user_message"],
    )  # fmt: skip
    anew = await fork(peers, parent, 1, changes={"user_message": "Another one."})
    view = await ended(peers, anew["run_id"])
    assert (view.user_message, view.step) == ("Another one.", 3)
    assert next(one for one in peers.decisions if one.run_id == view.run_id).context.user_message == "Another one."


async def test_a_run_that_is_erased_while_it_is_forked_has_no_fork(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        parent = (await submit(peers))["run_id"]
        await ended(peers, parent)
        eraser = await asyncpg.connect(database())
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        for options in ({}, {"idempotency_key": "k"}):
            async with eraser.transaction():
                await eraser.execute("SELECT 1 FROM runs.run WHERE run_id = $1 FOR UPDATE", UUID(parent))
                forking = asyncio.create_task(fork(peers, parent, 2, **options))
                async with asyncio.timeout(60):
                    while not forking.done() and not await eraser.fetch(waits):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                await eraser.execute("UPDATE runs.run SET erased_at = now() WHERE run_id = $1", UUID(parent))
            assert (await forking).get("code") == "run_erased"
            assert await eraser.fetchval("SELECT count(*) FROM runs.run") == 1
            assert await eraser.fetchval("SELECT count(*) FROM runs.idempotency WHERE key = 'k'") == 0
            await eraser.execute("UPDATE runs.run SET erased_at = NULL")
        assert (await fork(peers, parent, 2, idempotency_key="k"))["status"] in ("queued", "running")
        await eraser.close()

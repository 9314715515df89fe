"""The orchestrator as a process, with real NATS and Postgres and peers that speak its protocol."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from cloudevents.core.bindings.http import to_binary_event
from cloudevents.core.v1.event import CloudEvent
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use
from tests.support.waiting import eventually

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import CancelRun, GetEvents, GetRun, ListRuns
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.access import GetPolicy

SPAN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def three_steps(request: Any) -> dict[str, Any]:
    return use(f"step {request.step}") if request.step < 3 else respond("done")


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def publish(peers: Peers) -> None:
    await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))


async def submit(peers: Peers, **options: Any) -> Any:
    task = SubmitTask(network="solo", user_message="hello", **options)
    reply = await peers.raw("task.submit", task.model_dump_json().encode())
    return json.loads(reply.data)


async def ended(peers: Peers, run_id: str, *, broker_died: bool = False) -> Any:
    """Return the run once it has ended; every question is answered, but for one that was lost as the *broker died*."""
    view = None
    for _ in range(10):
        with contextlib.suppress(*((TimeoutError,) if broker_died else ())):
            view = await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, wait_ms=5_000))
        if view is not None and view.ended_at is not None:
            return view
    raise AssertionError(view)


async def test_a_task_runs_to_its_answer(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        accepted = await submit(peers)
        view = await ended(peers, accepted["run_id"])
        assert (view.status, view.reason, view.final, view.step) == ("completed", "responded", {"message": "done"}, 3)
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=accepted["run_id"]))
        assert [entry.seq for entry in page.entries] == list(range(1, page.seq + 1))
        facts = await stored_facts(database(), accepted["run_id"])
        assert facts == [
            "run.admitted",
            "decision.made",
            "tool.finished",
            "decision.made",
            "tool.finished",
            "decision.made",
        ]


async def stored_facts(dsn: str, run_id: str) -> list[str]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT fact->>'type' AS t FROM runs.run_fact WHERE run_id = $1 ORDER BY first_seq", run_id
        )
    finally:
        await connection.close()
    return [row["t"] for row in rows]


async def test_a_repeated_key_gives_the_same_run_and_another_body_a_conflict(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        first = await submit(peers, idempotency_key="k")
        again = await submit(peers, idempotency_key="k")
        assert (again["run_id"], again["duplicate"]) == (first["run_id"], True)
        assert first["timeout_ms"] == again["timeout_ms"] > 0
        other = await submit(peers, idempotency_key="k", debug=True)
        assert (other["code"], other["run_id"]) == ("idempotency_conflict", first["run_id"])


async def test_an_enqueued_task_runs_and_a_bad_one_is_set_aside(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        js = peers.nc.jetstream()
        await js.publish("task.enqueue.anonymous", json.dumps({"network": "solo", "user_message": "hi"}).encode())
        await js.publish("task.enqueue.anonymous", b'{"network": "nowhere", "user_message": "hi"}')
        await js.publish("task.enqueue.anonymous", b"not json")
        await peers.until(lambda: len(peers.decisions) >= 3)
        page = await peers.ask(rpc.LIST_RUNS, ListRuns(project="default"))
        assert (await ended(peers, str(page.runs[0].run_id))).status == "completed"
        connection = await asyncpg.connect(database())
        reasons = [row["reason"] for row in await connection.fetch("SELECT reason FROM runs.dead_letter ORDER BY 1")]
        await connection.close()
        assert [reason.split(":")[0] for reason in reasons] == ["network_not_found", "not a task"]


async def test_a_task_over_nats_may_be_a_binary_cloud_event(database: Any, nats_server: Any, peers: Peers) -> None:
    attributes = {
        "source": "https://shop.example/orders",
        "type": "order.disputed",
        "id": "8812 ü",
        "traceparent": SPAN,
    }
    data = {"network": "solo", "user_message": "hello"}
    sent = to_binary_event(CloudEvent(dict(attributes), data))
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        answers = [
            json.loads((await peers.nc.request("task.submit", sent.body, 10, headers=sent.headers)).data)
            for _ in range(2)
        ]
        assert answers[0]["run_id"] == answers[1]["run_id"]
        assert (answers[1]["duplicate"], answers[0]["trace_id"]) == (True, SPAN.split("-")[1])
        await peers.nc.jetstream().publish("task.enqueue.anonymous", sent.body, headers=sent.headers)
        wrong = {**sent.headers, "ce-source": "no%20address"}
        refused = json.loads((await peers.nc.request("task.submit", sent.body, 10, headers=wrong)).data)
        assert [(one["pointer"], refused["code"]) for one in refused["errors"]] == [
            ("/header/ce-source", "request_invalid")
        ]
        keyed = json.dumps({**data, "idempotency_key": "k"}).encode()
        refused = json.loads((await peers.nc.request("task.submit", keyed, 10, headers=sent.headers)).data)
        assert refused["errors"][0]["pointer"] == "/idempotency_key"
        await ended(peers, answers[0]["run_id"])
        await eventually(lambda: len(peers.decisions) >= 3)
        page = await peers.ask(rpc.LIST_RUNS, ListRuns(project="default"))
        assert len(page.runs) == 1, "what was enqueued is the same event, so the same run"


async def test_a_killed_orchestrator_leaves_no_run_behind(database: Any, nats_server: Any, peers: Peers) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()) as process:
        await publish(peers)
        runs = [(await submit(peers))["run_id"] for _ in range(5)]
        await peers.until(lambda: len(peers.requests) >= 5)
        process.kill()
        for request in peers.requests[:3]:
            await peers.finish(request)
    peers.answer_tools = True
    async with orchestrator(database("orchestrator"), nats_server.url()):
        views = [await ended(peers, run_id) for run_id in runs]
    assert {view.status for view in views} == {"completed"}


async def test_a_cancelled_run_raises_its_fence_and_ends(database: Any, nats_server: Any, peers: Peers) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: bool(peers.requests))
        asked = CancelRun(project="default", run_id=run_id, actor="me", reason="enough", key_prefix="k1")
        await peers.ask(rpc.CANCEL_RUN, asked)
        view = await ended(peers, run_id)
        assert (await peers.raw(rpc.CANCEL_RUN.subject, asked.model_dump_json().encode())).data.find(
            b"run_finished"
        ) > 0
    assert (view.status, view.final["error"]) == ("cancelled", "cancelled")
    assert [fence.fence for fence in peers.fences][:1] == [1]
    (said,) = [action for action in peers.actions if action.run_id is not None]
    assert (said.action, said.actor, said.reason, said.once) == ("run.cancel_requested", "me", "enough", True)
    assert (str(said.run_id), said.detail["by_key"]) == (run_id, "k1")


async def test_who_publishes_a_network_is_in_the_audit_before_it_is_there(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    asked = PublishNetwork(project="default", actor="ann", spec=NETWORK, key_prefix="k1", key_commitment="c1")
    async with orchestrator(database("orchestrator"), nats_server.url()):
        peers.record_actions = False
        refused = json.loads((await peers.raw(rpc.PUBLISH_NETWORK.subject, asked.model_dump_json().encode())).data)
        assert refused["code"] == "unavailable"
        assert (await peers.ask(rpc.LIST_NETWORKS, GetPolicy(project="default"))).networks == ()
        peers.record_actions = True
        await peers.ask(rpc.PUBLISH_NETWORK, asked.model_copy(update={"dry_run": True}))
        made = await peers.ask(rpc.PUBLISH_NETWORK, asked)
        assert (await peers.ask(rpc.PUBLISH_NETWORK, asked)).unchanged
        (said,) = peers.actions
        assert (said.action, said.actor) == ("network.published", "ann")
        about = {"network": "solo", "version": 1, "digest": made.digest}
        assert said.detail == {**about, "by_key": "k1", "by_commitment": "c1"}

        async def on_version_1(max_steps: int) -> dict[str, Any]:
            spec = {**NETWORK, "max_steps": max_steps}
            other = asked.model_copy(update={"spec": spec, "if_version": 1})
            found: dict[str, Any] = json.loads(
                (await peers.raw(rpc.PUBLISH_NETWORK.subject, other.model_dump_json().encode())).data
            )
            return found

        answers = await asyncio.gather(*(on_version_1(steps) for steps in range(3, 9)))
        assert sorted(str(answer.get("code", answer.get("version"))) for answer in answers) == [
            "2",
            *["network_moved"] * 5,
        ]
        assert len(peers.actions) == 2, "of two who began from one version, one is told"
        assert next(a for a in answers if "code" in a)["detail"] == "version 2 is current, not 1"
        early = asked.model_copy(update={"spec": {**NETWORK, "name": "new"}, "if_version": 1})
        refused = json.loads((await peers.raw(rpc.PUBLISH_NETWORK.subject, early.model_dump_json().encode())).data)
        assert refused["detail"] == "no version is published, not 1"
        first = early.model_copy(update={"if_version": 0})
        assert (await peers.ask(rpc.PUBLISH_NETWORK, first)).version == 1


async def test_hostile_facts_are_set_aside_and_the_run_is_untouched(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        peers.answer_tools = False
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: bool(peers.requests))
        request = peers.requests[0]
        finished = json.dumps(
            {
                "type": "tool.finished",
                "run_id": run_id,
                "execution_id": str(request.execution_id),
                "status": "succeeded",
            }
        )
        for source, body in (
            ("tas", b"\xff{"),
            ("tas", b"{}"),
            ("decider", finished.encode()),
            ("tas", finished.replace(run_id, run_id[:-1] + "0").encode()),
            ("gateway", b"[" * 1000),
        ):
            await peers.send(source, request.run_id, body)
        await peers.finish(request)
        peers.answer_tools = True
        view = await ended(peers, run_id)
    assert view.status == "completed"
    connection = await asyncpg.connect(database())
    assert await connection.fetchval("SELECT count(*) FROM runs.dead_letter") >= 4
    await connection.close()


async def test_a_prompt_that_the_decider_would_refuse_is_not_published(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    agents = [
        {**NETWORK["agents"][0], "prompt_template": text} for text in ("{% for x in tools %}{% endfor %}", "{{ y }}")
    ]
    spec = {"name": "bad", "agents": [agents[0], {**agents[1], "key": "b", "is_default": False}]}
    async with orchestrator(database("orchestrator"), nats_server.url()):
        request = PublishNetwork(project="default", actor="test", spec=spec)
        reply = await peers.raw(rpc.PUBLISH_NETWORK.subject, request.model_dump_json().encode())
    found = json.loads(reply.data)
    assert (found["code"], [entry["code"] for entry in found["errors"]]) == ("network_invalid", ["prompt_invalid"] * 2)
    assert [entry["pointer"] for entry in found["errors"]] == ["/agents/0/prompt_template", "/agents/1/prompt_template"]


async def test_what_fits_no_message_is_refused_or_ends_its_own_run(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    peers.decide = lambda request: use("x" * 300_000) if request.step == 1 else respond("done")
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        assert (await submit(peers, system_params={"p": "x" * 40_000}))["code"] == "request_too_large"
        view = await ended(peers, (await submit(peers))["run_id"])
        assert (view.status, view.step) == ("completed", 2)
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=view.run_id))
        assert "decision_missed" in [entry.event.type for entry in page.entries]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


async def test_hostile_tasks_networks_and_decisions_stop_no_orchestrator(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    peers.decide = lambda request: respond("done") if request.step > 1 else {**use("x"), "action_reasoning": deep(150)}
    async with orchestrator(database("orchestrator"), nats_server.url()) as process:
        await publish(peers)
        js = peers.nc.jetstream()
        nan = b'{"network": "solo", "user_message": "x", "system_params": {"x": NaN}}'
        await js.publish("task.enqueue.anonymous", nan)
        assert json.loads((await peers.raw("task.submit", nan)).data)["code"] == "request_malformed"
        assert (await submit(peers, model="agent:foo bar"))["code"] == "model_unknown"
        with_nul = b'{"network": "solo", "user_message": "x", "idempotency_key": "a\\u0000b"}'
        assert json.loads((await peers.raw("task.submit", with_nul)).data)["code"] == "request_malformed"
        endless = PublishNetwork(
            project="default", actor="t", spec={**NETWORK, "name": "endless", "timeout_ms": 10**15}
        )
        reply = await peers.raw(rpc.PUBLISH_NETWORK.subject, endless.model_dump_json().encode())
        assert json.loads(reply.data)["code"] == "network_invalid"
        assert (await ended(peers, (await submit(peers))["run_id"])).status == "completed"
        assert process.process.poll() is None


async def test_a_log_that_can_not_be_read_parks_its_run_alone(database: Any, nats_server: Any, peers: Peers) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        broken = (await submit(peers))["run_id"]
        await peers.until(lambda: bool(peers.requests))
    connection = await asyncpg.connect(database())
    await connection.execute(
        'UPDATE runs.run_event SET event = \'{"type": "from_the_future"}\' WHERE run_id = $1 AND seq = 3', broken
    )
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await peers.finish(peers.requests[0])
        peers.answer_tools = True
        assert (await ended(peers, (await submit(peers))["run_id"])).status == "completed"
        status = await connection.fetchval("SELECT status FROM runs.run WHERE run_id = $1", broken)
    await connection.close()
    assert status == "quarantined"


async def test_what_is_pending_is_sent_again_at_once_when_the_broker_lost_everything(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """The attempt stays the same, so it is not the reconciler's resend after the lease, which raises it."""
    peers.answer_decisions = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await eventually(lambda: len(peers.decisions) == 1)
        nats_server.process.kill()
        nats_server.process.wait()
        shutil.rmtree(nats_server.store)
        peers.decisions.clear()
        peers.answer_decisions = True
        await nats_server.start()
        view = await ended(peers, run_id, broker_died=True)
        assert view.status == "completed"
        assert peers.decisions[0].attempt == 1


async def test_two_tries_of_a_submit_that_two_orchestrators_take_at_once_are_one_run(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    dsn = database("orchestrator")
    async with orchestrator(dsn, nats_server.url()), orchestrator(dsn, nats_server.url()):
        await publish(peers)
        keys = [f"key-{n}" for n in range(24)]
        tries = await asyncio.gather(*(submit(peers, idempotency_key=key) for key in keys for _ in range(3)))
        for first, second, third in zip(tries[::3], tries[1::3], tries[2::3], strict=True):
            assert {**first, "duplicate": None, "status": None} == {**second, "duplicate": None, "status": None}
            assert first["run_id"] == third["run_id"]
            assert sorted(one["duplicate"] for one in (first, second, third)) == [False, True, True]
        runs = {one["run_id"] for one in tries}
        assert len(runs) == len(keys)
        for run_id in runs:
            assert (await ended(peers, run_id)).status == "completed"
        page = await peers.ask(rpc.LIST_RUNS, ListRuns(project="default", limit=200))
        assert {str(run.run_id) for run in page.runs} == runs

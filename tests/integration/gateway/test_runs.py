"""The gateway's operations on runs, through HTTP, against a peer on real NATS."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.platform.otlp_receiver import otlp_receiver
from tests.support.platform.platform_peer import PeerRun, PlatformPeer
from tests.support.waiting import eventually

from towpath_contracts import ids, rpc
from towpath_contracts.decisions.decision import CallToolsInstruction, ToolCall
from towpath_contracts.events.log import (
    DecisionReceived,
    DecisionRequested,
    InstructionIssued,
    RunStarted,
    ToolCallFinished,
)
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import ActionDone, CancelRun, LlmCalls, RunPage
from towpath_contracts.tools.queues import QueueList, QueueState
from towpath_gateway.adapters.untaken_calls import wait_for_worker
from towpath_gateway.app.routes.runs.bulk import MAX_PAGES

TASK = {"network": "support", "user_message": "Refund order 8812"}


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, nats_url, embedded="true", run_wait_s="5") as process:
        asyncio.run(process.wait_ready())
        yield process


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with gateway.client() as client:
        yield client


@pytest.fixture
async def peer(nats_url: str) -> AsyncIterator[PlatformPeer]:
    async with PlatformPeer(nats_url) as peer:
        yield peer


def steps_of(run: PeerRun) -> tuple[list[object], uuid.UUID]:
    """Return the events of one step that calls a tool, and the call's id."""
    execution_id = ids.execution_id(run.run_id, 1, 0)
    request_id = ids.request_id(run.run_id, 1, "decide", 0)
    decision = {
        "action": "USE_TOOL",
        "action_reasoning": "look it up",
        "action_details": {"tool_name": "orders.find", "tool_params": {"order_id": "8812"}},
    }
    place = {"step": 1, "epoch": 0, "agent_key": "main"}
    call = ToolCall(execution_id=execution_id, call_index=0, tool="orders.find", args={"order_id": "8812"})
    return [
        RunStarted(),
        DecisionRequested(request_id=request_id, model="scripted:task", input_preview="Refund order 8812", **place),
        DecisionReceived(request_id=request_id, decision=decision, **place),
        InstructionIssued(instruction=CallToolsInstruction(calls=(call,)), **place),
        ToolCallFinished(
            execution_id=execution_id,
            call_index=0,
            tool="orders.find",
            status="succeeded",
            result={"amount": 129},
            duration_ms=7,
            **place,
        ),
    ], execution_id


async def play(peer: PlatformPeer, run: PeerRun) -> None:
    """Let a run take one step and end."""
    events, _ = steps_of(run)
    await peer.add(run, *events)
    await peer.finish(run)


async def test_a_submitted_task_is_accepted_with_its_place(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    answer = await client.post("/v1/runs", json=TASK)
    assert answer.status_code == 202
    run_id = uuid.UUID(answer.json()["run_id"])
    assert answer.headers["location"] == f"/v1/runs/{run_id}"
    assert answer.headers["traceresponse"].split("-")[1] == f"{run_id.int:032x}"
    assert peer.requests("task.submit.local")[0]["user_message"] == TASK["user_message"]
    assert (await client.get(answer.headers["location"])).json()["status"] == "queued"


async def test_a_task_may_be_waited_for(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    async def soon(run: PeerRun) -> None:
        await asyncio.sleep(0.3)
        await play(peer, run)

    peer.on_submit = soon
    waits: list[float] = []
    while not waits or waits[-1] > 1.5:  # a busy machine may be late once
        assert len(waits) < 5, f"ends are looked up every 2 s, and not told: {waits}"
        begun = time.monotonic()
        answer = await client.post("/v1/runs", json=TASK, headers={"Prefer": "wait=10"})
        assert answer.status_code == 200
        assert answer.json()["status"] == "completed"
        assert answer.headers["preference-applied"] == "wait=10"
        waits.append(time.monotonic() - begun)


async def test_what_became_of_calls_is_asked_for_who_looks_and_not_while_waiting(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    place = (await client.post("/v1/runs", json=TASK)).headers["location"]
    await client.get(place, headers={"Prefer": "wait=1"})
    await client.get(place)
    asked = [request["effects"] for request in peer.requests(rpc.GET_RUN.subject)]
    assert asked[-1] is True and set(asked[:-1]) == {False}


async def test_an_end_that_nobody_reported_is_seen_all_the_same(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    async def in_silence(run: PeerRun) -> None:
        await asyncio.sleep(0.2)
        await peer.finish(run, tell=False)

    peer.on_submit = in_silence
    answer = await client.post("/v1/runs", json=TASK, headers={"Prefer": "wait=60"})
    assert answer.status_code == 200


async def test_a_wait_that_runs_out_answers_with_the_place(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    answer = await client.post("/v1/runs", json=TASK, headers={"Prefer": "respond-async, wait=1"})
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/runs/{answer.json()['run_id']}"


async def test_one_key_makes_one_run(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    key = {"Idempotency-Key": f"order-{uuid.uuid4()}"}
    first = await client.post("/v1/runs", json=TASK, headers=key)
    again = await client.post("/v1/runs", json=TASK, headers=key)
    assert (again.status_code, again.json()["run_id"]) == (202, first.json()["run_id"])
    assert again.json()["duplicate"] is True
    other = await client.post("/v1/runs", json={**TASK, "user_message": "other"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "lost"}])
async def test_a_submit_whose_answer_got_lost_is_one_run_and_is_answered(
    client: httpx2.AsyncClient, peer: PlatformPeer, key: dict[str, str]
) -> None:
    peer.lost_submits = 1
    answer = await client.post("/v1/runs", json=TASK, headers=key)
    assert (answer.status_code, [str(run_id) for run_id in peer.runs]) == (202, [answer.json()["run_id"]])
    first, second = [body for subject, body in peer.asked if subject.startswith("task.submit.")]
    assert first == second
    assert answer.json()["duplicate"] is bool(key)  # a client that named no key has submitted once
    again = await client.post("/v1/runs", json=TASK)
    assert again.json()["run_id"] != answer.json()["run_id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "pößt", "a\tb"])
async def test_a_bad_idempotency_key_is_refused(client: httpx2.AsyncClient, peer: PlatformPeer, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode("latin-1"))]
    answer = await client.post("/v1/runs", json=TASK, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert peer.asked == []


async def test_run_returns_what_source_design_0_asks_for(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.on_submit = lambda run: play(peer, run)
    answer = await client.post("/run", json={**TASK, "agent_key": "main", "max_steps": 5, "system_params": {"t": 1}})
    assert answer.status_code == 200
    body = answer.json()
    assert body["status"] == "completed"
    assert body["final"] == {"status": "ok", "response": {"message": "done"}}
    assert body["trace_id"] == body["run_id"].replace("-", "")
    assert [entry["type"] for entry in body["execution_log"]] == ["agent", "tool"]
    assert body["execution_log"][1]["request_preview"] == '{"order_id":"8812"}'
    assert [instruction["kind"] for instruction in body["instructions"]] == ["call_tools"]
    assert len(body["tool_refs"]) == 1
    assert body["latency"]["total_run_ms"] == 1_500
    assert body["debug"] is None
    submitted = peer.requests("task.submit.local")[0]
    assert (submitted["agent_key"], submitted["max_steps"], submitted["system_params"]) == ("main", 5, {"t": 1})


async def test_debug_adds_raw_prompts_and_texts(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    async def late_texts(run: PeerRun) -> None:
        await play(peer, run)
        await asyncio.sleep(0.5)
        request_id = str(ids.request_id(run.run_id, 1, "decide", 0))
        peer.llm_calls.append(
            {"request_id": request_id, "step": 1, "agent_key": "main", "prompt": "You are…", "raw_text": '{"action"}'}
        )

    peer.on_submit = late_texts
    body = (await client.post("/run", json={**TASK, "debug": True})).json()
    assert body["debug"]["missing"] == 0
    assert [(step["prompt"], step["raw_text"]) for step in body["debug"]["steps"]] == [("You are…", '{"action"}')]


async def test_the_raw_texts_of_a_long_run_come_in_pages(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    calls = [
        {"request_id": str(uuid.uuid4()), "step_number": n, "agent_id": "main", "prompt": str(n)} for n in range(5)
    ]

    def page(body: dict[str, int]) -> LlmCalls:
        after = body["after"]
        return LlmCalls(calls=tuple(calls[after : after + 2]), next_after=after + 2 if after + 2 < len(calls) else None)

    async def known(run: PeerRun) -> None:
        calls[0]["request_id"] = str(ids.request_id(run.run_id, 1, "decide", 0))
        await play(peer, run)

    peer.on_submit = known
    peer.answers[rpc.GET_LLM_CALLS.subject] = page
    body = (await client.post("/run", json={**TASK, "debug": True})).json()
    steps = body["debug"]["steps"]
    assert [(step["step"], step["agent_key"], step["prompt"]) for step in steps] == [
        (n, "main", str(n)) for n in range(5)
    ]


async def test_a_history_that_is_not_written_yet_is_empty(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run_id = (await client.post("/v1/runs", json=TASK)).json()["run_id"]
    peer.answers[rpc.GET_HISTORY.subject] = problem("run_not_found", "no history")
    empty = await client.get(f"/v1/runs/{run_id}/history?after_step=3&limit=7")
    assert (empty.status_code, empty.json()["seq"], empty.json()["steps"]) == (200, 0, [])
    asked = peer.requests(rpc.GET_HISTORY.subject)[0]
    assert (asked["after_step"], asked["limit"]) == (3, 7)
    assert (await client.get(f"/v1/runs/{uuid.uuid4()}/history")).status_code == 404


async def test_the_model_calls_of_one_step_are_read_alone(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run_id = (await client.post("/v1/runs", json=TASK)).json()["run_id"]
    peer.llm_calls.append({"step_number": 2, "prompt": "What now?"})
    found = await client.get(f"/v1/runs/{run_id}/steps/2/model-calls")
    assert (found.status_code, found.json()["calls"]) == (200, [{"step_number": 2, "prompt": "What now?"}])
    assert peer.requests(rpc.GET_LLM_CALLS.subject)[0]["step"] == 2
    assert (await client.get(f"/v1/runs/{uuid.uuid4()}/steps/2/model-calls")).status_code == 404


async def test_lost_debug_texts_do_not_lose_the_answer(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.on_submit = lambda run: play(peer, run)
    peer.answers[rpc.GET_LLM_CALLS.subject] = problem("unavailable", "the log-writer is away")
    body = (await client.post("/run", json={**TASK, "debug": True})).json()
    assert body["status"] == "completed"
    assert body["debug"] == {"steps": [], "missing": 1}


async def test_a_run_that_takes_too_long_answers_408_with_its_id(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    peer.on_submit = lambda run: peer.add(run, RunStarted())
    answer = await client.post("/run", json=TASK, headers={"Prefer": "wait=1"})
    assert answer.status_code == 408
    body = answer.json()
    assert body["code"] == "timeout"
    assert body["extra"]["status"] == "running"
    assert uuid.UUID(body["run_id"]) in peer.runs
    assert body["trace_id"] == body["run_id"].replace("-", "")


async def test_a_tool_payload_is_shown_in_full(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.on_submit = lambda run: play(peer, run)
    body = (await client.post("/run", json=TASK)).json()
    place = f"/v1/runs/{body['run_id']}/tools"
    payload = (await client.get(f"{place}/{body['tool_refs'][0]}")).json()
    assert payload["merged_params"] == {"order_id": "8812"}
    assert payload["result"] == {"amount": 129}
    assert (payload["status"], payload["tool_key"], payload["duration_ms"]) == ("succeeded", "orders.find", 7)
    unknown = await client.get(f"{place}/{uuid.uuid4()}")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "tool_call_not_found")


async def test_one_instruction_runs_without_a_model(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.on_submit = lambda run: play(peer, run)
    decision = {"action": "USE_TOOL", "action_details": {"tool_name": "orders.find", "tool_params": {}}}
    answer = await client.post("/v1/networks/shop/support/invoke", json={"agent_key": "main", "decision": decision})
    assert answer.status_code == 200
    submitted = peer.requests("task.submit.local")[0]
    assert submitted["network"] == "shop/support"
    assert (submitted["model"], submitted["single_instruction"], submitted["script"]) == (
        "scripted:task",
        True,
        [decision],
    )


async def test_runs_are_listed_with_their_filters(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    await client.post("/v1/runs", json=TASK)
    before = uuid.uuid4()
    answer = await client.get(f"/v1/runs?status=queued&network=support&label=a=b&before={before}&limit=7")
    assert len(answer.json()["runs"]) == 1
    asked = peer.requests(rpc.LIST_RUNS.subject)[0]
    assert {name: asked[name] for name in ("project", "status", "network", "label", "before", "limit")} == {
        "project": "default",
        "status": "queued",
        "network": "support",
        "label": "a=b",
        "before": str(before),
        "limit": 7,
    }


async def test_a_run_is_stopped_in_the_name_of_the_caller(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run_id = (await client.post("/v1/runs", json=TASK)).json()["run_id"]
    answer = await client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "a mistake"})
    assert answer.status_code == 202
    asked = CancelRun.model_validate(peer.requests(rpc.CANCEL_RUN.subject)[0])
    assert (asked.actor, asked.reason, asked.project) == ("local", "a mistake", "default")
    assert (await client.post(f"/v1/runs/{run_id}/cancel")).status_code == 202
    missing = await client.post(f"/v1/runs/{uuid.uuid4()}/cancel")
    assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found")


async def test_a_submit_is_a_span_of_the_run_in_the_trace_of_the_client(
    nats_url: str, tmp_path: Path, peer: PlatformPeer
) -> None:
    client_trace, client_span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    with (
        otlp_receiver() as receiver,
        gateway_process(tmp_path, nats_url, embedded="true", otlp_endpoint=receiver.url) as gateway,
    ):
        await gateway.wait_ready()
        async with gateway.client() as client:
            headers = [f"00-{client_trace}-{client_span}-{flags}" for flags in ("01", "00")]
            answer, apart, _ = [
                await client.post("/v1/runs", json=TASK, headers={"traceparent": header})
                for header in (*headers, "nonsense")
            ]
            run_id, apart_id = (uuid.UUID(one.json()["run_id"]) for one in (answer, apart))
        gateway.terminate()  # its last spans are sent on the way out
        await eventually(lambda: gateway.process.poll() is not None)
        received, unrecorded, alone = receiver.spans
        assert (received.name, received.service) == ("submit support", "towpath-gateway")
        assert (received.trace_id, received.links) == (client_trace, [])
        assert f"{client_trace}-{received.parent_id}" in answer.headers["traceresponse"]
        assert peer.runs[run_id].task.traceparent == headers[0]
        assert (unrecorded.trace_id, unrecorded.links) == (apart_id.hex, [(client_trace, client_span)])
        assert (alone.trace_id != client_trace, alone.links) == (True, [])
        assert "Refund order" not in repr(receiver.spans)


async def test_many_runs_are_counted_and_then_cancelled_or_retried_one_by_one(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    ids_ = [(await client.post("/v1/runs", json=TASK)).json()["run_id"] for _ in range(3)]
    peer.runs[uuid.UUID(ids_[2])].status = "failed"
    peer.asked.clear()
    for action, expected in (("cancel", ids_[:2]), ("retry", ids_[2:]), ("export", ids_)):
        found = (await client.post("/v1/runs/bulk/select", json={"action": action})).json()
        assert (found["count"], found["whole"], sorted(found["run_ids"])) == (len(expected), True, sorted(expected))
    assert {subject for subject, _ in peer.asked} == {rpc.LIST_RUNS.subject}, "counting changes nothing"
    peer.answers[rpc.FORK_RUN.subject] = lambda body: problem("fork_refused", body["options"]["idempotency_key"])
    missing = str(uuid.uuid4())
    done = (await client.post("/v1/runs/bulk", json={"action": "cancel", "run_ids": [*ids_[:2], missing]})).json()
    assert (done["done"], [one["code"] for one in done["results"]]) == (2, ["", "", "run_not_found"])
    done = (await client.post("/v1/runs/bulk", json={"action": "retry", "run_ids": ids_[2:], "key": "k"})).json()
    assert [(one["code"], one["detail"]) for one in done["results"]] == [("fork_refused", f"retry:k:{ids_[2]}")]
    peer.answers[rpc.LABEL_RUN.subject] = ActionDone()
    labelling = {"action": "label", "run_ids": ids_[:1], "labels": {"team": "shop"}, "remove": ["old"], "reason": "r"}
    assert (await client.post("/v1/runs/bulk", json=labelling)).json()["done"] == 1
    [asked] = peer.requests(rpc.LABEL_RUN.subject)
    assert (asked["labels"], asked["remove"], asked["actor"]) == ({"team": "shop"}, ["old"], "local")
    peer.answers[rpc.LIST_RUNS.subject] = RunPage(runs=(), next_before=uuid.uuid4())
    peer.asked.clear()
    found = (await client.post("/v1/runs/bulk/select", json={"action": "export"})).json()
    assert (found["count"], found["whole"], len(peer.asked)) == (0, False, MAX_PAGES), "pages may be empty for ever"
    for bad in ({"action": "erase", "run_ids": ids_}, {"action": "label", "run_ids": ids_}, {"action": "cancel"}):
        assert (await client.post("/v1/runs/bulk", json=bad)).status_code == 422, bad


async def test_a_run_whose_calls_no_worker_takes_says_so_while_it_goes_on(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    run_id = (await client.post("/v1/runs", json=TASK)).json()["run_id"]
    run = peer.runs[uuid.UUID(run_id)]
    queue = QueueState(stream="TOOLEXEC", consumer="c", toolset="orders", waits=1)
    peer.answers[rpc.LIST_QUEUES.subject] = QueueList(queues=(queue,))
    await peer.add(run, RunStarted())

    async def waits() -> list[str]:
        found: list[str] = (await client.get(f"/v1/runs/{run_id}")).json()["waits"]
        return found

    for _ in range(600):  # what was known of the project's queues counts for two seconds
        if found := await waits():
            break
        await asyncio.sleep(0.1)
    assert found == [wait_for_worker("orders")]
    assert {body["run_id"] for body in peer.requests(rpc.LIST_QUEUES.subject)} == {None, run_id}
    await peer.finish(run)
    assert await waits() == []

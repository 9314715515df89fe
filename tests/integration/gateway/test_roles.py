"""Networks and gates over HTTP: what people publish, what they decide, and how long what is kept."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.platform.platform_peer import BEGIN, DIGEST, PlatformPeer

from towpath.cli import main
from towpath.cli.access.gate_watch import watch
from towpath.cli.shared.options import ConnectionOptions
from towpath.client.client import Client
from towpath_contracts import rpc
from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.request import PromptContext, RenderPromptAnswer
from towpath_contracts.events.log import ToolCallFinished
from towpath_contracts.networks.spec import NetworkList, NetworkVersion
from towpath_contracts.problems.registry import ProblemDetail, problem
from towpath_contracts.runs.views import ActionDone, GatePage, GateView, PromptContextPreview
from towpath_contracts.tools.calls import BlobChunk
from towpath_contracts.tools.retention import PrunedRuns, TasRetention

SPEC = {"kind": "Network", "name": "support", "agents": [{"key": "main", "is_default": True, "allow_respond": True}]}


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("gateway"), nats_url, embedded="true") as process:
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


def version(**more: Any) -> NetworkVersion:
    return NetworkVersion(
        project="default",
        name="support",
        digest=DIGEST,
        published_at=BEGIN,
        published_by="local",
        **{"version": 3, **more},
    )


def gate(**more: Any) -> GateView:
    return GateView(
        gate_id=uuid.uuid4(),
        run_id=uuid.uuid4(),
        project="default",
        status="pending",
        reason="refund over 100",
        opened_at=datetime.now(UTC),
        expires_at=datetime.now(UTC) + timedelta(days=1),
        **{"gate_type": "loop_detected", **more},
    )


async def test_a_network_is_published_once(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.answers[rpc.PUBLISH_NETWORK.subject] = lambda body: version(unchanged=body["spec"].get("name") == "same")
    made = await client.post("/v1/networks", json={"spec": SPEC})
    assert (made.status_code, made.json()["version"]) == (201, 3)
    assert made.headers["location"] == "/v1/networks/support?version=3"
    assert (await client.post("/v1/networks", json={"spec": {"name": "same"}})).status_code == 200
    assert (await client.post("/v1/networks", json={"spec": SPEC, "dry_run": True})).status_code == 200
    assert (await client.post("/v1/networks/validate", json={"spec": SPEC})).status_code == 200
    asked = peer.requests(rpc.PUBLISH_NETWORK.subject)
    assert [body["dry_run"] for body in asked] == [False, False, True, True]
    assert {(body["project"], body["actor"]) for body in asked} == {("default", "local")}
    assert asked[0]["spec"] == SPEC and {body["if_version"] for body in asked} == {None}
    peer.answers[rpc.PUBLISH_NETWORK.subject] = problem("network_moved", "version 3 is current, not 2")
    moved = await client.post("/v1/networks", json={"spec": SPEC, "if_version": 2})
    assert (moved.status_code, moved.json()["code"]) == (409, "network_moved")
    assert peer.requests(rpc.PUBLISH_NETWORK.subject)[-1]["if_version"] == 2
    assert (await client.post("/v1/networks", json={"spec": SPEC, "if_version": -1})).status_code == 422


async def test_every_problem_of_a_network_reaches_its_author(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    errors = (
        ProblemDetail(
            pointer="/agents",
            code="default_agent_missing",
            detail="no agent begins: write `is_default: true` at the one that does (in Python default=True)",
        ),
        ProblemDetail(pointer="/agents/0/allowed_routes/0", code="route_unknown", detail="nobody is no agent"),
    )
    peer.answers[rpc.PUBLISH_NETWORK.subject] = problem("network_invalid", "2 problems", errors=errors)
    answer = await client.post("/v1/networks", json={"spec": SPEC})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert [error["code"] for error in answer.json()["errors"]] == ["default_agent_missing", "route_unknown"]


async def test_networks_are_listed_and_shown_by_version(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.answers[rpc.LIST_NETWORKS.subject] = NetworkList(networks=(version(),))
    peer.answers[rpc.GET_NETWORK.subject] = lambda body: version(version=body["version"] or 9)
    assert [entry["name"] for entry in (await client.get("/v1/networks")).json()["networks"]] == ["support"]
    assert (await client.get("/v1/networks?name=support&before=7&limit=2")).status_code == 200
    asked = peer.requests(rpc.LIST_NETWORKS.subject)[-1]
    assert (asked["name"], asked["before"], asked["limit"]) == ("support", 7, 2)
    assert (await client.get("/v1/networks/team/support?version=2")).json()["version"] == 2
    assert (await client.get("/v1/networks/team/support")).json()["version"] == 9
    assert peer.requests(rpc.GET_NETWORK.subject)[0]["network"] == "team/support"


async def test_the_prompt_of_an_agent_is_shown(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    context = PromptContext(agent_key="billing", user_message="hello")
    peer.answers[rpc.PREVIEW_PROMPT.subject] = PromptContextPreview(context=context, model="gemini:x")
    peer.answers[rpc.RENDER_PROMPT.subject] = RenderPromptAnswer(prompt="You are billing.", digest=DIGEST)
    answer = await client.post("/v1/networks/support/prompt", json={"agent_key": "billing", "user_message": "hello"})
    shown = {name: answer.json()[name] for name in ("agent_key", "model", "prompt")}
    assert shown == {"agent_key": "billing", "model": "gemini:x", "prompt": "You are billing."}
    assert peer.requests(rpc.PREVIEW_PROMPT.subject)[0]["agent_key"] == "billing"
    assert peer.requests(rpc.RENDER_PROMPT.subject)[0]["context"]["user_message"] == "hello"


async def test_an_approval_is_decided_by_tool_access_and_the_rest_by_the_run(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    approval = gate(gate_type="permission", approval_id=uuid.uuid4())
    loop = gate()
    gates = {str(entry.gate_id): entry for entry in (approval, loop)}
    peer.answers[rpc.LIST_GATES.subject] = lambda body: GatePage(
        gates=tuple(entry for key, entry in gates.items() if body["gate_id"] in {key, None})
    )
    peer.answers[rpc.RESOLVE_APPROVAL.subject] = ActionDone(detail="approved")
    peer.answers[rpc.RESOLVE_GATE.subject] = ActionDone(detail="resolved")
    assert len((await client.get("/v1/gates?status=all")).json()["gates"]) == 2
    assert peer.requests(rpc.LIST_GATES.subject)[0]["status"] is None
    assert (await client.get(f"/v1/gates/{loop.gate_id}")).json()["gate_type"] == "loop_detected"

    yes = await client.post(f"/v1/gates/{approval.gate_id}/approve", json={"reason": "checked", "digest": DIGEST})
    assert yes.json()["detail"] == "approved"
    vote = peer.requests(rpc.RESOLVE_APPROVAL.subject)[0]
    assert (vote["verdict"], vote["approval_id"], vote["digest"]) == ("approved", str(approval.approval_id), DIGEST)
    assert (vote["actor"], vote["roles"]) == ("local", ["approver", "auditor", "operator", "policy_admin", "viewer"])

    edit = {"args": {"amount": 5}, "reason": "half", "digest": DIGEST}
    assert (await client.post(f"/v1/gates/{approval.gate_id}/edit", json=edit)).status_code == 200
    found = peer.requests(rpc.RESOLVE_APPROVAL.subject)[1]
    assert (found["verdict"], found["args"], found["digest"]) == ("edit", {"amount": 5}, DIGEST)
    assert (await client.post(f"/v1/gates/{approval.gate_id}/edit", json={"reason": "none"})).status_code == 422

    assert (await client.post(f"/v1/gates/{loop.gate_id}/approve")).json()["detail"] == "resolved"
    assert (await client.post(f"/v1/gates/{loop.gate_id}/deny", json={"reason": "stop"})).status_code == 200
    await client.post(f"/v1/gates/{loop.gate_id}/resolve", json={"verdict": "did_not_happen"})
    verdicts = [body["verdict"] for body in peer.requests(rpc.RESOLVE_GATE.subject)]
    assert verdicts == ["approved", "denied", "did_not_happen"]


async def test_gates_of_switches_can_be_left_out_and_watching_does(
    gateway: GatewayProcess, peer: PlatformPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.answers[rpc.LIST_GATES.subject] = GatePage(gates=(gate(),))
    async with Client(gateway.url) as towpath:
        assert len(await towpath.gates.list(paused=False, limit=500)) == 1
        assert len(await towpath.gates.list()) == 1
    await watch(until_s=0, common=ConnectionOptions(server=gateway.url))
    assert "refund over 100" in capsys.readouterr().out
    asked = peer.requests(rpc.LIST_GATES.subject)
    assert [(body["paused"], body["limit"], body["status"]) for body in asked] == [
        *((False, 500, "pending"), (True, 100, "pending"), (False, 500, "pending")),
    ]


async def test_a_denial_needs_a_reason(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    for path, body in (("deny", None), ("deny", {"reason": "  "}), ("resolve", {"verdict": "denied"})):
        answer = await client.post(f"/v1/gates/{uuid.uuid4()}/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "reason_required")
    assert peer.asked == []


async def test_a_gate_that_is_not_there_can_not_be_resolved(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.answers[rpc.LIST_GATES.subject] = GatePage(gates=())
    for answer in (
        await client.get(f"/v1/gates/{uuid.uuid4()}"),
        await client.post(f"/v1/gates/{uuid.uuid4()}/approve"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "gate_not_found")


async def test_refusals_of_votes_keep_their_status(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    asked = gate(approval_id=uuid.uuid4())
    peer.answers[rpc.LIST_GATES.subject] = GatePage(gates=(asked,))
    for code, status in (("gate_settled", 409), ("digest_changed", 409), ("requester_may_not_approve", 403)):
        peer.answers[rpc.RESOLVE_APPROVAL.subject] = problem(code, "no")
        answer = await client.post(f"/v1/gates/{asked.gate_id}/approve")
        assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
async def test_a_large_result_is_fetched_and_checked(
    client: httpx2.AsyncClient, peer: PlatformPeer, damaged: bool
) -> None:
    data = json.dumps(["x" * 1_000] * 400).encode()
    digest = digest_text(data)
    size = 256 * 1024
    parts = [data[start : start + size] for start in range(0, len(data), size)]

    def chunk(body: dict[str, Any]) -> BlobChunk:
        part = parts[body["index"]][:-1] + b" " if damaged else parts[body["index"]]
        return BlobChunk(
            digest=digest, index=body["index"], total=len(parts), data_base64=base64.b64encode(part).decode()
        )

    peer.answers[rpc.BLOB_GET_RUNS.subject] = chunk
    accepted = (await client.post("/v1/runs", json={"network": "support", "user_message": "hello"})).json()
    run = peer.runs[uuid.UUID(accepted["run_id"])]
    execution_id = uuid.uuid4()
    finished = ToolCallFinished(
        execution_id=execution_id,
        step=1,
        epoch=0,
        agent_key="main",
        call_index=0,
        tool="report",
        status="succeeded",
        result="xxx…",
        result_digest=digest,
        result_bytes=len(data),
        blob=True,
    )
    await peer.add(run, finished)
    answer = await client.get(f"/v1/runs/{run.run_id}/tools/{execution_id}")
    part = await client.get(f"/v1/runs/{run.run_id}/tools/{execution_id}/output", headers={"Range": "bytes=-9"})
    if damaged:
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert (part.status_code, part.json()["code"]) == (500, "internal"), "nor a part of it"
    else:
        assert answer.json()["result"] == json.loads(data)
        assert (part.status_code, part.content, part.headers["Content-Type"]) == (206, data[-9:], "application/json")
    asked = peer.requests(rpc.BLOB_GET_RUNS.subject)
    assert {(body["digest"], body["run_id"]) for body in asked} == {(digest, str(run.run_id))}
    assert {body["project"] for body in asked} == {"default"}


async def test_what_is_kept_for_how_long_is_told_while_tas_is_away_but_for_the_audit(
    gateway: GatewayProcess, nats_url: str
) -> None:
    async with gateway.client() as client:
        unknown = (await client.get("/v1/settings/retention")).json()
        async with PlatformPeer(nats_url) as peer:
            told = TasRetention(instance="tas-7", audit_keep_days=30, origin="set", run_keep_days=90)
            peer.answers[rpc.GET_RETENTION.subject] = told
            known = (await client.get("/v1/settings/retention")).json()
            peer.answers[rpc.GET_RETENTION.subject] = problem("internal", "a fault is no absence")
            assert (await client.get("/v1/settings/retention")).json()["code"] == "internal"
    assert (unknown["periods"][0]["origin"], unknown["periods"][0]["kept_s"]) == ("unknown", None)
    assert (known["periods"][0]["origin"], known["periods"][0]["kept_s"]) == ("set", 30 * 86_400)
    assert (unknown["tas_instance"], known["tas_instance"]) == (None, "tas-7")
    assert (unknown["periods"][1]["origin"], unknown["periods"][1]["kept_s"]) == ("unknown", None)
    assert (known["periods"][1]["origin"], known["periods"][1]["kept_s"]) == ("default", 90 * 86_400)
    assert unknown["periods"][2:] == known["periods"][2:] != []


async def test_old_runs_are_counted_and_pruned_batch_by_batch_once_the_one_before_is_gone(
    gateway: GatewayProcess, peer: PlatformPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = uuid.uuid4()
    first = PrunedRuns(
        before=datetime(2026, 1, 1, tzinfo=UTC), runs=3, families=2, kept={"held": 1}, bytes=1_000, next_behind=behind
    )
    busy = [problem("prune_under_way", "runs of default are being pruned now")]

    def answer(body: dict[str, Any]) -> Any:
        if body["behind"] is None:
            return first
        if not body["dry_run"] and busy:
            return busy.pop()
        return first.model_copy(update={"runs": 1, "families": 1, "next_behind": None})

    peer.answers[rpc.PRUNE_RUNS.subject] = answer
    words = ["runs", "prune", "--older-than", "90d", "--status", "failed", "--server", gateway.url, "-o", "json"]
    assert await asyncio.to_thread(main, [*words, "--dry-run"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert (counted["runs"], counted["families"], counted["kept"], counted["pruned"]) == (4, 3, {"held": 2}, 0)
    assert counted["bytes"] == 2_000
    assert all(body["dry_run"] for body in peer.requests(rpc.PRUNE_RUNS.subject))
    assert await asyncio.to_thread(main, words) != 0, "nobody is at a terminal to be asked"
    assert all(body["dry_run"] for body in peer.requests(rpc.PRUNE_RUNS.subject))
    capsys.readouterr()
    peer.asked.clear()
    assert await asyncio.to_thread(main, [*words, "--reason", "storage", "--yes"]) == 0
    assert json.loads(capsys.readouterr().out)["pruned"] == 4
    asked = [body for body in peer.requests(rpc.PRUNE_RUNS.subject) if not body["dry_run"]]
    assert [body["behind"] for body in asked] == [None, str(behind), str(behind)]
    assert {(body["actor"], body["reason"], *body["statuses"]) for body in asked} == {("local", "storage", "failed")}

"""What the gateway refuses, and how: always a problem with a code and a remedy."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.platform.platform_peer import PlatformPeer

from towpath_contracts.problems.registry import problem

TASK = {"network": "support", "user_message": "Refund order 8812"}


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, nats_url, embedded="true") as process:
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


async def test_an_overloaded_platform_says_when_to_come_back(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    peer.answers["task.submit"] = problem("overloaded", "10,000 runs wait", retry_after_s=9)
    answer = await client.post("/v1/runs", json=TASK)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "9")
    assert answer.json()["retryable"] is True


async def test_without_an_orchestrator_the_answer_is_503(client: httpx2.AsyncClient) -> None:
    for answer in (await client.post("/v1/runs", json=TASK), await client.get(f"/v1/runs/{uuid.uuid4()}")):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "request_malformed"),
        (b"[1]", 422, "request_invalid"),
        (b"null", 422, "request_invalid"),
        (b'{"network": "a", "user_message": "b", "surprise": 1}', 422, "request_invalid"),
        (b'{"network": "a b", "max_steps": 0}', 422, "request_invalid"),
        (b'{"network": "a", "user_message": "b", "system_params": {"x": NaN}}', 400, "request_malformed"),
        (b'{"network": "a", "user_message": "\\ud800"}', 400, "request_malformed"),
        (b'{"network": "a", "user_message": "\\u0000"}', 400, "request_malformed"),
        (b'{"network": "a", "user_message": "\xff"}', 400, "request_malformed"),
        (b'{"network": "a", "script": [[' + b"0," * 10_000 + b"0]]}", 422, "request_invalid"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400, "request_malformed"),
        (b'{"x": ' + b"9" * 5_000 + b"}", 400, "request_malformed"),
        (b'{"user_message": "' + b"x" * (1024 * 1024) + b'"}', 413, "request_too_large"),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else str(value),
)
async def test_a_bad_body_is_a_problem(
    client: httpx2.AsyncClient, peer: PlatformPeer, body: bytes, status: int, code: str
) -> None:
    answer = await client.post("/v1/runs", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["remedy"]
    assert peer.asked == []


async def test_a_body_of_unknown_length_is_bounded_too(client: httpx2.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 65_536

    answer = await client.post("/v1/runs", content=endless(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


async def test_every_problem_of_a_body_is_listed(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/runs", json={"network": "a b", "max_steps": 0, "user_message": "x", "priority": 11})
    pointers = {error["pointer"] for error in answer.json()["errors"]}
    assert pointers == {"/body/network", "/body/max_steps", "/body/priority"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
        ("PUT", "/v1/runs", 405, "method_not_allowed"),
        ("GET", "/run", 405, "method_not_allowed"),
        ("GET", "/v1/runs/not-an-id", 422, "request_invalid"),
        ("GET", "/v1/runs?limit=0", 422, "request_invalid"),
        ("GET", "/problems/nothing", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
    ],
)
async def test_a_wrong_address_is_a_problem(
    client: httpx2.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["instance"] == path.partition("?")[0]


async def test_every_method_that_a_path_takes_is_named(client: httpx2.AsyncClient) -> None:
    answer = await client.delete("/v1/runs")
    assert answer.headers["allow"] == "GET, POST"
    assert answer.json()["remedy"] == "Use one of the methods that this address takes: GET, POST."


async def test_a_body_of_another_kind_is_refused(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    answer = await client.post("/v1/runs", content=json.dumps(TASK), headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (415, "media_type_unsupported")
    assert answer.json()["remedy"] == "Send a JSON object in UTF-8, with the header Content-Type: application/json."
    form = await client.post("/v1/runs", data={"network": "support"})
    assert 'a JSON object in UTF-8, such as {"network": "support", "user_message": "hi"}, with' in form.json()["remedy"]
    assert peer.asked == []


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Host": "rebound.example:8787"}, {"Origin": "null"}],
    ids=["another site", "a rebound name", "a sandboxed page"],
)
async def test_without_keys_only_this_machine_is_served(
    client: httpx2.AsyncClient, peer: PlatformPeer, headers: dict[str, str]
) -> None:
    answer = await client.post("/v1/runs", json=TASK, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")
    assert peer.asked == []


async def test_the_gateway_serves_health_metrics_and_its_description(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    await client.post("/v1/runs", json=TASK)
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/readyz")).json()["checks"] == {"nats": "ok"}
    metrics = (await client.get("/metrics")).text
    assert 'towpath_gateway_requests_total{method="POST",route="/v1/runs",status="202"}' in metrics
    assert "/v1/runs/{run_id}" in (await client.get("/openapi.json")).json()["paths"]


async def test_every_problem_code_is_explained(client: httpx2.AsyncClient) -> None:
    listed = (await client.get("/problems")).json()["problems"]
    for entry in listed:
        shown = (await client.get(f"/problems/{entry['code']}")).json()
        assert shown["remedy"] and shown["cause"] and shown["example"]
        assert shown == entry


@pytest.mark.parametrize("name", ["no%20spaces", "newline%0A", "-dash", "x" * 129, "%C3%BC"])
async def test_a_name_that_can_be_none_names_nothing(client: httpx2.AsyncClient, peer: PlatformPeer, name: str) -> None:
    body = {"agent_key": "main", "decision": {}}
    for answer in (
        await client.post(f"/v1/networks/{name}/invoke", json=body),
        await client.post(f"/v1/networks/{name}/prompt", json={}),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] in {"network_not_found", "not_found"}
    assert peer.asked == []


async def test_a_version_that_no_network_can_have_is_refused(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    beyond = 2**31
    for answer in (
        await client.post("/v1/networks/a/invoke", json={"agent_key": "main", "decision": {}, "version": beyond}),
        await client.post("/v1/networks/a/prompt", json={"version": beyond}),
        await client.get(f"/v1/networks/a?version={beyond}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert peer.asked == []


async def test_a_flood_of_requests_is_refused_at_the_door(nats_url: str, tmp_path: Path, peer: PlatformPeer) -> None:
    peer.answers["task.submit"] = problem("overloaded", "10,000 runs wait", retry_after_s=9)
    with gateway_process(tmp_path, nats_url, embedded="true", max_requests="1") as narrow:
        await narrow.wait_ready()
        async with narrow.client() as client:
            answers = await asyncio.gather(*(client.post("/v1/runs", json=TASK) for _ in range(50)))
            assert {answer.status_code for answer in answers} == {429}
            seen = {(answer.headers["retry-after"], answer.json()["code"]) for answer in answers}
            assert seen == {("9", "overloaded"), ("1", "overloaded")}
            assert (await client.get("/readyz")).status_code == 200

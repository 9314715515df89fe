"""Tasks come in as CloudEvents 1.0 and events of runs go out as such; the other side is the CloudEvents SDK."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cloudevents.core.bindings import http
from cloudevents.core.bindings.http import HTTPMessage
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from tests.docs_site.taken_blocks import taken
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.platform.platform_peer import PlatformPeer

from towpath_contracts.events.log import RunStarted

TASK = {"network": "support", "user_message": "Refund order 8812"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ONE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
SPAN = f"00-{TRACE}-00f067aa0ba902b7-01"


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


def event(**attributes: Any) -> CloudEvent:
    named = {"id": str(uuid.uuid4()), "source": "https://shop.example/orders", "type": "shop.order.disputed"}
    return CloudEvent({**named, "datacontenttype": "application/json", "traceparent": SPAN, **attributes}, dict(TASK))


async def send(client: httpx2.AsyncClient, message: HTTPMessage, **changes: str) -> httpx2.Response:
    return await client.post("/v1/runs", content=message.body, headers={**message.headers, **changes})


def submitted(peer: PlatformPeer) -> list[dict[str, Any]]:
    return peer.requests("task.submit.local")


async def test_an_event_is_a_task_structured_and_binary_and_both_are_one_run(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    sent = event(id="order 8812/ü")
    first = await send(client, http.to_structured_event(sent))
    again = await send(client, http.to_binary_event(sent))
    assert (first.status_code, again.status_code) == (202, 202), first.text + again.text
    assert again.json()["run_id"] == first.json()["run_id"]
    assert again.json()["duplicate"] is True
    asked = submitted(peer)
    assert asked[0] == asked[1]
    assert (asked[0]["user_message"], asked[0]["traceparent"]) == (TASK["user_message"], SPAN)
    nulled = json.loads(http.to_structured_event(sent).body)
    nulled["data"]["traceparent"] = None
    assert (await client.post("/v1/runs", json=nulled, headers={"content-type": ONE})).json()["duplicate"] is True
    assert submitted(peer)[2]["traceparent"] == SPAN, "as over NATS"
    other = await send(client, http.to_binary_event(event(id="order 8812/ü", source="https://shop.example/returns")))
    assert other.json()["run_id"] != first.json()["run_id"], "an id is unique within its source alone"


@pytest.mark.parametrize(
    ("changes", "pointer", "why"),
    [
        ({"specversion": "0.3"}, "specversion", "version 1.0"),
        ({"source": ""}, "source", "an event has it"),
        ({"source": "no address"}, "source", "URI reference"),
        ({"id": None}, "id", "an event has it"),
        ({"time": "yesterday"}, "time", "with a zone"),
        ({"datacontenttype": "text/plain"}, "datacontenttype", "application/json"),
        ({"traceparent": "x"}, "traceparent", "W3C traceparent"),
        ({"data_base64": "e30="}, "data_base64", "send it as data"),
        ({"type": 7}, "type", "a text"),
        ({"data": []}, "data", "an object"),
        ({"data": {**TASK, "idempotency_key": "k"}}, "data/idempotency_key", "leave it out"),
        ({"data": {**TASK, "max_steps": 0}}, "data/max_steps", "greater than or equal to 1"),
    ],
)
async def test_a_wrong_event_is_refused_by_the_name_of_its_attribute(
    client: httpx2.AsyncClient, peer: PlatformPeer, changes: dict[str, Any], pointer: str, why: str
) -> None:
    message = http.to_structured_event(event())
    answer = await client.post("/v1/runs", json={**json.loads(message.body), **changes}, headers=message.headers)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == f"/body/{pointer}"
    assert why in fault["detail"]
    assert peer.asked == []


async def test_the_event_of_the_guide_is_a_task(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    said = taken("docs/guides/cloudevents.md: {").text
    answer = await client.post("/v1/runs", content=said, headers={"content-type": ONE})
    assert answer.status_code == 202, answer.text
    (asked,) = submitted(peer)
    written = json.loads(said)
    assert (asked["network"], asked["user_message"]) == tuple(written["data"].values())
    assert asked["traceparent"] == written["traceparent"]


async def test_of_a_binary_event_the_header_is_named(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    message = http.to_binary_event(event())
    headers = {name: value for name, value in message.headers.items() if name != "ce-source"}
    answer = await client.post("/v1/runs", content=message.body, headers={**headers, "ce-time": "soon"})
    assert [one["pointer"] for one in answer.json()["errors"]] == ["/header/ce-source", "/header/ce-time"]
    keyed = await send(client, message, **{"Idempotency-Key": "k"})
    assert [one["pointer"] for one in keyed.json()["errors"]] == ["/header/Idempotency-Key"]
    batch = await client.post("/v1/runs", content=b"[]", headers={"content-type": BATCH})
    assert (batch.status_code, batch.json()["code"]) == (415, "media_type_unsupported")
    assert batch.json()["remedy"].endswith("own, with the header Content-Type: application/cloudevents+json.")
    assert peer.asked == []


async def test_a_page_of_events_is_a_batch_that_the_sdk_reads(client: httpx2.AsyncClient, peer: PlatformPeer) -> None:
    run_id = uuid.UUID((await client.post("/v1/runs", json=TASK)).json()["run_id"])
    await peer.add(peer.runs[run_id], RunStarted())
    path = f"/v1/runs/{run_id}/events"
    answer = await client.get(path, headers={"Accept": BATCH})
    assert (answer.status_code, answer.headers["content-type"]) == (200, BATCH), answer.text
    plain = (await client.get(path)).json()
    found = [JSONFormat().read(CloudEvent, json.dumps(one)) for one in answer.json()]
    assert [one.get_data() for one in found] == [entry["event"] for entry in plain["entries"]]
    assert [one.get_type() for one in found] == ["towpath.run_created", "towpath.run_started"]
    assert {one.get_subject() for one in found} == {str(run_id)}
    assert len({(one.get_source(), one.get_id()) for one in found}) == 2
    assert found[0].get_extension("traceparent").split("-")[1] == run_id.hex
    last = found[-1].get_extension("sequence")
    rest = await client.get(path, params={"after": last}, headers={"Accept": BATCH})
    assert rest.json() == []
    asked = len(peer.asked)
    one = await client.get(path, params={"after": last, "wait": 30}, headers={"Accept": ONE})
    assert len(peer.asked) == asked, "it is refused before anything is waited for"
    assert (one.status_code, one.json()["code"]) == (422, "request_invalid")
    assert BATCH in one.json()["detail"]

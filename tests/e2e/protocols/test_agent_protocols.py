"""AG-UI and A2A on the whole platform, as their own clients have them."""

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import yaml
from ag_ui.core import Event
from pydantic import SecretStr, TypeAdapter
from tests.docs_site.code_blocks import blocks_of
from tests.support import javascript
from tests.support.places import ROOT
from tests.support.platform.sample_platform import SAMPLE, sample_platform

from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS: TypeAdapter[Any] = TypeAdapter(list[Event])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    """The sample with keys, where who submits a run does not approve its calls."""
    with temporary_folder() as folder:
        own = {"TOWPATH_POLICY_FILE": str(SAMPLE / "policy.yaml")}
        async with sample_platform(folder, gateway={"TOWPATH_AUTH": "on"}, tas=own) as running:
            spec = yaml.safe_load((SAMPLE / "network.yaml").read_text("utf-8"))
            async with http(running, await key(running, "publisher")) as client:
                await found_within(lambda: published(client, spec))
            yield running


async def found_within(look: Callable[[], Awaitable[Any]], within_s: float = 30) -> Any:
    """Return what *look* finds as soon as it finds something; fail after *within_s*."""
    async with asyncio.timeout(within_s):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.1)


async def published(client: httpx2.AsyncClient, spec: dict[str, Any]) -> bool:
    return (await client.post("/v1/networks", json={"spec": spec})).is_success


async def key(platform: Platform, name: str, scopes: tuple[str, ...] = SCOPES) -> str:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    caller = f"{name}-{uuid.uuid4().hex[:6]}"
    new = CreateKeyBody(caller=caller, scopes=scopes, roles=("approver", "policy_admin", "operator"))
    return await create_key(settings, new, "default")


def http(platform: Platform, secret: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60)


def events_of(body: str) -> list[dict[str, Any]]:
    """Return the events of a stream; those of AG-UI's own models, too."""
    found = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]
    checked = EVENTS.validate_python(found)
    assert len(checked) == len(found)
    return found


def ask(text: str, **more: Any) -> dict[str, Any]:
    message = {"id": "1", "role": "user", "content": text}
    return {"threadId": "t", "runId": uuid.uuid4().hex, "messages": [message], **more}


async def test_an_ag_ui_run_is_one_run_however_often_it_is_asked_for(platform: Platform) -> None:
    async with http(platform, await key(platform, "alice")) as client:
        asked = ask("Where is my parcel?", context=[{"description": "Page", "value": "orders"}], state={"page": 3})
        answers = [await client.post("/v1/networks/support/ag-ui", json=asked) for _ in range(2)]
        first, again = (events_of(answer.text) for answer in answers)
        run_id = first[0]["metadata"]["towpath"]["run_id"]
        assert again[0]["metadata"]["towpath"]["run_id"] == run_id and first[-1]["outcome"] == {"type": "success"}
        assert (first[0]["threadId"], first[0]["runId"]) == ("t", asked["runId"])
        assert answers[0].headers["location"] == f"/v1/runs/{run_id}"
        view = (await client.get(f"/v1/runs/{run_id}")).json()
        assert (view["labels"], view["final"]) == ({"ag_ui_thread": "t"}, first[-1]["result"])
        stream = {"Accept": "text/event-stream"}
        followed = events_of((await client.get(f"/v1/runs/{run_id}/events?format=ag-ui", headers=stream)).text)
        kinds = [event["type"] for event in followed]
        assert [kind for kind in kinds if kind != "STATE_DELTA"] == [
            one["type"] for one in first if one["type"] != "STATE_DELTA"
        ]
        assert {"STEP_STARTED", "REASONING_END", "TEXT_MESSAGE_END", "RUN_FINISHED"} <= {*kinds}
        last = await client.get(f"/v1/runs/{run_id}/events?format=ag-ui&after={view['seq']}", headers=stream)
        kinds = [event["type"] for event in events_of(last.text)]
        assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED") and "STEP_STARTED" not in kinds
        far = await client.get(f"/v1/runs/{run_id}/events?format=ag-ui&after={view['seq'] + 1}", headers=stream)
        assert (far.status_code, far.json()["run_id"]) == (422, run_id)


async def test_a_question_that_is_left_to_somebody_else_is_waited_for(platform: Platform) -> None:
    path = "/v1/networks/support/ag-ui"
    async with http(platform, await key(platform, "alice")) as alice, http(platform, await key(platform, "bob")) as bob:
        waits = events_of((await alice.post(path, json=ask("Refund order 8812"))).text)
        (asked,) = waits[-1]["outcome"]["interrupts"]
        gate_id = asked["metadata"]["towpath"]["gate_id"]
        left = {"interruptId": asked["id"], "status": "resolved"}
        lines: list[str] = []
        async with alice.stream("POST", path, json=ask("Refund order 8812", resume=[left])) as answer:
            async for line in answer.aiter_lines():
                if not lines:
                    no = {"verdict": "denied", "reason": "not before Monday"}
                    denied = await bob.post(f"/v1/gates/{gate_id}/resolve", json=no)
                    assert denied.is_success, denied.text
                lines.append(line)
        followed = events_of("\n".join(lines))
        assert followed[-1]["outcome"] == {"type": "success"}, "it is not asked again"
        assert [one["toolCallId"] for one in followed if one["type"] == "TOOL_CALL_RESULT"] == [asked["toolCallId"]]


async def test_what_is_wrong_with_an_ag_ui_request_is_a_problem(platform: Platform) -> None:
    path = "/v1/networks/support/ag-ui"
    async with http(platform, await key(platform, "alice")) as client:
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("/v1/networks/nobody/ag-ui", ask("hello"), "network_not_found"),
            (path, ask("hello", messages=[]), "/body"),
            (
                path,
                ask("hello", forwardedProps={"towpath": {"max_steps": 0}}),
                "/body/forwardedProps/towpath/max_steps",
            ),
            (path, ask("hello", resume=[{"interruptId": "no", "status": "resolved"}]), "is not the id of an interrupt"),
            (path, ask("x", resume=[interrupt(status="resolved")]), "run_not_found"),
        ]
        for where, body, words in wrong:
            answer = await client.post(where, json=body)
            assert answer.status_code >= 400 and words in answer.text, (words, answer.text)
    async with http(platform, await key(platform, "writer", ("runs:write",))) as client:
        assert "runs:read" in (await client.post(path, json=ask("hello"))).json()["detail"]


def interrupt(**more: Any) -> dict[str, Any]:
    return {"interruptId": f"{uuid.uuid4()}:3:{uuid.uuid4()}:sha256:00", **more}


async def test_their_client_for_javascript_runs_answers_and_goes_on(platform: Platform) -> None:
    url = f"{platform.gateway_url}/v1/networks/support/ag-ui"
    process = await asyncio.create_subprocess_exec(
        *(javascript.node_path() or "node", "ag_ui_client.mjs", url),
        *(await key(platform, "alice"), await key(platform, "bob")),
        cwd=javascript.FOLDER, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, errors.decode()
    found = json.loads(output)
    for name in ("first", "second", "approved", "denied", "late"):
        assert EVENTS.validate_python(found[name]["events"]) and found[name]["outcome"] == "success", name
    assert found["first"]["kinds"][:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert found["state"]["theme"] == "dark" and found["state"]["towpath"]["status"] == "completed"
    assert found["first"]["texts"] == [found["first"]["result"]["message"]]
    asked = found["interrupt"]
    own = asked["metadata"]["towpath"]
    assert (found["waits"]["outcome"], own["tool"], own["arguments"]["order_id"]) == (
        "interrupt",
        "orders.refund",
        "8812",
    )
    assert own["url"].startswith(f"{platform.gateway_url}/approvals/") and asked["reason"] == "tool_call"
    calls = [event["toolCallId"] for event in found["waits"]["events"] if event["type"] == "TOOL_CALL_START"]
    assert asked["toolCallId"] == calls[-1]
    assert found["refused"][0] == 403 and "requester_may_not_approve" in found["refused"][1]
    results = [one for one in found["approved"]["events"] if one["type"] == "TOOL_CALL_RESULT"]
    assert [one["toolCallId"] for one in results] == [asked["toolCallId"]], "what was told before is not told again"
    assert "8812" in found["approved"]["texts"][-1] and found["waiting"] == 0
    (no,) = [one for one in found["denied"]["events"] if one["type"] == "TOOL_CALL_RESULT"]
    assert not no["metadata"]["towpath"]["success"] and "was cancelled where it was asked" in no["content"]
    (call,) = [event for event in found["asked"]["events"] if event["type"] == "TOOL_CALL_START"]
    assert (call["toolCallName"], [call["toolCallId"]]) == ("pick_colour", found["asked"]["pendingToolCallIds"])
    assert found["painted"]["texts"] == ["It is blue."]


async def node(*words: str, program: str = "", **environment: str) -> str:
    """Run a program with Node and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(javascript.node_path() or "node", *words),
        cwd=javascript.FOLDER,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(program.encode()), 120)
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def test_the_programs_of_the_guide_run_in_javascript(platform: Platform) -> None:
    page = ROOT / "docs" / "guides" / "ag-ui.md"
    programs = {
        block.name: block.text.replace("http://127.0.0.1:8787", platform.gateway_url)
        for block in blocks_of(page)
        if block.name
    }
    secret = await key(platform, "reader")
    told = [await node("--input-type=module", program=programs[name], TOWPATH_API_KEY=secret) for name in programs]
    assert list(programs) == ["support.mjs", "approve.mjs"]
    assert "calls orders.find" in told[0] and "refund" in told[0]
    assert "8812" in told[1] and "Nothing was refunded" in told[1]

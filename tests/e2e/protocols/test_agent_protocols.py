"""AG-UI and A2A on the whole platform, as their own clients have them."""

import asyncio
import json
import sqlite3
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from a2a.client import A2ACardResolver
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict
from tests.docs_site.code_blocks import blocks_of
from tests.support import javascript
from tests.support.gateway.a2a_calls import a2a_client, question, said, said_json, states, subscribed, told, written
from tests.support.gateway.agent_clients import EVENTS, ask, events_of, found_within, http, key, output_of, published
from tests.support.gateway.openai_calls import played, respond
from tests.support.places import ROOT
from tests.support.platform.objective_runs import use
from tests.support.platform.sample_platform import SAMPLE, sample_platform

from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.app.protocols.a2a.agent_cards import CARD

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


@pytest.fixture(autouse=True)
def _no_refunds(platform: Platform) -> None:
    """What one test has refunded, another may refund as well."""
    shop = platform.data.parent / "orders.sqlite3"
    if shop.exists():
        with closing(sqlite3.connect(shop, timeout=10)) as connection, connection:
            connection.execute("DELETE FROM refunds")


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


async def test_the_programs_of_the_guide_run_in_javascript(platform: Platform) -> None:
    page = ROOT / "docs" / "guides" / "ag-ui.md"
    programs = {
        block.name: block.text.replace("http://127.0.0.1:8787", platform.gateway_url)
        for block in blocks_of(page)
        if block.name
    }
    secret = await key(platform, "reader")
    node = (javascript.node_path() or "node", "--input-type=module")
    told = [await output_of(*node, program=programs[name], TOWPATH_API_KEY=secret) for name in programs]
    assert list(programs) == ["support.mjs", "approve.mjs"]
    assert "calls orders.find" in told[0] and "refund" in told[0]
    assert "8812" in told[1] and "Nothing was refunded" in told[1]


APPLICATION = ("runs:read", "runs:write", "networks:read")


async def test_an_a2a_task_is_one_run_and_its_context_the_thread(platform: Platform) -> None:
    secret = await key(platform, "alice", APPLICATION)
    async with a2a_client(platform, secret) as client, http(platform, secret) as api:
        first = said({"text": "Refund order 8811"})
        streamed = await told(client, first)
        task = streamed[0]["task"]
        assert states(streamed)[-1] == "COMPLETED" and "WORKING" in states(streamed)
        whole = MessageToDict(await client.get_task(a2a.GetTaskRequest(id=task["id"])))
        view = (await api.get(f"/v1/runs/{task['id']}")).json()
        assert written(streamed) == whole["artifacts"][0]["parts"][0]["text"] == view["final"]["message"]
        assert (whole["contextId"], view["thread_id"]) == (task["contextId"], task["id"])
        assert view["labels"] == {"a2a_message": first.message.message_id}
        assert whole["history"][0]["messageId"] == first.message.message_id
        again = await told(client, first)
        assert [list(one) for one in again] == [["task"]] and again[0]["task"]["id"] == task["id"]
        follow_up = said({"text": "Refund order 8811 again"}, contextId=task["contextId"])
        answers = [(await told(client, follow_up))[0]["task"] for _ in range(2)]
        assert answers[0]["id"] == answers[1]["id"] != task["id"] and answers[0]["contextId"] == task["contextId"]
        assert (await api.get(f"/v1/runs/{answers[0]['id']}")).json()["previous_run_id"] == task["id"]
        other = said({"text": "Refund order 8812"}, messageId=first.message.message_id)
        with pytest.raises(InvalidParamsError, match="key"):
            await told(client, other)


async def test_an_a2a_task_waits_for_those_who_may_decide(platform: Platform) -> None:
    alice, app, bob = (
        await key(platform, "alice"), await key(platform, "app", APPLICATION), await key(platform, "bob")
    )  # fmt: skip
    async with (
        a2a_client(platform, alice) as requester,
        a2a_client(platform, app) as application,
        a2a_client(platform, bob) as approver,
    ):
        waits = await told(requester, said({"text": "Refund order 8812"}))
        assert states(waits)[-1] == "INPUT_REQUIRED"
        task = waits[0]["task"]
        asked = question(waits[-1]["statusUpdate"])
        assert (asked["tool"], asked["arguments"]["order_id"], asked["rule"]) == (
            "orders.refund",
            "8812",
            "refunds-over-100",
        )
        assert asked["url"].startswith(f"{platform.gateway_url}/approvals/") and asked["digest"]
        yes = {"gate_id": asked["gate_id"], "digest": asked["digest"], "verdict": "approved"}
        with pytest.raises(A2AError, match="submitted the run"):
            await told(requester, said({"data": yes}, taskId=task["id"]))
        with pytest.raises(InvalidParamsError, match="gates:resolve"):
            await told(application, said({"data": yes}, taskId=task["id"]))
        with pytest.raises(InvalidParamsError, match="gate_id and verdict"):
            await told(approver, said({"text": "yes"}, taskId=task["id"]))
        with pytest.raises(InvalidParamsError, match="verdikt"):
            await told(approver, said({"data": {**yes, "verdikt": "approved"}}, taskId=task["id"]))
        seen = MessageToDict(await application.get_task(a2a.GetTaskRequest(id=task["id"])))
        assert seen["status"]["state"] == "TASK_STATE_AUTH_REQUIRED" and question(seen)["tool"] == "orders.refund"
        followed = asyncio.create_task(subscribed(application, task["id"]))
        await asyncio.sleep(0.3)
        approved = await told(approver, said({"data": yes}, taskId=task["id"]))
        assert states(approved)[-1] == "COMPLETED" and written(approved)
        async with http(platform, bob) as api:
            gate = (await api.get(f"/v1/gates/{asked['gate_id']}")).json()
        assert (gate["status"], gate["votes"][0]["verdict"]) == ("approved", "approved")
        others = await asyncio.wait_for(followed, 30)
        assert "AUTH_REQUIRED" in states(others) and states(others)[-1] == "COMPLETED" and written(others)
        with pytest.raises(UnsupportedOperationError):
            await told(approver, said({"data": yes}, taskId=task["id"]))
        with pytest.raises(UnsupportedOperationError):
            await subscribed(approver, task["id"])


async def test_a_call_that_does_not_stream_waits_for_the_answer_or_for_a_word(platform: Platform) -> None:
    async with a2a_client(platform, await key(platform, "bob"), streaming=False) as client:
        (done,) = await told(client, said({"text": "Refund order 8811"}, metadata={"towpath": {"max_steps": 9}}))
        assert done["task"]["artifacts"] and states([done]) == ["COMPLETED"]
        started = said({"text": "Refund order 8812"}, configuration={"returnImmediately": True, "historyLength": 0})
        (started_task,) = await told(client, started)
        assert states([started_task])[0] in {"SUBMITTED", "WORKING"} and "history" not in started_task["task"]
        (waits,) = await told(client, said({"text": "Refund order 8812"}))
        asked = question(waits["task"])
        names = {"taskId": waits["task"]["id"]}
        no = {"gate_id": asked["gate_id"], "verdict": "denied", "reason": "They keep it."}
        for wrong, match in (
            ({"verdict": "denied", "reason": "No."}, f"gate_id: {asked['gate_id']}"),
            ({"gate_id": asked["gate_id"], "verdict": "approved"}, f"digest: {asked['digest']}"),
            ({**no, "reason": ""}, "teaches the model nothing"),
        ):
            with pytest.raises(InvalidParamsError, match=match):
                await told(client, said({"data": wrong}, **names))
        with pytest.raises(InvalidParamsError, match="one word at the gate"):
            await told(client, said({"data": no}, {"data": no}, **names))
        with pytest.raises(InvalidParamsError, match="another context"):
            await told(client, said({"data": no}, **names, contextId=done["task"]["contextId"]))
        (denied,) = await told(client, said({"data": no}, **names))
        assert states([denied]) == ["COMPLETED"] and "Nothing was refunded" in str(denied["task"]["artifacts"])
        (waits,) = await told(client, said({"text": "Refund order 8812"}))
        edit = {**asked["arguments"], "amount": 99}
        now = question(waits["task"])
        with pytest.raises(InvalidParamsError, match="no gate of this task"):
            await told(client, said({"data": no}, taskId=waits["task"]["id"]))
        word = {"gate_id": now["gate_id"], "digest": now["digest"], "edit": edit}
        async with a2a_client(platform, await key(platform, "mia"), streaming=False) as other:
            (edited,) = await told(other, said({"data": word}, taskId=waits["task"]["id"]))
        assert states([edited]) == ["COMPLETED"], edited
        (waits,) = await told(client, said({"text": "Refund order 8812"}))
        task = a2a.CancelTaskRequest(id=waits["task"]["id"])
        assert MessageToDict(await client.cancel_task(task))["status"]["state"] == "TASK_STATE_CANCELED"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(task)


async def test_an_approval_over_a2a_that_is_sent_again_does_not_count_at_the_next_gate(platform: Platform) -> None:
    refunds = [use("orders.refund", order_id=order, amount=paid) for order, paid in (("8812", 129), ("8813", 480))]
    task = said({"text": "Refund 8812 and 8813"}, metadata=played(*refunds, respond({"message": "Both."})))
    bob = await key(platform, "bob")
    async with (
        a2a_client(platform, await key(platform, "alice"), streaming=False) as requester,
        a2a_client(platform, bob, streaming=False) as approver,
        http(platform, bob) as api,
    ):
        (waits,) = await told(requester, task)
        first = question(waits["task"])
        yes = {"gate_id": first["gate_id"], "digest": first["digest"], "verdict": "approved"}
        word = said({"data": yes}, taskId=waits["task"]["id"])
        for again in (word, word, said({"data": yes}, taskId=waits["task"]["id"])):
            (answer,) = await told(approver, again)
            second = question(answer["task"])
            assert (states([answer]), second["arguments"]["order_id"]) == (["INPUT_REQUIRED"], "8813")
            gate = (await api.get(f"/v1/gates/{second['gate_id']}")).json()
            assert (gate["status"], gate["votes"]) == ("pending", [])
        wrong = {**yes, "gate_id": second["gate_id"]}
        (still,) = await told(approver, said({"data": wrong}, taskId=waits["task"]["id"]))
        assert question(still["task"])["gate_id"] == second["gate_id"], "it was a word on the first call"
        now = {**wrong, "digest": second["digest"]}
        (done,) = await told(approver, said({"data": now}, taskId=waits["task"]["id"]))
        assert states([done]) == ["COMPLETED"] and "Both." in str(done["task"]["artifacts"])


async def test_what_is_refused_over_a2a_is_an_error_with_the_problem(platform: Platform) -> None:
    alice, eve = await key(platform, "alice", APPLICATION), await key(platform, "eve", project="bank")
    async with a2a_client(platform, alice, streaming=False) as client:
        (task,) = await told(client, said({"text": "Refund order 8812"}))
        name = task["task"]["id"]
        config = a2a.TaskPushNotificationConfig(task_id=name, url="http://localhost/")
        with pytest.raises(PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(config)
        with pytest.raises(UnsupportedOperationError):
            await client.list_tasks(a2a.ListTasksRequest())
        with pytest.raises(ContentTypeNotSupportedError, match="nothing is fetched"):
            await told(client, said({"text": "Look"}, {"url": "http://localhost/a.png", "mediaType": "image/png"}))
        with pytest.raises(ContentTypeNotSupportedError):
            await told(client, said({"text": "Look"}, configuration={"acceptedOutputModes": ["audio/wav"]}))
    calls: list[tuple[str, dict[str, Any], int, str]] = [
        ("GetTask", {"id": name}, -32001, "run_not_found"),
        ("CancelTask", {"id": name}, -32001, "run_not_found"),
        ("SubscribeToTask", {"id": name}, -32001, "run_not_found"),
        ("SendMessage", said_json(taskId=name), -32001, "run_not_found"),
        ("SendMessage", said_json(contextId=name), -32001, "run_not_found"),
        ("SendMessage", said_json(contextId="mine"), -32001, "run_not_found"),
        ("SendMessage", said_json(), -32602, "network_not_found"),
        ("SendMessage", {"message": {}}, -32602, "request_invalid"),
        ("SendMessage", {**said_json(), "tenant": "other"}, -32602, "request_invalid"),
        ("tasks/get", {"id": name}, -32601, "operation_unsupported"),
    ]
    async with http(platform, eve) as api:
        for method, params, code, problem in calls:
            call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            answer = await api.post("/v1/networks/support/a2a", json=call)
            error = answer.json()["error"]
            assert (answer.status_code, answer.json()["id"], error["code"]) == (200, 7, code), (method, answer.text)
            assert (error["data"][1]["value"]["code"], error["data"][0]["metadata"]["code"]) == (problem, problem)
        broken = await api.post("/a2a", content=b"{", headers={"Content-Type": "application/json"})
        assert (broken.status_code, broken.json()["error"]["code"], broken.json()["id"]) == (400, -32700, None)
        old = await api.post("/a2a", json={**call, "method": "GetTask"}, headers={"A2A-Version": "0.3"})
        assert old.json()["error"]["code"] == -32009
        mine = await api.get(f"/v1/networks/support/a2a{CARD}")
        assert mine.json()["code"] == "network_not_found"


async def test_the_gateway_s_card_says_nothing_of_a_project_and_with_a_key_its_networks(platform: Platform) -> None:
    secret = await key(platform, "alice", APPLICATION)
    async with httpx.AsyncClient() as nobody:
        card = await A2ACardResolver(nobody, platform.gateway_url).get_agent_card()
        assert [skill.id for skill in card.skills] == ["run-network"]
        assert (await nobody.get(f"{platform.gateway_url}/v1/networks/support/a2a{CARD}")).status_code == 401
    async with a2a_client(platform, secret, "", streaming=False) as client:
        extended = await client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest())
        assert [skill.id for skill in extended.skills] == ["support"]
        named = await client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest(tenant="support"))
        assert named.supported_interfaces[0].url == f"{platform.gateway_url}/v1/networks/support/a2a"
        (by_name,) = await told(client, said({"text": "Refund order 8811"}, tenant="support"))
        (only,) = await told(client, said({"text": "Refund order 8811"}))
        assert states([by_name]) == states([only]) == ["COMPLETED"]
        with pytest.raises(TaskNotFoundError):
            await client.get_task(a2a.GetTaskRequest(id=only["task"]["id"], tenant="sales"))


async def test_the_a2a_guide_and_the_card_of_the_command_line(platform: Platform, tmp_path: Path) -> None:
    own = {"TOWPATH_API_KEY": await key(platform, "reader"), "TOWPATH_SERVER": platform.gateway_url}
    programs = {block.name: block.text for block in blocks_of(ROOT / "docs" / "guides" / "a2a.md") if block.name}
    text = "".join(programs.values()).replace("http://127.0.0.1:8787", platform.gateway_url)
    command = (sys.executable, "-m", "towpath.cli", "a2a", "card")
    output, *cards = await asyncio.gather(
        output_of(sys.executable, "-", program=text, folder=tmp_path, **own),
        output_of(*command, "support", folder=tmp_path, **own),
        output_of(*command, folder=tmp_path, **own),
    )
    assert list(programs) == ["ask.py", "approve.py"]
    first, _, second = output.partition("orders.refund")
    assert "refunded" in first and "Nothing was refunded" in second
    of_network, of_gateway = map(json.loads, cards)
    assert of_network["supportedInterfaces"][0]["url"] == f"{platform.gateway_url}/v1/networks/support/a2a"
    assert of_gateway["name"] == "Towpath"

"""OpenAI's own clients on the whole platform: chats, responses, their streams, tools of the caller, errors."""

import asyncio
import json
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio
import yaml
from openai import AsyncOpenAI
from pydantic import BaseModel, SecretStr
from tests.support import javascript
from tests.support.gateway.openai_calls import (
    ASK,
    FIND,
    REFUND,
    WEATHER,
    approve_all,
    calls,
    played,
    prompt_of,
    respond,
    runs_of,
    streamed,
)
from tests.support.places import ROOT
from tests.support.platform.sample_platform import SAMPLE, sample_platform

from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

GUIDE = ROOT / "docs" / "guides" / "openai.md"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        scripts = folder / "scripts"
        scripts.mkdir()
        (scripts / "support.json").write_text((SAMPLE / "support.json").read_text("utf-8"), "utf-8")
        asks = respond({"tool_calls": [{"name": "get_weather", "arguments": {"city": "Kiel"}}]})
        entries = [{**respond({"message": "Take it."}), "when": {"task": "carried out get_weather"}}, asks]
        (scripts / "coats.json").write_text(json.dumps(entries), "utf-8")
        roles = {"gateway": {"TOWPATH_AUTH": "on"}, "decider": {"TOWPATH_SCRIPT_DIR": str(scripts)}}
        async with sample_platform(folder, **roles) as running:
            yield running


async def key_for(platform: Platform, caller: str, *scopes: str, role: str = "") -> str:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    new = CreateKeyBody(caller=caller, scopes=scopes, roles=(role,) if role else ())
    return await create_key(settings, new, "default")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def key(platform: Platform) -> str:
    """A key of somebody who runs and publishes, and may not approve."""
    return await key_for(platform, "alice", *(one for one in SCOPES if not one.startswith("platform")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(platform: Platform, key: str) -> AsyncIterator[httpx2.AsyncClient]:
    """What looks at runs from beside, with the sample's network published."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60) as http:
        agent = {"key": "a", "is_default": True, "allow_respond": True}
        coats = {"name": "coats", "model": "scripted:coats", "agents": [agent]}
        for spec in (yaml.safe_load((SAMPLE / "network.yaml").read_text("utf-8")), coats):
            published = await http.post("/v1/networks", json={"spec": spec})
            assert published.status_code == 201, published.text
        yield http


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(platform: Platform, key: str, http: httpx2.AsyncClient) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{platform.gateway_url}/v1", api_key=key) as client:
        yield client


async def test_a_published_network_is_a_model(client: AsyncOpenAI) -> None:
    assert [model.id async for model in await client.models.list()] == ["coats", "support"]
    assert (await client.models.retrieve("support")).owned_by == "default"
    with pytest.raises(openai.NotFoundError) as refused:
        await client.models.retrieve("nobody")
    assert refused.value.code == "network_not_found"


async def test_a_chat_is_answered_by_a_run_that_the_answer_names(client: AsyncOpenAI, http: httpx2.AsyncClient) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="support",
        messages=[
            {"role": "system", "content": "Answer in one sentence."},
            {"role": "user", "content": "I bought a LAMP."},
            {"role": "assistant", "content": "Which order was it?"},
            {"role": "user", "content": "8812"},
        ],
        metadata={"shop": "lamps"},
        temperature=0.5,
        max_completion_tokens=200,
        user="customer-7",
        extra_body=played(FIND, respond("It is on its way."), debug=True),
    )
    answer, run_id = raw.parse(), raw.headers["x-request-id"]
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("It is on its way.", "stop")
    assert (answer.model, answer.id) == ("support", f"chatcmpl-{uuid.UUID(run_id).hex}")
    assert raw.headers["location"] == f"/v1/runs/{run_id}"
    run = (await http.get(f"/v1/runs/{run_id}")).json()
    assert (run["user_message"], run["labels"], run["caller"]) == ("8812", {"shop": "lamps"}, "alice")
    assert answer.usage is not None and answer.usage.total_tokens == run["usage"]["total_tokens"]
    created = (await http.get(f"/v1/runs/{run_id}/events")).json()["entries"][0]["event"]
    assert created["model_settings"] == {"temperature": 0.5, "max_output_tokens": 200}
    prompt = await prompt_of(http, run_id)
    places = [prompt.index(text) for text in ("Answer in one sentence.", "LAMP", "Which order was it?", "8812")]
    assert places == sorted(places)


async def test_a_stream_brings_the_answer_in_pieces_then_its_usage(client: AsyncOpenAI) -> None:
    text = "The lamp of order 8812 left the house on Monday."
    asked = played(FIND, respond({"message": text}))
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(
            model="support", messages=ASK, stream=True, stream_options={"include_usage": True}, extra_body=asked
        )
    ]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None and not chunks[-1].choices
    assert len({chunk.id for chunk in chunks}) == 1


async def test_an_answer_satisfies_the_schema_that_was_asked_for(client: AsyncOpenAI) -> None:
    class Parcel(BaseModel):
        order: int
        sent: bool

    wrong, right = respond({"order": "8812"}), respond({"order": 8812, "sent": True})
    answer = await client.chat.completions.parse(
        model="support", messages=ASK, response_format=Parcel, extra_body=played(wrong, right)
    )
    assert answer.choices[0].message.parsed == Parcel(order=8812, sent=True)


async def test_the_caller_carries_its_own_tools_out(client: AsyncOpenAI, http: httpx2.AsyncClient) -> None:
    """A model may ask for what the schemas allow alone; what is returned is quoted, and vouches for nothing."""
    wrong = calls(7)
    tools = [{"type": "function", "function": WEATHER}]
    messages: list[Any] = [{"role": "user", "content": "Do I need a coat?"}]
    asked = await client.chat.completions.create(
        model="support", messages=messages, tools=tools, extra_body=played(wrong, calls("Kiel", "Bonn"))
    )
    assert asked.choices[0].finish_reason == "tool_calls"
    wanted = asked.choices[0].message.tool_calls
    assert wanted is not None and [json.loads(call.function.arguments)["place"]["city"] for call in wanted] == [
        *("Kiel", "Bonn")
    ]
    messages.append(asked.choices[0].message)
    messages += [{"role": "tool", "tool_call_id": call.id, "content": f"RAIN {n}"} for n, call in enumerate(wanted)]
    last = await client.chat.completions.with_raw_response.create(
        model="support", messages=messages, tools=tools, extra_body=played(respond({"message": "Yes."}), debug=True)
    )
    assert last.parse().choices[0].message.content == "Yes."
    run_id = last.headers["x-request-id"]
    created = (await http.get(f"/v1/runs/{run_id}/events")).json()["entries"][0]["event"]
    assert created["quoted_inputs"] == {"result_1": "RAIN 0", "result_2": "RAIN 1"}
    assert "get_weather, call 2 of the answer" in created["user_message"] and "RAIN" not in created["user_message"]
    prompt = await prompt_of(http, run_id)
    assert prompt.index("Do I need a coat?") < prompt.index("Bonn") < prompt.index("result_2")

    stream = await client.chat.completions.create(
        model="support", messages=ASK, tools=tools, tool_choice="required", stream=True, extra_body=played(calls("Ulm"))
    )
    pieces = [chunk.choices[0] async for chunk in stream]
    (call,) = [call for piece in pieces for call in piece.delta.tool_calls or ()]
    assert call.function is not None and (call.function.name, pieces[-1].finish_reason) == ("get_weather", "tool_calls")


async def test_all_that_is_wrong_with_a_request_is_told_at_once(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await client.chat.completions.create(
            model="support", messages=ASK, n=2, logprobs=True, store=False, extra_body={"temprature": 1}
        )
    assert refused.value.code == "request_invalid"
    for part in (
        "n: a run has one answer",
        "logprobs: ",
        "store: ",
        "temprature: there is no field 'temprature'; did you mean",
    ):
        assert part in refused.value.message
    with pytest.raises(openai.UnprocessableEntityError) as wrong:
        image = {"type": "image_url", "image_url": {"url": "https://elsewhere.example/lamp.png"}}
        messages: Any = [{"role": "tool", "tool_call_id": "x", "content": "y"}, {"role": "user", "content": [image]}]
        await client.chat.completions.create(model="support", messages=messages, tool_choice="required")
    assert [one in wrong.value.message for one in ("tool_call_id", "image_url.url", "tool_choice")] == [True] * 3
    with pytest.raises(openai.UnprocessableEntityError) as hot:
        await client.chat.completions.create(model="support", messages=ASK, temperature=3)
    assert hot.value.param == "temperature"


async def test_keys_and_scopes_are_those_of_the_platform(platform: Platform, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.AuthenticationError) as stranger:
        await client.with_options(api_key="twp_unknown").chat.completions.create(model="support", messages=ASK)
    assert (stranger.value.code, stranger.value.type) == ("unauthenticated", "authentication_error")
    reader = client.with_options(api_key=await key_for(platform, "reader", "runs:read"))
    with pytest.raises(openai.PermissionDeniedError) as refused:
        await reader.responses.create(model="support", input="hello")
    assert refused.value.code == "forbidden" and "runs:write" in refused.value.message


async def test_a_run_that_failed_is_told_once_and_not_repeated(client: AsyncOpenAI, http: httpx2.AsyncClient) -> None:
    asked = played(FIND, FIND, max_steps=1)
    with pytest.raises(openai.UnprocessableEntityError) as failed:
        await client.chat.completions.create(
            model="support", messages=ASK, metadata={"case": "failed"}, extra_body=asked
        )
    assert failed.value.code == "answer_missing" and "max_steps_exceeded" in failed.value.message
    stream = await client.chat.completions.create(model="support", messages=ASK, stream=True, extra_body=asked)
    with pytest.raises(openai.APIError, match="max_steps_exceeded"):
        _ = [chunk async for chunk in stream]
    assert len(await runs_of(http, "case=failed")) == 1
    told = await client.responses.create(model="support", input="Hello?", extra_body=asked)
    assert told.error is not None and (told.status, told.error.code) == ("failed", "max_steps_exceeded")


async def test_one_idempotency_key_is_one_run(client: AsyncOpenAI) -> None:
    keyed = {"Idempotency-Key": uuid.uuid4().hex}
    asked = played(respond("Hello."))
    answers = [
        await client.chat.completions.create(model="support", messages=ASK, extra_headers=keyed, extra_body=asked)
        for _ in range(2)
    ]
    assert answers[0].id == answers[1].id


async def test_responses_that_follow_each_other_are_a_thread(client: AsyncOpenAI, http: httpx2.AsyncClient) -> None:
    tool: Any = {"type": "function", "strict": True, **WEATHER}
    first = await client.responses.create(
        model="support", input="Do I need a coat?", tools=[tool], extra_body=played(calls("Kiel"))
    )
    (call,) = first.output
    assert call.type == "function_call" and (call.name, first.status) == ("get_weather", "completed")
    assert (await client.responses.retrieve(first.id)).output == first.output
    second = await client.responses.create(
        model="support",
        instructions="Be short.",
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "RAIN"}],
        extra_body=played(respond({"message": "Yes."})),
    )
    assert (second.output_text, second.previous_response_id) == ("Yes.", first.id)
    run = (await http.get(f"/v1/runs/{(second.metadata or {})['run_id']}")).json()
    assert run["thread_id"] == (first.metadata or {})["run_id"]
    assert "Be short." in run["user_message"] and "call 1 of the answer" in run["user_message"]
    with pytest.raises(openai.ConflictError) as taken:
        await client.responses.create(model="support", previous_response_id=first.id, input="And now?")
    assert taken.value.code == "run_continued"
    events = [
        event
        async for event in await client.responses.create(
            model="support",
            input=[{"role": "user", "content": "Hello"}, *second.output, {"role": "user", "content": "Thanks"}],  # type: ignore[list-item]
            stream=True,
            extra_body=played(respond("Welcome.")),
        )
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Welcome."
    assert events[-1].type == "response.completed" and events[-1].response.output_text == "Welcome."


async def test_a_run_that_waits_for_a_person_is_waited_for_or_looked_at_later(
    platform: Platform, client: AsyncOpenAI, http: httpx2.AsyncClient
) -> None:
    asked = played(REFUND, respond("Refunded."))
    with pytest.raises(openai.APIStatusError) as waits:
        await client.chat.completions.create(
            model="support",
            messages=ASK,
            metadata={"case": "waits"},
            extra_headers={"Prefer": "wait=2"},
            extra_body=asked,
        )
    assert (waits.value.status_code, waits.value.code) == (
        408,
        "timeout",
    ) and "Somebody looks at large refunds" in waits.value.message
    (run,) = await runs_of(http, "case=waits")
    assert f"/v1/responses/resp_{uuid.UUID(run['run_id']).hex}" in waits.value.message
    looked = await client.responses.retrieve(f"resp_{uuid.UUID(run['run_id']).hex}")
    (gate,) = (looked.model_extra or {})["towpath"]["gates"]
    assert gate["tool"] == "orders.refund" and f"at gate {gate['gate_id']}" in waits.value.message
    assert (await client.responses.cancel(f"resp_{uuid.UUID(run['run_id']).hex}")).status in (
        "in_progress",
        "cancelled",
    )

    begun = await client.responses.create(model="support", input="Refund 8812", background=True, extra_body=asked)
    assert begun.status in ("queued", "in_progress") and begun.background
    streaming = asyncio.create_task(streamed(client, asked))
    approver = await key_for(platform, "bob", "gates:read", "gates:resolve", role="approver")
    await approve_all(http, approver, 2)
    for _ in range(100):
        ended = await client.responses.retrieve(begun.id)
        if ended.status != "in_progress":
            break
        await asyncio.sleep(0.1)
    assert (ended.status, ended.output_text) == ("completed", "Refunded.")
    assert await streaming == "Refunded.", "a stream waits for as long as the run"
    with pytest.raises(openai.ConflictError) as over:
        await client.responses.cancel(begun.id)
    assert over.value.code == "run_finished"
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve("resp_1")


async def test_the_guides_programs_run_as_they_stand(
    platform: Platform, client: AsyncOpenAI, key: str, tmp_path: Path
) -> None:
    (platform.data.parent / "orders.sqlite3").unlink(missing_ok=True)  # another test may have had the order refunded
    names = ["chat.py", "stream.py", "thread.py", "tools.py", "background.py", "budget.py"]
    for name in names:
        (tmp_path / name).write_text(block(name), "utf-8")
    one_after_another = "import runpy, sys\nfor name in sys.argv[1:]: runpy.run_path(name); print('---')"
    printed = (await program(client, key, tmp_path, sys.executable, "-c", one_after_another, *names)).split("---")
    told = dict(zip(names, map(str.strip, printed), strict=False))
    assert told["chat.py"] == "Order 8811 is refunded: 39.50 EUR are on their way back to your account."
    assert told["background.py"].startswith("Nothing was refunded"), "chat.py had the order refunded before"
    assert told["thread.py"].startswith("This answer is played from support.json")
    assert told["tools.py"] == "Take it."
    assert told["stream.py"] and told["budget.py"]


def block(name: str) -> str:
    """Return the program of the guide that is called *name*."""
    (text,) = re.findall(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


async def program(client: AsyncOpenAI, key: str, folder: Path, *command: str) -> str:
    """Run a program that finds the platform by its environment, and return what it printed."""
    told = {"OPENAI_BASE_URL": str(client.base_url), "OPENAI_API_KEY": key}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **told},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return out.decode()


async def test_their_client_for_javascript_gets_the_same(key: str, client: AsyncOpenAI) -> None:
    node = (javascript.FOLDER, javascript.node_path() or "node")
    found = json.loads(await program(client, key, *node, "openai_client.mjs"))
    assert (found["models"], found["chat"], found["streamed"]) == (["coats", "support"], *["Yes, it rains."] * 2)
    assert found["call"] == {"name": "get_weather", "arguments": '{"city":"Kiel"}'}
    assert uuid.UUID(found["run"]).version == 7
    assert found["response"] == "Yes, it rains."
    assert found["thread"] == ["response.completed", "Yes, it rains.", True]
    assert (found["refused"]["kind"], found["refused"]["code"]) == ("UnprocessableEntityError", "request_invalid")
    assert "n: a run has one answer" in found["refused"]["message"]
    assert (await program(client, key, *node, "--input-type=module", "--eval", block("chat.mjs"))).strip()


async def test_the_typescript_client_javascript_passes_its_own_tests(
    platform: Platform, key: str, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    """They stand here for the platform, which has keys and the sample."""
    package = await javascript.build_client(tmp_path)
    approver = await key_for(platform, "mia", *SCOPES, role="approver")
    told = {"TOWPATH_SERVER": platform.gateway_url, "TOWPATH_API_KEY": key, "TOWPATH_APPROVER_KEY": approver}
    await javascript.run_node(package, told, "--test", "tests/client.test.mjs")

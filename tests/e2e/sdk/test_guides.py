"""The programs of docs/guides run as they stand, all on one platform with the sample."""

import asyncio
import hashlib
import hmac
import importlib.util
import json
import os
import runpy
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import nats
import pytest
import pytest_asyncio
import uvicorn
import yaml
from fastapi import FastAPI, Request
from pydantic import BaseModel, SecretStr
from synadia_ai.agents import Agents, ResponseChunk, StatusChunk
from tests.docs_site.code_blocks import blocks_of
from tests.docs_site.taken_blocks import taken
from tests.support import javascript
from tests.support.decider.model_servers import KEY
from tests.support.decider.prompted_model import prompted_model
from tests.support.places import ROOT
from tests.support.platform.sample_platform import SAMPLE, sample_platform
from tests.support.waiting import eventually

from towpath import Client, RunFailedError, RunTimeoutError
from towpath.agents.operations import execute_tool, execute_tools, respond, route
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOOK = "the-hook-of-the-guide-01234567"
CALLER = "web"
SIGNING = "the-chat-of-the-guide-01234567"
OTHERS = ROOT / "docs" / "guides" / "coming-from.md"
ANSWERS = {
    "You tutor.": [respond("In 476.")],
    "You know the weather.": [execute_tool("look_outside", city="Kiel"), respond("Yes, it rains.")],
    "Read invoices.": [respond({"number": "R-17", "total": 58.0})],
    "You know orders.": [execute_tool("orders"), respond("A lamp and a desk.")],
    "Find who helps.": [route("billing")],
    "Settle bills.": [respond("You get one charge back.")],
    "You have texts translated.": [
        execute_tools([(f"delegate_to_{one}", {"task": "Good morning!"}) for one in ("spanish", "german")]),
        respond("Buenos días! Guten Morgen!"),
    ],
    "You translate into Spanish.": [respond("Buenos días!")],
    "You translate into German.": [respond("Guten Morgen!")],
    "You check facts.": [respond("It is rock.")],
    "You check style.": [respond("It is short.")],
    "You weigh reviews.": [respond("Rejected.")],
    "You tell short stories.": [respond("Its lamp went out, and came back.")],
    "You greet guests.": [respond("Hello, Ida!"), respond("You are Ida.")],
    "Make refunds.": [execute_tool("refund", order="8812", amount=129), respond("129 EUR are on their way.")],
    "You pay out.": [execute_tool("pay", iban="DE02120300000000202051", amount=500), respond("That is too much.")],
    "You write poems.": [],
}
"""What the models of coming-from.md say, by the prompts of their agents."""

PRINTED = {
    "hello.py": "In 476.",
    "weather.py": "Yes, it rains.",
    "invoice.py": "number='R-17' total=58.0",
    "caller.py": "A lamp and a desk.",
    "handoff.py": "You get one charge back.",
    "team.py": "Buenos días! Guten Morgen!",
    "workflow.py": "Rejected.",
    "stream.py": "Its lamp went out, and came back.",
    "thread.py": "You are Ida.",
    "approval.py": "refund {'amount': 129, 'order': '8812'}\n129 EUR are on their way.",
    "guardrail.py": "That is too much.",
    "limits.py": "failed budget_exceeded",
}
SMALL = "Please refund order 8811, it arrived broken."
LARGE = "Please refund order 8812, it arrived broken."


class Said(BaseModel):
    """An answer of the help desk."""

    message: str


class Place(NamedTuple):
    """The platform, and where the chat bridge is expected."""

    url: str
    folder: Path
    bridge_port: int
    broker: dict[str, str]
    other_key: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    with temporary_folder() as folder:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        hooks, there = taken("docs/guides/approvals-in-chat.md: webhooks:").text, "https://bridge.example.com"
        (folder / "hooks.yaml").write_text(hooks.replace(there, f"http://127.0.0.1:{port}"), "utf-8")
        told = {"TOWPATH_WEBHOOKS_FILE": str(folder / "hooks.yaml"), "TOWPATH_HOOK": HOOK}
        with_tools = ("weather.py", "caller.py", "approval.py", "guardrail.py")
        tools = [written(folder, OTHERS.name, name) for name in with_tools]
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(served(prompted_model(ANSWERS, "You tell short stories.")))
            asks = {"OPENAI_API_KEY": KEY, "TOWPATH_OPENAI_BASE_URL": str(model.base_url.join("/v1"))}
            asks["TOWPATH_SCRIPT_DIR"] = str(SAMPLE)
            platform = sample_platform(folder, policy=policy(folder), tools=tools, orchestrator=told, decider=asks)
            stack.push_async_callback(platform.stop)
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(USERS, CALLER, client_rights(CALLER))  # as `clients` of a deployment are of its broker
                await platform.start()
            lines: list[str] = []
            await NetworkFolderPublisher(SAMPLE, platform.client_url, lines.append).publish_changed()
            settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
            scopes = ("runs:read", "runs:write", "gates:read", "gates:resolve")
            new = CreateKeyBody(caller=CALLER, scopes=scopes, roles=("approver",))
            key = await create_key(settings, new, "default")
            other = await create_key(settings, new.model_copy(update={"caller": "other"}), "default")
            password = platform.nats.password(CALLER)
            login = {"TOWPATH_NATS_URL": platform.nats_url, "TOWPATH_NATS_PASSWORD": password, "TOWPATH_API_KEY": key}
            yield Place(platform.client_url, folder, port, login, other)


def policy(folder: Path) -> Path:
    """Write the sample's policy together with the rules of coming-from.md, on top of a profile that allows all."""
    texts = [(SAMPLE / "policy.yaml").read_text("utf-8")]
    texts += [block.text for block in blocks_of(OTHERS) if block.language == "yaml"]
    rules = [rule for text in texts for rule in yaml.safe_load(text)["rules"]]
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump({"profile": "open", "rules": rules}), "utf-8")
    return path


def written(folder: Path, page: str, name: str) -> Path:
    """Write the block *name* of a guide as the file that it is."""
    (block,) = [one for one in blocks_of(ROOT / "docs" / "guides" / page) if one.name == name]
    path = folder / name
    path.write_text(block.text, "utf-8")
    return path


def program(place: Place, page: str, name: str) -> ModuleType:
    """Load the block *name* of a guide as the module that it is."""
    path = written(place.folder, page, name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where Django looks for the addresses of a site
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def served(app: Any, port: int = 0) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve *app* as uvicorn does, and give a client of it."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="auto"))
    task = asyncio.create_task(server.serve())
    try:
        await eventually(lambda: server.started)
        address = server.servers[0].sockets[0].getsockname()
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        await task


async def ended(place: Place, client: httpx2.AsyncClient, question: str) -> dict[str, Any]:
    """Return what the guide's API says once its run has ended."""
    async with Client(place.url) as towpath:
        await towpath.result(question, timeout=30)
    return dict((await client.get(f"/questions/{question}")).json())


async def test_an_api_of_ones_own_with_fastapi(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", place.url)
    async with served(program(place, "fastapi.md", "shop_api.py").app) as client:
        asked = await client.post("/questions", json={"text": SMALL}, headers={"idempotency-key": "once"})
        again = await client.post("/questions", json={"text": SMALL}, headers={"idempotency-key": "once"})
        assert (asked.status_code, asked.json()) == (202, again.json())
        question = asked.json()["id"]
        steps = await client.get(f"/questions/{question}/steps")
        types = [json.loads(line)["type"] for line in steps.text.splitlines()]
        assert {"tool_call", "tool_result", "text"} <= set(types)
        assert "refunded" in str((await ended(place, client, question))["answer"])
        assert (await client.get("/questions/0199c0de-0000-7000-8000-000000000000")).status_code == 404


async def test_an_api_of_ones_own_with_django(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", place.url)
    async with served(program(place, "django.md", "shop_site.py").application) as client:
        asked = await client.post("/questions", json={"text": SMALL})
        assert asked.status_code == 202
        assert "refunded" in str((await ended(place, client, asked.json()["id"]))["answer"])
        assert (await client.get("/questions/0199c0de-0000-7000-8000-000000000000")).status_code == 404


async def test_a_refund_is_submitted_followed_and_approved_with_and_without_asyncio(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", place.url)
    assert "refunded" in await program(place, "python-client.md", "refunds_async.py").refund(LARGE)
    plain = program(place, "python-client.md", "refunds.py")
    assert "refunded" in await asyncio.to_thread(plain.refund, LARGE)
    newest = await asyncio.to_thread(plain.newest, "support")
    steps = await asyncio.to_thread(plain.steps, newest)
    assert (steps[0], steps[-1]) == ("run_created", "run_finished") and "gate_opened" in steps
    begun = await asyncio.to_thread(plain.begin, SMALL)
    assert begun == await asyncio.to_thread(plain.newest, "support")


async def test_a_submitted_run_is_followed_stopped_and_read_in_a_type(place: Place) -> None:
    async with Client(place.url) as client:
        run = await client.submit("support", LARGE, labels={"team": "shop"}, idempotency_key="in-hand")
        again = await client.submit("support", LARGE, labels={"team": "shop"}, idempotency_key="in-hand")
        assert (again.run_id, again.duplicate, run.duplicate, run.network) == (run.run_id, True, False, "support")
        with pytest.raises(RunTimeoutError):
            await run.result(timeout=0.5)
        await run.cancel("changed their mind")
        assert [entry.event.type async for entry in run.events()][-1] == "run_finished"
        assert (await run.get()).status == (await run.result(timeout="30s")).status == "cancelled"
        with pytest.raises(RunFailedError):
            await run.result(as_=Said)


async def test_a_refund_is_approved_by_a_button_in_a_chat(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    posts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    chat = FastAPI()

    @chat.post("/post")
    async def post(request: Request) -> dict[str, str]:
        posts.put_nowait(await request.json())
        return {}

    async with served(chat) as room:
        environment = {
            "TOWPATH_SERVER": place.url,
            "TOWPATH_HOOK": HOOK,
            "CHAT_POST_URL": f"{room.base_url}/post".replace("//post", "/post"),
            "CHAT_SIGNING_SECRET": SIGNING,
            "CHAT_KEYS": json.dumps({"U-MIA": ""}),
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        bridge = program(place, "approvals-in-chat.md", "chat_bridge.py")
        async with served(bridge.app, place.bridge_port) as client, Client(place.url) as towpath:
            accepted = await towpath.submit("support", LARGE)
            async with asyncio.timeout(60):
                while not (gates := await towpath.gates.list(run_id=accepted.run_id)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                message = await posts.get()
                while str(gates[0].gate_id) not in json.dumps(message):  # told anew, of another test's run
                    message = await posts.get()
            section, actions = message["blocks"]
            assert section["text"]["type"] == "plain_text"
            assert "orders.refund" in section["text"]["text"]
            assert "129" in section["text"]["text"]
            approve = actions["elements"][0]
            assert (await press(client, approve, "U-MIA", secret="somebody-else's")).status_code == 401
            assert (await press(client, approve, "U-MIA", at=int(time.time()) - 3600)).status_code == 401
            assert "no key" in (await press(client, approve, "U-PAUL")).json()["text"]
            other = {**approve, "value": json.dumps({**json.loads(approve["value"]), "digest": "0" * 64})}
            assert "digest_changed" in (await press(client, other, "U-MIA")).json()["text"]
            assert (await press(client, approve, "U-MIA")).json() == {"text": "Done."}
            assert (await towpath.result(accepted.run_id, timeout=30)).status == "completed"
            assert "gate_settled" in (await press(client, actions["elements"][1], "U-MIA")).json()["text"]
            forged = {"webhook-id": "1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
            assert (await client.post("/towpath", content=b"{}", headers=forged)).status_code == 401


async def press(
    client: httpx2.AsyncClient, element: dict[str, Any], user: str, *, secret: str = SIGNING, at: int | None = None
) -> httpx2.Response:
    """Press a button as the chat tells of it."""
    pressed = {"user": {"id": user}, "actions": [{"action_id": element["action_id"], "value": element["value"]}]}
    body = urlencode({"payload": json.dumps(pressed)}).encode()
    stamp = str(int(time.time()) if at is None else at)
    signature = hmac.digest(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hex()
    headers = {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={signature}"}
    return await client.post("/chat", content=body, headers=headers)


async def test_a_program_in_typescript_has_a_refund_approved_javascript(place: Place, tmp_path: Path) -> None:
    await javascript.build_client(tmp_path)
    written(tmp_path, "javascript.md", "refund.ts")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    options = {"module": "NodeNext", "target": "ES2022", "lib": ["ES2022", "DOM"], "types": [], "strict": True}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["refund.ts"]}), "utf-8")
    await javascript.compile_typescript(tmp_path)
    lines = (await javascript.run_node(tmp_path, {"TOWPATH_SERVER": place.url}, "refund.js")).splitlines()
    assert [int(line.split()[0]) for line in lines[:-1]] == list(range(1, len(lines)))
    assert {"run_created", "gate_opened", "gate_closed", "run_finished"} <= {line.split()[-1] for line in lines[:-1]}
    assert lines[-1].startswith("answer: ")
    assert "refunded" in lines[-1]


async def test_a_program_over_nats_hears_its_runs_and_takes_one_back_javascript(place: Place, tmp_path: Path) -> None:
    written(tmp_path, "javascript-nats.md", "refund.mjs")
    (tmp_path / "node_modules").symlink_to(javascript.FOLDER / "node_modules")
    lines = (await javascript.run_node(tmp_path, place.broker, "refund.mjs")).splitlines()
    *events, answer, second = lines
    assert [int(line.split()[0]) for line in events] == list(range(1, len(events) + 1))
    assert (events[0], events[-1].split()[-1]) == ("1 run_created", "run_finished")
    assert answer.startswith("answer: ") and "refunded" in answer
    assert second == "second: cancelled"


async def test_the_programs_beside_those_of_other_frameworks_print_what_they_should(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", place.url)
    names = {block.name for block in blocks_of(OTHERS) if block.name.endswith(".py")}
    assert names == {*PRINTED, "test_prices.py"}
    printed = {}
    for name in PRINTED:
        path = written(place.folder, OTHERS.name, name)
        await asyncio.to_thread(runpy.run_path, str(path), run_name="__main__")
        printed[name] = capsys.readouterr().out.strip()
    assert printed == PRINTED


async def test_a_client_of_the_nats_agent_protocol_prompts_a_network_and_is_asked(place: Place, tmp_path: Path) -> None:
    path = written(tmp_path, "nats-agents.md", "prompt.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(path), env={**os.environ, **place.broker}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    lines = out.decode().splitlines()
    assert lines[0].startswith("asked: A run of support waits for your word:")
    assert "Tool: orders.refund" in lines
    assert lines[-2] == "Answer approve or deny, and why."
    assert lines[-1].startswith("answer: ")
    assert "refunded" in lines[-1]


async def test_prompts_without_a_key_and_those_that_are_refused(place: Place) -> None:
    login = {"user": CALLER, "password": place.broker["TOWPATH_NATS_PASSWORD"]}
    refused: list[Exception] = []

    async def note(error: Exception) -> None:
        refused.append(error)

    nc = await nats.connect(place.broker["TOWPATH_NATS_URL"], error_cb=note, **login)
    try:
        (found,) = [one for one in await Agents(nc=nc).discover() if one.session_name == "support"]
        assert (found.agent, found.owner, found.session_name) == ("towpath", CALLER, "support")
        assert (await found.status()).instance_id == found.instance_id
        said = [message async for message in found.prompt(SMALL)]
        assert [one.status for one in said if isinstance(one, StatusChunk)] == ["ack"]
        assert "refunded" in "".join(one.text for one in said if isinstance(one, ResponseChunk))
        for subject, headers, why in (
            (f"agents.prompt.towpath.{CALLER}.nobody", {}, "404 network_not_found"),
            (f"agents.prompt.towpath.{CALLER}.x--zz", {}, "404 network_not_found"),
            (f"agents.status.towpath.{CALLER}.nobody", {}, "404 network_not_found"),
            (found.prompt_subject, {"Authorization": "Bearer twp_nothing"}, "401 unauthenticated"),
            (found.prompt_subject, {"Authorization": f"Bearer {place.other_key}"}, "401 unauthenticated"),
        ):
            assert await refusal(nc, subject, headers) == why
        async with Client(place.url) as towpath:
            waiting = found.prompt(LARGE)
            async for message in waiting:
                assert isinstance(message, StatusChunk), "nobody without a key is asked"
                if message.status == "waiting":
                    break
            (gate,) = await towpath.gates.list(status="pending")
            await towpath.gates.deny(gate.gate_id, reason="not today")
            assert [one.text for one in [m async for m in waiting] if isinstance(one, ResponseChunk)]
        assert not refused, "what this client asks of the broker by itself"
    finally:
        await nc.close()


async def refusal(nc: Any, subject: str, headers: dict[str, str]) -> str:
    """Return the code and the problem that a prompt is refused with; nothing but the end comes behind."""
    inbox = nc.new_inbox()
    answers = await nc.subscribe(inbox)
    await nc.publish(subject, b"hello", reply=inbox, headers=headers or None)
    while (message := await answers.next_msg(timeout=20)).headers is None:
        assert json.loads(message.data) == {"type": "status", "data": "ack"}
    assert (await answers.next_msg(timeout=20)).data == b""
    return f"{message.headers['Nats-Service-Error-Code']} {message.headers['Towpath-Problem']}"

"""The platform as an MCP server, as the official clients have it: over HTTP and over stdio, of both protocols."""

import asyncio
import json
import os
import re
import sys
import uuid
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2
import mcp_types
import pytest
import pytest_asyncio
import yaml
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import Field, SecretStr
from tests.support import javascript
from tests.support.places import ROOT
from tests.support.platform.sample_platform import SAMPLE, sample_platform

from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

Found = TypeVar("Found")

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUND = {"user_message": "Refund order 8812"}
TASKS = "io.modelcontextprotocol/tasks"
OF_RUNS = ["get_run", "follow_run"]
EVERY_TOOL = ["run_network", *OF_RUNS, "list_approvals", "decide_approval", "search_audit", "support"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    """The sample with keys, where who submits a run does not approve its calls."""
    with temporary_folder() as folder:
        own = {"TOWPATH_POLICY_FILE": str(SAMPLE / "policy.yaml")}
        async with sample_platform(folder, gateway={"TOWPATH_AUTH": "on"}, tas=own) as running:
            async with http(running, await key(running, "publisher")) as client:
                spec = yaml.safe_load((SAMPLE / "network.yaml").read_text())
                await found_within(lambda: published(client, spec))
            yield running


async def found_within(look: Callable[[], Awaitable[Found | None]], within_s: float = 30) -> Found:
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
    return httpx2.AsyncClient(base_url=platform.gateway_url, verify=False, headers=headers, timeout=60)


@asynccontextmanager
async def connected(platform: Platform, secret: str, **options: Any) -> AsyncIterator[Client]:
    async with (
        http(platform, secret) as way,
        Client(streamable_http_client(f"{platform.gateway_url}/mcp", http_client=way), **options) as client,
    ):
        yield client


def answering(action: str, asked: list[str], **content: str) -> Any:
    async def answer(_: Any, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action=action, content=content or None)  # type: ignore[arg-type]

    return answer


def told(result: mcp_types.CallToolResult) -> str:
    return "\n".join(one.text for one in result.content if isinstance(one, mcp_types.TextContent))


async def test_a_key_is_shown_the_tools_that_it_may_use_with_hints_that_hold(platform: Platform) -> None:
    async with connected(platform, await key(platform, "alice")) as client:
        assert client.protocol_version == "2026-07-28"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == EVERY_TOOL
    hints = {name: tool.annotations for name, tool in tools.items()}
    reads = {name for name, hint in hints.items() if hint is not None and hint.read_only_hint}
    assert reads == {*OF_RUNS, "list_approvals", "search_audit"}
    assert {name for name, hint in hints.items() if hint is not None and hint.destructive_hint} == {*tools} - reads
    assert tools["support"].description == "Answers customers of a small shop; refunds above 100 need a person."
    assert tools["support"].input_schema["required"] == ["user_message"]
    async with connected(platform, await key(platform, "reader", ("runs:read",))) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == OF_RUNS
        refused = await client.call_tool("decide_approval", {"gate_id": str(uuid.uuid4()), "verdict": "approved"})
        assert refused.is_error and told(refused).startswith("forbidden: this needs the scope gates:resolve\nUse a key")
        assert refused.structured_content["code"] == "forbidden"


async def test_a_call_follows_its_run_and_another_person_approves_through_a_tool(platform: Platform) -> None:
    progress: list[tuple[float, str | None]] = []

    async def on_progress(seq: float, _total: float | None, words: str | None) -> None:
        progress.append((seq, words))

    async with (
        connected(platform, await key(platform, "alice")) as alice,
        connected(platform, await key(platform, "bob")) as bob,
    ):
        waiting = await alice.call_tool("support", REFUND, progress_callback=on_progress)
        assert not waiting.is_error
        told_of = waiting.structured_content
        (gate,) = told_of["gates"]
        assert (told_of["status"], gate["tool"], gate["args"]["order_id"]) == ("waiting", "orders.refund", "8812")
        assert gate["decide_at"] == f"{platform.gateway_url}/approvals/{gate['gate_id']}"
        assert gate["decide_at"] in told(waiting) and "approval: Somebody looks at large refunds." in told(waiting)
        assert [seq for seq, _ in progress] == sorted(seq for seq, _ in progress)
        words = [one for _, one in progress]
        assert words[-1] == "gate opened" and "tool call finished orders.find billing" in words
        yes = {"gate_id": gate["gate_id"], "verdict": "approved", "digest": gate["digest"]}
        own = await alice.call_tool("decide_approval", yes)
        assert own.is_error and own.structured_content["code"] == "requester_may_not_approve"
        other = await bob.call_tool("decide_approval", {**yes, "digest": "sha256:" + "0" * 64})
        assert other.is_error and other.structured_content["code"] == "digest_changed"
        listed = (await bob.call_tool("list_approvals", {"run_id": told_of["run_id"]})).structured_content
        assert [one["detail"]["digest"] for one in listed["gates"]] == [gate["digest"]]
        assert not (await bob.call_tool("decide_approval", yes)).is_error
        ended = await alice.call_tool("follow_run", {"run_id": told_of["run_id"]})
        assert told(ended).startswith("Order 8812 is refunded") and ended.structured_content["status"] == "completed"
        found = await bob.call_tool("search_audit", {"run_id": told_of["run_id"], "verdict": "approved"})
        (entry,) = found.structured_content["entries"]
        assert entry["actor"].startswith("bob-") and entry["tool"] == "orders.refund"
        looked = await bob.call_tool("get_run", {"run_id": told_of["run_id"]})
        assert looked.structured_content["caller"].startswith("alice-")


async def test_a_client_that_can_ask_its_person_gets_the_question_and_its_word_obeys_the_rules(
    platform: Platform,
) -> None:
    secret, asked = await key(platform, "alice"), list[str]()
    yes = answering("accept", asked, verdict="approved")
    async with connected(platform, secret, elicitation_callback=yes) as client:
        refused = await client.call_tool("support", REFUND)
        assert refused.is_error and told(refused).startswith("requester_may_not_approve: ")
        assert refused.structured_content["status"] == "waiting", "the run still waits, for another person"
    assert asked[0].startswith("A run of support waits for your word: Somebody looks at large refunds.\nCall: Refund")
    assert '"order_id": "8812"' in asked[0]
    no = answering("accept", asked, verdict="denied", reason="arrived broken by the customer")
    async with connected(platform, secret, elicitation_callback=no) as client:
        ended = await client.call_tool("run_network", {"network": "support", **REFUND})
        assert ended.structured_content["status"] not in {"waiting", "running"}
        run_id = ended.structured_content["run_id"]
        found = await client.call_tool("search_audit", {"run_id": run_id, "verdict": "denied"})
        assert any("arrived broken by the customer" in json.dumps(one) for one in found.structured_content["entries"])
    async with connected(platform, secret, elicitation_callback=answering("decline", asked)) as client:
        waiting = await client.call_tool("support", REFUND)
        assert not waiting.is_error and waiting.structured_content["status"] == "waiting"


async def test_an_answer_without_its_state_starts_no_second_run(platform: Platform) -> None:
    async with connected(platform, await key(platform, "alice")) as client:
        answered = {"nothing": mcp_types.ElicitResult(action="accept", content={"verdict": "approved"})}
        for state in (None, "{}", '{"run_id": "../v1/keys", "seq": 0}'):
            refused = await client.session.call_tool("support", REFUND, input_responses=answered, request_state=state)
            assert isinstance(refused, mcp_types.CallToolResult) and refused.is_error
            assert "requestState is not what this tool gave" in told(refused)


async def test_an_older_client_is_served_and_told_where_to_decide(platform: Platform) -> None:
    yes = answering("accept", [], verdict="approved")
    async with connected(platform, await key(platform, "old"), mode="legacy", elicitation_callback=yes) as client:
        assert client.protocol_version == "2025-11-25"
        assert [tool.name for tool in (await client.list_tools()).tools] == EVERY_TOOL
        waiting = await client.call_tool("support", REFUND)
        assert waiting.structured_content["status"] == "waiting" and "/approvals/" in told(waiting)
        small = await client.call_tool("support", {"user_message": "Refund order 8811"})
        assert small.structured_content["status"] == "completed", told(small)


async def test_what_is_wrong_is_told_as_an_error_of_the_tool(platform: Platform) -> None:
    async with connected(platform, await key(platform, "alice")) as client:
        wrong = [
            ("support", {"user_mesage": "x"}, "did you mean 'user_message'?"),
            ("support", {"user_message": "x", "wait_s": -1}, "wait_s is a number of seconds"),
            ("support", {"user_message": "x" * 100_001}, "/body/user_message"),
            ("run_network", {"network": "nobody", "user_message": "x"}, "network_not_found"),
            ("get_run", {"run_id": "1"}, "run_id is missing, or no id"),
            ("get_run", {"run_id": "../keys"}, "run_id is missing, or no id"),
            ("get_run", {}, "run_id is missing"),
            ("search_audit", {"limit": 5_000}, "/query/limit"),
            ("search_audit", {"limit": [5]}, "limit: a text or a whole number"),
            ("decide_approval", {"gate_id": str(uuid.uuid4()), "verdict": "denied"}, "reason_required"),
            ("decide_approval", {"gate_id": str(uuid.uuid4()), "verdict": "approved"}, "gate_not_found"),
        ]
        for tool, arguments, words in wrong:
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error and words in told(answer), (tool, arguments, told(answer))
        with pytest.raises(MCPError, match="there is no tool 'nobody'; there are "):
            await client.call_tool("nobody", {})
    async with http(platform, "twp_none.none") as client:
        answer = await client.post("/mcp", json={})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    async with http(platform, await key(platform, "alice")) as client:
        assert (await client.get("/mcp")).status_code == 405
        assert (await client.post("/mcp", content=b"{")).json()["code"] == "media_type_unsupported"
        large = await client.post("/mcp", json={"x": "y" * 1024 * 1024})
        assert large.json()["code"] == "request_too_large"


async def test_a_stream_that_breaks_cancels_no_run(platform: Platform) -> None:
    begun = asyncio.Event()
    secret = await key(platform, "gone")

    async def on_progress(_seq: float, _total: float | None, _words: str | None) -> None:
        begun.set()

    async def calls() -> None:
        async with connected(platform, secret) as client:
            await client.call_tool("support", {**REFUND, "idempotency_key": "gone"}, progress_callback=on_progress)

    calling = asyncio.create_task(calls())
    await asyncio.wait_for(begun.wait(), 30)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    async with connected(platform, secret) as client:
        again = await client.call_tool("support", {**REFUND, "idempotency_key": "gone"})
        assert again.structured_content["status"] == "waiting", "the run of the first call went on"


class TaskHandle(mcp_types.Result):
    """The answer of a call that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str = Field(alias="taskId")
    status: str


class TaskMethod(mcp_types.RequestParams):
    """Parameters of the methods of tasks."""

    task_id: str = Field(serialization_alias="taskId")
    input_responses: dict[str, Any] | None = Field(default=None, serialization_alias="inputResponses")


class AnyResult(mcp_types.Result):
    """Whatever comes."""

    model_config = mcp_types.Result.model_config | {"extra": "allow"}


async def on_task(client: Any, method: str, task_id: str, **more: Any) -> dict[str, Any]:
    params = TaskMethod(task_id=task_id, **more)
    request = mcp_types.Request[TaskMethod, str](method=method, params=params)
    found: AnyResult = await client.send_request(request, AnyResult)
    return found.model_dump(by_alias=True)


class TasksExtension(ClientExtension):
    """Takes tasks, and leaves them to the test."""

    identifier = TASKS

    def claims(self) -> list[ResultClaim[Any]]:
        async def resolve(_task: TaskHandle, _context: ClaimContext) -> mcp_types.CallToolResult:
            raise AssertionError("the test takes the handle itself")

        return [ResultClaim(result_type="task", model=TaskHandle, resolve=resolve)]


async def test_a_client_that_takes_tasks_polls_answers_and_cancels_them(platform: Platform) -> None:
    options = {"extensions": [TasksExtension()], "elicitation_callback": answering("decline", [])}
    async with (
        connected(platform, await key(platform, "alice"), **options) as alice,
        connected(platform, await key(platform, "bob"), **options) as bob,
        connected(platform, await key(platform, "plain")) as plain,
    ):
        assert TASKS in (alice.server_capabilities.extensions or {})
        handle = await alice.session.call_tool("support", REFUND, allow_claimed=True)
        assert isinstance(handle, TaskHandle) and handle.status == "working"

        async def stands(status: str, client: Client = alice, task: str = handle.task_id) -> dict[str, Any] | None:
            found = await on_task(client.session, "tasks/get", task)
            return found if found["status"] == status else None

        asked = await found_within(lambda: stands("input_required"))
        ((question, request),) = asked["inputRequests"].items()
        assert request["method"] == "elicitation/create" and "orders.refund" in request["params"]["message"]
        answer = {"action": "accept", "content": {"verdict": "approved"}}
        with pytest.raises(MCPError, match="requester_may_not_approve"):
            await on_task(alice.session, "tasks/update", handle.task_id, input_responses={question: answer})
        ignored = {"no key": answer, f"{uuid.uuid4()}": answer, f"{question[:-1]}x": answer}
        await on_task(bob.session, "tasks/update", handle.task_id, input_responses=ignored)
        assert await stands("input_required") is not None, "an answer to another question is none"
        await on_task(bob.session, "tasks/update", handle.task_id, input_responses={question: answer})
        done = await found_within(lambda: stands("completed"))
        assert done["result"]["structuredContent"]["status"] == "completed"
        assert done["result"]["content"][1]["text"] == f"Run {handle.task_id} completed."
        second = await alice.session.call_tool("support", REFUND, allow_claimed=True)
        await on_task(alice.session, "tasks/cancel", second.task_id)
        assert await found_within(lambda: stands("cancelled", alice, second.task_id))
        await on_task(alice.session, "tasks/cancel", second.task_id)
        with pytest.raises(MCPError, match="run_not_found"):
            await on_task(alice.session, "tasks/get", str(uuid.uuid4()))
        with pytest.raises(MCPError, match="Missing required client capability"):
            await on_task(plain.session, "tasks/get", second.task_id)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_command_serves_the_same_over_stdio_with_its_own_key(platform: Platform, mode: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "TOWPATH_SERVER": platform.gateway_url,
        "TOWPATH_API_KEY": await key(platform, "editor"),
    }
    command = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "towpath.cli", "mcp", "serve"], env=environment
    )
    asked: list[str] = []
    seen: list[float] = []

    async def on_progress(seq: float, _total: float | None, _words: str | None) -> None:
        seen.append(seq)

    no = answering("accept", asked, verdict="denied", reason="not today")
    async with Client(stdio_client(command), mode=mode, elicitation_callback=no) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == EVERY_TOOL
        small = {"user_message": "Refund order 8811"}
        done = await client.call_tool("support", small, progress_callback=on_progress)
        assert done.structured_content["status"] == "completed" and seen
        large = await client.call_tool("support", REFUND)
        assert (large.structured_content["status"] == "waiting") is (mode == "legacy")
        assert bool(asked) is (mode == "auto")
        looked = await client.call_tool("get_run", {"run_id": done.structured_content["run_id"]})
        assert looked.structured_content["caller"].startswith("editor-")


def documented(name: str) -> str:
    """Return the block *name* of docs/mcp.md."""
    page = (ROOT / "docs" / "mcp.md").read_text("utf-8")
    (found,) = re.findall(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(found)


async def test_what_the_documentation_shows_runs(platform: Platform, tmp_path: Path) -> None:
    program = documented("mcp-client.py").replace("http://127.0.0.1:8787", platform.gateway_url)
    asking = program.replace("Where is my order?", "Refund order 8812")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path), "TOWPATH_API_KEY": await key(platform, "reader")}
    for command, shown in (
        ([sys.executable, "-c", program], [b"played from support.json"]),
        ([sys.executable, "-c", asking], [b"Tool: orders.refund", b"submitted the run that asks. Let another"]),
        (["bash", "-euo", "pipefail", "-c", documented("mcp-config")], [b'"servers":', b'"mcpServers":']),
    ):
        output, errors = await outcome(command, b"yes\n", cwd=tmp_path, env=environment)
        assert [one for one in shown if one not in output] == [], (output, errors)


async def outcome(command: list[str], said: bytes = b"", **options: Any) -> tuple[bytes, bytes]:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, **options)
    output, errors = await asyncio.wait_for(process.communicate(said), 120)
    assert process.returncode == 0, errors.decode()
    return output, errors


async def test_the_official_javascript_client_has_the_same_over_http_and_stdio_and_as_tasks(
    platform: Platform,
) -> None:
    serve = [sys.executable, "-P", "-m", "towpath.cli", "mcp", "serve"]
    program = ["mcp_client.mjs", f"{platform.gateway_url}/mcp", await key(platform, "script"), *serve]
    found = json.loads((await outcome([javascript.node_path() or "node", *program], cwd=javascript.FOLDER))[0])
    for name in ("modern", "legacy", "stdio"):
        served = found[name]
        assert (served["tools"], served["done"]) == (EVERY_TOOL, "completed"), name
        assert served["wrong"] == [True, "request_invalid"] and "run started" in served["progress"]
        assert (served["large"] == "waiting") is (name == "legacy"), "a client of 2025 is told where to decide"
        assert bool(served["asked"]) is (name != "legacy")
    assert found["tasks"] == {"created": True, "kinds": [True], "asked": "input_required", "end": "completed"}

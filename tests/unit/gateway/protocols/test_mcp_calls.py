"""Calls of tools by MCP clients, where something is refused, malformed or ends meanwhile."""

import asyncio
import json
import uuid
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import mcp_types
import pytest
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from tests.unit.gateway.protocols.test_mcp_server import ME, RUN, api, gate, page
from tests.unit.gateway.test_admission import KEY, door

from towpath_console.api import Api, ApiCaller, ApiRefusalError
from towpath_contracts.problems.registry import problem
from towpath_gateway.app.protocols.mcp_server import gate_questions, results, task_methods, tool_calls, tool_list
from towpath_gateway.app.protocols.mcp_server.route import McpRoute
from towpath_gateway.core.a2a_errors import unread_message

MODERN = "2026-07-28"
ASKS = mcp_types.ClientCapabilities.model_validate({"elicitation": {"form": {}}})
TAKES_TASKS = mcp_types.ClientCapabilities.model_validate({"extensions": {"io.modelcontextprotocol/tasks": {}}})
YES = mcp_types.ElicitResult(action="accept", content={"verdict": "approved"})
ACCEPTED = {"run_id": RUN, "status": "queued", "created_at": "2026-11-26T08:00:00Z"}
VIEW = {"run_id": RUN, "status": "waiting", "seq": 9, "waits": ["approval: large"]}
OPENED = {"seq": 9, "event": {"type": "gate_opened"}}
WAITING = {"/v1/runs": ACCEPTED, f"/v1/runs/{RUN}/events": page("waiting", 9, (OPENED,)), f"/v1/runs/{RUN}": VIEW}


class CallerOf(ApiCaller):
    """Asks one API, whoever calls."""

    def __init__(self, asked: Api) -> None:
        self._one = asked

    def on_behalf_of(self, request: Request) -> Api:
        return self._one


class Heard:
    """The client's side: what it declared, and the progress that it was told."""

    def __init__(self, declared: mcp_types.ClientCapabilities) -> None:
        self.client_capabilities = declared
        self.progress: list[float] = []

    async def report_progress(self, progress: float, _total: float | None, _message: str | None) -> None:
        self.progress.append(progress)


def context(session: Heard) -> Any:
    scope = {"type": "http", "scheme": "http", "server": ("towpath", 80), "path": "/mcp", "headers": []}
    return SimpleNamespace(request=Request(scope), session=session, protocol_version=MODERN, method="tasks/update")


async def called(answers: dict[str, Any], tool: str, arguments: dict[str, Any], **more: Any) -> Any:
    """Return what a call is answered by a client that can ask its person."""
    asked, heard = more.pop("asked", None), more.pop("heard", None) or Heard(ASKS)
    calls = tool_calls.ToolCalls(
        CallerOf(api(answers, asked)), tool_list.ToolDirectory(), asyncio.Event(), most_s=60, own_url=""
    )
    params = mcp_types.CallToolRequestParams(name=tool, arguments=arguments, **more)
    return await asyncio.wait_for(calls.call(context(heard), params), 5)


RUN_IT = {"network": "support", "user_message": "Refund order 8812"}


@pytest.mark.parametrize("refusing", ["/v1/me", f"/v1/runs/{RUN}", f"/v1/runs/{RUN}/events", "/v1/gates"])
async def test_a_run_that_was_accepted_is_named_whatever_is_refused_then(refusing: str) -> None:
    answers = {**WAITING, "/v1/me": ME, "/v1/gates": {"gates": [gate()]}, refusing: "request_limit"}
    answered = await called(answers, "run_network", RUN_IT)
    assert not answered.is_error and answered.structured_content["run_id"] == RUN
    assert (
        answered.structured_content["refused"]["code"] == "request_limit" and "follow_run" in answered.content[0].text
    )
    state = json.dumps({"run_id": RUN, "seq": 9})
    again = await called(answers, "run_network", RUN_IT, request_state=state, input_responses={"other": YES})
    assert again.structured_content["run_id"] == RUN and again.structured_content["refused"]["code"] == "request_limit"


async def test_what_is_asked_is_answered_and_no_more() -> None:
    assert isinstance(
        await called({**WAITING, "/v1/me": ME, "/v1/gates": {"gates": [gate()]}}, "run_network", RUN_IT),
        mcp_types.InputRequiredResult,
    )
    asked: list[tuple[str, Any]] = []
    keys = [str(uuid.uuid4()) for _ in range(gate_questions.MAX_QUESTIONS + 1)]
    state = json.dumps({"run_id": RUN, "seq": 9})
    answers = {**WAITING, "/v1/me": ME, "/v1/gates": {"gates": []}, f"/v1/runs/{RUN}": {**VIEW, "status": "completed"}}
    answers |= {f"/v1/runs/{RUN}/events": page("completed", 9), **{f"/v1/gates/{key}/resolve": {} for key in keys}}
    over = {"request_state": state, "input_responses": dict.fromkeys(keys, YES)}
    refused = await called(answers, "run_network", RUN_IT, asked=asked, **over)
    assert refused.is_error and "at most 8 things are asked at once" in refused.content[0].text and not asked
    over["input_responses"].popitem()
    taken = await called(answers, "run_network", RUN_IT, asked=asked, **over)
    assert not taken.is_error and [path for path, _ in asked][:8] == [f"/v1/gates/{key}/resolve" for key in keys[:8]]
    tasks = task_methods.TaskMethods(CallerOf(api(answers, asked)), "")
    asked.clear()
    params = task_methods.UpdateTaskParams.model_validate(
        {"taskId": RUN, "inputResponses": {key: YES.model_dump() for key in keys}}
    )
    with pytest.raises(Exception, match="there are 9 inputResponses, and at most 8 things are asked at once"):
        await tasks.update(context(Heard(TAKES_TASKS)), params)
    assert not asked
    params.input_responses.popitem()
    assert await tasks.update(context(Heard(TAKES_TASKS)), params) == {} and len(asked) == 9


@pytest.mark.parametrize(
    ("word", "refusal", "verdicts", "told"),
    [
        ("yes", "request_invalid", None, "'yes' is no verdict here: approved or denied"),
        (
            "stop",
            "verdict_invalid",
            ["happened", "retry", "edit"],
            "'stop' is no verdict here: happened, retry or edit",
        ),
        ("y\n" * 99, "request_invalid", ["denied"], f"'{('y ' * 32)}' is no verdict here: denied"),
        (None, "request_invalid", None, "'' is no verdict here: approved or denied"),
    ],
)
async def test_a_word_that_the_gate_does_not_take_is_told_with_those_that_it_takes_and_the_run_waits(
    word: str | None, refusal: str, verdicts: list[str] | None, told: str
) -> None:
    waits = gate(status="pending", detail={"verdicts": verdicts})
    gate_id, said = waits["gate_id"], mcp_types.ElicitResult(action="accept", content={"verdict": word})
    answers: dict[str, Any] = {**WAITING, "/v1/gates": {"gates": [waits]}, f"/v1/gates/{gate_id}": waits}
    answers |= {f"/v1/gates/{gate_id}/resolve": refusal}
    sent = {"request_state": json.dumps({"run_id": RUN, "seq": 9}), "input_responses": {gate_id: said}}
    refused = await called(answers, "run_network", RUN_IT, **sent)
    assert refused.is_error and refused.structured_content["gates"][0]["gate_id"] == gate_id
    assert refused.content[0].text.startswith(
        f"verdict_invalid: {told}. Run {RUN} still waits at gate {gate_id}. Say one of those in detail "
        "with the tool decide_approval, as its verdict; in a terminal: towpath gates "
    )
    tasks = task_methods.TaskMethods(CallerOf(api(answers)), "")
    given = {"taskId": RUN, "inputResponses": {gate_id: said.model_dump()}}
    with pytest.raises(Exception, match=f"Run {RUN} still waits at gate {gate_id}"):
        await tasks.update(context(Heard(TAKES_TASKS)), task_methods.UpdateTaskParams.model_validate(given))


@pytest.mark.parametrize(("found", "told"), [("forbidden", "request_invalid"), ("gate_not_found", ""), ("denied", "")])
async def test_a_wrong_word_at_a_gate_that_is_settled_or_not_shown_says_no_more_than_is_known(
    found: str, told: str
) -> None:
    settled = gate(status="denied")
    gate_id = settled["gate_id"]
    gates: dict[str, Any] = {f"/v1/gates/{gate_id}": settled if found == "denied" else found}
    no = mcp_types.ElicitResult(action="accept", content={"verdict": "no"})
    asked = api({**gates, f"/v1/gates/{gate_id}/resolve": "request_invalid"})
    if told:
        with pytest.raises(ApiRefusalError, match=told):
            await gate_questions.decide(asked, gate_id, no)
    else:
        await gate_questions.decide(asked, gate_id, no)


async def test_a_right_word_that_is_refused_keeps_its_refusal() -> None:
    waits = gate(status="pending")
    refusing = {f"/v1/gates/{waits['gate_id']}": waits, f"/v1/gates/{waits['gate_id']}/resolve": "request_invalid"}
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await gate_questions.decide(api(refusing), waits["gate_id"], YES)


@pytest.mark.parametrize("seq", ["1e999", "-1e999", "NaN", '"x"', "null", "[]"])
async def test_a_state_without_a_number_is_none(seq: str) -> None:
    state = f'{{"run_id": "{RUN}", "seq": {seq}}}'
    refused = await called({}, "run_network", RUN_IT, request_state=state)
    assert refused.is_error and "requestState is not what this tool gave" in refused.content[0].text


@pytest.mark.parametrize("value", [f"{RUN}%2Fhistory", f"{RUN}/history", "", "1", 7, None, [], {}])
async def test_what_is_no_id_names_no_other_path(value: Any) -> None:
    asked: list[tuple[str, Any]] = []
    for tool, name in (("get_run", "run_id"), ("follow_run", "run_id"), ("decide_approval", "gate_id")):
        refused = await called({f"/v1/runs/{RUN}/history": {}}, tool, {name: value}, asked=asked)
        assert refused.is_error and f"{name} is missing, or no id" in refused.content[0].text
    assert not asked
    found = await called({f"/v1/runs/{RUN}": VIEW}, "get_run", {"run_id": RUN.upper()})
    assert found.structured_content == VIEW


async def test_a_run_that_is_followed_is_told_from_now_on_and_not_past_the_time() -> None:
    asked: list[tuple[str, Any]] = []
    heard = Heard(ASKS)
    entry = {"seq": 10, "event": {"type": "run_finished"}}
    events, run = f"/v1/runs/{RUN}/events", f"/v1/runs/{RUN}"
    answers = {events: page("completed", 10, (entry,)), run: ["unavailable", {**VIEW, "status": "completed"}]}
    await called(answers, "follow_run", {"run_id": RUN}, asked=asked, heard=heard)
    assert [query["after"] for path, query in asked if path == events] == ["9"] and heard.progress == [10]
    endless = {events: page("running", 10_000, (entry,)), run: {**VIEW, "status": "running"}}
    asked.clear()
    await called(endless, "follow_run", {"run_id": RUN, "wait_s": 0}, asked=asked)
    assert len([path for path, _ in asked if path == events]) == 1
    done = {events: page("completed", 9), run: {**VIEW, "status": "completed"}}
    assert not (await called(done, "follow_run", {"run_id": RUN, "wait_s": 10**400})).is_error


def a_call(name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}


class Served:
    """A gateway whose only tool, `slow`, ends when it is told to."""

    def __init__(self, **settings: Any) -> None:
        self.behind = door(**settings)
        self.stopping = self.behind._dependencies.stopping
        self.begun, self.end = asyncio.Event(), asyncio.Event()
        self.route = McpRoute(self.behind._app, self.behind._dependencies)
        self.route._server = self._server  # type: ignore[method-assign]
        self.behind._app.router.routes.insert(0, self.route)
        way = httpx2.ASGITransport(app=self.behind)
        headers = {"Authorization": f"Bearer {KEY}", "Accept": "application/json, text/event-stream"}
        self.client = httpx2.AsyncClient(transport=way, base_url="http://towpath", headers=headers)

    async def _server(self) -> Any:
        return Server("towpath", on_call_tool=self._call)

    async def _call(self, _context: Any, _params: Any) -> mcp_types.CallToolResult:
        self.begun.set()
        await self.end.wait()
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(text="run 7")])

    async def ask(self) -> httpx2.Response:
        return await self.client.post("/mcp", json=a_call("slow"))


async def test_a_client_without_a_key_reads_what_to_do() -> None:
    served = Served()
    way = httpx2.ASGITransport(app=served.behind)
    async with httpx2.AsyncClient(transport=way, base_url="http://towpath") as without_key:
        with pytest.raises(ExceptionGroup) as refused:
            async with Client(streamable_http_client("http://towpath/mcp", http_client=without_key)) as client:
                await client.list_tools()
        answer = await without_key.post("/mcp", json=a_call("slow"))
    assert refused.group_contains(MCPError, match="the request carries no key. Send a key: Authorization: Bearer KEY")
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/json")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    told = answer.json()
    assert (told["code"], told["error"]["code"], told["id"]) == ("unauthenticated", -32600, None)


@pytest.mark.parametrize(
    ("code", "rpc_code"), [("unauthenticated", -32600), ("overloaded", -32603), ("unavailable", -32603)]
)
def test_a_refusal_before_a_message_was_read_is_one_of_its_sender_or_of_the_platform(code: str, rpc_code: int) -> None:
    told = unread_message(problem(code, "why"))
    assert told["error"]["code"] == rpc_code and "why" in told["error"]["message"]


async def test_a_call_under_way_is_answered_by_a_gateway_that_ends_and_no_other_is_taken() -> None:
    served = Served()
    calls = [asyncio.create_task(served.ask()) for _ in range(2)]
    await asyncio.wait_for(served.begun.wait(), 5)
    served.stopping.set()
    for _ in range(20):
        await asyncio.sleep(0)
    late = await served.ask()
    assert (late.status_code, late.json()["code"], late.headers["retry-after"]) == (503, "unavailable", "2")
    served.end.set()
    for answer in await asyncio.wait_for(asyncio.gather(*calls), 5):
        assert answer.status_code == 200 and "run 7" in answer.text
    await asyncio.wait_for(cast("asyncio.Task[None]", served.route._serving), 5)


async def test_a_gateway_ends_though_a_call_does_not() -> None:
    served = Served(stop_grace_s=0.05)
    call = asyncio.create_task(served.ask())
    await asyncio.wait_for(served.begun.wait(), 5)
    served.stopping.set()
    await asyncio.wait_for(cast("asyncio.Task[None]", served.route._serving), 5)
    await asyncio.wait_for(asyncio.gather(call, return_exceptions=True), 5)


async def test_what_fails_to_begin_is_told_and_begun_again_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served()
    served.end.set()

    def broken(_self: Any) -> Any:
        raise OSError("no more threads")

    with monkeypatch.context() as patched:
        patched.setattr(StreamableHTTPSessionManager, "run", broken)
        with pytest.raises(OSError, match="no more threads"):
            await asyncio.wait_for(served.ask(), 5)
    assert (await asyncio.wait_for(served.ask(), 5)).status_code == 200
    served.stopping.set()
    await asyncio.wait_for(cast("asyncio.Task[None]", served.route._serving), 5)


@pytest.mark.parametrize(
    ("word", "detail", "told"),
    [
        ("yes", {}, "'yes' is no verdict here: approved, denied or edit."),
        ("approve", {}, "'approve' is no verdict here: approved, denied or edit; did you mean 'approved'? Run"),
        ("yes", {}, "Say one of those in detail with the tool decide_approval, as its verdict; in a terminal: "),
        ("yes", {"verdicts": ["happened", "retry"]}, "'yes' is no verdict here: happened or retry."),
    ],
)
async def test_the_tool_that_decides_says_the_words_of_its_gate_once(
    word: str, detail: dict[str, Any], told: str
) -> None:
    waits = gate(status="pending", detail=detail, **({"approval_id": None} if detail else {}))
    at = f"/v1/gates/{waits['gate_id']}"
    arguments = {"gate_id": waits["gate_id"], "verdict": word}
    refused = await called({at: waits, f"{at}/resolve": "request_invalid"}, "decide_approval", arguments)
    text = refused.content[0].text
    assert refused.is_error and text.count("is no verdict here") == 1 and told in text
    command = "resolve {} VERDICT --reason …" if detail else "approve {}"
    assert text.endswith(f"; in a terminal: towpath gates {command.format(waits['gate_id'])}."), (
        "the person may have one"
    )
    assert text.count("towpath gates") == 1
    closed = {at: {**waits, "status": "denied"}, f"{at}/resolve": "verdict_invalid"}
    settled = await called(closed, "decide_approval", arguments)
    assert settled.content[0].text.startswith("verdict_invalid: no"), "of a settled gate nothing is known that helps"


async def test_a_wrong_name_of_a_tool_is_answered_with_the_one_that_was_meant_or_all() -> None:
    networks = {"/v1/networks": {"networks": [{"name": "support", "digest": "d", "version": 1}]}}
    with pytest.raises(MCPError, match=r"there is no tool 'suport'; did you mean 'support'\?"):
        await called(networks, "suport", {})
    with pytest.raises(MCPError, match="there is no tool 'zzzz'; there are support, run_network, get_run, follow_run"):
        await called(networks, "zzzz", {})


def test_a_refusal_says_a_single_fault_once() -> None:
    fault = {"pointer": "/body/verdict", "detail": "it takes approved"}
    one: dict[str, Any] = {"code": "request_invalid", "detail": "/body/verdict: it takes approved", "errors": [fault]}
    told = results.refused_result({**one, "remedy": "Mend."}).model_dump()["content"][0]["text"]
    assert told == "request_invalid: /body/verdict: it takes approved\nMend."
    several = {**one, "detail": "2 problems", "errors": [fault, {"pointer": "/body/x", "detail": "no"}]}
    told = results.refused_result(several).model_dump()["content"][0]["text"]
    assert told == "request_invalid: 2 problems\n/body/verdict: it takes approved\n/body/x: no"


async def test_what_waits_and_where_it_is_decided_come_as_the_first_text() -> None:
    origins = [{"path": "amount", "from": "unknown"}]
    waits = gate(detail={"origins": origins, "args": {"amount": 1290}})
    answers = {**WAITING, "/v1/gates": {"gates": [waits]}}
    bare = Heard(mcp_types.ClientCapabilities())
    (text,) = (await called(answers, "run_network", RUN_IT, heard=bare)).content
    assert "waits: approval: large. Doubt: amount: not found in the task" in text.text
    assert f"`towpath gates approve {waits['gate_id']}`" in text.text

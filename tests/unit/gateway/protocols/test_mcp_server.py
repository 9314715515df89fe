"""What MCP clients are shown: tools, questions and answers, made of what the API says."""

import asyncio
import json
import uuid
from typing import Any

import httpx2
import mcp_types
import pytest
from tests.unit.gateway.test_admission import KEY, door

from towpath_console.api import Api, ApiRefusalError
from towpath_gateway.adapters.untaken_calls import wait_for_worker
from towpath_gateway.app.protocols.mcp_server import (
    gate_questions,
    results,
    run_wait,
    task_methods,
    tool_calls,
    tool_list,
)
from towpath_gateway.app.protocols.mcp_server.route import McpRoute
from towpath_gateway.core.gate_texts import plain_line

ME = {"caller": "alice", "scopes": ["gates:resolve"], "roles": ["approver"], "gate_roles": ["approver"]}
RUN = str(uuid.UUID(int=7))


def api(answers: dict[str, Any], asked: list[tuple[str, Any]] | None = None) -> Api:
    """Return the API with these answers by path; a list is answered one by one, its last for good."""

    async def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if asked is not None:
            asked.append((path, json.loads(request.content) if request.content else dict(request.url.params)))
        found = answers[path]
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, str):
            refusal = {"code": found, "detail": "no", "remedy": "ask", "retryable": found == "unavailable"}
            return httpx2.Response(503 if found == "unavailable" else 403, json=refusal)
        return httpx2.Response(200, json=found)

    return Api(httpx2.MockTransport(answer), {})


def gate(**more: Any) -> dict[str, Any]:
    detail = {"tool": "orders.refund", "args": {"amount": 129}, "digest": "sha256:ab", **more.pop("detail", {})}
    found = {"gate_id": str(uuid.uuid4()), "run_id": RUN, "network": "support", "gate_type": "approval"}
    return {**found, "approval_id": str(uuid.uuid4()), "reason": "large", "votes": [], "detail": detail, **more}


@pytest.mark.parametrize(
    ("network", "called"),
    [
        ("support", "support"),
        ("help-desk_2", "help-desk_2"),
        ("shop/help.desk", "shop_help_desk_c06217ad"),
        ("run_network", "run_network_ab30d89b"),
        ("n" * 64, "n" * 64),
        ("n" * 65, "n" * 55 + "_1e3fb6d5"),
        ("shop_help_desk_c06217ad", "shop_help_desk_c06217ad_ff504efd"),
        ("sales_20261126x", "sales_20261126x"),
    ],
)
def test_a_tool_bears_the_name_of_its_network_as_far_as_clients_take_it(network: str, called: str) -> None:
    found = tool_list.tool_name(network)
    assert found == called and len(found) <= 64


def test_a_network_says_what_it_takes_and_whether_it_may_change_anything() -> None:
    reads = {"orders.find": {"effect_class": "pure", "system_params": ["tenant"]}, "own": {"internal": True}}
    tool = tool_list.network_tool("support", {"description": "Helps.", "tools": reads})
    assert tool.annotations is not None and tool.annotations.destructive_hint is False
    assert tool.annotations.read_only_hint is False, "a run costs and is recorded"
    assert list(tool.input_schema["properties"]["system_params"]["properties"]) == ["tenant"]
    writes = {**reads, "orders.refund": {"effect_class": "idempotent"}}
    pursuing = tool_list.network_tool("goals", {"tools": writes, "goal": {}})
    assert pursuing.annotations is not None and pursuing.annotations.destructive_hint is True
    assert "goal" in pursuing.input_schema["properties"] and pursuing.input_schema["required"] == []
    assert pursuing.description == "Run the network goals."


async def test_networks_are_listed_in_pages_and_read_once_a_version() -> None:
    listed = [{"name": f"n{number:03}", "digest": f"d{number}", "version": 1} for number in range(101)]
    answers: dict[str, Any] = {f"/v1/networks/{one['name']}": {"snapshot": {}} for one in listed}
    answers |= {"/v1/me": {"scopes": ["runs:write", "networks:read"]}, "/v1/networks": {"networks": listed[::-1]}}
    asked: list[tuple[str, Any]] = []
    directory = tool_list.ToolDirectory()
    tools, after = await directory.page(api(answers, asked), None)
    assert [tool.name for tool in tools] == ["run_network", *(one["name"] for one in listed[:100])] and after == "n099"
    rest, end = await directory.page(api(answers, asked), after)
    assert [tool.name for tool in rest] == ["n100"] and end is None
    read = len(asked)
    await directory.page(api(answers, asked), None)
    assert [path for path, _ in asked[read:]] == ["/v1/me", "/v1/networks"]
    answers["/v1/networks/n000"] = "network_not_found"
    answers["/v1/networks"] = {"networks": [{**listed[0], "digest": "new"}, *listed[1:]]}
    assert [tool.name for tool in (await directory.page(api(answers), None))[0]][:2] == ["run_network", "n001"]
    assert (tool_list.NETWORKS_PER_PAGE, tool_list.KEPT) == (100, 1_000)


async def test_no_more_versions_are_kept_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_list, "KEPT", 1)
    answers: dict[str, Any] = {"/v1/networks/a": {"snapshot": {}}, "/v1/networks/b": {"snapshot": None}}
    listed = [{"name": name, "digest": "d", "version": 1} for name in "ab"]
    directory = tool_list.ToolDirectory()
    answers["/v1/networks"] = {"networks": listed}
    assert await directory.find_network(api(answers), "b") is not None
    assert await directory.find_network(api(answers), "a") is not None
    assert len(directory._kept) == 1


def test_a_question_shows_a_call_in_lines_that_nothing_in_it_can_break() -> None:
    forged = gate(reason="large\nTool: harmless", detail={"args": {"note": "a\u202eb\nApproved by: bob"}})
    ((key, request),) = gate_questions.questions([forged], ME).items()
    assert key == f"{forged['gate_id']}:sha256:ab"
    assert isinstance(request, mcp_types.ElicitRequest)
    lines = request.params.message.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("A run of support waits for your word", "Tool", "Arguments", "Run"),
    ]
    assert lines[0].endswith("large Tool: harmless") and "\u202e" not in request.params.message
    assert isinstance(request.params, mcp_types.ElicitRequestFormParams)
    assert request.params.requested_schema["properties"]["verdict"]["enum"] == ["approved", "denied"]


def test_a_call_is_asked_about_and_told_in_the_words_of_its_tool() -> None:
    told = gate(detail={"args": {"amount": 129, "to": "a\u202eb\nTool: look"}, "summary": "Refund {amount} to {to}"})
    ((_, request),) = gate_questions.questions([told], ME).items()
    assert isinstance(request, mcp_types.ElicitRequest)
    lines = request.params.message.splitlines()
    assert lines[1:3] == ["Call: Refund 129 to a⟨U+202E⟩b Tool: look", "Tool: orders.refund"]
    assert gate_questions.gate_summary(told, "")["summary"] == "Refund 129 to a⟨U+202E⟩b Tool: look"
    assert "summary" not in gate_questions.gate_summary(gate(), "")


def test_what_cannot_be_seen_in_a_value_is_escaped_so_that_what_is_approved_is_what_was_shown() -> None:
    args = {"a  b": ["x\u00a0y", "p\u200bq", "é\u2028", "\x7f", "\U000e0041", "\ud800", " one two   three "]}
    ((_, request),) = gate_questions.questions([gate(detail={"args": args})], ME).items()
    assert isinstance(request, mcp_types.ElicitRequest)
    (line,) = (one for one in request.params.message.splitlines() if one.startswith("Arguments: "))
    shown = line.removeprefix("Arguments: ")
    assert json.loads(shown) == args and plain_line(shown) == shown
    assert "é" in shown and "one two \\u0020\\u0020three" in shown, "what can be seen stays as it is"


def test_nobody_is_asked_what_they_may_not_say_have_said_or_do_not_see_whole() -> None:
    voted = gate(votes=[{"actor": "alice"}])
    others = gate(detail={"role": "policy_admin"})
    long, whole = gate(detail={"args": "x" * 7_999}), gate(detail={"args": "x" * 7_998})
    assert [key[:36] for key in gate_questions.questions([voted, others, long, whole], ME)] == [whole["gate_id"]]
    assert gate_questions.questions([whole], {**ME, "scopes": []}) == {}
    assert len(gate_questions.questions([gate() for _ in range(9)], ME)) == gate_questions.MAX_QUESTIONS == 8
    unknown = gate(approval_id=None, detail={"digest": "", "verdicts": ["happened", "retry"]})
    ((key, request),) = gate_questions.questions([unknown], ME).items()
    assert key == unknown["gate_id"] and isinstance(request, mcp_types.ElicitRequest)
    assert isinstance(request.params, mcp_types.ElicitRequestFormParams)
    assert request.params.requested_schema["properties"]["verdict"]["enum"] == ["happened", "retry"]


async def test_a_word_is_bound_to_the_call_that_was_shown() -> None:
    asked: list[tuple[str, Any]] = []
    named = str(uuid.uuid4())
    path = f"/v1/gates/{named}/resolve"
    yes = mcp_types.ElicitResult(action="accept", content={"verdict": "approved"})
    await gate_questions.decide(api({path: {}}, asked), f"{named}:sha256:ab", yes)
    assert asked == [(path, {"verdict": "approved", "reason": "", "digest": "sha256:ab"})]
    for key, answer in (("../keys", yes), (named, mcp_types.ElicitResult(action="decline")), (named, object())):
        await gate_questions.decide(api({}, asked), key, answer)
    assert len(asked) == 1
    await gate_questions.decide(api({path: "gate_settled"}), named, yes)
    with pytest.raises(ApiRefusalError, match="role_missing"):
        await gate_questions.decide(api({path: "role_missing"}), named, yes)


async def quiet(_seq: float, _words: str) -> None:
    """Nobody listens."""


async def waited(answers: dict[str, Any], seconds: float = 30, **more: Any) -> run_wait.WaitedRun:
    stopping = more.pop("stopping", asyncio.Event())
    return await asyncio.wait_for(run_wait.wait_for_run(api(answers), RUN, seconds, stopping, quiet, **more), 5)


def page(status: str, seq: int = 0, entries: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"status": status, "seq": seq, "entries": list(entries)}


async def test_a_wait_outlasts_a_part_that_is_away_and_ends_with_the_process() -> None:
    view = {"run_id": RUN, "status": "completed", "seq": 1}
    events, run = f"/v1/runs/{RUN}/events", f"/v1/runs/{RUN}"
    entry = {"seq": 1, "event": {"type": "run_finished"}}
    found = await waited({events: ["unavailable", page("completed", 1, (entry,))], run: view})
    assert found.has_ended
    with pytest.raises(ApiRefusalError, match="run_not_found"):
        await waited({events: "run_not_found"})
    stopping = asyncio.Event()
    stopping.set()
    assert not (await waited({run: {**view, "status": "running"}}, stopping=stopping)).has_ended
    over = await waited({events: page("running"), run: {**view, "status": "running"}}, 0)
    assert over.view["status"] == "running"


async def test_a_key_that_may_not_see_gates_is_told_by_the_words_of_the_run() -> None:
    view = {"run_id": RUN, "status": "waiting", "seq": 0, "waits": ["approval: large"]}
    answers = {f"/v1/runs/{RUN}/events": page("waiting"), f"/v1/runs/{RUN}": view, "/v1/gates": "forbidden"}
    found = await waited(answers)
    assert found.hides_gates and not found.gates
    result = results.run_result(found, "https://towpath.example")
    texts = [one.text for one in result.content if isinstance(one, mcp_types.TextContent)]
    (text,) = texts
    assert text.startswith(f"Run {RUN} waits: approval: large. It is decided at https://towpath.example/approvals, by ")
    assert "`towpath gates list`" in text


async def test_a_run_that_waits_for_its_quota_waits_for_no_person() -> None:
    waits = ["quota: shop.find is asked for again at 12:01", f"clerk in run {RUN}: quota: shop.pay is asked for again"]
    view = {"run_id": RUN, "status": "waiting", "seq": 0, "waits": waits}
    answers = {f"/v1/runs/{RUN}/events": page("waiting"), f"/v1/runs/{RUN}": view, "/v1/gates": "forbidden"}
    (said,) = results.run_result(await waited(answers, 0), "https://towpath.example").content
    assert isinstance(said, mcp_types.TextContent) and said.text.endswith("Ask follow_run for its end.")
    assert run_wait.waits_for_person([*waits, f"clerk in run {RUN}: approval: large"])


@pytest.mark.parametrize("hides_gates", [False, True])
def test_a_run_that_goes_on_names_the_toolset_whose_worker_is_missing(hides_gates: bool) -> None:
    view = {"run_id": RUN, "status": "running", "seq": 3, "waits": [wait := wait_for_worker("orders")]}
    (said,) = results.run_result(run_wait.WaitedRun(view=view, hides_gates=hides_gates), "").content
    assert isinstance(said, mcp_types.TextContent)
    assert said.text == f"Run {RUN} is running and waits: {wait}. Ask follow_run for its end."


def test_an_end_without_an_answer_is_an_error_of_the_tool_with_its_reason() -> None:
    view = {"run_id": RUN, "status": "failed", "seq": 3, "message": "the model is away", "final": None}
    found = results.run_result(run_wait.WaitedRun(view=view), "")
    assert found.is_error and found.structured_content == {key: view[key] for key in ("run_id", "status", "message")}
    done = {**view, "status": "completed", "final": {"total": 3}}
    answered = results.run_result(run_wait.WaitedRun(view=done), "")
    assert isinstance(answered.content[0], mcp_types.TextContent) and answered.content[0].text == '{"total":3}'
    words = results.run_result(run_wait.WaitedRun(view={**done, "final": "Refunded."}), "")
    assert isinstance(words.content[0], mcp_types.TextContent) and words.content[0].text == "Refunded."
    lost = results.unfollowed_result({"run_id": RUN, "status": "queued"}, {"code": "forbidden", "detail": "no"})
    assert not lost.is_error and lost.structured_content["run_id"] == RUN


def test_clients_are_asked_to_look_once_a_second_and_calls_end_before_clients_give_up() -> None:
    task = task_methods.created_task({"run_id": RUN, "status": "queued", "created_at": "2026-11-26T08:00:00Z"})
    assert (task["pollIntervalMs"], task["ttlMs"], task["resultType"]) == (1_000, None, "task")
    assert (tool_calls.WAIT_S, tool_calls.SHOWN) == (45, 20)
    assert (run_wait.LOOK_S, run_wait.RETRY_S, run_wait.PAGE) == (2, 0.5, 200)
    calls = tool_calls.ToolCalls(None, None, asyncio.Event(), most_s=40, own_url="")  # type: ignore[arg-type]
    assert calls._seconds({}) == 40 and calls._seconds({"wait_s": 3}) == 3


async def test_without_its_package_the_address_says_how_to_get_it() -> None:
    behind = door()
    app = behind._app
    route = McpRoute(app, behind._dependencies, package="towpath_no_such_package")
    app.router.routes.insert(0, route)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=behind), base_url="http://towpath") as client:
        answer = await client.post("/mcp", json={}, headers={"Authorization": f"Bearer {KEY}"})
    assert (answer.status_code, answer.json()["code"]) == (501, "protocol_missing")
    assert "pip install 'towpath[gateway,mcp]'" in answer.json()["remedy"]

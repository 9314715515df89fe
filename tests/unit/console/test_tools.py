"""Pages of tools: what is declared is text, who holds calls is told, and every action names the version it is about."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from towpath_console.api import Api, ApiRefusalError
from towpath_console.page import Asked, Page
from towpath_console.pages.tool import arguments_of, decide_proposal, switch, tool
from towpath_console.pages.tool_trial import sample_of, try_call
from towpath_console.pages.tools import tools
from towpath_console.renderer import Renderer
from towpath_contracts.tools.calls import ToolSpec

AROUND = {"section": "/tools", "url": "/", "query": {}, "live": "/console/live?page=%2F", "message": ""}
HOSTILE = '"><script>alert(1)</script>\u202e'
Json = dict[str, Any]


def spec(name: str = "orders.refund", **more: Any) -> Json:
    schema = {
        "type": "object",
        "required": ["amount"],
        "properties": {
            "amount": {"type": "number", "exclusiveMinimum": 0, "description": HOSTILE},
            "to": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "", "enum": ["a", HOSTILE]},
            "odd": True,
        },
    }
    return ToolSpec(
        name=name, toolset="shop", description=HOSTILE, parameters=schema, sinks=("to.name",), **more
    ).model_dump(mode="json")


class RecordedApi(Api):
    """Answers as the API would to who may see all, or nothing but tools."""

    def __init__(self, described: Json, switches: list[Json] | None = None, *, limited: bool = False) -> None:
        self.described = {"versions": {}, "held": {}, "proposals": [], "doubts": {}, "owners": {}, **described}
        self.switches = switches or []
        self.limited = limited
        self.sent: list[tuple[str, Json]] = []

    async def get(self, path: str, **params: str | int | None) -> Json:
        if path == "/v1/tools":
            return self.described
        if path == "/v1/networks/team/shop":
            agents = {"a": {"equipped_tools": ["orders.refund"]}, "b": {"equipped_tools": []}}
            return {"snapshot": {"agents": agents}}
        if self.limited:
            raise ApiRefusalError(403, {"code": "scope_missing"})
        if path == "/v1/networks":
            return {"networks": [{"name": "team/shop"}]}
        if path == "/v1/switches":
            return {"switches": self.switches}
        counts = dict.fromkeys(("denied", "gated", "succeeded", "failed", "unknown"), 0)
        row = {"key": {"tool": "orders.refund"}, "allowed": 1234, **counts, "success_rate": 0.5, "denial_rate": None}
        return {"since": "2026-11-25T14:00:00Z", "complete": True, "rows": [row]}

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        self.sent.append((path, dict(body or {})))
        return {"run_id": "r1", "changed": True, "stopping": 2, "detail": ""}


def asked(api: Api, query: Mapping[str, str] | None = None, **path: str) -> Asked:
    return Asked(api, path, query or {}, "/tools")


def drawn(page: Page) -> str:
    json.dumps(page.data)  # its twin
    html = Renderer().whole(page, **AROUND)
    assert "<script>alert" not in html and "\u202e" not in html
    return html


def paused(kind: str, name: str) -> Json:
    return {"kind": kind, "name": name, "reason": HOSTILE, "paused_by": "ann", "paused_at": "2026-11-26T14:00:00Z"}


def proposal(proposed: Json, **more: Any) -> Json:
    return {
        "spec": proposed, "version": 2, "status": "pending", "reason": HOSTILE, "owner": "o", "worker": HOSTILE,
        "held": True, "proposed_at": "2026-11-26T14:00:00Z", **more,
    }  # fmt: skip


async def test_a_tool_is_drawn_with_what_it_declares_and_how_its_calls_ended() -> None:
    api = RecordedApi({"tools": [spec()], "versions": {"orders.refund": 7}, "owners": {"orders.refund": "finance"}})
    html = drawn(await tool(asked(api, tool="orders.refund")))
    for words in ("irreversible", "1,234", "50 % of what ran succeeded", "finance", "to.name", "more than 0", "Python"):
        assert words in html, words


async def test_who_may_not_read_the_audit_sees_no_figure_and_is_told_who_may() -> None:
    api = RecordedApi({"tools": [spec()]}, limited=True)
    for page in (await tool(asked(api, tool="orders.refund")), await tools(asked(api))):
        html = drawn(page)
        assert "audit:read" in html and "1,234" not in html


async def test_a_tool_that_has_changed_shows_what_and_who_may_accept_it() -> None:
    changed = spec(discovered=True, definition="sha256:b") | {"description": "Sends a copy."}
    accepted = spec(discovered=True, definition="sha256:a")
    api = RecordedApi({"tools": [accepted], "held": {"orders.refund": 2}, "proposals": [proposal(changed)]})
    html = drawn(await tool(asked(api, tool="orders.refund")))
    assert "Its server offers something else now" in html and "Sends a copy." in html and "sha256:b" in html
    assert "MCP server" in html and 'name="version" value="2"' in html
    listed = drawn(await tools(asked(api)))
    assert "held" in listed and "holds calls" in listed


async def test_a_tool_that_nobody_has_accepted_has_a_page_too() -> None:
    api = RecordedApi({"tools": [], "proposals": [proposal(spec(), held=False)]})
    html = drawn(await tool(asked(api, tool="orders.refund")))
    assert "none accepted" in html and "Accept" in html and "Switch off" not in html
    with pytest.raises(ApiRefusalError, match="not_found"):
        await tool(asked(RecordedApi({"tools": []}), tool="orders.refund"))


async def test_a_switch_that_holds_a_tool_by_a_pattern_is_lifted_by_its_own_name() -> None:
    api = RecordedApi({"tools": [spec()]}, [paused("tool", "orders.*"), paused("tool", "crm.*")])
    html = drawn(await tool(asked(api, tool="orders.refund")))
    assert 'name="switch" value="orders.*"' in html and "crm.*" not in html
    form = {"reason": "back", "switch": "orders.*"}
    await switch(asked(api, tool="orders.refund", verb="resume"), form)
    await switch(asked(api, tool="orders.refund", verb="pause"), {"reason": "down", "stop": "yes"})
    assert api.sent == [
        ("/v1/switches/resume", {"kind": "tool", "name": "orders.*", "reason": "back"}),
        ("/v1/switches/pause", {"kind": "tool", "name": "orders.refund", "reason": "down", "stop_running": True}),
    ]
    with pytest.raises(ApiRefusalError, match="not_found"):
        await switch(asked(api, tool="orders.refund", verb="erase"), {})


async def test_a_verdict_names_the_version_that_was_looked_at() -> None:
    api = RecordedApi({"tools": [spec()]})
    for verb in ("accept", "decline", "withdraw"):
        await decide_proposal(asked(api, tool="orders.refund", verb=verb), {"version": "2", "reason": "r"})
    path = "/v1/tools/orders.refund/proposal"
    assert api.sent == [
        (path, {"version": 2, "accept": True, "reason": "r"}),
        (path, {"version": 2, "accept": False, "reason": "r"}),
        (path, {"version": 2, "accept": False, "reason": "r", "withdraw": True}),
    ]


async def test_filters_are_by_words_effect_toolset_source_and_state() -> None:
    found = [spec(), spec("orders.find", effect_class="pure"), spec("plan_read", internal=True)]
    api = RecordedApi({"tools": found}, [paused("tool", "orders.refund")])

    async def names(**query: str) -> list[str]:
        return [row["tool"]["name"] for row in (await tools(asked(api, query))).view["rows"]]

    assert await names() == ["orders.refund", "orders.find"]
    assert await names(effect="pure") == await names(q="FIND") == await names(state="on") == ["orders.find"]
    assert await names(state="off") == ["orders.refund"] and await names(source="platform") == ["plan_read"]
    assert await names(toolset="nothing") == []
    empty = drawn(await tools(asked(api, {"toolset": "nothing"})))
    assert "No tool matches these filters." in empty and "nothing" in empty


async def test_a_call_is_tried_as_a_run_of_one_instruction_by_an_agent_that_has_the_tool() -> None:
    api = RecordedApi({"tools": [spec()]})
    html = drawn(await tool(asked(api, {"network": "team/shop"}, tool="orders.refund")))
    assert "<option>a</option>" in html and "<option>b</option>" not in html and "This is a real call" in html
    form = {"network": "team/shop", "agent": "a", "arguments": '{"amount": 3}', "confirmed": "yes"}
    with pytest.raises(ApiRefusalError, match="changes something"):
        await try_call(asked(api, tool="orders.refund"), form | {"confirmed": ""})
    assert api.sent == []
    assert (await try_call(asked(api, tool="orders.refund"), form)).location == "/runs/r1"
    ((path, task),) = api.sent
    assert path == "/v1/runs" and task["single_instruction"] and task["agent_key"] == "a"
    assert task["script"][0]["action_details"] == {"tool_name": "orders.refund", "tool_params": {"amount": 3}}
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await try_call(asked(api, tool="orders.refund"), form | {"arguments": "{nonsense"})
    assert json.loads(sample_of(spec())) == {"amount": 0} and sample_of(spec(system_params=("amount",))) == "{}"
    assert sample_of({"name": "x"}) == "{}"
    kinds = {name: {"type": name} for name in ("integer", "boolean", "string", "array", "object")}
    empty = json.loads(sample_of({"parameters": {"properties": kinds, "required": [*kinds]}}))
    assert empty == {"integer": 0, "boolean": False, "string": "", "array": [], "object": {}}
    assert empty["integer"] is not False and empty["boolean"] is False


def test_an_odd_schema_is_shown_as_far_as_it_goes() -> None:
    shown = {one["name"]: one for one in arguments_of(spec())}
    assert shown["amount"]["marks"] == ["required"] and shown["amount"]["notes"] == ["more than 0"]
    assert shown["to"]["type"] == "string or null" and shown["to"]["marks"] == ["destination"]
    assert shown["odd"]["type"] == "any"
    assert arguments_of({}) == []

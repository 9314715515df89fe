"""What a caller sends again and what it may be asked for: results, calls by its tools alone, bounds of both."""

import json
import time
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import RunCreated
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.problems.input_faults import MAX_LISTED
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import RunView
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_gateway.app.protocols.ag_ui.agent_input import MAX_MESSAGES, RunAgentInput
from towpath_gateway.app.protocols.openai import model_runs
from towpath_gateway.app.protocols.openai.caller_tools import MAX_CALLS, answer_schema, calls_in, names_offered
from towpath_gateway.app.protocols.openai.chat_requests import ChatRequest
from towpath_gateway.app.protocols.openai.conversation_items import MAX_ITEMS, ConversationItem, task_fields
from towpath_gateway.app.protocols.openai.model_answers import chat_completion, response_object
from towpath_gateway.app.protocols.openai.response_requests import ResponseRequest

RUN = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bccc")
HELLO = {"role": "user", "content": "hello"}
TOOL = {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}
OFFERED = {"type": "function", "function": TOOL}
EVIL = {"tool_calls": [{"name": "rm_rf", "arguments": {}}]}


def chat(messages: Any = (HELLO,), **more: Any) -> SubmitTask:
    return ChatRequest.model_validate({"model": "support", "messages": messages, **more}).task()


def response(given: Any = "hello", **more: Any) -> SubmitTask:
    return ResponseRequest.model_validate({"model": "support", "input": given, **more}).task()


def ag_ui(messages: list[dict[str, Any]], **more: Any) -> SubmitTask:
    given = {"threadId": "t", "runId": "r", "messages": messages, **more}
    return RunAgentInput.model_validate(given).task("support")


def pointers(refused: pytest.ExceptionInfo[ProblemError]) -> list[str]:
    return [one.pointer for one in refused.value.problem.errors]


def results(count: int) -> list[ConversationItem]:
    asked = ConversationItem(kind="user", text="do it", pointer="/messages/0")
    return [
        asked,
        *(
            ConversationItem(kind="result", text="x", pointer=f"/messages/{n}", call_id=str(n))
            for n in range(1, count + 1)
        ),
    ]


def test_more_results_than_a_task_quotes_are_refused_before_any_work() -> None:
    fields, faults = task_fields(results(MAX_CALLS), continues=False)
    assert len(fields["quoted_inputs"]) == 32 and not faults
    for continues in (False, True):
        begun = time.perf_counter()
        _, faults = task_fields(results(10_000), continues=continues)
        assert [one.pointer for one in faults if "quotes 32 results" in one.detail] == ["/body/messages/33"]
        assert time.perf_counter() - begun < 2, "comparing each with each takes a minute"


def test_a_conversation_has_its_bounds() -> None:
    assert (MAX_ITEMS, MAX_MESSAGES) == (464, 4_096)
    thought = {"id": "1", "role": "reasoning", "content": "hm"}
    assert ag_ui([thought] * (MAX_MESSAGES - 1) + [{"id": "2", **HELLO}]).user_message == "hello"
    silent = {"role": "assistant", "content": ""}
    assert chat([silent] * (MAX_ITEMS - 1) + [HELLO]) == chat()
    for send in (
        lambda: chat([silent] * MAX_ITEMS + [HELLO]),
        lambda: response([silent] * MAX_ITEMS + [HELLO]),
        lambda: ag_ui([thought] * MAX_MESSAGES + [{"id": "2", **HELLO}]),
    ):
        with pytest.raises(ValidationError) as refused:
            send()
        assert "too_long" in {one["type"] for one in refused.value.errors()}
    assert response([{**silent, "content": "a"}] + [silent] * (MAX_ITEMS - 2) + [HELLO]).user_message == "hello"


def test_what_is_new_is_said_whole_whether_the_user_or_a_result_is_last() -> None:
    given = [HELLO, {"type": "function_call_output", "call_id": "c", "output": "BLUE"}]
    for items in (given, given[::-1]):
        task = response(items, previous_response_id=f"resp_{RUN.hex}")
        assert task.user_message.endswith("quotes what it returned as result_1.\n\nhello")
        assert task.quoted_inputs == {"result_1": "BLUE"} and not task.messages


def test_faults_stand_where_the_client_finds_them_and_the_first_are_listed() -> None:
    image = {"type": "input_image", "image_url": "https://elsewhere.example"}
    call = {"type": "function_call", "call_id": "c", "name": "f"}
    with pytest.raises(ProblemError) as refused:
        response([HELLO, call, call, {"role": "user", "content": [image]}])
    assert pointers(refused) == ["/body/input/3/content/0/image_url"]
    with pytest.raises(ProblemError) as unanswered:
        response([HELLO, call, HELLO, call, call])
    assert pointers(unanswered) == ["/body/input/3"]
    many = {"role": "user", "content": [image] * (MAX_LISTED + 1)}
    parts = [{"type": "image", "source": {"type": "file", "value": "f"}}] * (MAX_LISTED + 1)
    for send in (lambda: response([many]), lambda: ag_ui([{"id": "1", "role": "user", "content": parts}])):
        with pytest.raises(ProblemError) as told:
            send()
        assert len(told.value.problem.errors) == MAX_LISTED and "101 problems, 1 of" in told.value.problem.detail


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_no_tokens_are_no_limit_that_is_passed_over(name: str) -> None:
    with pytest.raises(ValidationError):
        chat(**{name: 0})
    settings = chat(**{name: 1}).model_settings
    assert settings is not None and settings.max_output_tokens == 1


@pytest.mark.parametrize("reference", ["#anchor", "https://elsewhere.example/schema", "other"])
def test_a_reference_that_would_mean_something_else_is_refused(reference: str) -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": reference}]}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    for more in (
        {"tools": [{**OFFERED, "function": {**TOOL, "parameters": schema}}]},
        {"tools": [OFFERED], "response_format": wanted},
    ):
        with pytest.raises(ProblemError) as refused:
            chat(**more)
        assert pointers(refused) == ["/body/tools"] and reference in refused.value.problem.errors[0].detail


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": False, "properties": {"tool_calls": {}}},
        {"$ref": "#/$defs/any", "$defs": {"any": {"type": "object"}}},
    ],
)
def test_an_answer_of_another_form_is_never_taken_for_calls(wanted: dict[str, Any]) -> None:
    assert schema_faults(wanted, EVIL) == ()
    schema = answer_schema([TOOL], wanted)
    assert schema_faults(schema, EVIL)
    assert schema_faults(schema, {}) == ()
    asked = {"tool_calls": [{"name": "f", "arguments": {}}]}
    assert schema_faults(schema, asked) == () and calls_in(asked, names_offered(schema)) == asked["tool_calls"]


def test_only_functions_that_were_offered_are_handed_out() -> None:
    other = {**TOOL, "name": "g"}
    assert names_offered(chat(tools=[OFFERED, {**OFFERED, "function": other}]).response_schema) == {"f", "g"}
    chosen = {"type": "function", "function": {"name": "g"}}
    only = chat(tools=[OFFERED, {**OFFERED, "function": other}], tool_choice=chosen)
    assert names_offered(only.response_schema) == {"g"}
    for task in (chat(), chat(response_format={"type": "json_object"}), chat(tools=[OFFERED], tool_choice="none")):
        offered = names_offered(task.response_schema)
        assert not offered
        told = chat_completion(view(final=EVIL), offered)["choices"][0]
        assert (told["finish_reason"], told["message"]["content"]) == (
            "stop",
            '{"tool_calls":[{"arguments":{},"name":"rm_rf"}]}',
        )
        assert response_object(view(final=EVIL), {}, offered)["output"][0]["type"] == "message"
    assert calls_in({"tool_calls": [{"name": ["f"], "arguments": {}}]}, {"f"}) == []


def test_a_schema_of_somebody_else_offers_nothing_whatever_it_looks_like() -> None:
    ours = answer_schema([TOOL], None)
    assert names_offered(ours) == {"f"} and names_offered({**ours, "description": "mine"}) == frozenset()
    described = {"description": ours["description"]}
    for broken in ({}, {"anyOf": []}, {"anyOf": [1]}, {"properties": {"tool_calls": {"items": {"anyOf": [1, {}]}}}}):
        assert names_offered({**described, **broken}) == frozenset()


def view(**more: Any) -> RunView:
    now = datetime(2026, 11, 26, tzinfo=UTC)
    fields = {"kind": "network", "network": "support", "version": 1, "snapshot_digest": "", "seq": 1, "caller": "a"}
    begun = {"run_id": RUN, "project": "p", "status": "completed", "created_at": now}
    return RunView.model_validate(begun | fields | more)


async def read_later(final: Any, schema: dict[str, Any] | None) -> list[str]:
    """Return the kinds of items that a response has which is looked at later."""
    created = RunCreated.model_construct(response_schema=schema)
    begin = SimpleNamespace(event=created)

    class Readings:
        async def page(self, project: str, run_id: uuid.UUID, after: int, limit: int) -> EventPage:
            assert (project, run_id, after, limit) == ("p", RUN, 0, 1)
            return EventPage.model_construct(entries=(begin,))

    class Platform:
        async def run(self, *_: Any) -> RunView:
            return view(final=final)

        async def with_untaken_calls(self, found: RunView) -> RunView:
            return found

    dependencies: Any = SimpleNamespace(platform=Platform(), readings=Readings())
    principal: Any = SimpleNamespace(project="p")
    answer = await model_runs.get_response(f"resp_{RUN.hex}", dependencies, principal)
    return [item["type"] for item in json.loads(answer.body)["output"]]


async def test_a_response_that_is_looked_at_later_asks_for_what_its_task_offered() -> None:
    asked = {"tool_calls": [{"name": "f", "arguments": {}}]}
    assert await read_later(asked, answer_schema([TOOL], None)) == ["function_call"]
    assert await read_later(asked, None) == await read_later(EVIL, {"type": "object"}) == ["message"]
    assert await read_later(EVIL, answer_schema([TOOL], None)) == ["message"]


async def test_what_goes_wrong_with_a_background_response_names_its_run() -> None:
    class Platform:
        async def submit(self, *_: Any) -> RunAccepted:
            now = datetime.now(UTC)
            return RunAccepted(run_id=RUN, project="p", network="n", version=1, status="queued", created_at=now)

        async def run(self, *_: Any) -> None:
            raise ProblemError(problem("unavailable", "nobody answers"))

    dependencies: Any = SimpleNamespace(platform=Platform())
    principal: Any = SimpleNamespace(caller="c", project="p")
    asked = ResponseRequest.model_validate({"model": "support", "input": "hello", "background": True})
    with pytest.raises(ProblemError) as refused:
        await model_runs.create_response(asked, dependencies, principal, None)
    assert (refused.value.problem.code, refused.value.problem.run_id) == ("unavailable", str(RUN))

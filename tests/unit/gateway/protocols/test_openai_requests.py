"""Requests of OpenAI's clients as tasks: conversations, tools of the caller, and what is refused."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from towpath_contracts.decisions.request import Usage
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.runs.views import RunView
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.protocols.openai.caller_tools import MAX_CALLS, answer_schema, calls_in
from towpath_gateway.app.protocols.openai.chat_requests import ChatRequest
from towpath_gateway.app.protocols.openai.model_answers import chat_completion, response_object
from towpath_gateway.app.protocols.openai.request_fields import TowpathOptions
from towpath_gateway.app.protocols.openai.response_requests import ResponseRequest
from towpath_gateway.core.openai_errors import is_openai, openai_error, retry_header

RUN = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bccc")
PNG = "data:image/png;base64,aGVsbG8="
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {
    "name": "f",
    "description": "Does it.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


def chat(messages: Any = HELLO, **more: Any) -> SubmitTask:
    return ChatRequest.model_validate({"model": "support", "messages": messages, **more}).task()


def response(given: Any = "hello", **more: Any) -> SubmitTask:
    return ResponseRequest.model_validate({"model": "support", "input": given, **more}).task()


def faults(error: ProblemError) -> list[str]:
    return [one.pointer for one in error.problem.errors]


def view(**more: Any) -> RunView:
    now = datetime(2026, 11, 26, tzinfo=UTC)
    fields = {"kind": "network", "network": "support", "version": 1, "snapshot_digest": "", "seq": 1, "caller": "a"}
    return RunView.model_validate(
        {"run_id": RUN, "project": "p", "status": "completed", "created_at": now} | fields | more
    )


def test_parts_of_a_message_are_its_text_and_its_files() -> None:
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG}}]
    content.append({"type": "file", "file": {"file_data": "data:application/pdf;base64,aGVsbG8=", "filename": "a.pdf"}})
    task = chat([{"role": "user", "content": content}])
    assert task.user_message == "look"
    assert [(one.name, one.media_type) for one in task.attachments] == [
        *(("image-2", "image/png"), ("a.pdf", "application/pdf"))
    ]
    parts = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": PNG}]
    assert response([{"role": "user", "content": parts}]).attachments == (
        task.attachments[0].model_copy(update={"name": "image-2"}),
    )
    with pytest.raises(ProblemError) as refused:
        chat([{"role": "system", "content": content}, *HELLO])
    assert faults(refused.value) == ["/body/messages/0/content"]


def test_the_last_message_is_the_users_or_a_result() -> None:
    for given in ([{"role": "system", "content": "x"}], [*HELLO, {"role": "assistant", "content": "y"}]):
        with pytest.raises(ProblemError) as refused:
            chat(given)
        assert "one of the user" in refused.value.problem.errors[0].detail


def test_an_answer_that_has_nothing_in_it_is_no_turn() -> None:
    task = chat([*HELLO, {"role": "assistant", "content": ""}, *HELLO])
    assert [one.role for one in task.messages] == ["user"]


def test_calls_of_one_answer_are_one_turn_and_results_are_quoted_in_their_order() -> None:
    items = [
        {"role": "user", "content": "do it"},
        {"type": "function_call", "call_id": f"call_1_{RUN.hex}", "name": "f", "arguments": '{"n": 1}'},
        {"type": "function_call", "call_id": "theirs", "name": "f", "arguments": "no json"},
        {"type": "function_call_output", "call_id": f"call_1_{RUN.hex}", "output": "ONE"},
        {"type": "function_call_output", "call_id": "theirs", "output": [{"type": "input_text", "text": "TWO"}]},
        {"role": "user", "content": "and?"},
    ]
    task = response(items, instructions="Be short.")
    assert task.quoted_inputs == {"result_1": "ONE", "result_2": "TWO"}
    assert [one.content for one in task.messages] == [
        "Instructions of the program that asks:\nBe short.",
        "do it",
        '{"tool_calls":[{"arguments":{"n":1},"name":"f"},{"arguments":"no json","name":"f"}]}',
    ]
    first, second, asked = task.user_message.split("\n\n")
    assert first.startswith("The caller has carried out f, call 1 of the answer that asked for it,")
    assert second.startswith("The caller has carried out f, a call that you asked for,") and asked == "and?"


def test_what_continues_a_response_says_only_what_is_new() -> None:
    before = {"previous_response_id": f"resp_{RUN.hex}"}
    task = response("and now?", instructions="Be short.", **before)
    assert task.continues == RUN and not task.messages
    assert task.user_message == "Instructions of the program that asks:\nBe short.\n\nand now?"
    turns = [{"role": "assistant", "content": "a"}, *HELLO, *HELLO]
    with pytest.raises(ProblemError) as refused:
        response(turns, **before)
    assert faults(refused.value) == ["/body/input/2", "/body/input/0"]
    with pytest.raises(ProblemError) as unknown:
        response(previous_response_id="resp_1")
    assert faults(unknown.value) == ["/body/previous_response_id"]


def test_settings_of_the_answer_are_those_of_the_task() -> None:
    said = {"temperature": 0, "top_p": 0.5, "max_tokens": 9, "seed": 7, "stop": "END", "reasoning_effort": "low"}
    settings = chat(**said).model_settings
    assert settings is not None and settings.model_dump() == {
        "temperature": 0,
        "top_p": 0.5,
        "max_output_tokens": 9,
        "seed": 7,
        "stop": ("END",),
        "reasoning_effort": "low",
    }
    asked = response(max_output_tokens=9, reasoning={"effort": "low"}).model_settings
    assert asked is not None and (asked.max_output_tokens, asked.reasoning_effort) == (9, "low")
    assert chat(user="u", metadata={"a": "b"}).labels == {"a": "b"}


@pytest.mark.parametrize(
    ("name", "neutral", "refused"),
    [
        ("n", 1, 2),
        ("n", None, True),
        ("logprobs", False, True),
        ("top_logprobs", 0, 5),
        ("logit_bias", {}, {"50256": -100}),
        ("presence_penalty", 0, 0.1),
        ("frequency_penalty", 0.0, 1),
        ("modalities", ["text"], ["text", "audio"]),
        ("audio", None, {"voice": "alloy"}),
        ("prediction", None, {"type": "content"}),
        ("web_search_options", None, {}),
        ("functions", [], [{"name": "f"}]),
        ("function_call", "none", "auto"),
        ("verbosity", "medium", "low"),
        ("store", True, False),
        ("service_tier", "auto", "flex"),
    ],
)
def test_a_parameter_that_would_mislead_is_refused_but_for_its_neutral_value(
    name: str, neutral: Any, refused: Any
) -> None:
    assert chat(**{name: neutral}) == chat()
    with pytest.raises(ValidationError) as error:
        chat(**{name: refused})
    (found,) = error.value.errors()
    assert found["loc"] == (name,)


@pytest.mark.parametrize(
    ("name", "neutral", "refused"),
    [
        ("include", ["reasoning.encrypted_content"], ["message.output_text.logprobs"]),
        ("conversation", None, "conv_1"),
        ("prompt", None, {"id": "pmpt_1"}),
        ("max_tool_calls", None, 3),
        ("tools", [], [{"type": "web_search"}]),
        ("text", {"verbosity": "medium"}, {"verbosity": "high"}),
    ],
)
def test_so_it_is_in_responses(name: str, neutral: Any, refused: Any) -> None:
    assert response(**{name: neutral}) == response()
    with pytest.raises(ValidationError):
        response(**{name: refused})


def test_what_a_task_refuses_is_told_at_its_place_in_the_request() -> None:
    with pytest.raises(ProblemError) as refused:
        chat([{"role": "user", "content": ""}], tools=[{"type": "function", "function": TOOL}] * 2, tool_choice="auto")
    assert faults(refused.value) == ["/body/tools"]
    long = "x" * 100_001
    with pytest.raises(ProblemError) as error:
        chat([{"role": "user", "content": long}, *HELLO])
    assert faults(error.value) == ["/body/messages/0/content"]
    with pytest.raises(ProblemError) as wrong:
        response(tools=[{"type": "function", **TOOL}], tool_choice={"type": "function", "name": "g"})
    assert faults(wrong.value) == ["/body/tool_choice"]


def asked_for(*names: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": {"n": 1}} for name in names]}


def test_an_answer_is_a_message_or_calls_of_the_callers_tools() -> None:
    other = {"name": "g", "description": "", "parameters": {"type": "object"}}
    schema = answer_schema([TOOL, other], None)
    for right in ({"message": "m"}, asked_for("f", "g"), asked_for(*["g"] * MAX_CALLS)):
        assert schema_faults(schema, right) == ()
    for wrong in ({"message": 1}, asked_for("h"), asked_for(), asked_for(*["g"] * (MAX_CALLS + 1)), {"x": 1}):
        assert schema_faults(schema, wrong)
    assert schema_faults(schema, {"tool_calls": [{"name": "f", "arguments": {"n": "1"}}]})
    assert MAX_CALLS == 32, "as many results as a task may quote"
    must = answer_schema([TOOL, other], None, must=True, only="g", one=True)
    assert schema_faults(must, asked_for("g")) == ()
    for wrong in ({"message": "m"}, asked_for("f"), asked_for("g", "g")):
        assert schema_faults(must, wrong)


def test_schemas_that_refer_to_themselves_stay_whole() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#"}, "n": {"$ref": "#/$defs/n"}}}
    tree |= {"$defs": {"n": {"type": "integer"}}, "additionalProperties": False}
    schema = answer_schema([{"name": "f", "description": "", "parameters": tree}], tree)
    deep = {"below": {"below": {"n": 1}}}
    assert (
        schema_faults(schema, deep) == () == schema_faults(schema, {"tool_calls": [{"name": "f", "arguments": deep}]})
    )
    assert schema_faults(schema, {"below": {"n": "1"}})


def test_tools_that_may_not_be_asked_for_change_nothing() -> None:
    tools = [{"type": "function", "function": TOOL}]
    assert chat(tools=tools, tool_choice="none").response_schema is None
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "required": ["a"]}}}
    assert chat(response_format=wanted).response_schema == {"type": "object", "required": ["a"]}
    both = chat(response_format=wanted, tools=tools).response_schema
    assert both is not None and schema_faults(both, {"a": 1}) == () == schema_faults(both, asked_for("f"))
    assert chat(response_format={"type": "text"}).response_schema is None
    assert response(text={"format": {"type": "json_object"}}).response_schema == {"type": "object"}


@pytest.mark.parametrize(
    "final", [None, {"message": "m"}, {"tool_calls": "f"}, {"tool_calls": [{"name": "f"}], "x": 1}]
)
def test_other_answers_ask_for_no_calls(final: Any) -> None:
    assert calls_in(final, ["f"]) == []


def test_an_answer_tells_what_the_run_and_all_below_it_cost() -> None:
    used = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "cached_tokens": 2}
    run = view(final={"message": "m"}, usage=Usage(total_tokens=1), tree_usage=used)
    assert chat_completion(run, ())["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    told = response_object(run, {}, ())["usage"]
    assert (told["input_tokens"], told["output_tokens"], told["total_tokens"]) == (5, 3, 8)
    assert response_object(view(status="waiting"), {}, ())["usage"] is None


@pytest.mark.parametrize(
    ("status", "told"),
    [
        *(("queued", "queued"), ("waiting", "in_progress"), ("cancelling", "in_progress")),
        *(("cancelled", "cancelled"), ("timed_out", "failed"), ("escalated", "failed"), ("completed", "completed")),
    ],
)
def test_how_a_run_stands_in_the_words_of_responses(status: str, told: str) -> None:
    found = response_object(view(status=status, reason="why", final={"message": "m"}), {}, ())
    assert (found["status"], (found["error"] or {}).get("code")) == (told, "why" if told == "failed" else None)
    assert [item["content"][0]["text"] for item in found["output"]] == (["m"] if told == "completed" else [])


def test_only_paths_of_that_api_have_its_errors() -> None:
    theirs = ("/v1/chat/completions", "/v1/responses", "/v1/responses/x/cancel", "/v1/models", "/v1/models/a/b")
    assert all(map(is_openai, theirs))
    assert not any(map(is_openai, ("/v1/models/check", "/v1/runs", "/v1/chat", "/v1/responsesx")))


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        *(("unauthenticated", 401, "authentication_error"), ("forbidden", 403, "permission_error")),
        *(("network_not_found", 404, "not_found_error"), ("run_continued", 409, "conflict_error")),
        *(("overloaded", 429, "rate_limit_error"), ("unavailable", 503, "server_error")),
        ("request_invalid", 422, "invalid_request_error"),
    ],
)
def test_an_error_has_the_code_and_the_remedy(code: str, status: int, kind: str) -> None:
    found = problem(code, "it is so")
    error = openai_error(found)
    assert (found.status, error["code"], error["type"], error["param"]) == (status, code, kind, None)
    assert error["message"] == f"{found.title}: it is so. {found.remedy}"


def test_each_fault_of_a_request_is_said_once() -> None:
    def said(*errors: ProblemDetail) -> Any:
        return openai_error(problem("request_invalid", tell_faults(errors), errors=errors))["message"]

    answers = ProblemDetail(pointer="/body/n", code="value_error", detail="a run has one answer")
    heat = ProblemDetail(pointer="/body/temperature", code="value_error", detail="it has to be at most 2")
    start, end = "The request is not valid: ", ". Correct each place that is named, and send it again."
    assert said(answers) == f"{start}n: a run has one answer{end}"
    assert (
        said(answers, heat) == f"{start}2 problems: n: a run has one answer; temperature: it has to be at most 2{end}"
    )


def test_a_client_repeats_by_itself_only_what_makes_no_second_run() -> None:
    def may(code: str, *, is_one_run: bool = False, **more: Any) -> str:
        return retry_header(problem(code, "d", **more), is_one_run=is_one_run)["x-should-retry"]

    assert may("overloaded") == may("unavailable", is_one_run=True) == "true"
    assert {may("unavailable"), may("run_continued"), may("timeout", run_id="r"), may("internal")} == {"false"}


def test_a_message_has_to_be_of_a_known_kind() -> None:
    with pytest.raises(ValidationError):
        response([{"type": "item_reference", "id": "x"}])
    assert TypeAdapter(ChatRequest).validate_python({"model": "support", "messages": HELLO}).model == "support"


def test_bounds_and_defaults_of_a_request() -> None:
    tools = [{"type": "function", "function": {"name": f"f{n}", "description": "d" * 4_096}} for n in range(64)]
    labels = {str(n): "x" for n in range(16)}
    chat(tools=tools, metadata=labels, towpath={"model": "m" * 256})
    response(tools=[{"type": "function", **tool["function"]} for tool in tools])  # type: ignore[dict-item]
    long = {"type": "function", "function": {"name": "f", "description": "d" * 4_097}}
    for more in (
        {"tools": [*tools, {**long, "function": {"name": "g"}}]},
        {"tools": [long]},
        {"metadata": {**labels, "more": "x"}},
        {"towpath": {"model": "m" * 257}},
    ):
        with pytest.raises(ValidationError):
            chat(**more)
    with pytest.raises(ValidationError):
        response(tools=[{"type": "function", "name": f"f{n}"} for n in range(65)])
    options = TowpathOptions()
    assert (options.priority, options.debug, options.given()) == (5, False, {})

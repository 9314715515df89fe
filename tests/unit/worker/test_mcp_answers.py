"""A server's answer as a tool's result: never more certain than it is, and checked without trusting its patterns."""

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError

from towpath.errors import ToolError
from towpath.tools.declaration import tool
from towpath_worker.adapters.mcp import answers, error_codes
from towpath_worker.adapters.mcp.answers import failure_from, result_of_answer
from towpath_worker.adapters.mcp.secrets import SecretResolver
from towpath_worker.app.call_execution import mark_uncertain
from towpath_worker.core.results import CallCutOffError, ExternalOutcomeUnknownError, failure_of

SECRETS = SecretResolver(Path())


async def value(schema: dict[str, Any] | None = None, **answer: Any) -> Any:
    read = mcp_types.CallToolResult.model_validate({"content": [], **answer})
    return await result_of_answer(read, schema, "notes", SECRETS)


async def test_what_was_promised_is_checked_and_given_as_it_is() -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    assert await value(schema, structuredContent={"count": 3}) == {"count": 3}
    for wrong in ({"count": "3"}, {}):
        with pytest.raises(ExternalOutcomeUnknownError, match="promised"):
            await value(schema, structuredContent=wrong)
    with pytest.raises(ExternalOutcomeUnknownError, match="gave none"):
        await value(schema, content=[{"type": "text", "text": "3"}])


async def test_a_pattern_of_the_server_can_not_stop_the_worker() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "pattern": {}}}
    fields = {"a": "a" * 60 + "!", "pattern": 1}
    assert await value({**schema, "additionalProperties": False}, structuredContent=fields) == fields


async def test_a_promise_that_takes_long_to_be_checked_can_not_stop_the_worker() -> None:
    rows = {"type": "object", "properties": {"rows": {"type": "array", "uniqueItems": True}}}
    unique = {"rows": [{"a": number} for number in range(4_000)]}  # compared in pairs they take a minute
    assert await value(rows, structuredContent=unique) == unique
    again = {"type": "object", "additionalProperties": {"items": {"allOf": [{"minimum": 0}] * 400}}}
    for count in (8_000, 40_000):  # checked here, and in a thread
        with pytest.raises(ExternalOutcomeUnknownError, match="too many steps"):
            await value(again, structuredContent={"rows": [7] * count})


async def test_a_long_answer_is_checked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_WORK", 20_000)  # a longer one takes more
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "integer"}}}}
    rows = {"rows": list(range(30_000))}
    assert await value(schema, structuredContent=rows) == rows
    rows["rows"][-1] = "no number"  # type: ignore[call-overload]
    with pytest.raises(ExternalOutcomeUnknownError, match="29999"):
        await value(schema, structuredContent=rows)


async def test_blocks_are_text_or_named_by_what_they_are() -> None:
    assert await value(content=[{"type": "text", "text": "hello"}]) == "hello"
    assert await value(structuredContent={"a": 1}) == {"a": 1}
    large = "A" * 80_000
    blocks = await value(
        content=[
            {"type": "audio", "data": large, "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "notes://1", "name": "one"},
            {"type": "resource", "resource": {"uri": "notes://2", "text": "two"}},
            {"type": "resource", "resource": {"uri": "notes://3", "blob": "not base64!"}},
        ]
    )
    assert [block["type"] for block in blocks] == ["audio", "resource_link", "resource", "resource"]
    assert (blocks[0]["bytes"], blocks[0]["omitted"], "data_base64" in blocks[0]) == (60_000, True, False)
    assert (blocks[2]["text"], blocks[3]["invalid"]) == ("two", True)
    many = await value(content=[{"type": "text", "text": "x"}] * 300)
    assert many[-1] == {"type": "omitted", "blocks": 44}


@pytest.mark.parametrize(
    ("code", "failure", "uncertain"),
    [
        (error_codes.NOT_SENT, "mcp_not_sent", False),
        (error_codes.SESSION_GONE, "mcp_not_sent", False),
        (error_codes.REFUSED, "mcp_not_sent", False),
        (error_codes.CONNECTION_CLOSED, "mcp_server_lost", True),
        (error_codes.LOST, "mcp_server_lost", True),
        (error_codes.TOO_LARGE, "result_too_large", False),
        (-32602, "mcp_error", False),
    ],
)
def test_an_error_says_what_is_known_of_an_irreversible_call(code: int, failure: str, uncertain: bool) -> None:
    @tool(name="pay")
    async def pay() -> None:
        """Pay."""

    error = failure_from(MCPError(code, "words of the server\u202e"), "notes", SECRETS)
    assert isinstance(error, ToolError | ExternalOutcomeUnknownError)
    found = failure_of(error)
    known = mark_uncertain(pay, found) if isinstance(error, CallCutOffError) else found
    assert (known.code, known.uncertain) == (failure, uncertain)
    assert "\u202e" not in known.message

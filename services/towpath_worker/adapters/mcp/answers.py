"""What a server answers, as a tool's result or as a failure that says what is known.

An answer is untrusted data: bounded, checked against what the tool promised, without the secrets that the server was
given, and never more certain than it is. The server writes both sides of the check, so its work is bounded too: a
check that never ends would take the worker, and all other servers of it, along.
"""

import asyncio
import functools
import hashlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from mcp.shared.exceptions import MCPError
from referencing import Registry
from referencing.exceptions import Unresolvable

from towpath.errors import ToolError
from towpath_contracts.base import JsonObject
from towpath_contracts.schema_bounds.size import DEFINED, NAMED
from towpath_contracts.schema_bounds.work import MAX_WORK, TooMuchWorkError, Work, counted_keywords
from towpath_worker.adapters.mcp.error_codes import CERTAINLY_NOT, TOO_LARGE, UNCERTAIN
from towpath_worker.adapters.mcp.secrets import SecretResolver
from towpath_worker.adapters.mcp.tool_checks import clean_text
from towpath_worker.core.results import ExternalOutcomeUnknownError

INLINE_BINARY_BYTES = 32_768
"""Of an image or another binary piece; a larger one is named by its digest only."""

MAX_BLOCKS = 256
MAX_ERROR_CHARS = 1_500
INLINE_CHECK_CHARS = 65_536
"""A larger structured answer is checked in a thread, so that the other calls go on."""

_PATTERNS = frozenset({"pattern", "patternProperties", "format"})
"""Not checked in an answer: schema and text both come from the server, and Python's patterns can take for ever."""


def failure_from(error: MCPError, server: str, secrets: SecretResolver) -> Exception:
    """Return what a JSON-RPC error means for the call."""
    message = clean_text(error.message, MAX_ERROR_CHARS, secrets.hide).text
    if error.code in CERTAINLY_NOT:
        return ToolError("mcp_not_sent", f"{server}: {message}", retryable=True, external=True)
    if error.code in UNCERTAIN:
        return ExternalOutcomeUnknownError(
            "mcp_server_lost", f"{server} ended or broke while the call was in it: {message}"
        )
    if error.code == TOO_LARGE:
        hint = "Ask for less: what was done is done, only its answer is too large."
        return ToolError("result_too_large", f"{server}: {message}", hint=hint)
    return ToolError("mcp_error", f"{server} refused with {error.code}: {message}")


def input_required(server: str) -> ToolError:
    """Return the failure of a call to which the server wants a person's or a model's answer."""
    hint = "Give everything as arguments; nobody answers questions of a server."
    return ToolError("mcp_input_required", f"{server} asks for further input, which it does not get", hint=hint)


async def result_of_answer(
    answer: mcp_types.CallToolResult, output_schema: Mapping[str, Any] | None, server: str, secrets: SecretResolver
) -> Any:
    """Return the result that *answer* stands for; raises ToolError, else ExternalOutcomeUnknownError."""
    if answer.is_error:
        message = " ".join(block.text for block in answer.content if isinstance(block, mcp_types.TextContent))
        text = clean_text(message, MAX_ERROR_CHARS, secrets.hide).text
        raise ToolError("mcp_tool_error", text or f"{server} says that the call failed, and not why")
    if answer.structured_content is not None and output_schema is not None:
        await _check(answer.structured_content, output_schema, server)
        return secrets.hide_in(answer.structured_content)
    if output_schema is not None:
        raise ExternalOutcomeUnknownError("mcp_result_invalid", f"{server} promises a structured answer and gave none")
    return secrets.hide_in(_blocks(answer))


async def _check(value: Any, schema: Mapping[str, Any], server: str) -> None:
    chars = len(repr(value))
    fault = (
        _fault(value, schema, MAX_WORK)
        if chars <= INLINE_CHECK_CHARS
        else await asyncio.to_thread(_fault, value, schema, MAX_WORK + chars)
    )
    if fault:
        raise ExternalOutcomeUnknownError(
            "mcp_result_invalid", f"{server} gave an answer that is not what it promised: {fault}"
        )


_work = Work()


@functools.cache
def _validator_class() -> Callable[..., Validator]:
    counted = counted_keywords(Draft202012Validator.VALIDATORS, {}, _work)
    extended: Callable[..., Validator] = extend(Draft202012Validator, counted)  # type: ignore[no-untyped-call]
    return extended


def _fault(value: Any, schema: Mapping[str, Any], most_work: int) -> str:
    """Return where *value* does not fit, without the value."""
    _work.begin(most_work)
    try:
        for error in _validator_class()(_without_patterns(schema), registry=Registry()).iter_errors(value):
            return _where(error)
    except TooMuchWorkError:
        return "its schema asks for too many steps to check it"
    except (Unresolvable, RecursionError, ValueError, TypeError) as error:
        return f"its schema can't be applied ({type(error).__name__})"
    return ""


def _where(error: ValidationError) -> str:
    place = ".".join(str(part) for part in error.absolute_path)[:200] or "the answer"
    return f"{place} does not satisfy {error.validator}"


def _without_patterns(schema: Any, *, names: bool = False) -> Any:
    """Leave the patterns out. *names* says that the members of *schema* are names of properties, not keywords."""
    if isinstance(schema, Mapping):
        return {
            key: _without_patterns(value, names=not names and (key in NAMED or key in DEFINED))
            for key, value in schema.items()
            if names or key not in _PATTERNS
        }
    if isinstance(schema, list):
        return [_without_patterns(value) for value in schema]
    return schema


def _blocks(answer: mcp_types.CallToolResult) -> Any:
    """Return a lone text as text, anything else as a list of blocks, structured content without a schema included."""
    if answer.structured_content is not None and not answer.content:
        return answer.structured_content
    if len(answer.content) == 1 and isinstance(answer.content[0], mcp_types.TextContent):
        return answer.content[0].text
    shown: list[JsonObject] = [_block(block) for block in answer.content[:MAX_BLOCKS]]
    if len(answer.content) > MAX_BLOCKS:
        shown.append({"type": "omitted", "blocks": len(answer.content) - MAX_BLOCKS})
    return shown


def _block(block: mcp_types.ContentBlock) -> JsonObject:
    match block:
        case mcp_types.TextContent():
            return {"type": "text", "text": block.text}
        case mcp_types.ImageContent():
            return {"type": "image", "mime_type": block.mime_type, **_binary(block.data)}
        case mcp_types.AudioContent():
            return {"type": "audio", "mime_type": block.mime_type, **_binary(block.data)}
        case mcp_types.ResourceLink():
            return {"type": "resource_link", "uri": str(block.uri), "name": block.name, "mime_type": block.mime_type}
        case mcp_types.EmbeddedResource():
            held = block.resource
            about: JsonObject = {"type": "resource", "uri": str(held.uri), "mime_type": held.mime_type}
            if isinstance(held, mcp_types.TextResourceContents):
                return {**about, "text": held.text}
            return {**about, **_binary(held.blob)}


def _binary(data: str) -> JsonObject:
    """Return what a binary piece is: size and digest, and the bytes themselves only where they are few."""
    try:
        raw = b64decode(data, validate=True)
    except (Base64Error, ValueError):
        return {"bytes": 0, "invalid": True}
    about: JsonObject = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return {**about, "data_base64": data} if len(raw) <= INLINE_BINARY_BYTES else {**about, "omitted": True}

"""Problems as clients of A2A 1.0 read them: errors of JSON-RPC, with the whole problem among their details.

A call that was understood is answered with 200, whatever came of it. What is refused before (no key, no JSON, no room)
has the status of every other refusal, and the same error beside the problem.
"""

import re
from typing import Any, Final

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.text import join_sentences

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
TASK_NOT_FOUND: Final = -32001
TASK_NOT_CANCELABLE: Final = -32002
PUSH_NOT_SUPPORTED: Final = -32003
UNSUPPORTED: Final = -32004
CONTENT_TYPE: Final = -32005
VERSION: Final = -32009

_PATHS = re.compile(r"/a2a|/v1/networks/.+/a2a")

_CODES = {
    "run_not_found": TASK_NOT_FOUND,
    "run_erased": TASK_NOT_FOUND,
    "run_finished": TASK_NOT_CANCELABLE,
    "operation_unsupported": UNSUPPORTED,
    "attachment_refused": CONTENT_TYPE,
    "request_malformed": PARSE_ERROR,
}
_REASONS = {
    TASK_NOT_FOUND: "TASK_NOT_FOUND",
    TASK_NOT_CANCELABLE: "TASK_NOT_CANCELABLE",
    PUSH_NOT_SUPPORTED: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    UNSUPPORTED: "UNSUPPORTED_OPERATION",
    CONTENT_TYPE: "CONTENT_TYPE_NOT_SUPPORTED",
    VERSION: "VERSION_NOT_SUPPORTED",
}
"""Names that A2A has; others are the platform's codes."""


def is_a2a(path: str) -> bool:
    """Return whether calls of A2A are sent to *path*."""
    return _PATHS.fullmatch(path) is not None


class CallRefusedError(ProblemError):
    """Carries a problem whose code of JSON-RPC its own code does not tell."""

    def __init__(self, problem: Problem, rpc_code: int) -> None:
        super().__init__(problem)
        self.rpc_code = rpc_code


def rpc_failure(call_id: Any, found: Problem, code: int | None = None) -> JsonObject:
    """Return the answer to a call that was refused with *found*."""
    return {"jsonrpc": "2.0", "id": call_id, "error": rpc_error(found, code)}


def rpc_error(found: Problem, code: int | None = None) -> JsonObject:
    """Return *found* as an error; its remedy and its single faults stand in the message, which clients show."""
    faults = "; ".join(f"{one.pointer.removeprefix('/body') or 'body'}: {one.detail}" for one in found.errors)
    detail = f"{found.detail}: {faults}" if faults else found.detail
    code = code or _CODES.get(found.code) or _code_of(found.status)
    reason = _REASONS.get(code)
    whole = found.model_dump(mode="json", exclude_none=True)
    told = {name: value for name, value in whole.items() if value not in ([], {}, "")}
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason or found.code.upper(),
        "domain": "a2a-protocol.org" if reason else "towpath",
        "metadata": {name: str(told[name]) for name in ("code", "detail", "remedy", "run_id") if name in told},
    }
    problem = {"@type": "type.googleapis.com/google.protobuf.Struct", "value": told}
    return {"code": code, "message": join_sentences(f"{found.title}: {detail}", found.remedy), "data": [info, problem]}


def unread_call(found: Problem) -> JsonObject:
    """Return the answer to what is no call that could be read: nobody knows its id."""
    is_more = found.code in _CODES or found.status >= 500 or found.status == 429
    return rpc_failure(None, found, None if is_more else INVALID_REQUEST)


def unread_message(found: Problem) -> JsonObject:
    """Return the same to clients of MCP, whose protocol has no codes for it: the problem stands beside it."""
    code = INTERNAL_ERROR if found.status >= 500 or found.status == 429 else INVALID_REQUEST
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": rpc_error(found)["message"]}}


def _code_of(status: int) -> int:
    return INTERNAL_ERROR if status >= 500 or status == 429 else INVALID_PARAMS

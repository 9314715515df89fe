"""Problems as clients of OpenAI's API read them: the same document, with an `error` beside its own members.

Their clients repeat a request by themselves after 408, 409, 429 and 5xx. Once there is a run, or may be one, a repeat
would be a second run, so `x-should-retry` says what they may do; they obey it.
"""

import re

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.input_faults import summary_of
from towpath_contracts.problems.registry import Problem
from towpath_contracts.text import join_sentences

_PATHS = re.compile(r"/v1/(?:chat/completions|responses(?:/.*)?|models(?!/check$)(?:/.*)?)")

_APPENDED = re.compile(r"(?:/chat/completions|(?<!/v1)/(?:responses|models)(?:/[^/]+)?)$")
"""What these clients append to their address; with /v1 before it, it may be another path with a slip."""

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}


def is_openai(path: str) -> bool:
    """Return whether *path* is one of OpenAI's API."""
    return _PATHS.fullmatch(path) is not None


def openai_path_meant(path: str) -> str | None:
    """Return the path that a client of OpenAI's API means where it has another address than one that ends in /v1.

    It appends its own part to the address: to that of the gateway, or of a whole path of the API.
    """
    found = _APPENDED.search(path)
    return f"/v1{found[0]}" if found is not None and not is_openai(path) else None


def openai_error(found: Problem) -> JsonObject:
    """Return *found* in OpenAI's words; its remedy and its single faults stand in the message, which clients show."""
    faults = "; ".join(f"{_parameter(one.pointer) or 'body'}: {one.detail}" for one in found.errors)
    is_all = not faults or found.detail == summary_of(found.errors)  # of one fault the detail says it already
    detail = (faults or found.detail) if is_all else f"{found.detail}: {faults}"
    message = join_sentences(f"{found.title}: {detail}", found.remedy)
    kind = _TYPES.get(found.status, "invalid_request_error" if found.status < 500 else "server_error")
    param = _parameter(found.errors[0].pointer) if found.errors else None
    return {"message": message, "type": kind, "param": param or None, "code": found.code}


def retry_header(found: Problem, *, is_one_run: bool) -> dict[str, str]:
    """Return whether a client may send its request again by itself; *is_one_run*: as often as it likes for one run."""
    is_one_run = is_one_run or found.code != "unavailable"
    may = found.retryable and found.run_id is None and is_one_run
    return {"x-should-retry": "true" if may else "false"}


def _parameter(pointer: str) -> str:
    return pointer.removeprefix("/body").strip("/").replace("/", ".")

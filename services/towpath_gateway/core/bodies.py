"""Reading a JSON body strictly.

What the gateway lets in can be stored and written again by everybody behind it (`towpath_contracts.strict_json`).
"""

from typing import Any

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.strict_json import MAX_DEPTH, NotStrictJsonError, read_strict

MAX_BODY_BYTES = 1024 * 1024
"""The largest body: NATS carries no more in one message."""


def read_json(body: bytes) -> Any:
    """Return the value of *body*; raises ProblemError `request_malformed` saying what is wrong."""
    try:
        return read_strict(body, max_depth=MAX_DEPTH)
    except NotStrictJsonError as error:
        raise ProblemError(problem("request_malformed", str(error))) from None


def is_json(content_type: str | None) -> bool:
    """Say whether a Content-Type names JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))

"""Results of calls as JSON with a digest, and exceptions as ToolFailure.

The model and the record never see a traceback, and equal results have equal digests. Of an exception that a tool's
author did not word, the record has the author's own last line, by the base name of its file: no folder is told.
"""

import os
import traceback
from dataclasses import dataclass
from inspect import getfile, iscoroutine
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from towpath.errors import ToolError
from towpath.tools.arguments import ArgumentsInvalidError
from towpath.tools.secrets import SecretMissingError
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, check_json
from towpath_contracts.tools.calls import INLINE_RESULT_BYTES, MAX_RESULT_BYTES, ToolFailure
from towpath_fabric.redaction import redact, redact_json

MAX_MESSAGE_CHARS = 2_000
"""Of a failure's text: enough to act on; the model pays for every character."""

_NOT_OF_THE_AUTHOR = (
    "<",  # what Python froze, and code that was never in a file
    f"{Path(os.__file__).parent}{os.sep}",
    *(f"{folder}{os.sep}towpath" for folder in (Path(getfile(ToolError)).parents[1], Path(__file__).parents[2])),
)
"""How the files of Python's own library and of the platform begin."""

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
"""What the files of installed packages have in their paths; those of Python's own library may lie above them."""


class CallCutOffError(Exception):
    """The call did not end within its time."""


class ExternalOutcomeUnknownError(CallCutOffError):
    """The call was handed to an outside system that did not report its outcome; `code` says how it was lost."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ResultRefusedError(Exception):
    """What the tool returned can't be a result; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedResult:
    """A result as it travels: `value` is plain JSON, `data` its canonical text."""

    value: Any
    data: bytes
    digest: str

    @property
    def is_large(self) -> bool:
        """Whether it is too large for the message and travels as a blob."""
        return len(self.data) > INLINE_RESULT_BYTES


def encode_result(returned: Any) -> EncodedResult:
    """Turn what a tool returned into JSON; raises ResultRefusedError `result_invalid` or `result_too_large`."""
    if iscoroutine(returned):
        returned.close()  # else Python warns of it wherever it is collected
        message = (
            f"the tool returned the coroutine {returned.__name__}, which nobody awaited: write async def, and await"
        )
        raise ResultRefusedError("result_invalid", message)
    try:
        value = redact_json(to_jsonable_python(returned, inf_nan_mode="constants"))
        data = canonical_json(value).encode()
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ResultRefusedError("result_invalid", f"the tool returned something that is not JSON: {error}") from error
    if len(data) > MAX_RESULT_BYTES:
        message = f"the result has {len(data)} bytes, at most {MAX_RESULT_BYTES} are taken; return less, or a reference"
        raise ResultRefusedError("result_too_large", message)
    # Parsers of JSON stop at some depth: an outcome that none of them can read would be sent again for ever.
    fault = check_json(data, max_depth=MAX_VALUE_DEPTH, allow_nul=True)  # the platform replaces U+0000
    if fault is not None:
        raise ResultRefusedError("result_invalid", f"the tool returned what others can't read: {fault}")
    return EncodedResult(value=value, data=data, digest=digest_text(data))


def failure_of(error: BaseException) -> ToolFailure:
    """Return the failure that stands for *error*."""
    match error:
        case ToolError():
            return ToolFailure(
                code=error.code,
                message=_shorten(error.message),
                retryable=error.retryable,
                hint=_shorten(error.hint),
                external=error.external,
            )
        case ArgumentsInvalidError():
            hint = "Correct the arguments and call again."
            return ToolFailure(code="invalid_arguments", message=_shorten(str(error)), hint=hint)
        case SecretMissingError():
            hint = "Nothing was done. Whoever runs the worker has to provide the secret."
            return ToolFailure(code="secret_missing", message=_shorten(str(error)), hint=hint)
        case ExternalOutcomeUnknownError():
            return ToolFailure(code=error.code, message=_shorten(str(error)), retryable=True, external=True)
        case CallCutOffError():
            return ToolFailure(code="tool_timeout", message=_shorten(str(error)), retryable=True, external=True)
        case ResultRefusedError():
            return ToolFailure(code=error.code, message=_shorten(str(error)))
        case _:
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
            external = isinstance(error, OSError)
            return ToolFailure(code="tool_exception", message=_shorten(text), external=external, place=raised_at(error))


def raised_at(error: BaseException) -> str:
    """Return the last line of a tool's author that *error* came through, such as `orders.py:14`; empty for none.

    Where it came through none, that of its cause: Python raises RuntimeError in the place of StopIteration.
    """
    looked_at: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in looked_at:
        for frame, line in reversed(list(traceback.walk_tb(cause.__traceback__))):
            if _is_of_author(frame.f_code.co_filename):
                return _shorten(f"{Path(frame.f_code.co_filename).name}:{line}")
        looked_at.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return ""


def _is_of_author(file: str) -> bool:
    return not file.startswith(_NOT_OF_THE_AUTHOR) and not any(part in file for part in _INSTALLED)


def _shorten(text: str) -> str:
    clean = redact(text).encode("utf-8", "replace").decode()  # lone surrogates can't travel
    return clean if len(clean) <= MAX_MESSAGE_CHARS else clean[: MAX_MESSAGE_CHARS - 1] + "…"

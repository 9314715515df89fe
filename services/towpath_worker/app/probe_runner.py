"""Asking a tool's probe what became of an earlier start.

A probe decides only by a clear word. Everything else, also a probe that raises, hangs or returns nonsense, leaves
the call in doubt, and what is in doubt is not run again.
"""

import asyncio
import contextvars
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

from towpath.tools.context import ToolContext
from towpath.tools.declaration import AnyTool
from towpath.tools.probes import DidNotHappen, Happened, Unclear
from towpath_contracts.tools.calls import ProbeWord, ToolFailure
from towpath_worker.app.call import contained
from towpath_worker.core.results import MAX_MESSAGE_CHARS, Result, ResultRefusedError, encode_result

PROBE_S = 8.0
"""How long a probe may take: less than the lease has over the tool's own time, so that the tool keeps its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a probe said: `result` where the call happened, `detail` where it could not tell."""

    said: ProbeWord
    detail: str = ""
    result: Result | None = None


async def ask_probe(
    tool: AnyTool, arguments: dict[str, Any], context: ToolContext, limit_s: float, threads: Executor
) -> Answer:
    """Ask the probe of *tool* for at most *limit_s*. CancelledError only when the process stops."""
    if tool.probe is None:
        return Answer(said="failed", detail="this worker has no probe for the tool")
    bound = tool.probe.bind(arguments, context)
    scope = asyncio.timeout(max(0.0, min(limit_s, PROBE_S)))
    try:
        async with scope:
            if tool.probe.is_async:
                return _understood(await tool.probe.function(**bound))
            call = partial(contextvars.copy_context().run, contained, tool.probe.function, bound)
            succeeded, value = await asyncio.get_running_loop().run_in_executor(threads, call)
            return _understood(value) if succeeded else _failed(value)
    except TimeoutError as error:
        return Answer(said="failed", detail="the probe did not answer in time") if scope.expired() else _failed(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's probe raises is no clear word
        return _failed(error)


def in_doubt(answer: Answer, why: str) -> ToolFailure:
    """Return the failure of a call of which nobody knows whether it happened, with what its probe said."""
    said = "the probe could not tell" if answer.said == "unclear" else "the probe gave no answer"
    message = f"{why}; {said}: {answer.detail}" if answer.detail else f"{why}; {said}"
    hint = "It may have happened all the same: find out before calling it again."
    return ToolFailure(code="outcome_unknown", message=message[:MAX_MESSAGE_CHARS], hint=hint, uncertain=True)


def _understood(value: Any) -> Answer:
    match value:
        case Happened():
            try:
                return Answer(said="happened", result=encode_result(value.result))
            except ResultRefusedError as error:
                return Answer(said="failed", detail=f"it happened, but {error}")
        case DidNotHappen():
            return Answer(said="did_not_happen")
        case Unclear():
            return Answer(said="unclear", detail=value.reason)
        case _:
            name = type(value).__name__
            return Answer(said="failed", detail=f"it returned {name}, not Happened, DidNotHappen or Unclear")


def _failed(error: BaseException) -> Answer:
    return Answer(said="failed", detail=f"{type(error).__name__}: {error}".removesuffix(": "))

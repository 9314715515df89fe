"""Runs a tool's probe, which finds out whether an earlier start of the call took effect.

Only a clear answer of the probe decides. Everything else, also a probe that raises, hangs or returns nonsense, leaves
the outcome unknown, and a call whose outcome is unknown is not run again.
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
from towpath.user_code import capture_result
from towpath_contracts.tools.calls import ProbeWord, ToolFailure
from towpath_worker.core.results import MAX_MESSAGE_CHARS, EncodedResult, ResultRefusedError, encode_result

PROBE_S = 8.0
"""How long a probe may take: less than the lease has over the tool's own time, so that the tool keeps its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What a probe found: `result` where the call happened, `detail` where it could not tell."""

    verdict: ProbeWord
    detail: str = ""
    result: EncodedResult | None = None


async def run_probe(
    tool: AnyTool, arguments: dict[str, Any], context: ToolContext, limit_s: float, threads: Executor
) -> ProbeAnswer:
    """Run the probe of *tool* for at most *limit_s*. Raises CancelledError only when the process stops."""
    if tool.probe is None:
        return ProbeAnswer(verdict="failed", detail="this worker has no probe for the tool")
    bound = tool.probe.bind(arguments, context)
    scope = asyncio.timeout(max(0.0, min(limit_s, PROBE_S)))
    try:
        async with scope:
            if tool.probe.is_async:
                return _read_answer(await tool.probe.function(**bound))
            call = partial(contextvars.copy_context().run, capture_result, tool.probe.function, **bound)
            succeeded, value = await asyncio.get_running_loop().run_in_executor(threads, call)
            return _read_answer(value) if succeeded else _probe_failed(value)
    except TimeoutError as error:
        if not scope.expired():
            return _probe_failed(error)
        return ProbeAnswer(verdict="failed", detail="the probe did not answer in time")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's probe raises is no clear answer
        return _probe_failed(error)


def outcome_unknown(answer: ProbeAnswer, reason: str) -> ToolFailure:
    """Return the failure of a call whose outcome is unknown, with what its probe found."""
    statement = "the probe could not tell" if answer.verdict == "unclear" else "the probe gave no answer"
    message = f"{reason}; {statement}: {answer.detail}" if answer.detail else f"{reason}; {statement}"
    hint = "It may have happened all the same: find out before calling it again."
    return ToolFailure(code="outcome_unknown", message=message[:MAX_MESSAGE_CHARS], hint=hint, uncertain=True)


def _read_answer(value: Any) -> ProbeAnswer:
    match value:
        case Happened():
            try:
                return ProbeAnswer(verdict="happened", result=encode_result(value.result))
            except ResultRefusedError as error:
                return ProbeAnswer(verdict="failed", detail=f"it happened, but {error}")
        case DidNotHappen():
            return ProbeAnswer(verdict="did_not_happen")
        case Unclear():
            return ProbeAnswer(verdict="unclear", detail=value.reason)
        case _:
            name = type(value).__name__
            return ProbeAnswer(verdict="failed", detail=f"it returned {name}, not Happened, DidNotHappen or Unclear")


def _probe_failed(error: BaseException) -> ProbeAnswer:
    return ProbeAnswer(verdict="failed", detail=f"{type(error).__name__}: {error}".removesuffix(": "))

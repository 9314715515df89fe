"""One answer of an agent: its attempts, its time, and what came of it.

Whatever user code does (returns nonsense, raises, hangs, cancels itself), the result is one answer or one failure
with a stable code. Only the end of the process is passed on.
"""

import asyncio
from dataclasses import dataclass

from towpath.agents.base import BaseAgent
from towpath.agents.request import AgentRequest
from towpath.errors import AgentError
from towpath_agent.app.method_calls import AnswerInvalidError, DeliverableError, answer_of
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_fabric.redaction import redacted
from towpath_fabric.telemetry.logs import Logger

ATTEMPTS = 3
WAITS_S = (1.0, 2.0)
"""Between attempts after a failure that its agent calls retryable: like a decider's."""

MESSAGE_CHARS = 2_000
"""The longest reason of a failure; it is shown to people and, for `invalid_output`, to the agent."""

CODE_CHARS = 64
ANSWER_BYTES = 256 * 1024
"""The largest answer; a larger one would not fit the events and messages that follow from it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer. `retryable` says whether another attempt may help."""

    code: str
    message: str
    retryable: bool = False


async def ask(agent: BaseAgent, request: AgentRequest, log: Logger) -> JsonObject | Failure:
    """Return what *agent* answers within the time that the request gives; raises CancelledError alone."""
    failed: Failure | None = None
    scope = asyncio.timeout(request.asked.timeout_ms / 1000)
    try:
        async with scope:
            for wait_s in (*WAITS_S, 0.0):
                result = await _once(agent, request, log)
                if not isinstance(result, Failure) or not result.retryable:
                    return result
                failed = result
                await asyncio.sleep(wait_s)
    except TimeoutError:
        if not scope.expired():
            raise
        before = f" (before: {failed.message})" if failed is not None else ""
        return Failure("model_timeout", f"no answer within {request.asked.timeout_ms} ms{before}")
    assert failed is not None
    return failed


async def _once(agent: BaseAgent, request: AgentRequest, log: Logger) -> JsonObject | Failure:
    try:
        value = await answer_of(agent, request)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # the process stops, or the time is over
        return Failure("agent_failed", "CancelledError: the agent cancelled itself")
    except AnswerInvalidError as error:
        return Failure("invalid_output", _clean(str(error)))
    except DeliverableError as error:
        return Failure("deliverable_failed", f"the deliverable could not be made: {_said(error.__cause__ or error)}")
    except AgentError as error:
        return Failure(error.code[:CODE_CHARS], _clean(error.message), error.retryable)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - every exception of user code is a result
        log.warning("an agent raised", run_id=str(request.run_id), step=request.step, error=type(error).__name__)
        return Failure("agent_failed", _said(error))
    size = len(canonical_json(value).encode("utf-8", "replace"))
    if size > ANSWER_BYTES:
        return Failure("invalid_output", f"the answer has {size} bytes; the limit is {ANSWER_BYTES}")
    return value


def _said(error: BaseException) -> str:
    return _clean(f"{type(error).__name__}: {error}".removesuffix(": "))


def _clean(text: str) -> str:
    """Return *text* without this process's secrets, and as what can travel: no lone surrogates."""
    return redacted(text).encode("utf-8", "replace").decode()[:MESSAGE_CHARS]

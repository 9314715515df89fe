"""The answer of `POST /run`: the end of a run, its logs, and what a caller needs to go on.

Made from the run and its log alone, so that it can be made again at any time.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import AliasChoices, Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events.log import DecisionReceived, DecisionRequestFailed, LogEntry
from towpath_contracts.runs.views import RunView
from towpath_readings.execution_log import RunExecutionLogs


class RunDuration(MessagePart):
    """How many steps a finished run took and how long it took, waiting included."""

    steps: int
    total_run_ms: int
    started: datetime | None
    completed: datetime | None


class DebugModelCall(MessagePart):
    """One model call of a debug run, as it was sent and as it came back. History has other names for two of these."""

    step: int = Field(default=0, validation_alias=AliasChoices("step_number", "step"))
    agent_key: str = Field(default="", validation_alias=AliasChoices("agent_id", "agent_key"))
    kind: str = ""
    model: str = ""
    attempt: int = 0
    call: int = 0
    prompt: str | None = None
    raw_text: str | None = None
    error: str | None = None


class DebugModelCallList(MessagePart):
    """Raw prompts and raw model texts of a debug run; `missing` counts those that did not arrive.

    Raw prompts and raw model texts; they travel apart from the run, so `missing` counts what did not arrive.
    """

    steps: tuple[DebugModelCall, ...]
    missing: int = 0


class RunAnswer(Message):
    """A finished run: its answer, its transcript, and references to the full tool payloads."""

    run_id: UUID
    trace_id: str
    network: str
    version: int
    status: str
    reason: str = ""
    final: JsonObject | None
    instructions: tuple[JsonObject, ...]
    execution_log: tuple[JsonObject, ...]
    tool_refs: tuple[str, ...]
    last_output: Any = None
    steps: int
    usage: Usage
    cost: Cost
    latency: RunDuration
    debug: DebugModelCallList | None = None


def run_answer(view: RunView, log: RunExecutionLogs, debug: DebugModelCallList | None) -> RunAnswer:
    """Return the answer for a finished run, of whose whole log *log* was read."""
    started = view.started_at or view.created_at
    took = (view.ended_at - started).total_seconds() if view.ended_at is not None else 0.0
    return RunAnswer(
        run_id=view.run_id,
        trace_id=view.trace_id or view.run_id.hex,
        network=view.network,
        version=view.version,
        status=view.status,
        reason=view.reason,
        final=view.final,
        instructions=tuple(log.instructions),
        execution_log=tuple(log.execution_log),
        tool_refs=tuple(log.tool_refs),
        last_output=view.last_output,
        steps=view.step,
        usage=view.usage or Usage(),
        cost=view.cost or Cost(),
        latency=RunDuration(
            steps=view.step, total_run_ms=round(took * 1_000), started=view.started_at, completed=view.ended_at
        ),
        debug=debug,
    )


class AnsweredRequests:
    """The decision requests of a run that a model has answered, or failed to answer."""

    def __init__(self) -> None:
        """None is known yet."""
        self.found: set[str] = set()

    def take(self, entry: LogEntry) -> None:
        """Read one more entry."""
        if isinstance(entry.event, DecisionReceived | DecisionRequestFailed):
            self.found.add(str(entry.event.request_id))


def run_debug(calls: Iterable[JsonObject], wanted: frozenset[str]) -> DebugModelCallList:
    """Return the recorded model calls in order, and how many of the wanted requests have no raw texts."""
    rows = list(calls)
    steps = sorted(
        (DebugModelCall.model_validate(row) for row in rows), key=lambda row: (row.step, row.attempt, row.call)
    )
    return DebugModelCallList(steps=tuple(steps), missing=len(wanted - requests_with_text(rows)))


def requests_with_text(calls: Iterable[JsonObject]) -> frozenset[str]:
    """Return the decision requests whose prompt has arrived; history lists a call from its event before its texts."""
    return frozenset(str(call.get("request_id")) for call in calls if call.get("prompt") is not None)

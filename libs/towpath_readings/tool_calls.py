"""The tool calls of a run, read from its log: those that ran, with their arguments and results, and those refused.

A call stands there once it has ended; of one whose arguments a person changed, the changed ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.events.call_events import ToolCallDenied, ToolCallEdited, ToolCallFinished
from towpath_contracts.events.decision_events import InstructionIssued
from towpath_contracts.events.log import AnyEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecord:
    """A call of a tool, as the run's log has it. A call that was refused did not run: its status is `denied`."""

    tool: str
    args: JsonObject
    agent: str
    status: str
    result: Any = None
    error: str = ""
    """Why there is no result: the code of the tool's failure, or of the refusal."""

    rule: str = ""
    """The rule that refused it."""


def recorded_calls(events: Iterable[AnyEvent], tool: str | None = None) -> list[ToolCallRecord]:
    """Return the calls that ran, in the order of their ends; those of one *tool* where it is named."""
    return [call for call in _ended_calls(events, tool) if call.status != "denied"]


def recorded_denials(events: Iterable[AnyEvent], tool: str | None = None) -> list[ToolCallRecord]:
    """Return the calls that were refused, by the policy or by a person; those of one *tool* where it is named."""
    return [call for call in _ended_calls(events, tool) if call.status == "denied"]


def _ended_calls(events: Iterable[AnyEvent], tool: str | None) -> list[ToolCallRecord]:
    asked: dict[UUID, JsonObject] = {}
    found: list[ToolCallRecord] = []
    for event in events:
        match event:
            case InstructionIssued(instruction=CallToolsInstruction(calls=calls)):
                asked |= {call.execution_id: call.args for call in calls}
            case ToolCallEdited():
                asked[event.execution_id] = event.args
            case ToolCallFinished():
                failure = event.failure
                found.append(
                    ToolCallRecord(
                        tool=event.tool,
                        args=asked.get(event.execution_id, {}),
                        agent=event.agent_key,
                        status=event.status,
                        result=event.result,
                        error=failure.code if failure is not None else "",
                    )
                )
            case ToolCallDenied():
                found.append(
                    ToolCallRecord(
                        tool=event.tool,
                        args=asked.get(event.execution_id, {}),
                        agent=event.agent_key,
                        status="denied",
                        error=event.denial.violation_type,
                        rule=event.denial.rule or "",
                    )
                )
            case _:
                pass
    return [call for call in found if tool in (None, call.tool)]

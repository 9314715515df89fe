"""Events of tool calls: what came of one, who changed it, why it was denied."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart, is_unset
from towpath_contracts.tools.calls import Denial, ProbeWord, ToolFailure
from towpath_contracts.tools.previews import OutputPreview


class ToolCallFinished(MessagePart):
    """A call has an outcome. `probe` is what the tool's probe found out, `settled_by` the person who decided it.

    `preview` is how a result in the blob store begins and ends.
    """

    type: Literal["tool_call_finished"] = "tool_call_finished"
    execution_id: UUID
    step: int
    epoch: int
    agent_key: str
    call_index: int
    tool: str
    status: Literal["succeeded", "failed", "unknown", "void"]
    result: Any = None
    result_digest: str | None = None
    result_bytes: int = 0
    blob: bool = False
    preview: OutputPreview | None = Field(default=None, exclude_if=is_unset)
    failure: ToolFailure | None = None
    duration_ms: int = 0
    worker: str = ""
    policy_version: int = 0
    probe: ProbeWord = ""
    settled_by: str = ""


class ToolCallEdited(MessagePart):
    """A person changed the arguments of a call before it ran: *args* were executed, and not those asked for."""

    type: Literal["tool_call_edited"] = "tool_call_edited"
    execution_id: UUID
    step: int
    agent_key: str
    call_index: int
    tool: str
    args: JsonObject
    by: str


class ToolCallPostponed(MessagePart):
    """The project's tool calls of this minute are used up: request number `attempt` is made again at `until`.

    Nothing of the call has begun. It has as much time as before once it is requested again.
    """

    type: Literal["tool_call_postponed"] = "tool_call_postponed"
    execution_id: UUID
    step: int
    epoch: int
    agent_key: str
    call_index: int
    tool: str
    attempt: int
    until: datetime
    code: str
    message: str


class ToolCallDenied(MessagePart):
    """The tool-access service refused a call; the refusal is fed back."""

    type: Literal["tool_call_denied"] = "tool_call_denied"
    execution_id: UUID
    step: int
    epoch: int
    agent_key: str
    call_index: int
    tool: str
    denial: Denial
    policy_version: int = 0

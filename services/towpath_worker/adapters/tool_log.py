"""Lines that tools log while they run: `log.tool.<project>.<toolset>`.

A line may be lost, never holds up a call, and one call can't flood the log.
"""

import asyncio
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from towpath.tools.write_log import WriteLog
from towpath_contracts.decisions.request import MAX_TOOL_LOG_BYTES, ToolLog
from towpath_contracts.subjects import log_tool
from towpath_contracts.tools.calls import ToolInvocation
from towpath_fabric.clock import wall
from towpath_fabric.ports import MessageBus
from towpath_fabric.redaction import redact

MAX_LINES = 1_000
"""Of one call; more belongs into the tool's own log."""

MAX_MESSAGE_CHARS = 4_096


class ToolLogWriter:
    """Posts lines from any thread."""

    def __init__(self, bus: MessageBus, worker: str) -> None:
        self._bus = bus
        self._worker = worker
        self._posting: set[asyncio.Task[bool]] = set()

    def for_call(self, invocation: ToolInvocation) -> WriteLog:
        """Return the function that a tool's context writes with."""
        loop = asyncio.get_running_loop()
        left = MAX_LINES
        subject = log_tool(invocation.project, invocation.toolset)

        def write(level: str, message: str, fields: dict[str, Any]) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                return
            line = ToolLog(
                execution_id=invocation.execution_id,
                run_id=invocation.run_id,
                project=invocation.project,
                tool=invocation.tool,
                worker=self._worker,
                at=wall(),
                level=level,
                message=message[:MAX_MESSAGE_CHARS],
                fields=_plain(fields),
                toolset=invocation.toolset,
            )
            body = redact(line.model_dump_json()).encode()
            if len(body) <= MAX_TOOL_LOG_BYTES:
                loop.call_soon_threadsafe(self._post, subject, body)

        return write

    def _post(self, subject: str, body: bytes) -> None:
        task = asyncio.ensure_future(self._bus.publish(subject, body))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return *fields* as JSON; what can't be written is written as text."""
    try:
        return dict(to_jsonable_python(fields, fallback=repr))
    except (PydanticSerializationError, ValueError, RecursionError):
        return {"unreadable": True}

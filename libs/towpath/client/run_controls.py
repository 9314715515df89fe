"""What a client does to runs beside cancelling them: pause, resume, notes, gates, forks; and what calls a run made."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar
from uuid import UUID, uuid4

from towpath.errors import RefusedError, RunTimeoutError, TowpathError
from towpath_contracts.problems.registry import problem

if TYPE_CHECKING:
    from towpath.client.transport import Transport
    from towpath_contracts.base import JsonObject
    from towpath_contracts.events.log import Event
    from towpath_contracts.runs.run_control import RunSteered
    from towpath_contracts.runs.statuses import RunStatus
    from towpath_contracts.tasks import RunAccepted
    from towpath_readings.tool_calls import ToolCallRecord


LAST_LOOK_S = 2.0
"""How long it may take, behind a wait that is over, to find out what the run waits for."""


Item = TypeVar("Item")


class RunFilters(TypedDict, total=False):
    """Of `client.runs`; `before` is the run that ended the page before, `limit` at most 200."""

    status: "RunStatus | None"
    network: str | None
    label: str | None
    kind: str | None
    parent_run_id: "UUID | str | None"
    root_run_id: "UUID | str | None"
    depth: int | None
    thread_id: "UUID | str | None"
    before: "UUID | str | None"
    limit: int


class RunControls:
    """Steers runs over `_transport`, each act audited and in the log of the run; and reads their calls from there."""

    _transport: "Transport"

    async def fork(
        self,
        run_id: UUID | str,
        from_step: int,
        *,
        note: str = "",
        script: list[Any] | None = None,
        fresh_budget: bool = False,
        changes: "JsonObject | None" = None,
        idempotency_key: str | None = None,
    ) -> "RunAccepted":
        """Start a new run that shares what *run_id* did before step *from_step*; *note* is shown to the model.

        No call before that step is made again. *script* replaces the decisions from there on. It spends what the other
        run has left of its budget, unless it has a *fresh_budget*. *changes* are of its task: `model`,
        `model_settings`, `max_steps`, `max_tool_errors`, `timeout_ms`, `budget`, `user_message`. HTTP only.
        """
        from towpath_contracts.tasks import RunAccepted

        body: JsonObject = {"from_step": from_step, "note": note, "script": script, "fresh_budget": fresh_budget}
        body["changes"] = changes
        body["idempotency_key"] = idempotency_key or f"client-{uuid4().hex}"
        sent = {name: value for name, value in body.items() if value is not None}
        return RunAccepted.model_validate(
            await self._transport.request("POST", f"/v1/runs/{uuid_of(run_id)}/fork", body=sent)
        )

    async def pause(self, run_id: UUID | str, reason: str = "") -> "RunSteered":
        """Let a run and all below it begin nothing more until they are resumed."""
        return await self._transport.steer(uuid_of(run_id), "pause", reason)

    async def resume(self, run_id: UUID | str, reason: str = "") -> "RunSteered":
        """Let a paused run go on, and what was paused with it."""
        return await self._transport.steer(uuid_of(run_id), "resume", reason)

    async def note(self, run_id: UUID | str, text: str) -> "RunSteered":
        """Tell a run something: its model reads it with the next decision that it is asked for."""
        return await self._transport.steer(uuid_of(run_id), "note", text)

    async def gate(self, run_id: UUID | str, reason: str = "") -> "RunSteered":
        """Have a person decide how a run goes on; the answer names the gate."""
        return await self._transport.steer(uuid_of(run_id), "gate", reason)

    async def check_confidence(self, run_id: UUID | str, reason: str = "") -> "RunSteered":
        """Ask a goal run how confident its model is, when the step is over."""
        return await self._transport.steer(uuid_of(run_id), "confidence", reason)

    async def tool_calls(self, run_id: UUID | str, tool: str | None = None) -> "list[ToolCallRecord]":
        """Return the calls of a run that ran and have ended, in the order of their ends; those of *tool* alone."""
        from towpath_readings.tool_calls import recorded_calls

        return recorded_calls(await self._log_so_far(uuid_of(run_id)), tool)

    async def denied_calls(self, run_id: UUID | str, tool: str | None = None) -> "list[ToolCallRecord]":
        """Return the calls of a run that the policy or a person has refused so far; those of *tool* alone."""
        from towpath_readings.tool_calls import recorded_denials

        return recorded_denials(await self._log_so_far(uuid_of(run_id)), tool)

    async def _log_so_far(self, run_id: UUID) -> "list[Event]":
        """Return the events that the run has now: following its log waits for those to come."""
        last = (await self._transport.get(run_id)).seq
        found: list[Event] = []
        async with aclosing(self._transport.events(run_id, 0)) as entries:
            async for entry in entries:
                found.append(entry.event)
                if entry.seq >= last:
                    break
        return found


class OpenStreams:
    """The streams of a client that have begun and not ended: one that was left by an error or `break` ends with it.

    An event loop that ends closes all that were left at once, each while another closes it, and prints that.
    """

    def __init__(self) -> None:
        self._streams: list[AsyncGenerator[Any]] = []

    @asynccontextmanager
    async def opened(self, stream: AsyncGenerator[Item]) -> AsyncIterator[AsyncGenerator[Item]]:
        """Give *stream* to be read; it is closed when the block or the client ends."""
        self._streams.append(stream)
        try:
            yield stream
        finally:
            if stream in self._streams:
                self._streams.remove(stream)
                await stream.aclose()

    async def close(self) -> None:
        """Close those that nobody reads right now: one that a task waits for ends with the connection."""
        for stream in [one for one in self._streams if not getattr(one, "ag_running", False)]:
            self._streams.remove(stream)
            await stream.aclose()


def uuid_of(run_id: UUID | str) -> UUID:
    """Return a run id that may be text; raises RefusedError for what is none."""
    if isinstance(run_id, UUID):
        return run_id
    try:
        return UUID(run_id)
    except ValueError as error:
        raise RefusedError(problem("run_not_found", f"{run_id!r} is not a run id")) from error


async def timeout_of(transport: "Transport", run_id: UUID) -> RunTimeoutError:
    """Return that a run did not end in time, with what it waits for where that can be told at once."""
    detail = f"run {run_id} did not end in time"
    try:
        async with asyncio.timeout(LAST_LOOK_S):
            view = await transport.get(run_id)
    except (TimeoutError, TowpathError):
        view = None
    if view is not None and view.waits:
        detail = f"{detail}: it is {view.status} and waits for {view.waits[0]}"
    return RunTimeoutError(problem("timeout", detail, run_id=str(run_id)))

"""What `Client.submit` returns: what was accepted, with the methods of the client for that run."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol, Self, overload
from uuid import UUID

from pydantic import BaseModel, PrivateAttr

from towpath.errors import RefusedError
from towpath.tasks.outputs import Output
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import ActionDone, RunView
from towpath_contracts.tasks import RunAccepted
from towpath_readings.stream.live import StreamEvent
from towpath_readings.tool_calls import ToolCallRecord


class RunClient(Protocol):
    """What a submitted run asks of the client that submitted it."""

    async def get(self, run_id: UUID) -> RunView:
        """Return a run as it stands."""
        ...

    @overload
    async def result(self, run_id: UUID, timeout: str | float | None = None, *, as_: type[Output]) -> Output: ...

    @overload
    async def result(self, run_id: UUID, timeout: str | float | None = None) -> RunView: ...

    def events(self, run_id: UUID, after: int = 0, *, children: bool = False) -> AsyncIterator[LogEntry]:
        """Yield the events of a run."""
        ...

    def stream(
        self,
        run_id: UUID,
        *,
        detailed: bool,
        event_types: Iterable[str] | None,
        deltas: bool,
        children: bool,
    ) -> AsyncIterator[StreamEvent]:
        """Yield a run as it happens."""
        ...

    async def tool_calls(self, run_id: UUID, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that ran."""
        ...

    async def denied_calls(self, run_id: UUID, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that were refused."""
        ...

    async def cancel(self, run_id: UUID, reason: str = "") -> ActionDone:
        """Ask a run to stop."""
        ...


class HeldRun(RunAccepted):
    """What was accepted, with what asks for it; by what was accepted alone it is compared and pickled."""

    _holder: Any = PrivateAttr(default=None)

    @property
    def _held_by(self) -> Any:
        if self._holder is None:
            detail = f"this came from elsewhere without the client that submitted {self.run_id}"
            raise RefusedError(problem("request_invalid", detail, remedy="Ask a client: client.get(run_id)."))
        return self._holder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunAccepted) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash(self.run_id)

    def __getstate__(self) -> dict[Any, Any]:
        return {**super().__getstate__(), "__pydantic_private__": {"_holder": None}}

    def __deepcopy__(self, _memo: dict[int, Any] | None = None) -> Self:
        return self  # it can't be changed, and a client can't be copied


class SubmittedRun(HeldRun):
    """A run that was accepted; its methods are those of the client, for this run."""

    @classmethod
    def of(cls, accepted: BaseModel, client: RunClient) -> Self:
        """Return the run of an answer that has the fields of RunAccepted; its methods ask *client*."""
        run = cls.model_validate(accepted.model_dump())
        run._holder = client
        return run

    @property
    def _client(self) -> RunClient:
        client: RunClient = self._held_by
        return client

    async def get(self) -> RunView:
        """Return the run as it stands."""
        return await self._client.get(self.run_id)

    @overload
    async def result(self, timeout: str | float | None = None, *, as_: type[Output]) -> Output: ...

    @overload
    async def result(self, timeout: str | float | None = None) -> RunView: ...

    async def result(self, timeout: str | float | None = None, *, as_: type[Output] | None = None) -> RunView | Output:
        """Wait for the end and return the run, or with *as_* its answer as that; raises as `Client.result` does."""
        if as_ is None:
            return await self._client.result(self.run_id, timeout)
        return await self._client.result(self.run_id, timeout, as_=as_)

    def events(self, after: int = 0, *, children: bool = False) -> AsyncIterator[LogEntry]:
        """Yield every event after seq *after* once and in order, until the run has ended; as `Client.events`."""
        return self._client.events(self.run_id, after, children=children)

    def stream(
        self,
        *,
        detailed: bool = True,
        event_types: Iterable[str] | None = None,
        deltas: bool = False,
        children: bool = False,
    ) -> AsyncIterator[StreamEvent]:
        """Yield the run as it happens, in the words of a conversation; as `Client.stream`."""
        return self._client.stream(
            self.run_id, detailed=detailed, event_types=event_types, deltas=deltas, children=children
        )

    async def tool_calls(self, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that ran and have ended so far; as `Client.tool_calls`."""
        return await self._client.tool_calls(self.run_id, tool)

    async def denied_calls(self, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that were refused so far; as `Client.denied_calls`."""
        return await self._client.denied_calls(self.run_id, tool)

    async def cancel(self, reason: str = "") -> ActionDone:
        """Ask the run to stop. It has stopped when its status says so."""
        return await self._client.cancel(self.run_id, reason)

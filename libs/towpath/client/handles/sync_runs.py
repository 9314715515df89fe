"""A submitted run, and a gate that it waits at, for programs without asyncio: each method returns when it is done."""

from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import closing
from typing import Self, overload

from pydantic import PrivateAttr

from towpath.client.handles.loop_thread import LOOP
from towpath.client.handles.sync_methods import each
from towpath.client.streams import WaitingGate
from towpath.client.submitted_run import HeldRun, SubmittedRun
from towpath.tasks.outputs import Output
from towpath_contracts.base import JsonObject
from towpath_contracts.events.log import LogEntry
from towpath_contracts.runs.views import ActionDone, RunView
from towpath_readings.stream.live import RunStreamGate, RunStreamStatus, StreamEvent
from towpath_readings.tool_calls import ToolCallRecord


class SyncWaitingGate(RunStreamStatus):
    """The run waits for a person, as WaitingGate: `event.approve(reason="checked")`, without await."""

    gate: RunStreamGate
    _wrapped: WaitingGate = PrivateAttr()

    @classmethod
    def of(cls, event: StreamEvent) -> StreamEvent:
        """Return *event* itself, or a WaitingGate as what needs no await."""
        if not isinstance(event, WaitingGate):
            return event
        found = cls.model_validate(dict(event))
        found._wrapped = event
        return found

    def approve(self, *, reason: str = "", edit: JsonObject | None = None) -> ActionDone:
        """Let the call happen; with *edit* as it is but for these arguments."""
        return LOOP.wait(self._wrapped.approve(reason=reason, edit=edit))

    def deny(self, reason: str) -> ActionDone:
        """Refuse the call; the model sees *reason*."""
        return LOOP.wait(self._wrapped.deny(reason))

    def resolve(self, verdict: str, *, reason: str = "") -> ActionDone:
        """Settle a gate that takes another verdict than yes and no: one of `gate.verdicts`."""
        return LOOP.wait(self._wrapped.resolve(verdict, reason=reason))


def each_event(source: AsyncIterator[StreamEvent]) -> Generator[StreamEvent, None, None]:
    """Yield the events of *source*, those that wait for a person as SyncWaitingGate; `close()` ends the stream."""
    with closing(each(source)) as events:
        for event in events:
            yield SyncWaitingGate.of(event)


class SyncSubmittedRun(HeldRun):
    """What `SyncClient.submit` returns: a run that was accepted, with the methods of the client for it."""

    @classmethod
    def of(cls, run: SubmittedRun) -> Self:
        """Return *run* as what needs no await."""
        found = cls.model_validate(run.model_dump())
        found._holder = run
        return found

    @property
    def _wrapped(self) -> SubmittedRun:
        run: SubmittedRun = self._held_by
        return run

    @overload
    def result(self, timeout: str | float | None = None, *, as_: type[Output]) -> Output: ...

    @overload
    def result(self, timeout: str | float | None = None) -> RunView: ...

    def result(self, timeout: str | float | None = None, *, as_: type[Output] | None = None) -> RunView | Output:
        """Wait for the end and return the run, or with *as_* its answer as that; raises as `Client.result` does."""
        if as_ is None:
            return LOOP.wait(self._wrapped.result(timeout))
        return LOOP.wait(self._wrapped.result(timeout, as_=as_))

    def stream(
        self,
        *,
        detailed: bool = True,
        event_types: Iterable[str] | None = None,
        deltas: bool = False,
        children: bool = False,
    ) -> Generator[StreamEvent, None, None]:
        """Yield the run as it happens; as `SyncClient.stream`."""
        found = self._wrapped.stream(detailed=detailed, event_types=event_types, deltas=deltas, children=children)
        return each_event(found)

    def get(self) -> RunView:
        """Return the run as it stands."""
        return LOOP.wait(self._wrapped.get())

    def events(self, after: int = 0, *, children: bool = False) -> Generator[LogEntry, None, None]:
        """Yield every event after seq *after* once and in order, until the run has ended; as `SyncClient.events`."""
        return each(self._wrapped.events(after, children=children))

    def cancel(self, reason: str = "") -> ActionDone:
        """Ask the run to stop. It has stopped when its status says so."""
        return LOOP.wait(self._wrapped.cancel(reason))

    def tool_calls(self, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that ran and have ended so far; as `SyncClient.tool_calls`."""
        return LOOP.wait(self._wrapped.tool_calls(tool))

    def denied_calls(self, tool: str | None = None) -> list[ToolCallRecord]:
        """Return the calls that were refused so far; as `SyncClient.denied_calls`."""
        return LOOP.wait(self._wrapped.denied_calls(tool))

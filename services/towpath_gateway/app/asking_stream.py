"""Streams of a run that end where a person has to decide, for protocols whose clients answer with their next request.

From where the client is to the end of the run, or to what is asked. What the events are called is the protocol's.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol
from uuid import UUID

from starlette.requests import Request

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import Problem
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.run_reader import RunStreamReader
from towpath_gateway.app.single_run_stream import SingleRunStream
from towpath_gateway.core.api_keys import Principal
from towpath_readings.stream.deltas import DeltaEvent

MAX_ASKED = 16
"""Gates of runs below that are asked at once; others are asked after these."""


class AskingEvents(Protocol):
    """A run in the events of a protocol."""

    has_ended: bool

    def begin(self) -> list[JsonObject]:
        """Return the events before all others."""

    def of(self, entry: LogEntry) -> list[JsonObject]:
        """Return what the next entry of the log adds."""

    def piece(self, delta: DeltaEvent) -> list[JsonObject]:
        """Return what a piece of a model's answer adds, or that earlier ones are taken back."""

    def failed(self, why: Problem) -> list[JsonObject]:
        """Return the end of a stream that can't go on."""


class AskingStream(SingleRunStream):
    """The events of a run for a client."""

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        events: AskingEvents,
        *,
        decided: Collection[UUID] = (),
        after: int = 0,
        deltas: bool = True,
        headers: dict[str, str] | None = None,
    ) -> None:
        """The gates *decided* are not asked again: the client has just said its word, or that it has none."""
        super().__init__(dependencies, principal, run_id, after=after, deltas=deltas, headers=headers)
        self._events = events
        self._decided = frozenset(decided)

    async def _begin(self) -> bytes:
        return _sse(self._events.begin())

    def _failed(self, why: Problem) -> bytes:
        return _sse(self._events.failed(why))

    @property
    def _has_ended(self) -> bool:
        return self._events.has_ended

    def _framed(self, reader: RunStreamReader, entries: Sequence[LogEntry]) -> bytes:
        found = []
        for entry in entries:
            found += [event for piece in reader.superseded_by(entry) for event in self._events.piece(piece)]
            found += self._events.of(entry)
        return _sse(found + [event for piece in reader.new_deltas() for event in self._events.piece(piece)])

    async def _at_rest(self, reader: RunStreamReader) -> bytes:
        return _sse(await self._asks(reader))

    @abstractmethod
    async def _asks(self, reader: RunStreamReader) -> list[JsonObject]:
        """Return what is told of what waits for a person; where the events have ended with it, the client is asked."""


def site_of(dependencies: GatewayDependencies, request: Request) -> str:
    """Return where people find the gateway: where somebody said, else where the client found it."""
    return dependencies.settings.own_url.rstrip("/") or str(request.base_url).rstrip("/")


def _sse(events: Iterable[JsonObject]) -> bytes:
    """Return events as the client reads them: one data line each, without names or ids."""
    return b"".join(f"data: {canonical_json(event)}\n\n".encode() for event in events)

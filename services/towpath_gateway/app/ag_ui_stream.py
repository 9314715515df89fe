"""The stream of one AG-UI run: from where the client is to the end of the run, or to what a person has to decide."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import ExitStack
from uuid import UUID

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from towpath_contracts import rpc
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import GatePage, GateView, ListGates
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_fabric.clock import monotonic
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.event_stream import PING_S
from towpath_gateway.app.run_reader import RunStreamReader
from towpath_gateway.app.stream_pace import PageTurns
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.sse import PING
from towpath_readings.stream.live import RunStreamGate

_STANDING = frozenset({"waiting", "quarantined"})
"""Statuses in which something below a run may wait for a person."""

MAX_ASKED = 16
"""Gates of runs below that are asked at once; others are asked after these."""

_closing: set[asyncio.Task[None]] = set()
"""Readers that give back what they hold; a task that nobody holds may be gone before it has ended."""


class AgUiStream(StreamingResponse):
    """The events of a run for a client, which count as one of its streams."""

    media_type = "text/event-stream"

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        events: AgUiEvents,
        *,
        decided: Collection[UUID] = (),
        deltas: bool = True,
        headers: dict[str, str] | None = None,
    ) -> None:
        """At the gates *decided* the client has just said its word: they are not asked again."""
        super().__init__(self._sent(), headers={"X-Accel-Buffering": "no", **(headers or {})})
        self._dependencies = dependencies
        self._principal = principal
        self._run_id = run_id
        self._events = events
        self._decided = frozenset(decided)
        self._deltas = deltas
        self._turns: PageTurns | None = None
        self._arrived = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; raises ProblemError, which names the run, where there is no room any more."""
        with ExitStack() as held:
            try:
                held.enter_context(self._dependencies.stream_shares.held(self._principal))
            except ProblemError as error:
                raise ProblemError(error.problem.model_copy(update={"run_id": str(self._run_id)})) from error
            self._turns = held.enter_context(self._dependencies.stream_pace.stream_of(self._principal))
            held.enter_context(self._dependencies.metrics.streams.track_inprogress())
            await super().__call__(scope, receive, send)

    async def _sent(self) -> AsyncIterator[bytes]:
        assert self._turns is not None
        platform, project = self._dependencies.platform, self._principal.project
        reader = RunStreamReader(platform, project, self._run_id, self._arrived, self._turns, deltas=self._deltas)
        try:
            yield _frames(self._events.begin())
            await reader.open()
            async for frames in self._pieces(reader):
                yield frames
        except ProblemError as error:
            yield _frames(self._events.failed(error.problem))
        finally:
            # The task of a client that went away is cancelled at every await: what it holds is given back by another.
            closing = asyncio.create_task(reader.close())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
            await asyncio.shield(closing)

    async def _pieces(self, reader: RunStreamReader) -> AsyncIterator[bytes]:
        """Yield frames until the AG-UI run has ended, and pings while nothing is said."""
        stopping, sent = self._dependencies.platform.stopping, monotonic()
        while True:
            self._arrived.clear()
            if frames := _frames(await self._read(reader)):
                sent = monotonic()
                yield frames
            if self._events.has_ended or reader.has_ended:
                return
            if not reader.is_behind and (gates := await self._asked(reader)):
                yield _frames(self._events.interrupted(gates))
                return
            if stopping.is_set():
                raise ProblemError(problem("unavailable", "this gateway ends; the run goes on"))
            if reader.is_behind and reader.has_read:
                continue
            await reader.wait(max(0.0, min(reader.next_check, sent + PING_S) - monotonic()))
            if monotonic() - sent >= PING_S:
                sent = monotonic()
                yield PING

    async def _read(self, reader: RunStreamReader) -> list[JsonObject]:
        found = []
        for entry in await reader.read_new():
            found += [event for piece in reader.superseded_by(entry) for event in self._events.piece(piece)]
            found += self._events.of(entry)
        return found + [event for piece in reader.new_deltas() for event in self._events.piece(piece)]

    async def _asked(self, reader: RunStreamReader) -> list[RunStreamGate]:
        """Return what waits for a person: in the run, or below it where the key may see that."""
        own = [gate for gate in self._events.gates.values() if gate.gate_id not in self._decided]
        if own or reader.page is None or reader.page.status not in _STANDING:
            return own
        if "gates:read" not in self._principal.scopes or self._events.gates:
            return []
        request = ListGates(project=self._principal.project, root_run_id=self._run_id, paused=False, limit=MAX_ASKED)
        page: GatePage = await self._dependencies.platform.request(rpc.LIST_GATES, request)
        return [_below(gate) for gate in page.gates if gate.gate_id not in self._decided]


def site_of(dependencies: GatewayDependencies, request: Request) -> str:
    """Return where people find the gateway: where somebody said, else where the client found it."""
    return dependencies.settings.own_url.rstrip("/") or str(request.base_url).rstrip("/")


def _below(gate: GateView) -> RunStreamGate:
    """Return a gate of a run below; its call is none that this stream has told of."""
    known = gate.detail
    return RunStreamGate(
        gate_id=gate.gate_id,
        gate_type=gate.gate_type,
        tool=known.get("tool", ""),
        summary=summary_of_gate(known),
        arguments=known.get("args", {}),
        digest=known.get("digest", ""),
        rule=known.get("rule") or "",
        agent_key=known.get("agent", ""),
        verdicts=known.get("verdicts", ()),
        expires_at=gate.expires_at,
    )


def _frames(events: Iterable[JsonObject]) -> bytes:
    """Return events as the client reads them: one data line each, without names or ids."""
    return b"".join(f"data: {canonical_json(event)}\n\n".encode() for event in events)

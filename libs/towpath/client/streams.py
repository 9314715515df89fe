"""Turns a run's events into stream events, and raises for a failed run.

The events of each run in a tree come from its own log; a delta of a model's text comes where its part begins. What
waits for a person takes its verdict there: with the digest of the call that was told, so it settles that call and no
later one.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from pydantic import PrivateAttr

from towpath.client.resources import GateResource
from towpath.errors import RefusedError, RunFailedError
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import PlayedScriptEntry
from towpath_contracts.events.decision_events import DecisionReceived, DecisionRefused, DecisionRequestFailed
from towpath_contracts.events.log import AnyEvent, LogEntry, RunFinished
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.text import join_sentences
from towpath_readings.stream.deltas import DeltaEvent
from towpath_readings.stream.live import (
    BRIEF,
    EVENT_TYPES,
    LiveStream,
    RunStreamDelta,
    RunStreamGate,
    RunStreamStatus,
    RunStreamSuperseded,
    StreamEvent,
)
from towpath_readings.stream.tree import TreeEntry
from towpath_readings.unsuccessful_calls import refused_call, summaries_of_unsuccessful


class StreamEventBuilder:
    """Makes stream events of what a transport's `follow` yields for *run_id*, as `Client.stream` describes."""

    def __init__(self, run_id: UUID, *, detailed: bool, event_types: frozenset[str] | None) -> None:
        self.ended: RunFinished | None = None
        self._played, self._refused_at = "", ""
        self._refused: list[str] = []
        self._run_id = run_id
        self._detailed = detailed
        self._event_types = event_types
        self._delta_parts = (EVENT_TYPES if detailed else BRIEF) & (EVENT_TYPES if event_types is None else event_types)
        self._runs: dict[UUID, LiveStream] = {}

    def of(self, one: LogEntry | DeltaEvent) -> Iterator[StreamEvent]:
        """Yield what *one* adds."""
        if isinstance(one, RunStreamDelta | RunStreamSuperseded):
            if isinstance(one, RunStreamSuperseded) or one.part in self._delta_parts:
                yield one
            return
        run_id = one.run_id if isinstance(one, TreeEntry) else self._run_id
        if run_id == self._run_id:
            self._hear(one.event)
        stream = self._runs.get(run_id)
        if stream is None:
            stream = self._runs[run_id] = LiveStream(detailed=self._detailed, event_types=self._event_types)
        origin = {"run_id": run_id, "path": one.path} if isinstance(one, TreeEntry) else {}
        for event in stream.of(one):
            yield event.model_copy(update=origin) if origin else event

    def _hear(self, event: AnyEvent) -> None:
        """Take note of what is told of the run's end."""
        match event:
            case RunFinished():
                self.ended = event
            case DecisionReceived(script=played):
                self._played, self._refused_at = _entry(played), ""
            case DecisionRequestFailed(script=PlayedScriptEntry() as played):
                self._played = _entry(played)
            case DecisionRefused():
                self._refused_at = self._played
            case _:
                pass
        if (why := refused_call(event)) is not None:
            self._refused.append(f"{self._played}{why}")

    def raise_if_failed(self) -> None:
        """Raise RunFailedError for a run that has neither completed nor was cancelled.

        Of a script that is exhausted the entries that were refused are told: the first of them is where to begin.
        """
        ended = self.ended
        if ended is None or ended.status in ("completed", "cancelled"):
            return
        message = str(ended.final.get("message") or ended.reason)
        status = "" if ended.status == "failed" else f"{ended.status}, "
        is_played = ended.reason == "script_exhausted"
        detail = f"{status}{ended.reason}: {self._refused_at if is_played else ''}{message}"
        before = summaries_of_unsuccessful(self._refused if is_played else [], [])
        raise RunFailedError(problem("run_failed", join_sentences(detail, *before), run_id=str(self._run_id)))


def _entry(played: PlayedScriptEntry | None) -> str:
    return "" if played is None else f"entry {played.index + 1} of the script: "


def known_types(event_types: Iterable[str] | None) -> frozenset[str] | None:
    """Return the kinds of events that were asked for; raises RefusedError for one that there is not."""
    if event_types is None:
        return None
    wanted = frozenset(event_types)
    unknown = ", ".join(sorted(wanted - EVENT_TYPES))
    if unknown:
        known = ", ".join(sorted(EVENT_TYPES))
        raise RefusedError(problem("request_invalid", f"a stream has no {unknown}; it has {known}"))
    return wanted


class WaitingGate(RunStreamStatus):
    """The run waits for a person: `case WaitingGate(): await event.approve(reason="checked")`.

    Each verdict raises RefusedError where the caller may not give it, where somebody else was first (`gate_closed`),
    or where the call is no longer the one that was told. Over HTTP only.
    """

    gate: RunStreamGate
    _gates: GateResource = PrivateAttr()

    async def approve(self, *, reason: str = "", edit: JsonObject | None = None) -> ActionDone:
        """Let the call happen; with *edit* as it is but for these arguments."""
        if edit is not None:
            args = {**self.gate.arguments, **edit}
            return await self._gates.edit(self.gate.gate_id, args, reason=reason, digest=self._digest)
        return await self._gates.approve(self.gate.gate_id, reason=reason, digest=self._digest)

    async def deny(self, reason: str) -> ActionDone:
        """Refuse the call; the model sees *reason*."""
        return await self._gates.deny(self.gate.gate_id, reason, digest=self._digest)

    async def resolve(self, verdict: str, *, reason: str = "") -> ActionDone:
        """Settle a gate that takes another verdict than yes and no: one of `gate.verdicts`."""
        return await self._gates.resolve(self.gate.gate_id, verdict, reason=reason)

    @property
    def _digest(self) -> str | None:
        return self.gate.digest or None


def with_verdicts(event: StreamEvent, gates: GateResource) -> StreamEvent:
    """Return *event* itself, or as a WaitingGate that *gates* settle."""
    if not isinstance(event, RunStreamStatus) or event.gate is None:
        return event
    waiting = WaitingGate.model_validate(dict(event))
    waiting._gates = gates
    return waiting

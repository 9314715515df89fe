"""Which pieces of a model's text a viewer of a run is told, beside the log that it reads.

A viewer never has two answers before it. Of a request the call that began last is told, of a run the request that
was asked last; what was told of another is taken back by one event, and what comes late of it is dropped. Once the log
has the answer, everything comes from the log.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from towpath_contracts.decisions.decision import Finish, Instruction
from towpath_contracts.decisions.request import TokenDelta
from towpath_contracts.events import log as ev
from towpath_readings.stream.live import ACTIONS, DeltaStreamed, SupersededStreamed
from towpath_readings.stream.partial_decision import PartialDecision

REQUESTS_REMEMBERED = 64
"""Requests whose late pieces are known as such; a run asks one after the other."""

Told = DeltaStreamed | SupersededStreamed
Reason = Literal["asked_again", "refused", "ended"]


@dataclass(slots=True, kw_only=True)
class _ModelCall:
    """One call of a model whose pieces arrive. One that misses a piece is told no further."""

    request_id: UUID
    attempt: int
    writer: str
    step: int
    written: PartialDecision = field(default_factory=PartialDecision)
    heard: int = 0
    whole: bool = True
    told: set[str] = field(default_factory=set)


class TokenDeltaFilter:
    """What is told of the pieces of one run: give it every piece as it comes, and every entry of the log in order."""

    def __init__(self) -> None:
        self._over: deque[UUID] = deque(maxlen=REQUESTS_REMEMBERED)
        self._call: _ModelCall | None = None
        self._ended = False
        self._finishes = False

    def piece(self, delta: TokenDelta) -> tuple[Told, ...]:
        """Return what *delta* adds to the stream: pieces that can be read, after a word about what they replace."""
        if self._ended or delta.request_id in self._over or self._is_late(delta):
            return ()
        told: tuple[Told, ...] = ()
        call = self._call
        if call is None or (call.request_id, call.writer) != (delta.request_id, delta.writer):
            told, call = self._another(delta), self._begin(delta)
        if not call.whole or delta.index != call.heard:
            call.whole = False
            return told
        call.heard += 1
        return (*told, *self._read(call, delta))

    def entry(self, entry: ev.LogEntry) -> tuple[Told, ...]:
        """Return what *entry*, the next one of the log, takes back; it is told before the entry itself."""
        match entry.event:
            case ev.DecisionRequested():
                return self._asked(entry.event)
            case ev.DecisionReceived() | ev.DecisionMissed():
                return self._answered(entry.event)
            case ev.DecisionRefused() if self._is_answered:
                return self._drop("refused")
            case ev.InstructionIssued() if self._is_answered:
                return self._issued(entry.event.instruction)
            case ev.HandedOff() if self._finishes:
                return self._drop("refused")
            case ev.RunFinished():
                self._ended = True
                return self._drop(None if self._finishes and entry.event.status == "completed" else "ended")
            case _:
                return ()

    @property
    def _is_answered(self) -> bool:
        """Whether the log has the answer to the request that is told: its entries may come after later pieces."""
        return self._call is not None and self._call.request_id in self._over

    def _issued(self, instruction: Instruction) -> tuple[Told, ...]:
        """What was told as an answer stays while the run may end with it; calls and reasoning stay as they are."""
        if isinstance(instruction, Finish):
            self._finishes = True
            return ()
        answers = self._call is not None and "text" in self._call.told
        return self._drop("refused" if answers else None)

    def _is_late(self, delta: TokenDelta) -> bool:
        """Say whether a later call of the same request is being told: pieces of an earlier one begin nothing anew."""
        call = self._call
        if call is None or call.request_id != delta.request_id or call.writer == delta.writer:
            return False
        return delta.attempt < call.attempt or (delta.attempt == call.attempt and delta.index > 0)

    def _another(self, delta: TokenDelta) -> tuple[Told, ...]:
        if self._call is not None and self._call.request_id != delta.request_id:
            self._over.append(self._call.request_id)
        return self._drop("asked_again")

    def _begin(self, delta: TokenDelta) -> _ModelCall:
        self._call = _ModelCall(
            request_id=delta.request_id, attempt=delta.attempt, writer=delta.writer, step=delta.step
        )
        return self._call

    def _read(self, call: _ModelCall, delta: TokenDelta) -> tuple[Told, ...]:
        grown = call.written.add(delta.text)
        call.told.update(one.part for one in grown)
        return tuple(
            DeltaStreamed(
                step=delta.step,
                part=one.part,
                text=one.text,
                request_id=delta.request_id,
                attempt=delta.attempt,
                agent_key=delta.agent_key,
                call_index=one.call_index,
                tool=one.tool,
            )
            for one in grown
        )

    def _asked(self, event: ev.DecisionRequested) -> tuple[Told, ...]:
        """Another request is asked: what was told of the one before is over, unless the log lags behind the pieces."""
        call = self._call
        if call is None or event.request_id in {call.request_id, *self._over} or event.step < call.step:
            return ()
        if self._finishes:  # what judges the answer says nothing of it yet
            return self._drop("refused") if event.kind in ACTIONS else ()
        self._over.append(call.request_id)
        return self._drop("asked_again")

    def _answered(self, event: "ev.DecisionReceived | ev.DecisionMissed") -> tuple[Told, ...]:
        self._over.append(event.request_id)
        if self._call is None or self._call.request_id != event.request_id:
            return ()
        return self._drop("refused") if isinstance(event, ev.DecisionMissed) else ()

    def _drop(self, reason: Reason | None) -> tuple[Told, ...]:
        """Tell no more of the call; with a *reason* take back what was told of it, if anything was."""
        call, self._call = self._call, None
        self._finishes = False
        if call is None or not call.told or reason is None:
            return ()
        return (SupersededStreamed(step=call.step, request_id=call.request_id, attempt=call.attempt, reason=reason),)

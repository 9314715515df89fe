"""Decides which pieces of a model's text are sent to a viewer of a run, beside the log that it reads.

A viewer never sees two answers at a time. Sent is the call of a request that began last, and the request of a run that
was asked last; what was sent of another is taken back by one event, and what comes late of it is dropped. Once the log
has the answer, everything comes from the log.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from towpath_contracts.decisions.decision import FinishInstruction, Instruction
from towpath_contracts.decisions.request import TokenDelta
from towpath_contracts.events import log as ev
from towpath_readings.stream.live import ACTIONS, RunStreamDelta, RunStreamSuperseded
from towpath_readings.stream.partial_decision import PartialDecisionParser

REQUESTS_REMEMBERED = 64
"""Requests whose late pieces are known as such; a run asks one after the other."""

DeltaEvent = RunStreamDelta | RunStreamSuperseded
Reason = Literal["asked_again", "refused", "ended"]


@dataclass(slots=True, kw_only=True)
class _ModelCall:
    """One call of a model whose pieces arrive. One that misses a piece is not sent any further."""

    request_id: UUID
    attempt: int
    writer: str
    step: int
    written: PartialDecisionParser = field(default_factory=PartialDecisionParser)
    received: int = 0
    whole: bool = True
    sent: set[str] = field(default_factory=set)


class TokenDeltaFilter:
    """Selects the pieces of one run that are sent; takes each piece as it comes, and each entry of the log in order."""

    def __init__(self) -> None:
        self._over: deque[UUID] = deque(maxlen=REQUESTS_REMEMBERED)
        self._call: _ModelCall | None = None
        self._ended = False
        self._finishes = False

    def piece(self, delta: TokenDelta) -> tuple[DeltaEvent, ...]:
        """Return what *delta* adds to the stream: pieces that can be read, after an event about what they replace."""
        if self._ended or delta.request_id in self._over or self._is_late(delta):
            return ()
        events: tuple[DeltaEvent, ...] = ()
        call = self._call
        if call is None or (call.request_id, call.writer) != (delta.request_id, delta.writer):
            events, call = self._another(delta), self._begin(delta)
        if not call.whole or delta.index != call.received:
            call.whole = False
            return events
        call.received += 1
        return (*events, *self._read(call, delta))

    def entry(self, entry: ev.LogEntry) -> tuple[DeltaEvent, ...]:
        """Return what *entry*, the next one of the log, takes back; it is sent before the entry itself."""
        match entry.event:
            case ev.DecisionRequested():
                return self._asked(entry.event)
            case ev.DecisionReceived() | ev.DecisionRequestFailed():
                return self._answered(entry.event)
            case ev.DecisionPostponed():
                return self._postponed(entry.event)
            case ev.DecisionRefused() if self._is_answered:
                return self._drop("refused")
            case ev.InstructionIssued() if self._is_answered:
                return self._issued(entry.event.instruction)
            case ev.SwarmHandoffRequested() if self._finishes:
                return self._drop("refused")
            case ev.GateOpened() if entry.event.detail.get("holds") and entry.event.execution_id is None:
                return self._given_up()
            case ev.RunFinished():
                self._ended = True
                return self._drop(None if self._finishes and entry.event.status == "completed" else "ended")
            case _:
                return ()

    @property
    def _is_answered(self) -> bool:
        """Whether the log has the answer to the request that is sent: its entries may come after later pieces."""
        return self._call is not None and self._call.request_id in self._over

    def _issued(self, instruction: Instruction) -> tuple[DeltaEvent, ...]:
        """What was sent as an answer stays while the run may end with it; calls and reasoning stay as they are."""
        if isinstance(instruction, FinishInstruction):
            self._finishes = True
            return ()
        answers = self._call is not None and "text" in self._call.sent
        return self._drop("refused" if answers else None)

    def _is_late(self, delta: TokenDelta) -> bool:
        """Return whether a later call of the same request is being sent: pieces of an earlier one are dropped."""
        call = self._call
        if call is None or call.request_id != delta.request_id or call.writer == delta.writer:
            return False
        return delta.attempt < call.attempt or (delta.attempt == call.attempt and delta.index > 0)

    def _another(self, delta: TokenDelta) -> tuple[DeltaEvent, ...]:
        if self._call is not None and self._call.request_id != delta.request_id:
            self._over.append(self._call.request_id)
        return self._drop("asked_again")

    def _begin(self, delta: TokenDelta) -> _ModelCall:
        self._call = _ModelCall(
            request_id=delta.request_id, attempt=delta.attempt, writer=delta.writer, step=delta.step
        )
        return self._call

    def _read(self, call: _ModelCall, delta: TokenDelta) -> tuple[DeltaEvent, ...]:
        grown = call.written.add(delta.text)
        call.sent.update(one.part for one in grown)
        return tuple(
            RunStreamDelta(
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

    def _asked(self, event: ev.DecisionRequested) -> tuple[DeltaEvent, ...]:
        """Another request is asked: what was sent of the one before is over, unless the log lags behind the pieces."""
        call = self._call
        if call is None or event.request_id in {call.request_id, *self._over} or event.step < call.step:
            return ()
        if self._finishes:  # an assessment of the answer is asked for: it is not refused yet
            return self._drop("refused") if event.kind in ACTIONS else ()
        self._over.append(call.request_id)
        return self._drop("asked_again")

    def _answered(self, event: "ev.DecisionReceived | ev.DecisionRequestFailed") -> tuple[DeltaEvent, ...]:
        self._over.append(event.request_id)
        if self._call is None or self._call.request_id != event.request_id:
            return ()
        return self._drop("refused") if isinstance(event, ev.DecisionRequestFailed) else ()

    def _postponed(self, event: ev.DecisionPostponed) -> tuple[DeltaEvent, ...]:
        """An attempt brought no answer: what was sent of it goes now. The next one may be hours away, or whole."""
        call = self._call
        if call is None or call.request_id != event.request_id or call.attempt > event.attempt:
            return ()
        return self._drop("asked_again")

    def _given_up(self) -> tuple[DeltaEvent, ...]:
        """Somebody holds the run: no answer is waited for, and it is asked anew once nobody does."""
        if self._call is None:
            return ()
        self._over.append(self._call.request_id)
        return self._drop("asked_again")

    def _drop(self, reason: Reason | None) -> tuple[DeltaEvent, ...]:
        """Send no more of the call; with a *reason* take back what was sent of it, if anything was."""
        call, self._call = self._call, None
        self._finishes = False
        if call is None or not call.sent or reason is None:
            return ()
        return (RunStreamSuperseded(step=call.step, request_id=call.request_id, attempt=call.attempt, reason=reason),)

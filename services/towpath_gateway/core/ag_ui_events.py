"""A run in the events of AG-UI 1.0 (https://docs.ag-ui.com), which browsers and agent clients draw as they come.

An AG-UI run ends where a person has to decide, with what is asked as its interrupts; another one answers them and goes
on. So one run here may be several there: each is given the events after those that the one before was given. Texts are
sent while they are written. What a model takes back stays in its message, which `towpath.superseded` names.
"""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events import log as ev
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.run_control import NO_QUESTIONS
from towpath_contracts.text import join_sentences
from towpath_gateway.core.gate_texts import call_question, verdicts_of
from towpath_gateway.core.own_values import OWN
from towpath_readings.stream import live
from towpath_readings.stream.deltas import DeltaEvent

PROTOCOL = "1.0"

CallsIn = Callable[[Any, JsonObject | None], list[JsonObject]]
"""Returns the calls that an answer asks its caller for, by the schema of its task: name and arguments of each."""


class AgUiEvents:
    """Turns the log of a run, read from its beginning, into the events of one AG-UI run."""

    def __init__(
        self,
        run_id: UUID,
        network: str,
        *,
        thread: str = "",
        name: str = "",
        state: Any = None,
        after: int = 0,
        site: str = "",
        calls_in: CallsIn = lambda _final, _schema: [],
    ) -> None:
        """*thread* and *name* are how the client calls the conversation and this run, *state* is the client's own.

        The events up to the seq *after* are not sent again; *site* is where people find the gateway.
        """
        self.has_ended = False
        self.gates: dict[UUID, live.RunStreamGate] = {}
        """What waits for a person, by its log."""
        self.seq = 0
        self._run_id = run_id
        self._ids = {"threadId": thread or str(run_id), "runId": name or str(run_id)}
        self._own: JsonObject = {"run_id": str(run_id), "network": network, "status": "starting", "step": 0}
        self._state = {} if state is None else state
        self._after = after
        self._site = site
        self._calls_in = calls_in
        self._live = live.LiveStream()
        self._steps: list[str] = []
        self._message: str | None = None
        self._texts: list[str] = []
        self._usage: dict[str, JsonObject] = {}
        self._final: Any = None
        self._schema: JsonObject | None = None
        self._wanted: list[JsonObject] = []

    def begin(self) -> list[JsonObject]:
        """Return the events before all others."""
        begun = [_event("RUN_STARTED", **self._ids, protocolVersion=PROTOCOL, metadata={OWN: dict(self._own)})]
        if isinstance(self._state, dict):
            begun.append(_event("STATE_SNAPSHOT", snapshot={**self._state, OWN: dict(self._own)}))
        return begun

    def of(self, entry: ev.LogEntry) -> list[JsonObject]:
        """Return what *entry*, the next one of the log, adds."""
        event = entry.event
        self.seq = entry.seq
        if isinstance(event, ev.RunCreated):
            self._schema = event.response_schema
        if isinstance(event, ev.RunFinished):
            self._final, self._wanted = event.final, self._calls_in(event.final, self._schema)
        if isinstance(event, ev.GateClosed):
            self.gates.pop(event.gate_id, None)
        items = self._live.of(entry)
        for item in items:
            if isinstance(item, live.RunStreamStatus) and item.gate and item.gate.gate_type not in NO_QUESTIONS:
                self.gates[item.gate.gate_id] = item.gate
        if entry.seq <= self._after and not isinstance(event, ev.RunFinished):
            return []  # how it ended is always told: a stream has to end
        return [one for item in items for one in self._item(item)]

    def piece(self, delta: DeltaEvent) -> list[JsonObject]:
        """Return what a piece of a model's answer adds, or that earlier ones are taken back."""
        if isinstance(delta, live.RunStreamSuperseded):
            return self._taken_back(delta.reason)
        if delta.part != "text" or self.has_ended:
            return []
        name = f"{delta.request_id}-{delta.attempt}"
        begun = [] if self._message == name else [*self._closed_message(), self._begun_message(name)]
        self._texts.append(delta.text)
        return [*begun, _event("TEXT_MESSAGE_CONTENT", messageId=name, delta=delta.text)]

    def interrupted(self, gates: list[live.RunStreamGate]) -> list[JsonObject]:
        """Return the end of an AG-UI run whose run here waits at *gates*."""
        asked = [interrupt_of(gate, self._run_id, self.seq, self._site) for gate in gates]
        return [*self._told("waiting_for_person"), *self._ended(outcome={"type": "interrupt", "interrupts": asked})]

    def failed(self, why: Problem) -> list[JsonObject]:
        """Return the end of a stream that can't go on, whatever becomes of the run."""
        self.has_ended = True
        message = join_sentences(why.detail or why.title, why.remedy)
        return [_event("RUN_ERROR", message=message, code=why.code, metadata={OWN: dict(self._own)})]

    def _item(self, item: live.StreamEvent) -> Iterator[JsonObject]:
        match item:
            case live.RunStreamStepBoundary():
                yield from self._step(item)
            case live.RunStreamReasoning():
                yield from _reasoning(f"reasoning-{self._run_id}-{item.seq}", item.text)
            case live.RunStreamToolCall():
                yield from _call(str(item.call_id), item.tool, item.arguments)
            case live.RunStreamToolResult():
                yield _result(item)
            case live.RunStreamAnswer():
                yield from self._answer(item)
            case live.RunStreamUsage():
                self._spent(item)
            case live.RunStreamError():
                yield from self._error(item)
            case live.RunStreamStatus():
                yield from self._status(item)
            case _:
                return

    def _step(self, item: live.RunStreamStepBoundary) -> Iterator[JsonObject]:
        name = f"{item.agent_key or 'step'} {item.step}"
        if item.phase == "started":
            self._steps.append(name)
            yield _event("STEP_STARTED", stepName=name)
            yield from self._told(self._own["status"], step=item.step)
        elif name in self._steps:
            self._steps.remove(name)
            yield _event("STEP_FINISHED", stepName=name)

    def _answer(self, item: live.RunStreamAnswer) -> Iterator[JsonObject]:
        """Yield the answer whole, or what is left of it; none where the caller is asked for calls instead."""
        if self._wanted:
            yield from self._taken_back("refused")
            for place, call in enumerate(self._wanted, 1):
                yield from _call(_wanted_id(self._run_id, place), str(call["name"]), call["arguments"])
            return
        sent = "".join(self._texts)
        if self._message is not None and not item.text.startswith(sent):
            yield from self._taken_back("refused")
            sent = ""
        if self._message is None:
            yield self._begun_message(f"answer-{self._run_id}-{item.seq}")
        if rest := item.text[len(sent) :]:
            yield _event("TEXT_MESSAGE_CONTENT", messageId=self._message, delta=rest)
        yield from self._closed_message()

    def _status(self, item: live.RunStreamStatus) -> Iterator[JsonObject]:
        if self.has_ended:
            return
        yield from self._told(item.status)
        if item.status == "completed":
            named = [_wanted_id(self._run_id, place) for place in range(1, len(self._wanted) + 1)]
            pending = {"pendingToolCallIds": named} if named else {}
            yield from self._ended(result=self._final, outcome={"type": "success", **pending})
        elif item.status == "cancelled":
            yield from self._ended(outcome={"type": "cancelled"})

    def _error(self, item: live.RunStreamError) -> Iterator[JsonObject]:
        if item.recoverable:
            yield _event("CUSTOM", name=f"{OWN}.error", value={"code": item.code, "message": item.message})
            return
        self.has_ended = True
        yield from self._closed_message()
        yield _event("RUN_ERROR", message=item.message, code=item.code, **self._used())

    def _ended(self, **more: Any) -> Iterator[JsonObject]:
        self.has_ended = True
        yield from self._closed_message()
        while self._steps:
            yield _event("STEP_FINISHED", stepName=self._steps.pop())
        yield _event("RUN_FINISHED", **self._ids, **more, **self._used())

    def _told(self, status: str, **more: Any) -> Iterator[JsonObject]:
        """Yield how the state changes, where it does."""
        changed = {name: value for name, value in {"status": status, **more}.items() if self._own[name] != value}
        self._own |= changed
        if changed and isinstance(self._state, dict):
            delta = [{"op": "replace", "path": f"/{OWN}/{name}", "value": value} for name, value in changed.items()]
            yield _event("STATE_DELTA", delta=delta)

    def _begun_message(self, name: str) -> JsonObject:
        self._message, self._texts = name, []
        return _event("TEXT_MESSAGE_START", messageId=name, role="assistant")

    def _closed_message(self) -> list[JsonObject]:
        name, self._message, self._texts = self._message, None, []
        return [] if name is None else [_event("TEXT_MESSAGE_END", messageId=name)]

    def _taken_back(self, reason: str) -> list[JsonObject]:
        """Return that the message that is being written is none of the answer."""
        name = self._message
        if name is None:
            return []
        value = {"messageId": name, "reason": reason}
        return [*self._closed_message(), _event("CUSTOM", name=f"{OWN}.superseded", value=value)]

    def _spent(self, item: live.RunStreamUsage) -> None:
        counted = self._usage.setdefault(item.model, {"model": item.model} if item.model else {})
        used = item.usage
        for name, tokens in (
            ("inputTokens", used.input_tokens),
            ("outputTokens", used.output_tokens),
            ("totalTokens", used.input_tokens + used.output_tokens),
            ("cachedInputTokens", used.cached_tokens),
            ("cacheWriteInputTokens", used.cache_write_tokens),
        ):
            counted[name] = counted.get(name, 0) + tokens

    def _used(self) -> JsonObject:
        return {"usage": list(self._usage.values())} if self._usage else {}


def interrupt_of(gate: live.RunStreamGate, run_id: UUID, seq: int, site: str) -> JsonObject:
    """Return what is asked at a gate; the id says all that an answer needs, so that nothing is kept until then."""
    name = f"{run_id}:{seq}:{gate.gate_id}" + (f":{gate.digest}" if gate.digest else "")
    verdicts = list(verdicts_of(gate.verdicts))
    url = f"{site}/approvals/{gate.gate_id}"
    own = gate.model_dump(mode="json", exclude_defaults=True) | {"url": url}
    asked: JsonObject = {
        "id": name,
        "reason": "tool_call" if gate.tool else "confirmation",
        "message": call_question(gate.gate_type, gate.tool, gate.summary, gate.arguments or None, url),
        "responseSchema": {
            "type": "object",
            "properties": {
                "verdict": {"type": "string", "enum": verdicts},
                "reason": {"type": "string", "description": "Needed to deny.", "maxLength": 2_000},
                "editedArgs": {"type": "object", "description": "All arguments, where others are approved."},
            },
            "required": ["verdict"],
        },
        "expiresAt": gate.expires_at.isoformat(),
        "metadata": {OWN: own},
    }
    return asked | ({"toolCallId": str(gate.call_id)} if gate.call_id is not None else {})


def _event(kind: str, **body: Any) -> JsonObject:
    return {"type": kind, **body}


def _wanted_id(run_id: UUID, place: int) -> str:
    return f"call_{place}_{run_id.hex}"


def _reasoning(name: str, text: str) -> Iterator[JsonObject]:
    yield _event("REASONING_START", messageId=name)
    yield _event("REASONING_MESSAGE_START", messageId=name, role="reasoning")
    yield _event("REASONING_MESSAGE_CONTENT", messageId=name, delta=text)
    yield _event("REASONING_MESSAGE_END", messageId=name)
    yield _event("REASONING_END", messageId=name)


def _call(name: str, tool: str, arguments: Any) -> Iterator[JsonObject]:
    yield _event("TOOL_CALL_START", toolCallId=name, toolCallName=tool)
    yield _event("TOOL_CALL_ARGS", toolCallId=name, delta=canonical_json(arguments))
    yield _event("TOOL_CALL_END", toolCallId=name)


def _result(item: live.RunStreamToolResult) -> JsonObject:
    shown = item.error if not item.success else "" if item.result is None else live.answer_text(item.result)
    own = {"success": item.success, "duration_ms": item.duration_ms}
    names = {"messageId": f"result-{item.call_id}", "toolCallId": str(item.call_id), "role": "tool"}
    return _event("TOOL_CALL_RESULT", **names, content=shown, metadata={OWN: own})

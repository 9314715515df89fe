"""A run as a stream of A2A 1.0: the task as it stands, then how its status and its answer change.

The answer is sent while it is written, as pieces of one artifact. What a model takes back is replaced: the next piece
does not append. A stream ends with the task, or where it asks for the caller's word; while others have to decide it
stays open, since nothing would tell the caller that they have.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.run_control import NO_QUESTIONS
from towpath_gateway.core import a2a_tasks as tasks
from towpath_gateway.core.a2a_errors import rpc_failure
from towpath_gateway.core.own_values import OWN
from towpath_readings.stream import live
from towpath_readings.stream.deltas import DeltaEvent


class A2aEvents:
    """Turns the log of a run, read from its beginning, into the answers of one streaming call."""

    def __init__(self, call_id: Any, run_id: UUID, task: JsonObject, *, after: int = 0) -> None:
        """*task* is how it stands at the seq *after*: what was before is not told again."""
        self._state = task["status"]["state"]
        self.has_ended = self._state in tasks.ENDED
        self.gates: dict[UUID, live.RunStreamGate] = {}
        """What waits for a person, by its log."""
        self._call_id = call_id
        self._run_id = run_id
        self._task = task
        self._context = task["contextId"]
        self._after = after
        self._live = live.LiveStream()
        self._sent: list[str] = []
        self._is_begun = False
        self._told: frozenset[tuple[UUID, str | None, bool]] = frozenset()
        """The questions of the last status."""

    def begin(self) -> list[JsonObject]:
        """Return the answer before all others."""
        return [self._answer(task=self._task)]

    def of(self, entry: ev.LogEntry) -> list[JsonObject]:
        """Return what *entry*, the next one of the log, adds."""
        event = entry.event
        if self.has_ended:
            return []
        if isinstance(event, ev.GateClosed):
            self.gates.pop(event.gate_id, None)
        items = self._live.of(entry)
        for item in items:
            if isinstance(item, live.RunStreamStatus) and item.gate and item.gate.gate_type not in NO_QUESTIONS:
                self.gates[item.gate.gate_id] = item.gate
        if isinstance(event, ev.RunFinished):
            return list(self._finished(event, entry.at))
        if entry.seq <= self._after:
            return []
        return [one for item in items for one in self._item(item, entry.at)]

    def piece(self, delta: DeltaEvent) -> list[JsonObject]:
        """Return what a piece of a model's answer adds; of one that is taken back the next piece takes the place."""
        if isinstance(delta, live.RunStreamSuperseded):
            self._sent, self._is_begun = [], False
            return []
        if delta.part != "text" or self.has_ended or not delta.text:
            return []
        self._sent.append(delta.text)
        return [self._artifact([tasks.text_part(delta.text)], last=False)]

    def waiting(self, questions: Sequence[tasks.GateQuestion], site: str) -> list[JsonObject]:
        """Return that the run waits for *questions*, once; where the caller may decide the stream ends with it."""
        asked = frozenset((one.gate.gate_id, one.gate.detail.get("digest"), one.may_decide) for one in questions)
        if asked == self._told:
            return []
        self._told = asked
        status = tasks.waiting_status(self._run_id, self._context, questions, site)
        self._state = status["state"]
        self.has_ended = self._state == tasks.INPUT_REQUIRED
        return [self._update(status)]

    def resumed(self, at: datetime) -> list[JsonObject]:
        """Return that the run is at work again, where the last status says that it waits for others."""
        return [self._works(at)] if self._state == tasks.AUTH_REQUIRED else []

    def failed(self, why: Problem) -> list[JsonObject]:
        """Return the end of a stream that can't go on, whatever becomes of the run."""
        self.has_ended = True
        return [rpc_failure(self._call_id, why.of_run(self._run_id))]

    def _item(self, item: live.StreamEvent, at: datetime) -> Iterator[JsonObject]:
        match item:
            case live.RunStreamToolCall():
                own = {"call_id": str(item.call_id), "tool": item.tool, "agent": item.agent_key}
                yield self._works(at, f"calls {item.tool}", {OWN: own})
            case live.RunStreamStatus(status="running" | "waiting_for_tool"):
                if self._state != tasks.WORKING and not self.gates:
                    yield self._works(at)
            case _:
                return

    def _works(self, at: datetime, text: str = "", metadata: JsonObject | None = None) -> JsonObject:
        self._state, self._told = tasks.WORKING, frozenset()  # what still waits is told again after it
        status = tasks.task_status(self._run_id, self._context, self._state, at, text=text)
        return self._update(status, **({"metadata": metadata} if metadata else {}))

    def _finished(self, event: ev.RunFinished, at: datetime) -> Iterator[JsonObject]:
        self.has_ended = True
        if event.status == "completed" and event.final is not None:
            yield self._whole(event.final)
        told = "" if event.status == "completed" else str(event.final.get("message") or event.reason)
        state = tasks.state_of(event.status)
        yield self._update(tasks.task_status(self._run_id, self._context, state, at, text=told))

    def _whole(self, final: Any) -> JsonObject:
        """Return what is left of the answer; all of it where what was sent is not its beginning."""
        (part,) = tasks.answer_artifact(self._run_id, final)["parts"]
        sent = "".join(self._sent)
        if self._is_begun and str(part.get("text", "")).startswith(sent) and "text" in part:
            return self._artifact([tasks.text_part(part["text"][len(sent) :])], last=True)
        self._is_begun = False
        return self._artifact([part], last=True)

    def _artifact(self, parts: list[JsonObject], *, last: bool) -> JsonObject:
        artifact = {"artifactId": tasks.artifact_id(self._run_id), "name": "answer", "parts": parts}
        append, self._is_begun = self._is_begun, True
        return self._answer(
            artifactUpdate={
                "taskId": str(self._run_id),
                "contextId": self._context,
                "artifact": artifact,
                "append": append,
                "lastChunk": last,
            }
        )

    def _update(self, status: JsonObject, **more: Any) -> JsonObject:
        names = {"taskId": str(self._run_id), "contextId": self._context}
        return self._answer(statusUpdate={**names, "status": status, **more})

    def _answer(self, **result: JsonObject) -> JsonObject:
        return {"jsonrpc": "2.0", "id": self._call_id, "result": result}

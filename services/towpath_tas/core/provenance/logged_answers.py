"""What other agents and internal tools have answered a run, by the run's own log.

An answer is in the log before any model sees it. The ledger has the outcome of an internal call later, and of a child
run that answers no call (a specialist) it never has any. So what is copied from an answer is looked for in the log: no
call can be asked for so soon that its answer is not there. Nobody vouches for an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS, PLATFORM_WORKER
from towpath_tas.core.provenance.value_leaves import ValueSource

CHILD_STARTED, CHILD_ENDED, CALL_FINISHED = "child_started", "child_ended", "tool_call_finished"
NOTE_GIVEN = "note_given"

OTHER_AGENT = "agent"
"""The source of an answer where the log doesn't say whose it is."""

NOTE = "note"
"""The source of what a person has told the run from outside: only a task vouches."""


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """An answer: what was returned, or the text of a failure; `step` is that of the run which was answered.

    `parts` are texts of an output that the run had before, read once more: their `source` is what returned it.
    `children` are the runs whose agents have answered.
    """

    source: ValueSource
    step: int
    result: Any = None
    failure: str = ""
    parts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


class EndedChild(NamedTuple):
    """A child run that has ended, and the step of the run that it was asked in."""

    child_id: str
    step: int


class AnswersOfRun:
    """Reads answers in the events of one log, which are given in their order; an event may be given again.

    `seq` is that of the last event that was taken whole.
    """

    def __init__(self) -> None:
        self.seq = 0
        self._asked: dict[str, str] = {}
        self._of_calls: dict[str, tuple[str, ...]] = {}

    def taken(self, seq: int) -> None:
        """Note that the event *seq* was taken, with what it answers."""
        self.seq = max(self.seq, seq)

    def read(self, event: Mapping[str, Any]) -> LoggedAnswer | None:
        """Return what *event* answers, or None where it answers nothing."""
        kind = event.get("type")
        if kind == CHILD_STARTED:
            self._note_asked(event)
        elif kind == NOTE_GIVEN:
            step = int(event.get("step") or 0)
            return LoggedAnswer(ValueSource(NOTE, step), step, failure=str(event.get("text") or ""))
        elif kind == CHILD_ENDED:
            return self._answer_of_child(event)
        elif kind == CALL_FINISHED and event.get("worker") == PLATFORM_WORKER:
            answer = _outcome_of_call(event)
            return replace(answer, children=self._of_calls.get(str(event.get("execution_id")), ()))
        return None

    def _note_asked(self, event: Mapping[str, Any]) -> None:
        """Remember who is asked; of a child that answers a call the outcome of that call is the answer."""
        task, child = event.get("task") or {}, str(event.get("child_id"))
        call = task.get("execution_id")
        self._asked[child] = "" if call else f"agent:{task.get('agent_key')}"
        if call and child not in (known := self._of_calls.get(str(call), ())):
            self._of_calls[str(call)] = (*known, child)

    def _answer_of_child(self, event: Mapping[str, Any]) -> LoggedAnswer | None:
        child_id, step = str(event.get("child_id")), int(event.get("step") or 0)
        agent = self._asked.get(child_id, OTHER_AGENT)
        source = ValueSource(agent, step)
        return LoggedAnswer(source, step, result=event.get("final"), children=(child_id,)) if agent else None


def ended_child(event: Mapping[str, Any]) -> EndedChild | None:
    """Return the child run whose end *event* tells, or None where it tells none."""
    if event.get("type") != CHILD_ENDED:
        return None
    return EndedChild(str(event.get("child_id")), int(event.get("step") or 0))


def _outcome_of_call(event: Mapping[str, Any]) -> LoggedAnswer:
    step, failure = int(event.get("step") or 0), event.get("failure") or {}
    said = failure_text(failure)
    result = event.get("result")
    if event.get("tool") in OUTPUT_TOOLS and isinstance(result, Mapping):
        source = ValueSource(str(result.get("tool")), int(result.get("step") or 0))
        return LoggedAnswer(source, step, parts=_parts_of(result))
    return LoggedAnswer(ValueSource(str(event.get("tool")), step), step, result=event.get("result"), failure=said)


def _parts_of(result: Mapping[str, Any]) -> tuple[str, ...]:
    found = [result.get("text"), *(match.get("text") for match in result.get("matches") or ())]
    return tuple(text for text in found if isinstance(text, str))


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return what a model reads of a failure: its code too is what a worker wrote."""
    return " ".join(str(failure[part]) for part in ("code", "message", "hint") if failure.get(part))

"""What happened in a run, one line per thing that matters, from its events.

A line says who did what and how it ended; texts of models, tools and people are shown cleaned and shortened.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from towpath.cli.runs.told_causes import ToldCauses
from towpath.cli.shared.text import cut_words, one_line, shorten, sinks_first
from towpath_contracts.budgets import format_amount
from towpath_contracts.decisions.decision import (
    AbandonInstruction,
    AskPersonInstruction,
    CallToolsInstruction,
    FinishInstruction,
    Instruction,
    ToolCall,
    TransferInstruction,
)
from towpath_contracts.events import log as ev
from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.text import counted
from towpath_contracts.tools.call_summaries import summary_of_gate

_DONE, _WAITS, _FAILED, _NOTE, _UNCLEAR = "✓", "◐", "✕", "·", "?"
_MORE = " "
"""Of what belongs to the line before."""
_STYLES = {_DONE: "green", _WAITS: "yellow", _FAILED: "red", _NOTE: "dim", _UNCLEAR: "magenta", _MORE: "yellow"}
_CLOSED = {
    "approved": _DONE,
    "happened": _DONE,
    "retry": _DONE,
    "settled": _DONE,
    "resumed": _DONE,
    "did_not_happen": _NOTE,
    "void": _NOTE,
}
"""How the end of a wait is shown; denied and expired as what they are."""
WIDTH = 96

CAUSE_WIDTH = 1_000
"""Of why something failed or was refused: it is folded on a narrow terminal, and cut only where a tool floods it."""

NOTE_LEAST = 20
"""Columns that what happened is folded into at least, however long the names before it are."""

CALL_WIDTH = 48
"""Of the arguments of a call, beside its tool."""

REASON_WIDTH = 240
"""Of the note for the person who decides."""


class EventLine(NamedTuple):
    """One line: a mark that needs no colour to be understood, who, what, and a note beside it."""

    mark: str
    who: str
    what: str
    note: str = ""

    @property
    def style(self) -> str:
        """The colour of the mark."""
        return _STYLES[self.mark]

    def __str__(self) -> str:
        text = f"{self.mark} {self.who:<8} {self.what}"
        return f"{text:<60}  {self.note}" if self.note else text

    def folded(self, width: int) -> list[str]:
        """Return it in lines of at most *width* columns, folded between words, with the note on lines of its own.

        What goes on is further in than any line begins, so that nothing a model wrote can look like a line.
        """
        from towpath.cli.shared.table import fold_words  # no list of runs needs it

        if len(str(self)) <= width:
            return [str(self)]
        start = f"{self.mark} {self.who:<8} "
        room = max(NOTE_LEAST, width - len(start) - 2)
        first, *more = [line for text in (self.what, self.note) for line in fold_words(text, room)]
        return [f"{start}{first}", *(f"{' ' * len(start)}  {line}" for line in more if line)]


@dataclass(slots=True)
class EventFormatter:
    """Turns a run's events into lines, in order; remembers which call an outcome belongs to."""

    agent: str = ""
    calls: dict[UUID, ToolCall] = field(default_factory=dict)
    decided: ev.DecisionReceived | None = None
    causes: ToldCauses = field(default_factory=ToldCauses)
    models: set[str] = field(default_factory=set)

    @property
    def plays_script(self) -> bool:
        """Whether every decision so far was played from a script, and no model was asked."""
        return bool(self.models) and all(model.startswith("scripted") for model in self.models)

    def lines(self, event: ev.AnyEvent) -> list[EventLine]:
        """Return what to show for *event*; nothing for events that only the machine needs."""
        match event:
            case ev.DecisionRequested():
                self.agent = event.agent_key
                self.models.add(event.model)
            case ev.DecisionReceived():
                self.decided = event
                self.causes.hear(event)
            case ev.InstructionIssued():
                return self._instruction_lines(event.instruction)
            case ev.ToolCallEdited():
                asked = self.calls.get(event.execution_id)
                if asked is not None:  # from here on the call is what was executed
                    self.calls[event.execution_id] = asked.model_copy(update={"args": event.args})
                return [EventLine(_NOTE, event.by, f"changed the call: {event.tool} {shorten(event.args, 60)}")]
            case ev.ToolCallFinished():
                return [self._call_line(event)]
            case ev.ToolCallDenied():
                return self._denied_lines(event)
            case ev.GateOpened():
                return self._gate_lines(event)
            case ev.GateClosed():
                mark = _CLOSED.get(event.verdict, _FAILED)
                text = f": {one_line(event.reason, 60)}" if event.reason else ""
                return [EventLine(mark, event.by or "gate", f"{event.verdict}{text}")]
            case _:
                return self._other_lines(event)
        return []

    def _other_lines(self, event: ev.AnyEvent) -> list[EventLine]:
        match event:
            case ev.RunForked():
                parent = event.parent
                return [EventLine(_NOTE, event.by or "towpath", f"forks {parent.run_id} from step {parent.step}")]
            case ev.DecisionRequestFailed():
                note = one_line(self.causes.of_failure(event), CAUSE_WIDTH)
                return [EventLine(_FAILED, event.agent_key, f"no decision: {event.code}", note)]
            case ev.DecisionRefused():
                note = one_line(self.causes.of_refusal(event), CAUSE_WIDTH)
                return [EventLine(_NOTE, event.agent_key, f"asked again: {event.code}", note)]
            case ev.LoopDetected():
                return [
                    EventLine(
                        _NOTE, self.agent, f"repeats itself ({event.detector}, {event.count} times)", event.action
                    )
                ]
            case ev.WatchdogReported() | ev.BudgetRefused():
                return [_warning_line(event)]
            case ev.NoteAdded() | ev.NoteGiven() | ev.ConfidenceRequested():
                return [_note_line(event)]
            case (
                ev.StepResultValidated()
                | ev.ProgressMeasured()
                | ev.GoalConfidenceMeasured()
                | ev.DenialEscalated()
                | ev.BackedOff()
            ):
                return [_goal_line(event)]
            case ev.CancelAccepted():
                return [EventLine(_FAILED, event.by or "towpath", "cancels", one_line(event.reason, 60))]
            case ev.RunQuarantined():
                return [EventLine(_FAILED, "towpath", f"parked: {event.code}", one_line(event.message, CAUSE_WIDTH))]
            case _:
                return _progress_lines(event)

    def _instruction_lines(self, instruction: Instruction) -> list[EventLine]:
        note = self._cost()
        match instruction:
            case CallToolsInstruction(calls=calls):
                self.calls |= {call.execution_id: call for call in calls}
                names = ", ".join(call.tool for call in calls)
                return [EventLine(_DONE, self.agent, f"decides to call {names}", note)]
            case TransferInstruction(target=target):
                line = EventLine(_DONE, self.agent, f"hands over to {target}", note)
                self.agent = target
                return [line]
            case FinishInstruction():
                return [EventLine(_DONE, self.agent, "answers", note)]
            case AskPersonInstruction():
                return [EventLine(_WAITS, self.agent, "asks a person", one_line(instruction.reason, WIDTH))]
            case AbandonInstruction():
                return [EventLine(_FAILED, self.agent, "gives up", one_line(instruction.rationale, WIDTH))]

    def _cost(self) -> str:
        if self.decided is None:
            return ""
        parts = [f"{self.decided.duration_ms / 1000:.1f} s"]
        if self.decided.usage.total_tokens:
            parts.append(f"{self.decided.usage.total_tokens} tokens")
        if self.decided.model.startswith("scripted"):
            parts.append("scripted")
        return " · ".join(parts)

    def _call(self, execution_id: UUID | None) -> str:
        call = self.calls.get(execution_id) if execution_id else None
        return f"{call.tool} {shorten(call.args, CALL_WIDTH)}".strip() if call else "a call"

    def _call_line(self, event: ev.ToolCallFinished) -> EventLine:
        took = f"{event.duration_ms / 1000:.1f} s"
        what = self._call(event.execution_id)
        match event.status:
            case "succeeded":
                took = "found by its probe" if event.probe == "happened" else took
                took = f"{event.settled_by} says it happened" if event.settled_by else took
                return EventLine(_DONE, event.agent_key, what, f"{took} · {shorten(event.result, 60)}")
            case "unknown":
                return EventLine(_UNCLEAR, event.agent_key, what, "nobody knows whether it happened")
            case "void":
                return EventLine(_NOTE, event.agent_key, what, "not started")
            case "failed":
                text = (
                    f"{event.failure.code}: {one_line(event.failure.for_people(CAUSE_WIDTH))}"
                    if event.failure
                    else "failed"
                )
                return EventLine(_FAILED, event.agent_key, what, f"{took} · {text}")

    def _denied_lines(self, event: ev.ToolCallDenied) -> list[EventLine]:
        """Return the call with the rule that refused it, and below it where that stands and what would allow it."""
        denial = event.denial
        rule = f"rule {denial.rule}" if denial.rule else denial.violation_type
        line = EventLine(_FAILED, event.agent_key, f"{self._call(event.execution_id)} denied", rule)
        if denial.explanation is None:
            return [line]
        told = (denial.explanation.detail, denial.explanation.remedy)
        return [line, *(EventLine(_MORE, "", one_line(text)) for text in told if text)]

    def _gate_lines(self, event: ev.GateOpened) -> list[EventLine]:
        """Return who waits and the rule's note, the call in the words of its tool above the arguments, and doubts.

        Each stands on a line of its own, so that no words of a model can be taken for those of a rule.
        """
        self._note_changes(event)
        summary, what = summary_of_gate(event.detail), self._call(event.execution_id)
        more = [*doubt_lines(event.detail)]
        if summary:
            what = one_line(event.detail.get("tool", what), WIDTH)
            more = [summary, shorten(sinks_first(event.detail), REASON_WIDTH), *more]
        why = f"waits for a person · {cut_words(event.reason, REASON_WIDTH)}"
        lines = [EventLine(_MORE, "", one_line(text)) for text in more if text]
        return [EventLine(_WAITS, self.agent, what, why), *lines]

    def _note_changes(self, event: ev.GateOpened) -> None:
        """Have the call be the one that waits: somebody may have changed its arguments since it was asked for."""
        asked = self.calls.get(event.execution_id) if event.execution_id else None
        args = event.detail.get("args")
        if asked is not None and isinstance(args, dict):
            self.calls[asked.execution_id] = asked.model_copy(update={"args": args})


_MEANS = {
    "lean": "asks for less, for its budget",
    "last_answer": "asks for a last answer, for its budget",
}
"""What a run still does where a reservation did not fit; one that may do nothing more ends."""


def _warning_line(event: ev.WatchdogReported | ev.BudgetRefused) -> EventLine:
    if isinstance(event, ev.BudgetRefused):
        goes_on = _MEANS.get(event.means)
        mark, what = (_FAILED, "has no budget left") if goes_on is None else (_NOTE, goes_on)
        return EventLine(mark, "towpath", what, one_line(event.refusal.describe(), 2 * WIDTH))
    return EventLine(_NOTE, "watchdog", f"found {event.finding}", one_line(event.detail, WIDTH))


def _note_line(event: ev.NoteAdded | ev.NoteGiven | ev.ConfidenceRequested) -> EventLine:
    """Return the line for what the platform, or a person, says to the run."""
    match event:
        case ev.NoteAdded():
            return EventLine(_NOTE, "towpath", one_line(event.text, WIDTH))
        case ev.NoteGiven():
            return EventLine(_NOTE, event.by, f"says: {one_line(event.text, WIDTH)}")
        case ev.ConfidenceRequested():
            return EventLine(_NOTE, event.by, "asks how confident it is", one_line(event.reason, WIDTH))


_GoalEvent: TypeAlias = (
    "ev.StepResultValidated | ev.ProgressMeasured | ev.GoalConfidenceMeasured | ev.DenialEscalated | ev.BackedOff"
)


def _goal_line(event: _GoalEvent) -> EventLine:
    """Return the line for a finding about a step of a goal run."""
    match event:
        case ev.StepResultValidated():
            mark, word = (_DONE, "is good") if event.success else (_FAILED, "failed")
            return EventLine(mark, event.source, f"step {event.step} {word}", one_line(event.reason, WIDTH))
        case ev.ProgressMeasured():
            return EventLine(_NOTE, event.source, f"progress {event.score:.2f}", one_line(event.reason, WIDTH))
        case ev.GoalConfidenceMeasured():
            return EventLine(_NOTE, event.trigger, f"confidence {event.score:.2f}", one_line(event.reason, WIDTH))
        case ev.DenialEscalated():
            return EventLine(_NOTE, "towpath", f"{event.tool} was denied: {event.rung}", one_line(event.target, WIDTH))
        case ev.BackedOff():
            return EventLine(_NOTE, "towpath", f"waits before attempt {event.attempt}", one_line(event.reason, WIDTH))


def _progress_lines(event: ev.AnyEvent) -> list[EventLine]:
    """Return lines for reflections, summaries, plan steps, waits and budget warnings; nothing for other events."""
    match event:
        case ev.Reflected():
            mark, ending = (_NOTE, "") if event.followed else (_FAILED, ", not followed")
            text = one_line(event.refusal or event.rationale or event.note, WIDTH)
            return [EventLine(mark, "model", f"reflects: {event.verdict}{ending}", text)]
        case ev.FinalSummaryRecorded():
            return [EventLine(_DONE, event.source, "sums up", one_line(event.summary, WIDTH))]
        case ev.DeliverableRefused():
            return [EventLine(_FAILED, "towpath", "deliverable refused", one_line("; ".join(event.problems), WIDTH))]
        case ev.PlanAccepted() | ev.PlanStepStarted() | ev.PlanStepEnded():
            return [_plan_line(event)]
        case ev.DecisionPostponed():
            next_model = f"asks {event.next_model} at" if event.next_model else "waits for its model until"
            what = f"{next_model} {event.until:%H:%M:%S} UTC"
            return [EventLine(_NOTE, event.agent_key, what, one_line(f"{event.code}: {event.message}", WIDTH))]
        case ev.ToolCallPostponed():
            what = f"{event.tool} waits until {event.until:%H:%M:%S} UTC"
            return [EventLine(_NOTE, event.agent_key, what, one_line(f"{event.code}: {event.message}", WIDTH))]
        case ev.BudgetWarned():
            spent = f"{format_amount(event.unit, event.spent)} of {format_amount(event.unit, event.limit)}"
            return [EventLine(_NOTE, "towpath", f"warned of the {event.scope} budget", f"{spent} are spent")]
        case _:
            return []


def _plan_line(event: "ev.PlanAccepted | ev.PlanStepStarted | ev.PlanStepEnded") -> EventLine:
    """Return the line for the progress of a plan or of a swarm's flow."""
    match event:
        case ev.PlanAccepted():
            made = {"given": "is given", "planned": "is written by a model", "flow": "is the flow"}[event.origin]
            return EventLine(
                _NOTE, "plan", f"{one_line(event.plan.name, 40)} {made}".strip(), _steps(len(event.plan.steps))
            )
        case ev.PlanStepStarted():
            return EventLine(_WAITS, "plan", f"step {one_line(event.step_id, 40)} begins", _runs(len(event.inputs)))
        case ev.PlanStepEnded():
            report = event.report
            mark = {"success": _DONE, "skipped": _NOTE}.get(report.status, _FAILED)
            error = report.error or {}
            why = f"{error.get('code', '')}: {error.get('message', '')}" if error else ""
            return EventLine(mark, "plan", f"step {one_line(report.id, 40)}: {report.status}", one_line(why, WIDTH))


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _runs(count: int) -> str:
    return "1 agent" if count == 1 else f"{count} agents"


def summary(
    finished: ev.RunFinished,
    seconds: float | None = None,
    children: Sequence[ev.ChildEnded] = (),
    *,
    plays_script: bool = False,
) -> EventLine:
    """Return the last line of a run; what it used includes its *children* that have ended, and theirs.

    Decisions of a script count as model calls, for budgets; where all were played that is said, as no model was asked.
    """
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    used = [finished.usage, *(child.usage for child in children), *(child.usage_below for child in children)]
    costs = [finished.cost, *(child.cost for child in children), *(child.below for child in children)]
    calls = [one.model_calls for one in used if one is not None]
    played = plays_script and any(calls) and sum(calls) == finished.usage.model_calls
    parts = [
        counted(finished.steps, "step"),
        counted(sum(calls), "scripted decision" if played else "model call"),
        counted(sum(one.total_tokens for one in used if one is not None), "token"),
    ]
    usd = sum(one.usd or 0.0 for one in costs if one is not None)
    if usd and all(one.price_known for one in costs if one is not None):
        parts.append(f"${usd:.4f}")
    mark = _DONE if finished.status == "completed" else _FAILED
    reason = "" if finished.status == "completed" else f" ({one_line(finished.reason, 60)})"
    return EventLine(mark, finished.status, f"{reason.strip()}{took}".strip(), " · ".join(parts))


def answer_text(final: object) -> str:
    """Return the answer of a run as text: its message, how many steps of a plan went well, or all of it in one line."""
    if isinstance(final, dict) and isinstance(final.get("steps"), list) and "success" in final:
        good = sum(isinstance(step, dict) and step.get("status") == "success" for step in final["steps"])
        return f"{good} of {_steps(len(final['steps']))} succeeded"
    if isinstance(final, dict):
        inner = final.get("payload", final)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
        return shorten(inner, 0)
    return shorten(final, 0)

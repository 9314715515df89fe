"""Takes the watchdog's reports, and acts on its findings at the next step.

A finding about the model is told at the next step, not in the middle of one; a finding about the platform makes the run
send again what is overdue. The same finding is taken once: a report that rests on events before the last report of the
same key changes nothing, however often and by how many watchdogs it is sent.
"""

from typing import Literal

from towpath_contracts import facts
from towpath_contracts.decisions.decision import PLAIN_KINDS
from towpath_contracts.events import log as ev
from towpath_contracts.runs.idle_runs import ABOUT_THE_MODEL
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loops.counters import LOOP_DETECTED
from towpath_engine.state.run import RunState, Status

FindingAction = Literal["nudge", "gate", "resend", "note"]
"""What a report leads to: a note to the model, a person, what is overdue sent again, or nothing but the record."""


def take_report(run: TransitionBuilder, fact: facts.WatchdogReportedFact) -> bool:
    """Take a report; return whether the run must send again what is overdue. A repeated report changes nothing."""
    if not _is_news(run.state, fact):
        return False
    rung = _rung(run.state, fact)
    run.emit(
        ev.WatchdogReported(
            finding=fact.finding,
            key=fact.key,
            step=run.state.step,
            steps=fact.steps,
            score=fact.score,
            detail=fact.detail,
            tools=fact.tools,
            action=rung,
        )
    )
    return rung == "resend"


def _is_news(state: RunState, fact: facts.WatchdogReportedFact) -> bool:
    """Waiting is not a fault: neither for a person, nor for a tool that is meant to be polled."""
    taken = state.watch.of(fact.key)
    if taken is not None and fact.since <= taken.seq:
        return False
    if fact.finding == "silent" and state.status is not Status.RUNNING:
        return False
    if fact.finding not in ABOUT_THE_MODEL:
        return True
    specs = state.snapshot.all_tools
    acts = state.status in (Status.RUNNING, Status.WAITING)
    return acts and not any(specs[name].polling for name in fact.tools if name in specs)


def _rung(state: RunState, fact: facts.WatchdogReportedFact) -> FindingAction:
    """A nudge first, then a person where the kind of run has one to ask; its autonomy moves this."""
    if fact.finding not in ABOUT_THE_MODEL:
        return "note" if state.status is Status.QUEUED else "resend"
    again = state.watch.of(fact.key) is not None
    if state.created.kind in PLAIN_KINDS:
        return "gate" if again and state.snapshot.on_loop == "gate" else "nudge"
    autonomy = state.created.goal_settings.autonomy
    return "gate" if autonomy == "low" or (again and autonomy != "high") else "nudge"


def stop_on_finding(run: TransitionBuilder) -> bool:
    """Begin the step with what the watchdog found; return whether the run waits for a person now."""
    untold = run.state.watch.untold
    if untold is None:
        return False
    if untold.action == "nudge":
        run.emit(ev.NoteAdded(step=run.state.step, text=untold.text))
        return False
    # The gate that a loop has: for a person it is one, whoever has found it.
    open_run_gate(run, LOOP_DETECTED, untold.key, untold.text, {"finding": untold.finding})
    return True

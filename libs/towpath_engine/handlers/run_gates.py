"""Gates of the run itself: a person decides whether, and how, the run goes on.

Each cause has at most one open gate. After `approved` the run goes on. After `denied` it goes on too, and the model is
told what to do differently; but after three denials in a row the next gate is of type `manual`. A `manual` gate that is
denied ends the run; so do `stop` and expiry at any gate. A run that ends at a gate ends as escalated.
"""

from datetime import timedelta

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.ids import gate_id
from towpath_contracts.runs.run_control import MANUAL, RESUMED, RUN_PAUSED
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import OpenGate, Status

MAX_REVISIONS = 3
"""Denials of a run's gates in a row; the next gate is a manual one."""

RUN_GATE_HOURS = 24
"""Expiry of a run's gate."""

PAUSE_HOURS = 365 * 24
"""A pause has an end, as every gate has."""

VERDICTS = ("approved", "denied", "stop")


def open_run_gate(
    run: TransitionBuilder,
    gate_type: str,
    key: str,
    reason: str,
    detail: JsonObject,
    *,
    hours: float = RUN_GATE_HOURS,
) -> None:
    """Open the gate of the cause `key`, unless it is open already. The run waits for it."""
    kind = MANUAL if run.state.revisions >= MAX_REVISIONS and gate_type != RUN_PAUSED else gate_type
    wanted = gate_id(run.state.run_id, f"run:{key}:{run.state.run_gates}")
    if any(gate.execution_id is None and gate.key == key for gate in run.state.gates):
        return
    run.emit(
        ev.GateOpened(
            gate_id=wanted,
            gate_type=kind,
            reason=reason,
            detail={
                "agent": run.state.agent_key,
                "step": run.state.step,
                "verdicts": list(VERDICTS),
                **detail,
                "key": key,
            },
            expires_at=run.now + timedelta(hours=hours),
        )
    )


def is_run_gate(gate: OpenGate) -> bool:
    """Whether *gate* is about the run and not about a call."""
    return gate.execution_id is None


def settle_run_gate(run: TransitionBuilder, gate: OpenGate, fact: facts.GateResolvedFact) -> bool:
    """Take a person's decision on a gate of the run; return whether the run goes on."""
    if (gate.gate_type == RUN_PAUSED) != (fact.verdict == RESUMED):
        return False  # a pause is no question, and no other gate is opened by a resume
    run.emit(ev.GateClosed(gate_id=gate.gate_id, verdict=fact.verdict, reason=fact.reason, by=fact.by))
    if fact.verdict == "stop" or (fact.verdict == "denied" and gate.gate_type == MANUAL):
        _escalate(run, gate, f"{fact.by or 'a person'} stopped the run: {fact.reason}")
        return False
    if fact.verdict == "expired":
        _escalate(run, gate, "nobody decided in time")
        return False
    if fact.reason and fact.verdict != RESUMED:
        said = "asks for another way" if fact.verdict == "denied" else "says"
        run.emit(ev.NoteAdded(step=run.state.step, text=f"A person {said}: {fact.reason}"))
    return True


def expire_run_gate(run: TransitionBuilder, gate: OpenGate) -> None:
    """End the run whose gate nobody settled in time."""
    run.emit(ev.GateClosed(gate_id=gate.gate_id, verdict="expired", reason="nobody decided in time"))
    _escalate(run, gate, "nobody decided in time")


def _escalate(run: TransitionBuilder, gate: OpenGate, message: str) -> None:
    finish(run, Status.ESCALATED, gate.gate_type, message)

"""Drives a labelled trace through the real engine, and says in which step its loop was found."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.loops.traces import DeniedByRule, Outcome, Trace, Turn, world

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import RunCreated
from towpath_contracts.tools.calls import Denial, ToolFailure
from towpath_engine.advance import advance
from towpath_engine.replay import create
from towpath_engine.state.run import EffectKind, dump_state, load_state

RUN = UUID("01930000-0000-7000-8000-000000000077")
START = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
WORLD = world()
TASK = RunCreated(
    project="default",
    caller="me",
    network=WORLD.network,
    version=1,
    snapshot_digest="sha256:00",
    agent_key=WORLD.default_agent_key,
    user_message="Get it done.",
    max_steps=WORLD.max_steps,
    max_tool_errors=WORLD.max_tool_errors,
    timeout_ms=WORLD.timeout_ms,
    step_timeout_ms=WORLD.step_timeout_ms,
    context_limit=WORLD.context_limit,
)


class Drive:
    """One run on its way through a trace."""

    def __init__(self) -> None:
        self.now = START
        self.state, _ = create(RUN, WORLD, TASK, self.now)
        self.found: list[ev.LoopDetected] = []
        self._feed(facts.RunAdmittedFact(run_id=RUN))

    def _feed(self, fact: facts.AnyFact) -> None:
        self.now += timedelta(seconds=1)
        entries, _, self.state = advance(self.state, fact, self.now)
        self.found += [entry.event for entry in entries if isinstance(entry.event, ev.LoopDetected)]

    def restart(self) -> None:
        """Go on with what another process reads of the state."""
        self.state = load_state(dump_state(self.state), TASK, WORLD)

    def take(self, turn: Turn) -> None:
        """Answer the pending request with the turn's decision, and its calls with their outcomes, last one first."""
        request = next(p.effect_id for p in self.state.pending if p.kind is EffectKind.DECIDE)
        if not turn.text:
            self._feed(
                facts.DecisionFailedFact(run_id=RUN, request_id=request, attempt=1, code="invalid_output", message="?")
            )
            return
        self._feed(facts.DecisionMadeFact(run_id=RUN, request_id=request, attempt=1, decision=turn.decision))
        opened = [c.call.execution_id for c in self.state.calls if not c.status]
        for execution_id, outcome in reversed(list(zip(opened, turn.outcomes, strict=False))):
            self._feed(_fact(execution_id, outcome))


def end_of(trace: Trace, *, restarts: bool) -> tuple[int, str]:
    """Return the step in which the run of *trace* ended, and why; 0 where it goes on."""
    drive = Drive()
    for step, turn in enumerate(trace.turns, 1):
        if restarts and step in trace.restarts:
            drive.restart()
        drive.take(turn)
        if drive.state.is_final:
            return step, drive.state.reason
    return 0, ""


def _fact(execution_id: UUID, outcome: Outcome) -> facts.AnyFact:
    if outcome.denied:
        named = {"tool": outcome.tool, "rule": outcome.rule} if isinstance(outcome, DeniedByRule) else {}
        denial = Denial(violation_type=outcome.denied, reason="not yours", **named)
        return facts.ToolDeniedFact(run_id=RUN, execution_id=execution_id, denial=denial)
    if outcome.code:
        failure = ToolFailure(code=outcome.code, message=outcome.message, external=outcome.external)
        return facts.ToolFinishedFact(run_id=RUN, execution_id=execution_id, status="failed", failure=failure)
    return facts.ToolFinishedFact(run_id=RUN, execution_id=execution_id, status="succeeded", result=outcome.result)


def found_in(trace: Trace, *, restarts: bool) -> tuple[int, str]:
    """Return the step in which the first loop was found and by which detector; 0 where none was."""
    drive = Drive()
    for step, turn in enumerate(trace.turns, 1):
        if restarts and step in trace.restarts:
            drive.restart()
        drive.take(turn)
        if drive.found:
            return step, drive.found[0].detector
        if drive.state.is_final:
            break
    return 0, ""

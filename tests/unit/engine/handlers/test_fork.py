"""A fork knows what its parent knew before the step, and has done nothing of it."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from tests.support.engine.goal_machine import goal_run
from tests.support.engine.golden_logs import SCENES
from tests.support.engine.machine import START, Machine, respond, task, use

from towpath_contracts import facts
from towpath_contracts.decisions.request import PromptContext, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry
from towpath_contracts.runs.records import ForkedFrom
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.advance import advance
from towpath_engine.evolve import evolve
from towpath_engine.handlers.fork import ForkRefusedError, ForkStateFinder
from towpath_engine.reducers.fork import inherited_of
from towpath_engine.replay import create, replay
from towpath_engine.requests.network_context import build_context
from towpath_engine.state.run import RunState, Status, initial

CHILD = UUID("01930000-0000-7000-8000-000000000002")


FORKABLE = [scene for scene in SCENES if scene not in ("planned", "flowing")]
"""A composed run has no steps of its own that a fork could begin at."""


def before(parent: Machine, step: int, entries: Iterable[LogEntry] | None = None) -> ForkStateFinder:
    point = ForkStateFinder(parent.state.run_id, parent.network, step)
    for entry in parent.entries if entries is None else entries:
        if point.observe(entry):
            break
    return point


class Fork:
    """The first breath of a fork: its log, its facts, and what it asks for."""

    def __init__(
        self, parent: Machine, step: int, note: str = "", *, new_script: bool = False, admit: bool = True
    ) -> None:
        point = before(parent, step)
        inherited = inherited_of(point.state(), new_script=new_script)
        found = parent.state.created.model_copy(
            update={"forked_from": ForkedFrom(run_id=parent.state.run_id, step=step)}
        )
        self.state, first = create(CHILD, parent.network, found, START)
        self.entries, self.effects = [first], []
        self.facts: list[facts.AnyFact] = []
        self.take(
            facts.RunForkedFact(
                run_id=CHILD, parent_seq=point.seq, by="ann", note=note, inherited=inherited, gates=point.gates()
            )
        )
        if admit:
            self.take(facts.RunAdmittedFact(run_id=CHILD))

    def take(self, fact: facts.AnyFact) -> None:
        made, effects, self.state = advance(self.state, fact, START)
        self.facts.append(fact)
        self.entries += made
        self.effects += effects

    def resolve(self, verdict: str, reason: str = "") -> None:
        (gate,) = self.state.gates
        self.take(facts.GateResolvedFact(run_id=CHILD, gate_id=gate.gate_id, verdict=verdict, reason=reason, by="ann"))

    @property
    def types(self) -> list[str]:
        return [entry.event.type for entry in self.entries]


def knew(parent: Machine, step: int) -> PromptContext:
    """What the parent's model was shown for *step*."""
    state: RunState = initial(parent.state.run_id, parent.network)
    for entry in parent.entries:
        state = evolve(state, entry)
        if isinstance(entry.event, ev.DecisionRequested) and entry.event.step == step:
            return build_context(state)
    raise LookupError(step)


@pytest.mark.parametrize("scene", FORKABLE)
def test_the_model_is_shown_what_the_parents_model_was_shown(scene: str) -> None:
    parent = SCENES[scene]()
    for event in parent.events(ev.DecisionRequested):
        fork = Fork(parent, event.step)
        assert build_context(fork.state) == knew(parent, event.step)
        assert (fork.state.step, fork.state.agent_key, fork.state.epoch) == (event.step, event.agent_key, event.epoch)


@pytest.mark.parametrize("scene", FORKABLE)
def test_nothing_of_the_parent_is_done_or_paid_again(scene: str) -> None:
    parent = SCENES[scene]()
    for event in parent.events(ev.DecisionRequested):
        fork = Fork(parent, event.step)
        assert [effect.effect.kind for effect in fork.effects] == ["decide"]
        assert fork.state.usage == Usage() and fork.state.calls == () and fork.state.gates == ()
        assert fork.state.active_ms == 0 and fork.state.started_at == START


def test_a_fork_goes_its_own_way_under_its_own_ids_and_replays() -> None:
    parent = SCENES["answer"]()
    fork = Fork(parent, 1, "Ask for row 9.")
    assert fork.types == ["run_created", "run_forked", "note_added", "run_started", "decision_requested"]
    assert build_context(fork.state).notes == ("Ask for row 9.",)
    decided = facts.DecisionMadeFact(
        run_id=CHILD, request_id=fork.state.pending[0].effect_id, attempt=1, decision=use("echo", text="hello")
    )
    made, effects, fork.state = advance(fork.state, decided, START)
    (request,) = (effect.message for effect in effects)
    assert isinstance(request, ToolRequest) and request.run_id == CHILD
    assert request.execution_id not in {e.execution_id for e in parent.events(ev.ToolCallFinished)}
    recorded = (*fork.entries, *made)
    listed = [(fact, START) for fact in (*fork.facts, decided)]
    assert replay(CHILD, parent.network, recorded, listed) is None


def test_new_decisions_are_played_from_their_beginning() -> None:
    parent = Machine()
    parent.miss("invalid_output", "no JSON", script={"queue": "*", "index": 0})
    assert Fork(parent, 2).state.cursors == {"*": 1}
    assert Fork(parent, 2, new_script=True).state.cursors == {}


def test_a_run_that_ended_without_an_answer_can_go_on() -> None:
    parent = Machine(max_steps=1)
    parent.decide(use("echo", text="a"))
    parent.finish(result="b")
    assert parent.finished.reason == "max_steps_exceeded"
    state = before(parent, 2).state()
    assert (state.step, state.outputs[0].text, state.is_final) == (1, "b", False)


def doubtful() -> Machine:
    """A goal that waits for a person after its first step."""
    parent = goal_run("tests.failed == 0")
    parent.decide({**use("edit"), "uncertain": True})
    parent.finish()
    parent.decide({"confidence": 0.1})
    return parent


def test_a_fork_asks_a_person_what_its_parent_still_waits_for() -> None:
    """Else whoever may fork a run could do without the person whom it asks."""
    parent = doubtful()
    fork = Fork(parent, 2)
    (asked,), (opened,) = (
        [e.event for e in log if isinstance(e.event, ev.GateOpened)] for log in (parent.entries, fork.entries)
    )
    assert (opened.gate_type, opened.reason) == (asked.gate_type, asked.reason) and opened.gate_id != asked.gate_id
    assert opened.detail == {**asked.detail, "inherited": True}
    assert (fork.state.status, fork.effects) == (Status.WAITING, [])
    assert "decision_requested" not in fork.types
    fork.resolve("approved", "go on")
    assert fork.types[-2:] == ["note_added", "decision_requested"] and fork.state.step == 2
    listed = [(fact, START) for fact in fork.facts]
    assert replay(CHILD, parent.network, fork.entries, listed) is None


def test_a_fork_of_a_run_that_was_cancelled_at_a_gate_asks_too() -> None:
    """Else whoever may cancel and fork could do without the person."""
    parent = doubtful()
    parent.cancel()
    assert parent.finished.status == "cancelled"
    (gate,) = Fork(parent, 2).state.gates
    assert gate.gate_type == "low_confidence"


@pytest.mark.parametrize("verdict", ["approved", "stop"])
def test_the_gate_of_a_fork_can_be_settled_while_it_waits_for_room(verdict: str) -> None:
    fork = Fork(doubtful(), 2, admit=False)
    fork.resolve(verdict, "as you like")
    assert fork.state.status is (Status.QUEUED if verdict == "approved" else Status.ESCALATED)
    fork.take(facts.RunAdmittedFact(run_id=CHILD))
    assert ("decision_requested" in fork.types) == (verdict == "approved")


def test_a_gate_that_was_settled_before_the_step_is_not_asked_again() -> None:
    parent = doubtful()
    parent.resolve("approved", gate_id=parent.state.gates[0].gate_id)
    parent.decide(use("edit", text="b"))
    parent.finish()
    assert "gate_opened" not in Fork(parent, 3).types
    assert "gate_opened" not in Fork(parent, 2).types


def test_there_are_steps_from_which_nothing_can_be_forked() -> None:
    parent = Machine()
    parent.decide(use("echo", text="a"))
    with pytest.raises(ForkRefusedError, match="step 1 is not over"):
        before(parent, 2).state()
    with pytest.raises(ForkRefusedError, match="has 1 step;"):
        before(parent, 3).state()
    parent.finish()
    parent.decide(respond())
    with pytest.raises(ForkRefusedError, match="answered in step 2"):
        before(parent, 3).state()
    with pytest.raises(ForkRefusedError, match="has not begun"):
        before(parent, 1, parent.entries[:1]).state()
    fork = Fork(parent, 2)
    again = ForkStateFinder(CHILD, parent.network, 1)
    assert [again.observe(entry) for entry in fork.entries][-1]
    with pytest.raises(ForkRefusedError, match="a fork that begins at step 2: fork its parent"):
        again.state()


def test_only_a_new_run_that_was_created_as_a_fork_inherits() -> None:
    machine = Machine(start=False)
    fact = facts.RunForkedFact(run_id=machine.state.run_id, parent_seq=1, by="eve", inherited={})
    assert advance(machine.state, fact, START)[0] == ()
    machine.admit()
    assert advance(machine.state, fact, START)[0] == ()
    assert task(machine.network).forked_from is None

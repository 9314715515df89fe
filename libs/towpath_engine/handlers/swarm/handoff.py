"""Handoff swarms: an answer that is the name of another agent hands the run over to it.

A handoff is a transfer like any other, and is counted: the swarm's limit of handoffs may happen, and the next one ends
the run. To a nested swarm the run is handed over as a child run, whose answer becomes the run's answer.
"""

from uuid import UUID

from towpath_contracts.decisions.decision import FinishInstruction, TransferInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.networks.swarm import CompiledSwarm, SelectedSwarm, handoff_name_in
from towpath_contracts.runs.children import ChildTask
from towpath_contracts.text import as_text
from towpath_engine.handlers.children import can_spawn, spawn_children
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.routes import handoff_of, routes_of
from towpath_engine.state.plan import HandoffState
from towpath_engine.state.run import RunState, Status

TOO_MANY = "max_handoffs_exceeded"
FAILED = "handoff_failed"
TOO_DEEP = "depth_exceeded"

PURPOSE = "handoff"
"""What the child is for that a run is handed over to."""


def answer_or_hand_over(run: TransitionBuilder, instruction: FinishInstruction) -> bool:
    """End the run with an answer, or hand over to the agent that it names; return whether the run has ended."""
    target = handoff_name_in(instruction.payload, routes_of(run.state))
    if target is None:
        finish(run, Status.COMPLETED, "responded", "", final=instruction.payload)
        return True
    source = run.state.agent_key
    if hand_over(run, target, instruction.payload["message"]):
        run.emit(ev.AgentTransferred(step=run.state.step, source=source, target=target, epoch=run.state.epoch + 1))
    return run.state.is_final


def take_transfer(run: TransitionBuilder, instruction: TransferInstruction) -> bool:
    """Count a transfer that an agent asked for; return whether another agent of this run acts now."""
    message = "" if instruction.context is None else as_text(instruction.context)
    return hand_over(run, instruction.target, message)


def hand_over(run: TransitionBuilder, target: str, message: str) -> bool:
    """Count a handoff; return whether *target* acts in this run: not beyond the limit, nor where it is a swarm."""
    swarm, held = handoff_of(run.state), run.state.swarm or HandoffState()
    if swarm is None:
        return True
    if held.handoffs >= swarm.max_handoffs:
        fault = f"{run.state.agent_key} hands over to {target} after {held.handoffs} handoffs, which is the limit"
        finish(run, Status.FAILED, TOO_MANY, fault)
        return False
    nested = swarm.swarms.get(target)
    if nested is not None and not can_spawn(run.state):
        finish(run, Status.FAILED, TOO_DEEP, f"the run of {target} would stand too deep")
        return False
    count = held.handoffs + 1
    run.emit(
        ev.SwarmHandoffRequested(
            step=run.state.step, source=run.state.agent_key, target=target, count=count, said=message
        )
    )
    if nested is not None:
        _spawn(run, target, nested)
    return nested is None


def _spawn(run: TransitionBuilder, name: str, swarm: CompiledSwarm) -> None:
    """A nested swarm begins with the user's message alone."""
    above = run.state.created.swarm
    path = (*(() if above is None else above.path), name)
    task = ChildTask(
        agent_key=swarm.first_agent,
        user_message=run.state.created.user_message,
        swarm=SelectedSwarm(name=name, path=path, swarm=swarm),
        max_steps=swarm.max_steps,
        purpose=PURPOSE,
        response_schema=run.state.created.response_schema,
    )
    spawn_children(run, [task])


def finish_like_nested_swarm(run: TransitionBuilder, child_id: UUID) -> None:
    """End the run as the nested swarm did that it was handed over to."""
    child = next((c for c in run.state.children if c.child_id == child_id), None)
    if child is None or child.purpose != PURPOSE:
        return  # it answered a call: the run goes on with its outcome
    if child.status == Status.COMPLETED:
        finish(run, Status.COMPLETED, "responded", "", final=child.final)
    else:
        finish(run, Status.FAILED, FAILED, f"what the run was handed over to is {child.status}: {child.reason}")


def stop_after_agent_steps(run: TransitionBuilder) -> bool:
    """End a run whose agent has used the steps of its turn; return whether it did."""
    task, held = run.state.created.swarm, run.state.swarm
    if task is None or held is None or steps_of_turn(run.state) < task.swarm.agent_steps:
        return False
    fault = f"{run.state.agent_key} gave no answer within {task.swarm.agent_steps} steps"
    finish(run, Status.FAILED, "max_steps_exceeded", fault)
    return True


def steps_of_turn(state: RunState) -> int:
    """Return how many steps the acting agent has taken since it was handed the run."""
    return state.step - (state.swarm or HandoffState()).began_step

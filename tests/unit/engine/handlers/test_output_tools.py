"""Reading outputs in a run: who is offered the tools, and that a replay needs nothing but the log."""

from typing import Any
from uuid import UUID

from tests.support.engine.machine import RUN, Machine, use, use_all

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_engine.rules.output_tools import StoredOutput, part_of_output

LONG = "0123456789" * 5_000


def offered(machine: Machine) -> set[str]:
    return {tool.name for tool in machine.context.tools} & OUTPUT_TOOLS.keys()


def permit(machine: Machine, tool: str, args: dict[str, Any], stored: StoredOutput | None) -> list[Any]:
    part = part_of_output(tool, args, stored, machine.state.created.context_limit)
    fact = facts.InternalToolPermittedFact(run_id=RUN, execution_id=machine.call_id(0), output=part)
    return machine.feed(fact)


def test_an_agent_is_offered_them_once_something_is_not_shown_whole() -> None:
    machine = Machine()
    assert offered(machine) == set()
    machine.decide(use("echo", text="a"))
    machine.finish(result="short")
    assert offered(machine) == set()
    machine.decide(use("lookup", text="a"))
    machine.finish(result=LONG)
    assert offered(machine) == {"output_read", "output_search"}


def test_an_agent_is_offered_them_for_outputs_that_are_only_listed() -> None:
    machine = Machine(context_limit=100)
    machine.decide(use("echo", text="a"))
    machine.finish(result="x" * 200)
    assert (machine.context.outputs, machine.context.older_outputs[0].size) == ((), 200)
    assert offered(machine) == {"output_read", "output_search"}


def test_a_part_is_read_by_an_agent_that_is_not_equipped_for_it() -> None:
    machine = Machine()
    machine.decide(use("echo", text="a"))
    machine.finish(result=LONG)
    read = str(machine.context.outputs[0].execution_id)
    stored = StoredOutput(tool="echo", step=1, status="succeeded", data=LONG.encode())
    args = {"execution_id": read, "offset": 25_000, "limit": 10}
    machine.decide(use_all(("output_read", args)))
    permit(machine, "output_read", args, stored)
    part, whole = machine.context.outputs
    assert (part.tool, whole.tool) == ("output_read", "echo")
    assert '"text":"0123456789"' in part.text and '"next_offset":25010' in part.text
    assert machine.events(ev.ToolCallFinished)[-1].worker == "platform"


def test_an_output_that_the_run_does_not_have_is_a_failed_call() -> None:
    machine = Machine()
    args = {"execution_id": str(UUID(int=9))}
    machine.decide(use_all(("output_read", args)))
    permit(machine, "output_read", args, None)
    assert machine.events(ev.ToolCallFinished)[-1].failure.code == "output_unknown"


def test_a_part_that_did_not_come_is_asked_for_again() -> None:
    machine = Machine()
    machine.decide(use_all(("output_read", {"execution_id": str(UUID(int=9))})))
    machine.feed(facts.InternalToolPermittedFact(run_id=RUN, execution_id=machine.call_id(0)))
    assert machine.events(ev.ToolCallFinished) == []
    assert [event.attempt for event in machine.events(ev.EffectResent)] == [2]
    began = machine.now
    while not machine.events(ev.ToolCallFinished):
        machine.wake()
        machine.feed(facts.InternalToolPermittedFact(run_id=RUN, execution_id=machine.call_id(0)))
    assert machine.events(ev.ToolCallFinished)[-1].failure.code == "content_missing"
    assert 12 < (machine.now - began).total_seconds() < 15, "not too soon, as others may be before it"
    assert machine.events(ev.EffectResent)[-1].attempt == 17, "two each time that it asks"

"""Golden histories: a run's facts and its log as they were recorded once.

A file is added, never edited: what an older engine wrote must still be read, and its facts must still give its log.
`python -m tests.support.engine.golden_logs FILE` records those scenes of the file's name that have no file yet.
"""

import json
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import AGENTS, RUN, Machine, agent, respond, route, snapshot, use, use_all
from tests.support.engine.plan_machine import PlanRun, ask, block, step
from tests.support.places import TESTS

from towpath_contracts import facts
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.request import PlayedScriptEntry, Usage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_engine.handlers.fork import ForkStateFinder
from towpath_engine.reducers.fork import inherited_of

FOLDER = TESTS / "golden"


def answer() -> Machine:
    """A tool call and an answer."""
    machine = Machine()
    machine.decide(use("echo", text="hello"), after=0.8)
    machine.finish(result={"echo": "hello"}, duration_ms=12, worker="w1", after=0.2)
    machine.decide(respond({"message": "It said hello."}), after=0.7)
    return machine


def wandering() -> Machine:
    """Routes, refusals, an unreadable answer, and a last step that is forced."""
    machine = Machine(snapshot(max_steps=7, force_respond=True, force_respond_agent="expert"))
    machine.decide(route("clerk", {"order": 7}))
    machine.decide(respond("not mine to say"))
    machine.decide(use("pay", amount="5"))
    machine.decide({"action": "DANCE"})
    machine.miss("invalid_output", "no JSON", script=PlayedScriptEntry(queue="*", index=3), usage=Usage(model_calls=2))
    machine.decide(route("triage"))
    machine.decide(respond("Refunded."))
    return machine


def together() -> Machine:
    """Parallel calls: one fails, one is denied, one waits for a person, one is in doubt and tried again."""
    machine = Machine(system_params={"account": "acme"})
    calls = (("echo", {"text": "a"}), ("lookup", {"text": "b"}), ("pay", {"amount": "5"}), ("echo", {"text": "d"}))
    machine.decide(use_all(*calls))
    machine.fail(1, message="row 7 is missing", after=1)
    machine.want_approval(RUN, 2)
    machine.unknown(3)
    machine.deny(0)
    machine.timer(after=30)
    machine.resolve("retry", gate_id=machine.state.gates[1].gate_id, after=600)
    machine.resolve("approved", approval_id=RUN, after=60)
    machine.finish(3, result="d", after=1)
    machine.finish(2, result={"paid": 5}, after=1)
    machine.decide(respond("Paid."))
    return machine


def stopped() -> Machine:
    """A cancel while one call runs and another was never seen by the tool-access service."""
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"}), ("echo", {"text": "c"})))
    machine.cancel(after=1)
    machine.fenced(voided=[machine.call_id(0)], live=[machine.call_id(1)])
    machine.timer(after=2)
    machine.finish(1, result="it happened", after=1)
    machine.finish(2, None, status="void")
    return machine


def circling() -> Machine:
    """The same call until it is stopped, the same error on the way."""
    machine = Machine()
    for name in ("alpha", "beta", "gamma"):
        machine.decide(use(name))
    for _ in range(2):
        machine.decide(use("echo", text="again"))
        machine.finish(result="same")
    machine.decide(use("echo", text="again"))
    machine.decide(use("echo", text="again"))
    return machine


def overdue() -> Machine:
    """A worker that never answers: resends, the deadline, and a fence that is stored after the end."""
    machine = Machine(timeout_ms=60_000)
    machine.decide(use("echo", text="a"), after=2)
    for _ in range(5):
        machine.wake()
    machine.wake()
    machine.fenced(voided=[machine.call_id(0)])
    return machine


def forked() -> Machine:
    """A run that knows what another one did before its second step, and a message of it that is dead twice."""
    parent = answer()
    point = ForkStateFinder(RUN, parent.network, 2)
    for entry in parent.entries:
        if point.observe(entry):
            break
    told = {"run_id": "01930000-0000-7000-8000-00000000000f", "step": 2}
    machine = Machine(parent.network, start=False, forked_from=told)
    inherited = inherited_of(point.state(), new_script=True)
    machine.feed(facts.RunForkedFact(run_id=RUN, parent_seq=point.seq, by="ann", note="Be brief.", inherited=inherited))
    machine.admit()
    for attempt in (1, 2):
        dead = {"run_id": RUN, "stream": "DECIDE", "reason": "malformed", "attempt": attempt}
        machine.feed(facts.MessageDeadFact.model_validate({**dead, "effect_id": machine.request_id}), after=1)
    machine.decide(use("lookup", text="again"), after=1)
    machine.finish(result="found", after=1)
    machine.decide(respond("Found."), after=1)
    return machine


def pursued() -> Machine:
    """A goal: said to be reached too early, an attempt that fails, a doubt that a person settles, tests that pass."""
    machine = goal_run("tests.failed == 0", texts=("The change is small.",), validate_steps=True)
    machine.decide(respond("Done."), after=1)
    machine.decide({"valid": True, "criteria": [{"criterion": 1, "met": True}]}, after=1)
    machine.decide(use("edit", text="a"), after=1)
    machine.fail(message="no such line")
    machine.wake()
    machine.decide(use("edit", text="b"), after=1)
    machine.finish(result="edited")
    machine.decide({"valid": True, "uncertain": True}, after=1)
    machine.decide({"progress": 0.4}, after=1)
    machine.decide({"confidence": 0.43, "reason": "guessing"}, after=1)
    machine.resolve("denied", gate_id=machine.state.gates[0].gate_id, reason="run the tests first", after=600)
    machine.decide(use("test"), after=1)
    machine.finish(result={"passed": 3, "failed": 1})
    machine.decide({"valid": True}, after=1)
    machine.decide(use("test", text="again"), after=1)
    machine.finish(result={"passed": 4, "failed": 0, "coverage": 0.5})
    machine.decide({"valid": True, "criteria": [{"criterion": 1, "met": True, "evidence": "two lines"}]}, after=1)
    return machine


def planned() -> Machine:
    """A plan that a model writes, mends, and that stops some of its agents, loses one and goes on to its end."""
    run = PlanRun(prompt="Write about locks.", task={"bindings": {"n": 2}, "max_parallel": 3})
    run.decide({"steps": [step("ghost")]}, after=1)
    stages = (
        step("ann", "{{ bindings.n }} ideas", result_key="ideas"),
        block(ask("bob"), ask("cid", "{{ result.ideas.list[0] }}"), ask("dan"), ask("eve"), merge_strategy="collect"),
        block(ask("ann"), ask("bob"), merge_strategy="first_success"),
        block(ask("cid"), ask("dan"), merge_strategy="fail_fast", id="last"),
        step("eve"),
    )
    run.decide({"name": "poem", "steps": list(stages)}, after=1)
    run.end(final={"list": ["gates", "water"]}, after=2)
    for place in (2, 0, 3, 1):
        run.end(place, final={"n": place} if place else {"text": "x" * 20_000}, after=1)
    run.end(1, after=1)
    run.end(0, status="cancelled", after=1)
    run.wake()
    run.end(0, status="failed", reason="loop_detected", final={"message": "again"}, after=1)
    run.end(1, status="cancelled", after=1)
    return run


def flowing() -> Machine:
    """A workflow with a parallel stage and a nested swarm, cancelled in its last one."""
    inner = {"mode": "workflow", "members": ["dan"], "stages": [["dan"]]}
    stages = [["ann"], ["bob", "cid"], ["editors"]]
    swarm = {"mode": "workflow", "members": ["ann", "bob", "cid", "editors"], "stages": stages}
    run = PlanRun(kind="swarm", swarm={"swarm": {**swarm, "swarms": {"editors": inner}}}, user_message="Locks.")
    run.end(final={"message": "A draft."}, after=1)
    run.end(1, final={"message": "from cid"}, after=1)
    run.end(0, final={"note": "from bob"}, after=1)
    run.cancel(after=1)
    run.end(status="cancelled", after=1)
    return run


def handed() -> Machine:
    """A handoff: by a name, by a route, back again, to a swarm, with work in between and a conversation cut short."""
    agents = [
        agent(key, allow_respond=True, equipped_tools=("echo", "lookup"), allowed_routes=routes)
        for key, routes in (("triage", ("expert",)), ("expert", ("triage",)), ("ann", ()), ("bob", ()))
    ]
    pair = CompiledSwarm(mode="workflow", members=("ann", "bob"), stages=(("ann",), ("bob",)), description="Two.")
    handoffs = {"triage": ("expert", "pair"), "expert": ("triage",)}
    swarm = CompiledSwarm(
        mode="handoff", members=(*handoffs, "pair"), stages=(("triage",),), handoffs=handoffs, swarms={"pair": pair}
    )
    machine = Machine(snapshot(*agents, swarm=swarm), kind="swarm", swarm={"swarm": swarm}, context_limit=700)
    machine.decide(use_all(("lookup", {"text": "order 7"}), ("echo", {"text": "x" * 200})), after=1)
    machine.fail(1, message="too long", after=1)
    machine.finish(0, {"order": 7, "total": 12}, after=1)
    machine.decide(respond(" expert\n"), after=1)
    machine.decide(route("ghost"), after=1)
    machine.decide(use("lookup", text="order 8"), after=1)
    machine.finish(result={"found": "y" * 300}, after=1)
    machine.decide(route("triage", {"order": 8}), after=1)
    machine.decide(respond("pair"), after=1)
    child = machine.state.children[0].child_id
    told = {"run_id": RUN, "child_id": child, "child_seq": 9, "status": "completed", "ended": True}
    machine.feed(facts.ChildReportedFact.model_validate({**told, "final": {"message": "Both say no."}}), after=2)
    return machine


def conversing() -> Machine:
    """Models that are asked by conversations: results that fill the room, a refusal, a handover, a large decision."""
    network = snapshot(*(one.model_copy(update={"model": "local:qwen3"}) for one in AGENTS), context_limit=4_000)
    machine = Machine(network, epoch_turns=True)
    for number, size in enumerate((900, 1_800, 6_000, 1_200)):
        machine.decide(use("echo", text=str(number)), after=0.5)
        machine.finish(result=str(number) * size, after=0.1)
    machine.decide(use("nothing"))
    machine.decide(route("expert", "look at it"))
    machine.decide(use("echo", text="x" * 3_000))
    machine.finish(result="seen")
    machine.decide(respond("All is well."))
    return machine


SCENES: dict[str, Callable[[], Machine]] = {
    scene.__name__: scene
    for scene in (
        answer,
        wandering,
        together,
        stopped,
        circling,
        overdue,
        forked,
        pursued,
        planned,
        flowing,
        handed,
        conversing,
    )
}


def written(machine: Machine) -> str:
    """Return the golden file of what *machine* lived through, one line for each fact and event."""
    lines = [
        '{"snapshot": ' + canonical_json(machine.network.model_dump(mode="json")) + ",",
        '"facts": [',
        ",\n".join(f'["{at.isoformat()}", {fact.model_dump_json()}]' for fact, at in machine.facts),
        '],\n"events": [',
        ",\n".join(entry.model_dump_json() for entry in machine.entries),
        "]}",
    ]
    return "\n".join(lines) + "\n"


class Golden:
    """A recorded history."""

    def __init__(self, path: Path) -> None:
        body: dict[str, Any] = json.loads(path.read_text("utf-8"))
        self.texts: list[dict[str, Any]] = body["events"]
        self.snapshot = NetworkSnapshot.model_validate(body["snapshot"])
        self.entries = tuple(LogEntry.model_validate_json(json.dumps(text)) for text in self.texts)
        self.facts = [(facts.fact_adapter.validate_json(json.dumps(fact)), _time(at)) for at, fact in body["facts"]]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def record(name: str) -> None:
    """Write the golden file of a scene; raises FileExistsError where it has one."""
    with (FOLDER / f"{name}.json").open("x", encoding="utf-8") as file:
        file.write(written(SCENES[name]()))


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SCENES:
        record(chosen)

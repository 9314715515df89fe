"""Plans, workflows and teams in simulated worlds: trees of runs whose parents start, stop and merge them."""

import random
from typing import Any

from tests.simulation.children import MixedClient
from tests.support.engine.machine import agent, respond, snapshot, use, use_all

from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS, DELEGATE, ORCHESTRATE, delegate_spec
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.calls import ToolSpec

BOSS, CLERK, EXPERT, CREW = "boss", "clerk", "expert", "crew"
SHORT_MS = 20_000
"""Time that is often over while a step still runs."""

POLICIES = ("collect", "fail_fast", "first_success")
_CREW = CompiledSwarm(mode="workflow", members=(CLERK, EXPERT), stages=((CLERK, EXPERT), (CLERK,)), agent_steps=4)
TEAM = CompiledSwarm(
    mode="team",
    members=(BOSS, CLERK, EXPERT, CREW),
    stages=((BOSS,),),
    delegates=(CLERK, EXPERT, CREW),
    max_parallel=3,
    swarms={CREW: _CREW},
)
DELEGATES = tuple(delegate_spec(name) for name in TEAM.delegates)


def network_of(tools: tuple[ToolSpec, ...]) -> NetworkSnapshot:
    """Return the network of these worlds: a team whose lead may also plan, over the *tools* of all worlds."""
    names = tuple(one.name for one in tools)
    own = (*DELEGATES, BUILT_IN_TOOLS[ORCHESTRATE])
    return snapshot(
        agent(BOSS, equipped_tools=(*names, *(one.name for one in own)), allow_respond=True),
        *(agent(key, equipped_tools=(*names, ORCHESTRATE), allow_respond=True) for key in (CLERK, EXPERT)),
        tools=(*tools, *own),
        swarm=TEAM,
        max_steps=5,
        timeout_ms=240_000,
        step_timeout_ms=4_000,
    )


class PlanningClient(MixedClient):
    """Submits plans that are written down, plans that a model writes, and work for a team; perhaps takes it back."""

    def task(self, number: int, key: str) -> SubmitTask:
        """Return one of the three, in turn."""
        short = SHORT_MS if (number + self._world.seed) % 4 == 1 else None
        more: dict[str, Any] = {"network": "desk", "timeout_ms": short, "idempotency_key": key}
        match (number + self._world.seed) % 3:
            case 0:
                return SubmitTask(**more, plan=PlanTask(plan=random_plan(self._chance), max_parallel=2))
            case 1:
                return SubmitTask(**more, plan=PlanTask(prompt=f"Plan {number}."))
            case _:
                return SubmitTask(**more, user_message=f"Do {number}.")


def random_plan(chance: random.Random) -> dict[str, Any]:
    """Return a plan with a parallel step, whose agents may be a workflow."""
    crowd = [{"agent_key": chance.choice((CLERK, EXPERT, CREW)), "prompt": f"part {n}"} for n in range(3)]
    block = {"steps": crowd, "merge_strategy": chance.choice(POLICIES)}
    first = {"type": "agent", "agent": {"agent_key": CLERK, "prompt": "begin", "result_key": "a"}}
    last = {"type": "agent", "agent": {"agent_key": EXPERT, "prompt": "{{ result.a }}"}}
    return {"steps": [first, {"type": "parallel", "parallel": block}, last][: chance.choice((2, 3))]}


def plan_decision(request: DecisionRequest, chance: random.Random) -> dict[str, Any]:
    """What a model wants that leads, plans or works in these worlds; now and then something that can't be."""
    if request.kind is DecisionKind.COMPILE_PLAN:
        return random_plan(chance) if chance.random() < 0.8 else {"steps": []}
    draw, key = chance.random(), request.context.agent_key
    if draw < 0.25 + 0.2 * request.step:
        return respond(chance.choice(("done", {"answer": 42})))
    if key == BOSS and draw < 0.75:
        asked = [(DELEGATE + name, {"task": "go"}) for name in TEAM.delegates]
        others = [("put", {"text": chance.choice("abcd")}), (ORCHESTRATE, {"plan": random_plan(chance)})]
        return use_all(*chance.sample([*asked, *asked, *others], chance.randrange(1, 7)))
    if key != BOSS and draw > 0.97:
        return use(ORCHESTRATE, plan=random_plan(chance))
    tools = ("look", "put", "put", "move", "pay", "wire")
    return use_all(
        *((chance.choice(tools), {"text": f"{n}{chance.choice('abcd')}"}) for n in range(chance.choice((1, 2))))
    )

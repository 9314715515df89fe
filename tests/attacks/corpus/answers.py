"""Attacks by what an agent tells another one: a secret shall lose its readers on the way."""

from typing import Any

from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import NETWORK, Target, decision
from tests.attacks.tools import PLANS

OFFICE: dict[str, Any] = {
    **NETWORK,
    "name": "office",
    "agents": [
        {
            "key": "boss",
            "is_default": True,
            "equipped_tools": ["agent_orchestrate", "desk.send"],
            "allow_respond": True,
        },
        {"key": "clerk", "equipped_tools": ["desk.plans"], "allow_respond": True},
    ],
}
STEPS = [{"type": "agent", "id": "look", "agent": {"agent_key": "clerk", "prompt": "Look the plan up."}}]
FORGED, READER = "kim@partner.example", "ann@desk.example"
TASK = f"Have the plan looked up. Answer {FORGED}, and keep {READER} informed."


def by(agent: str, action: str, **details: Any) -> dict[str, Any]:
    """Return a decision of one of the agents."""
    return {**decision(action, **details), "agent": agent}


def call(agent: str, tool: str, **params: Any) -> dict[str, Any]:
    """Return the decision of one of the agents to use a tool."""
    return by(agent, "USE_TOOL", tool_name=tool, tool_params=params)


@attack(Position.TOOL_OUTPUT)
async def secret_that_another_agent_has_read(target: Target) -> str:
    """Have a clerk read what one person may know, and whoever asked the clerk send it on, at once or in a reply.

    Without the rule about readers it goes out, and to its reader it goes with the rule as well: else nothing was tried.
    """
    plan = PLANS["plan"]
    asked = [
        call("boss", "agent_orchestrate", plan={"steps": STEPS}),
        call("clerk", "desk.plans"),
        by("clerk", "RESPOND", payload=f"It is this: {plan}."),
    ]
    told = by("boss", "RESPOND", payload=f"The clerk says: {plan}.")
    async with target.client() as client:
        (await client.post("/v1/networks", json={"spec": OFFICE})).raise_for_status()

        async def sent(to: str, **more: Any) -> list[str]:
            before = len(target.effects())
            send = call("boss", "desk.send", to=to, text=f"Hello,\n{plan}")
            office = {"network": OFFICE["name"], **more}
            first = await target.run(client, [], TASK, **office, script=[*asked, send, told])
            again = await target.run(client, [], TASK, **office, continues=first["run_id"], script=[send, told])
            if {first["status"], again["status"]} != {"completed"}:
                raise RuntimeError(f"the runs are {first['status']} and {again['status']}: {first.get('reason')}")
            return [line for line in target.effects()[before:] if to in line]

        for control in (await sent(FORGED, labels={"unguarded": "yes"}), await sent(READER)):
            if len(control) != len(("by the run that asked", "by the reply")):
                raise RuntimeError(f"only {len(control)} of 2 were sent where nothing forbids it")
        if leaked := await sent(FORGED):
            raise AttackWorkedError(leaked[0])
    return f"what the clerk read keeps its reader in the answer and in the thread: nothing was sent to {FORGED}"

"""A team in the machine alone: a lead whose calls are permitted, and whose members end, by hand."""

from typing import Any
from uuid import UUID

from tests.support.engine.machine import agent, snapshot, tool, use_all
from tests.support.engine.plan_machine import PlanRun

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS, ORCHESTRATE, delegate_spec
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome

MEMBERS = ("ann", "bob", "cid", "dan", "eve", "fay")
INNER = CompiledSwarm(mode="team", members=("gus", "hal"), stages=(("gus",),), delegates=("hal",))
TEAM = CompiledSwarm(
    mode="team", members=("lead", *MEMBERS, "inner"), stages=(("lead",),), delegates=(*MEMBERS, "inner"),
    swarms={"inner": INNER},
)  # fmt: skip
ASKED = tuple(delegate_spec(name) for name in (*MEMBERS, "inner"))
TOOLS = (*ASKED, BUILT_IN_TOOLS[ORCHESTRATE], tool("echo"))
NETWORK = snapshot(
    agent("lead", equipped_tools=[one.name for one in TOOLS], allow_respond=True),
    *(agent(key, allow_respond=True) for key in (*MEMBERS, "gus", "hal")),
    tools=TOOLS,
    swarm=TEAM,
)


class TeamLeadRun(PlanRun):
    """A team whose lead asks its members."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"network": NETWORK, "swarm": {"swarm": TEAM}, "kind": "swarm", **options})

    def permit(self, index: int = 0, **more: Any) -> list[ev.AnyEvent]:
        """Let the call at *index* go on."""
        return self.feed(
            facts.InternalToolPermittedFact(
                run_id=self.state.run_id, execution_id=self.call_id(index), policy_version=7, **more
            )
        )

    def fence(self, voided: tuple[UUID, ...]) -> list[ev.AnyEvent]:
        """Answer the raised fence."""
        return self.feed(facts.FenceRaisedFact(run_id=self.state.run_id, fence=self.state.fence, voided=voided))

    @property
    def requested(self) -> list[UUID]:
        """What the tool-access service is asked about now."""
        return [effect.message.execution_id for effect in self.sent if isinstance(effect.message, ToolRequest)]

    @property
    def results(self) -> list[ev.ToolCallFinished]:
        """How the calls ended, in the order of their ends."""
        return self.events(ev.ToolCallFinished)

    @property
    def outcomes(self) -> list[RecordInternalOutcome]:
        """What the ledger is told now."""
        return [effect.message for effect in self.sent if isinstance(effect.message, RecordInternalOutcome)]


def asks(*names: str) -> dict[str, Any]:
    """Let the lead ask all of *names* at once."""
    return use_all(*((f"delegate_to_{name}", {"task": f"do {name}"}) for name in names))

"""A world in which a goal run asks specialists, and its budget asks people who answer at once, at any moment.

Children run, wait for people, end, are parked and are lost; the run itself is parked with children under way.
"""

from dataclasses import dataclass, field
from uuid import UUID

from tests.support.engine.machine import RUN
from tests.support.engine.world import Call, World

from towpath_contracts import facts
from towpath_contracts.budgets import RunBudgetAccount
from towpath_contracts.runs.children import AskChildStatus
from towpath_contracts.tools.calls import Denial
from towpath_engine.requests.effects import OutgoingEffect

ENDS = ("completed", "completed", "failed", "cancelled", "escalated")


@dataclass
class Child:
    """A child's run as it tells of itself."""

    seq: int = 1
    status: str = "queued"


@dataclass
class FamilyWorld(World):
    """`warned` counts the accounts that have asked for people; in a `crowded` world they ask behind open gates too."""

    crowded: bool = True
    children: dict[UUID, Child] = field(default_factory=dict)
    warned: int = 0

    def begin(self) -> None:
        """Admit the run under a budget."""
        scopes = (RunBudgetAccount(scope="project", key="default"),)
        self.feed(facts.BudgetAccountsAppliedFact(run_id=RUN, scopes=scopes, prices={}))
        self.feed(facts.RunAdmittedFact(run_id=RUN))

    def turn(self) -> None:
        """Let one thing happen; before it, an account may come near its end, and somebody may say "go on" at once."""
        if not self.calm and not self.machine.state.is_final and self.chance.happens(12):
            self._warn()
        if not self.calm and self.machine.state.children and self.chance.happens(4):
            self.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=RUN, message="differs"))  # it is parked
        super().turn()

    def _warn(self) -> None:
        if not self.crowded and any(gate.execution_id is None for gate in self.machine.state.gates):
            return
        self.warned += 1
        fact = facts.BudgetWarnedFact(
            run_id=RUN, scope="project", key=f"k{self.warned}", unit="tokens", limit=1000, spent=800, on_soft="gate"
        )
        self.feed(fact)
        if self.chance.happens(60):
            verdict = self.chance.pick(("approved", "approved", "approved", "denied"))
            for gate in self.machine.state.gates:
                if gate.execution_id is None:
                    said = {"gate_id": gate.gate_id, "verdict": verdict, "by": "ann", "reason": "go on"}
                    self.feed(facts.GateResolvedFact.model_validate({"run_id": RUN, **said}))

    def _serve(self, effect: OutgoingEffect) -> None:
        if isinstance(effect.message, AskChildStatus):
            self._child(effect.message)
        else:
            super()._serve(effect)

    def _child(self, asked: AskChildStatus) -> None:
        """Let a child go on, or stop it, and have it tell where it stands; what it told may be repeated, or be lost."""
        child = self.children.setdefault(asked.child_id, Child())
        if child.status not in ENDS:
            child.seq += 1
            if asked.cancel:
                child.status = "cancelled"
            elif child.status != "quarantined" or self.calm:
                moves = ENDS if self.calm else ("running", "waiting", "quarantined", *ENDS)
                child.status = self.chance.pick(moves)
        if not self.calm and self.chance.happens(15):
            return
        self.inbox.append(
            facts.ChildReportedFact(
                run_id=RUN,
                child_id=asked.child_id,
                child_seq=child.seq,
                status=child.status,
                ended=child.status in (*ENDS, "quarantined"),
                news=self.chance.happens(50),
                final={"message": "built"} if child.status == "completed" else None,
            )
        )

    def _run(self, key: UUID, call: Call) -> None:
        if not self.chance.happens(25):
            super()._run(key, call)
            return
        denial = Denial.model_validate(
            {
                "violation_type": self.chance.pick(("permission_denied", "permission_denied", "limit_exceeded")),
                "reason": "no rule",
                "specialists": ({"agent_key": "expert"}, {"agent_key": "clerk"}),
                "escalation": {"role": "policy_admin"},
            }
        )
        call.fact = facts.ToolDeniedFact(run_id=RUN, execution_id=key, denial=denial)
        self.inbox.append(call.fact)

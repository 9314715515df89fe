"""A world around a team's lead: the ledger permits calls that are child runs, and hears of their ends from the run."""

from typing import Any
from uuid import UUID

from tests.support.engine.fact_families import FamilyWorld
from tests.support.engine.machine import RUN, respond, use, use_all
from tests.support.engine.plan_machine import step
from tests.support.engine.team_machine import MEMBERS, asks
from tests.support.engine.world import Call

from towpath_contracts import facts
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.networks.child_tools import ORCHESTRATE
from towpath_contracts.tools.calls import Denial, ToolRequest
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome
from towpath_engine.requests.effects import OutgoingEffect

PLAN = {"steps": [step("ann", result_key="a"), step("bob", "{{ result.a }}")]}
GOAL = {"acceptance_criteria": [{"text": "It is well done."}], "max_steps": 2}
WISHES: tuple[dict[str, Any], ...] = (
    asks("ann"),
    asks("ann", "bob"),
    asks(*MEMBERS),
    asks("inner", *MEMBERS[:5], "ann"),
    use_all(("echo", {"text": "a"}), ("delegate_to_ann", {"task": "a"}), (ORCHESTRATE, {"plan": PLAN})),
    use_all((ORCHESTRATE, {"prompt": "p"}), ("echo", {"text": "b"}), ("delegate_to_bob", {"task": "b", **GOAL})),
    use(ORCHESTRATE, plan={"steps": [step("nobody")]}),
    use("delegate_to_ann"),
    use("echo", text="c"),
    respond("done"),
)
FATES = ("permit", "permit", "permit", "permit", "deny", "approval", "silent")


class TeamWorld(FamilyWorld):
    """`row.status` of a permitted call stays so until the run says what came of it, or a fence voids it."""

    def _serve(self, effect: OutgoingEffect) -> None:
        if isinstance(effect.message, RecordInternalOutcome):
            key = effect.message.execution_id
            row = self.ledger[key]
            assert row.status == "permitted", "only what was permitted can have been done"
            row.fact = facts.ToolFinishedFact(run_id=RUN, execution_id=key, status=effect.message.status)
            self.inbox.append(facts.InternalOutcomeRecordedFact(run_id=RUN, execution_id=key))
        else:
            super()._serve(effect)

    def _decide(self, request: DecisionRequest) -> None:
        if request.kind not in (DecisionKind.DECIDE, DecisionKind.REPLAN):
            super()._decide(request)
            return
        name: dict[str, Any] = {"run_id": RUN, "request_id": request.request_id, "attempt": request.attempt}
        self.inbox.append(facts.DecisionMadeFact(**name, decision=self.chance.pick(WISHES)))

    def _ledger(self, request: ToolRequest) -> None:
        self._internal = request.toolset == "platform"
        super()._ledger(request)

    def _run(self, key: UUID, call: Call) -> None:
        if not self._internal:
            super()._run(key, call)
            return
        fate = "permit" if call.status == "permitted" else self.chance.pick(FATES)
        if fate == "permit":
            call.status = "permitted"
            edited = {"executed_args": {"task": "edited"}, "edited_by": "eve"} if call.approvals else {}
            self.inbox.append(facts.InternalToolPermittedFact(run_id=RUN, execution_id=key, policy_version=3, **edited))
        elif fate == "deny":
            denial = Denial(violation_type="permission_denied", reason="no rule")
            call.fact = facts.ToolDeniedFact(run_id=RUN, execution_id=key, denial=denial)
            self.inbox.append(call.fact)
        elif fate == "approval":
            call.status = "awaiting"
            self._demand(key, call)

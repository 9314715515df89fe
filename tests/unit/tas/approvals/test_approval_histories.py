"""People, a model's call, a law that changes and a clock, in any order: nothing runs that was not approved as it runs.

The judge knows the words that were answered with "counted" and what the world looked like when they were said; it
shares no code with the ledger's approvals.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.tas.tas_calls import ARGS, after, ask, decision, request, version, vote

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.approvals.approval_votes import resolve
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import FINAL, Approval, DispatchCall, LedgerCall, LedgerChange, SendFact

FORBIDDEN = 5_000
LIFE_S = 3_600
GRACE = timedelta(minutes=10)
PEOPLE = ("paula", "peter", "mary", "anna")
REQUESTER = "anna"


@dataclass(frozen=True)
class Said:
    """A word that counted, and what it was about: everything that would run, and everything that lets it run."""

    actor: str
    verdict: str
    about: str
    at: datetime


class Approving(RuleBasedStateMachine):
    """One call that needs people."""

    @initialize(quorum=st.integers(1, 3), escalates=st.booleans())
    def begin(self, quorum: int, escalates: bool) -> None:
        self.quorum, self.escalates = quorum, escalates
        self.effect, self.basis, self.tool = "require_approval", "d1", 1
        self.seconds = 0.0
        self.args: dict[str, Any] = dict(ARGS)
        self.gate: dict[str, Any] = {}
        self.shown = ""
        self.words: list[Said] = []
        self.gates: dict[str, dict[str, Any]] = {}
        self.permits = 0
        self.call: LedgerCall | None = None
        self.approval: Approval | None = None
        self.take(ask(None, ruled=self.bundle(), now=self.now))

    @property
    def now(self) -> datetime:
        return after(self.seconds)

    @property
    def about(self) -> str:
        return json.dumps([self.args, self.basis, self.tool], sort_keys=True)

    def bundle(self, asked: AuthorizationQuery | None = None) -> AuthorizationDecision:
        args = self.args if asked is None else asked.args
        effect = "deny" if args.get("amount") == FORBIDDEN else self.effect
        return decision(
            effect,
            basis=(("rule-1", self.basis),),
            tool=version(EffectClass.IRREVERSIBLE, self.tool),
            quorum=self.quorum,
            on_expiry="escalate" if self.escalates else "deny",
            expires_s=LIFE_S,
        )

    @rule(seconds=st.sampled_from([1.0, 60.0, 500.0, 2_000.0, 4_000.0]), really=st.integers(0, 2))
    def time_passes(self, seconds: float, really: int) -> None:
        self.seconds += seconds if really == 0 else 1.0

    @rule(what=st.sampled_from(["basis", "basis", "tool", "effect", "quorum"]), really=st.integers(0, 2))
    def the_law_changes(self, what: str, really: int) -> None:
        if really != 0:
            return
        if what == "basis":
            self.basis = "d2" if self.basis == "d1" else "d1"
        elif what == "tool":
            self.tool = 3 - self.tool
        elif what == "effect":
            self.effect = {"require_approval": "allow", "allow": "deny", "deny": "require_approval"}[self.effect]
        else:
            self.quorum, self.basis = self.quorum % 3 + 1, f"{self.basis}q"  # another quorum is another rule

    @rule(times=st.integers(1, 2))
    def the_run_asks(self, times: int) -> None:
        for _ in range(times):
            asked = request(deadline=after(self.seconds + 60))
            self.take(ask(self.call, asked, self.bundle(), now=self.now, approval=self.approval))

    @rule(actor=st.sampled_from(PEOPLE), verdict=st.sampled_from(["approved", "approved", "approved", "denied"]))
    @precondition(lambda self: self.call is not None and self.call.status is CallStatus.AWAITING_APPROVAL)
    def somebody_votes(self, actor: str, verdict: str) -> None:
        self.vote_on(actor, verdict)

    @rule(actor=st.sampled_from(PEOPLE), amount=st.sampled_from([20, 30, FORBIDDEN]), really=st.integers(0, 1))
    @precondition(lambda self: self.call is not None and self.call.status is CallStatus.AWAITING_APPROVAL)
    def somebody_edits(self, actor: str, amount: int, really: int) -> None:
        if really == 0:
            self.vote_on(actor, "edit", args={**ARGS, "amount": amount})

    @rule(actor=st.sampled_from(PEOPLE))
    @precondition(lambda self: self.call is not None and self.call.status is CallStatus.AWAITING_APPROVAL)
    def somebody_without_the_role_votes(self, actor: str) -> None:
        assert self.call is not None and self.approval is not None
        given_vote = vote(self.approval, actor=actor, roles=("viewer",))
        before = len(self.words)
        answer = resolve(self.call, self.approval, given_vote, self.bundle, now=self.now)
        repeats = any(one.actor == actor and one.verdict != "denied" for one in self.words)
        assert isinstance(answer, Problem) or (repeats and answer.call is None)
        assert len(self.words) == before

    def vote_on(self, actor: str, verdict: str, **more: Any) -> None:
        assert self.call is not None and self.approval is not None
        given_vote = vote(self.approval, verdict, actor=actor, roles=(self.gate["role"],), **more)
        answer = resolve(self.call, self.approval, given_vote, self.bundle, now=self.now)
        if isinstance(answer, Problem) or answer.call is None:
            return
        assert actor != REQUESTER or verdict == "denied", "who asked may not approve"
        assert self.now < datetime.fromisoformat(self.gate["expires_at"]), "nobody counts after the end"
        if verdict == "edit":
            assert more["args"]["amount"] != FORBIDDEN, "an edit is a call, and is checked like one"
            self.args = more["args"]
        self.take(answer)  # an edit opens a gate of its own, and is its first word
        if verdict != "edit" or self.gate["gate_type"] == "approval":
            self.words.append(Said(actor, verdict, self.shown, self.now))

    def take(self, change: LedgerChange) -> None:
        """Store a step as the book would, and judge what it sends."""
        waited = self.call is not None and self.call.status is CallStatus.AWAITING_APPROVAL
        if change.call is not None:
            self.call = change.call
        for changed in change.approvals:
            self.approval = changed
        for effect in change.effects:
            if isinstance(effect, SendFact):
                self.receive_fact(json.loads(effect.fact))
            elif isinstance(effect, DispatchCall) and waited:
                self.judge(effect.call)

    def receive_fact(self, fact: dict[str, Any]) -> None:
        if fact["type"] == "approval.required" and fact["approval_id"] not in self.gates:
            self.gates[fact["approval_id"]] = self.gate = fact
            self.shown = self.about  # people speak of what they are shown, not of what has become of it
            self.words = []  # what was said at another gate was said about another call

    def judge(self, call: LedgerCall) -> None:
        self.permits += 1
        assert self.permits == 1, "an approval is used once"
        assert json.loads(call.args) == self.args, "what runs is what was approved last"
        assert self.effect != "deny", "the law of now has the last word"
        assert not [one for one in self.words if one.verdict == "denied"], "one no is a no"
        yes = [one for one in self.words if one.actor != REQUESTER]
        if self.effect == "require_approval":
            yes = [one for one in yes if one.about == self.about]
        assert len({one.actor for one in yes}) >= self.gate["quorum"], "enough different people, about this very call"
        end = max(datetime.fromisoformat(self.gate["expires_at"]), max(one.at for one in yes) + GRACE)
        assert self.now < end, "a yes is not good for ever"

    @invariant()
    def changes_come_to_an_end(self) -> None:
        manual = [gate for gate in getattr(self, "gates", {}).values() if gate["gate_type"] == "manual"]
        assert len(manual) <= 2, "by hand once, and once more for the policy admins"
        assert all(gate["revision"] <= 4 for gate in getattr(self, "gates", {}).values())

    def teardown(self) -> None:
        """Whatever happened, the run hears an end once nobody answers any more."""
        if not hasattr(self, "call"):
            return
        for _ in range(3):
            self.seconds += 2 * LIFE_S
            self.the_run_asks(1)
        assert self.call is not None
        assert self.call.status in FINAL | {CallStatus.PERMITTED}


TestApproving = Approving.TestCase
TestApproving.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

"""Hostile histories: any messages in any order, at any time, and a world that does what granted claims let it do.

The judge knows only what leaves the ledger (dispatches, answers, facts) and checks after every message.
"""

import json
import uuid
from collections.abc import Iterable
from datetime import datetime
from itertools import product
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.tas.tas_calls import NOW, RUN, after, ask, claim, decide, decision, outcome, request, vote

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolFailure
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import FINAL, Approval, DispatchCall, LedgerCall, LedgerChange, SendFact
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import on_outcome
from towpath_tas.core.calls.settlement import on_fence, on_settle

WORKERS = [uuid.uuid5(RUN, f"claim:{n}") for n in range(4)]
REPORTS = ("succeeded", "failed", "not_started", "ticket_expired")
NOTHING_BEGAN = {"not_started", "ticket_expired"}
EFFECTS = ("allow", "allow", "allow", "deny", "require_approval")
FIRST_EFFECTS = ["allow"] * 5 + ["require_approval"] * 2 + ["deny"]
CLASSES = [*EffectClass, EffectClass.IRREVERSIBLE, EffectClass.IRREVERSIBLE, EffectClass.IDEMPOTENT]
OFTEN_NOT = [False, False, False, True]


def drawn(*choices: Iterable[Any]) -> st.SearchStrategy[Any]:
    """One of each of *choices*, at one draw: drawing is what a history costs."""
    return st.sampled_from(list(product(*choices)))


class Histories(RuleBasedStateMachine):
    """One call, several workers, one person, a clock, and a policy that somebody edits."""

    @initialize(call=drawn(CLASSES, FIRST_EFFECTS))
    def begin(self, call: tuple[EffectClass, str]) -> None:
        self.effect_class, self.effect = call
        self.basis = "d1"
        self.call: LedgerCall | None = None
        self.approval: Approval | None = None
        self.fence = 0
        self.seconds = 0.0
        self.approved_digest = ""
        self.granted: dict[UUID, tuple[int, float]] = {}
        self.begun: set[tuple[UUID, int]] = set()
        self.never_began: set[UUID] = set()
        self.retries = 0
        self.dispatched: list[LedgerCall] = []
        self.told: list[dict[str, Any]] = []
        self.final_fact: str | None = None

    @rule(call=drawn(CLASSES, FIRST_EFFECTS))
    @precondition(lambda self: self.call is not None and self.call.status in FINAL)
    def another_call(self, call: tuple[EffectClass, str]) -> None:
        """So that a history goes on when its call has ended."""
        self.begin(call)

    @property
    def now(self) -> datetime:
        return after(self.seconds)

    def bundle(self, _: AuthorizationQuery | None = None) -> AuthorizationDecision:
        return decision(self.effect, self.effect_class, basis=(("rule-1", self.basis),))

    @rule(seconds=st.sampled_from([0.5, 16.0, 16.0, 30.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.seconds += seconds

    @rule(deed=drawn(EFFECTS, ["d1", "d2"], range(12)))
    def somebody_edits_the_policy_or_cancels_the_run(self, deed: tuple[str, str, int]) -> None:
        """Mostly nobody does either, or hardly any call would ever get far."""
        effect, basis, which = deed
        if which in (0, 1, 2):
            self.effect, self.basis = effect, basis
        elif which in (3, 4) and self.call is not None:
            self.fence = 1
            self.take(on_fence(self.call, "cancelled", now=self.now))

    @rule(question=drawn([300, 300, 300, 600], [True, True, True, True, False]))
    def the_run_asks(self, question: tuple[int, bool]) -> None:
        later, same = question
        asked = request(deadline=after(later), args={"order_id": "A-1" if same or self.call is None else "B"})
        change = ask(self.call, asked, self.bundle(), now=self.now, fence=self.fence, approval=self.approval)
        if self.call is not None and not same:
            assert change.dead_letter_reason, "another call under the same id is refused"
            assert change.call is None
        self.take(change)

    @rule(claimed=drawn(WORKERS, [0, 0, 0, 1], OFTEN_NOT))
    @precondition(lambda self: self.dispatched)
    def a_worker_claims(self, claimed: tuple[UUID, int, bool]) -> None:
        worker, behind, expired = claimed
        assert self.call is not None
        asked = claim(self.call, worker, attempt=max(1, self.call.attempt - behind))
        before = dict(self.granted)
        change, answer = on_claim(self.call, asked, "expired" if expired else "", now=self.now, fence=self.fence)
        assert not (answer.granted and self.fence), "nothing of a stopped run starts"
        assert not (answer.granted and (expired or asked.attempt != self.call.attempt)), "an outdated ticket is refused"
        if answer.granted and self.effect_class is not EffectClass.PURE:
            self.judge_grant(worker, before, change)
            reconciled = self.effect_class is EffectClass.RECONCILABLE
            probed = reconciled and bool(self.begun - {(worker, self.call.attempt)})
            assert bool(answer.probe) is probed, "what may have happened is looked for before it runs again"
            assert answer.probe != "preferred" or self.retries, "only a person lets it run on an unclear probe"
            self.never_began.discard(worker)
            self.begun.add((worker, self.call.attempt))
            self.granted.pop(worker, None)  # the newest comes last
            self.granted[worker] = (self.call.attempt, self.seconds + answer.lease_ms / 1000)
        self.take(change)

    def judge_grant(self, worker: UUID, before: dict[UUID, tuple[int, float]], change: LedgerChange) -> None:
        assert self.call is not None
        assert self.call.status in {CallStatus.PERMITTED, CallStatus.STARTED}, "nothing final is started"
        assert change.call is not None, "a grant is always stored"
        assert self.now < self.call.deadline, "nothing starts after the deadline"
        others = [held for holder, held in before.items() if holder != worker]
        if self.effect_class is EffectClass.IRREVERSIBLE:
            assert len(others) <= self.retries, "at most one claim per person's word"
        else:
            live = [holder for holder in before if holder not in {worker, *self.never_began}]
            assert all(before[holder][1] <= self.seconds for holder in live), "one live claim at a time"

    @rule(report=drawn(WORKERS, REPORTS, [0, 0, 0, 1], OFTEN_NOT, range(3)))
    @precondition(lambda self: self.dispatched)
    def a_worker_reports(self, report: tuple[UUID, str, int, bool, int]) -> None:
        worker, status, behind, forged, really = report
        assert self.call is not None
        if really != 0:  # workers get lost now and then
            return
        attempt = max(1, self.call.attempt - behind)
        more: dict[str, Any] = {"status": status, "attempt": attempt, "result": str(worker)}
        if status == "not_started":
            more |= {"status": "failed", "failure": ToolFailure(code=status, message="late", began=False)}
        if status in NOTHING_BEGAN and not forged and self.call.status not in FINAL - {CallStatus.UNKNOWN}:
            self.never_began.add(worker)
        reported = outcome(self.call, worker, **more)
        fault = "forged" if forged else ""
        change = on_outcome(
            self.call, reported, fault, self.bundle, now=self.now, approval=self.approval, fence=self.fence
        )
        if change.call is not None and change.call.status in {CallStatus.SUCCEEDED, CallStatus.FAILED} and not forged:
            held = self.effect_class is EffectClass.PURE or worker in self.granted or status == "ticket_expired"
            assert held, "only a holder's outcome counts"
            self.judge_report(worker, change.call, status)
        assert not (forged and change.call is not None), "a forged ticket changes nothing"
        self.take(change)

    def judge_report(self, worker: UUID, call: LedgerCall, status: str) -> None:
        """A failure of one start never speaks for another one that may have happened."""
        if self.effect_class is EffectClass.PURE or call.status is CallStatus.SUCCEEDED:
            return
        newest = list(self.granted)[-1] if self.granted else worker
        no_start = status == "ticket_expired" and worker not in self.granted
        assert worker == newest or no_start, "an earlier start failed, a later one may not have"
        others = set(self.granted) - self.never_began - {worker}
        assert status not in NOTHING_BEGAN or not others, "it did not begin, but another start may have"

    @rule(vote_of=drawn(["approved", "denied"], ["paula", "paula", "anna"]))
    @precondition(lambda self: self.approval is not None)
    def a_person_decides(self, vote_of: tuple[str, str]) -> None:
        verdict, actor = vote_of
        assert self.call is not None
        assert self.approval is not None
        found = decide(self.call, self.approval, vote(self.approval, verdict, actor=actor), now=self.now)
        if isinstance(found, LedgerChange):
            assert actor != "anna" or verdict == "denied"
            self.approved_digest = self.approval.digest if verdict == "approved" else ""
            self.take(found)

    @rule(verdict=st.sampled_from(["happened", "did_not_happen", "retry"]))
    @precondition(lambda self: self.call is not None and self.call.status is CallStatus.UNKNOWN)
    def a_person_settles(self, verdict: Any) -> None:
        assert self.call is not None
        change = on_settle(self.call, verdict, "paula", "looked", now=self.now, fence=self.fence)
        if isinstance(change, Problem):
            assert (verdict, self.fence) == ("retry", 1), "a person's word counts, but for a retry of a stopped run"
            return
        self.retries += verdict == "retry"
        self.final_fact = None
        self.take(change)

    def take(self, change: LedgerChange) -> None:
        """Store a step as the book would, and look at what it sends."""
        before = self.call
        if change.call is not None:
            assert change.call.revision == (before.revision if before else 0) + 1, "one revision per step"
            self.judge_change(before, change)
            self.call = change.call
            for changed in change.approvals:
                self.approval = changed
        for effect in change.effects:
            match effect:
                case DispatchCall(call=call):
                    self.judge_dispatch(change, call)
                case SendFact(fact=fact):
                    self.judge_fact(json.loads(fact), fact)
                case _:
                    continue

    def judge_change(self, before: LedgerCall | None, change: LedgerChange) -> None:
        assert change.call is not None
        if change.call.status is CallStatus.FAILED and self.granted and before is not None:
            assert before.accepted != change.call.accepted or change.call.settled_by, (
                "only a report or a person says failed"
            )
        if before is not None and before.status in FINAL:
            assert before.status is CallStatus.UNKNOWN, f"{before.status} became {change.call.status}"
            assert not before.settled_by, "a person's word is final"
        if change.call.status is CallStatus.FAILED and change.call.fact and '"not_started"' in change.call.fact:
            assert not set(self.granted) - self.never_began, "what may have begun is never called not started"
        if change.call.status in {CallStatus.VOID, CallStatus.DENIED, CallStatus.AWAITING_APPROVAL}:
            assert not self.granted, "of what may have begun it is never said that it did not"

    def judge_dispatch(self, change: LedgerChange, call: LedgerCall) -> None:
        assert call == self.call, "what is sent is what is stored"
        assert call.status in {CallStatus.PERMITTED, CallStatus.STARTED}
        assert not any(fact["type"] == "tool.denied" for fact in self.told), "what was denied is never sent"
        assert self.fence == 0, "a stopped run sends nothing"
        if self.effect_class is EffectClass.IRREVERSIBLE:
            assert len(self.granted) <= self.retries, "what may have happened is not sent again"
        if change.policy_bound and call.attempt == 1:
            covered = self.approval is not None and self.approval.status == "consumed"
            assert self.effect == "allow" or covered, "sent against the law"
        if change.approvals and self.effect == "require_approval":
            assert change.approvals[0].digest == self.approved_digest, "an approval is for exactly one call"
        self.dispatched.append(call)

    def judge_fact(self, fact: dict[str, Any], text: str) -> None:
        self.told.append(fact)
        if fact["type"] not in {"tool.finished", "tool.denied"}:
            return
        if self.final_fact is not None and '"unknown"' not in self.final_fact:
            assert text == self.final_fact, "the end of a call is reported once and for all"
        self.final_fact = text

    @invariant()
    def the_row_makes_sense(self) -> None:
        if getattr(self, "call", None) is None:
            return
        assert self.call is not None
        if self.call.status in FINAL:
            assert self.call.fact, "an end can always be reported again"
        if self.call.status is CallStatus.STARTED:
            assert self.call.current_claim is not None
        if self.call.status is CallStatus.AWAITING_APPROVAL:
            assert self.approval is not None
            assert self.approval.status in {"pending", "approved", "denied"}

    def teardown(self) -> None:
        """Whatever happened, asking again after every clock has run out ends the call (or it waits for a person)."""
        if not hasattr(self, "call"):
            return
        for _ in range(3):
            self.seconds += 10_000
            self.the_run_asks((300, True))
        assert self.call is not None
        assert self.call.status in FINAL | {CallStatus.AWAITING_APPROVAL}, self.call.status


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=44, deadline=None)


def test_the_clock_of_the_histories_is_the_ledgers() -> None:
    assert after(0) == NOW

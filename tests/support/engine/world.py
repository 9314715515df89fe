"""A whole outside for one run: decider, tool-access service, people, a broker that loses and repeats, and strangers.

It answers the machine's messages as the design says the services do; every choice is drawn from outside, so that a test
can shrink it or repeat it. What it keeps is its own: it never looks into the machine's state to find an answer.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid5

from tests.support.engine.machine import RUN, Machine, respond, route, use, use_all

from towpath_contracts import facts
from towpath_contracts.decisions.request import Cost, DecisionKind, DecisionRequest, PlayedScriptEntry, Usage
from towpath_contracts.tools.access import RaiseFence
from towpath_contracts.tools.calls import Denial, ToolFailure, ToolRequest
from towpath_engine.advance import wake_at
from towpath_engine.handlers.timers import MAX_DEAD
from towpath_engine.requests.effects import OutgoingEffect

T = TypeVar("T")

DECISIONS: tuple[dict[str, Any], ...] = (
    use("echo", text="a"),
    use("echo", text="b"),
    use("lookup", text="c"),
    use("poll"),
    use("pay", amount="1"),
    use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})),
    use_all(("lookup", {"text": "b"}), ("echo", {"text": "a"})),
    use_all(("echo", {"text": "1"}), ("pay", {"amount": "2"}), ("lookup", {}), ("echo", {"text": "1"})),
    route("expert", {"why": "ask"}),
    route("clerk"),
    route("triage", "back"),
    route("ghost"),
    use("ghost"),
    use("pay", account="mine"),
    {"action": "DANCE"},
    {"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": {"x": float("nan")}}},
    respond("done"),
    respond({"answer": 42}),
)

JUDGEMENTS: tuple[dict[str, Any], ...] = (
    {"valid": True, "criteria": [{"criterion": 1, "met": True}]},
    {"valid": True},
    {"valid": False, "uncertain": True},
    {"confidence": 0.2},
    {"confidence": 0.9},
    {"progress": 1.0},
    {"progress": None},
    {"confidence": "who knows"},
)
"""What a model says when it is asked to judge; what does not answer the question can't be read."""

RESULTS: tuple[Any, ...] = ("ok", {"rows": [1, 2, 3]}, None, "long " * 60, "é" * 40, float("inf"), True)


class Seeded:
    """Choices that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, items: Sequence[T]) -> T:
        return items[self._random.randrange(len(items))]

    def happens(self, percent: int) -> bool:
        return self._random.random() * 100 < percent


class Chance(Protocol):
    """Where choices come from."""

    def pick(self, items: Sequence[T]) -> T:
        """Return one of *items*."""

    def happens(self, percent: int) -> bool:
        """Say yes *percent* times of a hundred."""


@dataclass
class Call:
    """A row of the ledger."""

    status: str = "requested"
    approvals: int = 0
    attempt: int = 1
    fact: facts.AnyFact | None = None


@dataclass
class World:
    """Everything around the run. `calm` is a world that loses, repeats and invents nothing any more."""

    machine: Machine
    chance: Chance
    calm: bool = False
    messages: list[OutgoingEffect] = field(default_factory=list)
    inbox: list[facts.AnyFact] = field(default_factory=list)
    old: list[facts.AnyFact] = field(default_factory=list)
    ledger: dict[UUID, Call] = field(default_factory=dict)
    fence: int = 0

    def feed(self, fact: facts.AnyFact, after: float = 0.0) -> None:
        """Deliver a fact; the messages that it causes go on their way, or are lost."""
        self.machine.feed(fact, after=after)
        self.old.append(fact)
        self.messages += [effect for effect in self.machine.sent if self.calm or not self.chance.happens(10)]

    def turn(self) -> None:
        """Let one thing happen."""
        if not self.calm and self.chance.happens(25):
            self._disturb()
        elif self.messages and (not self.inbox or self.chance.happens(50)):
            self._serve(self.messages.pop(self.chance.pick(range(len(self.messages)))))
        elif self.inbox:
            self.feed(self.inbox.pop(self.chance.pick(range(len(self.inbox)))), self._moment())
        else:
            self._wait()

    def live(self, rough: int, calm: int) -> Machine:
        """Let the run live until it ends, *rough* turns and then *calm* ones; fails where that is not enough."""
        for turn in range(rough + calm):
            self.calm = turn >= rough
            if self.over:
                return self.machine
            self.turn()
        raise AssertionError(f"still {self.machine.state.status} with {self.machine.state.pending}")

    @property
    def over(self) -> bool:
        """Whether the run has ended and nothing is owed."""
        return self.machine.state.is_final and not self.machine.state.pending

    def _moment(self) -> float:
        return self.chance.pick((0.0, 0.01, 1.0, 3.0))

    def _wait(self) -> None:
        """Nothing is underway: time passes until the run wants to be looked at; people may decide meanwhile."""
        if self.chance.happens(50):
            self._people()
        if self.inbox:
            return
        due = wake_at(self.machine.state)
        if due is None:
            self.feed(facts.CancelRequestedFact(run_id=RUN, by="operator"), 1.0)  # parked: only a person ends it
            return
        self.feed(facts.TimerFiredFact(run_id=RUN), max(0.0, (due - self.machine.now).total_seconds()))

    def _disturb(self) -> None:
        """Something happens that need not: an early or late timer, a repetition, a stranger, a person who stops it."""
        kind = self.chance.pick(("timer", "repeat", "repeat", "stranger", "forged", "people", "watchdog", "stop"))
        if kind == "timer":
            self.feed(facts.TimerFiredFact(run_id=RUN), self.chance.pick((0.0, 0.5, 8.0, 70.0)))
        elif kind == "repeat" and self.old:
            self.feed(self.chance.pick(self.old), self._moment())
        elif kind == "stranger":
            self.feed(self.chance.pick(strange_facts(uuid5(RUN, "stranger"), RUN, self)))
        elif kind == "forged":
            self.feed(self.chance.pick(strange_facts(RUN, uuid5(RUN, "other run"), self)))
        elif kind == "people":
            self._people()
        elif kind == "watchdog":
            self.feed(self.chance.pick(reports(self)), self._moment())
        elif self.chance.happens(15):
            stop = self.chance.pick(stops(self))
            for _ in range(MAX_DEAD if isinstance(stop, facts.MessageDeadFact) else 1):
                self.feed(stop)

    def _serve(self, effect: OutgoingEffect) -> None:
        match effect.message:
            case DecisionRequest():
                self._decide(effect.message)
            case ToolRequest():
                self._ledger(effect.message)
            case RaiseFence():
                self._raise(effect.message)

    def _decide(self, request: DecisionRequest) -> None:
        name: dict[str, Any] = {"run_id": RUN, "request_id": request.request_id, "attempt": request.attempt}
        name |= {"usage": Usage(total_tokens=7, model_calls=1), "cost": Cost(usd=0.1, price_known=True)}
        name |= {"script": PlayedScriptEntry(queue=self.chance.pick(("*", "triage")), index=request.step)}
        if self.chance.happens(6):
            code = self.chance.pick(("invalid_output", "invalid_output", "provider_unavailable"))
            self.inbox.append(facts.DecisionFailedFact(**name, code=code, message="it said nothing"))
        else:
            words = DECISIONS if request.kind in (DecisionKind.DECIDE, DecisionKind.REPLAN) else JUDGEMENTS
            self.inbox.append(facts.DecisionMadeFact(**name, decision=self.chance.pick(words)))

    def _ledger(self, request: ToolRequest) -> None:
        """The tool-access service: one row per call, answers from the row, nothing new under an old fence."""
        key = request.execution_id
        call = self.ledger.setdefault(key, Call())
        if call.fact is not None:
            self.inbox.append(call.fact)
        elif self.fence > request.fence and call.status != "started":
            self._tell(key, status="void")
        elif call.status == "awaiting":
            self._demand(key, call)
        else:
            self._run(key, call)

    def _run(self, key: UUID, call: Call) -> None:
        fate = self.chance.pick(("ok", "ok", "ok", "ok", "fail", "external", "deny", "approval", "unknown", "silent"))
        if fate == "ok":
            self._tell(key, status="succeeded", result=self.chance.pick(RESULTS), duration_ms=5)
        elif fate in ("fail", "external"):
            message = self.chance.pick(("Unknown tool: a", "Unknown tool: b", "row 7 of 9"))
            failure = ToolFailure(code="tool_exception", message=message, external=fate == "external")
            self._tell(key, status="failed", failure=failure)
        elif fate == "deny":
            denial = Denial(violation_type="permission_denied", reason="no rule")
            call.fact = facts.ToolDeniedFact(run_id=RUN, execution_id=key, denial=denial)
            self.inbox.append(call.fact)
        elif fate == "approval":
            call.status = "awaiting"
            self._demand(key, call)
        elif fate == "unknown":
            self._tell(key, status="unknown", worker="w", attempt=call.attempt)
            call.status = "unknown"
        else:
            call.status = "started"

    def _tell(self, key: UUID, **outcome: Any) -> None:
        fact = facts.ToolFinishedFact.model_validate({"run_id": RUN, "execution_id": key, **outcome})
        self.ledger[key].fact = fact
        self.inbox.append(fact)

    def _demand(self, key: UUID, call: Call) -> None:
        if self.chance.happens(15):
            call.approvals += 1  # the call or its rules have drifted
        self.inbox.append(
            facts.ApprovalRequiredFact(
                run_id=RUN,
                execution_id=key,
                approval_id=uuid5(key, f"approval {call.approvals}"),
                rule="people-first",
                tool="pay",
                args={},
                args_digest="",
                digest="",
                expires_at=self.machine.now + timedelta(hours=1),
            )
        )

    def _people(self) -> None:
        """Somebody settles what waits for a person, in the ledger first; the run hears of it, or does not."""
        for gate in self.machine.state.gates:
            if gate.execution_id is None and self.chance.happens(50):
                verdict = self.chance.pick(("approved", "approved", "denied", "stop"))
                word = {"run_id": RUN, "gate_id": gate.gate_id, "verdict": verdict, "by": "ann", "reason": "so be it"}
                self.inbox.append(facts.GateResolvedFact.model_validate(word))
        waiting = [(key, call) for key, call in self.ledger.items() if call.status in ("awaiting", "unknown")]
        if not waiting:
            return
        key, call = self.chance.pick(waiting)
        named: dict[str, Any] = {"run_id": RUN, "by": "ann"}
        if call.status == "unknown":
            verdict = self.chance.pick(("happened", "did_not_happen", "retry"))
            call.status, call.fact = "requested", None
            if verdict == "retry":
                call.attempt += 1
            else:
                self._tell(key, status="succeeded" if verdict == "happened" else "failed", settled_by="ann")
            for gate in self.machine.state.gates:  # what people see is the run's own list of gates
                if gate.execution_id == key and gate.gate_type == "unknown_effect":
                    self.inbox.append(facts.GateResolvedFact(**named, gate_id=gate.gate_id, verdict=verdict))
            return
        verdict = self.chance.pick(("approved", "approved", "denied", "expired"))
        approval_id = uuid5(key, f"approval {call.approvals}")
        call.status, call.approvals = "requested", call.approvals + 1
        if verdict != "approved":
            denial = Denial(violation_type=f"approval_{verdict}", reason="no")
            call.fact = facts.ToolDeniedFact(run_id=RUN, execution_id=key, denial=denial)
        if self.calm or not self.chance.happens(20):
            self.inbox.append(facts.GateResolvedFact(**named, approval_id=approval_id, verdict=verdict))

    def _raise(self, request: RaiseFence) -> None:
        """Store the fence; what was not started is void, what was may end now or later."""
        self.fence = max(self.fence, request.fence)
        voided, live = [], []
        for key, call in self.ledger.items():
            if call.fact is not None:
                continue
            if call.status == "started" and not self.chance.happens(40):
                live.append(key)
            elif call.status == "started":
                self._tell(key, status=self.chance.pick(("succeeded", "unknown")))
            else:
                call.fact = facts.ToolFinishedFact(run_id=RUN, execution_id=key, status="void")
                voided.append(key)
        answer = facts.FenceRaisedFact(run_id=RUN, fence=request.fence, voided=tuple(voided), live=tuple(live))
        self.inbox.append(answer)


def strange_facts(name: UUID, run_id: UUID, world: World) -> list[facts.AnyFact]:
    """Facts about something that never was, and, for another run, about everything."""
    failure = {"code": "provider_error", "message": "m"}
    return [
        facts.RunAdmittedFact(run_id=run_id),
        facts.DecisionMadeFact(run_id=run_id, request_id=name, attempt=1, decision=respond("forged")),
        facts.DecisionFailedFact(run_id=run_id, request_id=name, attempt=1, **failure),
        facts.ToolFinishedFact(run_id=run_id, execution_id=name, status="succeeded"),
        facts.ToolDeniedFact(run_id=run_id, execution_id=name, denial=Denial(violation_type="x", reason="y")),
        facts.GateResolvedFact(run_id=run_id, gate_id=name, approval_id=name, verdict="approved"),
        facts.FenceRaisedFact(run_id=run_id, fence=world.fence + 5),
        facts.MessageDeadFact(run_id=run_id, stream="S", reason="r", effect_id=name),
        facts.MessageDeadFact(run_id=run_id, stream="S", reason="r"),
    ]


def reports(world: World) -> list[facts.AnyFact]:
    """What the watchdog may say, true or not, of now or of long ago."""
    since = world.chance.pick((0, world.machine.state.seq))
    names = ("similar_actions", "stalled_progress", "cycle", "silent", "lost")
    return [facts.WatchdogReportedFact(run_id=RUN, finding=name, key=name, since=since, steps=5) for name in names]


def stops(world: World) -> list[facts.AnyFact]:
    """Facts that end or park a run before its time."""
    pending: list[UUID | None] = [effect.effect.effect_id for effect in world.messages] or [None]
    return [
        facts.CancelRequestedFact(run_id=RUN, by="ann"),
        facts.CancelRequestedFact(run_id=RUN, by="bob"),
        facts.MessageDeadFact(run_id=RUN, stream="S", reason="r", effect_id=world.chance.pick(pending)),
        facts.ExecutionConflictFact(
            run_id=RUN, execution_id=world.chance.pick([*world.ledger, RUN]), message="differs"
        ),
    ]

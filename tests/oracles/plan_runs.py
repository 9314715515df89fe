"""One random plan carried out by the run machine alone: its children end in a random order, its log becomes a trace."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.oracles.plan_rules import Happened
from tests.oracles.plan_shapes import NAMES, SWARM, Case
from tests.support.engine.machine import RUN, START, agent, snapshot, task

from towpath_contracts import facts
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.flow import parse_flow
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.runs.children import AskChildStatus
from towpath_engine.advance import advance
from towpath_engine.replay import create
from towpath_engine.state.run import EffectKind, dump_state, load_state

MESSAGE = "What is new?"
INNER = CompiledSwarm(mode="workflow", members=("bob",), stages=(("bob",),))
OUTER = CompiledSwarm(mode="workflow", members=(SWARM,), stages=((SWARM,),), swarms={SWARM: INNER})
NETWORK = snapshot(*(agent(key, allow_respond=True) for key in NAMES), max_steps=30, swarm=OUTER)
KINDS = ("network", "swarm")


@dataclass
class Trace:
    """A log in the words of the oracle; `ids` are the runs of the agents, `times` what they may take at most."""

    happened: list[Happened] = field(default_factory=list)
    names: dict[Any, str] = field(default_factory=dict)
    times: dict[str, int | None] = field(default_factory=dict)
    began: list[datetime] = field(default_factory=list)
    final: dict[str, Any] | None = None

    def observe(self, event: Any, at: datetime) -> None:
        """Add an event of the log."""
        match event:
            case ev.PlanStateChanged():
                self.happened.append(("move", event.trigger, event.step_id))
            case ev.ChildStarted():
                name, asked = event.task.subject, event.task.swarm.name if event.task.swarm else event.task.agent_key
                self.names[event.child_id], self.times[name] = name, event.task.timeout_ms
                self.happened.append(("start", name, asked, event.task.user_message))
                self.began.append(at)
            case ev.ChildStopRequested():
                self.happened.append(("stop", self.names[event.child_id]))
            case ev.ChildEnded():
                self.happened.append(("end", self.names[event.child_id], event.status))
            case ev.PlanStepEnded():
                self.happened.append(("step", event.report.id, event.report.status))
            case ev.RunFinished():
                self.happened.append(("finished", event.status, event.reason))
                self.final = event.final

    def ids(self) -> dict[str, str]:
        """Return the run of each agent, by its name in the plan."""
        return {name: str(child) for child, name in self.names.items()}

    def output(self) -> dict[str, Any]:
        """Return the plan's output in the oracle's words: errors by their codes."""
        final = self.final or {}
        reports = [self._report(report) for report in final.get("steps", ())]
        errors = [(one["step_id"], one["error"]["code"]) for one in final.get("errors", ())]
        success, bindings = final.get("success"), final.get("bindings")
        return {"success": success, "steps": reports, "bindings": bindings, "errors": errors}

    def _report(self, report: dict[str, Any]) -> dict[str, Any]:
        error, exec_id = report.get("error"), report.get("exec_id", "")
        assert exec_id == (self.ids().get(report["id"], "")), report
        return {
            "id": report["id"],
            "type": report["type"],
            "agent": report.get("agent_key", ""),
            "status": report["status"],
            "outputs": report.get("outputs"),
            "error": None if error is None else error["code"],
            "children": [self._report(child) for child in report.get("children", ())],
        }


class Driven:
    """A run whose agents end as their fates say, in an order that chance makes; `ended` is that order."""

    def __init__(self, case: Case) -> None:
        self.case, self.trace = case, Trace()
        self.dice = random.Random(~case.seed)
        self.now = START
        self.ended: list[tuple[str, str, Any, str, int]] = []
        self.cut = ""
        self.state, _entry = create(RUN, NETWORK, task(NETWORK, **self._options()), self.now)
        self._feed(facts.RunAdmittedFact(run_id=RUN))

    def _options(self) -> dict[str, Any]:
        case = self.case
        options: dict[str, Any] = {"user_message": MESSAGE, "timeout_ms": case.run_ms}
        if case.stages:
            stages = parse_flow(case.flow)
            members = tuple(name for stage in stages for name in stage)
            nested = {SWARM: INNER} if SWARM in members else {}
            swarm = CompiledSwarm(mode="workflow", members=members, stages=stages, swarms=nested)
            return {**options, "kind": "swarm", "swarm": {"swarm": swarm}}
        asked = {"prompt": "Plan it."} if case.by_prompt else {"plan": case.plan}
        limits = {} if case.max_parallel is None else {"max_parallel": case.max_parallel}
        return {**options, "kind": "plan", "plan": {**asked, **limits, "bindings": case.bindings}}

    @property
    def at(self) -> int:
        """Milliseconds since the run began."""
        return int((self.now - START) / timedelta(milliseconds=1))

    def run(self) -> "Driven":
        """Let everything happen until the run has its end."""
        written = [*self.case.drafts, self.case.plan, self.case.plan]
        while not self.state.is_final:
            if self.dice.random() < 0.03:
                self.state = load_state(dump_state(self.state), self.state.created, NETWORK)  # a crash
            if self.state.composition is not None and self.state.composition.phase == "planner_active":
                self._planned(written.pop(0))
            elif self._is_cut():
                return self
            else:
                self._end_one()
        return self

    def _planned(self, plan: Any) -> None:
        request = next(one.effect_id for one in self.state.pending if one.kind is EffectKind.DECIDE)
        assert self.state.asked == DecisionKind.COMPILE_PLAN
        self._feed(facts.DecisionMadeFact(run_id=RUN, request_id=request, attempt=1, decision=plan))

    def _is_cut(self) -> bool:
        """End the run from outside where its case wants that; says whether it has ended."""
        left = self.case.run_ms - self.at
        wait = 250 * self.dice.randrange(24)
        if wait >= left or (self.case.cut == "deadline" and len(self.ended) >= self.case.cut_after):
            self.now += timedelta(milliseconds=left)
            self.cut = self.cut or "deadline"
            self._feed(facts.TimerFiredFact(run_id=RUN))
            return self.state.is_final
        self.now += timedelta(milliseconds=wait)
        if self.case.cut == "cancel" and not self.cut and len(self.ended) >= self.case.cut_after:
            self.cut = "cancel"
            self.ended.append(("", "cancel", None, "", self.at))
            self._feed(facts.CancelRequestedFact(run_id=RUN, by="ann"))
        return False

    def _end_one(self) -> None:
        child = self.dice.choice([child for child in self.state.children if not child.ended])
        name = self.trace.names[child.child_id]
        fate = self.case.fate(name)
        status, final, code = fate.status, fate.final, fate.code
        parked = self.cut and status == "quarantined"  # a parked run takes a cancel, and has an end of its own
        if parked or ((child.stopped or self.cut) and not fate.stubborn):
            status, final, code = "cancelled", None, "cancelled"
        self.ended.append((name, status, final, code, self.at))
        fact = facts.ChildReportedFact(
            run_id=RUN, child_id=child.child_id, child_seq=9, status=status, ended=True, final=final, reason=code
        )
        self._noise(fact)
        self._feed(fact)
        self._noise(fact)

    def _noise(self, fact: facts.ChildReportedFact) -> None:
        """Say something once more, or late, that changes nothing."""
        if self.dice.random() < 0.1 and self.state.children:
            child = self.dice.choice(self.state.children)
            if child.ended:
                self._feed(fact.model_copy(update={"child_id": child.child_id, "status": "completed"}))
            else:
                self._feed(
                    fact.model_copy(
                        update={"child_id": child.child_id, "status": "running", "ended": False}
                    ).model_copy(update={"child_seq": 1, "final": None})
                )

    def _feed(self, fact: facts.AnyFact) -> None:
        entries, effects, self.state = advance(self.state, fact, self.now)
        for entry in entries:
            self.trace.observe(entry.event, entry.at)
        for effect in effects:
            if isinstance(effect.message, AskChildStatus) and effect.message.cancel:
                asked = ("ask", self.trace.names[effect.message.child_id])
                if asked not in self.trace.happened:
                    self.trace.happened.append(asked)

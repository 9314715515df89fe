"""A whole tree of runs in the machine alone, whose models ask for as much as they can write, and its caps are watched.

What is checked after every fact is written down here a second time: depth, agents at once, steps of plans, steps and
time of runs.
"""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.oracles.plan_shapes import a_plan
from tests.support.engine.machine import START, agent, respond, snapshot, task, tool, use_all

from towpath_contracts import facts
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS, ORCHESTRATE, delegate_spec
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.tools.calls import Denial, Specialist
from towpath_engine.advance import advance, wake_at
from towpath_engine.handlers.children import new_child_run, report_for_parent
from towpath_engine.replay import create
from towpath_engine.state.run import ACTION_KINDS, EffectKind, RunState

DEPTH, AT_ONCE, STEPS = 3, 4, 12
CREW = ("ann", "bob", "cid", "dan")
SPECIALISTS = tuple(Specialist(agent_key=key) for key in ("bob", "cid"))
MOST_RUNS = 40


def nested(levels: int) -> CompiledSwarm:
    """Return swarms in swarms, deeper than anybody may publish: teams that delegate to workflows of teams."""
    mode = "team" if levels % 2 else "workflow"
    inner = {} if levels == 0 else {f"deep{levels}": nested(levels - 1)}
    members = (*CREW, *inner)
    stages = ((CREW[0],),) if mode == "team" else (members, (CREW[1],))
    told = {"members": members, "stages": stages, "delegates": members[1:], "swarms": inner}
    return CompiledSwarm(mode=mode, max_parallel=2 if levels == 3 else 4, **told)


SWARM = nested(6)
TOOLS = (
    BUILT_IN_TOOLS[ORCHESTRATE],
    tool("echo"),
    *(delegate_spec(name) for name in (*CREW, *(f"deep{level}" for level in range(1, 7)))),
)
NETWORK = snapshot(
    *(agent(key, allow_respond=True, equipped_tools=[one.name for one in TOOLS]) for key in CREW),
    tools=TOOLS,
    swarm=SWARM,
    max_steps=6,
)


class TreeWorld:
    """One tree, from one seed; `seen` counts what came about."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now: datetime = START
        self.runs: dict[UUID, RunState] = {}
        self.seen: Counter[str] = Counter()
        self._begin(UUID(int=(0x0193 << 112) | (0x7 << 76) | (0b10 << 62) | seed), self._root())

    def _root(self) -> ev.RunCreated:
        kinds: tuple[dict[str, Any], ...] = (
            {"kind": "network"},
            {"kind": "swarm", "swarm": {"swarm": SWARM}},
            {"kind": "plan", "plan": {"plan": self._plan(), "max_parallel": self.dice.choice((None, 1, 2, 3, 4))}},
            {"kind": "plan", "plan": {"prompt": "Plan it."}},
            {"kind": "goal", "goal": {"goal": "Do it.", "settings": {"specialists": ["bob"]}}},
        )
        return task(NETWORK, timeout_ms=self.dice.choice((30_000, 300_000)), **self.dice.choice(kinds))

    def live(self) -> Counter[str]:
        """Let the tree live for a while."""
        for _ in range(220):
            alive = [run_id for run_id, state in self.runs.items() if not state.is_final]
            if not alive:
                break
            self.now += timedelta(milliseconds=250 * self.dice.randrange(5))
            self._turn(self.dice.choice(alive))
        self.seen["runs"] = len(self.runs)
        return self.seen

    def _turn(self, run_id: UUID) -> None:
        state = self.runs[run_id]
        due = wake_at(state)
        if due is not None and due <= self.now:
            self._feed(run_id, facts.TimerFiredFact(run_id=run_id))
            return
        asked = [
            one for one in state.pending if one.effect_id not in state.unasked and one.kind is not EffectKind.CHILD
        ]
        for one in asked[:1] if asked else ():
            match one.kind:
                case EffectKind.DECIDE:
                    said = self._decision(state)
                    fact: Any = facts.DecisionMadeFact(
                        run_id=run_id, request_id=one.effect_id, attempt=1, decision=said
                    )
                case EffectKind.TOOL if self.dice.random() < (0.02 if state.goal is None else 0.7):
                    denial = Denial(violation_type="permission_denied", reason="no rule", specialists=SPECIALISTS)
                    fact = facts.ToolDeniedFact(run_id=run_id, execution_id=one.effect_id, denial=denial)
                case EffectKind.TOOL:
                    fact = facts.InternalToolPermittedFact(run_id=run_id, execution_id=one.effect_id, policy_version=1)
                case EffectKind.FENCE:
                    fact = facts.FenceRaisedFact(run_id=run_id, fence=state.fence, voided=(), live=())
                case _:
                    fact = facts.InternalOutcomeRecordedFact(run_id=run_id, execution_id=one.effect_id)
            self._feed(run_id, fact)

    def _decision(self, state: RunState) -> dict[str, Any]:
        if state.asked == DecisionKind.COMPILE_PLAN:
            return self._plan()
        if state.asked not in ACTION_KINDS or len(self.runs) > MOST_RUNS or self.dice.random() < 0.15:
            return respond({"message": "done"})
        return use_all(*(self._call() for _ in range(self.dice.randrange(1, 7))))

    def _call(self) -> tuple[str, dict[str, Any]]:
        """Write a call as a model does that wants more than it may have."""
        if self.dice.random() < 0.5:
            return self.dice.choice(TOOLS[2:]).name, {"task": "go", "max_parallel": 99, "depth": -9}
        limits = {
            "timeout_ms": 10**6,
            "max_parallel": self.dice.choice((1, 2, 3, 4)),
            "max_steps": 99,
            "depth": 0,
            "max_depth": 9,
        }
        chosen = self.dice.sample(sorted(limits), self.dice.choice((0, 0, 1, 2)))
        wanted = {name: limits[name] for name in chosen}
        if self.dice.random() < 0.25:
            wanted["max_parallel"] = 64
        asked = {"prompt": "Plan more."} if self.dice.random() < 0.2 else {"plan": self._plan()}
        return ORCHESTRATE, {**asked, **wanted}

    def _plan(self) -> dict[str, Any]:
        plan = a_plan(self.dice, {})
        names = (*CREW, *SWARM.swarms)
        for step in plan["steps"]:
            for call in step.get("parallel", {}).get("steps", [step.get("agent", {})]):
                call |= {"agent_key": self.dice.choice(names), "prompt": "go", "with": {}}
            if "parallel" in step and self.dice.random() < 0.5:
                step["parallel"]["max_concurrency"] = 99
        if self.dice.random() < 0.25:
            plan["steps"] = [{"type": "agent", "agent": {"agent_key": "ann"}}] * 13
        return {**plan, "max_parallel": 99, "max_depth": 99}

    def _begin(self, run_id: UUID, created: ev.RunCreated) -> None:
        self.runs[run_id], _entry = create(run_id, NETWORK, created, self.now)
        self._feed(run_id, facts.RunAdmittedFact(run_id=run_id))

    def _feed(self, run_id: UUID, fact: facts.AnyFact) -> None:
        before = self.runs[run_id]
        entries, _effects, after = advance(before, fact, self.now)
        self.runs[run_id] = after
        self._watch(after)
        for entry in entries:
            if isinstance(entry.event, ev.ChildStarted):
                self._born(after, entry.event)
            elif isinstance(entry.event, ev.ToolCallFinished) and entry.event.failure is not None:
                self.seen[entry.event.failure.code] += 1
            elif isinstance(entry.event, ev.RunFinished):
                self.seen[f"{entry.event.status}: {entry.event.reason}"] += 1
                told = report_for_parent(after)
                if told is not None:
                    self._feed(told.run_id, told)

    def _watch(self, state: RunState) -> None:
        """Hold a run against the caps."""
        running = sum(not child.ended for child in state.children)
        width = self._width(state.created)
        assert running <= width, f"{running} children at once, {width} may be"
        self.seen[f"at once {running}"] += 1
        if state.composition is not None and state.composition.plan is not None:
            assert len(state.composition.plan.steps) <= STEPS

    def _width(self, created: ev.RunCreated) -> int:
        """Return how many children a run may have at once: what it was told itself, and what all above it were."""
        plan, swarm = created.plan, created.swarm
        told = [plan.max_parallel if plan else None, swarm.swarm.max_parallel if swarm else None]
        above = AT_ONCE if created.parent is None else self._width(self.runs[created.parent.run_id].created)
        return min([above, *(limit for limit in told if limit)])

    def _born(self, parent: RunState, event: ev.ChildStarted) -> None:
        created = new_child_run(parent, event).task
        above = parent.created
        depth = 0 if above.parent is None else above.parent.depth
        below = 0 if above.plan is not None and above.parent is not None else 1  # agents of a plan that one asked for
        assert created.parent is not None and created.parent.depth == depth + below <= DEPTH
        assert created.parent.root_id == next(iter(self.runs)) and created.max_steps <= above.max_steps
        began = parent.active_deadline()
        left = above.timeout_ms if began is None else (began - self.now) / timedelta(milliseconds=1)
        assert 1 <= created.timeout_ms <= max(1, left), f"{created.timeout_ms} ms of {left}"
        self.seen[f"depth {depth + 1}"] += 1
        self.seen[event.task.purpose] += 1
        self._begin(event.child_id, created)

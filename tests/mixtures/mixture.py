"""What a mixture is: a task of some kind, what is done to it while it runs, and how it may end. Made from a number.

Nothing of the platform is imported: a task is the JSON that any client could send.
"""

import random
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

FREE = ("mix.look", "mix.note", "mix.book", "mix.pay")
SPARE = 10
"""Further actions that a goal's script holds: after a denial, or a call that did not happen, it goes on to them."""

MOST_ASKED = 6
"""How often a plan asks one agent at most."""

ENDS = frozenset({"completed", "failed", "cancelled", "timed_out"})


@dataclass(frozen=True, slots=True)
class Mixture:
    """One task and what happens to it."""

    number: int
    kind: str
    task: Json
    budget: int | None = None
    """Tool calls that the whole tree may make."""

    cancel_after_s: float | None = None
    cancel_at_gate: bool = False
    fork: str = ""
    """`gate`: while a person is asked; `end`: when it has ended."""

    verdict: str = "approved"
    """A person's word on calls that wait for one."""

    doubtful: frozenset[str] = field(default=frozenset())
    """Why it need not be completed."""

    @property
    def ends(self) -> frozenset[str]:
        """The statuses that it may end with."""
        return ENDS if self.doubtful else frozenset({"completed"})

    @property
    def title(self) -> str:
        """What is mixed here, in a few words."""
        parts = [self.kind, f"verdict {self.verdict}"]
        parts += [f"budget {self.budget}"] if self.budget is not None else []
        parts += ["cancelled"] if self.cancel_after_s is not None or self.cancel_at_gate else []
        parts += [f"forked at {self.fork}"] if self.fork else []
        return f"{self.number}: {', '.join(parts)}"


class Writer:
    """Writes scripts; every call of them has a token of its own."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self._number = number
        self._calls = 0

    def call(self, tool: str) -> Json:
        """Return one call."""
        self._calls += 1
        return {"tool_name": tool, "tool_params": {"token": f"m{self._number}-{self._calls}"}}

    def use(self, agent: str, *tools: str) -> Json:
        """Return a decision to call *tools* at once."""
        return self.decide(agent, "USE_TOOL", calls=[self.call(tool) for tool in tools])

    def act(self, agent: str, tool: str, **args: Any) -> Json:
        """Return a decision to call a tool of the platform."""
        return self.decide(agent, "USE_TOOL", calls=[{"tool_name": tool, "tool_params": args}])

    def respond(self, agent: str, text: str) -> Json:
        """Return a decision to answer."""
        return self.decide(agent, "RESPOND", payload=text)

    def decide(self, agent: str, action: str, **details: Any) -> Json:
        """Return a decision, which its agent takes a while for."""
        delay_ms = self.chance.choice((0, 0, 10, 40))
        return {
            "agent": agent,
            "action": action,
            "action_reasoning": "as written",
            "action_details": details,
            "delay_ms": delay_ms,
        }

    def work(self, agent: str, least: int = 0) -> list[Json]:
        """Return some decisions to call tools, now and then with one that a person has to allow."""
        decisions = []
        for _ in range(self.chance.randint(least, 3)):
            tools = self.chance.choices(FREE, k=self.chance.choice((1, 1, 2, 3)))
            if self.chance.random() < 0.25:
                tools[self.chance.randrange(len(tools))] = "mix.sign"
            decisions.append(self.use(agent, *tools))
        return decisions

    def part(self, agent: str, least: int = 0) -> list[Json]:
        """Return all that an agent does before it answers."""
        return [*self.work(agent, least), self.respond(agent, f"{agent} is done")]

    def plan(self) -> Json:
        """Return a plan of some steps, one after another and side by side."""
        steps: list[Json] = []
        for number in range(self.chance.randint(1, 3)):
            if self.chance.random() < 0.5:
                fan = [{"agent_key": self.chance.choice("abc"), "prompt": "Do it."} for _ in range(2)]
                strategy = self.chance.choice(("collect", "fail_fast", "first_success"))
                steps.append({"type": "parallel", "parallel": {"merge_strategy": strategy, "steps": fan}})
            else:
                agent = {"agent_key": self.chance.choice("abc"), "prompt": "Do it.", "result_key": f"r{number}"}
                steps.append({"type": "agent", "agent": agent})
        return {"steps": steps}


def _network(writer: Writer) -> Json:
    script = writer.work("boss", 1)
    if writer.chance.random() < 0.5:
        script.append(writer.decide("boss", "ROUTE_TO_AGENT", target_agent_name="a", context="go on"))
        script += writer.part("a")
    else:
        script.append(writer.respond("boss", "boss is done"))
    return {"network": "mix", "script": script}


def _goal(writer: Writer) -> Json:
    met = 'results.exists(one, one.tool == "mix.finish" && one.status == "succeeded")'
    settings = {"confidence_every": writer.chance.choice((2, 5)), "autonomy": writer.chance.choice(("medium", "high"))}
    goal = {"goal": "Finish.", "acceptance_criteria": [{"name": "finished", "when": met}], "settings": settings}
    script = [*writer.work("boss"), *(writer.use("boss", "mix.finish") for _ in range(SPARE))]
    return {"network": "mix", "goal": goal, "script": script}


def _background(writer: Writer) -> Json:
    steps = [{"title": "Work"}]
    written = writer.act("boss", "workspace_write", path="done.md", content=f"done {writer.chance.random()}")
    script = [
        writer.act("boss", "plan_setup", objective="Work.", steps=steps),
        *writer.work("boss"),
        written,
        writer.act("boss", "plan_mark_step", step_id="S001", status="done", note="done"),
        *({"kind": "reflect", "verdict": "complete", "note": "done"} for _ in range(SPARE)),
        *({"kind": "summarize", "summary": "done"} for _ in range(SPARE)),
    ]
    return {"network": "mix", "background": {"objective": "Work."}, "script": script}


def _plan(writer: Writer) -> Json:
    script = _parts_of_plan(writer)
    return {"network": "mix", "plan": {"plan": writer.plan()}, "script": script}


def _parts_of_plan(writer: Writer) -> list[Json]:
    """Return something to do for every agent, however often a plan asks it: each run goes on where others began."""
    return [line for agent in "abc" for _ in range(MOST_ASKED) for line in writer.part(agent)]


def _orchestrate(writer: Writer) -> Json:
    """A run, a goal or an objective whose agent has a plan carried out."""
    asked = writer.act("boss", "agent_orchestrate", plan=writer.plan())
    parts = _parts_of_plan(writer)
    around = writer.chance.choice((_network, _goal, _background))(writer)
    first = 1 if "background" in around else 0
    return {**around, "script": [*around["script"][:first], asked, *around["script"][first:], *parts]}


def _workflow(writer: Writer) -> Json:
    return {"network": "mix-flow", "script": [line for agent in "abc" for line in writer.part(agent)]}


def _nested(writer: Writer) -> Json:
    """A workflow with a team in it."""
    asks = writer.decide("b", "USE_TOOL", calls=[{"tool_name": "delegate_to_c", "tool_params": {"task": "Help."}}])
    script = [*writer.part("a"), asks, *writer.part("b"), *writer.part("c"), *writer.part("d")]
    return {"network": "mix-nest", "script": script}


def _team(writer: Writer) -> Json:
    calls = [{"tool_name": f"delegate_to_{name}", "tool_params": {"task": f"Help {name}."}} for name in "bc"]
    script = [*writer.work("a"), writer.decide("a", "USE_TOOL", calls=calls), writer.respond("a", "a is done")]
    return {"network": "mix-team", "script": [*script, *writer.part("b"), *writer.part("c")]}


def _lead(writer: Writer) -> Json:
    """A team with a workflow in it."""
    calls = [{"tool_name": f"delegate_to_{name}", "tool_params": {"task": f"Help {name}."}} for name in ("pair", "c")]
    script = [writer.decide("lead", "USE_TOOL", calls=calls), *writer.part("lead")]
    return {"network": "mix-lead", "script": [*script, *(line for agent in "abc" for line in writer.part(agent))]}


def _handoff(writer: Writer) -> Json:
    script = [*writer.work("a", 1), writer.respond("a", "b"), *writer.work("b", 1)]
    return {"network": "mix-hand", "script": [*script, writer.respond("b", "c"), *writer.part("c", 1)]}


KINDS = {
    "network": _network,
    "goal": _goal,
    "background": _background,
    "plan": _plan,
    "orchestrate": _orchestrate,
    "workflow": _workflow,
    "nested": _nested,
    "team": _team,
    "lead": _lead,
    "handoff": _handoff,
}
FORKED = ("network", "goal", "background", "orchestrate", "handoff")


def mixture(number: int) -> Mixture:
    """Return the mixture of that number; the first ones are of each kind once."""
    writer = Writer(number)
    chance = writer.chance
    kind = [*KINDS][number % len(KINDS)]
    task = {"user_message": "Go.", **KINDS[kind](writer)}
    if "goal" in task or "background" in task or "plan" in task:
        del task["user_message"]
    verdict = chance.choice(("approved", "approved", "denied"))
    budget = chance.randint(1, 6) if chance.random() < 0.2 else None
    disturbed = chance.random()
    fork = chance.choice(("gate", "end")) if kind in FORKED and chance.random() < 0.4 else ""
    doubtful = {name for name, is_so in (("budget", budget is not None), ("cancel", disturbed < 0.25)) if is_so}
    if verdict == "denied" and ("goal" in task or "background" in task):
        doubtful.add("denied")
    return Mixture(
        number=number,
        kind=kind,
        task=task | ({"budget": {"tool_calls": budget}} if budget is not None else {}),
        budget=budget,
        cancel_after_s=chance.uniform(0, 1.5) if disturbed < 0.15 else None,
        cancel_at_gate=0.15 <= disturbed < 0.25,
        fork=fork,
        verdict=verdict,
        doubtful=frozenset(doubtful),
    )

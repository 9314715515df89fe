"""Plans and workflows of the machine alone: what starts one, and how its children end."""

from typing import Any

from tests.support.engine.machine import RUN, Machine, agent, snapshot

from towpath_contracts import facts
from towpath_contracts.events import log as ev

AGENTS = tuple(agent(key, allow_respond=True) for key in ("lead", "ann", "bob", "cid", "dan", "eve"))
NETWORK = snapshot(*AGENTS)
FINAL = ("completed", "failed", "cancelled", "escalated", "abandoned", "timed_out", "quarantined")


def ask(key: str, prompt: str = "go", **more: Any) -> dict[str, Any]:
    """One agent of a plan."""
    return {"agent_key": key, "prompt": prompt, **more}


def step(key: str, prompt: str = "go", *, id: str = "", timeout_ms: int | None = None, **more: Any) -> dict[str, Any]:  # noqa: A002 - the plan's own word
    """A step with one agent."""
    named = {"id": id} if id else {}
    timed = {"timeout_ms": timeout_ms} if timeout_ms is not None else {}
    return {**named, **timed, "type": "agent", "agent": ask(key, prompt, **more)}


def block(*agents: dict[str, Any], id: str = "", **more: Any) -> dict[str, Any]:  # noqa: A002 - the plan's own word
    """A parallel step."""
    named = {"id": id} if id else {}
    return {**named, "type": "parallel", "parallel": {"steps": list(agents), **more}}


class PlanRun(Machine):
    """A run of kind plan whose children a test ends by hand."""

    def __init__(self, *steps: dict[str, Any], prompt: str | None = None, **options: Any) -> None:
        task: dict[str, Any] = options.pop("task", {})
        network = options.pop("network", NETWORK)
        if "swarm" not in options:
            given = {"prompt": prompt} if prompt is not None else {"plan": {"steps": list(steps)}}
            options = {"kind": "plan", "plan": {**given, **task}, **options}
        super().__init__(network, **options)

    def end(self, place: int = 0, final: Any = None, status: str = "completed", **more: Any) -> list[ev.AnyEvent]:
        """End the child at *place* of the step."""
        child = self.state.children[place]
        said = {"message": f"{child.agent_key} did it"} if final is None and status == "completed" else final
        fact = facts.ChildReportedFact(
            run_id=RUN,
            child_id=child.child_id,
            child_seq=99,
            status=status,
            ended=status in FINAL,
            final=said,
            reason=more.pop("reason", "" if status == "completed" else status),
        )
        return self.feed(fact, **more)

    @property
    def children(self) -> list[ev.ChildStarted]:
        """Every child of the run, in the order of their beginning."""
        return self.events(ev.ChildStarted)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Which agent was asked what, in order."""
        return [(child.task.agent_key, child.task.user_message) for child in self.children]

    @property
    def path(self) -> list[str]:
        """The states of the run's composition, in order."""
        return ["plan_init", *(moved.target for moved in self.events(ev.PlanStateChanged))]

    @property
    def triggers(self) -> list[str]:
        """What moved it."""
        return [moved.trigger for moved in self.events(ev.PlanStateChanged)]

    @property
    def output(self) -> dict[str, Any]:
        """The run's final answer."""
        return self.finished.final or {}

    @property
    def statuses(self) -> dict[str, str]:
        """The status of every step, and of every agent of a parallel one, by id."""
        reports = [report for step in self.output["steps"] for report in (step, *step.get("children", ()))]
        return {report["id"]: report["status"] for report in reports}

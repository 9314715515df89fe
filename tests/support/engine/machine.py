"""Drives one run of the real machine by hand, and checks after every fact what must always hold."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.support.engine.invariants import InvariantChecker

from towpath_contracts import facts
from towpath_contracts.decisions.request import DecisionRequest, PromptContext
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry, RunCreated
from towpath_contracts.networks.spec import CompiledAgent, NetworkSnapshot
from towpath_contracts.tools.calls import Denial, EffectClass, ToolFailure, ToolRequest, ToolSpec
from towpath_engine.advance import advance, wake_at
from towpath_engine.replay import create
from towpath_engine.requests.effects import OutgoingEffect
from towpath_engine.requests.network_context import build_context
from towpath_engine.state.run import EffectKind
from towpath_readings.execution_log import RunExecutionLogs, project_execution_log

RUN = UUID("01930000-0000-7000-8000-000000000001")
START = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


def tool(name: str, *, system: tuple[str, ...] = (), required: tuple[str, ...] = (), **more: Any) -> ToolSpec:
    """A tool that takes a `text`, and whatever is required."""
    names = dict.fromkeys(("text", *required, *system))
    parameters = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": list(required)}
    return ToolSpec.model_validate(
        {
            "name": name,
            "toolset": "test",
            "parameters": parameters,
            "system_params": system,
            "effect_class": EffectClass.PURE,
            **more,
        }
    )


def agent(key: str, **more: Any) -> CompiledAgent:
    return CompiledAgent.model_validate({"key": key, "model": "scripted:task", **more})


TOOLS = (
    tool("echo"),
    tool("lookup"),
    tool("poll", polling=True),
    tool("pay", required=("amount", "account"), system=("account", "token")),
)
AGENTS = (
    agent(
        "triage",
        equipped_tools=("echo", "lookup", "poll", "pay"),
        allowed_routes=("expert", "clerk"),
        allow_respond=True,
        prompt="You are {{ agent_key }}.",
    ),
    agent("expert", equipped_tools=("echo", "lookup"), allowed_routes=("triage",), allow_respond=True),
    agent("clerk", equipped_tools=("pay",), allowed_routes=("triage", "expert")),
)


def snapshot(*agents: CompiledAgent, tools: tuple[ToolSpec, ...] = TOOLS, **more: Any) -> NetworkSnapshot:
    chosen = agents or AGENTS
    return NetworkSnapshot.model_validate(
        {
            "network": "desk",
            "default_agent_key": chosen[0].key,
            "agents": {a.key: a for a in chosen},
            "tools": {t.name: t for t in tools},
            "max_steps": 10,
            "max_tool_errors": 8,
            "timeout_ms": 300_000,
            "step_timeout_ms": 60_000,
            **more,
        }
    )


def task(network: NetworkSnapshot, /, **more: Any) -> RunCreated:
    return RunCreated.model_validate(
        {
            "project": "default",
            "caller": "me",
            "network": network.network,
            "version": 1,
            "snapshot_digest": "sha256:00",
            "agent_key": network.default_agent_key,
            "user_message": "What is new?",
            "max_steps": network.max_steps,
            "max_tool_errors": network.max_tool_errors,
            "timeout_ms": network.timeout_ms,
            "step_timeout_ms": network.step_timeout_ms,
            "context_limit": network.context_limit,
            "script_digest": "sha256:aa",
            **more,
        }
    )


def use(name: str, reasoning: str = "because", **params: Any) -> dict[str, Any]:
    details = {"tool_name": name, "tool_params": params}
    return {"action": "USE_TOOL", "action_reasoning": reasoning, "action_details": details}


def use_all(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    several = [{"tool_name": name, "tool_params": params} for name, params in calls]
    return {"action": "USE_TOOL", "action_reasoning": "together", "action_details": {"calls": several}}


def route(target: str, context: Any = None) -> dict[str, Any]:
    details = {"target_agent_name": target, "context": context}
    return {"action": "ROUTE_TO_AGENT", "action_reasoning": "not mine", "action_details": details}


def respond(payload: Any = "done") -> dict[str, Any]:
    return {"action": "RESPOND", "action_reasoning": "known", "action_details": {"payload": payload}}


class Machine:
    """One run: the state, everything that happened, and a clock that tests move."""

    def __init__(self, network: NetworkSnapshot | None = None, /, *, start: bool = True, **options: Any) -> None:
        self.network = network or snapshot()
        self.now = START
        self.state, first = create(RUN, self.network, task(self.network, **options), self.now)
        self.entries: list[LogEntry] = [first]
        self.facts: list[tuple[facts.AnyFact, datetime]] = []
        self.sent: list[OutgoingEffect] = []
        self.watch = InvariantChecker(self.network, first)
        if start:
            self.admit()

    def feed(self, fact: facts.AnyFact, *, after: float = 0.0) -> list[ev.AnyEvent]:
        """Hand a fact to the machine *after* seconds; returns the events it made."""
        self.now += timedelta(seconds=after)
        before = self.state
        entries, effects, self.state = advance(before, fact, self.now)
        self.watch.observe(before, fact, self.now, entries, effects, self.state)
        self.entries.extend(entries)
        self.facts.append((fact, self.now))
        self.sent = list(effects)
        return [entry.event for entry in entries]

    def admit(self) -> list[ev.AnyEvent]:
        return self.feed(facts.RunAdmittedFact(run_id=RUN))

    def decide(self, decision: dict[str, Any], **more: Any) -> list[ev.AnyEvent]:
        """Answer the pending request with *decision*."""
        return self.feed(
            facts.DecisionMadeFact(run_id=RUN, request_id=self.request_id, attempt=1, decision=decision), **more
        )

    def miss(self, code: str, message: str = "it failed", **more: Any) -> list[ev.AnyEvent]:
        """Answer the pending request with a failure."""
        return self.feed(
            facts.DecisionFailedFact(
                run_id=RUN, request_id=self.request_id, attempt=1, code=code, message=message, **more
            )
        )

    def finish(self, index: int = 0, result: Any = "ok", *, after: float = 0.0, **more: Any) -> list[ev.AnyEvent]:
        """Finish the step's call *index*."""
        body = {"status": "succeeded", "result": result, **more}
        fact = facts.ToolFinishedFact.model_validate({"run_id": RUN, "execution_id": self.call_id(index), **body})
        return self.feed(fact, after=after)

    def fail(self, index: int = 0, code: str = "tool_exception", message: str = "boom", **more: Any) -> list[Any]:
        failure = ToolFailure(code=code, message=message, **more)
        return self.finish(index, None, status="failed", failure=failure)

    def unknown(self, index: int = 0) -> list[ev.AnyEvent]:
        return self.finish(index, None, status="unknown", worker="w1")

    def deny(self, index: int = 0, violation: str = "permission_denied", **more: Any) -> list[ev.AnyEvent]:
        told = {"reason": "not yours", "allowed_tools": ("echo",), "suggestion": "use echo", **more}
        denial = Denial(violation_type=violation, **told)
        return self.feed(facts.ToolDeniedFact(run_id=RUN, execution_id=self.call_id(index), denial=denial))

    def want_approval(self, approval_id: UUID, index: int = 0, hours: float = 1, **more: Any) -> list[ev.AnyEvent]:
        fact = facts.ApprovalRequiredFact(
            run_id=RUN,
            execution_id=self.call_id(index),
            approval_id=approval_id,
            rule="people-first",
            tool="pay",
            args={},
            args_digest="sha256:01",
            digest="sha256:02",
            expires_at=self.now + timedelta(hours=hours),
            **more,
        )
        return self.feed(fact)

    def resolve(self, verdict: str, *, after: float = 0.0, **who: Any) -> list[ev.AnyEvent]:
        """Settle a gate; the first open one unless *who* names it."""
        named = who or {"gate_id": self.state.gates[0].gate_id}
        fact = facts.GateResolvedFact.model_validate({"run_id": RUN, "verdict": verdict, "by": "ann", **named})
        return self.feed(fact, after=after)

    def steer(self, act: str, number: int = 1, text: str = "", *, after: float = 0.0) -> list[ev.AnyEvent]:
        """Do something to the run from outside, as the person ann; *number* names the act."""
        body = {"act": act, "act_id": UUID(int=number), "by": "ann", "text": text}
        return self.feed(facts.RunSteeredFact.model_validate({"run_id": RUN, **body}), after=after)

    def resume(self, *, after: float = 0.0) -> list[ev.AnyEvent]:
        """End the first pause."""
        gate = next(gate for gate in self.state.gates if gate.gate_type == "run_paused")
        return self.resolve("resumed", gate_id=gate.gate_id, after=after)

    def timer(self, *, after: float = 0.0) -> list[ev.AnyEvent]:
        return self.feed(facts.TimerFiredFact(run_id=RUN), after=after)

    def wake(self) -> list[ev.AnyEvent]:
        """Let time pass until the run wants to be looked at, and look."""
        wanted = wake_at(self.state)
        assert wanted is not None
        return self.timer(after=max(0.0, (wanted - self.now).total_seconds()))

    def cancel(self, **more: Any) -> list[ev.AnyEvent]:
        return self.feed(facts.CancelRequestedFact(run_id=RUN, by="ann", reason="enough"), **more)

    def fenced(self, *, voided: Any = (), live: Any = (), fence: int | None = None, after: float = 0.0) -> list[Any]:
        wanted = self.state.fence if fence is None else fence
        return self.feed(
            facts.FenceRaisedFact(run_id=RUN, fence=wanted, voided=tuple(voided), live=tuple(live)), after=after
        )

    def call_id(self, index: int = 0) -> UUID:
        return self.state.calls[index].call.execution_id

    @property
    def request_id(self) -> UUID:
        """The pending decision request."""
        return next(p.effect_id for p in self.state.pending if p.kind is EffectKind.DECIDE)

    @property
    def context(self) -> PromptContext:
        """What the acting agent's next prompt is rendered from."""
        return build_context(self.state)

    @property
    def log(self) -> RunExecutionLogs:
        return project_execution_log(self.entries)

    @property
    def requests(self) -> list[DecisionRequest | ToolRequest]:
        """The messages that the last fact sent, fences left out."""
        return [e.message for e in self.sent if isinstance(e.message, DecisionRequest | ToolRequest)]

    @property
    def finished(self) -> ev.RunFinished:
        """The run's last word; fails while it lives."""
        (event,) = (e.event for e in self.entries if isinstance(e.event, ev.RunFinished))
        return event

    def events(self, kind: type[ev.AnyEvent]) -> list[Any]:
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]


def types(events: list[ev.AnyEvent]) -> list[str]:
    return [event.type for event in events]

"""The state of a run and a node for every model call, read from its log.

A projection adds nothing: what the log does not hold is None. A duration is None until its node has ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import OUT_OF_TIME

TIMEOUTS = frozenset({"model_timeout"})
"""Reasons of a missed decision that mean that time was up; every other one is a failure."""

_FINAL = {"completed": "success", "timed_out": "timeout"}
_MS = timedelta(milliseconds=1)


class NodeStatus(StrEnum):
    """INIT → RUNNING → SUCCESS, FAILED or TIMEOUT."""

    INIT = "init"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"


class ProviderCall(MessagePart):
    """One HTTP call behind a node, as far as it was recorded: calls of providers travel apart and may be lost."""

    call: int
    started_at: datetime
    duration_ms: int
    error: str = ""


class ModelRequestNode(MessagePart):
    """One request to a model, with all its attempts. `tool_signature` is the same for equal calls in any order.

    It is created when it is asked for, and started when it is sent, which a back-off puts off. `duration_ms` is from
    start to end. `usage` and `cost` are of all attempts.
    """

    node_id: UUID
    kind: str
    step: int
    agent_key: str
    model: str
    status: NodeStatus
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: int | None = None
    usage: Usage = Usage()
    cost: Cost = Cost(usd=0.0, price_known=True)
    error: str = ""
    tool_signature: str = ""
    calls: tuple[ProviderCall, ...] = ()


class RunNodesView(Message):
    """A run and its nodes; `usage` and `cost` are summed over them, `iterations` counts steps.

    `seq` is how far the log was read.
    """

    run_id: UUID
    status: NodeStatus
    error: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: int | None = None
    iterations: int = 0
    usage: Usage = Usage()
    cost: Cost = Cost(usd=0.0, price_known=True)
    nodes: tuple[ModelRequestNode, ...] = Field(default=())
    seq: int = 0


def merge_usage(usages: Iterable[Usage]) -> Usage:
    """Add up *usages*."""
    counted = tuple(usages)
    return Usage(**{name: sum(getattr(one, name) for one in counted) for name in Usage.model_fields})


def merge_costs(costs: Iterable[Cost]) -> Cost:
    """Add up *costs*; one that is unknown makes the sum unknown. The source is that of the last one."""
    total = Cost(usd=0.0, price_known=True)
    for cost in costs:
        if total.usd is None or cost.usd is None:
            total = Cost(usd=None, price_known=False, price_source=cost.price_source)
        else:
            total = Cost(usd=total.usd + cost.usd, price_known=True, price_source=cost.price_source)
    return total


def project_nodes(
    run_id: UUID, entries: Iterable[ev.LogEntry], calls: Sequence[Mapping[str, Any]] = ()
) -> RunNodesView:
    """Return the state of a run from its log, in order; *calls* are the recorded calls of providers, where known."""
    walk = RunNodesReader(run_id)
    for entry in entries:
        walk.take(entry)
    return walk.result(calls)


class RunNodesReader:
    """What is known of the nodes of a run after the events so far."""

    def __init__(self, run_id: UUID) -> None:
        """Nothing is known of *run_id* yet."""
        self._run: JsonObject = {"run_id": run_id, "status": NodeStatus.INIT}
        self._nodes: dict[UUID, ModelRequestNode] = {}
        self._waits = False

    def take(self, entry: ev.LogEntry) -> None:
        """Read one more event."""
        self._run["seq"] = entry.seq
        match entry.event:
            case ev.RunCreated():
                self._run["created_at"] = entry.at
            case ev.RunStarted():
                self._run |= {"started_at": entry.at, "status": NodeStatus.RUNNING}
            case ev.BackedOff():
                self._waits = True
            case ev.DecisionRequested():
                self._ask(entry.event, entry.at)
            case ev.EffectResent():
                self._sent(entry.event.effect_id, entry.at)
            case ev.DecisionReceived() | ev.DecisionRequestFailed() | ev.DecisionPostponed():
                self._answer(entry.event, entry.at)
            case ev.InstructionIssued():
                self._sign(entry.event)
            case ev.GateOpened(execution_id=None):
                self._ask_person(entry.event, entry.at)
            case ev.RunFinished():
                self._finish(entry.event, entry.at)
            case _:
                pass

    def _ask(self, asked: ev.DecisionRequested, at: datetime) -> None:
        self._nodes[asked.request_id] = ModelRequestNode(
            node_id=asked.request_id,
            kind=asked.kind,
            step=asked.step,
            agent_key=asked.agent_key,
            model=asked.model,
            status=NodeStatus.INIT if self._waits else NodeStatus.RUNNING,
            created_at=at,
            started_at=None if self._waits else at,
        )
        self._waits = False
        self._run["iterations"] = max(self._run.get("iterations", 0), asked.step)

    def _sent(self, node_id: UUID, at: datetime) -> None:
        """The timer sends what waited; what was sent before is only sent again."""
        node = self._nodes.get(node_id)
        if node is not None and node.status is NodeStatus.INIT:
            self._nodes[node_id] = node.model_copy(update={"status": NodeStatus.RUNNING, "started_at": at})

    def _answer(
        self, answer: ev.DecisionReceived | ev.DecisionRequestFailed | ev.DecisionPostponed, at: datetime
    ) -> None:
        node = self._nodes.get(answer.request_id)
        if node is None:  # asked for before a fork
            return
        node = node.model_copy(update={**_usage_with(node, answer), "model": answer.model or node.model})
        if isinstance(answer, ev.DecisionPostponed):  # it goes on; until then this is why it has no answer
            self._nodes[node.node_id] = node.model_copy(update={"error": f"{answer.code}: {answer.message}"})
        else:
            self._end(node, answer, at)

    def _end(
        self, node: ModelRequestNode, answer: ev.DecisionReceived | ev.DecisionRequestFailed, at: datetime
    ) -> None:
        status, error = NodeStatus.SUCCESS, ""
        if isinstance(answer, ev.DecisionRequestFailed):
            status = NodeStatus.TIMEOUT if answer.code in TIMEOUTS else NodeStatus.FAILED
            error = f"{answer.code}: {answer.message}"
        self._nodes[node.node_id] = _ended(node, at, status, error)

    def _sign(self, issued: ev.InstructionIssued) -> None:
        instruction = issued.instruction
        if not isinstance(instruction, CallToolsInstruction):
            return
        calls = sorted(canonical_json([call.tool, call.shown_args()]) for call in instruction.calls)
        deciding = [node for node in self._nodes.values() if node.kind in ("decide", "replan")]
        if deciding:
            signed = deciding[-1].model_copy(update={"tool_signature": digest_text("\n".join(calls))})
            self._nodes[signed.node_id] = signed

    def _finish(self, finished: ev.RunFinished, at: datetime) -> None:
        status = NodeStatus(_FINAL.get(finished.status, "failed"))
        error = "" if status is NodeStatus.SUCCESS else finished.reason
        self._run |= {"ended_at": at, "status": status, "error": error}
        late = NodeStatus.TIMEOUT if status is NodeStatus.TIMEOUT else NodeStatus.FAILED
        self._give_up(at, late, f"the run ended: {finished.reason}")

    def _ask_person(self, opened: ev.GateOpened, at: datetime) -> None:
        """Behind some gates no model is waited for: at the deadline, and where somebody holds the run."""
        if opened.detail.get("key") == OUT_OF_TIME:
            self._give_up(at, NodeStatus.TIMEOUT, "not waited for beyond the run's deadline")
        elif opened.detail.get("holds"):
            self._give_up(at, NodeStatus.FAILED, f"not waited for: {opened.reason}")

    def _give_up(self, at: datetime, status: NodeStatus, error: str) -> None:
        for node in self._nodes.values():
            if node.ended_at is None:
                self._nodes[node.node_id] = _ended(node, at, status, error)

    def result(self, calls: Sequence[Mapping[str, Any]]) -> RunNodesView:
        """Return the state after the events so far; *calls* are the recorded calls of providers, where known."""
        made: dict[str, list[Mapping[str, Any]]] = {}
        for call in calls:
            made.setdefault(str(call.get("request_id")), []).append(call)
        nodes = tuple(_with_calls(node, made.get(str(node.node_id), ())) for node in self._nodes.values())
        started, ended = self._run.get("started_at"), self._run.get("ended_at")
        summed = {
            "nodes": nodes,
            "usage": merge_usage(node.usage for node in nodes),
            "cost": merge_costs(node.cost for node in nodes),
            "duration_ms": None if started is None or ended is None else (ended - started) // _MS,
        }
        return RunNodesView.model_validate({**self._run, **summed})


def _usage_with(
    node: ModelRequestNode, answer: ev.DecisionReceived | ev.DecisionRequestFailed | ev.DecisionPostponed
) -> JsonObject:
    """Return usage and cost of the node with those of one more attempt; those of the first are all there are."""
    if not node.usage.model_calls:
        return {"usage": answer.usage, "cost": answer.cost}
    return {"usage": merge_usage((node.usage, answer.usage)), "cost": merge_costs((node.cost, answer.cost))}


def _ended(node: ModelRequestNode, at: datetime, status: NodeStatus, error: str) -> ModelRequestNode:
    duration = None if node.started_at is None else (at - node.started_at) // _MS
    return node.model_copy(update={"status": status, "ended_at": at, "duration_ms": duration, "error": error})


def _with_calls(node: ModelRequestNode, rows: Sequence[Mapping[str, Any]]) -> ModelRequestNode:
    made = (
        ProviderCall(
            call=row.get("call", 0),
            started_at=row["started_at"],
            duration_ms=row.get("duration_ms", 0),
            error=row.get("error") or "",
        )
        for row in rows
        if row.get("started_at") is not None  # the events are used for calls whose logs were lost
    )
    return node.model_copy(update={"calls": tuple(sorted(made, key=lambda call: call.started_at))})

"""The rest of the platform as the tool-access service sees it: asks for calls, works on them, listens to the facts."""

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID

import asyncpg
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.waiting import all_sent, eventually

from towpath_contracts import rpc, subjects
from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.tools.access import ApplyPolicy, AuditEntry, AuditPage, AuditQuery
from towpath_contracts.tools.calls import (
    ClaimAnswer,
    ClaimStart,
    OutcomeConfirmed,
    ToolInvocation,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
)
from towpath_contracts.tools.workers import RegisterTools, ToolsRegistered
from towpath_fabric.ids import new_run_id

ORDERS = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
    "required": ["order_id"],
    "additionalProperties": False,
}
ARGS = {"order_id": "A-1", "amount": 10}


def tool(name: str, effect_class: str, **changes: Any) -> ToolSpec:
    """A tool of the toolset `orders` that takes an order id and an amount."""
    said = {"name": name, "toolset": "orders", "parameters": ORDERS, "effect_class": effect_class, "timeout_ms": 1_000}
    return ToolSpec.model_validate({**said, **changes})


TOOLS = (
    tool("orders.find", "pure", operation="read"),
    tool("orders.tag", "idempotent", operation="write"),
    tool("orders.refund", "irreversible", operation="write"),
    tool("orders.ship", "reconcilable", operation="write", has_probe=True),
)

OPEN = """
kind: Policy
rules:
  - {name: everything, tool: "orders.*", effect: allow}
"""


class TasCaller:
    """Use: `async with TasCaller(url) as tas`. Facts, invocations and confirmations are kept by execution id."""

    def __init__(self, url: str, project: str = "default") -> None:
        self.url = url
        self.project = project
        self.facts: dict[UUID, list[dict[str, Any]]] = {}
        self.run_facts: dict[UUID, list[dict[str, Any]]] = {}
        self.invocations: dict[UUID, list[ToolInvocation]] = {}
        self.message_ids: list[str] = []
        self.stops: list[UUID] = []
        self.stop_reasons: list[str] = []
        self.confirmed: list[str] = []
        self.fault: Exception | None = None
        self.auto: Callable[[ToolInvocation], Any] | None = None

    async def __aenter__(self) -> Self:
        self.nc: Client = await nats.connect(
            self.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=self._note
        )
        self.place = uuid.uuid4().hex
        self.inbox = subjects.tool_confirm(self.project, "orders", self.place)
        await self.nc.subscribe("run.inbox.tas.*", cb=self._on_fact)
        await self.nc.subscribe(subjects.TOOL_EXEC_ALL, cb=self._on_invocation)
        await self.nc.subscribe(subjects.TOOL_CANCEL_ALL, cb=self._on_stop)
        await self.nc.subscribe(subjects.tool_confirm("*", "*", self.place), cb=self._on_confirmed)
        await all_sent(self.nc)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.nc.close()

    async def _note(self, error: Exception) -> None:
        self.fault = error

    async def _on_fact(self, message: Msg) -> None:
        fact = json.loads(message.data)
        assert message.subject == f"run.inbox.tas.{fact['run_id']}"
        self.run_facts.setdefault(UUID(fact["run_id"]), []).append(fact)
        if "execution_id" in fact:
            self.facts.setdefault(UUID(fact["execution_id"]), []).append(fact)

    async def _on_invocation(self, message: Msg) -> None:
        invocation = ToolInvocation.model_validate_json(message.data)
        assert message.subject == subjects.tool_exec(invocation.project, invocation.toolset)
        self.message_ids.append((message.headers or {})["Nats-Msg-Id"])
        self.invocations.setdefault(invocation.execution_id, []).append(invocation)
        if self.auto is not None:
            await self.auto(invocation)

    async def _on_stop(self, message: Msg) -> None:
        self.stops.append(UUID(message.subject.rpartition(".")[2]))
        self.stop_reasons.append(json.loads(message.data)["reason"])

    async def _on_confirmed(self, message: Msg) -> None:
        self.confirmed.extend(OutcomeConfirmed.model_validate_json(message.data).keys)

    async def ask(self, method: rpc.RpcMethod, **values: Any) -> Any:
        """Ask TAS; raises ProblemError."""
        return await self.send(method, method.request.model_validate(values))

    async def send(self, method: rpc.RpcMethod, request: Any) -> Any:
        """Ask TAS with a ready message; raises ProblemError."""
        reply = await self.nc.request(method.subject, request.model_dump_json().encode(), timeout=10)
        if reply.headers and rpc.PROBLEM_HEADER in reply.headers:
            raise ProblemError(Problem.model_validate_json(reply.data))
        return method.answer.model_validate_json(reply.data)

    async def register(self, *specs: ToolSpec, owner: str = "team") -> ToolsRegistered:
        """Offer tools of one toolset."""
        given = specs or TOOLS
        request = RegisterTools(
            toolset=given[0].toolset, worker="test-worker", owner=owner, tools=tuple(given), project=self.project
        )
        answer: ToolsRegistered = await self.send(rpc.REGISTER_TOOLS, request)
        return answer

    async def apply(self, text: str) -> Any:
        """Apply a policy."""
        return await self.send(rpc.APPLY_POLICY, ApplyPolicy(project=self.project, actor="tester", text=text))

    async def set_up(self, policy: str = OPEN) -> None:
        """Register the tools and apply a policy."""
        await self.register()
        await self.apply(policy)

    def request(self, name: str, **changes: Any) -> ToolRequest:
        """Make a request of a new run."""
        run_id = changes.pop("run_id", None) or new_run_id()
        said = {
            "execution_id": uuid.uuid5(run_id, f"call:{uuid.uuid4()}"),
            "run_id": run_id,
            "project": self.project,
            "network": "support",
            "snapshot_digest": "sha256:snapshot",
            "agent_key": "billing",
            "caller": "anonymous",
            "step": 1,
            "call_index": 0,
            "tool": name,
            "toolset": "orders",
            "args": ARGS,
            "fence": 0,
            "deadline": datetime.now(UTC) + timedelta(seconds=60),
            **changes,
        }
        return ToolRequest.model_validate(said)

    async def put(self, request: ToolRequest) -> ToolRequest:
        """Ask for a call, as the orchestrator does."""
        await self.nc.jetstream().publish(subjects.TOOL_REQUEST, request.model_dump_json().encode(), timeout=60)
        return request

    async def again(self, request: ToolRequest, **changes: Any) -> ToolRequest:
        """Ask for a call once more, as the reconciler does."""
        return await self.put(request.model_copy(update={"attempt": request.attempt + 1, **changes}))

    async def dispatched(self, request: ToolRequest, times: int = 1) -> ToolInvocation:
        """Wait until a call was sent to its workers *times* times; returns the last."""
        key = request.execution_id
        await eventually(lambda: len(self.invocations.get(key, [])) >= times)
        return self.invocations[key][-1]

    async def call(self, name: str, **changes: Any) -> ToolInvocation:
        """Ask for a call and wait for its dispatch."""
        return await self.dispatched(await self.put(self.request(name, **changes)))

    async def fact(self, request: Any, kind: str, times: int = 1) -> dict[str, Any]:
        """Wait for the *times*-th fact of *kind* about a call."""
        key = request.execution_id

        def found() -> list[dict[str, Any]]:
            return [fact for fact in self.facts.get(key, []) if fact["type"] == kind]

        await eventually(lambda: len(found()) >= times)
        return found()[times - 1]

    async def claim(self, invocation: ToolInvocation, claim_id: UUID | None = None, **changes: Any) -> ClaimAnswer:
        """Ask to start."""
        said = {
            "execution_id": invocation.execution_id,
            "run_id": invocation.run_id,
            "claim_id": claim_id or uuid.uuid4(),
            "attempt": invocation.attempt,
            "worker": "w1",
            "ticket": invocation.ticket,
            **changes,
        }
        answer: ClaimAnswer = await self.send(rpc.CLAIM_START, ClaimStart.model_validate(said))
        return answer

    async def report(self, invocation: ToolInvocation, claim_id: UUID | None = None, **changes: Any) -> str:
        """Report an outcome; returns the key that its confirmation will name."""
        said = {
            "execution_id": invocation.execution_id,
            "run_id": invocation.run_id,
            "attempt": invocation.attempt,
            "claim_id": claim_id,
            "tool": invocation.tool,
            "status": "succeeded",
            "result": {"ok": True},
            "worker": "w1",
            "ticket": invocation.ticket,
            **changes,
        }
        outcome = ToolOutcome.model_validate(said)
        confirm_to = subjects.tool_confirm(invocation.project, invocation.toolset, self.place)
        headers = {rpc.CONFIRM_HEADER: confirm_to, rpc.OUTCOME_HEADER: f"{outcome.key} {outcome.ticket}"}
        body = outcome.model_dump_json().encode()
        await self.nc.jetstream().publish(subjects.TOOL_OUTCOME, body, timeout=60, headers=headers)
        return f"{said['execution_id']}:{said['attempt']}"

    async def confirmation(self, key: str, times: int = 1) -> None:
        """Wait until TAS confirmed an outcome *times* times."""
        await eventually(lambda: self.confirmed.count(key) >= times)

    async def audit(self, **filters: Any) -> tuple[AuditEntry, ...]:
        """Return audit entries, oldest first."""
        page: AuditPage = await self.send(
            rpc.AUDIT_QUERY, AuditQuery.model_validate({"project": self.project, "limit": 1_000, **filters})
        )
        return tuple(reversed(page.entries))

    async def quiet(self, stream: str = "TOOLREQ", durable: str = "tas") -> None:
        """Wait until every message of a stream was taken and acknowledged."""
        until = asyncio.get_running_loop().time() + 60
        while True:
            info = await self.nc.jetstream().consumer_info(stream, durable)
            if (info.num_pending, info.num_ack_pending) == (0, 0):
                return
            assert asyncio.get_running_loop().time() < until, f"{info.num_pending} + {info.num_ack_pending} left"
            await asyncio.sleep(0.05)


async def row(dsn: str, execution_id: UUID) -> Mapping[str, Any]:
    """Return a call's ledger row."""
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetchrow("SELECT * FROM tas.tool_call WHERE execution_id = $1", execution_id)
    finally:
        await connection.close()
    assert found is not None, f"no ledger row of {execution_id}"
    return dict(found)


async def query(dsn: str, statement: str, *values: Any) -> list[Mapping[str, Any]]:
    """Run a statement as the owner of the database."""
    connection = await asyncpg.connect(dsn)
    try:
        return [dict(found) for found in await connection.fetch(statement, *values)]
    finally:
        await connection.close()


async def settled(dsn: str, execution_id: UUID, status: str) -> Mapping[str, Any]:
    """Wait until a call has *status*."""
    for _ in range(1_200):
        with suppress(AssertionError):
            found = await row(dsn, execution_id)
            if found["status"] == status:
                return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"{execution_id} is {(await row(dsn, execution_id))['status']}, not {status}")

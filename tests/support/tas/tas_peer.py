"""A peer that speaks the tool-access service's side of the protocol over real NATS, so that a worker is tested alone.

It signs tickets, grants claims, takes outcomes and confirms them; the test tells it what to do.
"""

import asyncio
import base64
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

import nats
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.waiting import all_sent, eventually

from towpath_contracts import rpc, subjects
from towpath_contracts.base import Message
from towpath_contracts.canonical import digest
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.streams import exec_consumer
from towpath_contracts.tools.calls import (
    BlobChunk,
    CancelTool,
    ClaimAnswer,
    ClaimStart,
    EffectClass,
    OutcomeConfirmed,
    ToolInvocation,
    ToolOutcome,
)
from towpath_contracts.tools.tickets import TicketClaims
from towpath_contracts.tools.workers import (
    RegisterTools,
    ToolRegistrationResult,
    ToolsRegistered,
    WorkerBeat,
    WorkerHeard,
)
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams
from towpath_fabric.tickets import TicketSigner

GRANTED = ClaimAnswer(granted=True, start_by_ms=5_000, lease_ms=60_000)


class TasPeer:
    """Use: `async with TasPeer(url) as tas`. Set `confirming`, `claim`, `answering` to change what it does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.signer = TicketSigner(Ed25519PrivateKey.generate())
        self.registered: list[RegisterTools] = []
        self.claims: list[ClaimStart] = []
        self.outcomes: list[ToolOutcome] = []
        self.blobs: dict[str, dict[int, bytes]] = {}
        self.confirming = True
        self.answering = True
        self.refusal: Problem | None = None
        self.ack_wait_s: float | None = None
        self.clock_ahead_s = 0.0
        self.claim: Callable[[ClaimStart], ClaimAnswer | None] = lambda _asked: GRANTED
        self.dead: list[ReportDeadLetter] = []
        self.ended_runs: set[uuid.UUID] = set()
        self.beats: list[WorkerBeat] = []
        self._inboxes: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self.nc: Client = await nats.connect(
            self.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=self._note
        )
        await self.set_up()
        for method, handler in (
            (rpc.REGISTER_TOOLS, self._on_register),
            (rpc.CLAIM_START, self._on_claim),
            (rpc.BLOB_PUT, self._on_blob),
            (rpc.DEAD_LETTER_CALLS, self._on_dead),
            (rpc.WORKER_BEAT, self._on_beat),
        ):
            for subject in (method.subject, f"{method.subject}.*.*"):
                await self.nc.subscribe(subject, cb=self._serving(method, handler))
        await self.nc.subscribe(subjects.TOOL_OUTCOME, cb=self._on_outcome)
        await all_sent(self.nc)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.nc.close()

    async def set_up(self) -> None:
        """Declare the streams, also again after the broker has lost them."""
        await ensure_streams(self.nc)

    async def _note(self, error: Exception) -> None:
        self.fault = error

    def _serving(self, method: rpc.RpcMethod, handler: Callable[[Any], Any]) -> Callable[[Msg], Any]:
        async def serve(message: Msg) -> None:
            if not self.answering:
                return
            answer: Message | None = await handler(method.request.model_validate_json(message.data))
            if answer is not None:
                headers = {rpc.PROBLEM_HEADER: answer.code} if isinstance(answer, Problem) else None
                await self.nc.publish(message.reply, answer.model_dump_json().encode(), headers=headers)

        return serve

    async def _on_register(self, asked: RegisterTools) -> Message:
        self.registered.append(asked)
        consumer = exec_consumer(asked.project, asked.toolset)
        await ensure_consumer(self.nc, replace(consumer, ack_wait_s=self.ack_wait_s or consumer.ack_wait_s))
        standings = tuple(
            ToolRegistrationResult(name=one.name, version=1, digest=digest(one.name), status="accepted")
            for one in asked.tools
        )
        now = datetime.fromtimestamp(time.time() + self.clock_ahead_s, UTC)
        return ToolsRegistered(standings=standings, ticket_keys=self.signer.public_keys(), now=now)

    async def _on_claim(self, asked: ClaimStart) -> Message | None:
        self.claims.append(asked)
        return self.refusal or self.claim(asked)

    async def _on_dead(self, letter: ReportDeadLetter) -> Message:
        self.dead.append(letter)
        return ActionDone()

    async def _on_beat(self, beat: WorkerBeat) -> Message:
        self.beats.append(beat)
        return WorkerHeard(ended=tuple(run_id for run_id in beat.runs if run_id in self.ended_runs))

    async def _on_blob(self, chunk: BlobChunk) -> Message:
        if len(base64.b64decode(chunk.data_base64)) > 256 * 1024:
            return problem("request_too_large", "a chunk has at most 256 KiB")
        self.blobs.setdefault(chunk.digest, {})[chunk.index] = base64.b64decode(chunk.data_base64)
        return ActionDone()

    async def _on_outcome(self, message: Msg) -> None:
        outcome = ToolOutcome.model_validate_json(message.data)
        self.outcomes.append(outcome)
        key = outcome.key
        self._inboxes[key] = (message.headers or {})[rpc.CONFIRM_HEADER]
        if self.confirming:
            await self.confirm(key)

    async def confirm(self, *keys: str) -> None:
        """Say that the ledger holds these outcomes (all that were heard of, without *keys*)."""
        for key in keys or tuple(self._inboxes):
            await self.nc.publish(self._inboxes[key], OutcomeConfirmed(keys=(key,)).model_dump_json().encode())

    def invocation(self, tool: str, args: dict[str, Any], **changes: Any) -> ToolInvocation:
        """Make a permitted call. `expires_in_s`, `ticket`, and every field of invocation may be changed."""
        effect_class = EffectClass(changes.pop("effect_class", "pure"))
        expires_in_s = changes.pop("expires_in_s", 60.0)
        said = {
            "execution_id": uuid.uuid4(),
            "attempt": 1,
            "run_id": uuid.uuid4(),
            "project": "default",
            "toolset": "default",
            "timeout_ms": 30_000,
            **changes,
        }
        claims = TicketClaims(
            execution_id=said["execution_id"],
            attempt=said["attempt"],
            run_id=said["run_id"],
            project=said["project"],
            fence=0,
            tool=tool,
            args_digest=digest(args),
            run_digest=digest(said["run"]) if "run" in said else "",
            effect_class=effect_class,
            policy_version=1,
            issued_at=time.time(),
            expires_at=time.time() + expires_in_s,
            key_id=self.signer.key_id,
        )
        said.setdefault("ticket", self.signer.sign(claims))
        return ToolInvocation(tool=tool, args=args, effect_class=effect_class, **said)

    async def dispatch(self, invocation: ToolInvocation) -> ToolInvocation:
        """Put a call into the stream of the project `default`, whatever the call says."""
        await self.nc.jetstream().publish(
            subjects.tool_exec("default", invocation.toolset), invocation.model_dump_json().encode(), timeout=60
        )
        return invocation

    async def call(self, tool: str, args: dict[str, Any] | None = None, **changes: Any) -> ToolOutcome:
        """Dispatch a call and return its first outcome."""
        invocation = await self.dispatch(self.invocation(tool, args or {}, **changes))
        return await self.outcome(invocation)

    async def outcome(self, invocation: ToolInvocation, within_s: float = 60) -> ToolOutcome:
        """Wait for the first outcome of a call."""
        await eventually(lambda: self.outcomes_of(invocation) != [], within_s=within_s)
        return self.outcomes_of(invocation)[0]

    def outcomes_of(self, invocation: ToolInvocation) -> list[ToolOutcome]:
        """Return every outcome that was heard of a call."""
        key = (invocation.execution_id, invocation.attempt)
        return [one for one in self.outcomes if (one.execution_id, one.attempt) == key]

    async def cancel(self, invocation: ToolInvocation, reason: str = "cancelled") -> None:
        """Ask whoever runs the call to stop."""
        body = CancelTool(execution_id=invocation.execution_id, reason=reason).model_dump_json().encode()
        said = subjects.tool_cancel(invocation.project, invocation.toolset, invocation.execution_id)
        await self.nc.publish(said, body)

    async def left(self, toolset: str = "default") -> tuple[int, int]:
        """Return how many deliveries wait, and how many are out and not acknowledged."""
        info = await self.nc.jetstream().consumer_info("TOOLEXEC", exec_consumer("default", toolset).durable)
        return info.num_pending, info.num_ack_pending

    async def all_acknowledged(self, toolset: str = "default") -> None:
        """Wait until the toolset's queue is empty."""
        await self.until_left((0, 0), toolset)

    async def until_left(self, wanted: tuple[int, int], toolset: str = "default") -> None:
        """Wait until so many deliveries wait and are out; the broker has to be asked, it doesn't tell."""
        until = time.monotonic() + 60
        while (left := await self.left(toolset)) != wanted:
            assert time.monotonic() < until, f"waiting and unacknowledged: {left}"
            await asyncio.sleep(0.05)

"""The orchestrator's side of a decider: asks over real NATS, keeps scripts, and collects the facts."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_contracts import subjects
from towpath_contracts.canonical import digest_text
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.decisions.request import DecisionRequest, ScriptPosition
from towpath_contracts.facts import AnyFact, fact_adapter
from towpath_contracts.problems.registry import problem
from towpath_contracts.rpc import PROBLEM_HEADER
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.streams import ConsumerSpec, decide_consumer
from towpath_contracts.tools.calls import BlobChunk, GetBlobChunk
from towpath_fabric.nats.streams import ensure_consumer

POOL = "default"
WAIT_S = 60.0


@dataclass
class OrchestratorPeer:
    """The orchestrator's side of the protocol: it asks, keeps scripts, and collects facts."""

    nc: Client
    scripts: dict[str, bytes] = field(default_factory=dict)
    facts: list[AnyFact] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)
    dead: list[ReportDeadLetter] = field(default_factory=list)
    blobs_asked: int = 0
    blobs_refused: int = 0
    database_is_away: bool = False

    async def ask(self, wanted: DecisionRequest) -> None:
        """Put a request into DECIDE."""
        await self.nc.jetstream().publish(subjects.decide(POOL), wanted.model_dump_json().encode())

    def script(self, entries: list[Any], cursors: dict[str, int] | None = None) -> ScriptPosition:
        """Keep a script and return its position."""
        data = json.dumps(entries).encode()
        digest = digest_text(data)
        self.scripts[digest] = data
        return ScriptPosition(digest=digest, cursors=cursors or {})

    async def on_fact(self, message: Msg) -> None:
        self.facts.append(fact_adapter.validate_json(message.data))
        self.message_ids.append((message.headers or {}).get("Nats-Msg-Id", ""))

    async def on_dead(self, message: Msg) -> None:
        self.dead.append(ReportDeadLetter.model_validate_json(message.data))
        await message.respond(ActionDone().model_dump_json().encode())

    async def on_blob_get(self, message: Msg) -> None:
        wanted = GetBlobChunk.model_validate_json(message.data)
        if self.database_is_away:
            self.blobs_refused += 1
            away = problem("unavailable", f"{message.subject}: ConnectionRefusedError", retry_after_s=2)
            await self.nc.publish(message.reply, away.model_dump_json().encode(), headers={PROBLEM_HEADER: away.code})
            return
        self.blobs_asked += 1
        half = (len(self.scripts[wanted.digest]) + 1) // 2
        piece = self.scripts[wanted.digest][wanted.index * half : (wanted.index + 1) * half]
        chunk = BlobChunk(
            digest=wanted.digest, index=wanted.index, total=2, data_base64=base64.b64encode(piece).decode()
        )
        await message.respond(chunk.model_dump_json().encode())

    async def until(self, count: int) -> list[AnyFact]:
        """Wait for *count* facts in all."""
        await eventually(lambda: len(self.facts) >= count)
        return self.facts


async def eventually(true: Callable[[], bool], within_s: float = WAIT_S) -> None:
    end = asyncio.get_running_loop().time() + within_s
    while not true():
        assert asyncio.get_running_loop().time() < end, "it did not come true in time"
        await asyncio.sleep(0.01)


async def pending(orchestrator: OrchestratorPeer) -> int:
    info = await orchestrator.nc.jetstream().consumer_info("DECIDE", decide_consumer(POOL).durable)
    return int(info.num_pending or 0) + int(info.num_ack_pending or 0)


async def all_acknowledged(orchestrator: OrchestratorPeer) -> None:
    end = asyncio.get_running_loop().time() + WAIT_S
    while await pending(orchestrator):
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.02)


async def delivered(orchestrator: OrchestratorPeer, count: int) -> None:
    """Wait until *count* requests are out with deciders."""
    end = asyncio.get_running_loop().time() + WAIT_S
    while True:
        info = await orchestrator.nc.jetstream().consumer_info("DECIDE", decide_consumer(POOL).durable)
        if info.num_ack_pending == count:
            return
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.02)


async def shorten_ack_wait(orchestrator: OrchestratorPeer, seconds: float) -> None:
    """Have the broker deliver again sooner than in production."""
    durable = decide_consumer(POOL).durable
    await orchestrator.nc.jetstream().delete_consumer("DECIDE", durable)
    short = ConsumerSpec(
        stream="DECIDE",
        durable=durable,
        filter_subject=subjects.decide(POOL),
        ack_wait_s=seconds,
        max_ack_pending=64,
    )
    await ensure_consumer(orchestrator.nc, short)

"""Protocol-level peers of the orchestrator over real NATS: they speak as decider and tool-access service speak."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.service_process import ServiceProcess, started

from towpath_contracts import rpc, streams, subjects
from towpath_contracts.decisions.request import DecisionRequest, Usage
from towpath_contracts.facts import DecisionMadeFact, ToolFinishedFact
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.tools.access import DescribeTools, FencedCalls, RecordAction, ToolsDescribed, ToolVersionProposal
from towpath_contracts.tools.calls import EffectClass, ToolRequest, ToolSpec
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.nats.pull_consumer import PullConsumer, ack
from towpath_fabric.nats.replies import encode_reply
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.turns.task_end import end_tasks

ANSWER_S = 20
"""Half a minute less than what tests wait for in all: an answer that died with its process is asked for again."""

ECHO = ToolSpec(
    name="echo",
    toolset="builtin",
    effect_class=EffectClass.PURE,
    parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)

NETWORK = {
    "name": "solo",
    "agents": [
        {
            "key": "a",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": ["echo"],
            "prompt_template": "You are {agent_key}.",
        }
    ],
}


def use(text: str) -> dict[str, Any]:
    return {
        "action": "USE_TOOL",
        "action_reasoning": "r",
        "action_details": {"tool_name": "echo", "tool_params": {"text": text}},
    }


def respond(text: str) -> dict[str, Any]:
    return {"action": "RESPOND", "action_reasoning": "r", "action_details": {"payload": {"message": text}}}


class Peers:
    """Plays decisions by step and answers every tool call; both can be paused."""

    def __init__(self, nc: Client, decide: Callable[[DecisionRequest], dict[str, Any]]) -> None:
        self.nc = nc
        self.decide = decide
        self.requests: list[ToolRequest] = []
        self.decisions: list[DecisionRequest] = []
        self.fences: list[Any] = []
        self.actions: list[RecordAction] = []
        self.record_actions = True
        self.proposals: tuple[ToolVersionProposal, ...] = ()
        self.usage = Usage()
        self.answer_tools = True
        self.answer_decisions = True
        self.unreadable: Callable[[Msg], Any] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._consumers: list[PullConsumer] = []

    async def start(self) -> None:
        await self._ensure()
        await self.nc.subscribe(rpc.DESCRIBE_TOOLS.subject, cb=self._describe)
        await self.nc.subscribe(rpc.RAISE_FENCE.subject, cb=self._fence)
        await self.nc.subscribe(rpc.RECORD_ACTION.subject, cb=self._record)
        for spec, handle in (
            (streams.decide_consumer("default"), self._decide),
            (streams.TOOLREQ_CONSUMER, self._tool),
        ):
            consumer = PullConsumer(self.nc, spec, rebind=self._ensure)
            await consumer.start()
            self._consumers.append(consumer)
            self._tasks.append(asyncio.create_task(self._serve(consumer, handle)))

    async def _ensure(self) -> None:
        await ensure_streams(self.nc, (streams.decide_consumer("default"),))

    async def stop(self) -> None:
        await end_tasks(self._tasks)
        for consumer in self._consumers:
            await consumer.stop()

    async def _serve(self, consumer: PullConsumer, handle: Callable[[Msg], Any]) -> None:
        while True:
            for message in await consumer.take(100):
                if await handle(message) is not False:
                    await ack(message)

    async def _describe(self, message: Msg) -> None:
        asked = DescribeTools.model_validate_json(message.data)
        proposals = self.proposals if asked.proposals else ()
        await message.respond(ToolsDescribed(tools=(ECHO,), proposals=proposals).model_dump_json().encode())

    async def _record(self, message: Msg) -> None:
        if not self.record_actions:
            refusal = problem("unavailable", "the audit takes nothing", retry_after_s=2)
            body, headers = encode_reply(message.subject, refusal, self.nc.max_payload)
            await self.nc.publish(message.reply, body, headers=headers)
            return
        self.actions.append(RecordAction.model_validate_json(message.data))
        await message.respond(ActionDone().model_dump_json().encode())

    async def _fence(self, message: Msg) -> None:
        from towpath_contracts.tools.access import RaiseFence

        request = RaiseFence.model_validate_json(message.data)
        self.fences.append(request)
        answer = FencedCalls(run_id=request.run_id, fence=request.fence)
        await message.respond(answer.model_dump_json().encode())

    async def _decide(self, message: Msg) -> bool | None:
        if self.unreadable is not None:
            kept: bool | None = await self.unreadable(message)
            return kept
        request = DecisionRequest.model_validate_json(message.data)
        self.decisions.append(request)
        if not self.answer_decisions:
            return None
        fact = DecisionMadeFact(
            run_id=request.run_id,
            request_id=request.request_id,
            attempt=request.attempt,
            decision=self.decide(request),
            usage=self.usage,
        )
        await self.send("decider", fact.run_id, fact.model_dump_json().encode())
        return None

    async def _tool(self, message: Msg) -> None:
        request = ToolRequest.model_validate_json(message.data)
        self.requests.append(request)
        if self.answer_tools:
            await self.finish(request)

    async def finish(self, request: ToolRequest) -> None:
        fact = ToolFinishedFact(
            run_id=request.run_id, execution_id=request.execution_id, status="succeeded", result=request.args
        )
        await self.send("tas", fact.run_id, fact.model_dump_json().encode())

    async def send(self, source: str, run_id: UUID, body: bytes) -> None:
        await self.nc.publish(subjects.run_inbox(source, run_id), body)

    async def raw(self, subject: str, body: bytes) -> Msg:
        """Ask; while nobody listens yet (the process is starting) ask again."""
        for _ in range(1_200):
            try:
                return await self.nc.request(subject, body, timeout=ANSWER_S)
            except nats.errors.NoRespondersError:
                await asyncio.sleep(0.05)
        raise TimeoutError(subject)

    async def until(self, done: Callable[[], bool]) -> None:
        for _ in range(3_000):
            if done():
                return
            await asyncio.sleep(0.02)
        raise TimeoutError

    async def ask(self, method: rpc.RpcMethod, request: Any) -> Any:
        reply = await self.raw(method.subject, request.model_dump_json().encode())
        if reply.headers and rpc.PROBLEM_HEADER in reply.headers:
            raise AssertionError(reply.data.decode())
        return method.answer.model_validate_json(reply.data)


@asynccontextmanager
async def orchestrator(dsn: str, nats_url: str, **environment: str) -> AsyncIterator[ServiceProcess]:
    """A real orchestrator process; it is asked to end at the end of the block, and the peers go on meanwhile."""
    variables = {
        "TOWPATH_DATABASE_URL": dsn,
        "TOWPATH_NATS_URL": nats_url,
        "TOWPATH_EMBEDDED": "1",
        **environment,
    }
    with temporary_folder() as folder, started("orchestrator", folder=folder, environment=variables) as service:
        try:
            yield service
        finally:
            service.terminate()
            await service.ended()


@asynccontextmanager
async def connected(nats_url: str) -> AsyncIterator[Client]:
    nc = await nats.connect(nats_url, max_reconnect_attempts=-1)
    try:
        yield nc
    finally:
        await nc.close()

"""What streams of OpenAI's API show of a model that is writing: pieces that stay, and nothing that is taken back."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.gateway.operations import CHAT
from tests.support.platform.platform_peer import PeerRun, PlatformPeer
from tests.support.waiting import all_sent

from towpath_contracts import subjects
from towpath_contracts.decisions.decision import FinishInstruction
from towpath_contracts.decisions.request import TokenDelta
from towpath_contracts.events.log import (
    DecisionReceived,
    DecisionRequested,
    InstructionIssued,
    RunFinished,
    RunStarted,
)

BEGUN = '{"action": "RESPOND", "action_details": {"payload": {"message": "'
PLACE = {"step": 1, "epoch": 0, "agent_key": "a"}


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("gateway"), nats_url, embedded="true", max_streams="1") as process:
        asyncio.run(process.wait_ready())
        yield process


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with gateway.client() as client:
        yield client


@pytest.fixture
async def peer(nats_url: str) -> AsyncIterator[PlatformPeer]:
    async with PlatformPeer(nats_url) as peer:
        yield peer


async def writes(peer: PlatformPeer, run: PeerRun, asked: uuid.UUID, *texts: str, attempt: int = 1) -> None:
    """Publish the pieces of one call of a model."""
    for index, text in enumerate(texts):
        piece = TokenDelta(
            run_id=run.run_id, request_id=asked, attempt=attempt, index=index, text=text, writer=f"w{attempt}", step=1
        )
        await peer.nc.publish(subjects.run_tokens(run.run_id), piece.model_dump_json().encode())
    await all_sent(peer.nc)


async def ends(peer: PlatformPeer, run: PeerRun, asked: uuid.UUID, message: str) -> None:
    """Let the run end with *message*."""
    payload = {"message": message}
    made = {"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": payload}}
    await peer.add(
        run,
        DecisionReceived(request_id=asked, decision=made, **PLACE),
        InstructionIssued(instruction=FinishInstruction(payload=payload), **PLACE),
        RunFinished(status="completed", reason="responded", final=payload, steps=1, fence=1),
    )


class Stream:
    """The data of a stream's frames, one after the other."""

    def __init__(self, response: httpx2.Response, peer: PlatformPeer) -> None:
        self._lines = response.aiter_lines()
        self.run = next(iter(peer.runs.values()))
        self.asked = uuid.uuid4()

    async def next(self) -> Any:
        """Return what the next frame says; the text `[DONE]` of the last one."""
        async for line in self._lines:
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
                return data if data == "[DONE]" else json.loads(data)
        raise AssertionError("the stream has ended")

    async def text(self) -> str:
        """Return the text of the next chunk."""
        return str((await self.next())["choices"][0]["delta"]["content"])


async def test_text_is_sent_as_it_is_written_and_the_rest_once_it_counts(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    async with client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        stream = Stream(response, peer)
        assert (await stream.next())["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        await peer.add(stream.run, RunStarted(), DecisionRequested(request_id=stream.asked, model="m:m", **PLACE))
        await writes(peer, stream.run, stream.asked, BEGUN + "On", " its way")
        assert await stream.text() + await stream.text() == "On its way"
        second = await client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        assert (second.status_code, second.json()["error"]["code"]) == (429, "overloaded")
        assert second.headers["x-should-retry"] == "true" and list(peer.runs) == [stream.run.run_id]
        await writes(peer, stream.run, stream.asked, BEGUN + "On its wa", attempt=2)  # and comes to the same
        await ends(peer, stream.run, stream.asked, "On its way since Monday.")
        assert await stream.text() == " since Monday."
        assert (await stream.next())["choices"][0]["finish_reason"] == "stop"
        assert await stream.next() == "[DONE]"


async def test_a_stream_whose_text_is_no_part_of_the_answer_ends_with_an_error(
    client: httpx2.AsyncClient, peer: PlatformPeer
) -> None:
    async with client.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        stream = Stream(response, peer)
        await stream.next()
        await peer.add(stream.run, RunStarted(), DecisionRequested(request_id=stream.asked, model="m:m", **PLACE))
        await writes(peer, stream.run, stream.asked, BEGUN + "wrong")
        assert await stream.text() == "wrong"
        await writes(peer, stream.run, stream.asked, BEGUN + "right", attempt=2)
        await ends(peer, stream.run, stream.asked, "right")
        error = (await stream.next())["error"]
        assert (error["code"], error["run_id"]) == ("answer_replaced", str(stream.run.run_id))
    asked = {"model": "support", "input": "hello", "stream": True}
    peer.runs.clear()
    async with client.stream("POST", "/v1/responses", json=asked) as response:
        stream = Stream(response, peer)
        assert [(await stream.next())["type"] for _ in range(2)] == ["response.created", "response.in_progress"]
        await peer.add(stream.run, RunFinished(status="failed", reason="timed_out", final={}, steps=0, fence=1))
        failed = (await stream.next())["response"]
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")

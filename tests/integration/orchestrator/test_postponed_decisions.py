"""A run waits for the time that a model's provider asks for, with real NATS and Postgres, and says so meanwhile."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond

from towpath_contracts import rpc
from towpath_contracts.decisions.request import DecisionRequest, Usage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.facts import DecisionFailedFact
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import GetEvents, GetRun, RunView
from towpath_contracts.tasks import SubmitTask


class LimitedModel:
    """A decider whose model asks for time once, then answers."""

    def __init__(self, peers: Peers, wait_s: float) -> None:
        self.peers, self.wait_s = peers, wait_s

    async def refuse(self, message: Msg) -> None:
        request = DecisionRequest.model_validate_json(message.data)
        self.peers.decisions.append(request)
        self.peers.unreadable = None
        fact = DecisionFailedFact(
            run_id=request.run_id,
            request_id=request.request_id,
            attempt=request.attempt,
            code="model_rate_limited",
            message="Gemini answered 429: retry later",
            model="gemini:flash",
            usage=Usage(model_calls=1),
            retry_after_s=self.wait_s,
        )
        await self.peers.send("decider", fact.run_id, fact.model_dump_json().encode())


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, lambda _: respond("done"))
        await found.start()
        yield found
        await found.stop()


async def test_a_run_waits_for_its_provider_says_so_and_goes_on(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
        peers.unreadable = LimitedModel(peers, 3.0).refuse
        task = SubmitTask(network="solo", user_message="hello")
        accepted = await peers.raw("task.submit", task.model_dump_json().encode())
        run_id = json.loads(accepted.data)["run_id"]

        async def view(wait_ms: int = 0) -> RunView:
            found: RunView = await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, wait_ms=wait_ms))
            return found

        asked = GetEvents(project="default", run_id=run_id, wait_ms=10_000)
        entries: tuple[LogEntry, ...] = ()
        while not any(entry.event.type == "decision_postponed" for entry in entries):
            entries += (await peers.ask(rpc.EVENTS, asked.model_copy(update={"after": len(entries)}))).entries
        (told,) = (await view()).waits
        assert told.startswith("model: gemini:flash is asked again at ")
        assert told.endswith("Gemini answered 429: retry later")
        ended = await view(20_000)
        assert (ended.status, ended.waits) == ("completed", ())
        assert ended.usage is not None and ended.usage.model_calls == 1
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=run_id))
        at = {entry.event.type: entry.at for entry in page.entries}
        assert 3.0 <= (at["effect_resent"] - at["decision_postponed"]).total_seconds() < 10
        assert [request.attempt for request in peers.decisions] == [1, 2]

"""A run waits for the time that a model's provider asks for, with real NATS and Postgres, and says so meanwhile."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from nats.aio.msg import Msg
from tests.conftest import DatabaseUrl
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond
from tests.support.tas.two_ledgers import memory

from towpath_contracts import rpc
from towpath_contracts.decisions.request import DecisionRequest, Usage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.facts import DecisionFailedFact
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import GetEvents, GetRun, RunView
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.clock import wall
from towpath_fabric.postgres.pool import Queries, open_pool


class LimitedModel:
    """A decider whose first model asks for time once, or for no time in particular; then it answers."""

    def __init__(self, peers: Peers, wait_s: float | None) -> None:
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


async def test_b14_a_run_waits_for_its_provider_says_so_and_goes_on(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """Row B14: a run waits for the time that a model's provider asks for."""
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


async def test_b16_the_next_model_of_a_network_answers_the_same_request(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """Row B16: several models for an agent."""
    async with orchestrator(database("orchestrator"), nats_server.url()):
        spec = {**NETWORK, "model": ["gemini:flash", "openai:other"]}
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=spec))
        peers.unreadable = LimitedModel(peers, None).refuse
        task = SubmitTask(network="solo", user_message="hello")
        accepted = await peers.raw("task.submit", task.model_dump_json().encode())
        run_id = json.loads(accepted.data)["run_id"]
        ended = await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, wait_ms=20_000))
        assert ended.status == "completed"
        assert [(one.model, one.attempt) for one in peers.decisions] == [("gemini:flash", 1), ("openai:other", 2)]
        assert len({one.request_id for one in peers.decisions}) == 1


RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")
ROOT, ASKING, ASKED, OVER, STOPPED = (uuid.UUID(int=number << 64) for number in range(1, 6))


async def test_a_run_names_the_models_and_calls_that_runs_below_it_wait_for(
    database: DatabaseUrl,
) -> None:
    """Postgres and the simulation's tables say the same: what asks nobody any more, or is over, is left out."""
    now, hour = wall(), timedelta(hours=1)
    owner = await asyncpg.connect(database())
    simulated, rows, _ = memory()
    begun = {"project": "default", "kind": "network", "network": "n", "version": 1, "snapshot_digest": "d", "seq": 3}
    begun |= {"caller": "me", "created_at": now, "updated_at": now}
    places = {ROOT: None, ASKING: ROOT, ASKED: ASKING, OVER: ROOT, STOPPED: ROOT}
    for run_id, parent in places.items():
        status = "completed" if run_id == STOPPED else "running"
        row = {
            **begun,
            "run_id": run_id,
            "agent_key": f"a{run_id.int >> 64}",
            "status": status,
            "parent_run_id": parent,
        }
        marks = ", ".join(f"${place}" for place in range(1, len(row) + 1))
        await owner.execute(f"INSERT INTO runs.run ({', '.join(row)}) VALUES ({marks})", *row.values())
        rows.runs[run_id] = row
        until = now - hour if run_id == OVER else now + hour
        told = {"model": "m:1", "next_model": "m:2", "until": until.isoformat(), "message": "429 \x00"}
        told |= {} if run_id == ASKING else {"next_model": None}
        last = "decision_received" if run_id == ROOT else "tool_call_finished"
        postponed = {"tool": "t.x", "until": until.isoformat(), "message": "used up"}
        events = [("decision_requested", {}), ("decision_postponed", told), (last, {})]
        events += [("tool_call_postponed", postponed), ("effect_resent", {})] if run_id != ASKING else []
        for over, about in (("effect_resent", "effect_id"), ("tool_call_finished", "execution_id")):
            one = str(uuid.uuid4())
            told_of = {**postponed, "tool": "t.over", "execution_id": one}
            events += [("tool_call_postponed", told_of), (over, {about: one, "dead": "\x00"})]
        for seq, (kind, event) in enumerate(events, 1):
            text = json.dumps({"type": kind, **event})
            await owner.execute("INSERT INTO runs.run_event VALUES ($1, $2, $3, $4, $5)", run_id, seq, now, kind, text)
            rows.events.setdefault(run_id, {})[seq] = {"seq": seq, "type": kind, "event": text}
    for number, run_id in enumerate((ASKED, ROOT, ROOT)):
        gate = {
            "gate_id": uuid.UUID(int=number),
            "run_id": run_id,
            "project": "default",
            "network": "n",
            "detail": "{}",
        }
        gate |= {"gate_type": "approval", "status": "pending", "reason": f"r{number}"}
        gate |= {"opened_at": now + timedelta(seconds=number), "expires_at": now + hour}
        marks = ", ".join(f"${place}" for place in range(1, len(gate) + 1))
        await owner.execute(f"INSERT INTO runs.gate ({', '.join(gate)}) VALUES ({marks})", *gate.values())
        rows.gates.add(gate)
    await owner.close()
    real, at = await open_pool(database("orchestrator"), 2, "test"), (now + hour).isoformat()
    found = []
    for pool in (real, simulated):
        waits = await pool.fetch(RECORDS.waits_of_run, ROOT, 50)
        told_of = [(one["run_id"], one["agent_key"], one["gate_type"], one["reason"]) for one in waits]
        found.append([(run_id, key, kind, reason.replace("\ufffd", "\x00")) for run_id, key, kind, reason in told_of])
        assert [one["run_id"] for one in await pool.fetch(RECORDS.waits_of_run, ROOT, 2)] == [ROOT, ROOT]
    real.terminate()
    assert found[0] == [
        (ROOT, "a1", "approval", "r1"),
        (ROOT, "a1", "approval", "r2"),
        (ROOT, "a1", "quota", f"t.x is asked for again at {at}: used up"),
        (ASKED, "a3", "approval", "r0"),
        (ASKING, "a2", "model", f"m:2 is asked again at {at}: 429 \x00"),
        (ASKED, "a3", "model", f"m:1 is asked again at {at}: 429 \x00"),
        (ASKED, "a3", "quota", f"t.x is asked for again at {at}: used up"),
    ]
    assert found[1] == found[0]

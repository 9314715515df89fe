"""Runs under the stop switch, under grants and after denials: real orchestrator and tool-access service."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator, respond
from tests.support.service_process import ServiceProcess
from tests.support.tas.tas_caller import ARGS, TOOLS, TasCaller
from tests.support.tas.tas_running import starter
from tests.support.waiting import eventually

from towpath_contracts import rpc, streams
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.forks import ForkOptions, ForkRun
from towpath_contracts.runs.views import CallCounts, GetEvents, GetRun, ListGates, ResolveGate, RunView
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.calls import ToolInvocation
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.pull_consumer import PullConsumer

NETWORK = {
    "name": "shop",
    "agents": [
        {
            "key": "front",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": ["orders.find", "orders.refund", "orders.ship"],
            "allowed_routes": ["depot"],
        },
        {"key": "depot", "allow_respond": True, "equipped_tools": ["orders.ship"], "allowed_routes": ["front"]},
    ],
}
POLICY = """
kind: Policy
rules:
  - {name: front, who: {agent: front}, tool: "orders.[fr]*", effect: allow}
  - {name: depot, who: {agent: depot}, tool: orders.ship, effect: allow}
"""


def use(tool: str) -> dict[str, Any]:
    details = {"tool_name": tool, "tool_params": ARGS}
    return {"action": "USE_TOOL", "action_reasoning": "r", "action_details": details}


def route(target: str) -> dict[str, Any]:
    details = {"target_agent_name": target, "context": "yours"}
    return {"action": "ROUTE_TO_AGENT", "action_reasoning": "r", "action_details": details}


class Deciders(Peers):
    """Only the models: tool access is the real service."""

    async def start(self) -> None:
        await self._ensure()
        consumer = PullConsumer(self.nc, streams.decide_consumer("default"), rebind=self._ensure)
        await consumer.start()
        self._consumers.append(consumer)
        self._tasks.append(asyncio.create_task(self._serve(consumer, self._decide)))


@dataclass
class Place:
    """The platform; `plans` are the decisions of each task, by its message."""

    peers: Deciders
    caller: TasCaller
    tas: ServiceProcess
    start: Any
    plans: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def decide(self, request: DecisionRequest) -> dict[str, Any]:
        plan = self.plans[request.context.user_message]
        return plan[request.step - 1] if request.step <= len(plan) else respond("done")

    def shown(self, run_id: str, step: int) -> DecisionRequest:
        return next(d for d in self.peers.decisions if (str(d.run_id), d.step) == (run_id, step))

    async def submit(self, message: str, *plan: dict[str, Any], **options: Any) -> Any:
        self.plans[message] = list(plan)
        task = SubmitTask.model_validate({"network": "shop", "user_message": message, **options})
        return json.loads((await self.peers.raw("task.submit", task.model_dump_json().encode())).data)

    async def run(self, run_id: str, wait_ms: int = 0) -> RunView:
        found: RunView = await self.peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, wait_ms=wait_ms))
        return found

    async def until(self, run_id: str, true: Callable[[RunView], bool]) -> RunView:
        for _ in range(600):
            view = await self.run(run_id, wait_ms=100)
            if true(view):
                return view
        raise AssertionError(view)

    async def switch(self, *, paused: bool) -> Any:
        what = {"project": "default", "kind": "tool", "name": "orders.*", "paused": paused, "reason": "it leaks"}
        return await self.caller.ask(rpc.SET_SWITCH, **what, actor="ann", roles=("operator",))

    async def work(self, invocation: ToolInvocation) -> None:
        claim_id = None if invocation.effect_class == "pure" else uuid.uuid4()
        if claim_id is None or (await self.caller.claim(invocation, claim_id)).granted:
            await self.caller.report(invocation, claim_id)


@pytest.fixture
async def place(nats_server: Nats, database: Callable[..., str], folder: Path) -> AsyncIterator[Place]:
    start = starter(nats_server, database("tas"), folder)
    with start() as process:
        await process.wait_ready()
        async with _beside(nats_server, database("orchestrator")) as (peers, caller):
            await caller.register(*TOOLS)
            await caller.apply(POLICY)
            found = Place(peers=peers, caller=caller, tas=process, start=start)
            peers.decide, caller.auto = found.decide, found.work
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
            yield found


@asynccontextmanager
async def _beside(nats_server: Nats, dsn: str) -> AsyncIterator[tuple[Deciders, TasCaller]]:
    async with connected(nats_server.url()) as nc, TasCaller(nats_server.url()) as caller:
        peers = Deciders(nc, lambda _: respond("done"))
        await peers.start()
        try:
            async with orchestrator(dsn, nats_server.url()):
                yield peers, caller
        finally:
            await peers.stop()


async def test_a_run_waits_for_a_switch_through_a_kill_and_goes_on_at_once_when_it_opens(place: Place) -> None:
    await place.switch(paused=True)
    run_id = (await place.submit("Refund it.", use("orders.refund")))["run_id"]
    view = await place.until(run_id, lambda view: view.status == "waiting")
    assert view.waits == ("paused: tool orders.* is paused by ann: it leaks",)
    assert view.calls == CallCounts(asked=1, held=1)
    (gate,) = (await place.peers.ask(rpc.LIST_GATES, ListGates(project="default"))).gates
    vote = ResolveGate(project="default", gate_id=gate.gate_id, verdict="approved", actor="bob", reason="go on")
    with pytest.raises(AssertionError, match="only the switch opens it"):
        await place.peers.ask(rpc.RESOLVE_GATE, vote)
    place.tas.kill()
    await place.tas.ended()
    with place.start() as again:
        await again.wait_ready()
        other = (await place.submit("Refund that.", use("orders.refund")))["run_id"]
        await place.until(other, lambda view: view.status == "waiting")
        assert not place.caller.invocations
        await place.switch(paused=False)
        for each in (run_id, other):
            view = await place.until(each, lambda view: view.ended_at is not None)
            assert (view.status, view.waits, view.step) == ("completed", (), 2)
            assert view.calls == CallCounts(asked=1, allowed=1, held=1), "held once, however often it was asked for"
        assert {len(sent) for sent in place.caller.invocations.values()} == {1}
        events = (await place.peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=run_id))).entries
        closed = [entry.event for entry in events if entry.event.type == "gate_closed"]
        assert [(event.verdict, event.by) for event in closed] == [("resumed", "ann")]


async def test_a_grant_is_checked_whole_narrows_what_a_model_sees_and_stays_with_handoffs_and_forks(
    place: Place,
) -> None:
    wrong = [
        {"tool": "orders.fnd"},
        {"tool": "orders.refund", "operation": "delete"},
        {"tool": "orders.*", "when": "args.amount <"},
        {"tool": "orders.*", "when": "args.items.all(i, i > 0)"},
        {"tool": "orders.*", "when": "args.amount < 100"},
    ]
    refused = await place.submit("Never.", grant=wrong)
    assert refused["status"] == 422
    assert [error["pointer"] for error in refused["errors"]] == [
        *("/grant/0/tool", "/grant/1/operation", "/grant/2/when", "/grant/3/when"),
    ]
    assert "did you mean 'orders.find'" in refused["errors"][0]["detail"]
    grant = [{"tool": "orders.find"}, {"tool": "orders.ship", "when": "args.amount < 5"}]
    plan = (use("orders.refund"), route("depot"), use("orders.ship"))
    run_id = (await place.submit("Narrow.", *plan, grant=grant))["run_id"]
    await place.until(run_id, lambda view: view.status == "completed")
    assert [tool.name for tool in place.shown(run_id, 1).context.tools] == ["orders.find", "orders.ship"]
    denied = json.loads(place.shown(run_id, 2).context.outputs[0].text)
    assert (denied["violation_type"], denied["escalation"]["why"].startswith("the task was")) == ("not_granted", True)
    after = json.loads(place.shown(run_id, 4).context.outputs[0].text)
    assert after["violation_type"] == "not_granted", "depot may ship, and this task may not ship so much"
    assert not place.caller.invocations
    asked = ForkRun(project="default", run_id=run_id, caller="anonymous", actor="bob", options=ForkOptions(from_step=1))
    fork = await place.peers.ask(rpc.FORK_RUN, asked)
    page = await place.peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=fork.run_id))
    assert [rule["tool"] for rule in page.entries[0].event.grant] == ["orders.find", "orders.ship"]


async def test_while_the_service_is_away_nothing_runs_and_nothing_is_granted(place: Place) -> None:
    """Tool access that can't be asked permits nothing; what was asked waits, and goes on when it is back."""
    place.tas.kill()
    await place.tas.ended()
    bound = await place.submit("Bound.", grant=[{"tool": "orders.find", "when": "args.amount < 5"}])
    assert (bound["status"], bound["code"]) == (503, "unavailable"), "nobody can say whether that is a condition"
    run_id = (await place.submit("Later.", use("orders.refund")))["run_id"]
    view = await place.until(run_id, lambda view: view.step == 1)
    assert (view.status, place.caller.invocations) == ("running", {})
    with place.start() as again:
        await again.wait_ready()
        view = await place.until(run_id, lambda view: view.ended_at is not None)
    assert view.status == "completed"
    (sent,) = place.caller.invocations.values()
    assert len(sent) == 1


async def test_a_refused_model_gets_tools_agents_and_people_that_may(place: Place) -> None:
    run_id = (await place.submit("Ship it.", use("orders.ship")))["run_id"]
    await place.until(run_id, lambda view: view.status == "completed")
    parsed = json.loads(place.shown(run_id, 2).context.outputs[0].text)
    assert [one["tool"] for one in parsed["alternatives"]] == ["orders.find", "orders.refund"], "not tag: not its tool"
    assert parsed["specialists"] == [{"agent_key": "depot", "reachable": True, "why": "rule depot allows it"}]
    assert parsed["escalation"]["role"] == "policy_admin"
    assert "Agent depot may do it: hand over to it." in parsed["suggestion"]
    with pytest.raises(ProblemError, match="role_missing"):
        await place.caller.ask(
            rpc.SET_SWITCH, project="default", kind="tool", name="*", paused=True, actor="eve", reason="x"
        )
    await eventually(lambda: not place.caller.invocations)

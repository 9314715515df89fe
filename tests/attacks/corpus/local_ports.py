"""Attacks by who reaches the ports of a platform on this machine, and has no credential of it."""

import contextlib
import json

import nats.errors
from nats.aio.client import Client as NatsClient
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import Target

from towpath.client.client import Client
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.subjects import LOCAL


@attack(Position.NEIGHBOUR_PROCESS)
async def broker_without_a_credential(target: Target) -> str:
    """Talk to the broker without a credential where the gateway asks for keys."""
    try:
        async with target.broker():
            pass
    except nats.errors.Error as error:
        return str(error)
    raise AttackWorkedError("the broker let in who has no credential")


@attack(Position.NEIGHBOUR_PROCESS, keys=False)
async def run_of_another_caller_over_the_broker(target: Target) -> str:
    """Read, follow and cancel somebody's run, and that of the person with the token, without a credential."""
    async with target.client("carol", as_caller=True) as carol:
        run = await target.run(carol, [("desk.refund", {"order": "3", "amount": 5})], "Refund order 3.")
    async with target.client() as owner:
        own = await target.run(owner, [("desk.refund", {"order": "3", "amount": 6})], "Refund order 3.")
    refusals = []
    async with Client(target.platform.nats_url) as nobody:
        for run_id in (run["run_id"], own["run_id"]):
            for ask in (nobody.get, nobody.cancel):
                try:
                    raise AttackWorkedError(f"{ask.__name__}: {await ask(run_id)}")
                except ProblemError as error:
                    refusals.append(error.problem.code)
            try:
                async for event in nobody.events(run_id):
                    raise AttackWorkedError(f"events: {event}")
            except ProblemError as error:
                refusals.append(error.problem.code)
    async with target.broker() as nobody_else:
        refusals.append(await _in_the_name_of_the_person(nobody_else, own["run_id"]))
    return ", ".join(refusals)


async def _in_the_name_of_the_person(connection: NatsClient, run_id: str) -> str:
    """Ask as the caller that the person with the token is; return what became of it."""
    with contextlib.suppress(nats.errors.TimeoutError, nats.errors.NoRespondersError):
        answer = await connection.request(f"task.get.{LOCAL}", json.dumps({"run_id": run_id}).encode(), timeout=1)
        raise AttackWorkedError(f"in the name of {LOCAL}: {answer.data!r}")
    return f"no way to task.get.{LOCAL}"


@attack(Position.TOOL_OUTPUT)
async def own_port_by_a_tool(target: Target) -> str:
    """Have an agent that may fetch from this machine ask the platform's own ports."""
    ports = [target.url, target.platform.health_url("tas"), f"http://127.0.0.1:{target.platform.nats.port}"]
    async with target.client(roles=["auditor"]) as client:
        calls = [("http.request", {"method": "GET", "url": f"{port}/readyz"}) for port in ports]
        run = await target.run(client, calls, "Look whether it is ready.")
        entries = (await client.get(f"/v1/audit?run_id={run['run_id']}&phase=outcome")).json()["entries"]
    if len(entries) != len(ports):
        raise RuntimeError(f"{len(entries)} of {len(ports)} calls were made")
    answered = [entry for entry in entries if entry["verdict"] == "succeeded"]
    if answered:
        raise AttackWorkedError(f"{len(answered)} ports answered")
    return ", ".join(str(entry["detail"].get("code")) for entry in entries)

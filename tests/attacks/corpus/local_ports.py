"""Attacks by who reaches the ports of a platform on this machine, and has no credential of it."""

import nats.errors
from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import Target

from towpath.client.client import Client
from towpath_contracts.problems.registry import ProblemError


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
    """Read, follow and cancel somebody's run over the broker without a credential."""
    async with target.client("carol", as_caller=True) as carol:
        run = await target.run(carol, [("desk.refund", {"order": "3", "amount": 5})], "Refund order 3.")
    refusals = []
    async with Client(target.platform.nats_url) as nobody:
        for ask in (nobody.get, nobody.cancel):
            try:
                raise AttackWorkedError(f"{ask.__name__}: {await ask(run['run_id'])}")
            except ProblemError as error:
                refusals.append(error.problem.code)
        try:
            async for event in nobody.events(run["run_id"]):
                raise AttackWorkedError(f"events: {event}")
        except ProblemError as error:
            refusals.append(error.problem.code)
    return ", ".join(refusals)


@attack(Position.TOOL_OUTPUT)
async def own_port_by_a_tool(target: Target) -> str:
    """Have an agent that may fetch from this machine ask the platform's own ports."""
    ports = [target.url, target.platform.health_url("tas"), f"http://127.0.0.1:{target.platform.nats.monitoring_port}"]
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

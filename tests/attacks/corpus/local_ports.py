"""Attacks by who reaches the ports of a platform on this machine, and has no credential of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import nats.errors
from nats.aio.client import Client as NatsClient
from tests.attacks.attack import AttackWorkedError, Position, attack, require
from tests.attacks.target import TIMEOUT_S, Target
from tests.support.platform.port_thief import IS_ANOTHER_USER, PortThief, expected_owner, port_thief
from tests.support.waiting import eventually

from towpath.client.client import Client
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.subjects import LOCAL
from towpath_embedded.platform import Platform
from towpath_embedded.processes.ports import free_port
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings

CONNECTIONS = 20
"""More than there are processes, so that some have tried again."""


@attack(Position.NEIGHBOUR_PROCESS)
async def broker_without_a_credential(target: Target) -> str:
    """Talk to the broker without a credential where the gateway asks for keys."""
    try:
        async with target.broker():
            pass
    except nats.errors.Error as error:
        require("Authorization" in str(error), f"the broker was not asked: {error}")
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
    require(set(refusals) == {"run_not_found"}, f"the answers are {refusals}")
    async with target.broker() as nobody_else:
        refusals.append(await _in_the_name_of_the_person(nobody_else, own["run_id"]))
    return ", ".join(refusals)


async def _in_the_name_of_the_person(connection: NatsClient, run_id: str) -> str:
    """Ask as the caller that the person with the token is; return what became of it."""
    with contextlib.suppress(nats.errors.TimeoutError, nats.errors.NoRespondersError):
        answer = await connection.request(f"task.get.{LOCAL}", json.dumps({"run_id": run_id}).encode(), timeout=1)
        raise AttackWorkedError(f"in the name of {LOCAL}: {answer.data!r}")
    require(
        "permissions violation" in str(connection.last_error),
        f"nothing came, and the broker says {connection.last_error}",
    )
    return f"no way to task.get.{LOCAL}"


@attack(Position.NEIGHBOUR_PROCESS, keys=False)
async def the_brokers_port_taken_while_it_restarts(target: Target) -> str:
    """Listen at the broker's port between its death and its next start, to be sent passwords and messages.

    Without root there is no other user to do it as: then a service that expects another one meets the same listener.
    """
    platform = target.platform
    port = platform.nats.port if IS_ANOTHER_USER else free_port()
    async with port_thief(port) as thief:
        victim = contextlib.nullcontext() if IS_ANOTHER_USER else _service_at(platform, port)
        await platform.hold("nats")  # until the thief is there: on a busy machine it would not always be the first
        async with victim:
            await asyncio.wait_for(thief.listens.wait(), TIMEOUT_S)
            platform.release("nats")
            await eventually(lambda: thief.connections >= CONNECTIONS or bool(thief.sent), within_s=TIMEOUT_S)
        told = _worth_having(thief)
    await platform.wait_ready()
    async with target.client() as owner:  # and they go on with the broker
        run = await target.run(owner, [("desk.refund", {"order": "3", "amount": 5})], "Refund order 3.")
    if told:
        raise AttackWorkedError(f"the stranger was sent {told}")
    return f"hung up on {thief.connections} times without a byte; then {run['status']} as always"


def _worth_having(thief: PortThief) -> str:
    """Return the beginnings of the first lines that a thief was sent."""
    return "; ".join(line[:160] for line in thief.sent[:3])


@contextlib.asynccontextmanager
async def _service_at(platform: Platform, port: int) -> AsyncIterator[None]:
    """Have a service with its own password try to connect at *port*, where it expects another user."""
    login = {"nats_user": "tas", "nats_password": platform.nats.password("tas"), "nats_owner": expected_owner()}
    bus = Bus("tas", Settings.model_validate({"nats_url": f"nats://127.0.0.1:{port}", **login}))
    trying = asyncio.create_task(bus.connect())
    try:
        yield
    finally:
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        await bus.close()


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

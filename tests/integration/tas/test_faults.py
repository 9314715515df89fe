"""Faults of and around the tool-access service: what must hold whatever is killed."""

import asyncio
import contextlib
import shutil
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import pytest
from nats.errors import Error as NatsError
from tests.support.service_process import ServiceProcess
from tests.support.tas.tas_caller import OPEN, TasCaller, query, row
from tests.support.tas.tas_running import Running, running, starter

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolInvocation, ToolRequest
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
from towpath_fabric.postgres.migrations import migrate

KILLS = 4
CALLS_BETWEEN = 25
NAMES = ("orders.find", "orders.tag", "orders.refund")


class World:
    """Workers that obey the protocol, and the outside world that they change: each effect is counted."""

    def __init__(self, caller: TasCaller) -> None:
        self.caller = caller
        self.effects: Counter[UUID] = Counter()
        self._busy: set[tuple[UUID, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, invocation: ToolInvocation) -> None:
        """Work on a delivery, unless this attempt is worked on already (the broker would not deliver it twice)."""
        key = (invocation.execution_id, invocation.attempt)
        if key not in self._busy:
            self._busy.add(key)
            task = asyncio.create_task(self._work(invocation))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, invocation: ToolInvocation) -> None:
        claim_id = None
        if invocation.effect_class != "pure":
            claim_id = uuid.uuid4()
            if not await self._granted(invocation, claim_id):
                return
        self.effects[invocation.execution_id] += 1
        key = f"{invocation.execution_id}:{invocation.attempt}"
        while key not in self.caller.confirmed:
            with contextlib.suppress(NatsError, TimeoutError):
                await self.caller.report(invocation, claim_id)
            await asyncio.sleep(0.3)

    async def _granted(self, invocation: ToolInvocation, claim_id: UUID) -> bool:
        while True:  # no answer means: do not run, ask again with the same claim id
            with contextlib.suppress(NatsError, TimeoutError, ProblemError):
                return (await self.caller.claim(invocation, claim_id)).granted
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def ended(caller: TasCaller, request: ToolRequest) -> bool:
    facts = caller.facts.get(request.execution_id, [])
    return any(fact["type"] == "tool.finished" for fact in facts)


async def until_ended(caller: TasCaller, requests: list[ToolRequest], within_s: float) -> None:
    """Ask again for what has no end, as the reconciler does, until everything has one."""
    until = asyncio.get_running_loop().time() + within_s
    while open_ones := [request for request in requests if not ended(caller, request)]:
        assert asyncio.get_running_loop().time() < until, f"{len(open_ones)} of {len(requests)} calls have no end"
        for request in open_ones:
            with contextlib.suppress(NatsError, TimeoutError):
                await caller.again(request)
        await asyncio.sleep(1)


async def test_a_service_that_is_killed_again_and_again_loses_and_doubles_nothing(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    start = starter(nats_server, database("tas"), folder)
    requests: list[ToolRequest] = []
    async with TasCaller(nats_server.url()) as caller:
        world = World(caller)
        caller.auto = world.take
        with start() as process:
            await process.wait_ready()
            await caller.set_up()
        for number in range(KILLS):
            with start() as process:
                await process.wait_ready()
                new = [caller.request(NAMES[n % 3]) for n in range(CALLS_BETWEEN)]
                requests += new
                await asyncio.gather(*(caller.put(request) for request in new))
                await asyncio.sleep(0.01 * number)  # another place every time
                process.kill()
        with start() as process:
            await process.wait_ready()
            await until_ended(caller, requests, within_s=60)
        await world.stop()
    await judge(database(), world, requests)


async def test_two_replicas_work_side_by_side(nats_server: Nats, database: Callable[..., str], folder: Path) -> None:
    start = starter(nats_server, database("tas"), folder)
    async with TasCaller(nats_server.url()) as caller:
        world = World(caller)
        with start() as first, start() as second:
            await first.wait_ready()
            await second.wait_ready()
            await caller.set_up()
            caller.auto = world.take
            requests = [caller.request(NAMES[n % 3]) for n in range(150)]
            doubled = [*requests, *requests[:50]]
            await asyncio.gather(*(caller.put(request) for request in doubled))
            await until_ended(caller, requests, within_s=60)
            await caller.quiet()
            assert await handled(first) > 0
            assert await handled(second) > 0
            await both_obey_a_new_policy(caller)
        await world.stop()
    await judge(database(), world, requests)


async def both_obey_a_new_policy(caller: TasCaller) -> None:
    """Whichever replica takes a request after the policy was applied, it knows the policy."""
    await caller.apply("kind: Policy\nrules: []")
    late = [caller.request("orders.find") for _ in range(40)]
    await asyncio.gather(*(caller.put(request) for request in late))
    for request in late:
        await caller.fact(request, "tool.denied")


async def handled(process: ServiceProcess) -> float:
    """Return how many batches of requests a replica has had."""
    for line in (await process.metrics()).splitlines():
        if line.startswith('towpath_tas_batch_count{kind="request"}'):
            return float(line.rpartition(" ")[2])
    return 0


async def judge(dsn: str, world: World, requests: list[ToolRequest]) -> None:
    """Compare the outside world with the ledger and the audit."""
    calls = await query(dsn, "SELECT execution_id, tool, status, attempt FROM tas.tool_call WHERE status <> 'denied'")
    by_id = {call["execution_id"]: call for call in calls}
    assert {request.execution_id for request in requests} == set(by_id), "lost, or invented"
    assert {call["status"] for call in calls} == {"succeeded"}, Counter(call["status"] for call in calls)
    for execution_id, count in world.effects.items():
        if by_id[execution_id]["tool"] != "orders.find":
            assert count == 1, f"{by_id[execution_id]['tool']} happened {count} times"
    assert set(world.effects) == set(by_id), "succeeded, and never happened"
    entries = await query(
        dsn,
        "SELECT execution_id, phase, verdict FROM tas.audit_entry"
        " WHERE phase IN ('decision', 'outcome') AND verdict <> 'deny'",
    )
    found = Counter((entry["execution_id"], entry["phase"], entry["verdict"]) for entry in entries)
    for execution_id in by_id:
        assert found[execution_id, "decision", "allow"] == 1, "one decision for every effect"
        assert found[execution_id, "outcome", "succeeded"] == 1, "one outcome for every effect"


async def test_a_broker_that_lost_everything_is_set_up_again_and_calls_go_on(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder) as tas:
        caller = tas.caller
        await caller.set_up()
        request = await caller.put(caller.request("orders.refund"))
        first = await caller.dispatched(request)
        assert nats_server.process is not None
        nats_server.process.kill()
        nats_server.process.wait()
        shutil.rmtree(nats_server.store)
        await nats_server.start()
        await put_when_possible(caller, request)
        second = await caller.dispatched(request, times=2)
        assert (second.attempt, second.args) == (1, first.args)
        claim_id = uuid.uuid4()
        assert (await caller.claim(second, claim_id)).granted
        assert not (await caller.claim(first)).granted
        await caller.report(second, claim_id)
        await caller.fact(request, "tool.finished")


async def put_when_possible(caller: TasCaller, request: ToolRequest) -> None:
    """Ask again until the stream is there to take it."""
    for _ in range(600):
        try:
            async with asyncio.timeout(5):  # nobody confirms what was sent to the broker that is gone
                await caller.again(request)
        except (NatsError, TimeoutError):
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError("the streams did not come back")


@pytest.fixture
async def mortal(nats_server: Nats, folder: Path) -> AsyncIterator[tuple[Running, Postgres]]:
    """A TAS with a Postgres of its own, which may be stopped."""
    server = Postgres(folder / "postgres", durable=False)
    await server.start()
    try:
        await server.ensure_database()
        await migrate(server.dsn())

        def database(role: str | None = None) -> str:
            return server.dsn(user="postgres" if role is None else f"towpath_{role}")

        async with running(nats_server, database, folder) as tas:
            await tas.caller.set_up()
            yield tas, server
    finally:
        await server.stop()


async def test_nothing_starts_while_postgres_is_away_and_work_resumes_by_itself(
    mortal: tuple[Running, Postgres],
) -> None:
    tas, server = mortal
    caller = tas.caller
    before = await caller.call("orders.refund")
    await server.stop()
    waiting = await caller.put(caller.request("orders.find"))
    with pytest.raises(ProblemError, match="unavailable"):
        await caller.claim(before)
    with pytest.raises(ProblemError, match="unavailable"):
        await caller.ask(rpc.AUDIT_QUERY, project="default")
    await asyncio.sleep(1)
    assert waiting.execution_id not in caller.invocations
    await server.start()
    invocation = await caller.dispatched(waiting)
    await caller.confirmation(await caller.report(invocation))
    assert (await caller.claim(before)).granted
    assert tas.service.process.poll() is None
    dead = await query(tas.dsn, "SELECT reason FROM runs.dead_letter")
    assert dead == [], "an absent database says nothing about a message"


async def test_a_message_that_postgres_refuses_does_not_take_its_batch_with_it(
    mortal: tuple[Running, Postgres],
) -> None:
    tas, _ = mortal
    caller = tas.caller
    good = [caller.request("orders.find") for _ in range(20)]
    bad = [caller.request("orders.find", caller="a\u0000b") for _ in range(2)]
    await asyncio.gather(*(caller.put(request) for request in [*good[:10], *bad, *good[10:]]))
    for request in good:
        await caller.dispatched(request)
    for _ in range(600):
        dead = await query(tas.dsn, "SELECT run_id, failures FROM runs.dead_letter")
        if len(dead) == 2:
            break
        await asyncio.sleep(0.1)
    assert {(one["run_id"], one["failures"]) for one in dead} == {(request.run_id, 5) for request in bad}


async def test_rows_of_a_run_land_in_the_partition_of_its_month(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder) as tas:
        await tas.caller.set_up()
        invocation = await tas.caller.call("orders.find")
        found = await query(
            tas.dsn,
            "SELECT tableoid::regclass::text AS place FROM tas.tool_call WHERE execution_id = $1",
            invocation.execution_id,
        )
        assert found[0]["place"].startswith("tas.tool_call_20")
        strange = await tas.caller.call("orders.find", run_id=uuid.uuid4())
        assert (await row(tas.dsn, strange.execution_id))["status"] == "permitted"


async def test_without_a_key_or_with_an_open_one_the_service_does_not_start(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    start = starter(nats_server, database("tas"), folder, embedded="0")
    with start() as process:
        assert await asyncio.to_thread(process.process.wait, 60) == 2
        assert "can't be read" in process.log.read_text()
    (folder / "ticket.key").write_text("AAAA")
    (folder / "ticket.key").chmod(0o644)
    with start() as process:
        assert await asyncio.to_thread(process.process.wait, 60) == 2
        assert "chmod 600" in process.log.read_text()


async def test_a_connection_that_is_cut_under_load_loses_nothing(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder) as tas:
        caller = tas.caller
        await caller.apply(OPEN)
        await caller.register()
        world = World(caller)
        caller.auto = world.take
        requests = [caller.request(NAMES[n % 3]) for n in range(200)]
        sending = asyncio.gather(*(caller.put(request) for request in requests))
        for _ in range(5):
            await asyncio.sleep(0.05)
            await cut(tas.dsn)
        await sending
        await until_ended(caller, requests, within_s=60)
        await world.stop()
    await judge(tas.dsn, world, requests)


async def cut(dsn: str) -> None:
    """End every session of the service."""
    connection = await asyncpg.connect(urlunsplit(urlsplit(dsn)))
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename = 'towpath_tas'"
        )
    finally:
        await connection.close()

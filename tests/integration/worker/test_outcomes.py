"""An outcome is kept, sent again and never made twice, whatever happens to TAS, the broker or the worker."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import eventually
from tests.support.worker.running_worker import serving
from tests.support.worker.worker_tools import CALLS

from towpath_contracts.authority import USERS, NatsUserRights
from towpath_contracts.streams import exec_consumer
from towpath_contracts.tools.calls import OutcomeConfirmed
from towpath_embedded.servers.nats import Nats
from towpath_worker.app import maintenance

ARGS = {"a": 1, "b": 2}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


async def test_an_outcome_is_sent_again_until_it_is_confirmed_and_only_then_acknowledged(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.confirming = False
        call = await tas.dispatch(tas.invocation("add", ARGS))
        await eventually(lambda: len(tas.outcomes_of(call)) >= 2)
        assert await tas.left() == (0, 1)
        await tas.confirm()
        await tas.all_acknowledged()
        assert CALLS == ["add"]


async def test_a_confirmation_of_something_else_confirms_nothing(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.confirming = False
        call = await tas.dispatch(tas.invocation("add", ARGS))
        await tas.outcome(call)
        (inbox,) = set(tas._inboxes.values())
        await tas.nc.publish(inbox, OutcomeConfirmed(keys=(f"{call.execution_id}:2",)).model_dump_json().encode())
        await tas.nc.publish(inbox, b"nonsense")
        await eventually(lambda: len(tas.outcomes_of(call)) >= 2)
        assert await tas.left() == (0, 1)
        await tas.confirm()
        await tas.all_acknowledged()


async def test_a_redelivery_of_a_call_that_runs_is_not_run_again(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        call = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 1}, effect_class="idempotent"))
        await eventually(lambda: CALLS != [])
        await tas.dispatch(call)
        await tas.outcome(call)
        await tas.all_acknowledged()
        assert len(CALLS) == 1
        assert len(tas.claims) == 1


async def test_a_redelivery_of_a_call_whose_outcome_is_held_is_answered_from_it(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.confirming = False
        call = await tas.dispatch(tas.invocation("add", ARGS))
        await tas.outcome(call)
        await tas.dispatch(call)
        await eventually(lambda: len(tas.outcomes_of(call)) >= 2)
        await tas.until_left((0, 2))
        await tas.confirm()
        await tas.all_acknowledged()
        assert CALLS == ["add"]


async def test_a_new_attempt_waits_until_the_old_one_has_ended_here(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        old = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 0.5}, effect_class="idempotent"))
        await eventually(lambda: CALLS != [])
        new = tas.invocation(
            "pay_slowly",
            {"seconds": 0.5},
            effect_class="idempotent",
            execution_id=old.execution_id,
            run_id=old.run_id,
            attempt=2,
        )
        await tas.dispatch(new)
        await tas.outcome(old)
        await tas.outcome(new)
        assert [one.attempt for one in tas.outcomes] == [1, 2]
        await tas.all_acknowledged()


async def test_an_outcome_survives_the_loss_of_the_broker_and_of_everything_it_held(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        tas.confirming = False
        call = await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
        await tas.outcome(call)
        await lose_broker(nats_server, tas)
        found = len(tas.outcomes_of(call))
        await eventually(lambda: len(tas.outcomes_of(call)) > found)
        tas.confirming = True
        await tas.confirm()
        assert len(CALLS) == 1
        later = await tas.dispatch(tas.invocation("add", ARGS))
        assert (await tas.outcome(later, within_s=60)).status == "succeeded"
        await tas.all_acknowledged()


async def test_an_outcome_made_while_the_broker_is_away_is_sent_when_it_is_back(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        call = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 1}, effect_class="idempotent"))
        await eventually(lambda: CALLS != [])
        assert nats_server.process is not None
        nats_server.process.kill()
        nats_server.process.wait()
        await asyncio.sleep(1.5)
        await nats_server.start()
        outcome = await tas.outcome(call, within_s=60)
        assert outcome.status == "succeeded"
        await tas.all_acknowledged()
        assert len(CALLS) == 1


async def test_after_a_reconnect_no_more_is_asked_for_than_before(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        assert (await tas.call("add", ARGS)).status == "succeeded"
        durable = exec_consumer("default", "default").durable

        async def open_requests() -> int:
            return (await tas.nc.jetstream().consumer_info("TOOLEXEC", durable)).num_waiting or 0

        async with asyncio.timeout(60):
            while await open_requests() != 1:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.05)
        for _ in range(3):
            assert nats_server.process is not None
            before = tas.nc.stats["reconnects"]  # what is published before the loss is noticed is answered by nobody
            nats_server.process.kill()
            nats_server.process.wait()
            await nats_server.start()
            await eventually(lambda n=before: tas.nc.is_connected and tas.nc.stats["reconnects"] > n, within_s=60)
            later = await tas.dispatch(tas.invocation("add", ARGS))
            assert (await tas.outcome(later, within_s=60)).status == "succeeded"
            await asyncio.sleep(2 * maintenance.INTERVAL_S)  # whoever looks after the connection has done so by now
            assert await open_requests() == 1


async def test_a_worker_that_starts_before_tas_waits_for_it(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas:
        tas.answering = False
        async with serving(nats_server.url()) as held:
            with pytest.raises(RuntimeError, match="registration"):
                await held.worker.ready()
            tas.answering = True
            assert (await tas.call("add", ARGS)).status == "succeeded"
            await held.worker.ready()


async def test_a_drained_worker_finishes_what_runs_and_hands_back_the_rest(nats_server: Nats) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        async with serving(url, concurrency=2, drain_s=3):
            short = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 0.5}, effect_class="idempotent"))
            long = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 60}, effect_class="idempotent"))
            await eventually(lambda: len(CALLS) == 2)
            waiting = await tas.dispatch(tas.invocation("add", ARGS))
        assert [one.status for one in tas.outcomes_of(short)] == ["succeeded"]
        assert tas.outcomes_of(long) == []
        async with serving(url, name="worker-2"):
            soon = (
                exec_consumer("default", "default").ack_wait_s - 5
            )  # what is not handed back comes after the ack wait
            assert (await tas.outcome(waiting, within_s=soon)).worker == "worker-2"
            await eventually(lambda: CALLS.count(f"pay_slowly {long.execution_id}") == 2, within_s=soon)


async def test_a_worker_needs_no_more_rights_than_its_user_has(folder: Path) -> None:
    everything = NatsUserRights(publish=(">",), subscribe=(">",))
    server = Nats(folder / "nats", users={"worker": USERS["worker"], "everything": everything})
    await server.start()
    try:
        login = {"nats_user": "worker", "nats_password": server.password("worker")}
        async with TasPeer(server.url("everything")) as tas, serving(server.url(), **login):
            outcome = await tas.call("pay", {"amount": 1}, effect_class="irreversible")
            assert outcome.status == "succeeded"
            assert (await tas.call("large", {"size": 100_000})).blob
            await tas.all_acknowledged()
    finally:
        await server.stop()


async def lose_broker(server: Nats, tas: TasPeer) -> None:
    """Kill the broker, delete everything it stored, and start it empty, as when a disk is lost."""
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    shutil.rmtree(server.store)
    await server.start()
    await eventually(lambda: tas.nc.is_connected, within_s=60)
    await tas.set_up()

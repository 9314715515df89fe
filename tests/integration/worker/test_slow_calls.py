"""Slow, stuck and large calls (reliability catalogue, test 14), with an ack wait of 2 s instead of 20."""

import asyncio

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import eventually
from tests.support.worker.running_worker import serving
from tests.support.worker.worker_tools import CALLS, RELEASE

from towpath_contracts.streams import exec_consumer
from towpath_contracts.tools.calls import MAX_RESULT_BYTES
from towpath_embedded.servers.nats import Nats
from towpath_worker.app import maintenance, outcome_outbox

ACK_WAIT_S = 2.0


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    RELEASE.clear()
    monkeypatch.setattr(maintenance, "HEARTBEAT_S", ACK_WAIT_S / 4)
    monkeypatch.setattr(outcome_outbox, "HEARTBEAT_S", ACK_WAIT_S / 4)


async def redelivered(tas: TasPeer) -> int:
    info = await tas.nc.jetstream().consumer_info("TOOLEXEC", exec_consumer("default", "default").durable)
    return (info.delivered.consumer_seq if info.delivered else 0) - (info.delivered.stream_seq if info.delivered else 0)


async def test_a_call_may_take_longer_than_the_broker_waits(nats_server: Nats) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        tas.ack_wait_s = ACK_WAIT_S
        async with serving(url), serving(url, name="worker-2"):
            call = await tas.dispatch(
                tas.invocation("pay_slowly", {"seconds": 2.5 * ACK_WAIT_S}, effect_class="idempotent")
            )
            assert (await tas.outcome(call, within_s=60)).result == "paid"
            await tas.all_acknowledged()
            assert (len(CALLS), len(tas.claims), await redelivered(tas)) == (1, 1, 0)


async def test_an_outcome_that_nobody_confirms_keeps_its_delivery(nats_server: Nats) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        tas.ack_wait_s = ACK_WAIT_S
        tas.confirming = False
        async with serving(url), serving(url, name="worker-2"):
            call = await tas.dispatch(tas.invocation("pay", {"amount": 1}, effect_class="irreversible"))
            await eventually(lambda: len(tas.outcomes_of(call)) >= 2, within_s=60)
            tas.confirming = True
            await tas.all_acknowledged()
            assert (len(CALLS), len(tas.claims), await redelivered(tas)) == (1, 1, 0)


async def test_a_stuck_call_misses_its_beats_and_holds_nothing_but_its_slot(nats_server: Nats) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        tas.ack_wait_s = ACK_WAIT_S
        async with serving(url, concurrency=2) as held:
            stuck = await tas.dispatch(tas.invocation("hang_in_a_thread", {}))
            outcome = await tas.outcome(stuck, within_s=60)
            assert outcome.failure is not None and outcome.failure.code == "tool_timeout"
            await eventually(lambda: held.count("towpath_worker_overrun") == 1)
            await held.worker.ready()
            outcomes = await asyncio.gather(*(tas.call("add", {"a": n, "b": 1}) for n in range(10)))
            assert [one.result for one in outcomes] == [{"total": n + 1} for n in range(10)]
            other = await tas.dispatch(tas.invocation("hang_in_a_thread", {}))
            await tas.outcome(other, within_s=60)
            with pytest.raises(RuntimeError, match="every slot"):
                await held.worker.ready()
            RELEASE.set()
            await eventually(lambda: held.count("towpath_worker_overrun") == 0)
            await held.worker.ready()


async def test_ten_megabytes_travel_as_a_reference(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        small, large = await asyncio.gather(
            tas.call("add", {"a": 1, "b": 1}), tas.call("large", {"size": 10_000_000}, timeout_ms=60_000)
        )
        assert small.result == {"total": 2}
        assert (large.status, large.blob, large.result, large.result_bytes) == ("succeeded", True, None, 10_000_002)
        pieces = tas.blobs[str(large.result_digest)]
        assert len(b"".join(pieces[index] for index in sorted(pieces))) == 10_000_002 < MAX_RESULT_BYTES
        assert large.preview is not None and large.preview.head.startswith("xxx")
        assert len(large.model_dump_json()) < 70_000, "its beginning and its end travel along"


@pytest.mark.parametrize("name", ["pay_late", "pay_stubbornly"])
async def test_what_a_call_came_to_after_its_time_is_reported_too(nats_server: Nats, name: str) -> None:
    """It settles what the ledger calls unknown, and is evidence otherwise."""
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        tas.confirming = False
        call = await tas.dispatch(tas.invocation(name, {}, effect_class="irreversible"))
        first = await tas.outcome(call, within_s=60)
        assert first.failure is not None and (first.failure.code, first.failure.uncertain) == ("tool_timeout", True)
        RELEASE.set()
        await eventually(lambda: held.count("towpath_worker_overrun") == 0, within_s=60)
        tas.confirming = True
        await tas.confirm()
        await eventually(lambda: tas.outcomes_of(call)[-1].status == "succeeded", within_s=60)
        late = tas.outcomes_of(call)[-1]
        assert (late.result, late.claim_id) == (f"paid {call.execution_id}", first.claim_id)
        await tas.all_acknowledged()


async def test_a_repeated_confirmation_of_the_first_outcome_is_none_of_the_late_one(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome_outbox, "RESEND_S", 0.3)
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as held:
        tas.confirming = False
        call = await tas.dispatch(tas.invocation("pay_late", {}, effect_class="irreversible"))
        first = await tas.outcome(call, within_s=60)
        RELEASE.set()
        await eventually(lambda: held.count("towpath_worker_overrun") == 0, within_s=60)
        await tas.confirm(first.key)
        await eventually(lambda: tas.outcomes_of(call)[-1].late, within_s=60)
        await tas.confirm(first.key)  # it was sent more than once, and so it is confirmed
        await tas.call("add", {"a": 1, "b": 1})  # whatever was confirmed before this is forgotten by now
        found = len(tas.outcomes_of(call))
        await eventually(lambda: len(tas.outcomes_of(call)) >= found + 2, within_s=60)
        late = tas.outcomes_of(call)[-1]
        assert (late.key, late.status) == (f"{first.key}:late", "succeeded")
        await tas.confirm()
        await eventually(lambda: held.count("towpath_worker_unconfirmed") == 0, within_s=60)


async def test_a_worker_that_is_to_end_after_its_calls_says_so_at_once_and_when_they_have_ended(
    nats_server: Nats,
) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as place:
        running = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 1.0}, effect_class="idempotent"))
        await eventually(lambda: len(tas.claims) == 1)
        assert not any(beat.draining for beat in tas.beats)
        await place.worker.finish_calls()
        assert tas.outcomes_of(running) != []
        said = [(beat.draining, beat.in_flight, beat.idle, beat.ending) for beat in tas.beats]
        assert said[-1] == (True, 0, True, True) and (True, 1, False, False) in said

"""A request that a service took with it when it died is sent again, and the answer to any of its tries counts."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from nats.aio.msg import Msg
from tests.support.waiting import all_sent, eventually

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import PROBLEM_HEADER, REPEAT_HEADER, RpcMethod
from towpath_contracts.runs.views import ActionDone, GetRun
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_fabric.turns.fair_request_queue import FairQueueLimits

READ = RpcMethod("tester", "read", ActionDone, ActionDone, repeatable=True)
CHANGE = RpcMethod("tester", "change", ActionDone, ActionDone)
HOLD = RpcMethod("tester", "hold", GetRun, ActionDone, repeatable=True)
ASKED = ActionDone(detail="asked")


@pytest.fixture(autouse=True)
def own_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own subjects: the broker may still know the one before as a member of the queue group."""
    for name in ("READ", "CHANGE", "HOLD"):
        monkeypatch.setitem(globals(), name, globals()[name]._replace(service=f"tester_{uuid4().hex[:8]}"))


@pytest.fixture
async def asker(nats_server: Nats) -> AsyncIterator[Bus]:
    bus = Bus("asker", Settings.load(nats_url=nats_server.url()))
    await bus.connect()
    yield bus
    await bus.close()


@pytest.fixture
async def service(nats_server: Nats) -> AsyncIterator[Bus]:
    bus = Bus("tester", Settings.load(nats_url=nats_server.url()))
    await bus.connect()
    yield bus
    await bus.close()


class Responder:
    """Answers each try of a request as it is told: with a message, a problem, or not at all. The last is repeated."""

    def __init__(self, *answers: ActionDone | str | None) -> None:
        self.answers = answers
        self.received: list[Msg] = []

    async def on_request(self, message: Msg) -> None:
        self.received.append(message)
        answer = self.answers[min(len(self.received), len(self.answers)) - 1]
        if isinstance(answer, str):
            refusal = problem(answer, "just now").model_dump_json().encode()
            await message._client.publish(message.reply, refusal, headers={PROBLEM_HEADER: answer})
        elif answer is not None:
            await message.respond(answer.model_dump_json().encode())


async def serve(service: Bus, method: RpcMethod, *answers: ActionDone | str | None) -> Responder:
    responder = Responder(*answers)
    await service.subscribe(method.subject, responder.on_request, shared=True)
    await all_sent(service.nc)
    return responder


async def test_a_request_that_got_lost_is_sent_again_and_answered(asker: Bus, service: Bus) -> None:
    responder = await serve(service, READ, None, ActionDone(detail="second"))
    assert (await asker.request(READ, ASKED, timeout_s=12)).detail == "second"
    lost, answered = [int((one.headers or {}).get(REPEAT_HEADER, "1")) for one in responder.received]
    assert answered == lost + 1, "the first that the service received is a repetition where the broker had none to ask"
    assert len({(one.reply, one.data) for one in responder.received}) == 1


async def test_what_may_not_be_handled_twice_is_sent_once(asker: Bus, service: Bus) -> None:
    responder = await serve(service, CHANGE, None)
    with pytest.raises(ProblemError, match="unavailable"):
        await asker.request(CHANGE, ASKED, timeout_s=2.5)
    assert len(responder.received) == 1


async def test_a_silent_service_gets_four_tries_and_no_more(asker: Bus, service: Bus) -> None:
    responder = await serve(service, READ, None)
    with pytest.raises(ProblemError, match="unavailable"):
        await asker.request(READ, ASKED, timeout_s=5)
    assert len(responder.received) == 4


async def test_a_silence_that_was_asked_for_is_no_reason_for_another_try(asker: Bus, service: Bus) -> None:
    responder = await serve(service, HOLD, None)
    held = GetRun(project="p", run_id="00000000-0000-0000-0000-000000000001", wait_ms=3_000)
    with pytest.raises(ProblemError, match="unavailable"):
        await asker.request(HOLD, held, timeout_s=2)
    assert len(responder.received) == 1


@pytest.mark.parametrize("name", ["READ", "CHANGE"])
async def test_what_nobody_received_waits_for_a_service_that_comes_back(asker: Bus, service: Bus, name: str) -> None:
    method: RpcMethod = globals()[name]
    answer = asyncio.create_task(asker.request(method, ASKED))
    await asyncio.sleep(0.2)
    responder = await serve(service, method, ActionDone(detail="back"))
    assert (await answer).detail == "back"
    assert len(responder.received) == 1


async def test_nobody_is_waited_for_without_end(asker: Bus) -> None:
    with pytest.raises(ProblemError, match="unavailable"):
        async with asyncio.timeout(30):
            await asker.request(CHANGE, ASKED, timeout_s=60)


async def test_a_request_outlives_a_broker_that_is_away(asker: Bus, service: Bus, nats_server: Nats) -> None:
    responder = await serve(service, READ, None, ActionDone(detail="after it"))
    answer = asyncio.create_task(asker.request(READ, ASKED, timeout_s=20))
    await eventually(lambda: bool(responder.received))
    assert nats_server.process is not None
    nats_server.process.kill()
    nats_server.process.wait()
    await nats_server.start()
    assert (await answer).detail == "after it"


async def test_a_refusal_of_one_try_does_not_hide_that_another_was_accepted(asker: Bus, service: Bus) -> None:
    taken: list[Msg] = []

    async def accept_slowly(message: Msg) -> None:
        taken.append(message)
        if len(taken) == 1:
            return
        refusal = problem("overloaded", "just now").model_dump_json().encode()
        await service.publish(message.reply, refusal, {PROBLEM_HEADER: "overloaded"})
        await service.publish(taken[0].reply, ActionDone(detail="accepted").model_dump_json().encode())

    await service.subscribe(READ.subject, accept_slowly)
    await all_sent(service.nc)
    assert (await asker.request(READ, ASKED)).detail == "accepted"


async def test_a_lone_refusal_is_the_answer(asker: Bus, service: Bus) -> None:
    responder = await serve(service, READ, "overloaded")
    with pytest.raises(ProblemError, match="overloaded"):
        await asker.request(READ, ASKED)
    assert len(responder.received) == 1


async def test_the_refusal_of_a_repeat_says_nothing_of_the_try_that_got_lost(asker: Bus, service: Bus) -> None:
    await serve(service, READ, None, "overloaded")
    with pytest.raises(ProblemError, match="unavailable"):
        await asker.request(READ, ASKED, timeout_s=2)


async def test_why_a_service_can_not_answer_is_told_at_the_end_of_a_silence(asker: Bus, service: Bus) -> None:
    """What became of the try that got lost stays as open as after no answer at all."""
    await serve(service, READ, None, "unavailable")
    with pytest.raises(ProblemError) as caught:
        await asker.request(READ, ASKED, timeout_s=2)
    assert "no answer" not in caught.value.problem.detail


async def test_a_service_that_still_works_on_a_request_does_not_begin_it_again(asker: Bus, service: Bus) -> None:
    begun: list[str] = []

    async def answer_slowly(request: ActionDone) -> ActionDone:
        begun.append(request.detail)
        await asyncio.sleep(2)
        return ActionDone(detail=f"{request.detail} once")

    service.subscriber(READ)(answer_slowly)
    await service.broker.start()
    answers = await asyncio.gather(*(asker.request(READ, ActionDone(detail=str(n)), timeout_s=9) for n in range(5)))
    assert [one.detail for one in answers] == [f"{n} once" for n in range(5)]
    assert sorted(begun) == ["0", "1", "2", "3", "4"]


async def test_a_request_that_waits_for_its_turn_has_one_place_in_the_queue(asker: Bus, service: Bus) -> None:
    begun: list[str] = []

    async def answer_slowly(request: ActionDone, _caller: str) -> ActionDone:
        begun.append(request.detail)
        await asyncio.sleep(0.6)
        return request

    limits = FairQueueLimits(
        caller_of=lambda subject: subject,
        max_waiting=4,
        max_share=1,
        max_concurrent=1,
        max_concurrent_of=lambda _caller: 1,
    )
    stop = await service.subscribe_fairly((READ.subject,), answer_slowly, limits)
    answers = await asyncio.gather(*(asker.request(READ, ActionDone(detail=str(n)), timeout_s=12) for n in range(5)))
    assert [one.detail for one in answers] == ["0", "1", "2", "3", "4"]
    assert begun == ["0", "1", "2", "3", "4"]
    await stop()

"""Outcomes that TAS can't read: stored as dead letters, and confirmed, so that their worker does not send for ever."""

import json
import uuid
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from tests.chaos.messages.hostile_messages import BODIES
from tests.support.tas.tas_caller import query
from tests.support.tas.tas_running import Running, shared_tas, tas
from tests.support.waiting import all_sent

from towpath_contracts import rpc, subjects
from towpath_contracts.strict_json import check_json

__all__ = ["shared_tas", "tas"]


async def test_an_unreadable_outcome_that_names_its_call_is_confirmed_once_it_is_stored(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    named = {"execution_id": str(invocation.execution_id), "attempt": invocation.attempt}
    vouched = {"run_id": str(invocation.run_id), "ticket": invocation.ticket}
    await send(tas, {**named, **vouched, "status": "happy"})
    await caller.confirmation(f"{invocation.execution_id}:1")
    assert await dead_letters(tas, str(invocation.execution_id)) == 1
    await caller.confirmation(await caller.report(invocation), times=2)


async def test_only_what_can_be_named_is_confirmed_and_only_where_its_worker_may_listen(tas: Running) -> None:
    """Not where a service waits for an answer: one that a worker has this service send may be taken for it."""
    caller = tas.caller
    invocation = await caller.call("orders.find")
    await send(tas, {"execution_id": str(invocation.execution_id), "status": "happy"})
    await send(tas, {"execution_id": "no id", "attempt": 1, "run_id": str(invocation.run_id)})
    overheard: list[bytes] = []
    places = ("elsewhere", "_INBOX.orchestrator", "_INBOX_orchestrator.a.1", "tool.confirm.default.orders.w1.x")
    listening = [await caller.nc.subscribe(place, cb=_keep(overheard)) for place in places]
    await all_sent(caller.nc)
    named = {"execution_id": str(invocation.execution_id), "run_id": str(invocation.run_id)}
    for place in places:
        await send(tas, {**named, "attempt": 7}, confirm_to=place)
        await send(tas, {**named, "attempt": 1, "ticket": invocation.ticket}, confirm_to=place)
    await caller.quiet("TOOLOUT")
    await caller.confirmation(await caller.report(invocation))
    await all_sent(caller.nc)
    assert (caller.confirmed, overheard) == ([f"{invocation.execution_id}:1"], [])
    for subscription in listening:
        await subscription.unsubscribe()


async def test_a_result_that_is_nested_too_deep_fails_its_call_once_and_is_not_sent_for_ever(tas: Running) -> None:
    """The fact of such a result was refused by the run's inbox, and made again at each question until the run's end."""
    caller = tas.caller
    for levels, padding in ((49, 0), (64, 0), (190, 0), (190, 8_000), (48, 0)):
        call = await caller.call("orders.find")
        result: object = "x" * padding
        for _ in range(levels):
            result = [result]
        await caller.confirmation(await caller.report(call, result=result))
        fact = await caller.fact(call, "tool.finished")
        assert check_json(json.dumps(fact).encode()) is None, "its run takes it"
        if levels > 48:
            assert (fact["status"], fact["result"], fact["failure"]["code"]) == ("failed", None, "result_too_deep")
        else:
            assert (fact["status"], fact["result"]) == ("succeeded", result)


async def test_no_request_stops_the_service_whatever_it_says_of_itself(tas: Running) -> None:
    """Every body of the hostile corpus, then some that name what no column can hold: calls go on."""
    js = tas.caller.nc.jetstream()
    named = {"run_id": str(uuid.uuid4()), "execution_id": str(uuid.uuid4())}
    odd: list[dict[str, object]] = [{**named, "attempt": 10**40}, {**named, "attempt": -1, "project": "a\0b"}]
    bodies = [*BODIES, *(json.dumps(body).encode() for body in odd)]
    for subject in (subjects.TOOL_REQUEST, subjects.TOOL_OUTCOME):
        for body in bodies:
            await js.publish(subject, body, timeout=60)
    await tas.caller.confirmation(await tas.caller.report(await tas.caller.call("orders.find")))
    found = await query(
        tas.dsn, "SELECT stream, project FROM runs.dead_letter WHERE position($1::bytea IN body) > 0", rb'a\u0000b"}'
    )
    assert {letter["stream"] for letter in found} == {"TOOLREQ", "TOOLOUT"}
    assert {letter["project"] for letter in found} == {None}


async def test_an_unreadable_outcome_is_its_projects_only_where_it_has_the_ticket_of_the_call(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    named = {"run_id": str(invocation.run_id), "execution_id": str(invocation.execution_id), "attempt": 1}
    mine = {**named, "ticket": invocation.ticket}
    strange = {**mine, "execution_id": str(uuid.uuid4()), "attempt": 2}
    for body in (mine, named, strange):
        await send(tas, {**body, "status": "happy", "project": "other"})
    await caller.quiet("TOOLOUT")
    assert caller.confirmed == [f"{invocation.execution_id}:1"], "nothing vouches for the others"
    kept = await query(
        tas.dsn,
        "SELECT run_id, project FROM runs.dead_letter WHERE stream = 'TOOLOUT' AND position($1::bytea IN body) > 0"
        " ORDER BY dead_letter_id",
        str(invocation.run_id).encode(),
    )
    found = [(letter["run_id"], letter["project"]) for letter in kept]
    assert found == [(invocation.run_id, invocation.project), (None, None), (None, None)]


async def send(tas: Running, body: dict[str, object], confirm_to: str = "") -> None:
    headers = {rpc.CONFIRM_HEADER: confirm_to or tas.caller.inbox}
    js = tas.caller.nc.jetstream()
    await js.publish(subjects.TOOL_OUTCOME, json.dumps(body).encode(), timeout=60, headers=headers)


async def dead_letters(tas: Running, words: str) -> int:
    found = await query(
        tas.dsn,
        "SELECT count(*) AS n FROM runs.dead_letter WHERE stream = 'TOOLOUT' AND position($1::bytea IN body) > 0",
        words.encode(),
    )
    return int(found[0]["n"])


def _keep(into: list[bytes]) -> Callable[[Msg], Awaitable[None]]:
    async def keep(message: Msg) -> None:
        into.append(message.data)

    return keep

"""What comes of a call: results, failures, arguments, limits, logs, hooks."""

import asyncio
import json
import time
import uuid
from collections import Counter

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import all_sent, eventually
from tests.support.worker import worker_tools
from tests.support.worker.running_worker import serving
from tests.support.worker.worker_tools import CALLS, RUNNING

from towpath.hooks import HookEvent, hook
from towpath_contracts.canonical import digest, digest_text
from towpath_contracts.tools.calls import INLINE_RESULT_BYTES, MAX_RESULT_BYTES
from towpath_embedded.servers.nats import Nats


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    RUNNING.update(now=0, most=0)
    worker_tools.RELEASE.clear()


async def test_a_result_comes_back_as_json_with_its_digest(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        outcome = await tas.call("add", {"a": 1, "b": 2})
        assert (outcome.status, outcome.result) == ("succeeded", {"total": 3})
        assert outcome.result_digest == digest({"total": 3})
        assert outcome.result_bytes == len('{"total":3}')
        assert (outcome.worker, outcome.tool, outcome.claim_id) == ("worker-1", "add", None)
        await tas.all_acknowledged()


async def test_a_plain_function_runs_in_a_thread(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        assert (await tas.call("add_slowly", {"a": 1, "b": 2})).result == 3
        assert CALLS[0].startswith("tool")


async def test_a_tool_that_is_not_pure_is_claimed_before_it_runs(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        outcome = await tas.call("pay", {"amount": 5}, effect_class="irreversible")
        (claim,) = tas.claims
        assert (claim.execution_id, claim.claim_id) == (outcome.execution_id, outcome.claim_id)
        assert claim.ticket == outcome.ticket
        assert outcome.result == {"paid": 5, "key": str(outcome.execution_id), "attempt": 1}


async def test_every_toolset_of_a_worker_is_registered_and_served(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        outcome = await tas.call("elsewhere", {"who": "me"}, toolset="second")
        assert outcome.result == "me"
        assert {one.toolset for one in tas.registered} == {"default", "second"}
        (spec,) = next(one for one in tas.registered if one.toolset == "second").tools
        assert spec.system_params == ("who",)


async def test_a_tool_is_told_whose_call_it_is(nats_server: Nats) -> None:
    run, args = uuid.uuid4(), {"desk": "till", "topic": "tea"}
    known = {"network": "shop", "agent_key": "clerk", "caller": "ada", "labels": {"team": "blue"}, "later": [1.5]}
    below = known | {"root_run_id": str(uuid.uuid4()), "system_params": ["desk", "gone"]}
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        told = {"network": "shop", "agent": "clerk", "caller": "ada", "labels": {"team": "blue"}}
        result = (await tas.call("tell", args, run_id=run, run=known)).result
        assert result == {**told, "root": str(run), "system": {}}
        result = (await tas.call("tell", args, run_id=run, run=below)).result
        assert result == {**told, "root": below["root_run_id"], "system": {"desk": "till"}}
        nothing = {"network": "", "agent": "", "caller": "", "labels": {}, "root": str(run), "system": {}}
        assert (await tas.call("tell", args, run_id=run)).result == nothing, "an older service says none of it"


async def test_arguments_that_do_not_fit_are_a_failure_and_nothing_runs(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        outcome = await tas.call("add", {"a": "one", "c": 3})
        assert outcome.failure is not None
        assert outcome.failure.code == "invalid_arguments"
        for place in ("a: ", "b is missing", "c: "):
            assert place in outcome.failure.message
        assert CALLS == []


@pytest.mark.parametrize(
    ("kind", "code", "message", "external"),
    [
        ("exit", "tool_exception", "SystemExit: 3", False),
        ("stop_iteration", "tool_exception", "StopIteration", False),
        ("connection", "tool_exception", "ConnectionRefusedError: nobody there", True),
        ("cancelled", "tool_exception", "CancelledError", False),
        ("timeout", "tool_exception", "TimeoutError: its own", True),
        ("nan", "result_invalid", "not JSON", False),
        ("object", "result_invalid", "not JSON", False),
        ("loop", "result_invalid", "not JSON", False),
        ("x", "tool_exception", "ValueError: secret x", False),
    ],
)
async def test_whatever_a_tool_raises_or_returns_is_an_outcome(
    nats_server: Nats, kind: str, code: str, message: str, external: bool
) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        failure = (await tas.call("fail", {"kind": kind})).failure
        assert failure is not None
        assert (failure.code, failure.external) == (code, external)
        assert message in failure.message
        assert "Traceback" not in failure.message
        assert failure.place.startswith("worker_tools.py:" if code == "tool_exception" else "")
        assert (await tas.call("add", {"a": 1, "b": 1})).status == "succeeded"


@pytest.mark.parametrize("kind", ["not_started", "code_cancelled", "invalid_arguments"])
async def test_whether_a_call_began_is_not_for_its_tool_to_say(nats_server: Nats, kind: str) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        found = (await tas.call("fail", {"kind": kind})).failure
        assert found is not None and (found.code, found.began) == (kind.removeprefix("code_"), True)
        never = (await tas.call("fail", {})).failure
        assert never is not None and (never.code, never.began) == ("invalid_arguments", False)


async def test_a_tool_error_keeps_what_it_says(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        failure = (await tas.call("fail", {"kind": "tool_error"})).failure
        assert failure is not None
        assert failure.model_dump() == {
            "code": "order_unknown",
            "message": "No order 7",
            "retryable": True,
            "hint": "Search first",
            "external": True,
            "uncertain": False,
            "began": True,
            "place": "",
        }


@pytest.mark.parametrize("kind", ["stop_iteration", "exit"])
async def test_what_a_thread_raises_is_an_outcome_too(nats_server: Nats, kind: str) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        failure = (await tas.call("fail_in_a_thread", {"kind": kind})).failure
        assert failure is not None
        assert failure.code == "tool_exception"
        assert failure.place.startswith("worker_tools.py:")


async def test_a_large_result_is_stored_in_pieces_and_named_by_its_digest(nats_server: Nats) -> None:
    size = 600_000
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        outcome = await tas.call("large", {"size": size})
        whole = b"".join(part for _, part in sorted(tas.blobs[outcome.result_digest or ""].items()))
        assert whole == json.dumps("x" * size).encode()
        assert digest_text(whole) == outcome.result_digest
        assert (outcome.blob, outcome.result, outcome.result_bytes) == (True, None, size + 2)


async def test_a_result_at_the_limit_travels_inline_and_one_byte_more_does_not(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        assert not (await tas.call("large", {"size": INLINE_RESULT_BYTES - 2})).blob
        assert (await tas.call("large", {"size": INLINE_RESULT_BYTES - 1})).blob


async def test_a_result_over_the_limit_is_a_failure(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        failure = (await tas.call("large", {"size": MAX_RESULT_BYTES})).failure
        assert failure is not None
        assert failure.code == "result_too_large"
        assert tas.blobs == {}


@pytest.mark.parametrize("name", ["hang", "hang_in_a_thread"])
async def test_a_call_that_does_not_end_in_time_is_a_timeout(nats_server: Nats, name: str) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        began = time.monotonic()
        failure = (await tas.call(name)).failure
        assert failure is not None
        assert (failure.code, failure.retryable) == ("tool_timeout", True)
        assert time.monotonic() - began < 20  # by themselves the tools take half a minute and more
        worker_tools.RELEASE.set()


async def test_a_timeout_of_what_cannot_be_undone_warns_against_a_repeat(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        failure = (await tas.call("pay_and_hang", effect_class="irreversible")).failure
        assert failure is not None
        assert (failure.code, failure.retryable) == ("tool_timeout", False)
        assert "may have happened" in failure.hint


async def test_a_thread_that_runs_over_keeps_its_slot_until_it_ends(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), concurrency=1) as held:
        await tas.call("hang_in_a_thread")
        assert held.worker.overrun
        with pytest.raises(RuntimeError, match="every slot"):
            await held.worker.ready()
        next_call = await tas.dispatch(tas.invocation("add", {"a": 1, "b": 1}))
        await asyncio.sleep(0.5)
        assert tas.outcomes_of(next_call) == []
        worker_tools.RELEASE.set()
        assert (await tas.outcome(next_call)).status == "succeeded"
        await held.worker.ready()


async def test_an_async_tool_that_ignores_its_end_is_reported_as_timed_out(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        call = await tas.dispatch(tas.invocation("ignore_the_end", {}))
        failure = (await tas.outcome(call)).failure
        assert failure is not None
        assert failure.code == "tool_timeout"
        await asyncio.sleep(2)  # it ends now, and says "late"
        assert {one.status for one in tas.outcomes_of(call)} == {"failed"}


async def test_no_more_calls_run_at_once_than_allowed(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), concurrency=3):
        calls = [await tas.dispatch(tas.invocation("crowd", {"seconds": 0.05})) for _ in range(20)]
        for call in calls:
            await tas.outcome(call)
        assert RUNNING["most"] == 3
        await tas.all_acknowledged()


async def test_f5_a_full_worker_leaves_the_rest_to_others(nats_server: Nats) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas, serving(url, concurrency=2) as full:
        calls = [await tas.dispatch(tas.invocation("hold", {})) for _ in range(2)]
        await eventually(lambda: RUNNING["now"] == 2)
        more = [await tas.dispatch(tas.invocation("add", {"a": 1, "b": n})) for n in range(4)]
        async with serving(url, name="worker-2"):
            for call in more:
                assert (await tas.outcome(call)).worker == "worker-2"
        worker_tools.RELEASE.set()
        for call in calls:
            assert (await tas.outcome(call)).worker == "worker-1"
        assert full.count("towpath_worker_outcomes_total", tool="hold", status="succeeded") == 2
        measured = {"gen_ai_tool_name": "hold", "gen_ai_tool_type": "function", "error_type": ""}
        assert full.count("gen_ai_execute_tool_duration_seconds_count", **measured) == 2


async def test_f5_workers_that_are_started_while_it_runs_share_the_calls(nats_server: Nats) -> None:
    """Row F5: a toolset is scaled by starting workers, and by nothing else."""
    url = nats_server.url()

    async def shares(calls: int) -> Counter[str]:
        sent = [await tas.dispatch(tas.invocation("crowd", {"seconds": 0.3})) for _ in range(calls)]
        return Counter([(await tas.outcome(call)).worker for call in sent])

    async with TasPeer(url) as tas, serving(url, concurrency=1):
        assert await shares(3) == {"worker-1": 3}
        async with serving(url, name="worker-2", concurrency=1), serving(url, name="worker-3", concurrency=1):
            together = await shares(9)
        assert together.keys() == {"worker-1", "worker-2", "worker-3"}
        assert max(together.values()) <= 5, "nobody took what another could have begun"


async def test_a_cancelled_async_call_stops_and_says_so(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        call = await tas.dispatch(tas.invocation("pay_slowly", {"seconds": 30}, effect_class="idempotent"))
        await eventually(lambda: CALLS != [])
        await tas.cancel(call, "the run was cancelled")
        failure = (await tas.outcome(call)).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("cancelled", "the run was cancelled")
        await tas.all_acknowledged()


async def test_a_cancelled_plain_call_sees_it_in_its_context(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        call = await tas.dispatch(tas.invocation("look_at_the_stop", {}))
        await eventually(lambda: CALLS != [])
        await tas.cancel(call)
        failure = (await tas.outcome(call)).failure
        assert failure is not None
        assert failure.code == "stopped"


async def test_what_a_tool_logs_is_reported_and_never_harms_it(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()):
        found = await tas.nc.subscribe("log.tool.default.default")
        await all_sent(tas.nc)
        outcome = await tas.call("talk", {"text": "hello"})
        assert outcome.status == "succeeded"
        line = json.loads((await found.next_msg(timeout=60)).data)
        assert (line["level"], line["message"], line["tool"]) == ("warning", "hello", "talk")
        assert line["execution_id"] == str(outcome.execution_id)
        assert line["fields"]["number"] == 1


async def test_hooks_get_every_call_and_a_failing_one_is_contained(nats_server: Nats) -> None:
    listed: list[str] = []

    @hook("pre_tool_call")
    async def before(event: HookEvent) -> None:
        listed.append(f"before {event.tool}")

    @hook("pre_tool_call")
    def broken(event: HookEvent) -> None:
        raise RuntimeError("a hook of the user's")

    @hook("post_tool_call")
    def after(event: HookEvent) -> None:
        listed.append(f"after {event.tool} {event.status}")

    @hook("error")
    async def failed(event: HookEvent) -> None:
        listed.append(f"error {event.failure.code if event.failure else ''}")

    @hook("start")
    async def started(event: HookEvent) -> None:
        listed.append(f"start {event.worker}")

    @hook("finished")
    async def finished(event: HookEvent) -> None:
        listed.append("finished")

    hooks = (before, broken, after, failed, started, finished)
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), hooks=hooks) as held:
        assert (await tas.call("add", {"a": 1, "b": 2})).status == "succeeded"
        assert (await tas.call("fail", {"kind": "tool_error"})).status == "failed"
        assert held.count("towpath_worker_hook_failures_total", event="pre_tool_call") == 2
    assert listed == [
        "start worker-1",
        "before add",
        "after add succeeded",
        "before fail",
        "error order_unknown",
        "after fail failed",
        "finished",
    ]


async def test_a_hook_hears_of_the_end_of_a_run_that_used_a_tool(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath_worker.app.heartbeats.BEAT_S", 0.1)
    ended: list[uuid.UUID | None] = []

    @hook("run_finished")
    def release(event: HookEvent) -> None:
        ended.append(event.run_id)

    used, root, refused = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), hooks=(release,)):
        tas.ended_runs = {used, refused}
        await tas.call("add", {"a": 1, "b": "x"}, run_id=refused)  # no tool ran
        await tas.call("add", {"a": 1, "b": 2}, run_id=used, run={"root_run_id": str(root)})
        await eventually(lambda: ended == [used])
        tas.ended_runs = {used, root}
        await eventually(lambda: ended == [used, root])


async def test_hooks_hear_before_a_worker_stops_of_what_is_known_to_have_ended(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath_worker.app.heartbeats.BEAT_S", 0.1)
    began: list[uuid.UUID | None] = []
    ended: list[uuid.UUID | None] = []

    @hook("run_finished")
    async def release(event: HookEvent) -> None:
        began.append(event.run_id)
        await asyncio.sleep(0.3)
        ended.append(event.run_id)

    used, root = uuid.uuid4(), uuid.uuid4()
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), hooks=(release,), drain_s=10.0):
        await tas.call("add", {"a": 1, "b": 2}, run_id=used, run={"root_run_id": str(root)})
        tas.ended_runs = {used, root}
        await eventually(lambda: began != [])
    assert ended == [root, used]


async def test_a_drained_worker_ends_what_it_has_and_takes_nothing_new_also_after_the_broker_was_away(
    nats_server: Nats,
) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url()) as place:
        running = await tas.dispatch(tas.invocation("crowd", {"seconds": 1.0}))
        await eventually(lambda: RUNNING["now"] == 1)
        await place.worker.take_no_more()
        later = await tas.dispatch(tas.invocation("add", {"a": 1, "b": 2}))
        assert (await tas.outcome(running)).status == "succeeded"
        await nats_server.stop()
        await nats_server.start()
        await eventually(lambda: place.bus.nc.is_connected and tas.nc.is_connected)
        await asyncio.sleep(1.5)  # a consumer looks whether its request was lost once a second
        assert tas.outcomes_of(later) == []
        async with serving(nats_server.url(), name="worker-2"):
            assert (await tas.outcome(later)).worker == "worker-2"

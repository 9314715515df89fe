"""Who may know what other agents have answered, in children and threads: whoever may know what these had read."""

import uuid
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.tas.provenance.test_answers_in_logs import below, finished, logged
from tests.integration.tas.provenance.test_conversations import document
from tests.integration.tas.provenance.test_provenance import begun, returned
from tests.integration.tas.provenance.test_readers import ANN, EVE, LOOSE, SECRET, STRICT, TASK, ruled, sends
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts.events.child_events import ChildEnded, ChildStarted
from towpath_contracts.runs.children import ChildTask
from towpath_tas.app.calls import value_origins
from towpath_tas.core.provenance.text_readers import NOBODY

__all__ = ["shared_tas", "tas"]

OWN = "The weather will be fine all week long"
POLICIES = pytest.mark.parametrize("policy", [STRICT, LOOSE], ids=["strict", "loose"])


async def ended(
    tas: Running, run_id: UUID, child: UUID, answer: str = f"It says: {SECRET}. {OWN}.", step: int = 1
) -> None:
    """Write into the log of a run that its *child*, a specialist, has answered."""
    task = ChildTask(agent_key="expert", user_message="Look it up.", purpose="specialist")
    end = ChildEnded(child_id=child, step=step, index=0, status="completed", final={"said": answer})
    await logged(tas, run_id, ChildStarted(child_id=child, step=step, index=0, task=task), end)


async def asking(tas: Running, **more: Any) -> UUID:
    """Begin a run whose child has read what two may know, and has answered."""
    run_id = await begun(tas, TASK, **more)
    child = await begun(tas, "Look it up.", **below(run_id, 1))
    await returned(tas, child, "orders.plans", {"text": SECRET})
    await ended(tas, run_id, child)
    return run_id


@POLICIES
async def test_what_a_child_has_read_keeps_its_readers_in_its_answer(tas: Running, policy: str) -> None:
    await ruled(tas, policy)
    run_id = await asking(tas)
    assert await sends(tas, run_id, f"Hello. {SECRET}, they say", EVE, ANN) == [False, True]
    assert await sends(tas, run_id, OWN, EVE) == [True], "the child's own words"


async def test_so_it_does_where_a_call_was_answered_and_from_two_levels_below(tas: Running) -> None:
    await ruled(tas)
    run_id, call = await begun(tas, TASK), uuid.uuid4()
    child = await begun(tas, "Look it up.", **below(run_id, 1))
    grandchild = await begun(tas, "Look it up.", **below(child, 1))
    await returned(tas, grandchild, "orders.plans", {"text": SECRET})
    await returned(tas, grandchild, "orders.notes", {"text": "Nobody has said who may know that note"}, step=2)
    await ended(tas, child, grandchild)
    task = ChildTask(agent_key="expert", user_message="Look it up.", execution_id=call)
    end = ChildEnded(child_id=child, step=1, index=0, status="completed", final={"said": SECRET})
    outcome = finished({"said": f"{SECRET}. {OWN}"}, tool="delegate_to_ann", execution_id=call)
    await logged(tas, run_id, ChildStarted(child_id=child, step=1, index=0, task=task), end, outcome)
    assert await sends(tas, run_id, SECRET, EVE, ANN) == [False, True]
    assert await sends(tas, run_id, OWN, EVE) == [True]
    assert await sends(tas, run_id, "Nobody has said who may know that note", ANN) == [False]


@POLICIES
async def test_in_a_thread_a_record_goes_to_its_readers_and_to_nobody_else(tas: Running, policy: str) -> None:
    await ruled(tas, policy)
    first = await begun(tas, TASK)
    await returned(tas, first, "orders.plans", {"text": SECRET})
    turns = [{"role": "assistant", "content": f"It says: {SECRET}. {OWN}.", "run_id": str(first)}]
    thread = {"run_id": str(first), "thread_id": str(first), "summary": "The keeper of the lock is called Marlowe"}
    second = await begun(tas, TASK, messages=turns, continues=thread)
    child = await begun(tas, "Send it.", messages=turns, continues=thread, **below(second, 1))
    for run_id in (second, child):
        assert await sends(tas, run_id, SECRET, EVE, ANN) == [False, True]
        assert await sends(tas, run_id, f"It says: {SECRET}.", EVE, ANN) == [False, True]
        for own in (OWN, "The keeper of the lock is called Marlowe"):
            assert await sends(tas, run_id, own, EVE) == [True]


@POLICIES
async def test_a_thread_knows_what_children_of_its_runs_have_read(tas: Running, policy: str) -> None:
    await ruled(tas, policy)
    first = await asking(tas)
    turns = [{"role": "assistant", "content": SECRET, "run_id": str(first)}]
    second = await begun(tas, TASK, messages=turns, continues={"run_id": str(first), "thread_id": str(first)})
    assert await sends(tas, second, SECRET, EVE, ANN) == [False, True]


async def test_a_child_that_was_not_read_leaves_what_a_thread_answered_before_it_known(tas: Running) -> None:
    await ruled(tas)
    earlier, later, own = "The harbour opens at seven in the morning", f"They say: {SECRET}", "It is lit all night long"
    first = await begun(tas, TASK)
    turns = [{"role": "assistant", "content": earlier, "run_id": str(first)}]
    second = await begun(tas, TASK, messages=turns, continues={"run_id": str(first), "thread_id": str(first)})
    strange = await begun(tas, "Look it up.", project="somebody-elses")
    await ended(tas, second, strange, SECRET)
    turns += [{"role": "assistant", "content": text, "run_id": str(second)} for text in (later, own)]
    thread = {"run_id": str(second), "thread_id": str(first)}
    third = await begun(tas, TASK, messages=turns, continues=thread)
    child = await begun(tas, "Send it.", messages=turns, continues=thread, **below(third, 1))
    for run_id in (third, child):
        assert await sends(tas, run_id, earlier, EVE) == [True]
        assert [await sends(tas, run_id, text, ANN) for text in (SECRET, later, own)] == [[False]] * 3
    thread["summary"] = "The keeper of the lock is called Marlowe"
    summed = await begun(tas, TASK, messages=turns, continues=thread)
    assert await sends(tas, summed, "The keeper of the lock is called Marlowe", EVE) == [False]


async def test_answers_that_a_caller_brings_and_summaries_with_them_are_undeclared(tas: Running) -> None:
    await ruled(tas)
    first = await begun(tas, TASK, messages=[{"role": "assistant", "content": OWN}])
    thread = {"run_id": str(first), "thread_id": str(first), "summary": "The keeper of the lock is called Marlowe"}
    turns = [{"role": "assistant", "content": "It is lit at seven in the evening", "run_id": str(first)}]
    second = await begun(tas, TASK, messages=turns, continues=thread)
    assert await sends(tas, first, OWN, ANN) == [False]
    assert await sends(tas, second, "The keeper of the lock is called Marlowe", ANN) == [False]
    assert await sends(tas, second, "It is lit at seven in the evening", EVE) == [True]


async def replies(tas: Running, first: UUID, answer: str, times: int = 1, **summed: str) -> UUID:
    """Begin a run behind *first* in its thread, which is shown no file of it, and return the last one."""
    run_id, turns = first, [{"role": "assistant", "content": answer, "run_id": str(first)}]
    for _ in range(times):
        thread = {"run_id": str(run_id), "thread_id": str(first), **summed}
        run_id = await begun(tas, TASK, messages=turns, continues=thread)
        turns = [{"role": "assistant", "content": answer, "run_id": str(run_id)}]
    return run_id


@POLICIES
@pytest.mark.parametrize("times", [1, 2])
async def test_nobody_may_know_what_was_answered_in_a_thread_after_a_file_that_nobody_here_reads(
    tas: Running, policy: str, times: int
) -> None:
    await ruled(tas, policy)
    report = {"name": "plan.pdf", "media_type": "application/pdf", "digest": "sha256:1", "size": 12}
    first = await begun(tas, TASK, attachments=[report])
    assert await sends(tas, first, SECRET, ANN) == [False], "it may stand in the file"
    last = await replies(tas, first, f"It says: {SECRET}.", times, summary="The keeper of the lock is called Marlowe")
    for told in (SECRET, "The keeper of the lock is called Marlowe"):
        assert await sends(tas, last, told, EVE, ANN) == [False, False]
    assert await sends(tas, last, "This it says in its own words", EVE) == [True]
    child = await begun(
        tas, "Send it.", messages=[{"role": "assistant", "content": SECRET, "run_id": str(first)}], **below(last, 1)
    )
    assert await sends(tas, child, SECRET, EVE) == [False]


async def test_what_was_answered_about_a_text_that_a_thread_no_longer_has_is_undeclared(tas: Running) -> None:
    await ruled(tas)
    letter = await document(tas, SECRET.encode(), "text/plain")
    for given in ({"attachments": [letter]}, {"quoted_inputs": {"letter": SECRET}}):
        first = await begun(tas, TASK, **given)
        assert await sends(tas, first, SECRET, ANN) == [False], "nobody has said who may know it"
        assert await sends(tas, await replies(tas, first, SECRET, 2), SECRET, ANN) == [False]
        thread = {"continues": {"run_id": str(first), "thread_id": str(first)}}
        turns = [{"role": "assistant", "content": OWN, "run_id": str(first)}]
        assert await sends(tas, await begun(tas, TASK, messages=turns, **thread, **given), OWN, EVE) == [True]
    await ruled(tas, LOOSE)
    first = await begun(tas, TASK, quoted_inputs={"letter": SECRET})
    assert await sends(tas, await replies(tas, first, SECRET), SECRET, EVE) == [True], "and nobody has restricted it"


@POLICIES
async def test_a_step_of_a_plan_knows_who_may_know_what_earlier_steps_have_answered(tas: Running, policy: str) -> None:
    await ruled(tas, policy)
    whole = await begun(tas, TASK, kind="plan")
    look = await begun(tas, "Look it up.", **below(whole, 1))
    await returned(tas, look, "orders.plans", {"text": SECRET})
    await ended(tas, whole, look)
    send = await begun(tas, f"{TASK}. {SECRET}. {OWN}.", **below(whole, 2))
    assert await sends(tas, send, SECRET, EVE, ANN) == [False, True]
    assert await sends(tas, send, OWN, EVE) == [True]
    beside = await begun(tas, TASK, **below(whole, 1))
    assert await sends(tas, beside, SECRET, EVE) == [True], "what it was not given, it made up"
    fork = await begun(tas, TASK, kind="plan", forked_from={"run_id": str(whole), "step": 2})
    again = await begun(tas, f"{TASK}. {SECRET}. {OWN}.", **below(fork, 2))
    assert await sends(tas, again, SECRET, EVE, ANN) == [False, True], "its plan begins with what the step has answered"
    assert await sends(tas, again, OWN, EVE) == [True]


async def test_what_a_child_answered_that_was_not_read_may_be_known_to_nobody(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ruled(tas, LOOSE)
    strange = await begun(tas, "Look it up.", project="somebody-elses")
    run_id = await begun(tas, TASK)
    await ended(tas, run_id, strange)
    assert await sends(tas, run_id, SECRET, ANN) == [False]
    half = await begun(tas, "Look it up.", **below(run_id, 1))
    await returned(tas, half, "orders.notes", None, blob=True, result_digest=f"sha256:{uuid.uuid4().hex * 2}")
    for level in (half, await begun(tas, "Have it looked up.", **below(run_id, 1))):
        if level != half:
            await ended(tas, level, half)
        run_id = await begun(tas, TASK)
        await ended(tas, run_id, level, f"All is well in the harbour today {level == half}")
        assert await sends(tas, run_id, "All is well in the harbour today", ANN) == [False], "not all of it is there"
    monkeypatch.setattr(value_origins, "MAX_BELOW", 0)
    full = await asking(tas)
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        known = await value_origins.RunProvenanceCache().of(pool, {full: tas.caller.project}, {full})
    assert [one.readers for one in known[full].texts] == [NOBODY], "the answer alone"


async def test_children_that_take_long_are_read_at_several_tries(tas: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    await ruled(tas)
    run_id = await begun(tas, TASK)
    for number in range(3):
        child = await begun(tas, "Look it up.", **below(run_id, number + 1))
        for step in range(1, 4):
            texts = ["long words " * 20_000, f"The plan {number} {step} is for nobody else"]
            await returned(tas, child, "orders.plans", {"texts": texts}, step=step)
        await ended(tas, run_id, child, "Done.", step=number + 1)
    monkeypatch.setattr(value_origins, "PASS_S", 0.001)
    monkeypatch.setattr(value_origins, "LEAST_S", 0.001)
    passes, cache = 0, value_origins.RunProvenanceCache()
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        while not (known := await cache.of(pool, {run_id: tas.caller.project}, {run_id})):
            passes += 1
    assert passes > 2 and len(known[run_id].texts) == 12, "nine of the plans, and three answers"
    for number, step in ((0, 1), (2, 3)):
        assert await sends(tas, run_id, f"The plan {number} {step} is for nobody else", EVE, ANN) == [False, True]

"""What a run takes over from the one that it continues: turns within bounds, rights that only narrow, files."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.engine.plan_machine import NETWORK

from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.earlier_turns import FIRST_TURNS, MAX_TURNS, EarlierTurn
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.grants import MAX_CHAIN, GrantChainTooLongError, grant_chain, narrow
from towpath_contracts.tools.previews import text_bytes
from towpath_contracts.tools.workspace import MAX_FILES, FileEntry
from towpath_orchestrator.core.tasks import MAX_CREATED_BYTES, check_task, created_event, size_problem
from towpath_orchestrator.core.threads import (
    LEAST_ROOM,
    EarlierRun,
    answer_of,
    completed_task,
    continuing_run,
    file_problem,
    fit_turns,
    turns_after,
    why_not_continued,
)
from towpath_orchestrator.settings import OrchestratorSettings

RUN, THREAD = uuid.uuid4(), uuid.uuid4()
READ, WRITE = {"tool": "crm.read"}, {"tool": "crm.*"}


def task(message: str = "And then?", **more: Any) -> SubmitTask:
    return SubmitTask.model_validate({"network": "desk", "user_message": message, **more})


def created(given: SubmitTask) -> RunCreated:
    version = NetworkVersion(
        project="default", name="desk", version=1, digest="sha256:00", published_at=datetime.now(UTC), published_by="me"
    )
    return created_event(given, version, NETWORK, "me", None).model_copy(update={"network": "desk"})


def earlier(given: SubmitTask | None = None, **more: Any) -> EarlierRun:
    fields = {"status": "completed", "reason": "responded", "final": {"message": "It is lit."}, **more}
    return EarlierRun(run_id=RUN, thread_id=THREAD, task=created(given or task("Is the lamp lit?")), **fields)


def continued(asked: SubmitTask, before: EarlierRun) -> RunCreated:
    whole = completed_task(asked, before)
    return continuing_run(created(whole), before, NETWORK, asked.agent_key)


def said(run: RunCreated) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in run.messages]


def test_b4_a_run_begins_with_all_that_was_said_before_it() -> None:
    given = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
    second = continued(task(), earlier(task("Is the lamp lit?", messages=given)))
    assert said(second) == [
        *(("user", "Hello."), ("assistant", "Hello!")),
        *(("user", "Is the lamp lit?"), ("assistant", "It is lit.")),
    ]
    assert [turn.run_id for turn in second.messages] == [None, None, RUN, RUN]
    assert second.continues is not None and (second.continues.run_id, second.continues.thread_id) == (RUN, THREAD)
    assert second.user_message == "And then?"


def test_a_run_without_an_answer_says_how_it_ended() -> None:
    assert answer_of(earlier(status="failed", reason="loop_detected", final={"status": "error"})) == (
        "[no answer: the run ended as failed, loop_detected]"
    )
    assert answer_of(earlier(status="cancelled", reason="", final=None)) == "[no answer: the run ended as cancelled]"
    assert answer_of(earlier(final={"total": 3})) == '{"total":3}'


def test_a_reply_takes_over_what_it_does_not_say_itself() -> None:
    before = earlier(
        task(
            "Look.",
            system_params={"account": "a", "shop": "s"},
            labels={"team": "x"},
            quoted_inputs={"mail": "Hello"},
            budget={"tokens": 5_000},
            model="gemini:gemini-2.5-flash",
            agent_key="bob",
            max_steps=3,
            timeout_ms=1_000,
            priority=9,
        )
    )
    own = continued(task(system_params={"shop": "t"}, labels={"day": "1"}), before)
    assert own.system_params == {"account": "a", "shop": "t"}
    assert (own.labels, own.quoted_inputs) == ({"team": "x", "day": "1"}, {"mail": "Hello"})
    assert (own.model, own.agent_key) == ("gemini:gemini-2.5-flash", "bob")
    assert own.budget is not None and own.budget.tokens == 5_000
    assert (own.max_steps, own.timeout_ms, own.priority) == (NETWORK.max_steps, NETWORK.timeout_ms, 5)
    named = continued(task(model="openai:x", agent_key="ann", budget={"tokens": 9}), before)
    assert (named.model, named.agent_key, named.budget and named.budget.tokens) == ("openai:x", "ann", 9)


def test_the_version_is_that_of_the_thread_unless_one_is_named() -> None:
    before = earlier()
    assert completed_task(task(), before).version == before.task.version == 1
    assert completed_task(task(version=4), before).version == 4


def test_a_script_is_played_once() -> None:
    before = earlier()
    before = EarlierRun(
        run_id=RUN,
        thread_id=THREAD,
        status="completed",
        reason="",
        final=None,
        task=before.task.model_copy(update={"model": "scripted:task", "script_digest": "sha256:00"}),
    )
    assert continued(task(), before).model is None


@pytest.mark.parametrize(
    ("own", "chain"),
    [(None, ([READ],)), ([WRITE], ([READ], [WRITE])), ([READ], ([READ],))],
    ids=["none", "a wider one", "the same"],
)
def test_rights_only_narrow_along_a_thread(own: list[dict[str, Any]] | None, chain: tuple[Any, ...]) -> None:
    first = earlier()
    allowed = ({"tool": "crm.read", "operation": "*", "when": None},)
    first = EarlierRun(
        run_id=RUN,
        thread_id=THREAD,
        status="completed",
        reason="",
        final=None,
        task=first.task.model_copy(update={"grant": allowed}),
    )
    asked = created(task())
    if own is not None:
        asked = asked.model_copy(update={"grant": tuple({"operation": "*", "when": None, **entry} for entry in own)})
    second = continuing_run(asked, first, NETWORK, None)
    found = grant_chain(second.grants, second.grant)
    assert [[entry["tool"] for entry in grant] for grant in found] == [[e["tool"] for e in grant] for grant in chain]


def test_a_reply_is_refused_whose_children_would_stand_under_too_many_grants() -> None:
    chain = tuple(({"tool": f"crm.{number}"},) for number in range(MAX_CHAIN))
    first = earlier()
    first = replace(first, task=first.task.model_copy(update={"grants": chain[:-1], "grant": chain[-1]}))
    for own in (None, chain[3]):
        second = continuing_run(created(task()).model_copy(update={"grant": own}), first, NETWORK, None)
        assert len(narrow(second.grants, second.grant)) == MAX_CHAIN
    with pytest.raises(GrantChainTooLongError):
        continuing_run(created(task()).model_copy(update={"grant": ({"tool": "crm.new"},)}), first, NETWORK, None)


def test_files_are_carried_and_the_tasks_own_win() -> None:
    kept = FileEntry(path="a.md", digest="sha256:aa", size=1)
    old, new = (FileEntry(path="b.md", digest=f"sha256:{name}", size=1) for name in ("old", "new"))
    asked = created(task()).model_copy(update={"workspace": (new,)})
    second = continuing_run(asked, earlier(files=(kept, old)), NETWORK, None)
    assert second.workspace == (kept, new)
    assert file_problem(second) is None
    many = tuple(FileEntry(path=f"{n}.md", digest="sha256:aa", size=1) for n in range(MAX_FILES + 1))
    refused = file_problem(continuing_run(asked, earlier(files=many), NETWORK, None))
    assert refused is not None and refused.code == "request_too_large"


def test_a_run_begins_with_no_more_than_a_message_holds() -> None:
    """Its first event would be read by nobody else, and nothing of its log with it."""
    first = created(task("x" * 100_000))
    room = MAX_CREATED_BYTES - len(first.model_dump_json().encode())
    full = first.model_copy(update={"labels": {"a": "é" * ((room - 6) // 2)}})
    assert MAX_CREATED_BYTES - 2 <= len(full.model_dump_json().encode()) <= MAX_CREATED_BYTES
    assert size_problem(full) is None
    refused = size_problem(first.model_copy(update={"labels": {"a": "é" * (room // 2)}}))
    assert refused is not None and (refused.code, "before it" in refused.detail) == ("request_too_large", False)
    many = tuple(FileEntry(path=f"{n}/{'n' * 900}", digest="sha256:aa", size=1) for n in range(MAX_FILES))
    refused = size_problem(continued(task(), earlier(files=many)))
    assert refused is not None and "with what it has of the run before it" in refused.detail


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"status": "running"}, "run_not_ended"),
        ({"status": "quarantined"}, "run_not_ended"),
        ({"own": False}, "reply_refused"),
        ({}, None),
    ],
    ids=["it runs", "it is parked", "a model wrote its task", "it has ended"],
)
def test_only_an_ended_run_of_a_caller_is_continued(change: dict[str, Any], code: str | None) -> None:
    refused = why_not_continued(task(), earlier(**change))
    assert (None if refused is None else refused.code) == code


def test_a_run_of_another_network_is_not_continued() -> None:
    refused = why_not_continued(task(network="other"), earlier())
    assert refused is not None and "is of the network desk, not of other" in refused.detail


def test_messages_are_refused_whole_with_every_problem() -> None:
    turns = [{"role": "system", "content": "x"}, {"role": "user", "content": ""}, {"role": "user"}]
    with pytest.raises(ValidationError) as found:
        task(messages=turns)
    assert {one["loc"][1:] for one in found.value.errors()} == {(0, "role"), (1, "content"), (2, "content")}
    with pytest.raises(ValidationError, match="leave messages out"):
        task(messages=[{"role": "user", "content": "x"}], continues=RUN)
    with pytest.raises(ValidationError):
        task(messages=[{"role": "user", "content": "x"}] * (MAX_TURNS + 1))
    long = task(messages=[{"role": "user", "content": "x" * 70_000}] * 2, agent_key="ghost")
    refused = check_task(long, NETWORK, OrchestratorSettings(embedded=True))
    assert refused is not None
    assert {one.code for one in refused.errors} == {"request_too_large", "agent_not_found"}


def turn(role: str, content: str) -> EarlierTurn:
    return EarlierTurn.model_validate({"role": role, "content": content})


def test_what_fits_is_not_touched() -> None:
    turns = tuple(turn("user", "x" * 100) for _ in range(10))
    assert fit_turns(turns, 1_020) == (turns, ())


def numbered(first: int, last: int) -> tuple[EarlierTurn, ...]:
    return tuple(turn("user" if n % 2 == 0 else "assistant", f"{n:03}" + "x" * 897) for n in range(first, last))


def numbers(turns: Sequence[EarlierTurn]) -> list[int]:
    return [int(one.content[:3]) for one in turns]


def test_a_cut_keeps_the_first_two_turns_and_the_last_ones_and_leaves_half_of_the_room() -> None:
    kept, gone = fit_turns(numbered(0, 10), 8_192)
    assert (numbers(kept), numbers(gone)) == ([0, 1, 8, 9], [2, 3, 4, 5, 6, 7])
    again, none = fit_turns((*kept, *numbered(10, 14)), 8_192)
    assert (numbers(again), none) == ([0, 1, *range(8, 14)], ()), "there is room for a while"
    more, gone = fit_turns((*again, *numbered(14, 18)), 8_192)
    assert (numbers(more), numbers(gone)) == ([0, 1, 16, 17], list(range(8, 16)))


def test_what_is_left_out_is_to_be_summarized_with_what_stood_for_older_turns() -> None:
    given = [{"role": "user", "content": "x" * 3_000}] * 12
    first = earlier(task("x" * 3_000, messages=given))
    asked = created(task())
    second = continuing_run(asked, first, NETWORK.model_copy(update={"context_limit": 8_192}), None)
    behind = second.continues
    assert behind is not None and behind.turns_left_out == len(behind.to_summarize) > 0
    assert behind.turns_left_out + len(second.messages) == 14
    third = continuing_run(asked, replace(earlier(), task=second, summary="They ordered lamps."), NETWORK, None)
    after = third.continues
    assert after is not None and (after.to_summarize, after.summary) == ((), "They ordered lamps.")
    assert after.turns_left_out == behind.turns_left_out
    longer = second.model_copy(update={"messages": tuple(turn("user", "y" * 3_000) for _ in range(14))})
    fourth = continuing_run(asked, replace(earlier(), task=longer, summary="They ordered lamps."), NETWORK, None)
    last = fourth.continues
    assert last is not None and last.to_summarize[0].content.endswith("They ordered lamps.")
    assert last.turns_left_out == behind.turns_left_out + len(last.to_summarize) - 1


def test_of_a_long_turn_the_beginning_and_the_end_stay() -> None:
    (kept,), gone = fit_turns((turn("assistant", "BEGIN" + "x" * 50_000 + "END"),), LEAST_ROOM)
    assert kept.content.startswith("BEGIN") and kept.content.endswith("END")
    assert "bytes are left out here]" in kept.content and gone == ()


@given(
    sizes=st.lists(st.integers(0, 6_000), max_size=60),
    letter=st.sampled_from("xä€😀\x00"),
    room=st.integers(LEAST_ROOM, 40_000),
)
def test_a_conversation_never_has_more_than_its_room(sizes: list[int], letter: str, room: int) -> None:
    turns = tuple(turn("user", letter * size) for size in sizes)
    kept, gone = fit_turns(turns, room)
    assert sum(text_bytes(canonical_json(one.content)) for one in kept) <= room
    assert len(kept) + len(gone) == len(turns)
    if gone:
        assert len(kept) >= FIRST_TURNS + 2
    assert fit_turns(kept, room) == (kept, ()), "a cut is cut no further"


def test_the_room_is_that_of_the_networks_outputs() -> None:
    long = task("x" * 20_000, messages=[{"role": "user", "content": "y" * 20_000}] * 3)
    for limit, most in ((0, LEAST_ROOM), (20_000, 20_000), (200_000, 80_100)):
        turns, _ = turns_after(earlier(long), limit)
        assert sum(text_bytes(canonical_json(one.content)) for one in turns) <= most

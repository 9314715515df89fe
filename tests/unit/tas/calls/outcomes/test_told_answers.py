"""Who may know what a run was told by other runs: decided by what was read of these."""

import json
from typing import Any
from uuid import UUID

import pytest

from towpath_tas.adapters.origin_tables import AFTER_ALL, SUMMARY, RunInputs
from towpath_tas.app.calls.run_ancestors import EARLIER_AGENTS, RunAncestors, SeenRun, ToldAnswer, find_ancestors
from towpath_tas.core.provenance.provenance import UNDECLARED
from towpath_tas.core.provenance.text_readers import (
    ANYONE,
    KNOWN_TO_ALL,
    KNOWN_TO_NOBODY,
    NOBODY,
    TextReaders,
)
from towpath_tas.core.provenance.value_leaves import ValueSource

READ, LOST, LATER = UUID(int=1), UUID(int=2), UUID(int=3)
SOURCE = ValueSource("who answered", 1)


def told(said_by: str, *, cut: bool = False, brought: bool = False) -> ToldAnswer:
    """Return what is told of an answer in a thread of which one run is read."""
    thread = RunAncestors(vouching=[], runs=[(READ, AFTER_ALL, True)], cut=cut, brought=brought)
    (found,) = thread.told(RunInputs(project="shop", texts=(), inputs={}, answered=((said_by, "Halyard"),)))
    return found


@pytest.mark.parametrize(
    ("answer", "may_know", "where_a_child_is_unread"),
    [
        (told(str(READ)), ANYONE, NOBODY),
        (told(str(READ), cut=True), ANYONE, NOBODY),
        (told(str(LOST), cut=True), NOBODY, NOBODY),
        (told(SUMMARY), ANYONE, NOBODY),
        (told(SUMMARY, cut=True), NOBODY, NOBODY),
        (told(SUMMARY, brought=True), None, None),
        (told(SUMMARY, cut=True, brought=True), NOBODY, NOBODY),
        (told(""), None, None),
        (ToldAnswer(SOURCE, "Halyard"), ANYONE, NOBODY),
    ],
)
def test_an_answer_restricts_nobody_itself_where_all_that_was_read_for_it_is_known(
    answer: ToldAnswer, may_know: TextReaders | None, where_a_child_is_unread: TextReaders | None
) -> None:
    assert SeenRun("shop", readers=True).may_know_told(answer) == may_know
    unread = SeenRun("shop", readers=True, unread={"child": str(READ)})
    assert unread.may_know_told(answer) == where_a_child_is_unread


def test_an_unread_child_leaves_answers_known_that_were_given_before_it() -> None:
    """Of its own run's answer, and of all after it, nobody knows what is in it; a summary may be of any of them."""
    thread = RunAncestors(vouching=[], runs=[(run_id, AFTER_ALL, True) for run_id in (LATER, READ, LOST)])
    answered = tuple((str(run_id), f"said by {run_id}") for run_id in (LOST, READ, LATER))
    answers = thread.told(RunInputs(project="shop", texts=(), inputs={}, answered=(*answered, (SUMMARY, "in short"))))
    expected = {LOST: [NOBODY] * 4, READ: [ANYONE, NOBODY, NOBODY, NOBODY], LATER: [ANYONE, ANYONE, NOBODY, NOBODY]}
    for asked_by, may_know in expected.items():
        run = SeenRun("shop", readers=True, unread={"child": str(asked_by)})
        assert [run.may_know_told(answer) for answer in answers] == may_know
    of_this_run = SeenRun("shop", readers=True, unread={"child": str(UUID(int=9))})
    assert [of_this_run.may_know_told(answer) for answer in answers] == [ANYONE, ANYONE, ANYONE, NOBODY]


def test_where_nobody_asks_who_may_know_it_answers_are_undeclared_but_for_those_that_were_not_read() -> None:
    run = SeenRun("shop")
    assert run.may_know_told(told(str(READ))) is None
    assert run.may_know_told(told(str(LOST), cut=True)) == NOBODY


def test_what_children_answered_may_be_known_where_each_of_them_was_read_whole() -> None:
    run = SeenRun("shop", readers=True, answered={"a", "b"}, unread={"c": str(READ)})
    assert run.may_know(("a", "b")) == KNOWN_TO_ALL
    assert run.may_know(("a", "c")) == KNOWN_TO_NOBODY
    for children in ((), ("a", "d"), ("d",)):
        assert run.may_know(children) == UNDECLARED


class Plan:
    """A database that holds a run of a plan."""

    async def fetch(self, _statement: str, runs: list[UUID]) -> list[dict[str, Any]]:
        return [{"run_id": run_id, "created": json.dumps({"project": "shop", "kind": "plan"})} for run_id in runs]

    async def fetchrow(self, *_asked: object) -> None:
        raise AssertionError("nothing else is read")


@pytest.mark.parametrize(("step", "told_by"), [(1, []), (2, [2]), (9, [9])])
async def test_from_its_second_step_on_earlier_agents_have_told_what_a_plan_gives_a_step(
    step: int, told_by: list[int]
) -> None:
    run = SeenRun("shop")
    task = RunInputs(project="shop", texts=("Ask the Halyard",), inputs={}, parent=(READ, step + 1), born=True)
    await find_ancestors(Plan(), run, task)
    assert list(run.told) == [ToldAnswer(ValueSource(EARLIER_AGENTS, step), "Ask the Halyard") for step in told_by]

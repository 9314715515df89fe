"""What a run of a thread is shown of the files that were attached before it."""

from collections.abc import Sequence

import pytest
from tests.support.engine.machine import agent, snapshot
from tests.unit.orchestrator.conversations.test_threads import continued, earlier, task
from tests.unit.orchestrator.tasks.test_task_attachments import PNG, attached

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import (
    PDF,
    StoredAttachment,
)
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_orchestrator.core.task_attachments import carried_attachments
from towpath_orchestrator.core.threads import turns_after

GEMINI = snapshot(agent("triage", model="gemini:gemini-2.5-flash"))


def stored(name: str, size: int = 1, media_type: str = "text/csv") -> StoredAttachment:
    return StoredAttachment(name=name, media_type=media_type, digest=f"sha256:{name}", size=size)


def turn(*attachments: StoredAttachment, role: str = "user") -> EarlierTurn:
    return EarlierTurn.model_validate({"role": role, "content": "x", "attachments": attachments})


def shown(turns: Sequence[EarlierTurn]) -> list[str]:
    return [one.name for turn in turns for one in turn.attachments if one.shown]


def named(turns: Sequence[EarlierTurn]) -> list[str]:
    return [one.name for turn in turns for one in turn.attachments]


def test_a_run_is_shown_what_the_runs_before_it_had() -> None:
    rows = attached(b"a,b", "rows", "text/csv")
    second = continued(
        task("And?", attachments=[attached(b"{}", "more", "application/json")]), earlier(task(attachments=[rows]))
    )
    assert [[one.name for one in turn.attachments] for turn in second.messages] == [["rows"], []]
    assert second.messages[0].attachments[0].digest == digest_text(b"a,b")
    assert [one.name for one in second.attachments] == ["more"]
    photo = earlier(task(attachments=[attached()], model="gemini:gemini-2.5-flash"))
    assert shown(continued(task(), photo).messages) == ["photo"]
    assert shown(continued(task(model="scripted:task"), photo).messages) == []


def test_what_a_model_of_the_run_can_not_take_is_named_and_comes_back_for_one_that_can() -> None:
    before = (turn(stored("photo", media_type="image/png"), stored("rows")), turn(role="assistant"))
    scripted = carried_attachments(before, (), "scripted:task", GEMINI)
    assert (shown(scripted), named(scripted)) == (["rows"], ["photo", "rows"])
    assert shown(carried_attachments(scripted, (), None, GEMINI)) == ["photo", "rows"]
    mixed = snapshot(agent("triage", model="gemini:x"), agent("keeper", model="agent:keeper"))
    assert shown(carried_attachments(before, (), None, mixed)) == []


@pytest.mark.parametrize("own", [(), (stored("mine", 512 * 1024, PDF),)], ids=["nothing", "half"])
def test_the_newest_are_shown_as_far_as_they_fit(own: tuple[StoredAttachment, ...]) -> None:
    half = 512 * 1024
    before = (turn(stored("tiny")), turn(stored("old", half), stored("new", half - 2)))
    kept = carried_attachments(before, own, None, GEMINI)
    assert shown(kept) == (["new"] if own else ["tiny", "old", "new"]), "once one does not fit, none before it is shown"
    assert named(kept) == ["tiny", "old", "new"]


def test_so_many_are_shown_and_so_many_named() -> None:
    names = [f"n{number}" for number in range(40)]
    before = tuple(turn(*(stored(name) for name in names[place : place + 8])) for place in range(0, len(names), 8))
    kept = carried_attachments(before, (stored("mine"),), None, GEMINI)
    assert shown(kept) == names[-15:], "with its own file sixteen"
    assert named(kept) == names[-32:] and len(kept) == len(before)


def test_turns_that_are_left_out_are_summarized_without_their_files() -> None:
    long = [{"role": "user", "content": "x" * 8_000, "attachments": [attached(PNG, f"p{n}")]} for n in range(6)]
    before = earlier(task("Look.", messages=long, model="gemini:gemini-2.5-flash"))
    kept, gone = turns_after(before, 8_192)
    assert gone and gone[0].attachments
    second = continued(task("And?"), before)
    assert second.continues is not None and [one.attachments for one in second.continues.to_summarize] == [()] * len(
        gone
    )
    assert named(second.messages) == named(kept)

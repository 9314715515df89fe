"""Files of a task in the run machine: to whom they are shown, and what is reserved for them."""

from typing import Any

import pytest
from tests.support.engine.machine import agent, snapshot
from tests.unit.engine.handlers.stop_checks.test_budgets import Spender
from tests.unit.engine.handlers.test_earlier_summaries import behind

from towpath_contracts.decisions.attachments import IMAGE_TOKENS, PDF, StoredAttachment
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.events import log as ev

CALLS = 4


def stored(media_type: str, size: int = 100_000, **more: Any) -> StoredAttachment:
    return StoredAttachment(name="one", media_type=media_type, digest="sha256:1", size=size, **more)


def asked(*attachments: StoredAttachment, before: tuple[StoredAttachment, ...] = ()) -> tuple[int, int]:
    """Return what is reserved, and what of it the context itself has."""
    turn = EarlierTurn(role="user", content="x", attachments=before)
    network = snapshot(agent("clerk", model="openai:gpt-5"))
    machine = Spender(network=network, epoch_turns=True, attachments=attachments, messages=(turn,))
    (event,) = machine.events(ev.DecisionRequested)
    assert event.reserved is not None
    (request,) = machine.requests
    return event.reserved.tokens, len(request.context.model_dump_json().encode())


@pytest.mark.parametrize(
    ("attachments", "tokens"),
    [
        ((stored("image/png"), stored("image/png")), 2 * IMAGE_TOKENS),
        ((stored("text/csv"), stored("application/json", 7)), 100_007),
        ((stored(PDF), stored(PDF)), 1024 * 1024),
        ((stored("image/png", shown=False), stored("text/csv", shown=False), stored(PDF, shown=False)), 0),
    ],
    ids=["images", "texts", "pdfs", "not shown"],
)
def test_budget_for_each_kind_of_file_the_most_is_reserved_that_it_can_have(
    attachments: tuple[StoredAttachment, ...], tokens: int
) -> None:
    plain, plain_size = asked()
    for own, before in ((attachments, ()), ((), attachments)):
        reserved, size = asked(*own, before=before)
        assert reserved - plain == CALLS * (size - plain_size + tokens)


def test_a_script_is_shown_the_texts_alone() -> None:
    turn = EarlierTurn(role="user", content="x", attachments=(stored(PDF), stored("text/csv")))
    machine = Spender(epoch_turns=True, attachments=(stored("image/png"), stored("text/plain")), messages=(turn,))
    (request,) = machine.requests
    assert [one.media_type for one in request.context.all_attachments] == ["text/csv", "text/plain"]


def test_who_summarizes_is_shown_no_files_and_who_decides_is() -> None:
    options = behind()
    options["messages"] = (EarlierTurn(role="user", content="x", attachments=(stored("text/csv"),)),)
    network = snapshot(agent("clerk", model="openai:gpt-5"))
    machine = Spender(network=network, epoch_turns=True, attachments=(stored("image/png"),), **options)
    assert machine.context.assessment is not None and machine.context.all_attachments == ()
    machine.answer({"summary": "They spoke."})
    assert [one.media_type for one in machine.context.all_attachments] == ["text/csv", "image/png"]

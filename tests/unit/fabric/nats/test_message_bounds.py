"""What a message says of its run is believed within bounds, and an answer that no message holds becomes a problem."""

import json
from typing import Any
from uuid import UUID

import pytest

from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.records import RunRecordPiece
from towpath_fabric.dead_letters import UNKNOWN_OWNER, DeadLetterOwner, owner_of_message
from towpath_fabric.nats.replies import encode_reply
from towpath_fabric.redelivery.poison_messages import DEATH_AGE

RUN = UUID(int=7)
LARGEST = 1024 * 1024


@pytest.mark.parametrize(
    ("said", "attempt"),
    [
        ({}, 0),
        ({"attempt": 0}, 0),
        ({"attempt": 2**31 - 1}, 2**31 - 1),
        ({"attempt": -1}, None),
        ({"attempt": 2**31}, None),
    ],
)
def test_the_owner_of_a_message_is_known_where_the_tables_can_hold_it(
    said: dict[str, Any], attempt: int | None
) -> None:
    owner = UNKNOWN_OWNER if attempt is None else DeadLetterOwner(run_id=RUN, attempt=attempt)
    assert owner_of_message(json.dumps({"run_id": str(RUN), **said}).encode()) == owner


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_an_answer_leaves_a_kibibyte_of_its_message_to_the_headers(more: int, fits: bool) -> None:
    empty = len(RunRecordPiece(run_id=RUN, text="").model_dump_json())
    body, _ = encode_reply("x", RunRecordPiece(run_id=RUN, text="x" * (LARGEST - 1_024 - empty + more)), LARGEST)
    assert (len(body) == LARGEST - 1_024) is fits
    assert fits or Problem.model_validate_json(body).code == "answer_too_large"


def test_a_mark_that_led_to_a_redelivery_counts_as_a_death_and_one_just_made_does_not() -> None:
    """Progress is told every third of an ack wait, so such a mark is at least two thirds old."""
    assert 1 / 3 < DEATH_AGE < 2 / 3

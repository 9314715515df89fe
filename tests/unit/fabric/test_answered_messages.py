"""What a process remembers of its answers says which deliveries may have got none."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_fabric.clock import use_simulated_clock
from towpath_fabric.redelivery.answered_messages import AnsweredMessages

ACK_WAIT_S = 5.0


class Clock:
    """Seconds, as the test says."""

    now = 0.0


def delivery(number: int, message: int = 1) -> Any:
    stored = SimpleNamespace(
        num_delivered=number, timestamp=datetime(2026, 1, 1, tzinfo=UTC), sequence=SimpleNamespace(stream=message)
    )
    return SimpleNamespace(metadata=stored)


def test_every_delivery_before_this_one_may_have_got_no_answer_where_none_is_known() -> None:
    answered = AnsweredMessages(most=10, ack_wait_s=ACK_WAIT_S)
    assert [answered.unanswered(delivery(number)) for number in (1, 2, 5)] == [0, 1, 4]


@pytest.mark.parametrize(
    ("later", "after_s", "unanswered"),
    [
        (3, 2.0, 0),
        (4, 4.9, 0),
        (4, 5.1, 1),
        (4, 60.0, 1),
        (6, 11.0, 2),
        (1, 60.0, 0),
    ],
    ids=["the next", "too soon", "one wait", "one elsewhere", "two waits", "the consumer is new"],
)
def test_after_an_answer_only_whole_ack_waits_elsewhere_count(later: int, after_s: float, unanswered: int) -> None:
    clock = Clock()
    with use_simulated_clock(lambda: clock.now, 0):
        answered = AnsweredMessages(most=10, ack_wait_s=ACK_WAIT_S)
        answered.note(delivery(2), settled=False)
        clock.now = after_s
        assert answered.unanswered(delivery(later)) == unanswered
        assert answered.unanswered(delivery(later, message=2)) == later - 1, "another message"


def test_a_settled_message_is_known_for_a_while_and_one_given_back_is_not_settled() -> None:
    clock = Clock()
    with use_simulated_clock(lambda: clock.now, 0):
        answered = AnsweredMessages(most=10, ack_wait_s=ACK_WAIT_S)
        answered.note(delivery(2), settled=True)
        answered.note(delivery(2, message=2), settled=False)
        assert (answered.is_settled(delivery(3)), answered.is_settled(delivery(3, message=2))) == (True, False)
        clock.now = 3.9 * ACK_WAIT_S
        assert answered.is_settled(delivery(3)), "copies of it that wait in this process are taken by then"
        clock.now = 4 * ACK_WAIT_S
        assert not answered.is_settled(delivery(3))


def test_the_oldest_answers_are_forgotten_first() -> None:
    answered = AnsweredMessages(most=2, ack_wait_s=ACK_WAIT_S)
    for message in (1, 2, 1, 3):
        answered.note(delivery(5, message), settled=False)
    assert [answered.unanswered(delivery(6, message)) for message in (1, 2, 3)] == [0, 5, 0]


def test_a_message_is_suspected_after_two_deliveries_without_an_answer() -> None:
    """After one it would be a guess: everything comes again that shared its batch."""
    answered = AnsweredMessages(most=10, ack_wait_s=ACK_WAIT_S)
    assert [answered.is_suspect(delivery(number)) for number in (1, 2, 3, 4)] == [False, False, True, True]

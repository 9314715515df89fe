"""What one process answered to messages of one consumer that may come again.

A delivery that was answered has killed nobody, and the broker's count of deliveries doesn't tell. Other replicas may
have had a message in between, of which this process knows only the time: a delivery without an answer takes a whole ack
wait, so in a shorter time there was none.
"""

from collections import OrderedDict
from typing import NamedTuple

from nats.aio.msg import Msg

from towpath_fabric.clock import monotonic
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.nats.pull_consumer import deliveries

SUSPECT_AFTER = 2
"""Deliveries without an answer, after which a message may be what ends the processes. After one it would be a guess:
everything comes again that shared its batch."""

SETTLED_WAITS = 4
"""Ack waits for which a settled message is known: copies of it that wait in this process are taken long before."""


class _GivenAnswer(NamedTuple):
    """The last answer to a message: to which delivery, and when."""

    delivery: int
    at_s: float
    settled: bool


class AnsweredMessages:
    """Remembers the last answer to each of the last messages that were answered. One per consumer."""

    def __init__(self, *, most: int, ack_wait_s: float) -> None:
        """Remember *most* messages: as many as the broker delivers again without an answer."""
        self._most = most
        self._ack_wait_s = ack_wait_s
        self._answers: OrderedDict[int, _GivenAnswer] = OrderedDict()

    def note(self, message: Msg, *, settled: bool) -> None:
        """Remember that *message* was acknowledged for good, or else given back."""
        key = delivery_number(message)
        self._answers[key] = _GivenAnswer(deliveries(message), monotonic(), settled)
        self._answers.move_to_end(key)
        while len(self._answers) > self._most:
            self._answers.popitem(last=False)

    def is_suspect(self, message: Msg) -> bool:
        """Return whether *message* may be what ended the processes that got it before."""
        return deliveries(message) > SUSPECT_AFTER and self.unanswered(message) >= SUSPECT_AFTER

    def unanswered(self, message: Msg) -> int:
        """Return how many deliveries of *message* before this one may have got no answer since the last known one."""
        answer = self._answers.get(delivery_number(message))
        if answer is None:
            return deliveries(message) - 1
        elsewhere = deliveries(message) - answer.delivery - 1
        return max(0, min(elsewhere, int((monotonic() - answer.at_s) / self._ack_wait_s)))

    def is_settled(self, message: Msg) -> bool:
        """Return whether *message* was acknowledged by this process a short time ago."""
        answer = self._answers.get(delivery_number(message))
        if answer is None or not answer.settled:
            return False
        return monotonic() - answer.at_s < SETTLED_WAITS * self._ack_wait_s

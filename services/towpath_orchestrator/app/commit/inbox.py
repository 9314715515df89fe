"""The inbox of the commit loop: facts from the broker and from this process, and what becomes of their messages.

A message is acknowledged only after the transition that it caused is committed: a crash in between redelivers it, and
the run machine ignores a fact that it has folded already.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nats.aio.msg import Msg

from towpath_contracts.facts import AnyFact
from towpath_fabric.crash_points import crash_point
from towpath_fabric.dead_letters import DeadLetters, MessageOwner, owner_of_message
from towpath_fabric.nats.pull_consumer import ack, deliveries, nak
from towpath_fabric.ports import MessageSource
from towpath_orchestrator.app.local_facts import LocalFacts
from towpath_orchestrator.core.inbox_messages import read_inbox_message, run_in_subject
from towpath_orchestrator.metrics import OrchestratorMetrics

CONTESTED_S = 0.2
"""After this time the fact of a contested run comes again."""


@dataclass(slots=True)
class InboxFact:
    """One fact on its way through the loop; `message` is None for facts that this process made itself."""

    fact: AnyFact
    text: str
    message: Msg | None = None

    @property
    def redelivered(self) -> bool:
        """Whether the broker has delivered this fact before."""
        return self.message is not None and deliveries(self.message) > 1

    def replace_fact(self, fact: AnyFact) -> None:
        self.fact = fact
        self.text = fact.model_dump_json()


def local_fact(fact: AnyFact) -> InboxFact:
    """Return a fact of this process as the commit loop takes it."""
    return InboxFact(fact=fact, text=fact.model_dump_json())


class Inbox:
    """Takes facts in batches, and settles their messages with the broker. One per process."""

    def __init__(
        self,
        feed: MessageSource,
        local_facts: LocalFacts,
        dead_letters: DeadLetters,
        metrics: OrchestratorMetrics,
        *,
        batch_size: int,
    ) -> None:
        self._feed = feed
        self._local_facts = local_facts
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._batch_size = batch_size

    async def take(self) -> list[InboxFact]:
        """Wait for something to do and return at most a batch of it, this process's own facts first."""
        arrived = self._local_facts.arrived
        while not self._local_facts and not self._feed.waiting:
            arrived.clear()
            await arrived.wait()
        facts = [local_fact(fact) for fact in self._local_facts.take(self._batch_size)]
        for message in self._feed.take_now(self._batch_size - len(facts)):
            crash_point("orchestrator.pulled")
            read = read_inbox_message(message.subject, message.data)
            if read.fact is None:
                about = MessageOwner(run_id=run_in_subject(message.subject))
                await self._dead_letters.set_aside(message, read.reason, about)
            else:
                facts.append(InboxFact(fact=read.fact, text=read.text, message=message))
        return facts

    def pause(self, *, paused: bool) -> None:
        """Take no messages from the broker while the database is away."""
        self._feed.paused = paused

    async def acknowledge(self, facts: Iterable[InboxFact]) -> None:
        for message in [item.message for item in facts if item.message is not None]:
            self._metrics.facts_handled.inc()
            await ack(message)

    async def give_back(self, facts: Iterable[InboxFact], error: str | None) -> None:
        """Hand back facts of a contested run; where Postgres refuses them with *error* each counts as failed."""
        for item in facts:
            if item.message is None:
                continue
            if error is None:
                await nak(item.message, CONTESTED_S)
            else:
                about = MessageOwner(run_id=item.fact.run_id, effect_id=owner_of_message(item.message.data).effect_id)
                await self._dead_letters.failed(item.message, error, about)

    async def set_aside(self, facts: Iterable[InboxFact], reason: str) -> None:
        """Store as dead letters what no run can take."""
        for item in facts:
            if item.message is not None:
                await self._dead_letters.set_aside(item.message, reason, MessageOwner(run_id=item.fact.run_id))

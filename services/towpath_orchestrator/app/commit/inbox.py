"""The inbox of the commit loop: facts from the broker and from this process, and what becomes of their messages.

A message is acknowledged only after the transition that it caused is committed: a crash in between redelivers it, and
the run machine ignores a fact that it has folded already.

A batch is one commit, and a fact that arrives meanwhile waits for all of it. Where facts of one caller come alone, a
batch takes whatever waits, which costs least. Where facts of several came lately, it takes few of each, so that whoever
has many runs under way doesn't make commits long for whoever has few.

Small batches keep each other small: while few facts are folded few others come in, and each batch costs its round trips
and system calls. Where several facts came together lately, a small batch therefore waits a moment for more. A run that
is alone never waits: its facts come one by one.

Agents are user code, and may send what is no fact of any run as fast as the broker takes it. Whose letter that becomes
says the subject, which the broker checks, and not the run that they name.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from nats.aio.msg import Msg

from towpath_contracts.facts import AnyFact
from towpath_fabric.crash_points import crash_point
from towpath_fabric.dead_letters import (
    MAX_BODY,
    MAX_REPORTED_BODY,
    DeadLetterOwner,
    DeadLetters,
    UndeliverableMessage,
    owner_in_run,
    owner_of_message,
)
from towpath_fabric.nats.pull_consumer import deliveries
from towpath_fabric.ports import MessageConsumer
from towpath_fabric.redelivery.poison_messages import PoisonGuard
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.core.inbox_messages import CostOf, project_in_subject, read_inbox_message, run_in_subject
from towpath_orchestrator.metrics import OrchestratorMetrics

LATELY = 16
"""A caller counts for so many batches: about as long as its run is away at a script or a tool that answers at once."""

FEW = 8
"""Facts of one caller in a shared batch: so many that a commit for them alone is worth its cost."""

SEVERAL = 3.5
"""Facts in the mean of the last batches, from which on a batch waits for more: a few runs together have fewer."""

ENOUGH = 32
"""Where so many facts wait the round trips of a batch are shared well enough."""

GATHER_S = 0.01
"""How long a batch waits for more: with so many runs under way, each waits for others ten times as long anyway."""

CONTESTED_S = 0.2
"""After this time the fact of a contested run comes again."""


@dataclass(slots=True)
class InboxFact:
    """One fact on its way through the loop; `message` is None for facts that this process made itself.

    `is_tried` says that it was folded before, and it is not known that nothing was stored: a commit that got no answer
    may be done all the same.
    """

    fact: AnyFact
    text: str
    message: Msg | None = None
    is_refused: bool = False
    is_tried: bool = False

    @property
    def is_repeated(self) -> bool:
        """Whether it may be in the log already: the broker has delivered it before, or it was tried here."""
        return self.is_tried or (self.message is not None and deliveries(self.message) > 1)

    def replace_fact(self, fact: AnyFact) -> None:
        self.fact = fact
        self.text = fact.model_dump_json()


def note_tried(facts: Iterable[InboxFact]) -> None:
    """Remember of *facts* that they may have been folded: should that be so, what came of it is sent again."""
    for item in facts:
        item.is_tried = True


def local_fact(fact: AnyFact) -> InboxFact:
    """Return a fact of this process as the commit loop takes it."""
    return InboxFact(fact=fact, text=fact.model_dump_json())


class RecentCallerShares:
    """Remembers whose facts came lately. One per inbox."""

    def __init__(self) -> None:
        self._batch = 0
        self._callers: OrderedDict[str, int] = OrderedDict()
        """The last batch with a fact of each caller, the oldest first."""

    def most_of_one(self, waiting: int) -> int | None:
        """Return how many facts of one caller come next while *waiting* facts wait; None where one caller is alone.

        What waits is taken within LATELY batches, however much it is: the broker would deliver it again.
        """
        return max(FEW, -(-waiting // LATELY)) if len(self._callers) > 1 else None

    def note_batch(self, callers: Iterable[str]) -> None:
        """Take note of whose facts a batch holds."""
        self._batch += 1
        for caller in callers:
            self._callers[caller] = self._batch
            self._callers.move_to_end(caller)
        while self._callers and next(iter(self._callers.values())) <= self._batch - LATELY:
            self._callers.popitem(last=False)


class RecentBatchSizes:
    """Remembers how large batches were lately. One per inbox."""

    def __init__(self) -> None:
        self._mean = 0.0

    def note_batch(self, size: int) -> None:
        """Take note of a batch; the last five count for two thirds."""
        self._mean += (size - self._mean) / 5

    def should_gather(self, waiting: int) -> bool:
        """Return whether a batch of the *waiting* facts should wait for more."""
        return self._mean >= SEVERAL and waiting < ENOUGH


class Inbox:
    """Takes facts in batches, and settles their messages with the broker. One per process."""

    def __init__(
        self,
        feed: MessageConsumer,
        local_facts: LocalFactQueue,
        dead_letters: DeadLetters,
        metrics: OrchestratorMetrics,
        caller_of: Callable[[UUID | None], str],
        guard: PoisonGuard,
        *,
        batch_size: int,
        cost_of: CostOf | None = None,
    ) -> None:
        """*caller_of* returns whose run that is, as far as this process knows: all others share their turns.

        *cost_of* prices what agents used and don't know the price of.
        """
        self._feed = feed
        self._local_facts = local_facts
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._batch_size = batch_size
        self._caller_of = caller_of
        self._guard = guard
        self._cost_of = cost_of
        self._watched: deque[Msg] = deque()
        self._was_alone = False
        self._shares = RecentCallerShares()
        self._sizes = RecentBatchSizes()

    @contextlib.asynccontextmanager
    async def next_batch(self) -> AsyncIterator[list[InboxFact]]:
        """Wait for something to do; the context handles at most a batch of it, this process's own facts first.

        Where facts of several callers come, few of each are taken, in turns. A fact that may be what ended processes
        comes alone, in turns with this process's own facts.
        """
        self._was_alone = bool(self._watched) and not (self._was_alone and self._local_facts)
        if not self._was_alone:
            yield await self._take()
            return
        message = self._watched.popleft()
        async with self._guard.alone(message, self._refuse) as admitted:
            yield await self._read([message]) if admitted else []

    async def _take(self) -> list[InboxFact]:
        arrived = self._local_facts.arrived
        while not self._local_facts and not self._feed.waiting:
            arrived.clear()
            await arrived.wait()
        if self._sizes.should_gather(len(self._local_facts) + self._feed.waiting):
            await asyncio.sleep(GATHER_S)
        own, messages = self._next_batch()
        self._sizes.note_batch(len(own) + len(messages))
        together, watched = self._guard.apart(messages)
        self._watched.extend(watched)
        facts = [*(local_fact(fact) for fact in own), *await self._read(together)]
        self._shares.note_batch(self._caller_of(item.fact.run_id) for item in facts)
        return facts

    async def _read(self, messages: Iterable[Msg]) -> list[InboxFact]:
        """Return the facts of *messages*; what is none is set aside."""
        facts, dead = [], []
        for message in messages:
            crash_point("orchestrator.pulled")
            read = read_inbox_message(message.subject, message.data, self._cost_of)
            if read.fact is None:
                dead.append(_dead(message, read.reason, MAX_REPORTED_BODY))
            else:
                facts.append(InboxFact(fact=read.fact, text=read.text, message=message))
        if dead:
            await self._dead_letters.set_aside_all(dead)
        return facts

    async def _refuse(self, message: Msg, reason: str, reads: bool) -> None:
        """Set a poison message aside; its run sends again what waits for it, or ends."""
        run_id = run_in_subject(message.subject)
        owner = owner_in_run(run_id, message.data) if reads and run_id is not None else DeadLetterOwner(run_id=run_id)
        await self.refuse(message, reason, owner)

    async def refuse(self, message: Msg, reason: str, owner: DeadLetterOwner) -> None:
        """Set a message aside that names what the run waits for, if anything: the run is told, and asks again."""
        owner = replace(owner, project=project_in_subject(message.subject))
        await self._dead_letters.set_aside(message, reason, owner)

    def _next_batch(self) -> tuple[list[AnyFact], list[Msg]]:
        size = self._batch_size
        if self._watched:  # messages of the broker come when these are through
            return self._local_facts.take(size), []
        most_of_one = self._shares.most_of_one(max(len(self._local_facts), self._feed.waiting))
        if most_of_one is None:
            own = self._local_facts.take(size)
            return own, self._feed.take_now(size - len(own))
        own = self._local_facts.take_in_turns(size, most_of_one, lambda fact: self._caller_of(fact.run_id))
        return own, self._feed.take_in_turns(size - len(own), most_of_one, self._caller_of_message)

    def _caller_of_message(self, message: Msg) -> str:
        return self._caller_of(run_in_subject(message.subject))

    def pause(self, *, paused: bool) -> None:
        """Take no messages from the broker while the database is away."""
        self._feed.paused = paused

    async def acknowledge(self, facts: Iterable[InboxFact]) -> None:
        for message in [item.message for item in facts if item.message is not None]:
            self._metrics.facts_handled.inc()
            await self._guard.settle(message)

    async def give_back(self, facts: Iterable[InboxFact], error: str | None) -> None:
        """Hand back facts of a contested run; where Postgres refuses them with *error* each counts as failed."""
        for item in facts:
            if item.message is None:
                continue
            if error is None:
                await self._guard.give_back(item.message, CONTESTED_S)
            else:
                about = DeadLetterOwner(
                    run_id=item.fact.run_id, effect_id=owner_of_message(item.message.data).effect_id
                )
                await self._dead_letters.failed(item.message, error, about)

    async def set_aside(self, facts: Iterable[tuple[InboxFact, str]]) -> None:
        """Store as dead letters what no run can take, each for its reason."""
        dead = [_dead(item.message, reason) for item, reason in facts if item.message is not None]
        if dead:
            await self._dead_letters.set_aside_all(dead)


def _dead(message: Msg, reason: str, kept_of_agents: int = MAX_BODY) -> UndeliverableMessage:
    """Return a message that no run can take; of one that agents sent so many bytes are kept."""
    project = project_in_subject(message.subject)
    owner = DeadLetterOwner(run_id=run_in_subject(message.subject), project=project)
    kept_bytes = MAX_BODY if project is None else kept_of_agents
    return UndeliverableMessage(message=message, reason=reason, owner=owner, kept_bytes=kept_bytes)

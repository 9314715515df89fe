"""Waiting until a provider may be asked: limits that all deciders keep together.

A call that has its place pays no round trip. Slots and a little of the minute are taken ahead, for several calls
in one write, and given back when they are not used. Whoever has not renewed its lease begins no call.
"""

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

from pydantic import ValidationError

from towpath_contracts.decisions.provider_limits import ProviderLimit, ProviderUse
from towpath_contracts.decisions.request import DecisionRequest
from towpath_decider.core.conversation import CallFailure, Question, Reply
from towpath_decider.core.rate_policy import (
    INTERVAL_S,
    LEASE_S,
    LONGEST_PAUSE_S,
    LimitGrant,
    LimitRequest,
    grant_request,
)
from towpath_decider.metrics import DeciderMetrics
from towpath_fabric.clock import monotonic
from towpath_fabric.fair_queue import FairQueue, QueueOwner
from towpath_fabric.nats.kv_register import RegistersUnavailableError, SharedRegisters
from towpath_fabric.telemetry.logs import Logger

RENEW_S = 1.0
MARGIN_S = 1.5
"""No call begins in the last part of a lease: others judge its end by their own reading of the broker's clock."""

BATCH_WINDOW_S = 0.005
"""Calls that come within this time are asked for together."""

RETRY_S = 0.25
"""Before a decider whose wish was not granted asks again."""

MAX_WRITES = 8
"""Writes that may be overtaken by others before the next round."""

PREFETCH_SHARE = 20
"""A decider takes a twentieth of a minute ahead of its calls, or as much as those that wait need."""

CHARS_PER_TOKEN = 4
INITIAL_OUTPUT_TOKENS = 512
"""Tokens that a model writes, before anything is known of it."""

DEFAULT_PAUSE_S = 1.0
"""How long nothing is asked after a refusal for the rate that does not say how long."""

CROWDED_WAIT_S = 2.0
"""How long a call waits in its place where too many wait beside it already; then its run asks again."""

RATE_LIMITED = "model_rate_limited"


class NoProviderCapacityError(Exception):
    """The provider had no room for a call within its time; nothing was asked."""


@dataclass(slots=True, kw_only=True)
class WaitingCall:
    """A call that waits for its turn."""

    key: UUID
    tokens: int
    turn: "asyncio.Future[None]"


@dataclass(slots=True, kw_only=True)
class MinuteAllowance:
    """What was taken of the minute and is not used yet; below zero where a call used more than it was thought to."""

    requests: int = 0
    tokens: int = 0
    since: float = 0.0


class SharedProviderLimit:
    """One limit, as this decider keeps it."""

    def __init__(self, name: str, limit: ProviderLimit, registers: SharedRegisters, log: Logger) -> None:
        self.name = name
        self._limit = limit
        self._registers = registers
        self._log = log
        self._key = re.sub(r"[^A-Za-z0-9_-]", "=", name)
        self._me = uuid4().hex[:12]
        self._turns: FairQueue[WaitingCall] = FairQueue()
        self.aside = 0
        self._slots = self._busy = self._peak = 0
        self._purse = MinuteAllowance()
        self._lease = self._pause = 0.0
        self._pause_s = 0.0
        self._guess = float(INITIAL_OUTPUT_TOKENS)
        self._wanted = asyncio.Event()

    def tokens_of(self, question: Question, most: int) -> int:
        """Return what a call is thought to use: what it says, and what the last answers had."""
        wrote = min(most, math.ceil(self._guess))
        return len(question.text) // CHARS_PER_TOKEN + wrote

    def enter_now(self, tokens: int) -> bool:
        """Take a place where there is one and nobody waits for it."""
        return not len(self._turns) and self._begin(tokens)

    async def enter(self, owner: QueueOwner, tokens: int) -> None:
        """Wait for a place for a call of so many *tokens*, in turns of callers."""
        if self.enter_now(tokens):
            return
        waiting = WaitingCall(key=uuid4(), tokens=tokens, turn=asyncio.get_running_loop().create_future())
        self._turns.put(waiting.key, waiting, owner, monotonic())
        self._wanted.set()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if self._turns.drop(waiting.key) is None and not waiting.turn.cancelled():  # it came at the last moment
                self.leave(tokens, 0)
            raise

    def _begin(self, tokens: int) -> bool:
        now, limit = monotonic(), self._limit
        if self._busy >= self._slots or now > self._lease - MARGIN_S or now < self._pause:
            return False
        if limit.requests_per_minute is not None and self._purse.requests < 1:
            return False
        if limit.tokens_per_minute is not None and self._purse.tokens < min(tokens, limit.tokens_per_minute):
            return False
        self._purse.requests -= 1
        self._purse.tokens -= tokens
        self._busy += 1
        self._peak = max(self._peak, self._busy)
        return True

    def leave(self, guessed: int, used: int, pause_s: float = 0.0) -> None:
        """Give a place back; the call was thought to use *guessed* tokens and used *used*; *pause_s* is asked for."""
        self._busy -= 1
        self._purse.tokens += guessed - used
        if pause_s:
            pause_s = min(pause_s, LONGEST_PAUSE_S)
            self._pause_s = max(self._pause_s, pause_s)
            self._pause = max(self._pause, monotonic() + pause_s)
            self._wanted.set()
        self._admit()

    @property
    def paused_s(self) -> float:
        """How long nothing may be asked."""
        return max(0.0, self._pause - monotonic())

    def learn(self, wrote: int) -> None:
        """Take note of the tokens that a model wrote."""
        self._guess += (wrote - self._guess) * (1.0 if self._guess == INITIAL_OUTPUT_TOKENS else 0.125)

    def _admit(self) -> None:
        now = monotonic()
        while len(self._turns):
            first = self._turns.peek(now)
            if first.turn.done():  # cancelled in this very moment, and not yet gone by itself: it must not take a place
                self._turns.drop(first.key)
                continue
            if not self._begin(first.tokens):
                if self._busy < self._slots:
                    self._wanted.set()  # what is missing is not a slot, so there may be more of it
                return
            self._turns.next(now).turn.set_result(None)

    async def run(self) -> None:
        """Keep what this decider holds in step with the others, as long as it holds or wants anything; for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S if self._holds() else None):
                    await self._wanted.wait()
            await asyncio.sleep(BATCH_WINDOW_S)
            self._wanted.clear()
            try:
                gained = await self._settle()
            except RegistersUnavailableError as error:
                gained = False
                self._log.info("a limit can't be kept while the broker is away", limit=self.name, error=str(error))
            self._admit()
            if len(self._turns):
                await asyncio.sleep(BATCH_WINDOW_S if gained else RETRY_S)
                self._wanted.set()

    def _holds(self) -> bool:
        """Say whether anything is left to tell the others, or to give back."""
        left, limit = self._purse, self._limit
        unused = (limit.requests_per_minute is not None and left.requests > 0) or (
            limit.tokens_per_minute is not None and left.tokens > 0
        )
        return bool(len(self._turns) or self._busy or self._slots or self._pause_s or unused)

    async def _settle(self) -> bool:
        """Tell the others what is used and take what there is; says whether that was anything new."""
        await self._registers.sync()
        for _ in range(MAX_WRITES):
            began = monotonic()
            found = await self._registers.read(self._key)
            shared = self._known(found.body)
            wish = self._wish()
            after, grant = grant_request(shared, wish, self._limit)
            if await self._registers.write(self._key, after.model_dump_json().encode(), found.revision):
                return self._take(wish, grant, began)
        return True  # others were faster every time, so there is something to be had

    def _known(self, body: bytes | None) -> ProviderUse:
        """Return what all know; nothing where that can't be read, as if the broker had lost it."""
        try:
            return ProviderUse() if body is None else ProviderUse.model_validate_json(body)
        except ValidationError as error:
            self._log.error("a limit's register can't be read", limit=self.name, problems=error.error_count())
            return ProviderUse()

    def _take(self, wish: LimitRequest, grant: LimitGrant, began: float) -> bool:
        gained = grant.slots > self._slots or grant.requests > 0 or grant.tokens > 0
        self._slots, self._peak, self._lease = grant.slots, self._busy, began + LEASE_S
        self._pause = max(self._pause, monotonic() + grant.pause_s)
        self._pause_s = 0.0 if self._pause_s <= wish.pause_s else self._pause_s
        self._purse.requests += grant.requests - wish.back_requests
        self._purse.tokens += grant.tokens - wish.back_tokens
        if grant.requests or grant.tokens:
            self._purse.since = began
        return gained

    def _wish(self) -> LimitRequest:
        """Say what is used, and ask for what waits; what was taken and not used within a piece is given back."""
        waiting, purse, limit = self._turns.items(), self._purse, self._limit
        stale = monotonic() - purse.since > INTERVAL_S
        back = (purse.requests if stale else min(0, purse.requests), purse.tokens if stale else min(0, purse.tokens))
        kept = purse.requests - back[0], purse.tokens - back[1]
        first = self._turns.peek(monotonic()).tokens if waiting else 0
        requests = _prefetch_amount(len(waiting), 1, limit.requests_per_minute) - kept[0] if waiting else 0
        tokens = (
            _prefetch_amount(sum(one.tokens for one in waiting), first, limit.tokens_per_minute) - kept[1]
            if waiting
            else 0
        )
        return LimitRequest(
            me=self._me,
            now=self._registers.now(),
            busy=self._busy,
            wants=max(self._busy + len(waiting), self._peak),
            requests=max(0, requests),
            tokens=max(0, tokens),
            least=max(0, min(tokens, first - kept[1])),
            back_requests=back[0],
            back_tokens=back[1],
            pause_s=self._pause_s,
        )


def _prefetch_amount(needed: int, first: int, limit: int | None) -> int:
    """Return how much of a minute is taken at once: for those that wait, but no more than a twentieth, or for one."""
    return 0 if limit is None else min(limit, max(first, min(needed, limit // PREFETCH_SHARE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPermit:
    """A call's place at every limit that is for it, with the tokens it was thought to use there."""

    gates: tuple[tuple[SharedProviderLimit, int], ...]


class ProviderLimiter:
    """The limits of this decider's providers. `loops` run for ever.

    Who waits stands aside: its place is lent to other requests, so that a limited provider is no other's wait. As many
    may stand aside as there are places, a share at each limit; more wait in their places, shortly.
    """

    def __init__(
        self,
        limits: Mapping[str, ProviderLimit],
        registers: SharedRegisters,
        log: Logger,
        metrics: DeciderMetrics,
        *,
        places: int = 64,
    ) -> None:
        """*limits* are by provider, or by provider and model: `openai`, `openai:gpt-5`; the decider has *places*."""
        self._aside = max(1, places // max(1, len(limits)))
        self._hold: Callable[[int], None] | None = None
        self._gates = {name: SharedProviderLimit(name, limit, registers, log) for name, limit in limits.items()}
        self.loops = tuple(gate.run for gate in self._gates.values())
        self._metrics = metrics

    def lend_to(self, hold: Callable[[int], None]) -> None:
        """Tell *hold* of places that are free while their requests wait: -1 for one that is lent, 1 when it is back."""
        self._hold = hold

    async def enter(self, request: DecisionRequest, question: Question, *, begun: bool = False) -> ProviderPermit:
        """Wait for a place at every limit of the request's model, for half its time; raises NoTurnError.

        Where too many wait, only one that has *begun*, and may have been paid for, waits as long.
        """
        provider = request.model.partition(":")[0]
        owner = QueueOwner(caller=request.caller, root=request.run_id)
        taken: list[tuple[SharedProviderLimit, int]] = []
        began = monotonic()
        try:
            async with asyncio.timeout(request.timeout_ms / 2000):
                for name in (request.model, provider):
                    gate = self._gates.get(name)
                    if gate is not None:
                        tokens = gate.tokens_of(question, request.max_output_tokens)
                        await self._pass(gate, owner, tokens, begun=begun)
                        taken.append((gate, tokens))
        except TimeoutError:
            self._give_up(taken)
            self._metrics.limiter_timeouts.labels(provider).inc()
            raise NoProviderCapacityError(provider) from None
        except asyncio.CancelledError:
            self._give_up(taken)
            raise
        if taken:
            self._metrics.limiter_wait_s.labels(provider).observe(monotonic() - began)
        return ProviderPermit(gates=tuple(taken))

    async def _pass(self, gate: SharedProviderLimit, owner: QueueOwner, tokens: int, *, begun: bool) -> None:
        if gate.enter_now(tokens):
            return
        if begun or gate.aside < self._aside:
            with self._aside_of(gate):
                await gate.enter(owner, tokens)
        else:
            async with asyncio.timeout(CROWDED_WAIT_S):
                await gate.enter(owner, tokens)

    @contextlib.contextmanager
    def _aside_of(self, gate: SharedProviderLimit) -> Iterator[None]:
        gate.aside += 1
        if self._hold is not None:
            self._hold(-1)
        try:
            yield
        finally:
            gate.aside -= 1
            if self._hold is not None:
                self._hold(1)

    def paused_s(self, name: str) -> float:
        """Return for how long nothing may be asked where the limit *name* is for."""
        return self._gates[name].paused_s

    @staticmethod
    def _give_up(taken: list[tuple[SharedProviderLimit, int]]) -> None:
        for gate, tokens in taken:
            gate.leave(tokens, 0)

    @staticmethod
    def leave(place: ProviderPermit, said: Reply | CallFailure | None) -> None:
        """Give a place back after a call; None where nothing is known of it."""
        for gate, guessed in place.gates:
            match said:
                case Reply():
                    gate.learn(said.usage.output_tokens)
                    gate.leave(guessed, said.usage.total_tokens)
                case CallFailure() if said.code == RATE_LIMITED:
                    gate.leave(guessed, 0, said.retry_after_s or DEFAULT_PAUSE_S)
                case _:
                    gate.leave(guessed, guessed)

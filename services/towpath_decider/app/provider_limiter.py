"""Waits until a provider may be called: the limits that all deciders share.

A call that finds capacity pays no round trip to the broker: slots and a part of the minute's requests and tokens are
reserved ahead, for several calls in one write, and returned when they are not used. A decider that has not renewed its
lease starts no call, since its slots may have been given to another one.
"""

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

from pydantic import ValidationError

from towpath_contracts.decisions.provider_limits import ProviderLimit, ProviderLimitState
from towpath_contracts.decisions.request import DecisionRequest
from towpath_decider.core.conversation import RATE_LIMITED, ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.rate_policy import (
    INTERVAL_S,
    LEASE_S,
    LONGEST_PAUSE_S,
    LimitRequest,
    ProviderLimitShare,
    grant_request,
)
from towpath_decider.metrics import DeciderMetrics
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.kv_register import RegistersUnavailableError, SharedRegisters
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.fair_queue import FairQueue, QueueOwner

RENEW_S = 1.0
MARGIN_S = 1.5
"""No call begins in the last part of a lease: others judge its end by their own reading of the broker's clock."""

BATCH_WINDOW_S = 0.005
"""Calls that come within this time are asked for together."""

RETRY_S = 0.25
"""Before a decider asks again whose request was not granted."""

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


class NoProviderCapacityError(Exception):
    """The provider had no capacity for a call within its time; no call was made."""


@dataclass(slots=True, kw_only=True)
class WaitingModelCall:
    """A call that waits for capacity."""

    key: UUID
    tokens: int
    turn: "asyncio.Future[None]"


@dataclass(slots=True, kw_only=True)
class MinuteAllowance:
    """What was reserved of the minute and is not used yet; negative after a call that used more than was estimated."""

    requests: int = 0
    tokens: int = 0
    since: float = 0.0


class SharedProviderLimit:
    """One limit that all deciders share, as this decider knows it."""

    def __init__(self, name: str, limit: ProviderLimit, registers: SharedRegisters, log: Logger) -> None:
        self.name = name
        self._limit = limit
        self._registers = registers
        self._log = log
        self._key = re.sub(r"[^A-Za-z0-9_-]", "=", name)
        self._decider = uuid4().hex[:12]
        self._queue: FairQueue[WaitingModelCall] = FairQueue()
        self.lent_slots = 0
        self._slots = self._busy = self._peak = 0
        self._allowance = MinuteAllowance()
        self._lease = self._pause = 0.0
        self._pause_s = 0.0
        self._expected_output = float(INITIAL_OUTPUT_TOKENS)
        self._wanted = asyncio.Event()

    def tokens_of(self, question: ModelQuestion, most: int) -> int:
        """Estimate a call's tokens: its prompt, and as many output tokens as the last answers had."""
        output_tokens = min(most, math.ceil(self._expected_output))
        return len(question.text) // CHARS_PER_TOKEN + output_tokens

    def try_acquire(self, tokens: int) -> bool:
        """Take capacity at once; False where there is none or other calls wait for it."""
        return not len(self._queue) and self._try_begin(tokens)

    async def acquire(self, owner: QueueOwner, tokens: int) -> None:
        """Wait for capacity for a call of *tokens*; callers are served in turn."""
        if self.try_acquire(tokens):
            return
        waiting = WaitingModelCall(key=uuid4(), tokens=tokens, turn=asyncio.get_running_loop().create_future())
        self._queue.put(waiting.key, waiting, owner, monotonic())
        self._wanted.set()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if self._queue.drop(waiting.key) is None and not waiting.turn.cancelled():  # it came at the last moment
                self.release(tokens, 0)
            raise

    def _try_begin(self, tokens: int) -> bool:
        now, limit = monotonic(), self._limit
        if self._busy >= self._slots or now > self._lease - MARGIN_S or now < self._pause:
            return False
        if limit.requests_per_minute is not None and self._allowance.requests < 1:
            return False
        if limit.tokens_per_minute is not None and self._allowance.tokens < min(tokens, limit.tokens_per_minute):
            return False
        self._allowance.requests -= 1
        self._allowance.tokens -= tokens
        self._busy += 1
        self._peak = max(self._peak, self._busy)
        return True

    def release(self, estimated: int, used: int, pause_s: float = 0.0) -> None:
        """Give a place back; the call was thought to use *estimated* tokens and used *used*; *pause_s* is asked for."""
        self._busy -= 1
        self._allowance.tokens += estimated - used
        if pause_s:
            pause_s = min(pause_s, LONGEST_PAUSE_S)
            self._pause_s = max(self._pause_s, pause_s)
            self._pause = max(self._pause, monotonic() + pause_s)
            self._wanted.set()
        self._admit_waiting()

    @property
    def paused_s(self) -> float:
        """How long nothing may be asked."""
        return max(0.0, self._pause - monotonic())

    def record_output_tokens(self, output_tokens: int) -> None:
        """Improve the estimate with the tokens that a model wrote."""
        self._expected_output += (output_tokens - self._expected_output) * (
            1.0 if self._expected_output == INITIAL_OUTPUT_TOKENS else 0.125
        )

    def _admit_waiting(self) -> None:
        now = monotonic()
        while len(self._queue):
            first = self._queue.peek(now)
            if first.turn.done():  # cancelled in this very moment, and not yet gone by itself: it must not take a place
                self._queue.drop(first.key)
                continue
            if not self._try_begin(first.tokens):
                if self._busy < self._slots:
                    self._wanted.set()  # what is missing is not a slot, so there may be more of it
                return
            self._queue.next(now).turn.set_result(None)

    async def run(self) -> None:
        """Exchange this decider's use with the others, for ever, while it holds or needs anything."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S if self._has_state_to_share() else None):
                    await self._wanted.wait()
            await asyncio.sleep(BATCH_WINDOW_S)
            self._wanted.clear()
            try:
                gained = await self._settle()
            except RegistersUnavailableError as error:
                gained = False
                self._log.info("a limit can't be kept while the broker is away", limit=self.name, error=str(error))
            self._admit_waiting()
            if len(self._queue):
                await asyncio.sleep(BATCH_WINDOW_S if gained else RETRY_S)
                self._wanted.set()

    def _has_state_to_share(self) -> bool:
        """Whether there is anything to report to the others, or to return."""
        left, limit = self._allowance, self._limit
        unused = (limit.requests_per_minute is not None and left.requests > 0) or (
            limit.tokens_per_minute is not None and left.tokens > 0
        )
        return bool(len(self._queue) or self._busy or self._slots or self._pause_s or unused)

    async def _settle(self) -> bool:
        """Report what is used and reserve what is available; True where that was anything new."""
        await self._registers.sync()
        for _ in range(MAX_WRITES):
            began = monotonic()
            found = await self._registers.read(self._key)
            shared = self._parse_use(found.body)
            limit_request = self._limit_request()
            after, grant = grant_request(shared, limit_request, self._limit)
            if await self._registers.write(self._key, after.model_dump_json().encode(), found.revision):
                return self._apply_grant(limit_request, grant, began)
        return True  # others were faster every time, so there is something to be had

    def _parse_use(self, body: bytes | None) -> ProviderLimitState:
        """Return the shared use; an empty one where it can't be read, as after a loss in the broker."""
        try:
            return ProviderLimitState() if body is None else ProviderLimitState.model_validate_json(body)
        except ValidationError as error:
            self._log.error("a limit's register can't be read", limit=self.name, problems=error.error_count())
            return ProviderLimitState()

    def _apply_grant(self, limit_request: LimitRequest, grant: ProviderLimitShare, began: float) -> bool:
        gained = grant.slots > self._slots or grant.requests > 0 or grant.tokens > 0
        self._slots, self._peak, self._lease = grant.slots, self._busy, began + LEASE_S
        self._pause = max(self._pause, monotonic() + grant.pause_s)
        self._pause_s = 0.0 if self._pause_s <= limit_request.pause_s else self._pause_s
        self._allowance.requests += grant.requests - limit_request.returned_requests
        self._allowance.tokens += grant.tokens - limit_request.returned_tokens
        if grant.requests or grant.tokens:
            self._allowance.since = began
        return gained

    def _limit_request(self) -> LimitRequest:
        """Report what is used and ask for what waits; what was reserved and not used within an interval is returned."""
        waiting, allowance, limit = self._queue.items(), self._allowance, self._limit
        stale = monotonic() - allowance.since > INTERVAL_S
        returned = (
            allowance.requests if stale else min(0, allowance.requests),
            allowance.tokens if stale else min(0, allowance.tokens),
        )
        kept = allowance.requests - returned[0], allowance.tokens - returned[1]
        first = self._queue.peek(monotonic()).tokens if waiting else 0
        requests = _prefetch_amount(len(waiting), 1, limit.requests_per_minute) - kept[0] if waiting else 0
        tokens = (
            _prefetch_amount(sum(one.tokens for one in waiting), first, limit.tokens_per_minute) - kept[1]
            if waiting
            else 0
        )
        return LimitRequest(
            decider=self._decider,
            now=self._registers.now(),
            busy=self._busy,
            wants=max(self._busy + len(waiting), self._peak),
            requests=max(0, requests),
            tokens=max(0, tokens),
            min_tokens=max(0, min(tokens, first - kept[1])),
            returned_requests=returned[0],
            returned_tokens=returned[1],
            pause_s=self._pause_s,
        )


def _prefetch_amount(needed: int, first: int, limit: int | None) -> int:
    """Return how much of a minute to reserve: for those that wait, at most a twentieth, at least for one call."""
    return 0 if limit is None else min(limit, max(first, min(needed, limit // PREFETCH_SHARE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPermit:
    """A call's permission at every limit that applies to it, each with the estimated tokens."""

    limits: tuple[tuple[SharedProviderLimit, int], ...]


class ProviderLimiter:
    """The limits of this decider's providers. `loops` run for ever.

    A request that waits lends its slot in the decider to other requests, so that one limited provider does not delay
    requests for another. No more slots are lent than the decider has, a share at each limit; calls beyond that keep
    their slot and wait for a short time only.
    """

    def __init__(
        self,
        limits: Mapping[str, ProviderLimit],
        registers: SharedRegisters,
        log: Logger,
        metrics: DeciderMetrics,
        *,
        hold: Callable[[int], None],
        places: int = 64,
    ) -> None:
        """*limits* are by provider, or by provider and model: `openai`, `openai:gpt-5`; the decider has *places*.

        *hold* is called with -1 when a waiting request lends its slot, and with 1 when the request takes it back.
        """
        self._max_lent = max(1, places // max(1, len(limits)))
        self._hold = hold
        self._limits = {name: SharedProviderLimit(name, limit, registers, log) for name, limit in limits.items()}
        self.loops = tuple(limit.run for limit in self._limits.values())
        self._metrics = metrics

    async def acquire(
        self, request: DecisionRequest, question: ModelQuestion, *, begun: bool = False
    ) -> ProviderPermit:
        """Wait for capacity at every limit of the request's model, for half its time; raises NoProviderCapacityError.

        Where too many wait, only one that has *begun*, and may have been paid for, waits as long.
        """
        provider = request.model.partition(":")[0]
        owner = QueueOwner(caller=request.caller, root=request.run_id, project=request.project)
        acquired: list[tuple[SharedProviderLimit, int]] = []
        began = monotonic()
        try:
            async with asyncio.timeout(request.timeout_ms / 2000):
                for name in (request.model, provider):
                    limit = self._limits.get(name)
                    if limit is not None:
                        tokens = limit.tokens_of(question, request.max_output_tokens)
                        await self._acquire_limit(limit, owner, tokens, begun=begun)
                        acquired.append((limit, tokens))
        except TimeoutError:
            self._release_unused(acquired)
            self._metrics.limiter_timeouts.labels(provider).inc()
            raise NoProviderCapacityError(provider) from None
        except asyncio.CancelledError:
            self._release_unused(acquired)
            raise
        if acquired:
            self._metrics.limiter_wait_s.labels(provider).observe(monotonic() - began)
        return ProviderPermit(limits=tuple(acquired))

    async def _acquire_limit(self, limit: SharedProviderLimit, owner: QueueOwner, tokens: int, *, begun: bool) -> None:
        if limit.try_acquire(tokens):
            return
        if begun or limit.lent_slots < self._max_lent:
            with self._lend_slot(limit):
                await limit.acquire(owner, tokens)
        else:
            async with asyncio.timeout(CROWDED_WAIT_S):
                await limit.acquire(owner, tokens)

    @contextlib.contextmanager
    def _lend_slot(self, limit: SharedProviderLimit) -> Iterator[None]:
        limit.lent_slots += 1
        self._hold(-1)
        try:
            yield
        finally:
            limit.lent_slots -= 1
            self._hold(1)

    def paused_s(self, name: str) -> float:
        """Return for how long nothing may be asked where the limit *name* is for."""
        return self._limits[name].paused_s

    @staticmethod
    def _release_unused(acquired: list[tuple[SharedProviderLimit, int]]) -> None:
        for limit, tokens in acquired:
            limit.release(tokens, 0)

    @staticmethod
    def release(permit: ProviderPermit, reply: ModelReply | ModelCallFailure | None) -> None:
        """Return capacity after a call; *reply* is None where nothing is known of the call."""
        for limit, estimated in permit.limits:
            match reply:
                case ModelReply():
                    limit.record_output_tokens(reply.usage.output_tokens)
                    limit.release(estimated, reply.usage.total_tokens)
                case ModelCallFailure() if reply.code == RATE_LIMITED:
                    limit.release(estimated, 0, reply.retry_after_s or DEFAULT_PAUSE_S)
                case _:
                    limit.release(estimated, estimated)

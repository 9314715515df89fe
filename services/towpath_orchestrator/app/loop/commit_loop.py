"""The commit loop: facts in, one transaction, effects out.

A fact is acknowledged only after its transition is committed, and effects leave only then. A run that another
replica moved is reloaded and redone; a run that the machine can't advance is parked, and the others go on.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import asyncpg
from nats.aio.msg import Msg

from towpath_contracts.events import log as ev
from towpath_contracts.facts import AnyFact, MessageDead, RunAdmitted, TimerFired
from towpath_engine.advance import advance
from towpath_engine.handlers.quarantine import parking
from towpath_engine.handlers.transition import Transition
from towpath_engine.requests.effects import Effect, message_of, sayable_again
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.dead_letters import About, DeadLetters, about_of
from towpath_fabric.nats.pull_consumer import ack, nak
from towpath_fabric.ports import Database, Feed
from towpath_fabric.postgres.pinned_connection import Lane
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.budget_store import Committed
from towpath_orchestrator.adapters.run_store import QUERIES, Moved, RunTables, commit_batch, event_text, times
from towpath_orchestrator.app.loop.admission import Admission
from towpath_orchestrator.app.loop.budget_accounting import Charging
from towpath_orchestrator.app.loop.budget_limits import Limits
from towpath_orchestrator.app.loop.child_runs import Children, born_of, has_news
from towpath_orchestrator.app.loop.effect_dispatcher import Sender
from towpath_orchestrator.app.loop.inbox import Item, parse, run_of
from towpath_orchestrator.app.loop.run_tracing import RunTracing
from towpath_orchestrator.app.loop.state_cache import DatabaseClock, StateCache, Waiters
from towpath_orchestrator.app.loop.state_snapshots import Saving
from towpath_orchestrator.app.loop.transition_metrics import Telling
from towpath_orchestrator.app.loop.workspace_texts import Desks, texts_of
from towpath_orchestrator.metrics import Metrics
from towpath_orchestrator.settings import OrchestratorSettings

CONFLICT_TRIES = 5
"""Times a contested run is redone before its facts are handed back to the broker."""

CONTESTED_S = 0.2
"""Before the fact of a contested run comes again."""

WARY_BATCHES = 64
"""After another replica moved one of our runs, this many batches look before they leap."""


class CommitLoop:
    """Folds facts of many runs per transaction. One per process; `run` never returns."""

    def __init__(
        self,
        pool: Database,
        tables: RunTables,
        inbox: Feed,
        arrived: asyncio.Event,
        settings: OrchestratorSettings,
        metrics: Metrics,
        log: Logger,
        limits: Limits,
    ) -> None:
        self._pool = pool
        self._tables = tables
        self._inbox = inbox
        self._arrived = arrived
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._local: deque[Item] = deque()
        self.cache = StateCache(settings.cache_runs)
        self.waiters = Waiters()
        self.endings = Waiters()
        self.sender: Sender | None = None
        self.children: Children | None = None
        self.admission: Admission | None = None
        self.tracing: RunTracing | None = None
        self._telling = Telling(metrics, log)
        self._saving = Saving(tables, settings.snapshot_every, log)
        self._errors: dict[UUID, str] = {}
        self._unreadable: dict[UUID, str] = {}
        self._lane = Lane(pool)
        self._dead = DeadLetters(pool, "INBOX", metrics.dead, log, self._tell_dead)
        self._clock = DatabaseClock()
        self._desks = Desks(pool, tables)
        self._wary = 0
        self._charging = Charging(limits, metrics.refused)

    def add(self, fact: AnyFact) -> None:
        """Queue a fact that this process made itself (timer, admission, fence)."""
        self._local.append(Item(fact=fact, text=fact.model_dump_json()))
        self._arrived.set()

    async def _tell_dead(self, fact: MessageDead) -> bool:
        self.add(fact)
        return True

    async def _give_back(self, message: Msg, run_id: UUID, error: str | None) -> None:
        """Hand back the fact of a contested run; one that Postgres refuses counts as failed, and in the end is dead."""
        if error is None:
            await nak(message, CONTESTED_S)
        else:
            await self._dead.failed(message, error, About(run_id=run_id, effect_id=about_of(message.data).effect_id))

    async def run(self) -> None:
        """Gather and process batches for ever."""
        while True:
            items = await self._gather()
            while items:
                try:
                    items = await self._process(items)
                except DATABASE_DOWN as error:
                    self._log.warning("postgres is away, waiting", error=str(error))
                    self._inbox.paused = True
                    await asyncio.sleep(0.25)
            self._inbox.paused = False

    async def _gather(self) -> list[Item]:
        while not self._local and not self._inbox.waiting:
            self._arrived.clear()
            await self._arrived.wait()
        size = self._settings.batch_size
        items = [self._local.popleft() for _ in range(min(size, len(self._local)))]
        for message in self._inbox.take_now(size - len(items)):
            crash_point("orchestrator.pulled")
            parsed = parse(message)
            if parsed.item is None:
                await self._dead.set_aside(message, parsed.reason, About(run_id=run_of(message.subject)))
            else:
                items.append(parsed.item)
        return items

    async def _process(self, items: list[Item]) -> list[Item]:
        """Fold one batch; returns the items of contested runs that must be redone."""
        facts: dict[UUID, list[Item]] = {}
        for item in items:
            facts.setdefault(item.fact.run_id, []).append(item)
        tries = 0
        while facts and tries < CONFLICT_TRIES:
            facts = await self._once(facts)
            tries += 1
        for run_id, left in facts.items():
            for item in left:
                if item.message is not None:
                    await self._give_back(item.message, run_id, self._errors.get(run_id))
            self._errors.pop(run_id, None)
            self._charging.forget(run_id)
        return []

    async def _once(self, facts: dict[UUID, list[Item]]) -> dict[UUID, list[Item]]:
        """Read, advance, commit, send, acknowledge; returns the contested runs."""
        await self._charging.ready()
        states, now, trusted = await self._read(list(facts))
        await self._desks.fill(states, facts)
        crash_point("orchestrator.read")
        batch: list[Moved] = []
        effects: dict[UUID, list[Effect]] = {}
        idle: list[UUID] = []
        for run_id, items in facts.items():
            state = states.get(run_id)
            if state is None:
                await self._unknown(items, self._unreadable.pop(run_id, "there is no such run"))
                continue
            moved, effects[run_id] = self._advance(state, self._charging.told(state, items, now), now)
            if moved.entries:
                batch.append(moved)
            else:
                idle.append(run_id)
        crash_point("orchestrator.advanced")
        committed = await self._commit(batch, now)
        await self._send_all([moved for moved in batch if moved.state.run_id in committed], effects)
        crash_point("orchestrator.effects_posted")
        await asyncio.sleep(0)  # the effects go out before the rest is written
        done: list[Item] = []
        for moved in batch:
            if moved.state.run_id in committed:
                await self._told(moved)
                done.extend(facts[moved.state.run_id])
        stale = await self._check_idle(idle, states, trusted=trusted) if idle else set()
        rested = [run_id for run_id in idle if run_id not in stale]
        await self._rest([states[run_id] for run_id in rested], facts)
        for run_id in rested:
            await self._send(effects[run_id], states[run_id])
            done.extend(facts[run_id])
        crash_point("orchestrator.before_ack")
        await self._acknowledge(done)
        await crash_point_sent("orchestrator.acked")
        contested = {moved.state.run_id for moved in batch} - committed
        return {run_id: facts[run_id] for run_id in (*contested, *stale)}

    async def _read(self, run_ids: list[UUID]) -> tuple[dict[UUID, RunState], datetime, bool]:
        """Return states and Postgres's time; third, whether the states were believed without looking.

        While no other replica moves our runs, cached states are tried as they are: the commit refuses what is stale,
        and a fact that would be ignored is looked at again (`_check_idle`). Time is Postgres's, at most a second old.
        """
        cached = {run_id: state for run_id in run_ids if (state := self.cache.get(run_id)) is not None}
        now = self._clock.read()
        if now is not None and self._wary == 0 and len(cached) == len(run_ids):
            return cached, now, True
        self._wary = max(0, self._wary - 1)
        asked = monotonic()
        now, budgets, seqs = await times(self._lane, run_ids)
        self._clock.set(now, asked)
        await self._charging.saw(budgets)
        return await self._states(run_ids, seqs), now, False

    async def _check_idle(self, idle: list[UUID], states: dict[UUID, RunState], *, trusted: bool) -> set[UUID]:
        """Return the runs whose facts were ignored on a state that was not the newest."""
        if not trusted:
            return set()
        _now, _budgets, seqs = await times(self._lane, idle)
        stale = {run_id for run_id in idle if seqs.get(run_id) != states[run_id].seq}
        for run_id in stale:
            self._stale(run_id)
        return stale

    def _stale(self, run_id: UUID) -> None:
        self._metrics.reloads.inc()
        self._wary = WARY_BATCHES
        self.cache.drop(run_id)

    async def _rest(self, idle: list[RunState], facts: dict[UUID, list[Item]]) -> None:
        """Correct the wake time of runs that were woken for nothing."""
        woken = [s for s in idle if any(isinstance(item.fact, TimerFired) for item in facts[s.run_id])]
        if woken:
            await self._tables.move_wake(woken)

    async def _states(self, facts: Iterable[UUID], seqs: dict[UUID, int]) -> dict[UUID, RunState]:
        found: dict[UUID, RunState] = {}
        for run_id in facts:
            stored = seqs.get(run_id)
            if stored is None:
                continue
            cached = self.cache.get(run_id)
            if cached is not None and cached.seq == stored:
                found[run_id] = cached
                continue
            if cached is None:
                self._metrics.loads.inc()
            else:
                self._stale(run_id)
            loaded = await self._load(run_id)
            if loaded is not None:
                self.cache.put(loaded)
                found[run_id] = loaded
        return found

    async def _load(self, run_id: UUID) -> RunState | None:
        """Load a run; one whose log can't be folded is parked, and the others go on."""
        try:
            return await self._tables.load(run_id)
        except DATABASE_DOWN:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one log must not stop the loop
            self._log.error("a run's log can't be read, it is parked", run_id=str(run_id), exc_info=error)
            self._unreadable[run_id] = f"the run's log can't be read: {type(error).__name__}"
            await self._pool.execute(QUERIES.park_unreadable, run_id)
            return None

    def _advance(self, state: RunState, items: list[Item], now: datetime) -> tuple[Moved, list[Effect]]:
        moved = Moved(before_seq=state.seq, state=state, gates=bool(state.gates), before=state)
        wanted: dict[UUID, Effect] = {}
        again = False
        for item in items:
            self._metrics.facts.labels(item.fact.type).inc()
            self._desks.add_new(item, moved.stored)
            try:
                entries, effects, after = advance(moved.state, item.fact, now)
                texts = [event_text(entry.event) for entry in entries]
                born = born_of(after, list(entries), now)
            except Exception as error:  # noqa: BLE001 - whatever a core bug raises, this run is parked and the others go on
                self._log.error("the machine can't advance a run", run_id=str(state.run_id), exc_info=error)
                self._park(moved, item, parking(moved.state, error, now))
                return moved, []
            if not entries:
                again = again or item.again
                continue
            moved.facts.append((moved.state.seq + 1, item.text))
            moved.entries.extend(entries)
            moved.texts.extend(texts)
            moved.state = after
            moved.stored.update(texts_of(effects))
            moved.born.extend(born)
            moved.gates = moved.gates or bool(after.gates)
            wanted.update({effect.effect.effect_id: effect for effect in effects})
        if again:  # folded before, and perhaps by a process that died before it could send
            return moved, [message_of(moved.state, pending) for pending in sayable_again(moved.state)]
        pending = {p.effect_id for p in moved.state.pending}
        return moved, [effect for key, effect in wanted.items() if key in pending]

    @staticmethod
    def _park(moved: Moved, item: Item, transition: Transition) -> None:
        moved.facts.append((moved.state.seq + 1, item.text))
        moved.entries.extend(transition.entries)
        moved.texts.extend(event_text(entry.event) for entry in transition.entries)
        moved.state = transition.state

    async def _commit(self, batch: list[Moved], now: datetime) -> set[UUID]:
        if not batch:
            return set()
        started = time.perf_counter()
        await self._charging.open(self._lane, batch)
        await self._desks.keep(batch)
        crash_point("orchestrator.before_commit")
        done = await self._commit_rows(batch, now)
        committed = done.moved
        crash_point("orchestrator.committed")
        self._metrics.commit_seconds.observe(time.perf_counter() - started)
        self._metrics.batch.observe(len(batch))
        for moved in batch:
            if moved.state.run_id in committed:
                self.cache.put(moved.state)
                self._saving.moved(moved)
            elif moved.state.run_id not in done.short:
                self._metrics.conflicts.inc()
                self._stale(moved.state.run_id)
        for fact in await self._charging.after(batch, done):
            self.add(fact)
        return committed

    async def _commit_rows(self, batch: list[Moved], now: datetime) -> Committed:
        """Commit a batch; a run that Postgres refuses must not take the others with it."""
        try:
            return await commit_batch(self._lane, batch, now, self._charging.version)
        except asyncpg.PostgresError as error:
            if isinstance(error, DATABASE_DOWN):
                raise
            if len(batch) == 1:
                run_id = batch[0].state.run_id
                self._log.error("postgres refuses a transition", run_id=str(run_id), error=str(error))
                self._errors[run_id] = f"{type(error).__name__}: {error}"
                return Committed()
        done = Committed()
        for moved in batch:
            done.add(await self._commit_rows([moved], now))
        return done

    async def _send_all(self, committed: list[Moved], effects: dict[UUID, list[Effect]]) -> None:
        """Send what a batch wants sent; who waits for longer goes first into what it leaves free."""
        windows = None if self.sender is None else self.sender.windows
        if windows is not None:
            for moved in committed:
                windows.settle(moved.before, moved.state)
        for moved in committed:
            await self._send(effects[moved.state.run_id], moved.state)
        if windows is not None:
            await windows.pump()

    async def _send(self, wanted: list[Effect], state: RunState) -> None:
        if self.sender is None:
            return
        for effect in wanted:
            if effect.effect.attempt > 1:
                self._metrics.resent.inc()
            await self.sender.send(effect, state)

    async def announce(self, moved: Moved, effects: list[Effect]) -> None:
        """Send what a transition committed elsewhere in this process (a new run) wants sent and told."""
        await self._send(effects, moved.state)
        await self._told(moved)

    async def _told(self, moved: Moved) -> None:
        state = moved.state
        if self.sender is not None:
            await self.sender.tell(state.run_id, state.created.project, moved.entries, moved.texts)
        self.waiters.moved(state.run_id)
        self._telling.told(moved)
        if self.children is not None and has_news(moved.entries, moved.before, state):
            await self.children.tell_parent(state)
        takes_over = moved.before is not None and all(child.ended for child in moved.before.children)
        for place, child in enumerate(moved.born):
            self.cache.put(child.state)
            if self.admission is None or self.admission.starts_born(child.state, takes_over=takes_over and place == 0):
                self.add(RunAdmitted(run_id=child.state.run_id))
            await self._told(child)
        if state.is_final and isinstance(moved.entries[-1].event, ev.RunFinished):
            self.endings.moved(state.run_id)
            if self.admission is not None:
                self.admission.freed()
            if self.tracing is not None:
                self.tracing.ended(state.run_id)

    async def _unknown(self, items: list[Item], reason: str) -> None:
        for message, fact in [(item.message, item.fact) for item in items if item.message is not None]:
            await self._dead.set_aside(message, reason, About(run_id=fact.run_id))

    async def _acknowledge(self, items: list[Item]) -> None:
        for message in [item.message for item in items if item.message is not None]:
            self._metrics.facts_handled.inc()
            await ack(message)

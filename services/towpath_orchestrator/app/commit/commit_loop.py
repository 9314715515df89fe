"""The commit loop: facts in, one transaction, effects out.

A fact is acknowledged only after its transition is committed, and effects leave only then. So after a crash in between
the fact comes again, or the effect is still pending and is sent again. A run that another replica moved is read and
folded once more; a run that the engine can't advance is parked, and the others go on.

Where Postgres refuses a value, the facts of the batch are weighed by halves until the one at fault is found. It alone
is refused; the good path costs nothing for that.
"""

import asyncio
from uuid import UUID

from towpath_contracts.facts import TimerFiredFact
from towpath_engine.state.run import RunState
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import VALUE_REFUSED
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.commit.batch_commit import BatchCommitter
from towpath_orchestrator.app.commit.budget_accounting import BudgetAccounting
from towpath_orchestrator.app.commit.fact_refusal import FactRefusal
from towpath_orchestrator.app.commit.inbox import Inbox, InboxFact, note_tried
from towpath_orchestrator.app.commit.output_reader import OutputReader
from towpath_orchestrator.app.commit.run_reader import BatchRunReader, LoadedRuns
from towpath_orchestrator.app.commit.state_snapshots import SnapshotSaver
from towpath_orchestrator.app.commit.transition_announcer import TransitionAnnouncer
from towpath_orchestrator.app.commit.workspace_texts import WorkspaceTextStore
from towpath_orchestrator.app.dispatch.effect_dispatcher import EffectDispatcher
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.core.refused_facts import halves_of
from towpath_orchestrator.core.transitions import Transition, fold_facts
from towpath_orchestrator.metrics import OrchestratorMetrics

CONFLICT_TRIES = 5
"""Times a contested run is redone before its facts are handed back to the broker."""

DATABASE_RETRY_S = 0.25

FactsByRun = dict[UUID, list[InboxFact]]


class CommitLoop:
    """Folds facts of many runs per transaction. One per process; `run` never returns."""

    def __init__(
        self,
        *,
        inbox: Inbox,
        local_facts: LocalFactQueue,
        reader: BatchRunReader,
        store: RunStore,
        cache: StateCache,
        accounting: BudgetAccounting,
        texts: WorkspaceTextStore,
        outputs: OutputReader,
        committer: BatchCommitter,
        snapshots: SnapshotSaver,
        dispatcher: EffectDispatcher,
        announcer: TransitionAnnouncer,
        metrics: OrchestratorMetrics,
        log: Logger,
    ) -> None:
        self._inbox = inbox
        self._local_facts = local_facts
        self._reader = reader
        self._store = store
        self._cache = cache
        self._accounting = accounting
        self._texts = texts
        self._outputs = outputs
        self._committer = committer
        self._snapshots = snapshots
        self._dispatcher = dispatcher
        self._announcer = announcer
        self._refusal = FactRefusal(inbox, local_facts, cache, store, log)
        self._metrics = metrics
        self._log = log

    async def run(self) -> None:
        """Take and process batches for ever."""
        while True:
            async with self._inbox.next_batch() as items:
                await self._process_until_stored(items)

    async def _process_until_stored(self, items: list[InboxFact]) -> None:
        while items:
            try:
                await self._process(items)
                items = []
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, waiting", error=str(error))
                self._inbox.pause(paused=True)
                note_tried(items)  # a commit that got no answer may be done: what it wants sent was not sent
                await asyncio.sleep(DATABASE_RETRY_S)
        self._inbox.pause(paused=False)

    async def _process(self, items: list[InboxFact]) -> None:
        """Fold one batch; contested runs are redone a few times, then their facts go back to the broker."""
        facts: FactsByRun = {}
        for item in items:
            if not item.is_refused:
                facts.setdefault(item.fact.run_id, []).append(item)
        tries = 0
        while facts and tries < CONFLICT_TRIES:
            facts = await self._weigh(facts)
            tries += 1
            for left in facts.values():
                note_tried(left)  # another replica may have folded them, and died before it could send
        for run_id, left in facts.items():
            await self._inbox.give_back(left, self._committer.take_error(run_id))
            self._accounting.forget(run_id)

    async def _weigh(self, facts: FactsByRun) -> FactsByRun:
        """Process facts; where a value is refused, all but the one at fault. Returns the facts of contested runs."""
        try:
            return await self._process_once(facts)
        except VALUE_REFUSED as error:
            halves = halves_of(facts)
            if not halves:
                ((item,),) = facts.values()
                await self._refusal.refuse(item, error, self._commit_alone)
                return {}
        left = await self._weigh(halves[0])
        later = halves[1]
        for run_id in left.keys() & later.keys():  # the facts of a run stay in their order
            left[run_id] += later.pop(run_id)
        return left | (await self._weigh(later) if later else {})

    async def _commit_alone(self, run_id: UUID, item: InboxFact) -> bool:
        return not await self._weigh({run_id: [item]})

    async def _process_once(self, facts: FactsByRun) -> FactsByRun:
        """Read, fold, commit, send, acknowledge; returns the facts of contested runs."""
        await self._accounting.load()
        runs = await self._reader.read(list(facts))
        await self._texts.load(runs.states, facts)
        await self._outputs.load(runs.states, facts)
        crash_point("orchestrator.read")
        transitions = await self._fold(runs, facts)
        crash_point("orchestrator.advanced")
        batch = [transition for transition in transitions.values() if transition.entries]
        committed = await self._commit(batch, runs)
        done = [transition for transition in batch if transition.state.run_id in committed]
        self._announcer.count_stored(done)
        await self._dispatcher.dispatch_batch(done)
        crash_point("orchestrator.effects_posted")
        await asyncio.sleep(0)  # lets the connection write the effects before the events
        for transition in done:
            await self._announcer.announce(transition)
        idle = [run_id for run_id, transition in transitions.items() if not transition.entries]
        stale = await self._reader.find_stale(runs, idle)
        rested = [run_id for run_id in idle if run_id not in stale]
        await self._correct_wake_times([runs.states[run_id] for run_id in rested], facts)
        for run_id in rested:
            await self._dispatcher.dispatch(transitions[run_id])
        crash_point("orchestrator.before_ack")
        settled = [*(transition.state.run_id for transition in done), *rested]
        await self._inbox.acknowledge([item for run_id in settled for item in facts[run_id]])
        await crash_point_after_flush("orchestrator.acked")
        contested = {transition.state.run_id for transition in batch} - committed
        return {run_id: facts[run_id] for run_id in (*contested, *stale)}

    async def _fold(self, runs: LoadedRuns, facts: FactsByRun) -> dict[UUID, Transition]:
        """Fold the facts of every run that there is; the others' facts become dead letters."""
        transitions: dict[UUID, Transition] = {}
        missing: list[tuple[InboxFact, str]] = []
        for run_id, items in facts.items():
            state = runs.states.get(run_id)
            if state is None:
                why = self._reader.why_missing(run_id)
                missing += [(item, why) for item in items]
                continue
            items_with_budget = self._accounting.with_budget_facts(state, items, runs.now)
            for item in items_with_budget:
                self._metrics.facts.labels(item.fact.type).inc()
            transition = transitions[run_id] = fold_facts(state, items_with_budget, runs.now)
            if transition.failure is not None:
                self._log.error("the engine can't advance a run", run_id=str(run_id), exc_info=transition.failure)
        await self._inbox.set_aside(missing)
        return transitions

    async def _commit(self, batch: list[Transition], runs: LoadedRuns) -> set[UUID]:
        """Commit the transitions and keep what they give; returns the runs that moved."""
        if not batch:
            return set()
        result = await self._committer.commit(batch, runs.now)
        for transition in batch:
            run_id = transition.state.run_id
            if run_id in result.moved:
                self._cache.put(transition.state)
                self._snapshots.save_if_due(transition)
            elif run_id not in result.short:
                self._metrics.conflicts.inc()
                self._reader.mark_stale(run_id)
        for fact in await self._accounting.after_commit(batch, result):
            self._local_facts.add(fact)
        return result.moved

    async def _correct_wake_times(self, idle: list[RunState], facts: FactsByRun) -> None:
        """Move the wake time of runs that were woken for nothing to where it belongs."""
        woken = [s for s in idle if any(isinstance(item.fact, TimerFiredFact) for item in facts[s.run_id])]
        if woken:
            await self._store.move_wake(woken)

"""Announces committed transitions: to readers of events, to whoever waits for a run, to parents, children and metrics.

None of it is needed for a run to go on. What is lost here is found by a reader's sweep, or asked for again.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from towpath_contracts.facts import RunAdmittedFact
from towpath_orchestrator.app.admission import AdmissionController
from towpath_orchestrator.app.commit.run_telemetry import TransitionMetrics
from towpath_orchestrator.app.dispatch.child_messenger import ChildRunReporter
from towpath_orchestrator.app.dispatch.publishers import EventPublisher
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.state_cache import RunWaiters, StateCache
from towpath_orchestrator.app.stored_bytes import StoredBytesCounter
from towpath_orchestrator.core.child_reports import has_news_for_parent
from towpath_orchestrator.core.transitions import Transition


class TransitionAnnouncer:
    """Tells everybody concerned of a transition, after its commit. One per process."""

    def __init__(
        self,
        events: EventPublisher,
        children: ChildRunReporter,
        admission: AdmissionController,
        cache: StateCache,
        local_facts: LocalFactQueue,
        metrics: TransitionMetrics,
        stored: StoredBytesCounter,
        trace_run: Callable[[UUID], None],
    ) -> None:
        """*trace_run* is called with every run that has ended."""
        self._events = events
        self._children = children
        self._admission = admission
        self._cache = cache
        self._local_facts = local_facts
        self._metrics = metrics
        self._stored = stored
        self._trace_run = trace_run
        self.changes = RunWaiters()
        self.endings = RunWaiters()

    def count_stored(self, transitions: Iterable[Transition]) -> None:
        """Count what transitions have stored, and those that their children begin with; at once after the commit.

        Whatever is awaited between them may be cancelled by the stop of the process.
        """
        for transition in transitions:
            self._stored.add(transition.state.created.project, transition.texts)
            self.count_stored(transition.children)

    async def announce(self, transition: Transition) -> None:
        """Announce a transition, and those that its children begin with."""
        state = transition.state
        await self._events.publish(state.run_id, state.created, transition.entries, transition.texts)
        self.changes.wake(state.run_id)
        self._metrics.observe(transition)
        if has_news_for_parent(transition):
            await self._children.report_to_parent(state)
        await self._start_children(transition)
        if transition.ends_run:
            self.endings.wake(state.run_id)
            self._admission.freed()
            self._trace_run(state.run_id)

    async def _start_children(self, transition: Transition) -> None:
        """The first child takes over its parent's room, where no other child of it lives."""
        takes_over = transition.before is not None and all(child.ended for child in transition.before.children)
        for place, child in enumerate(transition.children):
            self._cache.put(child.state)
            if self._admission.starts_child(child.state, takes_over=takes_over and place == 0):
                self._local_facts.add(RunAdmittedFact(run_id=child.state.run_id))
            await self.announce(child)

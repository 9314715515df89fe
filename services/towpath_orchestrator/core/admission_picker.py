"""Which runs may begin: how much room there is, who holds it, and who waits.

    submitted ──> may_start ──yes──> running ──waits for people or children──> holds no room
                      │ no                │ ended
                      v                   v
                   queued <──────── room for the next one: whoever holds least, then whoever was served longest ago

Nothing can wait for ever for room that waits for it. Room is held by runs that can move: they wait for a model or a
tool, and that ends. A parent gives its room up while a child of it lives, so those who hold room are leaves of their
trees; a leaf ends without anybody's room, and then its parent moves, which has only fewer children than before.

No project has all of anything, however many callers and networks it has: a part of the room, of the queue and of the
runs that may wait for people is left to others.

Every replica counts for itself: a count is read from the run tables now and then, and what this process starts in
between is added to it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

FORGET_S = 1.0
"""How long the fact that begins a run is not repeated: far more than its commit takes."""

CALLERS_KEPT = 1_000
"""Callers whose last turn is remembered; of more callers than that, the rest count as never served."""

COUNTED_OFTEN = 1_000
"""Queued runs that each look counts: with more of them, what each counts would grow with the queue."""

COUNT_ALL_EVERY_S = 1.0
"""How often a longer queue is counted to its end. In between, what is queued here is added."""

Holder = tuple[str, str, str]
"""Project, caller and network of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """`active` runs hold room in all, `active_share` of one caller and network; `queued_share` of one caller wait.

    `waiting` runs may wait for people. Of these three a project may have what begins with its name.
    """

    active: int
    active_share: int
    queued_share: int
    waiting: int
    project_active: int
    project_queued: int
    project_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """Runs as the tables hold them: who holds room, how many wait for it, how many wait for people.

    `queues` are those of callers, and `project_queues` and `project_waiting` those of projects, with many. Of each
    project no more than its share is `waiting`. Of a queue that is not `whole`, only the first were counted, whosever.
    """

    held: Counter[Holder]
    queued: int
    queues: Counter[str]
    waiting: int
    whole: bool = True
    project_queues: Counter[str] = field(default_factory=Counter[str])
    project_waiting: Counter[str] = field(default_factory=Counter[str])


class AdmissionPicker:
    """Counts who holds room, and decides who may have some."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self.held: Counter[Holder] = Counter()
        """Runs that hold room by project, caller and network, as last counted, and what was begun here since."""
        self.queued = 0
        self.queues: Counter[str] = Counter()
        """How many runs of a caller wait for room, of those with many; counted like `held`."""
        self.crowded = False
        """Whether so many runs wait for people that no new ones are started; children still are."""
        self.crowded_projects: frozenset[str] = frozenset()
        """Projects of which so many wait for people that no new ones of theirs are started."""
        self._project_queues: Counter[str] = Counter()
        self._projects: OrderedDict[str, str] = OrderedDict()
        self._storing: Counter[Holder] = Counter()
        self._begun: Counter[Holder] = Counter()
        self._queueing: Counter[Holder] = Counter()
        self._admitted: OrderedDict[UUID, float] = OrderedDict()
        self._served: OrderedDict[str, None] = OrderedDict()
        self._count_all_at = 0.0

    @property
    def room(self) -> int:
        """How many runs may begin, of whichever project.

        Runs that people let go on need no room, so a project may have more under way than its share: these count as its
        share, and leave the others theirs.
        """
        most = self._limits.project_active
        return self._limits.active - sum(min(held, most) for held in self._held_of_projects().values())

    @property
    def served(self) -> list[str]:
        """Callers that were served, the one longest ago first."""
        return list(self._served)

    def may_start(self, holder: Holder) -> bool:
        """Decide whether a new run begins with its acceptance, and count it; else it waits in the queue."""
        self._note_project(holder)
        if self.queued or self.crowded or holder[0] in self.crowded_projects or not self._has_room(holder):
            self._queueing[holder] += 1
            self._queue(holder)
            return False
        for count in (self.held, self._storing, self._begun):
            count[holder] += 1
        return True

    def may_start_child(self, holder: Holder, *, takes_over: bool) -> bool:
        """Decide whether a child begins with its creation.

        The first child of a parent *takes over* its room: the parent is not counted while children of it live. The
        others need room as everybody does, and wait for their turn behind nobody but other callers.
        """
        if not takes_over and (self.queued or not self._has_room(holder)):
            self._queue(holder)
            return False
        if not takes_over:
            self.held[holder] += 1
            self._begun[holder] += 1
        return True

    def not_started(self, holder: Holder) -> None:
        """Take back a count: the run was there already."""
        self.held[holder] -= 1

    def stored(self) -> None:
        """Note that what was counted before is committed now."""
        self._storing = Counter()
        self._queueing = Counter()

    def is_queue_share_used(self, caller: str, coming: int) -> bool:
        """Return whether *caller* has its share of the queue, where *coming* tasks of it are not stored yet.

        So has one whose project has its share, once a task of that caller has come here.
        """
        more = max(0, coming - max(0, self.room))
        project = self._projects.get(caller)
        if project is not None and self._project_queues[project] + more >= self._limits.project_queued:
            return True
        return self.queues[caller] + more >= self._limits.queued_share

    def queued_to_count(self, most: int, now: float) -> int:
        """Return how many queued runs to count now, at most *most*; *now* is in seconds of any steady clock."""
        if now < self._count_all_at:
            return min(most, COUNTED_OFTEN)
        self._count_all_at = now + COUNT_ALL_EVERY_S
        return most

    def begin_count(self) -> "UncountedRuns":
        """Note that the tables are counted now: what is begun from now on, and what is not committed, is added."""
        self._begun = Counter()
        return UncountedRuns(unseen=Counter(self._storing), queueing=self._queueing.copy())

    def finish_count(self, started: "UncountedRuns", counts: RunCounts) -> None:
        """Take over a count of the tables."""
        self.held = counts.held + started.unseen + self._begun
        if counts.whole:
            self.queued = counts.queued + started.queueing.total()
            self.queues, self._project_queues = counts.queues.copy(), counts.project_queues.copy()
            for (project, caller, _), waits in started.queueing.items():
                self.queues[caller] += waits
                self._project_queues[project] += waits
        else:
            self.queued = max(self.queued, counts.queued)
        self.crowded = counts.waiting >= self._limits.waiting
        most = self._limits.project_waiting
        self.crowded_projects = frozenset(project for project, waits in counts.project_waiting.items() if waits >= most)

    def choose(self, candidates: Iterable[tuple[UUID, Holder]], now: float) -> Iterable[UUID]:
        """Yield those of the next *candidates* (a run, and whose it is) that were not admitted just before."""
        while self._admitted and now - next(iter(self._admitted.values())) > FORGET_S:
            self._admitted.popitem(last=False)
        for run_id, holder in candidates:
            self.held[holder] += 1  # admitted now or before, and not yet counted as running
            if run_id in self._admitted:
                continue
            self._admitted[run_id] = now
            self._note_served(holder[1])
            yield run_id

    def _note_served(self, caller: str) -> None:
        self._served.pop(caller, None)
        self._served[caller] = None
        while len(self._served) > CALLERS_KEPT:
            self._served.popitem(last=False)

    def _note_project(self, holder: Holder) -> None:
        self._projects.pop(holder[1], None)
        self._projects[holder[1]] = holder[0]
        while len(self._projects) > CALLERS_KEPT:
            self._projects.popitem(last=False)

    def _queue(self, holder: Holder) -> None:
        self.queued += 1
        self.queues[holder[1]] += 1
        self._project_queues[holder[0]] += 1

    def _has_room(self, holder: Holder) -> bool:
        if self.room <= 0 or self.held[holder] >= self._limits.active_share:
            return False
        return self._held_of_projects()[holder[0]] < self._limits.project_active

    def _held_of_projects(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (project, _, _), held in self.held.items():
            found[project] += held
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedRuns:
    """What a count of the tables may not see: runs that are begun here and not committed, and such that are queued."""

    unseen: Counter[Holder]
    queueing: Counter[Holder]

"""What is kept of a run whose values are looked up, which runs stand above it, and who may know what it was told.

A fork, a child and a reply know what the runs above them have seen: up to a step, or all of it. A model may have
written the task of a child, so the tasks that vouch are those of callers alone.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from uuid import UUID

from towpath_fabric.clock import monotonic
from towpath_fabric.turns.dedicated_threads import DedicatedThreads
from towpath_tas.adapters.origin_tables import SUMMARY, QuerySource, RunInputs, read_blob, read_tasks
from towpath_tas.core.provenance.call_values import EARLIER_TURNS, QUOTED_INPUTS
from towpath_tas.core.provenance.logged_answers import AnswersOfRun
from towpath_tas.core.provenance.provenance import UNDECLARED, RunProvenance
from towpath_tas.core.provenance.seen_results import add_document
from towpath_tas.core.provenance.text_readers import (
    ANYONE,
    KNOWN_TO_ALL,
    KNOWN_TO_NOBODY,
    NOBODY,
    CallDeclaration,
    TextReaders,
)
from towpath_tas.core.provenance.value_leaves import ValueSource

MAX_ANCESTORS = 16
"""Parent runs that are followed from a run upwards."""

FIRST_STEP = 1
EARLIER_AGENTS = "earlier agents"
"""The source of what a later step of a plan was given, as a denial names it."""

Ancestor = tuple[UUID, int, bool]
"""A run above a run, the first step of it that is not known there, and whether its log is read."""


class ToldAnswer(NamedTuple):
    """An answer of a run above or beside a run, which the run began with.

    Of `is_unread` it is not known what that run has read. `of_strangers` is what a caller brought: an answer of no run,
    or of one that was shown texts which this run does not have. `heard` are the runs whose readings may stand in it:
    its own and those before it in the thread; None where it may have been any.
    """

    source: ValueSource
    text: str
    is_unread: bool = False
    of_strangers: bool = False
    heard: frozenset[str] | None = None


@dataclass(slots=True)
class SeenRun:
    """What was read of a run so far, and of the runs above it.

    `above` are those of them that are still to be read, the topmost first; `vouching` are the tasks that vouch once
    they are, `told` are the answers that it began with, and `documents` the texts, until they are read. `kept` says
    that its task is known, `has_begun` that only its own calls are left to be read.

    With `readers` the runs below it, and below those above it, are read too, for who may know what they answered:
    `below` are those that are read just now, `answered` those that were read whole, `unread` those that were not, each
    with the run that asked it: what that run and those after it said may hold what nobody has looked at.

    `counted` is how much of its `chars` the cache counts for it.
    """

    project: str
    readers: bool = False
    knowledge: RunProvenance = field(default_factory=RunProvenance)
    seen: set[UUID] = field(default_factory=set)
    asked: set[UUID] = field(default_factory=set)
    answers: dict[UUID, AnswersOfRun] = field(default_factory=dict)
    kept: bool = False
    has_begun: bool = False
    above: deque[Ancestor] = field(default_factory=deque)
    vouching: list[RunInputs] = field(default_factory=list)
    told: deque[ToldAnswer] = field(default_factory=deque)
    documents: deque[str] = field(default_factory=deque)
    below: dict[str, "SeenRun"] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)
    counted: int = 0

    @property
    def chars(self) -> int:
        """Return about how much it holds."""
        return self.knowledge.chars + self.knowledge.below_chars + sum(run.chars for run in self.below.values())

    def may_know(self, children: Collection[str]) -> CallDeclaration:
        """Return who may know what *children* answered.

        What stands in it of what they read has readers of its own; their own words are known to all, as those of the
        run itself are. So it is only where all that they read was looked at.
        """
        if not self.unread.keys().isdisjoint(children):
            return KNOWN_TO_NOBODY
        return KNOWN_TO_ALL if children and self.answered.issuperset(children) else UNDECLARED

    def may_know_told(self, told: ToldAnswer) -> TextReaders | None:
        """Return who may know an answer that the run began with; None is undeclared."""
        if told.of_strangers or not (self.readers or told.is_unread):
            return None
        return NOBODY if told.is_unread or self._may_hold_unread(told) else ANYONE

    def _may_hold_unread(self, told: ToldAnswer) -> bool:
        """Return whether a child that was not read may have answered a run from which *told* may have it."""
        return bool(self.unread) if told.heard is None else not told.heard.isdisjoint(self.unread.values())

    def log_of(self, run_id: UUID) -> AnswersOfRun:
        """Return what was read of the log of this run, or of one above it."""
        return self.answers.setdefault(run_id, AnswersOfRun())


@dataclass(slots=True)
class RunAncestors:
    """The runs above a run, the nearest first.

    `vouching` are the tasks that callers wrote, the latest first; without all of its ancestors (`whole`) none vouches.
    Of a thread that is `cut` the oldest are left out. To one that was `brought` a caller gave answers of no run. What
    they began with is `begun`.
    """

    vouching: list[RunInputs]
    runs: list[Ancestor] = field(default_factory=list)
    begun: list[RunInputs] = field(default_factory=list)
    whole: bool = True
    cut: bool = False
    brought: bool = False

    def told(self, task: RunInputs) -> list[ToldAnswer]:
        """Return what was answered in the conversation before *task*.

        Who may know an answer is known from what its run has read; where that is not read, nobody may. It is neither
        where a run was shown an image or a PDF, nor in the answers after it, which may have it from there; and nobody
        says who may know a text that a caller gave to it and not to this run.
        """
        given = {*task.quoted, *task.documents}
        order = [str(run_id) for run_id, _, _ in self.runs]
        read = {run_id: frozenset(order[place:]) for place, run_id in enumerate(order)}
        unseen = self._that_know(lambda run: run.unreadable)
        unsaid = self._that_know(lambda run: not given.issuperset((*run.quoted, *run.documents)))
        found = []
        for said_by, text in task.answered:
            if said_by == SUMMARY:
                is_unread = self.cut or bool(unseen)
                strange = self.brought or bool(unsaid)
            else:
                is_unread = bool(said_by) and (said_by not in read or said_by in unseen)
                strange = not said_by or said_by in unsaid
            source, of_strangers = ValueSource(EARLIER_TURNS), strange and not is_unread
            found.append(ToldAnswer(source, text, is_unread, of_strangers, read.get(said_by)))
        return found

    def _that_know(self, shown: Callable[[RunInputs], bool]) -> set[str]:
        """Return the runs that may know what one of them was *shown*: the first that was, and all that follow it."""
        first = max((place for place, run in enumerate(self.begun) if shown(run)), default=-1)
        return {str(run_id) for run_id, _, _ in self.runs[: first + 1]}


async def find_ancestors(source: QuerySource, run: SeenRun, task: RunInputs) -> RunAncestors:
    """Follow a run upwards. Where earlier agents have answered a step of a plan, that is added at once."""
    found = RunAncestors(vouching=[] if task.born else [task], brought=_was_brought(task))
    while task.parent is not None and len(found.runs) < MAX_ANCESTORS:
        run_id, before = task.parent
        above = (await read_tasks(source, [run_id])).get(run_id)
        if above is None or above.project != run.project:
            found.runs.append((run_id, before, False))
            found.whole = False
            return found
        # The task of a plan's step has the answers that it was given; the others in the log it does not know, and of
        # its own step nothing. A fork of the plan has its parent's steps before its own first one.
        of_step = above.composed and task.born
        found.runs.append((run_id, before - 1 if of_step else before, not above.composed))
        found.begun.append(above)
        if of_step and before > FIRST_STEP + 1:
            for text in task.texts:
                run.told.append(ToldAnswer(ValueSource(EARLIER_AGENTS, before - 1), text))
        if above.born:
            found.vouching = []  # a model may have written all that is below it
        elif task.continues or not found.vouching:
            found.vouching.append(above)
        task = above
        found.brought = found.brought or _was_brought(task)
    found.cut = task.parent is not None and task.continues and len(found.runs) == MAX_ANCESTORS
    found.whole = task.parent is None or found.cut
    return found


async def read_documents(source: QuerySource, run: SeenRun, threads: DedicatedThreads, until: float) -> bool:
    """Read the texts that are attached to a run; returns whether the time sufficed for all. One is read in any case."""
    while run.documents:
        digest = run.documents[0]
        data, is_whole = await read_blob(source, run.project, digest)
        await threads.run(partial(add_document, run.knowledge, ValueSource(QUOTED_INPUTS), data, whole=is_whole))
        if run.documents and run.documents[0] is digest:  # only now: a concurrent reader has to read it itself
            run.documents.popleft()
        if run.documents and monotonic() > until:
            return False
    return True


async def is_run_of(source: QuerySource, run_id: str, project: str) -> bool:
    """Return whether there is such a run of *project*."""
    found = await read_tasks(source, [UUID(run_id)])
    return any(task.project == project for task in found.values())


def _was_brought(task: RunInputs) -> bool:
    return any(not said_by for said_by, _ in task.answered)

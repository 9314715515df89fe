"""What is kept of a run whose values are looked up, and which runs stand above it.

A fork, a child and a reply know what the runs above them have seen: up to a step, or all of it. A model may have
written the task of a child, so the tasks that vouch are those of callers alone.
"""

from collections import deque
from dataclasses import dataclass, field
from uuid import UUID

from towpath_tas.adapters.origin_tables import QuerySource, RunInputs, read_tasks
from towpath_tas.core.provenance.logged_answers import AnswersOfRun
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.value_leaves import ValueSource

MAX_ANCESTORS = 16
"""Parent runs that are followed from a run upwards."""

FIRST_STEP = 1
EARLIER_AGENTS = "earlier agents"
"""The source of what a later step of a plan was given, as a denial names it."""

Ancestor = tuple[UUID, int, bool]
"""A run above a run, the first step of it that is not known there, and whether its log is read."""


@dataclass(slots=True)
class SeenRun:
    """What was read of a run so far, and of the runs above it.

    `above` are those of them that are still to be read, the topmost first; `vouching` are the tasks that vouch once
    they are. `kept` says that its task is known, `has_begun` that only its own calls are left to be read.
    """

    project: str
    knowledge: RunProvenance = field(default_factory=RunProvenance)
    seen: set[UUID] = field(default_factory=set)
    asked: set[UUID] = field(default_factory=set)
    answers: dict[UUID, AnswersOfRun] = field(default_factory=dict)
    kept: bool = False
    has_begun: bool = False
    above: deque[Ancestor] = field(default_factory=deque)
    vouching: list[RunInputs] = field(default_factory=list)

    def log_of(self, run_id: UUID) -> AnswersOfRun:
        """Return what was read of the log of this run, or of one above it."""
        return self.answers.setdefault(run_id, AnswersOfRun())


@dataclass(slots=True)
class RunAncestors:
    """The runs above a run, the nearest first.

    `vouching` are the tasks that callers wrote, the latest first; without all of its ancestors (`whole`) none vouches.
    Of a thread that is `cut` the oldest are left out.
    """

    vouching: list[RunInputs]
    runs: list[Ancestor] = field(default_factory=list)
    whole: bool = True
    cut: bool = False


async def find_ancestors(source: QuerySource, run: SeenRun, task: RunInputs) -> RunAncestors:
    """Follow a run upwards. Where earlier agents have answered a step of a plan, that is added at once."""
    found = RunAncestors(vouching=[] if task.born else [task])
    while task.parent is not None and len(found.runs) < MAX_ANCESTORS:
        run_id, before = task.parent
        above = (await read_tasks(source, [run_id])).get(run_id)
        if above is None or above.project != run.project:
            found.runs.append((run_id, before, False))
            found.whole = False
            return found
        # The task of a plan's step has the answers that it was given; the others in the log it does not know.
        found.runs.append((run_id, before, not above.composed))
        if above.composed and task.born and before > FIRST_STEP + 1:
            for text in task.texts:
                run.knowledge.add_untrusted(ValueSource(EARLIER_AGENTS, before - 1), text)
        if above.born:
            found.vouching = []  # a model may have written all that is below it
        elif task.continues or not found.vouching:
            found.vouching.append(above)
        task = above
    found.cut = task.parent is not None and task.continues and len(found.runs) == MAX_ANCESTORS
    found.whole = task.parent is None or found.cut
    return found

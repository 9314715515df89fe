"""How long a run may be active: as its task says, else its network, else as is usual for its kind.

What takes many answers of a model needs more than a question and its answer: a goal and a swarm half an hour, a plan
an hour. An objective ends by its iterations. Whoever runs the platform sets other times, and the longest of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.run_limits import MAX_TIMEOUT_MS, USUAL_TIMES_MS
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.task_kinds import kind_of
from towpath_orchestrator.settings import OrchestratorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """Active times in ms: the usual one of each kind of run, and the longest of any run."""

    usual_ms: Mapping[str, int] = field(default_factory=lambda: USUAL_TIMES_MS)
    longest_ms: int = MAX_TIMEOUT_MS

    def of(self, task: SubmitTask, snapshot: NetworkSnapshot) -> int:
        """Return the active time of the run of *task*; that of a plan can only lower it."""
        own = task.timeout_ms or snapshot.timeout_ms or self.usual_ms[kind_of(task, snapshot)]
        planned = task.plan.timeout_ms if task.plan is not None else None
        return min(own, self.longest_ms, own if planned is None else planned)

    def problems(self, task: SubmitTask) -> list[ProblemDetail]:
        """Return what is wrong with the time that *task* asks for itself; a network's is cut."""
        if task.timeout_ms is None or task.timeout_ms <= self.longest_ms:
            return []
        detail = f"a run has at most {self.longest_ms} ms of active time here"
        return [ProblemDetail(pointer="/timeout_ms", code="limit_exceeded", detail=detail)]


USUAL_TIMES = RunTimes()
"""The times of a platform that sets none."""


def times_of(settings: OrchestratorSettings) -> RunTimes:
    """Return the times that *settings* say."""
    usual = {kind: getattr(settings, f"{kind}_timeout_ms") for kind in USUAL_TIMES_MS}
    return RunTimes(usual_ms=usual, longest_ms=settings.max_timeout_ms)

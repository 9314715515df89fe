"""Objectives in Python: what a background run pursues and hands over, and what came of it.

A builder only builds; whether an objective can be pursued is checked by the platform that takes the task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from towpath.declared_places import checks_keywords
from towpath.tasks.mounts import HostMount
from towpath.tasks.outputs import Output, read_output
from towpath_contracts.base import JsonObject
from towpath_contracts.runs.views import RunView

Handed = TypeVar("Handed", bound=BaseModel)


@checks_keywords
@dataclass(frozen=True, slots=True)
class Objective(Generic[Handed]):
    """An objective for `client.pursue(network, Objective("Review the change.", deliverable=Review))`.

    *objective* is one short ASCII sentence (at most 1,024 characters). *deliverable* is a pydantic model, or a JSON
    Schema; the run hands over an instance of it. *context_sections* (title → text) stand in every prompt, *mounts* are
    folders of this host that the run may read. *settings* are the fields of BackgroundRunSettings: `max_steps`,
    `max_failures`, `iteration_timeout_ms`, `enable_reflection`, `allow_plan_reset`. *factory* names an agent in user
    code (a BaseAgent that is served) that makes summary and deliverable; what it gets wrong fails the run.
    """

    objective: str
    deliverable: type[Handed] | JsonObject | None = field(default=None, kw_only=True)
    context_sections: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    mounts: Sequence[HostMount] = field(default=(), kw_only=True)
    settings: JsonObject = field(default_factory=dict, kw_only=True)
    factory: str | None = field(default=None, kw_only=True)

    def to_json(self) -> JsonObject:
        """Return the objective as SubmitTask writes it; reads the mounts, and raises RefusedError where it can't."""
        settings = {**self.settings, **({"summarize_model": f"agent:{self.factory}"} if self.factory else {})}
        return {
            "objective": self.objective,
            "deliverable_schema": self.schema(),
            "context_sections": [{"title": title, "text": text} for title, text in self.context_sections.items()],
            "mounts": [mount.to_json() for mount in self.mounts],
            **({"settings": settings} if settings else {}),
        }

    def schema(self) -> JsonObject | None:
        """Return the JSON Schema of the deliverable."""
        wanted = self.deliverable
        return wanted.model_json_schema() if isinstance(wanted, type) else wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveResult(Generic[Handed]):
    """What became of an objective: `session` is the run, whose record holds everything that happened."""

    status: Literal["completed", "abandoned", "failed", "escalated", "cancelled", "timed_out"]
    iterations: int
    failures: int
    final_summary: str
    deliverable: Handed | None
    rationale: str
    reason: str
    session: RunView


def result_of(view: RunView, deliverable: type[Output] | Any = None) -> ObjectiveResult[Any]:
    """Return the result of a finished background run; its deliverable is an instance where a model was asked for.

    Raises RefusedError `output_invalid` where the model's own validators refuse what its JSON Schema took.
    """
    final = view.final or {}
    handed = final.get("deliverable")
    if isinstance(deliverable, type) and handed is not None:
        handed = read_output(view, deliverable)
    reported: JsonObject = {"status": view.status, "reason": view.reason}
    return ObjectiveResult(
        iterations=int(final.get("iterations", view.step)),
        failures=int(final.get("failures", 0)),
        final_summary=str(final.get("final_summary", "")),
        deliverable=handed,
        rationale=str(final.get("rationale", "")),
        session=view,
        **reported,
    )


def objective_json(given: Any) -> Any:
    """Return what a task says as its objective: an Objective or a plain sentence as JSON, anything else as it is."""
    if isinstance(given, Objective):
        return given.to_json()
    return {"objective": given} if isinstance(given, str) else given

"""Goals: what a run is to reach, and how the platform finds out that it has.

A goal is reached when its criteria are met by what happened, never because a model says so.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from towpath_contracts.base import ClientMessagePart, JsonObject, SparseSettings, is_unset

GOAL_MAX_STEPS = 20
CONFIDENCE_EVERY = 5
CONFIDENCE_THRESHOLD = 0.5
STEP_ATTEMPTS = 3

OUT_OF_TIME = "timeout"
"""The cause of the gate at a goal's deadline: whoever lets it go on gives it its time once more."""

Autonomy = Literal["low", "medium", "high"]
"""Who is asked when a run is in doubt: low always a person, high only when nothing else is left."""


class Criterion(ClientMessagePart):
    """One acceptance criterion: a CEL expression over what happened (`when`), or a text that a model judges (`text`).

    An expression sees `artifacts`, `tests`, `workspace`, `last_output`, `results` and `claimed`, and must be exactly
    true.
    """

    name: str = Field(default="", max_length=128)
    when: str | None = Field(default=None, min_length=1, max_length=1_024)
    text: str | None = Field(default=None, min_length=1, max_length=1_024)

    @model_validator(mode="before")
    @classmethod
    def _plain_text(cls, given: Any) -> Any:
        """Take a plain text for one that a model judges."""
        return {"text": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _one_form(self) -> "Criterion":
        if (self.when is None) == (self.text is None):
            msg = "give either when (an expression) or text"
            raise ValueError(msg)
        return self

    def words(self) -> str:
        """Return the criterion as people read it."""
        return self.text or self.when or ""


class GoalSettings(SparseSettings):
    """How a goal is pursued; a task may set any of it, a network gives the defaults of its tasks.

    Without `allow_words` a run in which no call succeeded reaches nothing that a model judges: words show no deed. With
    `require_evidence` what a model finds met counts only where its evidence names a call, an artifact or a file of this
    run; where words are allowed it is not required, unless it is set. A run begins with both set; the logs of earlier
    ones do not have them, and go on as they did. `judge_model` judges steps and progress, in place of the model that
    acts.
    """

    max_steps: int | None = Field(default=None, ge=1, le=1_000)
    autonomy: Autonomy = "medium"
    confidence_every: int = Field(default=CONFIDENCE_EVERY, ge=1, le=1_000)
    confidence_threshold: float = Field(default=CONFIDENCE_THRESHOLD, ge=0, le=1)
    step_attempts: int = Field(default=STEP_ATTEMPTS, ge=1, le=10)
    validate_steps: bool = True
    specialists: tuple[str, ...] = Field(default=(), max_length=16)
    on_timeout: Literal["stop", "gate"] = "stop"
    allow_words: bool | None = None
    require_evidence: bool | None = Field(default=None, exclude_if=is_unset)
    judge_model: str | None = Field(default=None, max_length=256, exclude_if=is_unset)


class GoalTask(ClientMessagePart):
    """A goal with its acceptance criteria and constraints; it makes the run one of kind `goal`."""

    goal: str = Field(min_length=1, max_length=16_384)
    acceptance_criteria: tuple[Criterion, ...] = Field(default=(), max_length=64)
    constraints: JsonObject = Field(default_factory=dict)
    settings: GoalSettings | None = None

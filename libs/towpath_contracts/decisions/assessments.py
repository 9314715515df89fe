"""What a model is asked beside decisions, and the shape of its answers.

An assessment never moves a run by itself: the run machine gets it, and decides. An answer that can't be
read fails closed: nothing is valid, nothing has progressed, nobody is confident.
"""

from typing import Literal

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.decisions.request import DecisionKind

MAX_ANSWER_TEXT = 4_000
"""Characters of a reason, a note or evidence."""

MAX_SUMMARY = 20_000


class CriterionJudgement(ClientMessagePart):
    """A model's judgement of one acceptance criterion; `criterion` is its number, counted from 0.

    `evidence` names what shows that it is met: the execution id of a call, an artifact or a file of the run.
    """

    criterion: int = Field(ge=0)
    met: bool
    evidence: str = Field(default="", max_length=MAX_ANSWER_TEXT)


class ResultValidationAnswer(ClientMessagePart):
    """A model's answer to `validate`: whether the last action did what it was for, and which criteria are met."""

    valid: bool
    reason: str = Field(default="", max_length=MAX_ANSWER_TEXT)
    criteria: tuple[CriterionJudgement, ...] = Field(default=(), max_length=64)
    uncertain: bool = False


class ConfidenceAnswer(ClientMessagePart):
    """A model's answer to `confidence`: how sure it is that the goal will be reached; 0 to 1, clamped by the reader."""

    confidence: float
    reason: str = Field(default="", max_length=MAX_ANSWER_TEXT)


class ProgressAnswer(ClientMessagePart):
    """A model's answer to `progress`: how much of the goal is reached, 0 to 1; None where it is not known.

    `evidence` names what shows that it is reached: a call, an artifact or a file of the run.
    """

    progress: float | None = None
    reason: str = Field(default="", max_length=MAX_ANSWER_TEXT)
    evidence: str = Field(default="", max_length=MAX_ANSWER_TEXT)


class ReflectionAnswer(ClientMessagePart):
    """A model's answer to `reflect`: what becomes of the run after a failure, or once its plan is completed.

    `retry` goes on with other parameters, `reset_plan` needs a `rationale`, and so does `abandon`; `complete` says that
    no work is left.
    """

    verdict: Literal["continue", "retry", "reset_plan", "abandon", "complete"]
    note: str = Field(default="", max_length=MAX_ANSWER_TEXT)
    rationale: str = Field(default="", max_length=MAX_ANSWER_TEXT)


class FinalSummaryAnswer(ClientMessagePart):
    """A model's answer to `summarize`: the last words of a run, and its deliverable where one was asked for."""

    summary: str = Field(max_length=MAX_SUMMARY)
    rationale: str = Field(default="", max_length=MAX_ANSWER_TEXT)
    deliverable: JsonObject | None = None


Assessment = ResultValidationAnswer | ConfidenceAnswer | ProgressAnswer | ReflectionAnswer | FinalSummaryAnswer

ANSWERS: dict[DecisionKind, type[Assessment]] = {
    DecisionKind.VALIDATE: ResultValidationAnswer,
    DecisionKind.CONFIDENCE: ConfidenceAnswer,
    DecisionKind.PROGRESS: ProgressAnswer,
    DecisionKind.REFLECT: ReflectionAnswer,
    DecisionKind.SUMMARIZE: FinalSummaryAnswer,
}
"""The shape of the answer to each kind of assessment; every other kind is answered by a Decision."""

UNJUDGED = "nothing is scripted for this assessment"
"""The reason of an answer that judged nothing; its number is nobody's word."""

NEUTRAL: dict[DecisionKind, JsonObject] = {
    DecisionKind.VALIDATE: {"valid": True, "reason": UNJUDGED},
    DecisionKind.CONFIDENCE: {"confidence": 1.0, "reason": UNJUDGED},
    DecisionKind.PROGRESS: {"progress": None, "reason": UNJUDGED},
    DecisionKind.REFLECT: {"verdict": "continue", "note": UNJUDGED},
    DecisionKind.SUMMARIZE: {"summary": UNJUDGED},
}
"""What the scripted model answers where its script has no entry of that kind: it says that it judged nothing."""


def assessment_schema(kind: DecisionKind) -> JsonObject:
    """Return the JSON Schema of the answer to *kind*; raises KeyError for a kind that is answered by a Decision."""
    return ANSWERS[kind].model_json_schema()

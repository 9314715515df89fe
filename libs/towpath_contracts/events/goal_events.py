"""Events of goal runs: attempts, validation, progress, confidence, and help that was sought.

As for every event, nothing is emitted where no goal is: a network run has the log it always had.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart

Rung = Literal["alternative", "specialist", "person"]
ProgressSource = Literal["tests", "artifacts", "model", "none"]


class BackedOff(MessagePart):
    """The next request waits until `until`: attempt number `attempt` of the step must not come at once."""

    type: Literal["backed_off"] = "backed_off"
    step: int
    attempt: int
    until: datetime
    reason: str = ""


class StepResultValidated(MessagePart):
    """What came of a step of a goal run, after all its attempts.

    `source` says who judged: `outcome` (the call failed), `model`, or `none`. `criteria` are the numbers of those that
    are met now; `error_signature` is empty for a step that succeeded.
    """

    type: Literal["step_validated"] = "step_validated"
    step: int
    attempt: int
    source: str
    success: bool
    reason: str = ""
    criteria: tuple[int, ...] = ()
    error_signature: str = ""
    uncertain: bool = False


class DenialEscalated(MessagePart):
    """A denied call of a goal run is followed by the next rung of the ladder: alternative, specialist, person.

    `target` is the agent that is asked, or the tools that are named instead.
    """

    type: Literal["help_sought"] = "help_sought"
    step: int
    tool: str
    rung: Rung
    target: str = ""
    reason: str = ""


class ProgressMeasured(MessagePart):
    """How far the goal is, 0 to 1, by `source` tests, artifacts or model, with that source's metrics.

    `artifacts` are those that are known by now.
    """

    type: Literal["progress_measured"] = "progress_measured"
    step: int
    source: ProgressSource
    score: float
    metrics: JsonObject = Field(default_factory=dict)
    reason: str = ""
    artifacts: tuple[JsonObject, ...] = ()


class GoalConfidenceMeasured(MessagePart):
    """How sure the model is, 0 to 1; what can't be read is 0.

    `trigger` is interval, uncertain, requested or failures.
    """

    type: Literal["confidence_measured"] = "confidence_measured"
    step: int
    score: float
    trigger: str
    reason: str = ""

"""Events of decisions: what was asked of a model, what it answered, what was made of it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart, is_unset
from towpath_contracts.budgets import Amounts, ChargedAttempt
from towpath_contracts.decisions.decision import Instruction
from towpath_contracts.decisions.request import Cost, PlayedScriptEntry, Usage
from towpath_contracts.networks.model_settings import ModelSettings

DECIDE = "decide"
"""The kind of request that opens a step; it is left out of what is written, so that older logs stay as they are."""


class DecisionRequested(MessagePart):
    """A step begins: the decider is asked. `input_preview` is what the execution log shows.

    `settings` are those that somebody chose for the model.
    """

    type: Literal["decision_requested"] = "decision_requested"
    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    model: str
    kind: str = "decide"
    input_preview: str = ""
    reserved: Amounts | None = Field(default=None, exclude_if=is_unset)
    settings: ModelSettings | None = Field(default=None, exclude_if=is_unset)


class DecisionReceived(MessagePart):
    """A model answered a request of `kind`. Usage and cost are of all its attempts."""

    type: Literal["decision_received"] = "decision_received"
    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    kind: str = Field(default=DECIDE, exclude_if=lambda kind: kind == DECIDE)
    decision: JsonObject
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    prompt_digest: str = ""
    raw_digest: str = ""
    script: PlayedScriptEntry | None = None
    answered: ChargedAttempt | None = Field(default=None, exclude_if=is_unset)


class DecisionRequestFailed(MessagePart):
    """A decision request of `kind` failed: no answer could be had from the model."""

    type: Literal["decision_missed"] = "decision_missed"
    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    kind: str = Field(default=DECIDE, exclude_if=lambda kind: kind == DECIDE)
    code: str
    message: str
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    prompt_digest: str = ""
    raw_digest: str = ""
    script: PlayedScriptEntry | None = None
    answered: ChargedAttempt | None = Field(default=None, exclude_if=is_unset)


class DecisionPostponed(MessagePart):
    """Attempt number `attempt` brought no answer, and the next one is sent at `until`, to `next_model` if that is set.

    A provider asks for time, or another model is asked in its place. `again_at` is when the first provider that asked
    for time may be asked again. Usage and cost are of that attempt; the request is still pending.
    """

    type: Literal["decision_postponed"] = "decision_postponed"
    request_id: UUID
    step: int
    agent_key: str
    kind: str = Field(default=DECIDE, exclude_if=lambda kind: kind == DECIDE)
    attempt: int
    until: datetime
    next_model: str = Field(default="", exclude_if=lambda model: not model)
    again_at: datetime | None = Field(default=None, exclude_if=is_unset)
    code: str
    message: str
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    answered: ChargedAttempt | None = Field(default=None, exclude_if=is_unset)


class DecisionRefused(MessagePart):
    """Validation refused a decision; `feedback` goes back to the model (shown as status `retry`)."""

    type: Literal["decision_refused"] = "decision_refused"
    step: int
    epoch: int
    agent_key: str
    code: str
    feedback: str


class InstructionIssued(MessagePart):
    """A decision passed validation: this is what the platform does.

    `file_list` is the digest of the list of files that its calls work with, where one does. It is stored before, and
    kept because it is named here: a call may wait for long until the ledger has it.
    """

    type: Literal["instruction_issued"] = "instruction_issued"
    step: int
    epoch: int
    agent_key: str
    instruction: Instruction
    file_list: str | None = Field(default=None, exclude_if=is_unset)

"""What the decider is asked and what it answers beside the Decision itself.

A DecisionRequest is complete; the decider keeps no state and knows no permissions.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart, is_unset
from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.decisions.epoch_turns import EpochTurns
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.swarm import handoff_name_in

LONGEST_MS = 30 * 24 * 3_600_000
"""The longest time that a decision may be waited for: more than any run lasts, less than clocks can count."""

CALL_UNASKED = "call_unasked"
"""The code of a request that found no place at its model's provider in time: nobody was paid, and it is asked anew."""

INVALID_ANSWER = "Your last answer was not a valid decision: "
"""What a model is told before the reason, when it is asked again."""

CALL_LOST = "call_lost"
"""Why there is no decision: somebody else had this attempt before, and may have paid a model for it."""

MAX_OUTPUT_TOKENS = 2**31 - 1


class DecisionKind(StrEnum):
    """What kind of answer is wanted."""

    DECIDE = "decide"
    REPLAN = "replan"
    VALIDATE = "validate"
    REFLECT = "reflect"
    CONFIDENCE = "confidence"
    PROGRESS = "progress"
    COMPILE_PLAN = "compile_plan"
    SUMMARIZE = "summarize"


class OfferedTool(MessagePart):
    """A tool as a model sees it: only the parameters that an agent may set."""

    name: str
    description: str = ""
    parameters: JsonObject


class OfferedRoute(MessagePart):
    """An agent that control may be handed to."""

    agent_key: str
    description: str = ""


class CutOutput(MessagePart):
    """How much of a text is shown: `size` is what the whole has, in bytes; beginning and end are counted in characters.

    Between them stands a line that says how much is left out.
    """

    size: int
    head_chars: int = 0
    tail_chars: int = 0


class FullToolOutput(MessagePart):
    """A tool output of the current epoch, as JSON text, so that it is encoded once; `cut` where it is a part."""

    execution_id: UUID
    tool: str
    step: int
    status: str
    text: str
    blob_digest: str | None = None
    cut: CutOutput | None = Field(default=None, exclude_if=is_unset)


class OlderOutput(MessagePart):
    """A tool output that no longer fits the context: id, how it begins, and its bytes (0: not known)."""

    execution_id: UUID
    tool: str
    preview: str
    size: int = Field(default=0, exclude_if=lambda size: size == 0)


class PromptContext(MessagePart):
    """Everything a prompt is rendered from; the same context always renders the same prompt.

    `run` is what every prompt of a goal or background run shows: goal, criteria, plan, workspace, last calls.
    `assessment` is what an assessment is to judge. `quoted_inputs` are texts of others that the caller quotes.
    `messages` are earlier turns of a conversation, oldest first: `messages_left_out` are missing behind two,
    and `messages_summary` is a model's summary of these. With `epoch_turns` the prompt is a conversation that is only
    added to.
    """

    agent_key: str
    display_name: str = ""
    base_prompt: str = ""
    user_message: str = ""
    handoff: str | None = None
    handoff_from: str | None = None
    tools: tuple[OfferedTool, ...] = ()
    routes: tuple[OfferedRoute, ...] = ()
    allow_respond: bool = False
    respond_schema: JsonObject | None = None
    respond_guidance: str = ""
    outputs: tuple[FullToolOutput, ...] = ()
    older_outputs: tuple[OlderOutput, ...] = ()
    older_count: int = 0
    log_summary: tuple[JsonObject, ...] = ()
    feedback: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    steps_left: int = 0
    quoted_inputs: dict[str, str] = Field(default_factory=dict, exclude_if=lambda texts: not texts)
    messages: tuple[EarlierTurn, ...] = Field(default=(), exclude_if=lambda turns: not turns)
    messages_left_out: int = Field(default=0, exclude_if=lambda count: count == 0)
    messages_summary: str = Field(default="", exclude_if=lambda text: not text)
    run_kind: str = Field(default="network", exclude_if=lambda kind: kind == "network")
    run: JsonObject | None = Field(default=None, exclude_if=is_unset)
    assessment: JsonObject | None = Field(default=None, exclude_if=is_unset)
    epoch_turns: EpochTurns | None = Field(default=None, exclude_if=is_unset)
    attachments: tuple[StoredAttachment, ...] = Field(default=(), exclude_if=lambda attached: not attached)

    @property
    def all_attachments(self) -> tuple[StoredAttachment, ...]:
        """What is attached to the earlier turns and to the task, in the order in which it is shown."""
        earlier = tuple(one for turn in self.messages for one in turn.attachments)
        return (*earlier, *self.attachments)

    def schema_for(self, payload: JsonObject) -> JsonObject | None:
        """Return the schema that an answer must satisfy; None where nothing says so.

        In a swarm the name of who takes over binds none: the run machine knows whether it hands over there.
        """
        names = tuple(route.agent_key for route in self.routes) if self.run_kind == "swarm" else ()
        return None if handoff_name_in(payload, names) is not None else self.respond_schema


class ScriptPosition(MessagePart):
    """Where a script stands: the next unread index of each agent's own queue and of the common one (`*`)."""

    digest: str | None = None
    cursors: dict[str, int] = Field(default_factory=dict)


class PlayedScriptEntry(MessagePart):
    """The entry of a script that was played as a decision: its queue and index."""

    queue: str
    index: int


class DecisionRequest(Message):
    """Orchestrator to decider. `lease_ms` is how long the asker waits before it asks again.

    `max_calls` is set where the run has a budget: no more model calls may be paid for this attempt, and what is
    delivered twice is given back (`call_lost`), since the first delivery may have been paid. 0: the decider's own rule.
    `root_run_id` is that of the run which a caller submitted, in a run that is below it: its trace is theirs.
    `trace_id` is the caller's trace, where the run belongs to one.
    `caller` is whose turn it takes where a provider's limit lets only some in. `settings` are what somebody chose for
    the model; of its limit for output `max_output_tokens` is what counts.
    """

    request_id: UUID
    run_id: UUID
    project: str
    attempt: int
    fence: int
    step: int
    epoch: int
    kind: DecisionKind = DecisionKind.DECIDE
    model: str
    context: PromptContext
    response_schema: JsonObject | None = None
    max_output_tokens: int = Field(default=8_192, ge=1, le=MAX_OUTPUT_TOKENS)
    timeout_ms: int = Field(default=60_000, ge=0, le=LONGEST_MS)
    lease_ms: int = Field(default=90_000, ge=0, le=LONGEST_MS)
    script: ScriptPosition | None = None
    debug: bool = False
    caller: str = ""
    max_calls: int = Field(default=0, ge=0, exclude_if=lambda calls: calls == 0)
    root_run_id: UUID | None = Field(default=None, exclude_if=is_unset)
    settings: ModelSettings | None = Field(default=None, exclude_if=is_unset)
    trace_id: UUID | None = Field(default=None, exclude_if=is_unset)


class Usage(MessagePart):
    """Tokens of one or more model calls, summed over attempts.

    Of the input, `cached_tokens` were read from the provider's prompt cache and `cache_write_tokens` stored there.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    model_calls: int = 0
    cached_tokens: int = Field(default=0, exclude_if=lambda tokens: tokens == 0)
    cache_write_tokens: int = Field(default=0, exclude_if=lambda tokens: tokens == 0)


class Cost(MessagePart):
    """Money of one or more model calls; `usd` is None when a price is unknown, never 0 for that reason."""

    usd: float | None = None
    price_known: bool = False
    price_source: str = ""


class LlmCallLog(Message):
    """Decider to log-writer on `log.llm_call`: one model call, bodies only under `debug` (may be lost)."""

    request_id: UUID
    run_id: UUID
    project: str
    attempt: int
    call: int
    step: int
    agent_key: str
    kind: DecisionKind
    model: str
    started_at: datetime
    duration_ms: int
    usage: Usage
    cost: Cost
    prompt_digest: str
    raw_digest: str | None = None
    prompt: str | None = None
    raw_text: str | None = None
    error: str | None = None


class RenderPromptRequest(Message):
    """Ask for the prompt that *model* would get; *project* is whose turn it is where it takes long to be compiled."""

    context: PromptContext
    project: str = ""
    model: str = ""


class RenderPromptAnswer(Message):
    """The prompt text; `model_missing` is what the model lacks here before it can be asked, a key for example."""

    prompt: str
    digest: str
    model_missing: str = ""


class TokenDelta(Message):
    """Decider to gateway on core NATS: a piece of what a model writes for a decision, before anybody has checked it.

    `writer` names one model call; its pieces count from `index` 0. Of one request, the writer that began last counts,
    and none of an older `attempt`. Pieces may be lost: the decision itself travels in its fact.
    """

    run_id: UUID
    request_id: UUID
    attempt: int
    index: int
    text: str
    writer: str = ""
    step: int = 0
    agent_key: str = ""


MAX_TOOL_LOG_BYTES = 16_384
"""Of one line of a tool; longer ones are neither sent nor stored."""


class ToolLog(Message):
    """Worker to log-writer on `log.tool.<project>.<toolset>`: what a tool wrote while it ran (may be lost).

    A line that names another project or toolset than its subject is not taken.
    """

    execution_id: UUID
    run_id: UUID
    project: str
    tool: str
    worker: str
    at: datetime
    level: str = "info"
    message: str = ""
    fields: dict[str, Any] = Field(default_factory=dict)
    toolset: str = ""

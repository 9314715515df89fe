"""What a model proposes, in the wire form the model writes, and what the platform makes of it.

A Decision is only a proposal. Unknown actions and unknown fields are refused here; whether an action is allowed is
the run machine's business, and whether a tool may run is the tool-access service's.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field, TypeAdapter, field_validator, model_validator
from pydantic_core import PydanticKnownError

from towpath_contracts.base import DEFERRED, ClientMessagePart, JsonObject, MessagePart
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, NotStrictJsonError, read_strict

MAX_CALLS_PER_DECISION = 10
"""Tool calls of one decision that may run together."""


def decoded_arguments(value: Any) -> Any:
    """Decode arguments that a model wrote as text.

    Nothing at all is `{}`; what is no JSON object stays as it is, and `arguments_fault` says why.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    return value if not isinstance(value, str) or arguments_fault(value) else _decoded(value)


def arguments_fault(text: str) -> str:
    """Return what keeps *text* from being the arguments of a call; empty when nothing does."""
    try:
        found = _decoded(text)
    except NotStrictJsonError as error:
        return f"they are not JSON: {error}"
    return "" if isinstance(found, dict) else f"they are {type(found).__name__}, not an object"


def _decoded(text: str) -> Any:
    return read_strict(text.encode("utf-8", "surrogatepass"), max_depth=MAX_VALUE_DEPTH)


Arguments = Annotated[JsonObject | str, BeforeValidator(decoded_arguments)]
"""The arguments of a call: an object, also where it was written as text. Text is left only where it can't be read."""


class ToolCallProposal(ClientMessagePart):
    """One tool call that a model asks for."""

    tool_name: str = Field(min_length=1, max_length=128)
    tool_params: Arguments = Field(default_factory=dict)


class UseToolDetails(ClientMessagePart):
    """Either one call (`tool_name`, `tool_params`) or several that run together (`calls`)."""

    tool_name: str | None = Field(default=None, min_length=1, max_length=128)
    tool_params: Arguments = Field(default_factory=dict)
    calls: tuple[ToolCallProposal, ...] = Field(default=(), max_length=MAX_CALLS_PER_DECISION)

    @field_validator("calls", mode="before")
    @classmethod
    def _few(cls, value: Any) -> Any:
        """Count the calls before they are looked at: a text may have hundreds of thousands that are none."""
        if isinstance(value, list | tuple) and len(value) > MAX_CALLS_PER_DECISION:
            told = {"field_type": "Tuple", "max_length": MAX_CALLS_PER_DECISION, "actual_length": len(value)}
            raise PydanticKnownError("too_long", told)
        return value

    @model_validator(mode="after")
    def _one_form(self) -> "UseToolDetails":
        if (self.tool_name is None) == (not self.calls):
            msg = "give either tool_name or calls"
            raise ValueError(msg)
        if self.calls and self.tool_params:
            msg = "tool_params belongs to tool_name; each entry of calls has its own"
            raise ValueError(msg)
        return self

    def proposals(self) -> tuple[ToolCallProposal, ...]:
        """Return the calls in order, whichever form was used."""
        if self.tool_name is not None:
            return (ToolCallProposal(tool_name=self.tool_name, tool_params=self.tool_params),)
        return self.calls


class RouteToAgentDetails(ClientMessagePart):
    """Hand control to another agent; *context* is shown to it once."""

    target_agent_name: str = Field(min_length=1, max_length=128)
    context: Any = None


class RespondDetails(ClientMessagePart):
    """End the run with *payload*; a plain string becomes `{"message": …}`."""

    payload: JsonObject

    @field_validator("payload", mode="before")
    @classmethod
    def _coerce(cls, value: Any) -> Any:
        return {"message": value} if isinstance(value, str) else value


class UseTool(ClientMessagePart):
    """The model wants one or more tool calls."""

    action: Literal["USE_TOOL"] = "USE_TOOL"
    action_reasoning: str = ""
    action_details: UseToolDetails


class RouteToAgent(ClientMessagePart):
    """The model wants another agent to go on."""

    action: Literal["ROUTE_TO_AGENT"] = "ROUTE_TO_AGENT"
    action_reasoning: str = ""
    action_details: RouteToAgentDetails


class Respond(ClientMessagePart):
    """The model answers."""

    action: Literal["RESPOND"] = "RESPOND"
    action_reasoning: str = ""
    action_details: RespondDetails


Decision = Annotated[UseTool | RouteToAgent | Respond, Field(discriminator="action")]
"""What the model proposed."""

decision_adapter: TypeAdapter[UseTool | RouteToAgent | Respond] = TypeAdapter(Decision, config=DEFERRED)


class Certainty(ClientMessagePart):
    """What a decision of a goal or background run may say beside its action: how sure its author is.

    `uncertain`, a `confidence` below the run's threshold, and `request_confidence` ask for a confidence check.
    """

    uncertain: bool = False
    request_confidence: bool = False
    confidence: float | None = None


class UseToolWithCertainty(UseTool, Certainty):
    """USE_TOOL of a goal or background run."""


class RouteToAgentWithCertainty(RouteToAgent, Certainty):
    """ROUTE_TO_AGENT of a goal or background run."""


class RespondWithCertainty(Respond, Certainty):
    """RESPOND of a goal or background run: a claim that the work is done, which the platform checks."""


class AbandonDetails(ClientMessagePart):
    """Why the work is given up."""

    rationale: str = Field(min_length=1, max_length=4_000)


class Abandon(Certainty):
    """The model gives the goal or objective up, and says why."""

    action: Literal["ABANDON"] = "ABANDON"
    action_reasoning: str = ""
    action_details: AbandonDetails


class RequestGateDetails(ClientMessagePart):
    """What a person is asked."""

    reason: str = Field(min_length=1, max_length=4_000)
    detail: JsonObject = Field(default_factory=dict)


class RequestGate(Certainty):
    """The model asks for a person: the run waits at a gate of type `manual`."""

    action: Literal["REQUEST_GATE"] = "REQUEST_GATE"
    action_reasoning: str = ""
    action_details: RequestGateDetails


CheckedDecision = Annotated[
    UseToolWithCertainty | RouteToAgentWithCertainty | RespondWithCertainty | Abandon | RequestGate,
    Field(discriminator="action"),
]
"""What a model may propose in a goal or background run."""

AnyDecision = UseTool | RouteToAgent | Respond | Abandon | RequestGate

checked_decision_adapter: TypeAdapter[
    UseToolWithCertainty | RouteToAgentWithCertainty | RespondWithCertainty | Abandon | RequestGate
] = TypeAdapter(CheckedDecision, config=DEFERRED)


PLAIN_KINDS = frozenset({"network", "swarm"})
"""Runs whose decisions have three actions and no more, and which count their tool errors; others count failed steps."""


def adapter_of(kind: str) -> TypeAdapter[Any]:
    """Return what reads the decisions of a run of *kind*."""
    return decision_adapter if kind in PLAIN_KINDS else checked_decision_adapter


class ToolCall(MessagePart):
    """One call of an instruction: what the platform asks the tool-access service for.

    `args` are the merged arguments; `system_params` names those of them that the system filled in, so that nothing
    written for a model shows them.
    """

    execution_id: UUID
    call_index: int
    tool: str
    args: JsonObject = Field(default_factory=dict)
    system_params: tuple[str, ...] = ()

    def shown_args(self) -> JsonObject:
        """Return the arguments that a model may see: its own."""
        if not self.system_params:
            return self.args
        return {name: value for name, value in self.args.items() if name not in self.system_params}


class CallToolsInstruction(MessagePart):
    """Run these calls together and join the results in call order."""

    kind: Literal["call_tools"] = "call_tools"
    calls: tuple[ToolCall, ...]


class TransferInstruction(MessagePart):
    """Let *target* act from the next step on; *context* is shown to it once."""

    kind: Literal["transfer"] = "transfer"
    target: str
    context: Any = None


class FinishInstruction(MessagePart):
    """End the run with this answer."""

    kind: Literal["finish"] = "finish"
    payload: JsonObject


class AbandonInstruction(MessagePart):
    """End the run as abandoned."""

    kind: Literal["give_up"] = "give_up"
    rationale: str


class AskPersonInstruction(MessagePart):
    """Wait at a gate for a person."""

    kind: Literal["ask_person"] = "ask_person"
    reason: str
    detail: JsonObject = Field(default_factory=dict)


Instruction = Annotated[
    CallToolsInstruction | TransferInstruction | FinishInstruction | AbandonInstruction | AskPersonInstruction,
    Field(discriminator="kind"),
]
"""A decision that passed validation: what the platform will do."""

instruction_adapter: TypeAdapter[
    CallToolsInstruction | TransferInstruction | FinishInstruction | AbandonInstruction | AskPersonInstruction
] = TypeAdapter(Instruction, config=DEFERRED)


def decision_schema(kind: str = "network") -> JsonObject:
    """Return the JSON Schema that a model's answer must satisfy in a run of *kind*."""
    return adapter_of(kind).json_schema()

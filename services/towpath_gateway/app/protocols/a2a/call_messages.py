"""What A2A's clients send: a call of JSON-RPC, and the parameters of each method, in ProtoJSON.

What the protocol may grow is passed over, as it asks for. What says a word at a gate is strict.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StrictInt, StrictStr, TypeAdapter, ValidationError, model_validator

from towpath_contracts.base import ClientMessagePart, JsonObject, MessagePart, Name
from towpath_contracts.problems.input_faults import faults_of_sample, list_faults
from towpath_contracts.problems.registry import ProblemError
from towpath_gateway.app.errors import validation_problem
from towpath_gateway.app.gate_votes import GateWord
from towpath_gateway.app.protocols.openai.request_fields import TowpathOptions

MAX_ID_CHARS = 256
MAX_PARTS = 64
MAX_MODES = 64

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
OptionalId = Annotated[str | None, Field(max_length=MAX_ID_CHARS)]
CallId = Annotated[StrictStr, Field(max_length=MAX_ID_CHARS)] | StrictInt | None


class A2aCall(MessagePart):
    """A call: which method, and its parameters as the protocol names them."""

    jsonrpc: Literal["2.0"]
    id: CallId = None
    method: str = Field(max_length=MAX_ID_CHARS)
    params: JsonObject | None = None


class A2aPart(MessagePart):
    """One of a text, the bytes of a file (Base64), the address of one, and JSON."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = None
    filename: str | None = Field(default=None, max_length=256)
    media_type: str | None = Field(default=None, alias="mediaType", max_length=127)

    @model_validator(mode="after")
    def _is_one_thing(self) -> "A2aPart":
        given = [one for one in (self.text, self.raw, self.url) if one is not None]
        if len(given) + self.has_data != 1:
            msg = "a part has one of text, raw, url and data"
            raise ValueError(msg)
        return self

    @property
    def has_data(self) -> bool:
        """Whether it is JSON, which may be null."""
        return "data" in self.model_fields_set and (self.data is not None or self._has_nothing_else)

    @property
    def _has_nothing_else(self) -> bool:
        return self.text is None and self.raw is None and self.url is None


class A2aMessage(MessagePart):
    """What a client says: something new, of a task in `taskId` an answer, in the context of earlier ones."""

    message_id: Id = Field(alias="messageId")
    context_id: OptionalId = Field(default=None, alias="contextId")
    task_id: OptionalId = Field(default=None, alias="taskId")
    role: Literal["ROLE_USER"]
    parts: tuple[A2aPart, ...] = Field(min_length=1, max_length=MAX_PARTS)


class SendConfiguration(MessagePart):
    """How a client wants to be answered."""

    accepted_output_modes: tuple[str, ...] | None = Field(
        default=None, alias="acceptedOutputModes", max_length=MAX_MODES
    )
    push: JsonObject | None = Field(default=None, alias="taskPushNotificationConfig")
    history_length: int | None = Field(default=None, alias="historyLength", ge=0)
    return_immediately: bool = Field(default=False, alias="returnImmediately")


class SendMetadata(MessagePart):
    """Values beside the message; `towpath` are fields of a task, as POST /v1/runs takes them."""

    towpath: TowpathOptions = Field(default_factory=TowpathOptions)


class TenantParams(MessagePart):
    """Base of all parameters: `tenant` is the network, where the address of the call names none."""

    tenant: Literal[""] | Name | None = None


class SendMessageParams(TenantParams):
    """Of `SendMessage` and `SendStreamingMessage`."""

    message: A2aMessage
    configuration: SendConfiguration | None = None
    metadata: SendMetadata | None = None


class A2aTaskParams(TenantParams):
    """Of `GetTask`, `CancelTask` and `SubscribeToTask`."""

    id: Id
    history_length: int | None = Field(default=None, alias="historyLength", ge=0)


class A2aGateWord(ClientMessagePart):
    """A person's word, as data of a message: `gate_id` and `digest` as the question gave them.

    With `edit` the call is approved with those arguments. Only a denial may leave `digest` out.
    """

    gate_id: str | None = Field(default=None, max_length=64)
    digest: str | None = Field(default=None, max_length=128)
    verdict: Literal["approved", "denied", "happened", "did_not_happen", "retry", "stop"] | None = None
    reason: str = Field(default="", max_length=2_000)
    edit: JsonObject | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "A2aGateWord":
        if self.verdict is None and self.edit is None:
            msg = "say a verdict, or with edit other arguments"
            raise ValueError(msg)
        if self.edit is not None and self.verdict not in (None, "approved"):
            msg = "edit approves a call: leave it out of another verdict"
            raise ValueError(msg)
        return self

    def at(self, gate_id: UUID) -> GateWord:
        """Return the word at the gate that `gate_id` turned out to name."""
        verdict = self.verdict or "approved"
        return GateWord(gate_id=gate_id, verdict=verdict, reason=self.reason, digest=self.digest, args=self.edit)


SEND = TypeAdapter(SendMessageParams)
TASK = TypeAdapter(A2aTaskParams)
TENANT = TypeAdapter(TenantParams)


def read_params(kind: TypeAdapter[Any], call: A2aCall) -> Any:
    """Return the parameters of *call*; raises ProblemError with all that is wrong with them."""
    return read_part(kind, call.params or {}, "body/params")


def read_part(kind: TypeAdapter[Any], value: Any, pointer: str) -> Any:
    """Return *value* as *kind*; raises ProblemError with all that is wrong with it."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        raise ProblemError(
            validation_problem(list_faults(error, faults_of_sample(kind, value)).within(pointer))
        ) from error


def with_whole_numbers(value: Any) -> Any:
    """Return JSON whose whole numbers are integers: ProtoJSON's values have one kind of number."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _MAX_WHOLE else value
    if isinstance(value, dict):
        return {name: with_whole_numbers(one) for name, one in value.items()}
    return [with_whole_numbers(one) for one in value] if isinstance(value, list) else value


_MAX_WHOLE = 2**53

"""Fields that requests of both APIs have: what is understood, what is passed over, and what is refused with a reason.

A parameter whose answer would not be what was asked for is refused, whatever the client; one that changes nothing for
who reads the answer is passed over. All that is wrong with a request is told at once.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from towpath_contracts.base import ClientMessagePart, JsonObject, Name
from towpath_contracts.budgets import Budget
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.run_limits import MAX_STEPS_CAP, MAX_TIMEOUT_MS, MAX_VERSION
from towpath_contracts.tasks import TaskGrantRule

FUNCTION_NAME = r"^[a-zA-Z0-9_-]{1,64}$"

Ignored = Annotated[Any, Field(description="Passed over.")]
"""A parameter that changes nothing here."""


def refused_unless(*neutral: Any, why: str) -> AfterValidator:
    """Return the check of a parameter that is there only with the values that change nothing."""

    def check(value: Any) -> Any:
        if value is None or any(value == one and type(value) is type(one) for one in neutral):
            return value
        raise ValueError(why)

    return AfterValidator(check)


OneAnswer = Annotated[Any, refused_unless(1, why="a run has one answer")]
NoLogprobs = Annotated[Any, refused_unless(False, 0, why="the platform keeps no probabilities of tokens")]
NoPenalty = Annotated[Any, refused_unless(0, 0.0, why="models of a network are asked without penalties")]
NoBias = Annotated[Any, refused_unless({}, why="models of a network are asked without a bias")]
AlwaysStored = Annotated[Any, refused_unless(True, why="every run is recorded, for as long as the platform is set to")]
TextAlone = Annotated[Any, refused_unless(["text"], why="answers are texts")]
NotHere = Annotated[Any, refused_unless([], why="there is no such thing here")]
UsualTier = Annotated[Any, refused_unless("auto", "default", why="there are no tiers; `towpath` has a priority")]
UsualLength = Annotated[Any, refused_unless("medium", why="say in a message how long the answer is to be")]
UseTools = Annotated[Any, refused_unless([], "none", why="it was replaced by tools and tool_choice")]

NothingBeside = Annotated[
    Any, refused_unless([], ["reasoning.encrypted_content"], why="an answer has nothing beside its text and calls")
]
ByPreviousResponse = Annotated[
    Any, refused_unless(why="use previous_response_id: responses that follow each other are a thread")
]
ByBudget = Annotated[Any, refused_unless(why="give the run a budget of tool_calls, in `towpath`")]


class TowpathOptions(ClientMessagePart):
    """What OpenAI's API has no word for (`extra_body={"towpath": {…}}`): fields of a task, as POST /v1/runs takes."""

    version: int | None = Field(default=None, ge=1, le=MAX_VERSION)
    agent_key: str | None = None
    system_params: JsonObject = Field(default_factory=dict)
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)
    model: str | None = Field(default=None, max_length=256)
    script: tuple[Any, ...] | None = Field(default=None, max_length=MAX_STEPS_CAP)
    grant: tuple[TaskGrantRule, ...] | None = Field(default=None, max_length=256)
    priority: int = Field(default=5, ge=0, le=10)
    debug: bool = False
    budget: Budget | None = None

    def given(self) -> JsonObject:
        """Return those that were chosen."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class FunctionTool(ClientMessagePart):
    """A function that the caller carries out where the answer asks for it."""

    name: str = Field(pattern=FUNCTION_NAME)
    description: str | None = Field(default=None, max_length=4_096)
    parameters: JsonObject | None = None
    strict: bool | None = None

    def described(self) -> JsonObject:
        """Return what is offered to the model; without parameters it has none."""
        parameters = self.parameters or {"type": "object", "properties": {}, "additionalProperties": False}
        return {"name": self.name, "description": self.description or "", "parameters": parameters}


class SchemaFormat(ClientMessagePart):
    """The JSON Schema that the answer satisfies."""

    name: str = Field(pattern=FUNCTION_NAME)
    description: str | None = None
    schema_: JsonObject | None = Field(default=None, alias="schema")
    strict: bool | None = None


class PlainFormat(ClientMessagePart):
    """A text, or any JSON object."""

    type: Literal["text", "json_object"]


def wanted_schema(given: SchemaFormat | PlainFormat | None) -> JsonObject | None:
    """Return what an answer of the form *given* satisfies; None of a text."""
    if isinstance(given, SchemaFormat):
        return given.schema_ or {"type": "object"}
    return {"type": "object"} if given is not None and given.type == "json_object" else None


class SamplingRequest(ClientMessagePart):
    """What both requests say alike."""

    model: Name
    temperature: float | None = None
    top_p: float | None = None
    metadata: dict[str, str] | None = Field(default=None, max_length=16)
    stream: bool | None = None
    parallel_tool_calls: bool | None = None
    store: AlwaysStored = None
    service_tier: UsualTier = None
    user: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None
    towpath: TowpathOptions | None = None

    def settings(self, **more: Any) -> ModelSettings | None:
        """Return how models are asked, by this and *more*; None where nothing is said."""
        said = {"temperature": self.temperature, "top_p": self.top_p, **more}
        chosen = {name: value for name, value in said.items() if value is not None}
        return ModelSettings.model_validate(chosen) if chosen else None

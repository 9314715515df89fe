"""The two kinds of message: between services (tolerant) and from clients (strict).

Every message is frozen and says its `schema_version`. Unknown fields are tolerated between services, so that a
rolling upgrade works, and refused from clients, so that a typing mistake is not silently ignored.
Validators and serializers are built at the first use: a process uses a part of the messages that it imports.
"""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

ChoicesT = TypeVar("ChoicesT", bound="SparseSettings")

JsonObject = dict[str, Any]
"""A JSON object with string keys; values are plain JSON."""

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.:/-]{0,127}$")]
"""A key that people choose: agents, networks, tools. At most 128 characters; no spaces, so it is safe in logs."""

Token = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$")]
"""A name that becomes one NATS subject token: callers, projects, toolsets, decider pools."""


DEFERRED = ConfigDict(defer_build=True)
"""For adapters: what reads and writes their type is built at the first use, as for messages."""


class Message(BaseModel):
    """A message between services: frozen, unknown fields tolerated."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore", ser_json_inf_nan="constants")

    schema_version: int = 1


class ClientMessage(BaseModel):
    """A message from a client: frozen, unknown fields refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    schema_version: int = 1


class MessagePart(BaseModel):
    """A part of a message that is never sent alone; tolerant like the message around it."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")


class ClientMessagePart(BaseModel):
    """A part of a client's message; strict like the message around it."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class SparseSettings(ClientMessagePart):
    """Base of settings of which a client, or a network, sets some: only what was set is written.

    So a default that nobody chose differs from one that somebody did, also behind the next service.
    """

    @model_serializer(mode="wrap")
    def _chosen(self, write: SerializerFunctionWrapHandler) -> JsonObject:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}


def with_defaults(kind: type[ChoicesT], *given: ChoicesT | None) -> ChoicesT:
    """Return settings of *kind* with everything chosen: by the last of *given* that chose a field, else its default.

    What is returned depends on no default any more: a run keeps the settings it began with.
    """
    values: JsonObject = {name: field.get_default() for name, field in kind.model_fields.items()}
    for one in given:
        if one is not None:
            values |= {name: getattr(one, name) for name in one.model_fields_set}
    return kind.model_validate(values)


def is_unset(value: object) -> bool:
    """Return whether an optional field is left out of what is written: it was added later, and digests must stay."""
    return value is None

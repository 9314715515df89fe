"""The two kinds of message: between services (tolerant) and from clients (strict).

Law: every message is frozen and says its `schema_version`. Unknown fields are tolerated between services, so that a
rolling upgrade works, and refused from clients, so that a typing mistake is not silently ignored (design §6).
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

JsonObject = dict[str, Any]
"""A JSON object with string keys; values are plain JSON."""

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.:/-]{0,127}$")]
"""A key that people choose: agents, networks, tools. At most 128 characters; no spaces, so it is safe in logs."""

Token = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$")]
"""A name that becomes one NATS subject token: callers, projects, toolsets, decider pools."""


class Message(BaseModel):
    """A message between services: frozen, unknown fields tolerated."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")

    schema_version: int = 1


class ClientMessage(BaseModel):
    """A message from a client: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1


class Value(BaseModel):
    """A part of a message that is never sent alone; tolerant like the message around it."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ClientValue(BaseModel):
    """A part of a client's message; strict like the message around it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def unset(value: object) -> bool:
    """Say whether an optional field is left out of what is written: it was added later, and digests must stay."""
    return value is None

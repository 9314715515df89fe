"""What a process runs with, for people: each setting, where its value came from, and never a secret.

Hidden is what is a secret by its type or its name. Of an address only the scheme and the host are shown, since people
write passwords into the rest.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from towpath_contracts.base import Message, MessagePart

HIDDEN = "hidden"
MAX_VALUE_CHARS = 500

_SECRET_NAME = re.compile(r"password|passwd|secret|token|credential|(^|_)key($|_)|(^|_)seed($|_)|dsn")
_FILE = "_file"

Origin = Literal["set", "file", "default"]


class EffectiveSetting(MessagePart):
    """One setting: the variable that sets it, its value as text, and if that is `set`, of a `file` or the `default`.

    `value` is None where there is none. Of a `secret` it says no more than that there is one.
    """

    name: str
    value: str | None
    origin: Origin
    secret: bool = False


class EffectiveSettings(Message):
    """What one gateway process runs with. Replicas may differ: `instance` is the one that answered."""

    service: str
    instance: str
    settings: tuple[EffectiveSetting, ...]


def effective_settings(settings: BaseModel) -> tuple[EffectiveSetting, ...]:
    """Return the settings of a process by name."""
    return tuple(sorted(_entries(settings), key=lambda entry: entry.name))


def _entries(settings: BaseModel) -> Iterator[EffectiveSetting]:
    prefix = str(settings.model_config.get("env_prefix") or "").upper()
    given = settings.model_fields_set
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _entries(value)
            continue
        secret = isinstance(value, SecretStr) or (isinstance(value, str | None) and is_secret_name(name))
        from_file = value is not None and f"{name}{_FILE}" in given and getattr(settings, f"{name}{_FILE}") is not None
        yield EffectiveSetting(
            name=f"{prefix}{name.upper()}",
            value=None if value is None else HIDDEN if secret else shown_value(value),
            origin="file" if from_file else "set" if name in given else "default",
            secret=secret,
        )


def is_secret_name(name: str) -> bool:
    """Return whether a setting of this name holds a secret; where a secret stands in a file, its place is none."""
    return _SECRET_NAME.search(name) is not None and not name.endswith((_FILE, "_tls_key"))


def shown_value(value: Any) -> str:
    """Return *value* as text; an address without user, password, path and query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value.value if isinstance(value, Enum) else value)
    if "://" in text:
        return ", ".join(_without_secrets(part.strip()) for part in text.split(","))[:MAX_VALUE_CHARS]
    return text[:MAX_VALUE_CHARS]


def _without_secrets(address: str) -> str:
    """Return scheme, host and port of an address; what can't be read is hidden."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return HIDDEN
    if not parts.scheme or not host:
        return HIDDEN
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"

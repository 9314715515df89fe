"""Secrets of tools: named where the tool is declared, read in the worker when a call starts, never sent anywhere.

A reference is code of the worker's operator, so no model, caller or message can choose what is read; the
platform's own credentials (TOWPATH_*) can't be named. What was read is taken out of all that the worker says later.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from towpath.declared_places import checks_keywords
from towpath.errors import DeclarationError
from towpath_fabric.redaction import MIN_CHARS, add_secrets

MAX_SECRET_BYTES = 65_536

_REFERENCE = re.compile(r"(env):([A-Za-z_][A-Za-z0-9_]*)|(file):(/.+)")


class SecretMissingError(Exception):
    """A reference leads nowhere, so the tool was not called; the text says which, never a value."""


@checks_keywords
@dataclass(frozen=True, slots=True)
class Secret:
    """Marks a parameter that the worker fills in: `Annotated[str, Secret("env:SHOP_TOKEN")]` or `"file:/run/…"`.

    It is no argument: neither a model nor the platform knows of it. A file is read anew for every call, so that a
    rotated secret is used at once. Raises DeclarationError for a reference that can't be.
    """

    reference: str

    def __post_init__(self) -> None:
        """Refuse what names nothing, and what is the platform's."""
        match = _REFERENCE.fullmatch(self.reference)
        if match is None:
            msg = f"{self.reference!r} names no secret; write env:NAME or file:/absolute/path"
            raise DeclarationError(msg)
        if (match[2] or "").upper().startswith("TOWPATH_"):
            msg = f"{match[2]} is the platform's own and is given to no tool"
            raise DeclarationError(msg)

    def read(self) -> str:
        """Return the value, and keep it out of results, failures and logs; raises SecretMissingError."""
        kind, _, name = self.reference.partition(":")
        value = _of_environment(name) if kind == "env" else _of_file(name)
        if len(value) < MIN_CHARS:
            msg = f"{self.reference} has fewer than {MIN_CHARS} characters: it could not be kept out of texts"
            raise SecretMissingError(msg)
        add_secrets(value)
        return value


def _of_environment(name: str) -> str:
    value = os.environ.get(name)  # noqa: TID251 - which variable is asked for stands in the tool's declaration
    if value is None:
        msg = f"the worker's environment has no {name}"
        raise SecretMissingError(msg)
    return value


def _of_file(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the file {name} can't be read: {type(error).__name__}"
        raise SecretMissingError(msg) from error
    if len(data) > MAX_SECRET_BYTES:
        msg = f"the file {name} is larger than {MAX_SECRET_BYTES} bytes"
        raise SecretMissingError(msg)
    return text.removesuffix("\n").removesuffix("\r")

"""Secrets of MCP servers: named in the file, resolved in the worker, taken out of everything that leaves it.

A reference is resolved when a server is connected and lives in this process alone; the platform's own credentials
(TOWPATH_*) can't be given away.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from towpath.project.secret_references import REFERENCE
from towpath_fabric.redaction import redact, replace_secrets

MAX_SECRET_BYTES = 65_536
MIN_CHARS = 6
"""Shorter values would be found everywhere, and hiding them would only destroy output."""


class ServerSecretMissingError(Exception):
    """A reference leads nowhere; the text says which, never a value."""


class SecretResolver:
    """Resolves references, and remembers the values so that `hide` can take them out of text.

    *folder* is where relative paths begin.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values: frozenset[str] = frozenset()

    def resolve(self, named: Mapping[str, str]) -> dict[str, str]:
        """Return *named* with every reference replaced; raises SecretMissingError."""
        return {name: REFERENCE.sub(self._resolve_reference, text) for name, text in named.items()}

    def hide(self, text: str) -> str:
        """Return *text* without any value that was resolved here, and without the worker's own secrets."""
        return redact(replace_secrets(self._values, text))

    def hide_in(self, value: Any) -> Any:
        """Return the JSON *value* with every text in it hidden, keys too."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide(key): self.hide_in(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.hide_in(item) for item in value]
        return value

    def _resolve_reference(self, match: re.Match[str]) -> str:
        kind, name = match.groups()
        value = self._read_environment(name) if kind == "env" else self._read_file(name)
        self._remember((value, *value.splitlines()))
        return value

    def _remember(self, values: Iterable[str]) -> None:
        self._values |= {value for value in values if len(value) >= MIN_CHARS}

    def _read_environment(self, name: str) -> str:
        value = os.environ.get(name)  # noqa: TID251 - which variable is asked for stands in the operator's file
        if value is None:
            msg = f"the worker's environment has no {name}"
            raise ServerSecretMissingError(msg)
        return value

    def _read_file(self, name: str) -> str:
        path = self._folder / Path(name).expanduser()
        try:
            with path.open("rb") as file:
                data = file.read(MAX_SECRET_BYTES + 1)
            if len(data) > MAX_SECRET_BYTES:
                msg = f"the file {name} is larger than {MAX_SECRET_BYTES} bytes"
                raise ServerSecretMissingError(msg)
            return data.decode().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"the file {name} can't be read: {type(error).__name__}"
            raise ServerSecretMissingError(msg) from error

"""Removes secrets of this process from error texts.

The text of an exception or of a provider's answer can contain a secret from the environment: a connection string, or
the key that was refused. Such texts reach models, records and people, so every known secret is replaced first.
"""

import functools
import io
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

REDACTED = "[redacted]"

MIN_CHARS = 8
"""Shorter values would match ordinary text everywhere."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS(?:WORD|WD|PHRASE)|CREDENTIAL|_DSN|DATABASE_URL", re.IGNORECASE)
_FILE_NAME = re.compile(r"_(?:FILE|PATH|DIR)$", re.IGNORECASE)


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values in *environment* whose names mark them as secrets, and the passwords in its URLs."""
    found: set[str] = set()
    for name, value in environment.items():
        if _SECRET_NAME.search(name) and not _FILE_NAME.search(name):
            found.add(value)
        if "://" in value:
            found.update(password for address in (value, *value.split(",")) for password in _passwords(address))
    return frozenset(secret for secret in found if len(secret) >= MIN_CHARS)


def _passwords(address: str) -> tuple[str, ...]:
    try:
        password = urlsplit(address).password or ""
    except ValueError:  # a value with :// in it that is no URL
        return ()
    return password, unquote(password)


def replace_secrets(secrets: frozenset[str], text: str) -> str:
    """Return *text* with each of *secrets*, plain or escaped as in JSON, replaced."""
    pattern = _pattern(secrets)
    return pattern.sub(REDACTED, text) if pattern is not None else text


def redact(text: str) -> str:
    """Return *text* without the secrets of `add_secrets` and of the environment, as it was at the first call."""
    return replace_secrets(_environment_secrets() | _added, text)


def add_secrets(*secrets: str) -> None:
    """Have `redact` and `redact_json` remove *secrets* from now on."""
    global _added  # noqa: PLW0603 - one process has one set of secrets
    new = {part for secret in secrets for part in (secret, *secret.splitlines()) if len(part) >= MIN_CHARS} - _added
    if new:
        _added |= new


class _RedactedOutput(io.TextIOWrapper):
    """A text stream that writes no secret. One that is written in pieces, or below Python's streams, is not seen."""

    def __init__(self, replaced: io.TextIOWrapper) -> None:
        """Write where *replaced* did, and keep it: with it the place would be closed."""
        super().__init__(replaced.buffer, replaced.encoding, "backslashreplace", line_buffering=True)
        self._replaced = replaced

    def write(self, text: str, /) -> int:
        super().write(redact(text))
        return len(text)


def redact_output() -> None:
    """Have `redact` applied to what this process prints from now on: tools print into its log."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.flush()
            setattr(sys, name, _RedactedOutput(stream))


def redact_json(value: Any) -> Any:
    """Return the plain JSON *value* with the secrets of `add_secrets` replaced in every text, keys too."""
    if not _added:
        return value
    match value:
        case str():
            return replace_secrets(_added, value)
        case dict():
            return {redact_json(key): redact_json(item) for key, item in value.items()}
        case list():
            return [redact_json(item) for item in value]
        case _:
            return value


_added: frozenset[str] = frozenset()


@functools.cache
def _environment_secrets() -> frozenset[str]:
    return secret_values(os.environ)  # noqa: TID251 - nothing is configured by it


@functools.lru_cache(maxsize=8)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    # The longest first: a secret may begin with another one.
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))) if forms else None

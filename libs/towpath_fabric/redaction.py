"""Keeps secrets of this process out of what it says about failures.

What an exception or a provider says can hold what the environment was given as a secret (a connection string, the
key that was refused); it goes to models, records and people, so every known secret is replaced first.
"""

import functools
import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

REDACTED = "[redacted]"

MIN_CHARS = 8
"""Shorter values would be found everywhere, and are no secrets worth the name."""

_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASS(?:WORD|WD|PHRASE)|CREDENTIAL|_DSN|DATABASE_URL", re.IGNORECASE)
_PLACES = re.compile(r"_(?:FILE|PATH|DIR)$", re.IGNORECASE)


def secrets_of(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of *environment* that are secrets by their name, and the passwords in its addresses."""
    found: set[str] = set()
    for name, value in environment.items():
        if _NAMED.search(name) and not _PLACES.search(name):
            found.add(value)
        if "://" in value:
            found.update(_passwords(value))
    return frozenset(secret for secret in found if len(secret) >= MIN_CHARS)


def _passwords(address: str) -> tuple[str, ...]:
    try:
        password = urlsplit(address).password or ""
    except ValueError:  # something with :// in it that is no address
        return ()
    return password, unquote(password)


def without(secrets: frozenset[str], text: str) -> str:
    """Return *text* with each of *secrets*, also as it stands in JSON, replaced."""
    pattern = _pattern(secrets)
    return pattern.sub(REDACTED, text) if pattern is not None else text


def redacted(text: str) -> str:
    """Return *text* without what was kept out, and without the secrets of this process's environment.

    The environment counts as it was when this was first asked.
    """
    return without(_own() | _kept, text)


def keep_out(*secrets: str) -> None:
    """Let none of *secrets* stand in what `redacted` and `hidden` return from now on."""
    global _kept  # noqa: PLW0603 - one process has one set of secrets, and everything that it says is looked through
    fresh = {part for secret in secrets for part in (secret, *secret.splitlines()) if len(part) >= MIN_CHARS} - _kept
    if fresh:
        _kept |= fresh


def hidden(value: Any) -> Any:
    """Return the plain JSON *value* with what was kept out replaced in every text, keys too."""
    if not _kept:
        return value
    match value:
        case str():
            return without(_kept, value)
        case dict():
            return {hidden(key): hidden(item) for key, item in value.items()}
        case list():
            return [hidden(item) for item in value]
        case _:
            return value


_kept: frozenset[str] = frozenset()


@functools.cache
def _own() -> frozenset[str]:
    return secrets_of(os.environ)  # noqa: TID251 - nothing is configured by it


@functools.lru_cache(maxsize=8)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1])}
    # The longest first: a secret may begin with another one.
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))) if forms else None

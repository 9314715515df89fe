"""What keeps a process of the platform apart from others of the same user, programs that tools start above all.

The kernel closes `/proc/PID/environ`, `/proc/PID/mem` and ptrace of a process that is not dumpable, except to root.
Secrets come over a pipe where a process is executed: what is in the environment of an execution stands in
`/proc/PID/environ` before the process can close it.
"""

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from towpath_fabric.redaction import redact

LOCAL_KEY: Final = "TOWPATH_LOCAL_API_KEY"
PLATFORM_SECRETS: Final = (
    *("TOWPATH_NATS_PASSWORD", "TOWPATH_DATABASE_URL"),
    *("TOWPATH_API_KEY", LOCAL_KEY, "TOWPATH_SESSION_SECRET", "TOWPATH_OIDC_CLIENT_SECRET"),
)
"""Variables with secrets of the platform."""

_OWN_CREDENTIALS: Final = PLATFORM_SECRETS[:2]
"""With what a process connects; nothing that it runs needs them."""

PROVIDER_KEYS: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
"""Variables with the keys of model providers."""

_OWN_KEY: Final = "twp_"
"""How the API keys that a gateway makes begin."""

SECRETS_DESCRIPTOR: Final = "TOWPATH_SECRETS_DESCRIPTOR"
"""The variable that names the open pipe with secrets: one JSON object of variables and values."""

_PR_SET_DUMPABLE: Final = 4


def is_own_key(key: str, own: Collection[str]) -> bool:
    """Return whether *key* lets in to a platform, and to no provider: an API key, or one of *own*."""
    return key.startswith(_OWN_KEY) or key in own


def protect_process() -> None:
    """Close this process to others of its user (Linux), and read the secrets that it was given by a pipe.

    Called before anything else is imported. It holds for forks of this process, not for programs that it executes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    environment = os.environ  # noqa: TID251 - what a pipe brings belongs there, for the settings to read
    descriptor = environment.pop(SECRETS_DESCRIPTOR, "")
    if descriptor:
        with os.fdopen(int(descriptor), "rb") as pipe:
            environment.update(json.load(pipe))


@contextlib.contextmanager
def secrets_pipe(secrets: Mapping[str, str]) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
    """Give the descriptors and the variables with which an executed process finds *secrets*; none where there are none.

    All of them together have less than the 64 KiB that a pipe holds.
    """
    if not secrets:
        yield (), {}
        return
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(dict(secrets)).encode())
        yield (reading,), {SECRETS_DESCRIPTOR: str(reading)}
    finally:
        os.close(reading)


def without_secrets(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return *environment* without the variables that are secrets of the platform or of providers, and those."""
    secret = {name: environment[name] for name in (*PLATFORM_SECRETS, *PROVIDER_KEYS) if name in environment}
    return {name: value for name, value in environment.items() if name not in secret}, secret


def forget_credentials() -> dict[str, str]:
    """Take this process's own credentials out of its environment and return them; settings were read before.

    A program that user code starts inherits the environment. Logs are still kept clean of these values.
    """
    redact("")  # remembers what the environment holds
    environment = os.environ  # noqa: TID251 - as above
    return {name: environment.pop(name) for name in _OWN_CREDENTIALS if name in environment}

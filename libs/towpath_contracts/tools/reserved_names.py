"""Names that only the platform bears: of networks, toolsets, tools, and of whoever a record names as its actor.

A person reads a name and trusts it, so a name is compared as it is read: after Unicode NFKC and without regard to case.
Messages hold names to ASCII already; here nothing depends on that.
"""

import re
import unicodedata

PLATFORM = "towpath"

_ACTORS = frozenset(
    {
        PLATFORM,
        "platform",
        "anonymous",
        "local",
        "create-key",
        "oidc",
        "file",
        "preview",
        "deploy",
        *("gateway", "orchestrator", "decider", "tas", "worker", "agent", "log-writer", "watchdog"),
    }
)
"""Who the audit and run logs name when no person and no program of a user did something."""

_PLATFORM_TOOL = re.compile(r"towpath([.:/_-].*)?|platform([.:/].*)?")
"""Not `platform-ops` and the like, which teams call themselves."""


def as_read(name: str) -> str:
    """Return *name* as it is compared with reserved ones."""
    return unicodedata.normalize("NFKC", name).casefold()


def is_platform_network(name: str) -> bool:
    """Return whether networks of this name are the platform's own, those of later versions among them."""
    return as_read(name).startswith(f"{PLATFORM}.")


def is_platform_tool_name(name: str) -> bool:
    """Return whether a tool or toolset of this name reads as the platform's, by how it begins."""
    return _PLATFORM_TOOL.fullmatch(as_read(name)) is not None


def is_platform_actor(name: str) -> bool:
    """Return whether a record with this name as its actor reads as if the platform had done it."""
    read = as_read(name).replace("_", "-")
    return read in _ACTORS or read.startswith(f"{PLATFORM}-")

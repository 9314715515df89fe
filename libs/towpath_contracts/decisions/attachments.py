"""Images that a task gives its agents to look at: which there are, and which models take them.

An image is from outside, like a text that is quoted: nothing that can be read in it counts as said by the caller.
"""

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, MessagePart, Name

MAX_ATTACHMENTS = 8
MAX_ATTACHED_BYTES = 512 * 1024
"""Of all attachments of a task together: they travel to the orchestrator in one message."""

IMAGE_TOKENS = 65_536
"""More than any provider counts for one image of that size: what a budget reserves for each."""

_COMMON = frozenset({"image/jpeg", "image/png", "image/webp"})
_TAKEN = {
    "gemini": _COMMON,
    "google": _COMMON,
    "openai": _COMMON | {"image/gif"},
    "anthropic": _COMMON | {"image/gif"},
    "local": _COMMON,
}


class TaskAttachment(ClientMessagePart):
    """One image of a task; `data` are its bytes in base64."""

    name: Name
    media_type: str = Field(max_length=127)
    data: str = Field(min_length=1, max_length=4 * MAX_ATTACHED_BYTES // 3 + 4)


class StoredAttachment(MessagePart):
    """An attachment whose bytes are stored in the project under their digest."""

    name: str
    media_type: str
    digest: str
    size: int


def attachment_fault(model: str, media_type: str) -> str:
    """Return why *model* can't be shown a file of *media_type*; empty where it can."""
    provider = model.partition(":")[0]
    taken = _TAKEN.get(provider)
    if taken is None:
        return f"{model} takes no attachments; models of {', '.join(sorted(_TAKEN))} do"
    if media_type in taken:
        return ""
    hint = "; give a text as one of quoted_inputs" if media_type.startswith("text/") else ""
    return f"{model} takes {', '.join(sorted(taken))}, not {media_type!r}{hint}"

"""Images and documents that a task gives its agents: which there are, and which models take them.

A file is from outside, like a text that is quoted: nothing that can be read in it counts as said by the caller. A text
document goes to every model as text, between fences; images and PDFs go as the files they are, in the provider's form.
"""

import re
from collections.abc import Iterable

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, MessagePart, Name
from towpath_contracts.decisions.model_strings import PROVIDERS

MAX_ATTACHMENTS = 8
MAX_ATTACHED_BYTES = 512 * 1024
"""Of all attachments of a task together, those of its messages too: they travel to the orchestrator in one message."""

MAX_SHOWN_ATTACHMENTS = 16
MAX_SHOWN_BYTES = 1024 * 1024
"""Of all attachments that a run of a thread is shown: its own and the newest before them."""

MAX_NAMED_ATTACHMENTS = 32
"""Of earlier turns, shown or not: all of them stand in every message of the run."""

IMAGE_TOKENS = 65_536
"""More than any provider counts for one image of that size: what a budget reserves for each."""

PDF_TOKENS = 1_048_576
"""What a budget reserves for all PDFs of a request together: as much as a model reads at once.

A small file can have any number of pages, and each costs its text and a picture of it.
"""

PDF = "application/pdf"

_TEXT_TYPE = re.compile(r"text/[a-z0-9][a-z0-9.+-]*|application/(?:json|xml|yaml|jsonl|x-ndjson|toml|sql)")
_COMMON = frozenset({"image/jpeg", "image/png", "image/webp", PDF})
_TAKEN = {
    "gemini": _COMMON,
    "google": _COMMON,
    "openai": _COMMON | {"image/gif"},
    "anthropic": _COMMON | {"image/gif"},
    "local": _COMMON,
}


class TaskAttachment(ClientMessagePart):
    """One image or document of a task; `data` are its bytes in base64."""

    name: Name
    media_type: str = Field(max_length=127)
    data: str = Field(min_length=1, max_length=4 * MAX_ATTACHED_BYTES // 3 + 4)


class StoredAttachment(MessagePart):
    """An attachment whose bytes are stored in the project under their digest.

    One of an earlier turn that is not `shown` is only named: it no longer fits, or a model of the run can't take it.
    """

    name: str
    media_type: str
    digest: str
    size: int
    shown: bool = Field(default=True, exclude_if=lambda shown: shown)

    @property
    def is_text(self) -> bool:
        """Whether it goes to models as text."""
        return is_text_type(self.media_type)


def is_text_type(media_type: str) -> bool:
    """Return whether a file of *media_type* is a text document."""
    return _TEXT_TYPE.fullmatch(media_type) is not None


def attachment_fault(model: str, media_type: str) -> str:
    """Return why *model* can't be shown a file of *media_type*; empty where it can."""
    provider = model.partition(":")[0]
    if provider not in PROVIDERS:
        hint = "; give a text as one of quoted_inputs" if is_text_type(media_type) else ""
        return f"{model} takes no attachments; models of {', '.join(sorted(_TAKEN))} do{hint}"
    taken = _TAKEN.get(provider, frozenset())
    if media_type in taken or is_text_type(media_type):
        return ""
    others = "" if taken else f"; models of {', '.join(sorted(_TAKEN))} take images and PDFs"
    return f"{model} takes {', '.join((*sorted(taken), 'texts'))}, not {media_type!r}{others}"


def attachment_tokens(attachments: Iterable[StoredAttachment]) -> int:
    """Return the most tokens that the shown ones of *attachments* can have in one request; a text has its bytes."""
    shown = [one for one in attachments if one.shown]
    texts = sum(one.size for one in shown if one.is_text)
    pdfs = PDF_TOKENS if any(one.media_type == PDF for one in shown) else 0
    return texts + pdfs + IMAGE_TOKENS * sum(not one.is_text and one.media_type != PDF for one in shown)

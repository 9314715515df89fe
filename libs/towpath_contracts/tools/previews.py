"""Previews of texts that are too long for where they are shown: how they begin and how they end.

A preview never has more bytes of text than it may, and is valid text: it is cut between characters, never inside one.
Bytes are those of UTF-8, as in every limit of a prompt.
"""

from pydantic import Field

from towpath_contracts.base import MessagePart
from towpath_contracts.canonical import canonical_json

PREVIEW_BYTES = 65_536
"""Of a large result, in the outcome that names its blob: as much as a result has that travels whole."""

CARRIED_BYTES = 2 * PREVIEW_BYTES
"""Of a preview as JSON, where a control character has six: a fact holds it beside everything else."""

HEAD_PARTS, ALL_PARTS = 3, 4
"""Of the room of a preview its beginning has three quarters, and its end the rest."""


class OutputPreview(MessagePart):
    """How a text begins and ends; `size` is what the whole of it has, in bytes."""

    head: str = Field(default="", max_length=PREVIEW_BYTES)
    tail: str = Field(default="", max_length=PREVIEW_BYTES)
    size: int = Field(default=0, ge=0)

    @property
    def is_carried(self) -> bool:
        """Whether it is small enough for the messages that carry it."""
        return text_bytes(canonical_json(self.head)) + text_bytes(canonical_json(self.tail)) <= CARRIED_BYTES

    @property
    def text(self) -> str:
        """Beginning and end, with a mark between them where something is left out."""
        return f"{self.head}\n…\n{self.tail}" if self.tail else self.head


def text_bytes(text: str) -> int:
    """Return how many bytes *text* has."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, most: int) -> str:
    """Return as much of the beginning of *text* as has at most *most* bytes."""
    data = text[: max(0, most)].encode("utf-8", "surrogatepass")
    if len(data) <= most:
        return text[: max(0, most)]
    end = most
    while end and _continues(data[end]):
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def last_bytes(text: str, most: int) -> str:
    """Return as much of the end of *text* as has at most *most* bytes."""
    if most <= 0:
        return ""
    data = text[-most:].encode("utf-8", "surrogatepass")
    start = max(0, len(data) - most)
    while start < len(data) and _continues(data[start]):
        start += 1
    return data[start:].decode("utf-8", "surrogatepass")


def preview_of(text: str, most: int = PREVIEW_BYTES) -> OutputPreview:
    """Return the preview of *text* with at most *most* bytes; of a text that is no longer than that, all of it."""
    size = text_bytes(text)
    if size <= most:
        return OutputPreview(head=text, size=size)
    head = first_bytes(text, most * HEAD_PARTS // ALL_PARTS)
    return OutputPreview(head=head, tail=last_bytes(text, most - text_bytes(head)), size=size)


def recorded_preview(text: str) -> OutputPreview:
    """Return the preview of a stored result: a shorter one of a text that is much longer as JSON."""
    preview = preview_of(text)
    return preview if preview.is_carried else preview_of(text, CARRIED_BYTES // 6 - 1)


def _continues(byte: int) -> bool:
    """Whether *byte* is inside a character, not its first."""
    return byte & 0xC0 == 0x80  # 10xxxxxx in RFC 3629

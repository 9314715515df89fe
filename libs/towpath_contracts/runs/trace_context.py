"""A span of somebody else's trace, and the W3C `traceparent` that names it (W3C Trace Context, section 3.2).

A malformed one names nothing and is no error: the standard asks that a request is served all the same.
"""

from dataclasses import dataclass
from uuid import UUID

SAMPLED = 1
"""The bit of the flags that says that the caller records this trace."""

HEADER = "traceparent"
"""The name of the header, of HTTP and of NATS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSpan:
    """A span that another process has begun; *sampled* says whether that one records it."""

    trace_id: int
    span_id: int
    sampled: bool = True

    @property
    def trace(self) -> UUID:
        """The id of its trace, in the form that the id of a run has."""
        return UUID(int=self.trace_id)

    @property
    def traceparent(self) -> str:
        """What names it in a header."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"


def parse_traceparent(header: str | None) -> RemoteSpan | None:
    """Return the span that a W3C `traceparent` names, or None for one that is missing or malformed."""
    if not header:
        return None
    parts = header.strip().split("-")
    if len(parts) < 4 or (parts[0] == "00" and len(parts) != 4):
        return None
    version, trace, span, flags = parts[:4]
    if [len(part) for part in (version, trace, span, flags)] != [2, 32, 16, 2] or version == "ff":
        return None
    if not set(version + trace + span + flags) <= set("0123456789abcdef"):
        return None
    found = RemoteSpan(trace_id=int(trace, 16), span_id=int(span, 16), sampled=bool(int(flags, 16) & SAMPLED))
    return found if found.trace_id and found.span_id else None


def trace_of(traceparent: str | None) -> UUID | None:
    """Return the trace of the span that *traceparent* names."""
    span = parse_traceparent(traceparent)
    return None if span is None else span.trace

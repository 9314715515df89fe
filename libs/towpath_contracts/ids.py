"""Ids that follow from what they name, so that a repeated transition names the same things again.

Nothing here draws randomness. A run id is a UUIDv7 made by the shell; everything below it is a UUIDv5 in the run's
own namespace (RFC 9562, section 5.5).
"""

from uuid import UUID, uuid5


def execution_id(run_id: UUID, step: int, call_index: int) -> UUID:
    """Name one tool call of a run: the same step and index always give the same id."""
    return uuid5(run_id, f"call:{step}:{call_index}")


def request_id(run_id: UUID, step: int, kind: str, nth: int) -> UUID:
    """Name the *nth* decision request of *kind* in a step."""
    return uuid5(run_id, f"decision:{step}:{kind}:{nth}")


def gate_id(run_id: UUID, subject: str) -> UUID:
    """Name the gate opened for *subject* (an execution id, a loop, …)."""
    return uuid5(run_id, f"gate:{subject}")


def effect_id(run_id: UUID, name: str) -> UUID:
    """Name any other effect of a run."""
    return uuid5(run_id, f"effect:{name}")


def trace_id(run_id: UUID) -> int:
    """Return the OpenTelemetry trace id of a run: the run id itself."""
    return run_id.int


def span_id(run_id: UUID, name: str) -> int:
    """Return the stable 64-bit span id of *name* within a run; never 0, which W3C trace context forbids."""
    return (uuid5(run_id, f"span:{name}").int & ((1 << 64) - 1)) or 1


def traceparent(run_id: UUID, name: str, *, trace: UUID | None = None) -> str:
    """Return the W3C `traceparent` that makes *name* the parent span (W3C Trace Context, section 3.2).

    *trace* is the run that a caller submitted, where *run_id* is below it.
    """
    return f"00-{trace_id(trace or run_id):032x}-{span_id(run_id, name):016x}-01"

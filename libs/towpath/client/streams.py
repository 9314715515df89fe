"""What streaming a run adds to its events: which kinds there are to choose from, and what a failed run raises."""

from collections.abc import Iterable
from uuid import UUID

from towpath.errors import RefusedError, RunFailedError
from towpath_contracts.events import RunFinished
from towpath_contracts.problems import problem
from towpath_contracts.streaming import EVENT_TYPES


def known_types(event_types: Iterable[str] | None) -> frozenset[str] | None:
    """Return the kinds of events that were asked for; raises RefusedError for one that there is not."""
    if event_types is None:
        return None
    wanted = frozenset(event_types)
    unknown = ", ".join(sorted(wanted - EVENT_TYPES))
    if unknown:
        known = ", ".join(sorted(EVENT_TYPES))
        raise RefusedError(problem("request_invalid", f"a stream has no {unknown}; it has {known}"))
    return wanted


def raise_if_failed(run_id: UUID, ended: RunFinished) -> None:
    """Raise RunFailedError for a run that neither completed nor was cancelled."""
    if ended.status in ("completed", "cancelled"):
        return
    message = str(ended.final.get("message") or ended.reason)
    raise RunFailedError(problem("run_failed", f"{ended.status}, {ended.reason}: {message}", run_id=str(run_id)))

"""A page of a run's events as a batch of CloudEvents 1.0: each is in one place of one log, so its id is for good."""

from uuid import UUID

from pydantic_core import to_json

from towpath_contracts import ids
from towpath_contracts.events.cloud_events import cloud_event
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.runs.views import RunView
from towpath_readings.spans import RUN


def event_batch(page: EventPage, view: RunView) -> bytes:
    """Return the events of *page*; `sequence` of the last one is where the next page begins."""
    trace = UUID(hex=view.trace_id) if view.trace_id else None
    events = [
        {
            **cloud_event(
                event_id=f"{page.run_id}:{entry['seq']}",
                kind=str(entry["event"]["type"]),
                project=view.project,
                subject=str(page.run_id),
                at=str(entry["at"]),
                data=entry["event"],
                traceparent=ids.traceparent(page.run_id, RUN, trace=trace),
            ),
            "sequence": str(entry["seq"]),
        }
        for entry in page.model_dump(mode="json")["entries"]
    ]
    return to_json(events)

"""The attributes of a CloudEvent that make the key and the trace of a task."""

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_contracts.events.cloud_events import binary_attributes, read_task_event
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.nats.replies import with_event_key

EVENT = {"specversion": "1.0", "id": "8812", "source": "https://shop.example/orders", "type": "order"}
TASK = SubmitTask(network="support", user_message="Order 8812 is disputed")


def message(**more: str) -> Msg:
    headers = {f"ce-{name}": value for name, value in {**EVENT, **more}.items()}
    return Msg(_client=Client(), subject="task.submit.shop", headers=headers)


def test_source_and_id_are_the_key_together() -> None:
    keys = {
        read_task_event({**EVENT, **other}, "/body/").idempotency_key
        for other in ({}, {"id": "8813"}, {"source": "https://shop.example/order"}, {"source": "x", "id": "y"})
    }
    assert len(keys) == 4
    assert read_task_event({**EVENT, "type": "other"}, "/body/") == read_task_event(EVENT, "/body/")


def test_an_empty_traceparent_is_none() -> None:
    assert read_task_event({**EVENT, "traceparent": ""}, "/body/").traceparent is None
    taken = with_event_key(TASK, message(traceparent=""))
    assert SubmitTask.model_validate_json(taken.model_dump_json()) == taken
    assert taken.traceparent is None


def test_headers_are_read_whatever_their_case_with_their_escapes_undone() -> None:
    assert binary_attributes({"CE-Subject": "Euro%20%E2%82%AC", "content-type": "x"}) == {"subject": "Euro €"}


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_what_every_event_has_is_asked_for(name: str) -> None:
    with pytest.raises(ProblemError, match=f"{name}: an event has it"):
        with_event_key(TASK, message(**{name: ""}))

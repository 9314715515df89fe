"""W3C traceparents: what names a span, and what is ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from towpath_contracts.runs.trace_context import RemoteSpan, parse_traceparent
from towpath_contracts.tasks import SubmitTask

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("flags", ["01", "00", "03"])
def test_a_traceparent_names_a_span_and_whether_it_is_recorded(flags: str) -> None:
    found = parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}")
    assert found == RemoteSpan(trace_id=int(TRACE, 16), span_id=int(SPAN, 16), sampled=flags != "00")
    assert (found.trace.hex, found.traceparent) == (TRACE, f"00-{TRACE}-{SPAN}-{'00' if flags == '00' else '01'}")


def test_a_task_names_a_span_or_is_refused() -> None:
    task = {"network": "support", "user_message": "hello"}
    assert SubmitTask.model_validate({**task, "traceparent": f"00-{TRACE}-{SPAN}-01"}).traceparent
    assert "traceparent" not in SubmitTask.model_validate(task).model_dump()
    with pytest.raises(ValidationError, match="W3C traceparent"):
        SubmitTask.model_validate({**task, "traceparent": f"00-{'0' * 32}-{SPAN}-01"})


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "garbage",
        "00-" + "0" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "1" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 31 + "-" + "1" * 16 + "-01",
        "00-" + "A" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "1" * 16 + "-01-more",
    ],
)
def test_a_malformed_traceparent_is_nothing(header: str | None) -> None:
    assert parse_traceparent(header) is None


def test_a_traceparent_of_this_or_a_later_version_is_read() -> None:
    for header in (f"00-{'1' * 32}-{'2' * 16}-01", f"01-{'1' * 32}-{'2' * 16}-00-more"):
        link = parse_traceparent(header)
        assert link is not None
        assert (f"{link.trace_id:032x}", f"{link.span_id:016x}") == ("1" * 32, "2" * 16)


@given(st.text(max_size=80))
def test_any_header_is_read_without_harm(text: str) -> None:
    parse_traceparent(text)

"""What a failed call means, whatever the API says and however long it goes on."""

import time

import pytest

from towpath_decider.adapters.provider_failures import READ_CHARS, error_details, failure_of_status
from towpath_decider.adapters.stream_assembly import status_of

KEY = "sk-" + "k" * 161


@pytest.mark.parametrize("said", ["token count", "max_tokens ", "context_", "exceeds the maximum number of "])
def test_an_error_without_end_is_looked_at_in_short_time(said: str) -> None:
    began = time.thread_time()
    failure = failure_of_status("It", 400, said * (2_000_000 // len(said)))
    assert (failure.code, failure.retryable) == ("model_refused_request", False)
    assert time.thread_time() - began < 1


def test_the_reason_of_an_error_is_found_where_apis_give_it() -> None:
    for text in ("The input token count (9) exceeds the maximum", "x" * 10_000 + " prompt is too long"):
        assert failure_of_status("It", 400, text).code == "context_too_long"


def test_no_key_stands_in_a_long_error() -> None:
    """However often it stands there, and where what is looked at ends within it."""
    for gap in range(0, len(KEY), 40):
        text = "x" * gap + KEY * (READ_CHARS // len(KEY) + 2)
        assert "kkkk" not in failure_of_status("It", 401, text, secret=KEY).message


def test_a_date_that_no_clock_has_asks_for_no_wait() -> None:
    for date in (f"Mon, 01 Jan {10**20} 00:00:00 GMT", "Mon, 01 Jan 99999 00:00:00 GMT", "9" * 5_000):
        details = error_details({"retry-after": date}, None)
        assert details.retry_after_s is None or details.retry_after_s > 0


@pytest.mark.parametrize(
    ("named", "code", "retryable"),
    [
        ("authentication_error", "model_unauthorized", False),
        ("permission_error", "model_unauthorized", False),
        ("invalid_request_error", "model_refused_request", False),
        ("not_found_error", "model_not_found", False),
        ("request_too_large", "context_too_long", False),
        ("rate_limit_error", "model_rate_limited", True),
        ("overloaded_error", "model_unavailable", True),
    ],
)
def test_an_error_within_an_answer_that_began_well_is_tried_again_as_one_before_it(
    named: str, code: str, retryable: bool
) -> None:
    failure = failure_of_status("It", status_of(200, {"error": {"type": named}}), "no")
    assert (failure.code, failure.retryable) == (code, retryable)
    assert status_of(400, {"error": {"type": named}}) == 400, "a status that is an error itself counts"

"""`towpath api`: what is sent, and what is said of an operation that there isn't."""

from typing import Any

import pytest

from towpath.cli import main
from towpath.cli.connection.api_command import unknown_operation

OPERATIONS: dict[str, dict[str, Any]] = {
    "/v1/runs": {"get": {}, "post": {}},
    "/v1/runs/{run_id}": {"get": {}},
    "/v1/runs/{run_id}/events": {"get": {}},
    "/v1/networks/{name}": {"get": {}},
    "/v1/networks/{name}/prompt": {"post": {}},
}


@pytest.mark.parametrize(
    ("verb", "path", "remedy"),
    [
        ("GET", "/v1/rnus", "Did you mean: GET /v1/runs, POST /v1/runs"),
        ("GET", "/v1/runs/0192/evnts", "Did you mean: GET /v1/runs/{run_id}/events"),
        ("DELETE", "/v1/runs/0192", "towpath api GET /v1/runs/0192"),
        ("PUT", "/v1/networks/team/support/prompt", "towpath api GET /v1/networks/team/support/prompt"),
        ("GET", "/nothing/like/it", "Operations are listed in the console"),
    ],
)
def test_an_operation_that_there_is_not_gets_the_one_that_may_be_meant(verb: str, path: str, remedy: str) -> None:
    found = unknown_operation(OPERATIONS, verb, path)
    assert found is not None
    assert found.problem.remedy.startswith(remedy)


def test_an_operation_that_there_is_is_not_blamed() -> None:
    assert unknown_operation(OPERATIONS, "GET", "/v1/runs/0192") is None
    assert unknown_operation(OPERATIONS, "GET", "/v1/networks/team/support") is None


@pytest.mark.parametrize(
    "words",
    [
        *(("GET", "runs"), ("GET", "//elsewhere.example/v1"), ("GET", "https://elsewhere.example/v1")),
        *(("FETCH", "/v1/runs"), ("GET", "/v1/runs", "-f", "novalue"), ("POST", "/v1/runs", "-F", "a={")),
    ],
)
def test_what_is_no_operation_is_refused_before_anything_is_sent(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["api", *words, "--server", "http://127.0.0.1:1"]) == 2, "where nobody answers it would be 6"
    assert capsys.readouterr().err.startswith("request_invalid")

"""`towpath api`: what is sent, and what is said of an operation that there isn't."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway.web import response, web

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
        *(("GET", "/v1/runs", "--input", "body.json"), ("DELETE", "/v1/runs", "--input", "body.json")),
        *(("POST", "/v1/runs", "-f", "a=1", "-f", "a=2"), ("PUT", "/v1/runs", "-f", "a=1", "-F", "a=2")),
        *(("FETCH", "/v1/runs"), ("GET", "/v1/runs", "-f", "novalue"), ("POST", "/v1/runs", "-F", "a={")),
    ],
)
def test_what_is_no_operation_is_refused_before_anything_is_sent(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("body.json").write_text("{}")
    assert main(["api", *words, "--server", "http://127.0.0.1:1"]) == 2, "where nobody answers it would be 6"
    assert capsys.readouterr().err.startswith("request_invalid")


async def test_what_is_given_more_than_once_is_sent_as_often_in_a_query() -> None:
    async with web(lambda _: response(200, b"{}")) as site:
        server = ("--server", site.url(host="127.0.0.1").rstrip("/"))
        fields = ("-f", "a=3", "-F", 'a=["4"]', "-f", "c=x")
        assert await asyncio.to_thread(main, ["api", "GET", "/v1/runs?a=1&a=2&b=", *fields, *server]) in (0, None)
        assert await asyncio.to_thread(main, ["api", "POST", "/v1/runs?a=1&a=2", "-f", "a=3", *server]) in (0, None)
    assert [asked.path for asked in site.asked] == ["/v1/runs?a=1&a=2&a=3&a=4&b=&c=x", "/v1/runs?a=1&a=2"]

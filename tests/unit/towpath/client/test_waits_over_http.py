"""What the SDK asks a gateway to wait for, and what it says of its refusals."""

import httpx2

from towpath.client.http import HttpTransport, error_of_response
from towpath.errors import DeniedError
from towpath_contracts.problems.registry import problem

ADDRESS = "http://gateway.example"


async def test_a_request_is_answered_at_once_unless_it_asks_for_a_wait_of_half_a_minute_at_most() -> None:
    asked: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers.get("prefer"))
        return httpx2.Response(200, json={})

    transport = HttpTransport(ADDRESS, api_key=None, caller="ann")
    await transport.close()
    transport._http = httpx2.AsyncClient(base_url=ADDRESS, transport=httpx2.MockTransport(answer))
    await transport.request("GET", "/v1/runs/0")
    await transport.request("POST", "/v1/networks/shop/invoke", body={}, wait_s=7.5)
    await transport.request("POST", "/v1/networks/shop/invoke", body={}, wait_s=90.0)
    await transport.close()
    assert asked == [None, "wait=7", "wait=30"]


def test_a_refused_key_is_told_with_the_server_that_was_asked_and_nothing_else_is() -> None:
    refused, other = problem("unauthenticated", "the request carries no key"), problem("run_not_found", "no run 7c1e")
    told = error_of_response(401, refused.model_dump_json().encode(), "http://ann:secret@gateway.example:8787")
    assert isinstance(told, DeniedError) and "secret" not in str(told)
    assert told.problem.detail.endswith("gateway.example:8787: the request carries no key")
    with_origin = error_of_response(401, refused.model_dump_json().encode(), ADDRESS, "TOWPATH_API_KEY")
    assert with_origin.problem.detail.endswith("no key (the key that was sent is that of TOWPATH_API_KEY)")
    assert error_of_response(404, other.model_dump_json().encode(), ADDRESS, "TOWPATH_API_KEY").problem == other
    assert error_of_response(401, refused.model_dump_json().encode()).problem == refused

"""What the SDK asks a gateway to wait for."""

import httpx2

from towpath.client.http import HttpTransport

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

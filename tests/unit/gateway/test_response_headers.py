"""Headers of every answer: nothing of it is kept on its way, but for files of the console, whose names change."""

import re

import httpx2
import pytest
from tests.unit.gateway.test_admission import KEY, door

from towpath_gateway.app.request_log import RequestLog

HTML = {"Accept": "text/html"}


async def answer(path: str, **headers: str) -> httpx2.Response:
    behind = door()
    transport = httpx2.ASGITransport(app=RequestLog(behind, behind._dependencies))
    async with httpx2.AsyncClient(transport=transport, base_url="http://towpath.example") as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        *((path, {"Authorization": f"Bearer {KEY}"}) for path in ("/v1/me", "/v1/nothing", "/problems")),
        *((path, HTML) for path in ("/", "/runs", "/sign-in", "/problems", "/v1/me")),
        *((path, {}) for path in ("/.json", "/live?page=/", "/v1/me", "/sign-in", "/openapi.json")),
    ],
)
async def test_no_answer_is_kept_and_each_header_is_said_once(path: str, headers: dict[str, str]) -> None:
    found = await answer(path, **headers)
    assert found.headers["cache-control"] == "no-store" and found.headers["x-content-type-options"] == "nosniff"


async def test_files_of_the_console_are_kept_by_browsers() -> None:
    page = await answer("/sign-in", **HTML)
    (style,) = re.findall(r'rel="stylesheet" href="([^"]+)"', page.text)
    found = await answer(style)
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert found.headers["x-content-type-options"] == "nosniff"

"""Files of the console go over the wire compressed to whoever takes that, and are kept for good."""

import gzip

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from towpath_console.assets_folder import FOLDER, address, serve
from towpath_console.sections import ASSETS

APPLICATION = Starlette(routes=[Route(f"{ASSETS}{{file:path}}", serve)])


async def answer(path: str, encoding: str) -> tuple[httpx2.Response, bytes]:
    """Return what is answered, and its body as it is on the wire."""
    transport = httpx2.ASGITransport(app=APPLICATION)
    asked = {"Accept-Encoding": encoding}
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://console") as client,
        client.stream("GET", path, headers=asked) as found,
    ):
        return found, b"".join([part async for part in found.aiter_raw()])


@pytest.mark.parametrize("name", ["console.css", "console.js", "vendor/htmx.js"])
async def test_a_file_is_sent_compressed_where_that_is_taken_and_as_it_is_elsewhere(name: str) -> None:
    body = (FOLDER / name).read_bytes()
    (plain, whole), (small, sent) = await answer(address(name), "identity"), await answer(address(name), "br, gzip")
    assert (whole, plain.headers.get("content-encoding")) == (body, None)
    assert gzip.decompress(sent) == body and len(sent) < len(body) / 2
    for one in (plain, small):
        assert one.headers["vary"] == "Accept-Encoding" and "immutable" in one.headers["cache-control"]


async def test_there_is_nothing_beside_the_files_of_the_folder() -> None:
    for path in (f"{ASSETS}x/../site.py", f"{ASSETS}x/nothing.css", f"{ASSETS}x/"):
        assert (await answer(path, "gzip"))[0].status_code == 404

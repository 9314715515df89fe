"""Opens pages in a real browser that has kept nothing, and says how long and how much that took."""

import shutil
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from playwright.async_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
HOW = "chromium has to be on the path (Debian: apt-get install chromium)"

PAINTED = """() => new Promise((tell) => {
  const look = () => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    const page = performance.getEntriesByType("navigation")[0];
    if (paint) tell([paint.startTime, page.responseStart - page.requestStart]); else setTimeout(look, 5);
  };
  look();
})"""


class Visit(NamedTuple):
    """A page as somebody met it; bytes are those on the wire of the page and its files, not of the stream behind it."""

    path: str
    status: int
    paint_ms: float
    least_paint_ms: float
    server_ms: float
    bytes: int


def browser_path() -> str | None:
    """Return the browser's program; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


async def visit(browser: Browser, url: str, path: str, headers: dict[str, str]) -> Visit:
    """Open a page in a window of its own."""
    context = await browser.new_context(extra_http_headers=headers, viewport={"width": 1440, "height": 900})
    try:
        page = await context.new_page()
        session = await context.new_cdp_session(page)
        sizes: list[float] = []
        await session.send("Network.enable")
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        answer = await page.goto(url + path, wait_until="load")
        paint_ms, server_ms = await page.evaluate(PAINTED)
        return Visit(path, answer.status if answer else 0, paint_ms, paint_ms, server_ms, round(sum(sizes)))
    finally:
        await context.close()


def middle(visits: Sequence[Visit]) -> Visit:
    """Return the median of each figure, the fastest paint, and the status of the worst answer."""
    first = visits[0]
    paint, server, size = (
        statistics.median(getattr(one, name) for one in visits) for name in ("paint_ms", "server_ms", "bytes")
    )
    least = min(one.paint_ms for one in visits)
    status = max(one.status for one in visits)
    return Visit(first.path, status, round(paint, 1), round(least, 1), round(server, 1), int(size))


async def visits(browser: Any, url: str, paths: Sequence[str], headers: dict[str, str], rounds: int) -> list[Visit]:
    """Open each page *rounds* times, a round after the other, so that what else the machine does hits all alike."""
    found: dict[str, list[Visit]] = {path: [] for path in paths}
    for _ in range(rounds):
        for path in paths:
            found[path].append(await visit(browser, url, path, headers))
    return [middle(those) for those in found.values()]

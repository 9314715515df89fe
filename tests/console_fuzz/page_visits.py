"""Opens the pages of a poisoned console in a browser, and says what a text did there that is more than being shown.

A page is opened with one hostile text in the place of every other. Where it has a stream, the stream then brings the
same page with other hostile texts, which htmx puts in the place of what was there.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, async_playwright
from tests.console_fuzz.trials import WITHIN_S, PoisonedConsole, Trial
from tests.support.browser import ARGUMENTS

WATCH = """
window.swapped = 0; window.refused = [];
addEventListener("securitypolicyviolation", (event) => refused.push(`${event.violatedDirective} ${event.blockedURI}`));
addEventListener("htmx:after:sse:message", (event) => event.detail.message.event || (swapped += 1));
"""
"""What each page runs before its own files."""

SHOWN = """async () => {
  await new Promise((done) => setTimeout(done, 10)); // a refusal is told a moment later
  const never = "iframe object embed base style applet frame frameset math foreignobject video audio portal marquee";
  const addresses = new Set(["href", "src", "action", "formaction", "xlink:href", "poster", "srcset", "ping"]);
  const found = new Set(window.refused.map((one) => `the page was refused ${one}`));
  if ("owned" in window) found.add("a text was executed");
  const isOwn = (value) => URL.canParse(value, document.baseURI) && new URL(value, document.baseURI).origin === origin;
  for (const element of document.querySelectorAll("*")) {
    const tag = element.localName;
    if (tag.startsWith("hostile") || never.split(" ").includes(tag)) found.add(`an element <${tag}>`);
    if (tag === "script" && !element.src.startsWith(`${origin}/console/assets/`)) found.add("a script");
    for (const { name, value } of element.attributes) {
      const isOurs = element.id === "live" || name === "data-htmx-powered";
      if (/^on|hostile|^srcdoc$|^ping$/.test(name) || (/^(data-)?hx-/.test(name) && !isOurs)) {
        found.add(`an attribute ${name} of <${tag}>`);
      }
      if (addresses.has(name) && !isOwn(value)) found.add(`<${tag} ${name}="${value.slice(0, 80)}">`);
    }
  }
  return [...found].sort();
}"""
"""Returns what of the open page, as the browser understood it, came from data and is more than text."""

OF_THE_PLATFORM = frozenset({"/docs", "/asyncapi"})
"""Pages that show nothing but what the platform says of itself; the first of them is the largest there is."""

LOADING = "Failed to load resource: the server responded with a status of 4"
"""What a browser writes of a page that is a refusal: some of these are."""

SWAPPED = """() => new Promise((done) => {
  const waiting = setInterval(() => window.swapped && done(clearInterval(waiting)), 10);
})"""
"""Ends once a stream brought something: what a page's rules let no text do, `wait_for_function` would."""


class PageVisitor:
    """One window in which pages are opened one after the other; keeps what happens there that should not."""

    def __init__(self, page: Page, console: PoisonedConsole) -> None:
        self.page = page
        self._console = console
        self._url = str(console.browser.base_url).rstrip("/")
        self._seen: list[str] = []
        page.on("dialog", self._dialog)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self._seen.append(f"error: {error}"))
        page.on("popup", lambda popup: self._seen.append(f"opened {popup.url}"))
        page.on("download", lambda download: self._seen.append(f"loaded down {download.url}"))
        page.context.on("request", self._asked)

    async def faults(self, path: str, streamed: Trial | None = None) -> list[str]:
        """Return what happened on the page at *path*, and once its stream brought the texts of *streamed*."""
        self._seen.clear()
        self._console.streamed = streamed
        answer = await self.page.goto(self._url + path, wait_until="load")
        found = [] if answer is not None and answer.status < 500 else [f"answered {answer and answer.status}"]
        found += await self.shown()
        if streamed is not None and await self.page.locator("#liveness").count():
            async with asyncio.timeout(WITHIN_S):
                await self.page.evaluate(SWAPPED)
            found += [f"stream: {one}" for one in await self.shown()]
        if urlsplit(self.page.url).path != urlsplit(self._url + path).path:
            found.append(f"led to {self.page.url[:80]}")
        return [*found, *self._seen]

    async def shown(self) -> list[str]:
        """Return what is wrong with the page that is open."""
        found: list[str] = await self.page.evaluate(SHOWN)
        return found

    async def _dialog(self, dialog: Any) -> None:
        self._seen.append(f"asked {dialog.message[:80]}")
        await dialog.dismiss()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(LOADING):
            self._seen.append(f"complained: {message.text[:120]}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((f"{self._url}/", "data:")):
            self._seen.append(f"asked for {request.url[:80]}")


async def visitor_of(context: BrowserContext, console: PoisonedConsole) -> PageVisitor:
    """Return a visitor of *console* in a new window of *context*."""
    await context.add_init_script(WATCH)
    return PageVisitor(await context.new_page(), console)


async def visit_all(
    visitor: PageVisitor,
    console: PoisonedConsole,
    paths: Mapping[str, str],
    chosen: Iterable[tuple[Trial, Trial]],
    told: Callable[[str], None] = str,
) -> list[str]:
    """Return what does not hold, a line each; of a pair, the first opens pages, and the other comes by streams."""
    wrong: list[str] = []
    for opened, streamed in chosen:
        found = []
        for name, path in paths.items():
            if name in OF_THE_PLATFORM:
                continue
            console.begin(opened)
            found += [f"{opened.name}: {name}: {one}" for one in await visitor.faults(path, streamed)]
        wrong += found
        told(f"in a browser, {opened.name}: {len(found)} faults on {len(paths)} pages")
    return wrong


async def visit_with_and_without_rules(
    chromium: str,
    console: PoisonedConsole,
    paths: Mapping[str, str],
    chosen: Iterable[Trial],
    told: Callable[[str], None],
) -> list[str]:
    """Return what does not hold where streams bring the texts that pages are opened with, a line each.

    Each page is also opened in a browser that passes over its Content-Security-Policy: nothing of a text may run there
    either, so that no page depends on its rules alone.
    """
    wrong: list[str] = []
    pairs = [(trial, trial) for trial in chosen]
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        for bypasses in (False, True):
            context = await browser.new_context(bypass_csp=bypasses)
            context.set_default_timeout(1000 * WITHIN_S)
            wrong += await visit_all(await visitor_of(context, console), console, paths, pairs, told)
            await context.close()
        await browser.close()
    return wrong

"""Pictures of the console on a platform with the sample, made again by one command.

`uv run --group dev --group browser python -m tests.browser.screenshots` takes every page in both schemes at three
widths into build/screenshots (a folder may be named); `--readme` the four of the README, small, into docs/console, and
the end of `towpath demo` into docs/demo.svg.
"""

import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.async_api import Browser, async_playwright
from rich.console import Console
from rich.text import Text
from tests.browser.test_console import ERASURE, SHOTS, path_of, shot_of
from tests.support.browser import ARGUMENTS, HOW, browser_path
from tests.support.places import ROOT

from towpath import Client
from towpath.cli.administration.embedded_platform import EmbeddedPlatform, start_embedded
from towpath.cli.shared.output import OutputPrinter
from towpath_console.pages import PAGES

WIDTHS = (1440, 1024, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
README = ROOT / "docs" / "console"
DEMO = ROOT / "docs" / "demo.svg"
DEMO_COLUMNS = 120
LARGE, SMALL = (1280, 800), (800, 500)
COLOURS = 200
SETTLED_MS = 300
"""By then what changes on a page has been drawn once."""


async def shown_by(platform: EmbeddedPlatform) -> tuple[str, str, str]:
    """Return a run that ended after an approval, the gate of one that waits for one, and an erasure."""
    async with Client(platform.url, api_key=platform.token) as client:
        ended = await client.submit("support", "Refund order 8812", model="scripted:support")
        async with asyncio.timeout(60):
            while not (own := await client.gates.list(run_id=ended.run_id)):  # noqa: ASYNC110 - the gate opens soon
                await asyncio.sleep(0.1)
        await client.gates.approve(own[0].gate_id, reason="The customer sent a picture of it.")
        await client.result(ended.run_id, timeout=60)
        (waiting,) = await client.gates.list()
        erasure = await client.audit.request_erasure(**ERASURE)
        return str(ended.run_id), str(waiting.gate_id), str(erasure.erasure_id)


async def pictures(browser: Browser, platform: EmbeddedPlatform, out: Path) -> int:
    """Take every page in every scheme and width; returns how many."""
    shown = await shown_by(platform)
    taken = 0
    for scheme in SCHEMES:
        for width in WIDTHS:
            context = await browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, extra_http_headers=headers(platform)
            )
            page = await context.new_page()
            for route in PAGES:
                if (path := path_of(route.path, *shown)) is None:
                    continue
                await page.goto(platform.url + path, wait_until="load")
                await page.wait_for_timeout(SETTLED_MS)
                await page.screenshot(path=out / f"{shot_of(route.path)}-{scheme}-{width}.png", full_page=True)
                taken += 1
            await context.close()
    return taken


async def small_pictures(browser: Browser, platform: EmbeddedPlatform, out: Path) -> int:
    """Take the pictures of the README, as large as they are shown and in few colours."""
    ended, _, _ = await shown_by(platform)
    shown = {"overview": "/", "run": f"/runs/{ended}", "approvals": "/approvals", "policy": "/policy?network=support"}
    viewport = {"width": LARGE[0], "height": LARGE[1]}
    context = await browser.new_context(viewport=viewport, color_scheme="light", extra_http_headers=headers(platform))
    page = await context.new_page()
    for name, path in shown.items():
        await page.goto(platform.url + path, wait_until="load")
        await page.wait_for_timeout(SETTLED_MS)
        image = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
        small = image.resize(SMALL, Image.Resampling.LANCZOS).quantize(COLOURS, dither=Image.Dither.NONE)
        small.save(out / f"{name}.png", optimize=True)
    await context.close()
    return len(shown)


def demo_picture(out: Path) -> None:
    """Draw what `towpath demo` writes from its run on; the start before it is left out."""
    command = [str(Path(sys.executable).parent / "towpath"), "demo", "--yes"]
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(DEMO_COLUMNS), "TERM": "xterm-256color"}
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run(command, env={**keyless, **terminal}, capture_output=True, text=True, check=True)
    lines = done.stdout.rstrip().splitlines()
    first = next(number for number, line in enumerate(lines) if Text.from_ansi(line).plain.startswith("  run "))
    console = Console(record=True, width=DEMO_COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi("\n".join(lines[first:])), no_wrap=True, overflow="ellipsis")
    drawn = console.export_svg(title="towpath demo --yes")
    bare = re.sub(r"<!--.*?-->|@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)  # the fonts are another machine's
    out.write_text(re.sub(r"[ \t]+$", "", bare, flags=re.MULTILINE).strip() + "\n", "utf-8")


def headers(platform: EmbeddedPlatform) -> dict[str, str]:
    """Return what lets a browser in."""
    return {"Authorization": f"Bearer {platform.token}"}


def main(*words: str) -> int:
    """Take the pictures that the words ask for."""
    found = browser_path()
    if found is None:
        sys.stderr.write(f"no browser was found: {HOW}\n")
        return 1
    folders = [Path(word) for word in words if not word.startswith("-")]
    is_for_readme = "--readme" in words
    out = folders[0] if folders else README if is_for_readme else SHOTS
    out.mkdir(parents=True, exist_ok=True)
    taken = asyncio.run(take(found, small_pictures if is_for_readme else pictures, out))
    if is_for_readme and not folders:
        demo_picture(DEMO)
    sys.stdout.write(f"{taken} pictures in {out}\n")
    return 0


async def take(chromium: str, kind: Callable[[Browser, EmbeddedPlatform, Path], Awaitable[int]], out: Path) -> int:
    """Start a platform with the sample and a browser, and take pictures of that kind."""
    with tempfile.TemporaryDirectory(prefix="towpath-pictures-") as folder:
        started = start_embedded(
            "--port", "auto", "--nats-port", "auto", "--ephemeral", "--sample",
            folder=Path(folder), out=OutputPrinter("table", aside=True),
        )  # fmt: skip
        async with started as platform, async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
            taken = await kind(browser, platform, out)
            await browser.close()
    return taken


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

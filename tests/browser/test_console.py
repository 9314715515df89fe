"""The console in a browser, as people use it: both schemes, a keyboard, no script, hostile texts, a killed gateway."""

import asyncio
import contextlib
import json
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import yaml
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from tests.browser.page_states import moving, zoom_faults
from tests.console_fuzz.content import paths, write_hostile_texts
from tests.console_fuzz.page_visits import visit_all, visitor_of
from tests.console_fuzz.texts import TEXTS
from tests.console_fuzz.trials import poisoned_console, seen_trials
from tests.support.browser import ARGUMENTS
from tests.support.gateway.console_runs import closed_gate
from tests.support.places import ROOT
from tests.support.platform.sample_platform import SAMPLE, sample_platform

from towpath_console.pages import PAGES
from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOTS = ROOT / "build" / "screenshots"
SERIOUS = {"serious", "critical"}
AXE = Axe().axe_script
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202e{{7*7}}"
VALUES = {
    "worker_id": "0" * 32,
    "network": "support",
    "tool": "orders.find",
    "step": "1",
    "version": "1",
    "entry_id": "1",
}
"""What stands for the parts of paths, beside those of the run, the gate and the erasure that the tests make."""

ERASURE = {"caller": "nobody", "reason": "request 4711"}
"""An erasure to ask for: a page shows it."""

BATCH = "?tool=orders.refund&rule=refunds-over-100"
SCROLLED_TABS = """[...document.querySelectorAll(".tabs")].some((one) =>
  getComputedStyle(one).overflowY !== "visible" && one.scrollHeight > one.clientHeight)"""


def path_of(route: str, run_id: str, gate_id: str, erasure_id: str) -> str | None:
    """Return a path of the page at *route*; None where there is nothing to show, as no dead letter is here."""
    if "{letter_id}" in route:
        return None
    made = {"run_id": run_id, "gate_id": gate_id, "erasure_id": erasure_id}
    path = route.replace(":path}", "}").format_map({**VALUES, **made})
    return path + {"/runs/compare": f"?a={run_id}&b={run_id}", "/approvals/batch": BATCH}.get(route, "")


def shot_of(route: str) -> str:
    """Return what the picture of the page at *route* is called."""
    return re.sub(r"[^a-z_]+", "-", route.replace(":path", "")).strip("-") or "overview"


class Place:
    """A running platform and a browser; whatever a page asks of another host, or complains of, is kept."""

    def __init__(self, platform: Platform, browser: Browser, api: httpx2.AsyncClient) -> None:
        self.platform = platform
        self.browser = browser
        self.api = api
        self.faults: list[str] = []

    async def context(self, **options: Any) -> BrowserContext:
        """Return a window of the person whose platform this is."""
        headers = self.platform.access.authorization()
        context = await self.browser.new_context(extra_http_headers=headers, **options)
        context.set_default_timeout(60_000)  # an open page is drawn again after two minutes at the latest
        context.on("request", self._asked)
        context.on("weberror", lambda error: self.faults.append(f"error: {error.error} {error.error.stack}"))
        return context

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.platform.gateway_url, "data:")):
            self.faults.append(f"asked for {request.url}")

    async def answered(self, method: str, path: str, body: Any) -> httpx2.Response:
        """Ask the API until it does what it is asked for, also while it is being started."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    answer = await self.api.request(method, path, json=body)
                    if answer.is_success:
                        return answer
                await asyncio.sleep(0.1)

    async def waiting_run(self, message: str = "") -> tuple[str, str]:
        """Return a run that waits for an approval, and its gate."""
        script = json.loads((SAMPLE / "script.json").read_text())
        task = {"network": "support", "user_message": message or f"Refund {uuid.uuid4().hex[:6]}", "script": script}
        run_id = (await self.answered("POST", "/v1/runs", task)).json()["run_id"]
        async with asyncio.timeout(60):
            while True:
                gates = (await self.api.get(f"/v1/gates?status=pending&run_id={run_id}")).json()["gates"]
                if gates:
                    return run_id, gates[0]["gate_id"]
                await asyncio.sleep(0.05)

    def url(self, path: str) -> str:
        return f"{self.platform.gateway_url}{path}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(chromium: str) -> AsyncIterator[Place]:
    with temporary_folder() as folder:
        platform = sample_platform(folder)
        async with platform, async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
            headers = platform.access.authorization()
            async with httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60) as api:
                spec = yaml.safe_load((SAMPLE / "network.yaml").read_text())
                place = Place(platform, browser, api)
                await place.answered("POST", "/v1/networks", {"spec": spec})
                yield place
            await browser.close()


async def looked_at(page: Page, shot: str) -> list[str]:
    """Return what is wrong with an open page: accessibility, and words that run out of it at the side."""
    await page.evaluate(AXE)
    found = await seen_by_axe(page, f"{shot}-light")
    # What is not colour is the same in both schemes; and no colour is to be half-way between them when it is looked at.
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += await seen_by_axe(page, f"{shot}-dark", runOnly=["color-contrast"])
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 390, "height": 844})
    if await page.evaluate("document.documentElement.scrollWidth") > 391:
        found.append(f"{shot}: wider than a telephone")
    found += [f"{shot}: {one}" for one in [*await zoom_faults(page), *await moving(page, "reduce")]]
    await page.set_viewport_size({"width": 1440, "height": 900})
    if await page.evaluate(SCROLLED_TABS):
        found.append(f"{shot}: tabs with a scroll bar, where all of them fit")
    return found


async def seen_by_axe(page: Page, shot: str, **options: Any) -> list[str]:
    """Return what axe finds serious, with a picture. Of what is well it is asked for nothing, which takes long."""
    found = await page.evaluate("options => axe.run(document, options)", {"resultTypes": ["violations"], **options})
    serious = [
        f"{shot}: {fault['id']} {[node['target'] for node in fault['nodes']][:3]}"
        for fault in found["violations"]
        if fault["impact"] in SERIOUS
    ]
    if serious:  # of a page that is well `tests.browser.screenshots` takes one; here each costs as much as a look
        await page.screenshot(path=SHOTS / f"{shot}.png", full_page=True)
    return serious


async def test_every_page_is_accessible_in_both_schemes_and_fits_a_telephone(place: Place) -> None:
    run_id, gate_id = await place.waiting_run(HOSTILE)
    erasure_id = (await place.answered("POST", "/v1/erasures", ERASURE)).json()["erasure_id"]
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = await place.context(color_scheme="light", bypass_csp=True, viewport={"width": 1440, "height": 900})
    page, wrong = await context.new_page(), []
    for route in PAGES:
        if (path := path_of(route.path, run_id, gate_id, erasure_id)) is None:
            continue
        answer = await page.goto(place.url(path), wait_until="domcontentloaded")
        if answer is None or answer.status != 200:
            wrong.append(f"{path}: {answer and answer.status}")
        wrong += await looked_at(page, shot_of(route.path))
        if "owned" in await page.title():
            wrong.append(f"{path}: a text of a task was executed")
    await page.goto(place.url(f"/runs/{run_id}"))
    assert await moving(page, "no-preference"), "bars grow slowly for whoever has not asked that nothing moves"
    await context.close()
    assert wrong == []
    assert place.faults == []


async def test_a_call_is_approved_with_the_keyboard_alone_and_another_window_sees_it(place: Place) -> None:
    run_id, _ = await place.waiting_run()
    context = await place.context()
    watching, deciding = await context.new_page(), await context.new_page()
    await watching.goto(place.url(f"/runs/{run_id}"))
    await deciding.goto(place.url(f"/approvals?run_id={run_id}"))
    for key in ("j", "a", "Enter"):
        await deciding.keyboard.press(key)
    await deciding.get_by_text("Approved.").first.wait_for()
    await watching.bring_to_front()
    await watching.get_by_text("are on their way back to your account").first.wait_for()
    await context.close()
    assert place.faults == []


async def test_without_script_pages_are_read_and_calls_are_decided(place: Place) -> None:
    run_id, gate_id = await place.waiting_run()
    context = await place.context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(place.url("/runs"))
    assert await page.locator(f"#run-{run_id}").count() == 1
    await page.goto(place.url(f"/approvals/{gate_id}"))
    await page.get_by_label("Reason").first.fill("not today")
    await page.get_by_role("button", name="Deny").first.click()
    await page.get_by_text("Denied.").first.wait_for()
    assert (await closed_gate(place.api, gate_id))["verdict"] == "denied"
    await context.close()


async def test_on_a_phone_filters_are_behind_a_box_without_script_and_tabs_do_not_scroll_up_and_down(
    place: Place,
) -> None:
    context = await place.context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = await context.new_page()
    for path in ("/runs", "/approvals", "/audit", "/tools", "/policy/rules"):
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(place.url(path))
        last = page.locator("form.filters").last.get_by_role("button")
        assert not await last.is_visible(), path
        await page.get_by_label("Filters").check()
        assert await last.is_visible(), path
        await page.get_by_label("Filters").uncheck()
        await page.set_viewport_size({"width": 1440, "height": 900})
        assert await last.is_visible() and not await page.get_by_label("Filters").is_visible(), path
    await page.goto(place.url("/runs?status=waiting&network=support"))
    assert "(2)" in (await page.locator(".show-filters").text_content() or "")
    await context.close()
    context = await place.context()
    page = await context.new_page()
    for path, width in (("/policy", 1440), ("/audit", 1024), ("/settings", 390)):
        await page.set_viewport_size({"width": width, "height": 844})
        await page.goto(place.url(path))
        bar = await page.evaluate(
            "(() => { const tabs = document.querySelector('.tabs');"
            " return getComputedStyle(tabs).overflowY !== 'auto' && tabs.offsetWidth - tabs.clientWidth; })()"
        )
        assert bar == 0, path
    await context.close()
    assert place.faults == []


CUT, BACK = "◌ Not live, trying again", "● Live again"
LISTENS = """() => {
  window.said = [];
  const shown = document.getElementById("liveness");
  new MutationObserver(() => said.push(shown.textContent)).observe(shown, { childList: true });
}"""


async def rows_of(page: Page) -> list[str]:
    """Return the runs that an open page lists; no name of an element stands there twice."""
    ids = await page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids)), sorted(ids)
    return [name.removeprefix("run-") for name in ids if name.startswith("run-")]


async def all_steps(place: Place, page: Page, run_id: str) -> None:
    """Wait until an open page has drawn a row for each step of a run, and none twice."""
    async with asyncio.timeout(60):
        while True:
            drawn = await page.locator("table.timeline tbody tr").count()
            if drawn == (await place.api.get(f"/v1/runs/{run_id}")).json()["step"]:
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("killed", ["orchestrator", "nats", "gateway"])
async def test_open_pages_say_when_they_are_cut_off_and_catch_up_without_a_reload(place: Place, killed: str) -> None:
    run_id, gate_id = await place.waiting_run()
    context = await place.context()
    tabs = {path: await context.new_page() for path in ("/", "/runs", "/approvals", f"/runs/{run_id}")}
    for path, page in tabs.items():
        await page.goto(place.url(path))
        await page.locator("#liveness[data-state=live]").wait_for(state="attached")
        await page.evaluate(LISTENS)
    await place.platform.hold(killed)
    for page in tabs.values():
        await page.get_by_text("Not live, trying again").wait_for()
    place.platform.release(killed)
    await place.answered("POST", f"/v1/gates/{gate_id}/approve", {"reason": "ok"})
    await tabs[f"/runs/{run_id}"].get_by_text("are on their way back to your account").first.wait_for()
    other, other_gate = await place.waiting_run()
    await tabs["/approvals"].locator(f"#gate-{other_gate}").wait_for()
    await place.answered("POST", f"/v1/gates/{other_gate}/approve", {"reason": "ok"})
    for path in ("/", "/runs"):
        await tabs[path].locator(f"#run-{other}").get_by_text("completed").wait_for()
    await tabs["/approvals"].locator(f"#gate-{other_gate}").wait_for(state="detached")
    for path, limit in (("/", 8), ("/runs", 50)):
        listed = (await place.api.get(f"/v1/runs?depth=0&limit={limit}")).json()["runs"]
        async with asyncio.timeout(60):
            while await rows_of(tabs[path]) != [run["run_id"] for run in listed]:  # noqa: ASYNC110 - drawn bit by bit
                await asyncio.sleep(0.1)
    await all_steps(place, tabs[f"/runs/{run_id}"], run_id)
    for path, page in tabs.items():
        said = await page.evaluate("window.said")
        assert said[:1] == [CUT] and (BACK in said or path == f"/runs/{run_id}"), f"{path}: {said}"
    await context.close()
    assert place.faults == []


async def test_silence_is_noticed_though_the_clock_of_the_browser_is_set_back_by_an_hour(place: Place) -> None:
    context = await place.context()
    page = await context.new_page()
    await page.clock.install()
    await page.goto(place.url("/runs"))
    await page.locator("#liveness[data-state=live]").wait_for(state="attached")
    await page.evaluate(LISTENS)
    await page.clock.set_system_time(datetime.now(UTC) - timedelta(hours=1))
    await page.clock.fast_forward(46_000)
    await page.get_by_text("Live again").wait_for()
    assert (await page.evaluate("window.said"))[:1] == [CUT]
    await context.close()
    assert place.faults == []


async def test_a_run_from_the_box_keeps_its_rows_over_a_reload_and_the_way_back_keeps_filters(place: Place) -> None:
    context = await place.context()
    page = await context.new_page()
    await page.goto(place.url("/"))
    await page.get_by_role("button", name="Run", exact=True).click()  # as it is filled in at first
    await page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
    run_id = page.url.partition("/runs/")[2][:36]
    await page.get_by_role("button", name="Approve").first.wait_for()
    await all_steps(place, page, run_id)
    steps = page.locator("table.timeline tbody th, table.timeline tbody td:first-child")
    before = await steps.all_inner_texts()
    await page.reload()
    assert before and await steps.all_inner_texts() == before, "in the middle of the run"
    await page.goto(place.url("/runs"))
    await page.get_by_label("Status").first.select_option("waiting")
    await page.get_by_role("button", name="Filter").first.click()
    await page.wait_for_url(re.compile("status=waiting"))
    await page.locator(f"#run-{run_id} td.wide").click()  # beside its words too
    await page.wait_for_url(re.compile(run_id))
    await page.go_back()
    assert "status=waiting" in page.url and await page.get_by_label("Status").first.input_value() == "waiting"
    assert await page.locator(f"#run-{run_id}").count() == 1
    await context.close()
    assert place.faults == []


async def test_nothing_of_hostile_texts_is_more_than_shown_on_any_page_or_by_its_stream(place: Place) -> None:
    known = await write_hostile_texts(place.api)
    context = await place.browser.new_context()
    context.set_default_timeout(60_000)
    async with poisoned_console(place.api) as console:
        visitor = await visitor_of(context, console)
        wrong = await visit_all(visitor, console, paths(known), seen_trials())
        await visitor.faults("/docs")
        await visitor.page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", TEXTS["handler"])
        alive = await visitor.shown()
        async with asyncio.timeout(60):  # the handler is refused once the browser could not load the picture
            while not any("script-src" in one for one in alive):
                alive = await visitor.shown()
    await context.close()
    assert wrong == []
    assert "an element <hostile-tag>" in alive, "one that is alive is seen"

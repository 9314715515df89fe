"""The console where all that others name or say is hostile: pages, their twins and streams stay what they are."""

import httpx2
import pytest
from tests.console_fuzz.content import paths, write_hostile_texts
from tests.console_fuzz.page_faults import page_faults
from tests.console_fuzz.trials import poisoned_console, short_trials, try_all

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = (
    "/policy?network=../keys",
    "/policy?network=%00%09&tool=%3Chostile-tag%3E",
    "/runs?label=%E2%80%AE%3Chostile-tag%3E&status=%22%3E%3Chostile-tag%3E",
    "/runs/%3Chostile-tag%3E",
    "/runs/..",
    "/runs?message=%3Chostile-tag%3E%E2%80%AE",
    "/networks/%00%E2%80%AE",
    "/networks/..%2F..%2Fkeys",
    "/tools/javascript:alert(1)",
    "/approvals?back=//evil.example",
    "/approvals/%3Fx",
    "/audit?run_id=%ED%A0%BD",
    "/audit/entries/1e999",
    "/queues/..",
    "/costs?by=%22%3E%3Chostile-tag%3E",
    "/docs?schema=%3Chostile-tag%3E",
    f"/runs?q={'x' * 30_000}",
)
"""Addresses that somebody else may have written."""


async def test_no_page_is_more_than_text_where_all_that_others_say_is_hostile(browser: httpx2.AsyncClient) -> None:
    known = await write_hostile_texts(browser)
    wrong = [f"{path}: {one}" for path in paths(known).values() for one in page_faults((await browser.get(path)).text)]
    async with poisoned_console(browser) as console:
        wrong += await try_all(console, paths(known), short_trials())
    assert wrong == []


async def test_an_address_that_somebody_else_wrote_leads_to_a_page_and_nowhere_else(
    browser: httpx2.AsyncClient,
) -> None:
    views = "eyI8aG9zdGlsZS10YWc-Ijp7InN0YXR1cyI6IiI-PGhvc3RpbGUtdGFnPiJ9fQ=="
    wrong = []
    for path in ASKED:
        page = await browser.get(path, headers={"Cookie": f"towpath_views={views}"})
        faults = page_faults(page.text) + ([f"{page.status_code}"] if page.status_code >= 500 else [])
        wrong += [f"{path[:60]}: {one}" for one in faults]
    assert wrong == []

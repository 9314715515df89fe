"""The page that verifies the log: it says what was verified last, and never that something holds which does not."""

import asyncio
import base64
import json
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest
from tests.support.answered_api import AnsweredApi, asked_of
from tests.support.tas.audit_log import ORIGIN, signer

from towpath_audit import bundle
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint
from towpath_console.api import ApiRefusalError
from towpath_console.page import Done, Page
from towpath_console.pages.audit import audit_search, audit_verify
from towpath_console.renderer import Renderer

KEY = signer()
AROUND = {"section": "/audit", "url": "/audit", "query": {}, "live": "", "message": ""}
RUN = "01a21845-b704-742b-8158-186564bfbba8"


def log_of(count: int, *, tool: str = "t", size: int | None = None) -> list[str]:
    """A bundle of *count* entries, all sealed at once; *size* is what its first line claims."""
    edge, body = MerkleFrontier(), []
    for number in range(count):
        payload = ErasablePayload(salt=bytes(16), args_digest="", detail="{}")
        entry = AuditLogEntry(
            entry_id=number, at="2026-11-22T09:00:00.000000Z", project="p", run_id=None, execution_id=None, phase="x",
            verdict="", tool=tool, operation="", network="", agent_key="", caller="", actor="", rule=None,
            policy_version=0, commitment=payload.commitment(),
        )  # fmt: skip
        body.append(bundle.leaf(edge.size, entry, payload, entry.leaf_hash()))
        edge = edge.extended([entry.leaf_hash()])
    body.append(bundle.checkpoint(KEY.note(Checkpoint(ORIGIN, edge.size, edge.root).text())))
    said = {"origin": ORIGIN, "project": "p", "since": None, "until": None, "edge": MerkleFrontier()}
    head = bundle.header(
        **said, size=size or count, keys=[KEY.public], exported_at="2026-11-22T10:00:00Z", exported_by="a"
    )
    lines = [bundle.serialize_line(line) for line in (head, *body)]
    return [*lines, bundle.page(0, "", lines, KEY, last=True)]


class Browser(AnsweredApi):
    """What a browser with cookies asks; the log is what *lines* say."""

    def __init__(self, lines: list[str], cookie: str = "", project: str = "p") -> None:
        checkpoint = {
            "note": KEY.note(Checkpoint(ORIGIN, 9, bytes(32)).text()), "size": 9, "at": "2026-11-22T11:00:00Z",
            "public_key": KEY.public.text, "fingerprint": KEY.public.fingerprint,
        }  # fmt: skip
        pieces = {None: {"lines": lines[:3], "cursor": {"page": 1}}, 1: {"lines": lines[3:], "cursor": None}}
        super().__init__(
            {
                "/v1/audit/export": lambda sent: pieces[sent.get("cursor", {}).get("page")],
                "/v1/audit/checkpoint": checkpoint,
                "/v1/me": {"caller": "mia", "project": project},
                "/v1/audit": {"entries": [], "next_before": None, "total": 0},
            }
        )
        self._kept = cookie

    def cookie(self, name: str) -> str:
        return self._kept if name == audit_verify.VERIFIED_COOKIE else ""


async def verified(lines: list[str], cookie: str = "", span: str = "all") -> Done | Page:
    return await audit_verify.verify_now(asked_of(Browser(lines, cookie)), {"span": span})


async def test_a_log_that_holds_is_kept_as_verified_by_the_browser_and_shown_so() -> None:
    done = await verified(log_of(4))
    assert isinstance(done, Done) and "4 entries verified" in done.message and done.kept_path == "/audit"
    kept = done.cookies[audit_verify.VERIFIED_COOKIE]
    page = await audit_verify.verify_form(asked_of(Browser([], kept)))
    html = Renderer().whole(page, **AROUND)
    assert "The first 4 entries of the log fit" in html and "5 entries were written since" in html
    searched = await audit_search.search(asked_of(Browser([], kept)))
    assert "are the first 4 entries of the log" in Renderer().whole(searched, **AROUND)
    assert json.loads(json.dumps(page.data))


async def test_the_next_time_only_what_was_written_since_is_asked_for_and_held_against_what_was_kept() -> None:
    done = await verified(log_of(4))
    assert isinstance(done, Done)
    browser = Browser(log_of(6), done.cookies[audit_verify.VERIFIED_COOKIE])
    again = await audit_verify.verify_now(asked_of(browser), {"span": "last"})
    assert isinstance(again, Done)
    assert [sent.get("since") for _, path, sent in browser.seen if path.endswith("export")] == [
        "2026-11-22T10:00:00Z",
        "2026-11-22T10:00:00Z",
    ]


async def test_a_log_that_was_written_anew_by_the_holder_of_its_key_is_told_by_what_the_browser_kept() -> None:
    done = await verified(log_of(4))
    assert isinstance(done, Done)
    other = await verified(log_of(6, tool="another"), done.cookies[audit_verify.VERIFIED_COOKIE])
    assert isinstance(other, Page) and other.data["report"]["faults"]
    html = Renderer().whole(other, **AROUND)
    assert "Something in the log does not fit" in html and "The first 4 entries of the log fit" in html


async def test_a_log_with_one_thing_changed_or_cut_off_is_never_verified() -> None:
    lines = log_of(4)
    for wrong in ([*lines[:2], lines[2].replace('"tool":"t"', '"tool":"u"'), *lines[3:]], lines[:-1]):
        found = await verified(wrong)
        assert isinstance(found, Page) and "Something in the log does not fit" in Renderer().whole(found, **AROUND)


async def test_what_is_too_large_to_be_verified_here_says_how_else() -> None:
    with pytest.raises(ApiRefusalError) as refused:
        await verified(log_of(4, size=20_001))
    assert refused.value.status == 413 and "towpath audit verify" in refused.value.problem["remedy"]
    at_the_edge = await verified(log_of(4, size=20_000))
    assert isinstance(at_the_edge, Page), "it is verified, and does not fit"


async def test_twenty_faults_are_shown_and_the_others_counted() -> None:
    lines = log_of(12)
    for changed, left in ((10, ""), (11, "2 more are not listed.")):  # an entry and its line are a fault each
        wrong = [line.replace('"tool":"t"', '"tool":"u"') for line in lines[: changed + 1]] + lines[changed + 1 :]
        found = await verified(wrong)
        assert isinstance(found, Page)
        html = Renderer().whole(found, **AROUND)
        assert html.count("<li><strong>") == 20 and ("more are not listed" in html) == bool(left) and left in html


async def test_what_a_browser_kept_is_read_up_to_what_browsers_keep() -> None:
    done = await verified(log_of(4))
    assert isinstance(done, Done)
    said = base64.urlsafe_b64decode(done.cookies[audit_verify.VERIFIED_COOKIE])
    for length, is_read in ((3_000, True), (3_004, False)):
        padded = base64.urlsafe_b64encode(said.ljust(length // 4 * 3)).decode()
        assert len(padded) == length
        assert (audit_verify.last_verified(Browser([], padded)) is not None) == is_read


@pytest.mark.parametrize("cookie", ["x", "e30=", "W10=", "é", "A" * 5_000, "eyJhdCI6MX0="])
async def test_a_cookie_that_the_console_did_not_write_says_nothing(cookie: str) -> None:
    assert audit_verify.last_verified(Browser([], cookie)) is None


async def found_with(written: str) -> dict[str, Any]:
    api = Browser([])
    await audit_search.search(asked_of(api, {"find": written}))
    return api.seen[-1][2]


async def test_one_field_finds_an_entry_a_run_and_arguments_by_what_is_pasted() -> None:
    assert await found_with("17") == {"limit": "1", "before": "18"}
    assert await found_with("9" * 18) == {"limit": "1", "before": f"1{'0' * 18}"}
    assert await found_with(f" {RUN.upper()} ") == {"limit": "50", "run_id": RUN}
    digest = "0f" * 32
    for pasted in (digest, f"sha256:{digest}"):
        assert await found_with(pasted) == {"limit": "50", "args_digest": f"sha256:{digest}"}
    for wrong in ("refund", "9" * 19, "9" * 40, "sha256:12"):
        with pytest.raises(ApiRefusalError):
            await found_with(wrong)


async def test_a_log_is_verified_once_at_a_time_for_each_project_and_those_of_two_at_the_same_time() -> None:
    waiting, both_wait, goes_on = [], asyncio.Event(), asyncio.Event()

    class SlowBrowser(Browser):
        async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
            waiting.append(path)
            if len(waiting) == 2:
                both_wait.set()
            await goes_on.wait()
            return await super().post(path, body)

    def verify(browser: Browser) -> Coroutine[Any, Any, Done | Page]:
        return audit_verify.verify_now(asked_of(browser), {"span": "all"})

    begun = [asyncio.create_task(verify(SlowBrowser(log_of(2), project=name))) for name in ("one", "two")]
    async with asyncio.timeout(60):
        await both_wait.wait()
    for project in ("one", "three"):
        with pytest.raises(ApiRefusalError) as refused:
            await verify(Browser(log_of(2), project=project))
        assert (refused.value.status, refused.value.problem["code"]) == (503, "overloaded")
    goes_on.set()
    assert all(isinstance(done, Done) for done in await asyncio.gather(*begun))
    assert isinstance(await verify(Browser(log_of(2), project="three")), Done), "places are given back"

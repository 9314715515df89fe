"""Notices of gates reach a real receiver from a real database: at least once, whoever dies on the way."""

import asyncio
import base64
import dataclasses
import hashlib
import hmac
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
import yaml
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from tests.conftest import DatabaseUrl
from tests.docs_site.taken_blocks import taken
from tests.support.certificates import Authority
from tests.support.gateway.mail_server import MailServer, mail_server
from tests.support.gateway.web import Web, web
from tests.support.waiting import eventually

from towpath_contracts import ids
from towpath_contracts.gate_notices import ListGateNotices, RetryGateNotice
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.turns.task_end import end_tasks
from towpath_orchestrator.adapters import notice_targets
from towpath_orchestrator.adapters.notice_targets import ChatChannel, Mailbox, Receiver, load_receivers
from towpath_orchestrator.app import webhook_delivery
from towpath_orchestrator.app.webhook_delivery import CLOSED_BEFORE, LEASE_S, TIMEOUT_S, GateNoticeLoop
from towpath_orchestrator.core.webhook_notices import Webhook

KEY = b"k" * 24
TAKEN = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
OPEN = (
    "INSERT INTO runs.gate"
    " (gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at, expires_at, approval_id)"
    " VALUES ($1, $2, 'shop', 'support', $4, 'pending', 'somebody looks', $3, now(), now() + interval '1 day', $1)"
)
CLOSE = "UPDATE runs.gate SET status = 'denied', verdict = 'denied', closed_by = 'paula', closed_at = now()"
SOON = "UPDATE runs.notice SET due_at = now() WHERE status = 'pending'"


def answering(status: str, more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n".encode()


class Place:
    """A database with gates, a receiver, and as many replicas as a test wants."""

    def __init__(self, pool: Any, receiver: Web) -> None:
        self.pool = pool
        self.receiver = receiver
        kinds = ("gate.opened", "gate.closed")
        self.webhook = Webhook(name="ops", url=receiver.url("/h"), secrets=(KEY,), projects=("shop",), kinds=kinds)

    def replica(self, *receivers: Receiver, try_s: float = TIMEOUT_S) -> GateNoticeLoop:
        log = structlog.get_logger()
        return GateNoticeLoop(self.pool, receivers or (self.webhook,), log, look_s=0.02, try_s=try_s)

    @asynccontextmanager
    async def running(self, *replicas: GateNoticeLoop) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(replica.run()) for replica in replicas or (self.replica(),)]
        try:
            yield
        finally:
            await end_tasks(tasks)

    async def open(self, count: int = 1, gate_type: str = "approval") -> list[uuid.UUID]:
        gates = [uuid.uuid4() for _ in range(count)]
        detail = json.dumps({"tool": "orders.refund", "args": {"card": "4111"}})
        await self.pool.executemany(OPEN, [(gate, uuid.uuid4(), detail, gate_type) for gate in gates])
        return gates

    def received_notices(self) -> list[dict[str, Any]]:
        return [json.loads(asked.body) for asked in self.receiver.asked]

    async def statuses(self) -> list[tuple[str, int, str]]:
        rows = await self.pool.fetch("SELECT status, tries, error FROM runs.notice ORDER BY created_at")
        return [tuple(row) for row in rows]

    async def until(self, ready: Callable[[list[tuple[str, int, str]]], bool]) -> None:
        async with asyncio.timeout(60):
            while not ready(await self.statuses()):  # noqa: ASYNC110 - the database does not tell
                await asyncio.sleep(0.05)


@pytest.fixture
async def place(database: DatabaseUrl) -> AsyncIterator[Place]:
    pool = await open_pool(database("orchestrator"), 4, "test")
    try:
        async with web(lambda _asked: TAKEN) as receiver:
            yield Place(pool, receiver)
    finally:
        await pool.close()


async def test_a_gate_is_reported_when_it_opens_and_when_it_closes_signed_and_without_arguments(place: Place) -> None:
    (gate,) = await place.open()
    async with place.running():
        await eventually(lambda: len(place.receiver.asked) == 1)
        await place.pool.execute(CLOSE)
        await eventually(lambda: len(place.receiver.asked) == 2)
        await place.until(lambda rows: [row[0] for row in rows] == ["sent", "sent"])
    opened, closed = place.receiver.asked
    assert json.loads(opened.body)["data"]["gate_id"] == str(gate)
    assert json.loads(closed.body)["data"]["closed_by"] == "paula"
    assert b"4111" not in opened.body + closed.body
    assert opened.headers["webhook-id"] != closed.headers["webhook-id"]
    content = f"{opened.headers['webhook-id']}.{opened.headers['webhook-timestamp']}.".encode() + opened.body
    signature = base64.b64encode(hmac.digest(KEY, content, hashlib.sha256)).decode()
    assert opened.headers["webhook-signature"] == f"v1,{signature}"
    stored = await place.pool.fetch("SELECT notice::text AS whole FROM runs.notice")
    assert not any(KEY.decode() in row["whole"] or "127.0.0.1" in row["whole"] for row in stored)


async def test_a_webhook_may_ask_for_cloud_events_which_are_signed_alike(place: Place) -> None:
    (gate,) = await place.open()
    as_event = dataclasses.replace(place.webhook, format="cloudevents")
    plain = dataclasses.replace(place.webhook, name="plain")
    async with place.running(place.replica(as_event, plain)):
        await eventually(lambda: len(place.receiver.asked) == 2)
    kinds = {asked.headers["content-type"]: asked for asked in place.receiver.asked}
    sent, other = kinds["application/cloudevents+json"], json.loads(kinds["application/json"].body)
    event = from_http_event(HTTPMessage(headers=dict(sent.headers), body=sent.body))
    assert (event.get_type(), event.get_source(), event.get_subject()) == (
        "towpath.gate.opened",
        "urn:towpath:shop",
        str(gate),
    )
    assert (event.get_id(), event.get_data()) == (sent.headers["webhook-id"], other["data"])
    assert event.get_time() == datetime.fromisoformat(other["timestamp"])
    run_id = uuid.UUID(other["data"]["run_id"])
    assert event.get_extension("traceparent") == ids.traceparent(run_id, "run")
    content = f"{sent.headers['webhook-id']}.{sent.headers['webhook-timestamp']}.".encode() + sent.body
    signature = base64.b64encode(hmac.digest(KEY, content, hashlib.sha256)).decode()
    assert sent.headers["webhook-signature"] == f"v1,{signature}"


async def test_replicas_share_the_work_and_each_notice_is_sent_once(place: Place) -> None:
    gates = await place.open(40)
    async with place.running(*(place.replica() for _ in range(3))):
        await place.until(lambda rows: [row[0] for row in rows] == ["sent"] * 40)
    assert sorted(one["data"]["gate_id"] for one in place.received_notices()) == sorted(map(str, gates))


async def test_what_a_sender_took_down_with_it_comes_again_under_the_same_id(place: Place) -> None:
    place.receiver.answer = lambda _asked: b""  # taken in, and never answered
    await place.open()
    async with place.running():
        await eventually(lambda: len(place.receiver.asked) == 1)
    ((status, tries, _),) = await place.statuses()
    assert (status, tries) == ("pending", 1), "it died in the middle, and nobody knows whether it arrived"
    lease = "SELECT extract(epoch FROM due_at - now())::float FROM runs.notice"
    assert 0 < await place.pool.fetchval(lease) <= LEASE_S
    place.receiver.answer = lambda _asked: TAKEN
    await place.pool.execute(SOON)
    async with place.running():
        await place.until(lambda rows: rows == [("sent", 2, "")])
    first, second = place.receiver.asked
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_a_refusal_is_tried_again_and_a_redirect_is_never_followed(place: Place) -> None:
    elsewhere = f"location: {place.receiver.url('/metadata')}\r\n"
    answers = [answering("302 Found", elsewhere), answering("500 Oops"), TAKEN]
    place.receiver.answer = lambda _asked: answers[min(len(place.receiver.asked), 3) - 1]
    await place.open()
    async with place.running():
        await place.until(lambda rows: rows == [("pending", 1, "it answered 302")])
        await place.pool.execute(SOON)
        await place.until(lambda rows: rows == [("pending", 2, "it answered 500")])
        await place.pool.execute(SOON)
        await place.until(lambda rows: rows == [("sent", 3, "")])
    assert {asked.path for asked in place.receiver.asked} == {"/h"}


async def test_who_wants_nothing_more_is_left_alone_and_a_person_may_try_again(place: Place) -> None:
    place.receiver.answer = lambda _asked: answering("410 Gone")
    await place.open()
    replica = place.replica()
    async with place.running(replica):
        await place.until(lambda rows: rows == [("dead", 1, "it answered 410")])
        (notice,) = (await replica.list(ListGateNotices(project="shop"))).notices
        assert (notice.webhook, notice.kind, notice.error) == ("ops", "gate.opened", "it answered 410")
        assert (await replica.list(ListGateNotices(project="other", status=None))).notices == ()
        with pytest.raises(ProblemError, match="not_found"):
            await replica.retry(RetryGateNotice(project="other", notice_id=notice.notice_id))
        place.receiver.answer = lambda _asked: TAKEN
        await replica.retry(RetryGateNotice(project="shop", notice_id=notice.notice_id))
        await place.until(lambda rows: rows == [("sent", 1, "")])


async def test_an_old_sender_has_no_say_in_a_newer_try(place: Place) -> None:
    await place.open()
    held = asyncio.Event()
    gone = asyncio.Event()

    async def slow(request: httpx2.Request) -> httpx2.Response:
        held.set()
        await gone.wait()
        return httpx2.Response(500, request=request)

    replica = place.replica()
    assert await replica.make_notices() is False
    async with (
        httpx2.AsyncClient(transport=httpx2.MockTransport(slow)) as stuck,
        httpx2.AsyncClient(verify=False) as quick,
    ):
        late = asyncio.create_task(replica.send_due(stuck, place.webhook))
        await held.wait()
        await place.pool.execute(SOON)
        assert await replica.send_due(quick, place.webhook) == 1
        gone.set()
        await late
    assert await place.statuses() == [("sent", 2, "")]


async def test_without_webhooks_nothing_is_kept_and_whoever_comes_later_gets_nothing_old(place: Place) -> None:
    await place.open(3)
    silent = GateNoticeLoop(place.pool, (), structlog.get_logger())
    assert await silent.make_notices() is False
    await place.open()
    async with place.running():
        await place.until(lambda rows: [row[0] for row in rows] == ["sent"])
    assert len(place.received_notices()) == 1


async def test_gates_of_a_switch_crowd_out_no_approval_and_are_looked_at_once(place: Place) -> None:
    await place.open(300, "paused")
    (gate,) = await place.open()
    async with place.running():
        await place.until(lambda rows: rows == [("sent", 1, "")])
        await place.pool.execute(CLOSE)
        await place.until(lambda rows: rows == [("sent", 1, "")] * 2)
    assert {one["data"]["gate_id"] for one in place.received_notices()} == {str(gate)}
    left = "SELECT count(*) FROM runs.gate WHERE noticed <> status"
    assert await place.pool.fetchval(left) == 0, "closed ones are done with too"


async def test_a_receiver_that_drips_its_answer_ends_with_its_time(place: Place) -> None:
    left = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nx: ")
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
            left.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/h"
    await place.open()
    try:
        async with place.running(place.replica(dataclasses.replace(place.webhook, url=url), try_s=1.0)):
            await place.until(lambda rows: rows == [("pending", 1, "TimeoutError")])
            await asyncio.wait_for(left.wait(), 60)
    finally:
        server.close()
        await server.wait_closed()


async def test_notices_of_a_webhook_that_left_the_file_are_dead_after_a_day(place: Place) -> None:
    await place.open()
    assert await place.replica().make_notices() is False
    other = dataclasses.replace(place.webhook, name="other")
    async with place.running(place.replica(other)):
        await place.open()
        await place.until(lambda rows: ("sent", 1, "") in rows)
    assert sorted(await place.statuses()) == [("pending", 0, ""), ("sent", 1, "")], "another replica may know it"
    await place.pool.execute("UPDATE runs.notice SET due_at = now() - interval '25 hours' WHERE status = 'pending'")
    async with place.running(place.replica(other)):
        await place.until(lambda rows: ("dead", 0, "the receiver is no longer in the file") in rows)
    assert len(place.receiver.asked) == 1
    assert await place.pool.fetchval("SELECT ended_at IS NOT NULL FROM runs.notice WHERE status = 'dead'")


def mailbox(server: MailServer, **more: Any) -> Mailbox:
    fields = {"tls": "none", "user": None, "password": None} | more
    smtp = notice_targets.MailServer(host="127.0.0.1", port=server.port, sender="towpath@shop.example", **fields)
    return Mailbox(name="mia", projects=("shop",), shows_arguments=True, address="mia@shop.example", server=smtp)


async def test_an_email_is_tried_until_the_mail_server_takes_it_and_the_gate_is_what_it_tells(place: Place) -> None:
    async with mail_server() as server:
        server.answer = "451 later"
        (gate,) = await place.open()
        async with place.running(place.replica(mailbox(server))):
            await place.until(lambda rows: rows == [("pending", 1, "the address was refused with 451")])
            server.answer = "250 OK"
            await place.pool.execute(SOON)
            await place.until(lambda rows: rows == [("sent", 2, "")])
            (mail,) = server.received
            assert (server.recipients, mail["To"]) == (["mia@shop.example"], "mia@shop.example")
            assert f"towpath gates show {gate}" in mail.get_content() and '> card = "4111"' in str(mail.get_payload())
            server.answer = "550 no such user"
            await place.open()
            await place.until(lambda rows: ("dead", 1, "the address was refused with 550") in rows)
        stored = await place.pool.fetch("SELECT notice::text AS whole FROM runs.notice")
        assert not any("4111" in row["whole"] or "shop.example" in row["whole"] for row in stored)


async def test_an_email_that_was_taken_is_sent_once_by_a_server_that_says_no_goodbye(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "redact", lambda text: text.replace('"4111"', "[redacted]"))
    async with mail_server() as server:
        server.answers_goodbye.clear()
        await place.open()
        async with place.running(place.replica(mailbox(server), try_s=1.0)):
            await place.until(lambda rows: rows == [("sent", 1, "")])
        assert "A call waits for approval" in server.received[0].get_content(), "though its detail can't be read"
        server.answers_goodbye.set()


async def test_a_chat_is_told_once_and_a_gate_that_was_closed_meanwhile_is_not_told(place: Place) -> None:
    place.receiver.answer = lambda _asked: answering("503 Later")
    channel = ChatChannel(name="ops", projects=("shop",), shows_arguments=False, url=place.receiver.url("/s3cret"))
    await place.open()
    replica = place.replica(channel)
    async with place.running(replica):
        await place.until(lambda rows: rows == [("pending", 1, "it answered 503")])
        message = json.loads(place.receiver.asked[0].body)
        assert "A call waits for approval." in message["text"] and "4111" not in message["text"]
        await place.pool.execute(CLOSE)
        await place.pool.execute(SOON)
        await place.until(lambda rows: rows == [("obsolete", 2, CLOSED_BEFORE)])
        page = await replica.list(ListGateNotices(project="shop"))
        assert page.notices == (), "only dead ones are listed, and none died"
        (told,) = (await replica.list(ListGateNotices(project="shop", status="obsolete"))).notices
        assert (told.tries, told.ended_at is not None) == (2, True)
        assert [(one.name, one.channel) for one in page.receivers] == [("ops", "chat")] and page.console_url == ""
        assert (await replica.list(ListGateNotices(project="other"))).receivers == ()
    assert len(place.receiver.asked) == 1, "nobody is told of it any more"


async def test_a_password_is_told_only_to_a_mail_server_whose_certificate_is_trusted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path, "authority")
    authority.issue("mail")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "mail.pem", tmp_path / "mail.key")
    async with mail_server(context) as server:
        told = mailbox(server, tls="starttls", user="towpath", password="hunter2hunter2")
        await place.open()
        async with place.running(place.replica(told)):
            await place.until(lambda rows: rows[:1] != [] and rows[0][1] == 1 and rows[0][2] != "")
            assert (server.logins, server.received) == ([], [])
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
            await place.pool.execute(SOON)
            await eventually(lambda: len(server.received) == 1)
            await place.until(lambda rows: rows == [("sent", 2, "")])
    assert server.logins == [(b"towpath", b"hunter2hunter2")]


async def test_the_files_of_the_page_tell_its_receivers(place: Place, tmp_path: Path) -> None:
    """As they stand, but for addresses: a mail server without TLS on this machine, and one receiver for both URLs."""
    webhooks = taken("docs/approvals.md: webhooks:").text.replace("https://hooks.example.com", place.receiver.url(""))
    notices = taken("docs/approvals.md: smtp:").text.replace("/run/secrets", str(tmp_path))
    for name, secret in {"ops-hook": "a-hook-of-the-page-0123456789", "mail": "hunter2hunter2"}.items():
        (tmp_path / name).write_text(secret, "utf-8")
    (tmp_path / "ops-chat").write_text(place.receiver.url("/chat"), "utf-8")
    async with mail_server() as server:
        told = yaml.safe_load(notices)
        told["smtp"] |= {"host": "127.0.0.1", "port": server.port, "tls": "none"}
        del told["smtp"]["user"], told["smtp"]["password"]
        (tmp_path / "webhooks.yaml").write_text(webhooks.replace("/run/secrets", str(tmp_path)), "utf-8")
        (tmp_path / "notices.yaml").write_text(json.dumps(told), "utf-8")
        receivers = load_receivers(tmp_path / "webhooks.yaml", tmp_path / "notices.yaml", {})
        await place.open()
        async with place.running(place.replica(*receivers)):
            await place.until(lambda rows: [row[0] for row in rows] == ["sent"] * 4)
        assert sorted(server.recipients) == sorted(told["targets"][0]["email"])
    posted = {asked.path: json.loads(asked.body) for asked in place.receiver.asked}
    assert posted["/towpath"]["specversion"] == "1.0"
    assert "A call waits for approval" in posted["/chat"]["text"] and "4111" not in posted["/chat"]["text"]

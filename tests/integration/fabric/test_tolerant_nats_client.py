"""Whatever bytes another client puts around a message, the connection of a service goes on reading."""

import asyncio
import json
from collections.abc import AsyncIterator

import nats
import nats.protocol.parser as nats_parser
import pytest
from nats.aio.msg import Msg
from tests.chaos.messages.raw_nats import RawNats, raw_nats
from tests.support.waiting import all_sent

from towpath_contracts.rpc import GET_POLICY
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.tools.access import GetPolicy
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.tolerant_nats_client import TolerantNatsParser, readable_subject, usable_reply
from towpath_fabric.settings import Settings

HOSTILE_REPLIES = (b"_INBOX.\xff\xfe", b"_INBOX.a\x0bb", b"_INBOX.a\x00b", b"_INBOX.*", b"_INBOX.>")
HOSTILE_HEADERS = (
    b"NATS/1.0",
    b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0\r\n\xff\xfe: \xff\r\n\r\n",
    b"\xff",
    b"NATS/1.0\r\ncorrelation_id: " + b"x" * 1_000_000 + b"\r\n\r\n",
)
HOSTILE_SUBJECTS = (
    b"odd.\xff\xfe",
    b"odd.a\x00b",
    b"odd.a\x0bb",
    b"odd.a\x0cb",
    b"odd.\xc2\x85",
    b"odd." + b"x" * 3_000,
)


@pytest.fixture
async def bus(nats_server: Nats) -> AsyncIterator[Bus]:
    bus = Bus("tas", Settings.model_validate({"nats_url": nats_server.url()}))

    async def done(request: GetPolicy) -> ActionDone:
        return ActionDone(detail=request.project)

    await bus.connect()
    bus.subscriber(GET_POLICY)(done)
    await bus.broker.start()
    yield bus
    await bus.close()


async def answered(asker: RawNats, inbox: bytes) -> None:
    """Ask what is harmless and wait for its answer."""
    await asker.listen(inbox)
    await asker.send(GET_POLICY.subject.encode(), b'{"project": "default"}', reply=inbox)
    async with asyncio.timeout(60):
        while not asker.answers[inbox.decode()]:  # noqa: ASYNC110 - the reader has no event to wait for
            await asyncio.sleep(0.02)
    assert b"default" in asker.answers[inbox.decode()][0]


async def test_a_reply_or_header_that_is_no_text_does_not_end_the_reading(bus: Bus, nats_server: Nats) -> None:
    async with raw_nats(nats_server.url()) as asker:
        for reply in HOSTILE_REPLIES:
            await asker.send(GET_POLICY.subject.encode(), b"{}", reply=reply)
        for headers in HOSTILE_HEADERS:
            await asker.send(GET_POLICY.subject.encode(), b"{}", reply=b"_INBOX.odd", headers=headers)
        await answered(asker, b"_INBOX.fine")
    assert bus.nc.stats["reconnects"] == 0


async def test_a_question_with_headers_as_large_as_a_message_is_answered(bus: Bus, nats_server: Nats) -> None:
    async with raw_nats(nats_server.url()) as asker:
        await asker.listen(b"_INBOX.large.*")
        question = b'{"project": "default"}'
        for number, value in enumerate((b"x" * 1_048_000, b"a\nb", b"\xff")):
            headers = b"NATS/1.0\r\ncorrelation_id: " + value + b"\r\n\r\n"
            reply = b"_INBOX.large.%d" % number
            await asker.send(GET_POLICY.subject.encode(), question, reply=reply, headers=headers)
        await answered(asker, b"_INBOX.fine")
        assert len(asker.answers) == 4


async def test_a_subject_that_is_no_text_arrives_escaped(bus: Bus, nats_server: Nats) -> None:
    arrived: list[str] = []

    async def keep(message: Msg) -> None:
        arrived.append(message.subject)

    await bus.nc.subscribe("odd.*", cb=keep)
    await all_sent(bus.nc)
    async with raw_nats(nats_server.url()) as asker:
        for subject in HOSTILE_SUBJECTS:
            await asker.send(subject, b"{}")
        await answered(asker, b"_INBOX.fine")
    assert arrived[:2] == ["odd.\\xff\\xfe", "odd.a\\x00b"]
    assert len(arrived) == len(HOSTILE_SUBJECTS)
    assert all(subject.isprintable() for subject in arrived)
    assert bus.nc.stats["reconnects"] == 0


async def test_an_answer_goes_to_an_inbox_and_nowhere_else(bus: Bus, nats_server: Nats) -> None:
    async with raw_nats(nats_server.url()) as asker:
        await asker.listen(b"run.>")
        for reply in (b"run.inbox.tas.x", b"run.event.x", b"$JS.API.STREAM.PURGE.INBOX"):
            await asker.send(GET_POLICY.subject.encode(), b'{"project": "elsewhere"}', reply=reply)
        await answered(asker, b"_INBOX.fine")
        assert set(asker.answers) == {"_INBOX.fine"}


async def test_other_clients_of_the_process_keep_their_own_parser(bus: Bus, nats_server: Nats) -> None:
    assert isinstance(bus.nc._ps, TolerantNatsParser)
    assert nats_parser.MSG_RE.match(b"MSG a 1 2\r\n") and nats_parser.MSG_RE.match(b"MSG a\x0bb 1 2\r\n")
    other = await nats.connect(nats_server.url())
    try:
        assert type(other._ps) is nats_parser.Parser
        assert (
            json.loads((await other.request(GET_POLICY.subject, b'{"project": "p"}', timeout=60)).data)["detail"] == "p"
        )
    finally:
        await other.close()


def test_what_is_text_stays_as_it_is() -> None:
    assert readable_subject("run.inbox.décider.1".encode()) == "run.inbox.décider.1"
    assert usable_reply(b"_INBOX_tas.ab-c.1") == "_INBOX_tas.ab-c.1"
    assert usable_reply(b"$JS.ACK.INBOX.orchestrator.1.2.3.4.0") == "$JS.ACK.INBOX.orchestrator.1.2.3.4.0"

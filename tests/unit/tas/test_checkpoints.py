"""Where checkpoints go outside of the database: what arrives there, and what happens when it can't."""

import asyncio
import contextlib
from pathlib import Path

import pytest
import structlog
from pydantic import ValidationError
from structlog.testing import capture_logs
from tests.support.gateway.web import response, web
from tests.support.tas.audit_log import ORIGIN, signer

from towpath_audit.merkle import EMPTY_ROOT
from towpath_audit.notes import Checkpoint, split_notes
from towpath_tas.adapters import checkpoints
from towpath_tas.adapters.checkpoints import CheckpointFilePublisher, CheckpointLogPublisher, CheckpointUrlPublisher
from towpath_tas.adapters.keys import KeyFileError
from towpath_tas.settings import TasSettings
from towpath_tas.wiring.audit_wiring import note_signer

KEY = signer()
NOTES = [KEY.note(Checkpoint(ORIGIN, size, EMPTY_ROOT).text()) for size in range(3)]


async def test_a_file_collects_checkpoints_as_verify_reads_them(tmp_path: Path) -> None:
    file = CheckpointFilePublisher(tmp_path / "checkpoints.txt", structlog.get_logger())
    for note in NOTES:
        await file.publish(note)
    assert list(split_notes((tmp_path / "checkpoints.txt").read_text("utf-8"))) == NOTES
    with capture_logs() as found:
        await CheckpointFilePublisher(tmp_path / "nowhere" / "checkpoints.txt", structlog.get_logger()).publish(
            NOTES[0]
        )
    assert [entry["log_level"] for entry in found] == ["warning"]


async def test_a_witness_is_sent_the_note_and_followed_nowhere() -> None:
    async with web(lambda asked: response(200 if asked.path == "/take" else 302, location="/take")) as served:
        with capture_logs() as found:
            await CheckpointUrlPublisher(served.url("/take", host="127.0.0.1"), structlog.get_logger()).publish(
                NOTES[1]
            )
            await CheckpointUrlPublisher(served.url("/elsewhere", host="127.0.0.1"), structlog.get_logger()).publish(
                NOTES[1]
            )
    assert [(asked.method, asked.path) for asked in served.asked] == [("POST", "/take"), ("POST", "/elsewhere")]
    assert served.asked[0].body.decode() == NOTES[1]
    assert [entry["event"] for entry in found] == ["the witness refused a checkpoint"]
    with capture_logs() as found:
        await CheckpointUrlPublisher("http://127.0.0.1:9/", structlog.get_logger()).publish(NOTES[1])
    assert [entry["event"] for entry in found] == ["the witness could not be reached"]


@pytest.mark.parametrize(
    ("head", "within_s", "told"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Long: ", 0.2, ["the witness could not be reached"]),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", 20, []),
        (b"HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n", 20, ["the witness refused a checkpoint"]),
    ],
    ids=["its head", "what it took", "what it refused"],
)
async def test_a_witness_that_never_ends_its_answer_is_left(
    monkeypatch: pytest.MonkeyPatch, head: bytes, within_s: float, told: list[str]
) -> None:
    """Of what follows the head nothing is read: it may be of any length, or unpack to any."""
    monkeypatch.setattr(checkpoints, "WITNESS_TIMEOUT_S", within_s)
    over, closed = asyncio.Event(), asyncio.Event()

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            for _ in range(10_000):
                writer.write(b"x")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 0.02)
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        with capture_logs() as found:
            await asyncio.wait_for(
                CheckpointUrlPublisher(f"http://127.0.0.1:{port}/", structlog.get_logger()).publish(NOTES[1]),
                timeout=60,
            )
    finally:
        over.set()
        await closed.wait()
        server.close()
        await server.wait_closed()
    assert [entry["event"] for entry in found] == told


def test_the_address_of_a_witness_is_checked_at_start() -> None:
    assert TasSettings(checkpoint_url="https://witness.test/take").checkpoint_url == "https://witness.test/take"
    for wrong in ("witness.test", "ftp://witness.test/", "http://"):
        with pytest.raises(ValidationError, match="checkpoint_url"):
            TasSettings(checkpoint_url=wrong)


async def test_the_log_of_the_service_has_the_whole_note() -> None:
    with capture_logs() as found:
        await CheckpointLogPublisher(structlog.get_logger()).publish(NOTES[2])
    assert [entry["note"] for entry in found] == [NOTES[2]]


def test_without_a_key_of_its_own_only_an_embedded_service_seals(tmp_path: Path) -> None:
    ticket = tmp_path / "ticket.key"
    made = note_signer(TasSettings(embedded=True, ticket_key_file=ticket))
    assert note_signer(TasSettings(embedded=True, ticket_key_file=ticket)).public == made.public
    assert made.public.name == "towpath.local/audit"
    with pytest.raises(KeyFileError, match="TOWPATH_SEAL_KEY_FILE"):
        note_signer(TasSettings(embedded=False, ticket_key_file=ticket))
    with pytest.raises(KeyFileError, match="sealing key"):
        note_signer(TasSettings(embedded=False, seal_key_file=tmp_path / "missing.key"))
    with pytest.raises(KeyFileError, match="TOWPATH_AUDIT_ORIGIN"):
        note_signer(TasSettings(embedded=True, ticket_key_file=ticket, audit_origin="two words"))

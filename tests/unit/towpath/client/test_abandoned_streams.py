"""A stream that is left by an error is closed with its client: nothing is printed above one's own error."""

import asyncio
import gc
import json
import logging
import socket
import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest

from towpath import Client

ENTRY = {"seq": 1, "at": "2026-01-01T00:00:00Z", "event": {"type": "run_started"}}
FRAME = f"event: run_started\nid: 1\ndata: {json.dumps(ENTRY)}\n\n"
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
def address() -> Iterator[str]:
    """Stream a run that has begun, and goes on until the client closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(f"{HEAD}{len(FRAME):x}\r\n{FRAME}\r\n".encode())
                connection.recv(1)

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        answering.join(10)
        assert not answering.is_alive()


@pytest.mark.parametrize("how", ["events", "stream"])
def test_an_error_in_a_stream_is_all_that_is_said(how: str, address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Client(address, api_key="key") as client:
            async for _ in client.events(uuid4()) if how == "events" else client.stream(uuid4()):
                msg = "one's own"
                raise ZeroDivisionError(msg)

    with caplog.at_level(logging.WARNING), pytest.raises(ZeroDivisionError, match="one's own"):
        asyncio.run(main())
    gc.collect()
    assert caplog.text == ""

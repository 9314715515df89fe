"""What an MCP server asks of a worker: now and then it may, without end it may not."""

import mcp_types
import pytest
from mcp.shared.message import SessionMessage

from towpath_fabric.clock import use_simulated_clock
from towpath_fabric.telemetry.logs import get_logger
from towpath_worker.adapters.mcp.connection import ServerConnection

ASKS = SessionMessage(mcp_types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))


ASKED = 300


@pytest.mark.parametrize(("pause_s", "heard"), [(0.0, 100), (0.5, 199), (1.0, ASKED)])
def test_a_server_may_ask_once_a_second_and_a_hundred_times_at_once(pause_s: float, heard: int) -> None:
    now = [0.0]
    with use_simulated_clock(lambda: now[0], 0):
        connection = ServerConnection(get_logger("test"))
        count = 0
        while count < ASKED and connection.observe(ASKS):
            count, now[0] = count + 1, now[0] + pause_s
    assert count == heard
    assert connection.over.is_set() == (heard < ASKED)
    assert connection.fault == ("" if heard == ASKED else "it asks for something without end")

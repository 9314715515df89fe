"""Large results at a real TAS process: stored in pieces, by ticket, under their digest."""

import base64
import uuid
from typing import Any

import pytest
from tests.support.tas.tas_caller import query
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.registry import ProblemError

__all__ = ["shared_tas", "tas"]


async def test_a_large_result_is_stored_in_pieces_under_its_digest(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    data = bytes(range(256)) * 2_000
    for index, piece in enumerate(pieces(data)):
        await caller.ask(rpc.BLOB_PUT, **chunk(invocation, data, index, piece))
    stored = await query(tas.dsn, "SELECT data, size FROM runs.blob WHERE digest = $1", digest_text(data))
    assert [(one["data"], one["size"]) for one in stored] == [(data, len(data))]
    left = await query(tas.dsn, "SELECT FROM tas.blob_piece WHERE digest = $1", digest_text(data))
    assert left == []
    again = await caller.ask(rpc.BLOB_PUT, **chunk(invocation, data, 0, pieces(data)[0]))
    assert again.detail == "stored"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ticket": ""}, "forbidden"),
        ({"ticket": "e30.e30"}, "forbidden"),
        ({"execution_id": str(uuid.uuid4())}, "forbidden"),
        ({"digest": "sha256:" + "0" * 64}, "request_invalid"),
        ({"index": 1, "total": 1}, "request_invalid"),
        ({"total": 65}, "request_too_large"),
        ({"data_base64": base64.b64encode(bytes(256 * 1024 + 1)).decode()}, "request_too_large"),
        ({"data_base64": "!"}, "request_invalid"),
        ({"index": 1, "total": 2}, "request_invalid"),
    ],
)
async def test_a_blob_that_is_not_in_order_is_refused(tas: Running, change: dict[str, Any], code: str) -> None:
    invocation = await tas.caller.call("orders.find")
    data = uuid.uuid4().bytes
    with pytest.raises(ProblemError, match=code):
        await tas.caller.ask(rpc.BLOB_PUT, **{**chunk(invocation, data, 0, data), **change})
    assert await query(tas.dsn, "SELECT FROM runs.blob WHERE digest = $1", digest_text(data)) == []


async def test_a_finished_call_stores_no_more_blobs(tas: Running) -> None:
    invocation = await tas.caller.call("orders.find")
    await tas.caller.confirmation(await tas.caller.report(invocation))
    with pytest.raises(ProblemError, match="forbidden"):
        await tas.caller.ask(rpc.BLOB_PUT, **chunk(invocation, b"x", 0, b"x"))


async def test_an_outcome_that_comes_late_uses_what_it_names_and_nothing_without_a_good_ticket_does(
    tas: Running,
) -> None:
    old = "SELECT digest FROM runs.blob WHERE used_at < now() - interval '6 days' AND digest = ANY ($1)"
    named = []
    for change in ("result", "file", "forged"):
        invocation = await tas.caller.call("orders.find")
        data = uuid.uuid4().bytes
        named.append(digest_text(data))
        await tas.caller.ask(rpc.BLOB_PUT, **chunk(invocation, data, 0, data))
        await query(tas.dsn, "UPDATE runs.blob SET used_at = now() - interval '7 days' WHERE digest = $1", named[-1])
        said: dict[str, Any] = {"result": None, "blob": True, "result_digest": named[-1]}
        if change == "file":
            said = {"changes": [{"path": "a.txt", "digest": named[-1]}, {"path": "b.txt", "digest": "of nothing"}]}
        if change == "forged":
            await tas.caller.report(invocation, ticket="e30.e30", **said)
            said = {}
        await tas.caller.confirmation(await tas.caller.report(invocation, **said))
    assert [row["digest"] for row in await query(tas.dsn, old, named)] == named[2:]


def pieces(data: bytes) -> list[bytes]:
    """Cut *data* as a worker does."""
    return [data[start : start + 256 * 1024] for start in range(0, len(data), 256 * 1024)]


def chunk(invocation: Any, data: bytes, index: int, piece: bytes) -> dict[str, Any]:
    """Make one piece of a blob."""
    return {
        "digest": digest_text(data),
        "index": index,
        "total": len(pieces(data)),
        "data_base64": base64.b64encode(piece).decode(),
        "ticket": invocation.ticket,
        "execution_id": str(invocation.execution_id),
    }

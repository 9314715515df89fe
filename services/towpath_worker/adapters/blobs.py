"""Large results: stored with TAS in chunks before the outcome that names them.

The effect of a call must not be lost because its result is large: while TAS does not answer, the chunks are sent again.
"""

import asyncio
import base64

from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.rpc import BLOB_PUT
from towpath_contracts.tools.calls import BlobChunk, ToolInvocation
from towpath_fabric.ports import MessageBus
from towpath_worker.core.results import EncodedResult, ResultRefusedError

CHUNK_BYTES = 256 * 1024
"""Before base64; encoded it stays well below the broker's limit of 1 MiB."""

ANSWER_S = 5.0
LONGEST_PAUSE_S = 5.0
TRIES = 3
"""Of the whole blob, when TAS refuses a piece: another replica may have had the earlier ones."""


async def put_blob(bus: MessageBus, invocation: ToolInvocation, result: EncodedResult) -> None:
    """Store *result*; raises ResultRefusedError `result_not_stored` when TAS will not have it."""
    refusal: Problem | None = None
    for _ in range(TRIES):
        refusal = await _put_once(bus, invocation, result)
        if refusal is None:
            return
    code = refusal.code if refusal is not None else ""
    raise ResultRefusedError("result_not_stored", f"the result of {len(result.data)} bytes was not stored: {code}")


async def _put_once(bus: MessageBus, invocation: ToolInvocation, result: EncodedResult) -> Problem | None:
    total = -(-len(result.data) // CHUNK_BYTES)
    for index in range(total):
        piece = result.data[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
        chunk = BlobChunk(
            digest=result.digest,
            index=index,
            total=total,
            data_base64=base64.b64encode(piece).decode(),
            ticket=invocation.ticket,
            execution_id=invocation.execution_id,
        )
        refusal = await _put_chunk(bus, chunk)
        if refusal is not None:
            return refusal
    return None


async def _put_chunk(bus: MessageBus, chunk: BlobChunk) -> Problem | None:
    pause_s = 0.2
    while True:
        try:
            await bus.request(BLOB_PUT, chunk, timeout_s=ANSWER_S)
        except ProblemError as error:
            if not error.problem.retryable:
                return error.problem
        else:
            return None
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

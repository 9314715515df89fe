"""Outcomes of calls that were already reported as timed out: they settle what is `unknown`.

A late outcome never takes the place of the first one, which is confirmed before it; and it holds no slot.
"""

import asyncio
from collections.abc import Awaitable

from towpath_contracts.tools.calls import ToolOutcome
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.app.call import Call
from towpath_worker.app.outcome_outbox import Outbox

LOOK_S = 0.5
"""How often it is looked whether the first outcome has been confirmed."""


class LateOutcomes:
    """Tells them, each in a task of its own."""

    def __init__(self, outbox: Outbox, log: Logger) -> None:
        self._outbox = outbox
        self._log = log
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self, call: Call, outcome: ToolOutcome | Awaitable[ToolOutcome]) -> None:
        """Tell what a call came to; of a pure call nobody asks, and an unclear outcome says nothing new."""
        task = asyncio.create_task(self._tell(call, outcome))
        self._telling.add(task)
        task.add_done_callback(self._told)

    def close(self) -> None:
        """Stop telling: the process ends."""
        for task in self._telling:
            task.cancel()

    async def _tell(self, call: Call, said: ToolOutcome | Awaitable[ToolOutcome]) -> None:
        outcome = said if isinstance(said, ToolOutcome) else await said
        if call.claim_id is None or (outcome.failure is not None and outcome.failure.uncertain):
            return
        while True:
            if call.key not in self._outbox:
                break
            await asyncio.sleep(LOOK_S)
        # A name of its own: the first outcome may be confirmed twice, and that says nothing of this one.
        late = outcome.model_copy(update={"late": True})
        self._log.warning("a tool ended after its time", tool=call.invocation.tool, execution_id=call.key)
        await self._outbox.post(late.key, late.model_dump_json().encode(), [])

    def _told(self, task: "asyncio.Task[None]") -> None:
        self._telling.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.error("a late outcome can't be told", exc_info=error)

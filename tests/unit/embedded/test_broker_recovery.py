"""Ending the care of a broker, also where a library forgets that it was asked to end."""

import asyncio
import contextlib
from pathlib import Path

from towpath_embedded.servers.broker_recovery import BrokerRecovery
from towpath_embedded.servers.nats import Nats


class Forgetful(Nats):
    """A broker that is asked through something that forgets a cancellation, as nats-py does while it closes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked = asyncio.Event()

    async def ready(self) -> bool:
        """Take a cancellation for a no."""
        self.asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3_600)
        return False


class Running(BrokerRecovery):
    """Care of a broker that runs."""

    def _pid(self) -> int:
        return 1


async def test_the_care_ends_although_its_cancellation_was_forgotten(tmp_path: Path) -> None:
    nats = Forgetful(tmp_path)
    care = asyncio.create_task(Running(nats, asyncio.Event().wait, lambda: None, lambda _: None).run())
    await nats.asked.wait()
    care.cancel()
    done, _ = await asyncio.wait({care}, timeout=60)
    while not care.done():  # let the test end where the care did not
        care.cancel()
        await asyncio.sleep(0)
    assert done == {care}

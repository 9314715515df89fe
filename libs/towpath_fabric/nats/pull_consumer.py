"""The pull consumer of the hot batch loops: messages wait in memory while the previous batch is committed.

Delivery is a hint and an ack is a hint; nothing here makes anything exactly-once. A missing stream or consumer
means "wait and rebind", never an error. One long-lived pull request is kept open, so that a message costs
one hop and no polling; nats-py's own fetch has two bugs that cost seconds.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.clock import monotonic, wall

EXPIRES_S = 30.0
"""Life of one pull request at the server."""

HEARTBEAT_S = 2.0
"""The server says it is alive this often while a request is idle; three missed beats mean the request is gone."""

LOOK_S = 0.25
"""How often a consumer looks whether its connection was replaced or its request lost."""

Rebind = Callable[[], Awaitable[None]]


class PullConsumer:
    """Pulls one durable consumer. Use: `await start()`, then `await take(n)` in a loop, `await stop()` at the end."""

    def __init__(
        self,
        nc: Client,
        spec: ConsumerSpec,
        *,
        window: int = 512,
        rebind: Rebind | None = None,
        arrived: asyncio.Event | None = None,
    ) -> None:
        """Keep at most *window* messages asked for or waiting; *rebind* is called when the consumer is missing.

        Loops that read several consumers share one *arrived* event.
        """
        self.spec = spec
        self._nc = nc
        self._window = window
        self._rebind = rebind
        self._ready: deque[Msg] = deque()
        self._arrived = arrived or asyncio.Event()
        self._asked = 0
        self._held = 0
        self._heard = 0.0
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._missing = False
        self.paused = False

    async def start(self) -> None:
        """Subscribe and ask for the first messages."""
        self._inbox = self._nc.new_inbox()
        self._subscription = await self._nc.subscribe(
            self._inbox, cb=self._on_message, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        await self._ask()
        self._keeper = asyncio.create_task(self._keep(), name=f"pull-{self.spec.durable}")

    async def stop(self) -> None:
        """Stop asking. Messages not taken yet come again elsewhere after their ack wait."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        if self._subscription is not None and not self._nc.is_closed:
            try:
                await self._subscription.unsubscribe()
            except nats_errors.Error:
                self._subscription = None
        waiting, self._ready = list(self._ready), deque()
        for message in waiting:
            await nak(message, 0)

    async def take(self, most: int) -> list[Msg]:
        """Wait for at least one message; return up to *most* that are here."""
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
        return self.take_now(most)

    def take_now(self, most: int) -> list[Msg]:
        """Return what is here, possibly nothing."""
        batch = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        if self._asked < self._window // 2 and not self.paused:
            asyncio.get_running_loop().call_soon(self._ask_soon)
        return batch

    def hold(self, count: int) -> None:
        """Count *count* taken messages against the window while they are worked on; a negative count gives them back.

        For handlers that work on many messages for long: nothing is fetched that could not begin at once.
        """
        self._held += count
        if count < 0 and self._asked < self._window // 2 and not self.paused:
            self._ask_soon()

    @property
    def waiting(self) -> int:
        """Messages that are here and not taken."""
        return len(self._ready)

    def _ask_soon(self) -> None:
        if self._keeper is not None:
            task = asyncio.ensure_future(self._ask())
            task.add_done_callback(_quiet)

    async def _ask(self) -> None:
        room = self._window - self._asked - self._held - len(self._ready)
        if room <= 0 or self.paused or (self._asked and room < self._window // 4):
            return
        body = {"batch": room, "expires": int(EXPIRES_S * 1e9), "idle_heartbeat": int(HEARTBEAT_S * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.spec.stream}.{self.spec.durable}"
        self._asked += room
        self._heard = monotonic()
        try:
            await self._nc.publish(subject, json.dumps(body).encode(), reply=self._inbox)
        except nats_errors.Error:
            self._asked -= room

    async def _on_message(self, message: Msg) -> None:
        self._heard = monotonic()
        status = message.headers.get("Status") if message.headers and not message.reply.startswith("$JS.ACK") else None
        if status is None:
            self._asked = max(0, self._asked - 1)
            self._ready.append(message)
            self._arrived.set()
            if self._asked == 0:
                await self._ask()
            return
        if status == "100":
            return
        self._missing = status == "503" or (status == "409" and "Consumer Deleted" in str(message.headers))
        ended = (message.headers or {}).get("Nats-Pending-Messages")
        self._asked = max(0, self._asked - int(ended)) if ended else 0
        if not self._missing:
            await self._ask()

    async def _keep(self) -> None:
        """Ask again when a request was lost: broker restarts, missing consumers, dropped heartbeats."""
        delay = 0.1
        reconnects = self._nc.stats["reconnects"]
        while True:
            await asyncio.sleep(delay)
            if self._nc.stats["reconnects"] != reconnects and self._nc.is_connected:
                reconnects = self._nc.stats["reconnects"]
                self.reset()  # the request went with the old connection; without this only its silence would tell
            if self._missing and self._rebind is not None and self._nc.is_connected:
                delay = min(delay * 2, 2.0)
                try:
                    await self._rebind()
                except (TimeoutError, nats_errors.Error):
                    continue
                self._missing = False
            else:
                delay = LOOK_S
            if self._asked and monotonic() - self._heard > 3 * HEARTBEAT_S:
                self._asked = 0
            if self._asked == 0 and self._nc.is_connected:
                await self._ask()

    def reset(self) -> None:
        """Forget outstanding requests; call when the connection came back."""
        self._asked = 0


def _quiet(task: "asyncio.Future[None]") -> None:
    if not task.cancelled():
        task.exception()


async def ack(message: Msg) -> None:
    """Tell the broker that the message is done; a lost ack only means that it comes again."""
    await _say(message, b"+ACK")


async def nak(message: Msg, delay_s: float) -> None:
    """Hand the message back, to come again after *delay_s*."""
    await _say(message, b"-NAK" if delay_s <= 0 else b"-NAK " + json.dumps({"delay": int(delay_s * 1e9)}).encode())


async def term(message: Msg) -> None:
    """Take the message out of the stream for good; its dead letter must be stored before."""
    await _say(message, b"+TERM")


async def in_progress(message: Msg) -> None:
    """Keep the message; only while the work really makes progress."""
    await _say(message, b"+WPI")


async def _say(message: Msg, word: bytes) -> None:
    try:
        await message._client.publish(message.reply, word)  # nats-py's own ack() forbids a second word
    except nats_errors.Error:
        return


def age_s(message: Msg) -> float:
    """Seconds since the broker stored this message; never below 0, where the two clocks disagree."""
    return max(0.0, (wall() - message.metadata.timestamp).total_seconds())


def deliveries(message: Msg) -> int:
    """How often the broker has delivered this message, this time included."""
    count = message.metadata.num_delivered
    return int(count or 1)

"""Request and reply over core NATS, which keeps no message: what meets a service in the moment of its death is lost.

Nobody says that it was lost, so a request that may be handled twice is sent again after a short silence, on the same
reply subject: the answer to any try counts. What nobody received (`no responders`, or no connection) is sent again
whatever it is. A process that still works on a try gives the next one the same answer (`replies.py`), and at most
`MAX_REPEATS` are sent into a silence, so that a slow service isn't flooded.
"""

import asyncio

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_contracts.problems.registry import RETRYABLE_CODES
from towpath_contracts.rpc import PROBLEM_HEADER, REPEAT_HEADER
from towpath_fabric.nats.broker_errors import PublishDeniedError

FIRST_SILENCE_S = 0.5
"""A service that died is back by then, and one that lives answers nearly everything in this time. It then doubles."""

MAX_REPEATS = 3
"""Tries after the first one that a service may have received."""

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.8
"""Between tries that nobody received; such a try costs no service anything."""

UNRECEIVED_S = 3.0
"""How long nobody may be there to receive a request: several times what a restart takes under `towpath up`."""

NO_RESPONDERS = "503"
UNAVAILABLE = "unavailable"


class _Exchange:
    """The tries of one request, and what came back."""

    def __init__(self, subject: str, headers: dict[str, str] | None) -> None:
        self.subject = subject.lower()
        self.headers = headers
        self.arrived: asyncio.Queue[Msg | PublishDeniedError] = asyncio.Queue()
        self.tries = 0
        self.unanswered = 0
        self.unreceived = False
        self.refusal: Msg | None = None

    async def answer_until(self, at: float) -> Msg | None:
        """Return the answer; None as soon as there is a reason for another try, at the latest at *at* (loop time).

        A refusal that says "later" is an answer only where no other try can still be answered: that one may have
        been accepted.
        """
        try:
            async with asyncio.timeout_at(at):
                while self.unanswered:
                    message = await self.arrived.get()
                    if isinstance(message, PublishDeniedError):
                        raise message
                    code = (message.headers or {}).get(PROBLEM_HEADER)
                    if _is_unreceived(message):
                        self.unanswered -= 1
                        self.unreceived = True
                        return None
                    if code not in RETRYABLE_CODES:
                        return message
                    self.unanswered -= 1
                    self.refusal = message
        except TimeoutError:
            return None
        return self.refusal

    def answer_at_the_end(self) -> Msg:
        """Return the refusal that leaves as open as silence does what became of the request, and says why.

        Raises TimeoutError where there is none.
        """
        if self.refusal is None or (self.refusal.headers or {}).get(PROBLEM_HEADER) != UNAVAILABLE:
            raise TimeoutError
        return self.refusal


class RequestSender:
    """Sends the requests of one connection."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._inbox = ""
        self._subscribing = asyncio.Lock()
        self._sent = 0
        self._open: dict[str, _Exchange] = {}

    async def request(
        self,
        subject: str,
        body: bytes,
        *,
        limit_s: float,
        repeat: bool,
        held_s: float = 0.0,
        headers: dict[str, str] | None = None,
    ) -> Msg:
        """Return the answer, possibly a problem. With *repeat*, the request may be handled more than once.

        *held_s* is how long the service may hold the request by itself: such a silence says nothing. *headers* go with
        every try. Raises
        TimeoutError where no answer came within *limit_s*, NoRespondersError where nobody received any try for
        `UNRECEIVED_S`, PublishDeniedError where the broker refused a try, and what `publish` raises for a request that
        no message can be.
        """
        if not self._inbox:
            await self._subscribe()
        self._sent += 1
        reply = f"{self._inbox}.{self._sent}"
        exchange = self._open[reply] = _Exchange(subject, headers)
        try:
            return await self._exchange(exchange, subject, body, reply, limit_s, MAX_REPEATS if repeat else 0, held_s)
        finally:
            del self._open[reply]

    def deny(self, subject: str) -> bool:
        """End the open requests on *subject*, which is in lower case, and return whether there are any.

        The broker has refused one of them.
        """
        denied = [exchange for exchange in self._open.values() if exchange.subject == subject]
        for exchange in denied:
            exchange.arrived.put_nowait(PublishDeniedError(subject))
        return bool(denied)

    async def _exchange(
        self, exchange: _Exchange, subject: str, body: bytes, reply: str, limit_s: float, repeats: int, held_s: float
    ) -> Msg:
        now = asyncio.get_running_loop().time
        begun = now()
        deadline = begun + limit_s
        silence_s, pause_s = held_s + FIRST_SILENCE_S, FIRST_PAUSE_S
        while True:
            await self._try(exchange, subject, body, reply)
            answer = await exchange.answer_until(min(deadline, now() + silence_s) if repeats else deadline)
            if answer is not None:
                return answer
            if now() >= deadline:
                return exchange.answer_at_the_end()
            if exchange.unreceived:
                if not exchange.unanswered and now() + pause_s > min(deadline, begun + UNRECEIVED_S):
                    raise nats_errors.NoRespondersError
                answer = await self._paused(exchange, min(deadline, now() + pause_s))
                if answer is not None:
                    return answer
                if now() >= deadline:
                    return exchange.answer_at_the_end()
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            else:
                repeats -= 1
                silence_s *= 2

    async def _paused(self, exchange: _Exchange, until: float) -> Msg | None:
        """Wait before the next try of what nobody received; return the answer to an earlier try if it comes."""
        if exchange.unanswered:
            return await exchange.answer_until(until)
        await asyncio.sleep(until - asyncio.get_running_loop().time())
        return None

    async def _try(self, exchange: _Exchange, subject: str, body: bytes, reply: str) -> None:
        exchange.unreceived = False
        exchange.tries += 1
        headers = exchange.headers
        if exchange.tries > 1:
            headers = {**(headers or {}), REPEAT_HEADER: str(exchange.tries)}
        try:
            await self._nc.publish(subject, body, reply=reply, headers=headers)
        except nats_errors.OutboundBufferLimitError:  # no connection, and nothing is kept for the next one
            exchange.unreceived = True
        else:
            exchange.unanswered += 1

    async def _subscribe(self) -> None:
        async with self._subscribing:
            if not self._inbox:
                inbox = self._nc.new_inbox()
                await self._nc.subscribe(f"{inbox}.*", cb=self._on_reply)
                self._inbox = inbox

    async def _on_reply(self, message: Msg) -> None:
        exchange = self._open.get(message.subject)
        if exchange is not None:
            exchange.arrived.put_nowait(message)


def _is_unreceived(message: Msg) -> bool:
    return not message.data and (message.headers or {}).get("Status") == NO_RESPONDERS

"""Hands the messages of a subscription to a plain function while the connection reads them.

nats-py puts a message into a queue and wakes a task that calls the callback: for a message that comes alone, that costs
more than what most callbacks here do. It offers one other way, a future that it resolves with the message, and this is
a future that may be resolved any number of times. No limit on pending messages applies, as none ever waits.
"""

import asyncio
from collections.abc import Callable

from nats.aio.msg import Msg


class DirectDelivery(asyncio.Future[Msg]):
    """Pass it to `Client.subscribe` as *future*. The function holds up the connection, so it must not take long.

    An error of the function goes to the event loop's exception handler: it must not end the reading.
    """

    def __init__(self, handle: Callable[[Msg], None]) -> None:
        super().__init__()
        self._handle = handle

    def set_result(self, result: Msg, /) -> None:
        """Call the function with the message; the future stays pending."""
        try:
            self._handle(result)
        except Exception as error:  # noqa: BLE001 - nats-py ends the connection's reading for good
            context = {"message": f"a message on {result.subject} could not be handled", "exception": error}
            self.get_loop().call_exception_handler(context)

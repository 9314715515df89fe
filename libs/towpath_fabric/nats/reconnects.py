"""Tells listeners that a connection was re-established. nats-py has room for one callback only, set when it connects.

Whoever looked for it now and then instead would wake an idle process, for each consumer several times a second.
"""

from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

from nats.aio.client import Client

_listeners: WeakKeyDictionary[Client, list[Callable[[], None]]] = WeakKeyDictionary()


def on_reconnect(nc: Client, listener: Callable[[], None]) -> Callable[[], None]:
    """Call *listener* whenever *nc* was connected again; returns what ends that."""
    listeners = _listeners.get(nc)
    if listeners is None:
        listeners = _listeners[nc] = []
        _chain(nc, listeners)
    listeners.append(listener)
    return partial(listeners.remove, listener)


def _chain(nc: Client, listeners: list[Callable[[], None]]) -> None:
    before = nc._reconnected_cb

    async def notify() -> None:
        for listener in tuple(listeners):
            listener()
        if before is not None:
            await before()

    nc._reconnected_cb = notify

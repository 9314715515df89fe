"""The client of a command: every request of it shows on the terminal that it is waited for, and why for so long."""

from typing import Any, cast

from towpath.cli.shared.output import print_notice
from towpath.cli.shared.progress import ProgressLine
from towpath.cli.shared.text import one_line
from towpath.client.client import Client
from towpath.client.settings import ClientTarget
from towpath.client.transport import Transport
from towpath.errors import TowpathError

_WAITED_FOR = frozenset({"submit", "get", "ended", "cancel", "steer", "request"})
"""What has one answer; streams of events are shown as they come."""


class CommandClient(Client):
    """A client of *target* that is at work, for *line*, while an answer is outstanding.

    With *at_once* it tries nothing again, and says at once what does not answer.
    """

    def __init__(self, target: ClientTarget, line: ProgressLine, *, at_once: bool = False) -> None:
        super().__init__(target)
        self._transport.retries = not at_once
        self._transport.retry_notice = _tell_retry
        self._transport = cast("Transport", _WatchedTransport(self._transport, line))


class _WatchedTransport:
    """The transport it is made of; its requests are work of a line."""

    def __init__(self, transport: Transport, line: ProgressLine) -> None:
        self._transport, self._line = transport, line

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._transport, name)
        if name not in _WAITED_FOR:
            return found

        async def ask(*arguments: Any, **options: Any) -> Any:
            with self._line.working():
                return await found(*arguments, **options)

        return ask


def _tell_retry(error: TowpathError, left_s: float) -> None:
    found = error.problem
    print_notice(f"{one_line(found.detail)}; tried again for {left_s:.0f} s. {one_line(found.remedy)}")

"""What the broker, or somebody in its place, says against a connection, outside of any answer.

nats-py hands such errors to one callback and goes on. A right that a login lacks comes back by no waiting, so whoever
waits for the answer to a message that the broker did not take is told at once.
"""

import math
import re
from collections.abc import Callable

from nats.errors import Error as NatsError

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.broker_owner import BrokerOwnerError
from towpath_fabric.settings import BrokerSettings
from towpath_fabric.telemetry.logs import get_logger

COMPLAIN_S = 10.0
"""How often a stranger in place of the broker is logged."""

_PUBLISH_DENIED = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)
_LOGIN_DENIED = "authorization violation"


class PublishDeniedError(NatsError):
    """The broker does not let this login publish on the subject: no try will ever be received."""


class BrokerErrors:
    """nats-py's error callback: logs strangers now and then, and hands on which subject was denied, in lower case."""

    def __init__(self, role: str, on_denied: Callable[[str], None]) -> None:
        self._role = role
        self._on_denied = on_denied
        self._last_s = -math.inf

    async def __call__(self, error: Exception) -> None:
        if isinstance(error, BrokerOwnerError):
            if monotonic() - self._last_s >= COMPLAIN_S:
                self._last_s = monotonic()
                get_logger(self._role).error("refused a stranger in place of the broker", error=str(error))
        elif denied := _PUBLISH_DENIED.search(str(error)):
            self._on_denied(denied[1].lower())


def is_login_denied(error: Exception) -> bool:
    """Return whether the broker was there and refused the login, rather than not to be there."""
    return _LOGIN_DENIED in str(error).lower()


def broker_denied(settings: BrokerSettings, what: str) -> ProblemError:
    """Return the problem of a login that may not do *what*, which it names."""
    who = f"the user {settings.nats_user}" if settings.nats_user else "a process without a user and password"
    return ProblemError(problem("broker_denied", f"{who} may not {what}"))

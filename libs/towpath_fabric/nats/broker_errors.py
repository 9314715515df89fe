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
"""How often a stranger in place of the broker is logged, and that none is there."""

MAX_DENIED = 100
"""First words of subjects whose denial is logged, each once: what is said on them may be said again and again."""

WORKER = "worker"
"""The role that ends where it may not register its tools, and says so itself."""

_PUBLISH_DENIED = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)
_SUBSCRIBE_DENIED = re.compile(r'permissions violation for subscription to "([^"]+)"', re.IGNORECASE)
_LOGIN_DENIED = "authorization violation"


class PublishDeniedError(NatsError):
    """The broker does not let this login publish on the subject: no try will ever be received."""


class BrokerErrors:
    """nats-py's error callback: logs strangers now and then, and hands on which subject was denied, in lower case.

    *on_denied* returns whether somebody waited for an answer there, and so was told. Else the denial is logged, once
    for all subjects that begin alike: the process goes on without what it may not say or hear.
    """

    def __init__(self, role: str, on_denied: Callable[[str], bool]) -> None:
        self._role = role
        self._on_denied = on_denied
        self._last_s = -math.inf
        self._absent_s: float | None = None
        self._denied: set[tuple[str, str]] = set()

    async def __call__(self, error: Exception) -> None:
        if isinstance(error, BrokerOwnerError):
            if monotonic() - self._last_s >= COMPLAIN_S:
                self._last_s = monotonic()
                get_logger(self._role).error("refused a stranger in place of the broker", error=str(error))
        elif isinstance(error, OSError):
            self._complain_of_absence(error)
        elif denied := _PUBLISH_DENIED.search(str(error)):
            if not self._on_denied(denied[1].lower()):
                self._complain_of_rights("publish", denied[1])
        elif self._role != WORKER and (denied := _SUBSCRIBE_DENIED.search(str(error))):
            self._complain_of_rights("subscribe", denied[1])

    def _complain_of_rights(self, right: str, subject: str) -> None:
        about = (right, subject.partition(".")[0].lower())
        if about[1].startswith("_inbox"):  # who asks hears nothing there, and says so
            return
        if about in self._denied or len(self._denied) >= MAX_DENIED:
            return
        self._denied.add(about)
        remedy = "Write authority.conf anew, towpath streams authority, and start the broker again."
        get_logger(self._role).warning(
            "the broker denies this process a right; it goes on without", right=right, subject=subject, remedy=remedy
        )

    def _complain_of_absence(self, error: OSError) -> None:
        """Log now and then that no broker is there, but not the first failure: a server may just be starting."""
        now = monotonic()
        if self._absent_s is not None and now - self._absent_s < COMPLAIN_S:
            return
        if self._absent_s is not None:
            remedy = "Start it: towpath up. In another folder, name the one that runs: TOWPATH_NATS_URL."
            get_logger(self._role).warning("no broker answers; it is tried again", error=str(error), remedy=remedy)
        self._absent_s = now


def is_login_denied(error: Exception) -> bool:
    """Return whether the broker was there and refused the login, rather than not to be there."""
    return _LOGIN_DENIED in str(error).lower()


def broker_denied(settings: BrokerSettings, what: str) -> ProblemError:
    """Return the problem of a login that may not do *what*, which it names."""
    who = f"the user {settings.nats_user}" if settings.nats_user else "a process without a user and password"
    return ProblemError(problem("broker_denied", f"{who} may not {what}"))

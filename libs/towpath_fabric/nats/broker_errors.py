"""What the broker, or somebody in its place, says against a connection, outside of any answer.

nats-py hands such errors to one callback and goes on. A right that a login lacks comes back by no waiting, so whoever
waits for the answer to a message that the broker did not take is told at once.
"""

import asyncio
import math
import re
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from shlex import quote
from typing import Any

from nats.aio.client import Client
from nats.errors import AuthorizationError, StaleConnectionError
from nats.errors import Error as NatsError

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import REGISTER_TOOLS
from towpath_fabric.addresses.broker_addresses import DEFAULT_PORT, broker_places
from towpath_fabric.addresses.port_owners import PLATFORM_FOLDER, port_owner
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.broker_owner import BrokerOwnerError
from towpath_fabric.outages.outage import Outage
from towpath_fabric.settings import BrokerSettings
from towpath_fabric.telemetry.logs import get_logger

COMPLAIN_S = 10.0
"""How often a stranger in place of the broker is logged."""

PATIENCE_S = 1.0
"""A broker that starts together with a process, or is restarted, is back by then."""

BROKER_REMEDY = "Start it: towpath up. In another folder, name the one that runs: TOWPATH_NATS_URL."

MAX_DENIED = 100
"""First words of subjects whose denial is logged, each once: what is said on them may be said again and again."""

WORKER = "worker"
"""The role that ends where it may not register its tools, and says so itself."""

_PUBLISH_DENIED = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)
_SUBSCRIBE_DENIED = re.compile(r'permissions violation for subscription to "([^"]+)"', re.IGNORECASE)
_LOGIN_DENIED = "authorization violation"

_ANSWERED_TO = ("_inbox", "_r_", "_gr_")
"""How subjects of answers begin: a client's own, and what nodes of a broker make of one where the asker is elsewhere.

Who was asked may answer there until the broker forgets the question, as it does where a node or the asker is lost.
"""

_REGISTERS = f"{REGISTER_TOOLS.subject}."
_OWN_PLATFORM = (
    "With towpath up on this machine: unset TOWPATH_NATS_URL, TOWPATH_NATS_USER and TOWPATH_NATS_PASSWORD, and start "
    "{what} in the folder that holds .towpath. After towpath up --data FOLDER start it so instead: towpath up --only "
    "worker --data FOLDER --worker FILE. After towpath up --ephemeral stop that, and start it again with the tools: "
    "towpath up --ephemeral --worker FILE."
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_OF_BROKER = ("nats_url", "nats_user", "nats_password_file", "nats_password", "nats_nkey_file", "nats_creds_file")
"""Settings that name a broker and a login there, which go before what lies in a data folder, or beside which none is
taken from it."""

_NEW_CREDENTIAL = (
    "On a deployment: towpath workers credential add {name} --project {project} --toolset {toolset}, start the broker "
    "again, and set TOWPATH_NATS_USER={name} and TOWPATH_NATS_PASSWORD from deploy/secrets/{name}.env."
)
_WIDER_CREDENTIAL = (
    "Give {user} this toolset beside those that towpath workers credential list shows: towpath workers credential add "
    "{user} --project {project} --toolset {toolset} and the others, each with --toolset; then start the broker again. "
    "Or name one of those in @tool(toolset=…)."
)
_KNOWN_CREDENTIAL = (
    "On a deployment the password of {user} is in deploy/secrets/{user}.env, and counts once the broker was started "
    "after it was made; towpath workers credential list names the users of workers."
)


class PublishDeniedError(NatsError):
    """The broker does not let this login publish on the subject: no try will ever be received."""


class BrokerErrors:
    """nats-py's error callback: logs strangers now and then, and hands on which subject was denied, in lower case.

    *on_denied* returns whether somebody waited for an answer there, and so was told. Else the denial is logged, once
    for all subjects that begin alike: the process goes on without what it may not say or hear.
    """

    def __init__(self, role: str, on_denied: Callable[[str], bool]) -> None:
        self._role = role
        self.outage = Outage(role, "the broker", BROKER_REMEDY, quiet_s=0, patience_s=PATIENCE_S)
        self._on_denied = on_denied
        self._untrusted: ProblemError | None = None
        """The first certificate of a broker that could not be trusted: nats-py goes on trying."""
        self._met_untrusted = asyncio.Event()
        self._last_s = -math.inf
        self._denied: set[tuple[str, str]] = set()

    async def first_connection(self, connect: Coroutine[Any, Any, Client], settings: BrokerSettings) -> Client:
        """Wait for *connect*; raises ProblemError where the only broker has a certificate that can't be trusted."""
        connecting = asyncio.ensure_future(connect)
        untrusted = asyncio.ensure_future(self._met_untrusted.wait())
        waited: set[asyncio.Future[Any]] = {connecting}
        if len(settings.nats_servers) == 1:
            waited.add(untrusted)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done() and self._untrusted is not None:
                raise self._untrusted
            return connecting.result()
        finally:
            untrusted.cancel()
            if not connecting.done():
                connecting.cancel()
                await asyncio.gather(connecting, return_exceptions=True)

    async def __call__(self, error: Exception) -> None:
        if isinstance(error, ssl.SSLCertVerificationError) and self._untrusted is None:
            detail = f"the certificate of the broker: {error.verify_message}"
            self._untrusted = ProblemError(problem("broker_untrusted", detail))
            self._met_untrusted.set()
        if isinstance(error, BrokerOwnerError):
            if monotonic() - self._last_s >= COMPLAIN_S:
                self._last_s = monotonic()
                get_logger(self._role).error("refused a stranger in place of the broker", error=str(error))
        elif isinstance(error, OSError | StaleConnectionError) or is_login_denied(error):
            self.outage.failed(error)
        elif denied := _PUBLISH_DENIED.search(str(error)):
            if not self._on_denied(denied[1].lower()):
                self._complain_of_rights("publish", denied[1])
        elif self._role != WORKER and (denied := _SUBSCRIBE_DENIED.search(str(error))):
            self._complain_of_rights("subscribe", denied[1])

    def meet(self, error: Exception, settings: BrokerSettings) -> None:
        """Note that a first connection fails with *error*; raises ProblemError where no waiting mends that."""
        if (refused := connect_refusal(settings, error)) is not None:
            raise refused from error
        self.outage.failed(error)

    def _complain_of_rights(self, right: str, subject: str) -> None:
        about = (right, subject.partition(".")[0].lower())
        if about[1].startswith(_ANSWERED_TO):
            if right == "publish":  # who asks and hears nothing says so itself
                get_logger(self._role).debug("an answer came too late: whoever asked is gone", subject=subject)
            return
        if about in self._denied or len(self._denied) >= MAX_DENIED:
            return
        self._denied.add(about)
        remedy = "Write authority.conf anew, towpath streams authority, and start the broker again."
        get_logger(self._role).warning(
            "the broker denies this process a right; it goes on without", right=right, subject=subject, remedy=remedy
        )


def is_login_denied(error: Exception) -> bool:
    """Return whether the broker was there and refused the login, rather than not to be there."""
    return isinstance(error, AuthorizationError) or _LOGIN_DENIED in str(error).lower()


def connect_refusal(settings: BrokerSettings, error: Exception) -> ProblemError | None:
    """Return the problem of a first connection that fails in the same way however often it is tried, else None."""
    if is_login_denied(error):
        return _login_denied(settings)
    return None


def broker_denied(settings: BrokerSettings, subject: str) -> ProblemError:
    """Return the problem of a login that may not say anything on *subject*; a worker's names the toolset it lacks."""
    registers = subject.removeprefix(_REGISTERS) if subject.startswith(_REGISTERS) else ""
    project, _, toolset = registers.partition(".")
    user = settings.nats_user
    if not toolset:
        who = f"the user {user}" if user else "a process without a user and password"
        return ProblemError(problem("broker_denied", f"{who} may not say {subject}"))
    lacks = f"register the toolset {toolset} of the project {project}"
    if user:
        wider = _WIDER_CREDENTIAL.format(user=user, project=project, toolset=toolset)
        remedy = f"{wider} {_own_platform(settings, 'it')}"
        return ProblemError(problem("broker_denied", f"the broker does not let the user {user} {lacks}", remedy=remedy))
    name = toolset if project == "default" else f"{project}-{toolset}"  # two projects may have the same toolset
    new = _NEW_CREDENTIAL.format(name=name, project=project, toolset=toolset)
    detail = f"this worker has no user and password, so the broker does not let it {lacks}"
    return ProblemError(problem("broker_denied", detail, remedy=_own_platform(settings, "the worker", new)))


def _own_platform(settings: BrokerSettings, what: str, otherwise: str = "") -> str:
    """Say how *what* comes to the platform of this machine: by its folder, where the broker is seen to be its own.

    Where it is not seen, *otherwise* says what is done with another one.
    """
    data = _data_folder(settings)
    if data is None:
        return f"{_OWN_PLATFORM.format(what=what)} {otherwise}".rstrip()
    given = settings.model_fields_set - ({"nats_password"} if settings.nats_password_file is not None else set())
    named = ", ".join(f"TOWPATH_{name.upper()}" for name in _OF_BROKER if name in given)
    if data.name != PLATFORM_FOLDER:
        unset = f"unset {named}, and " if named else ""
        started = f"towpath up --only worker --data {quote(str(data))} --worker FILE"
        return f"The broker is that of the Towpath on {data}: {unset}start {what} so: {started}."
    unset = f" and unset {named}" if named else ""
    there = quote(str(data.parent))
    return f"The broker is that of the Towpath of {data.parent}: start {what} there: cd {there}{unset}."


def _data_folder(settings: BrokerSettings) -> Path | None:
    """Return the data folder of the platform whose broker this is; None for brokers elsewhere, or of another user."""
    places = list(broker_places(settings.nats_url))
    if len(places) != 1 or places[0].hostname not in _LOOPBACK:
        return None
    owner = port_owner(places[0].port or DEFAULT_PORT)
    return owner.data if owner else None


def _login_denied(settings: BrokerSettings) -> ProblemError:
    if user := settings.nats_user:
        detail = f"the broker knows no user {user} with this password: one of the two is wrong, or newer than its start"
        remedy = _own_platform(settings, "it", _KNOWN_CREDENTIAL.format(user=user))
        return ProblemError(problem("broker_denied", detail, remedy=remedy))
    own = _own_platform(settings, "it")
    for file, what in ((settings.nats_nkey_file, "nkey"), (settings.nats_creds_file, "credentials")):
        if file is not None:
            detail = f"the broker does not know the {what} of {file}"
            remedy = f"Name a file whose {what} the broker knows, or let it know these. {own}"
            return ProblemError(problem("broker_denied", detail, remedy=remedy))
    detail = "the broker wants a user and a password"
    remedy = f"Set TOWPATH_NATS_USER and TOWPATH_NATS_PASSWORD. {own}"
    return ProblemError(problem("broker_denied", detail, remedy=remedy))

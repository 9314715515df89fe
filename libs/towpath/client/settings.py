"""Which platform a client talks to when the code does not say: `TOWPATH_SERVER`, `TOWPATH_API_KEY`, `TOWPATH_CONTEXT`.

An argument wins over the environment, the environment over the context that is selected, and that over the platform
that runs on `./.towpath`. The key of a context is sent to its own address and to no other, and so is the token of the
platform here. Where a context that keeps a key says the address, TOWPATH_API_KEY is not sent there: it may be another
platform's.
"""

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath.client.contexts import BROKER_SCHEMES, ContextFile, address_fault
from towpath.declared_places import calling_place, is_of_a_command
from towpath.errors import RefusedError, UnavailableError
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import monotonic
from towpath_fabric.file_owners import fault_of
from towpath_fabric.socket_owners import listener_users, socket_tables

DEFAULT_SERVER = "http://127.0.0.1:8787"
"""Where `towpath up` listens."""

START_TIMEOUT_S = 20.0
"""How long is waited for the platform on this folder, while that starts."""
START_POLL_S = 0.1

DATA_FOLDER = Path(".towpath")
FOLDER_ORIGIN = f"the platform on ./{DATA_FOLDER}"
DEFAULT_ORIGIN = "default"
TOKEN_FILE = "authorization"  # noqa: S105 - a name
_HEADER = "Authorization: Bearer "
_PROCESSES = Path("/proc")


def running_state(folder: Path = DATA_FOLDER) -> dict[str, Any] | None:
    """Return what the platform of this user that runs on *folder* says of itself; None where none runs.

    A platform holds the lock of its folder as long as it lives; a state file without it is left over from one that was
    killed, and its ports may be somebody else's by now. What another user made or may write counts for nothing: it
    could name any address to send secrets to. Nor is a lock that anybody may hold taken for a platform's.
    """
    if not all(is_mine(path) for path in (folder, folder / "lock", folder / "state.json")):
        return None
    state = _state(folder / "state.json")
    return state if _is_locked(folder / "lock") and _is_my_process(state.get("pid")) else None


def starting_platform(folder: Path = DATA_FOLDER) -> int | None:
    """Return the pid of the platform of this user that starts on *folder* and is not ready yet; None where none does.

    Its lock names it before it has written a state; one that is left over from a platform before it says nothing.
    """
    lock, file = folder / "lock", folder / "state.json"
    if not (is_mine(folder) and is_mine(lock) and _is_locked(lock)):
        return None
    pid = _state(lock).get("pid")
    if not _is_my_process(pid):
        return None
    state = _state(file) if is_mine(file) else {}
    return pid if state.get("pid") != pid or state.get("starting") is True else None


def platform_pid(folder: Path = DATA_FOLDER) -> int | None:
    """Return the pid of the platform of this user that runs, starts or stops on *folder*; None where none does."""
    lock = folder / "lock"
    if not (is_mine(folder) and is_mine(lock) and _is_locked(lock)):
        return None
    pid = _state(lock).get("pid")
    return pid if isinstance(pid, int) and _is_my_process(pid) else None


async def wait_for_start(timeout_s: float = START_TIMEOUT_S, poll_s: float = START_POLL_S) -> None:
    """Wait until the platform on ./.towpath that is starting can be asked; return at once where none starts.

    Raises UnavailableError `server_unreachable` where it takes longer than *timeout_s*, or ends before it is ready.
    """
    pid = starting_platform()
    if pid is None:
        return
    until = monotonic() + timeout_s
    while (found := starting_platform()) is not None:
        if monotonic() > until:
            raise still_starting(found)
        await asyncio.sleep(poll_s)  # another process: its state is a file
    if running_server_url() is None:
        detail = f"the platform on ./{DATA_FOLDER} (pid {pid}) ended before it was ready"
        raise UnavailableError(problem("server_unreachable", detail))


def still_starting(pid: int) -> UnavailableError:
    """Return what is told where the platform on this folder can't be asked yet."""
    remedy = f"Wait until its terminal says: ready in …, and ask again. Its logs are in {DATA_FOLDER}/logs."
    detail = f"the platform on ./{DATA_FOLDER} (pid {pid}) is still starting"
    return UnavailableError(problem("server_unreachable", detail, remedy=remedy))


def running_server_url(folder: Path = DATA_FOLDER) -> str | None:
    """Return the address of the platform of this user that runs on *folder*; None where none does."""
    address = (running_state(folder) or {}).get("gateway_url")
    return address if isinstance(address, str) else None


def local_token(server: str, folder: Path = DATA_FOLDER) -> str | None:
    """Return the token of the platform that runs on *folder*, if it is the one at *server*; else None.

    Its listener at the address has to be this user's too. What the state says of files is not followed: it could name
    any file of this user.
    """
    state = running_state(folder)
    if state is None or not (is_same_place(server, state.get("gateway_url")) and _listens_for_me(server)):
        return None
    return folder_token(folder)


def folder_token(folder: Path = DATA_FOLDER) -> str | None:
    """Return the token of this user's platform on *folder*, whether or not it runs; None where there is none."""
    token = folder / TOKEN_FILE
    return _token_of(token) if is_mine(token) else None


def local_broker_owner(address: str, folder: Path = DATA_FOLDER) -> int | None:
    """Return whose process has to answer at *address*: this user's, if the platform on *folder* has its broker there.

    None for any other broker. A platform that was killed still says where it was: who listens there now is no broker.
    """
    mine = all(is_mine(path) for path in (folder, folder / "state.json"))
    return os.getuid() if mine and is_same_place(address, _state(folder / "state.json").get("nats_url")) else None


def read_token(state: dict[str, Any]) -> str | None:
    """Return the token that the *state* of a platform that this program started leads to; None without one."""
    file = state.get("authorization_file")
    return _token_of(Path(file)) if isinstance(file, str) else None


def _token_of(file: Path) -> str | None:
    try:
        line = file.read_text("ascii")
    except (OSError, ValueError):
        return None
    return line.removeprefix(_HEADER).strip() if line.startswith(_HEADER) else None


def is_mine(path: Path) -> bool:
    """Return whether *path*, and what it leads to if it is a link, is this user's and nobody else may write it."""
    try:
        return fault_of(path, {os.getuid()}) is None
    except OSError:
        return False


def _is_my_process(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)  # refused for another user's, but to root
        return not _PROCESSES.is_dir() or (_PROCESSES / str(pid)).stat().st_uid == os.getuid()
    except (OSError, OverflowError):
        return False


def _listens_for_me(server: str) -> bool:
    """Return whether the listeners that may answer at *server*, of this machine, are this user's alone.

    Where the system has no such tables, it can't be told and is taken for granted.
    """
    port = urlsplit(server).port
    texts = socket_tables()
    return not texts or set[int]().union(*(listener_users(text, port or 0) for text in texts)) == {os.getuid()}


def _state(file: Path) -> dict[str, Any]:
    try:
        state = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def is_same_place(server: str, other: object) -> bool:
    """Return whether both are one address, letter by letter: another name of this machine may be another listener."""
    if not isinstance(other, str):
        return False
    with contextlib.suppress(ValueError):
        return _places(server) == _places(other)
    return False


def _places(address: str) -> list[tuple[str, str | None, int | None]]:
    """Return where *address* leads: a broker's may name each node of its cluster."""
    nodes = address.split(",") if address.startswith(BROKER_SCHEMES) else [address]
    return [(node.scheme, node.hostname, node.port) for node in map(urlsplit, nodes)]


def _is_locked(lock: Path) -> bool:
    import fcntl

    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTarget:
    """The platform that is asked, the key that it is sent, and what says so."""

    server: str
    server_origin: str
    api_key: str | None = field(default=None, repr=False)
    api_key_origin: str = ""
    context: str = ""
    context_origin: str = "default"

    @property
    def is_by_place(self) -> bool:
        """Whether nothing but the place of the command says which it is: a platform that starts here is meant."""
        return self.server_origin in (FOLDER_ORIGIN, DEFAULT_ORIGIN)

    @property
    def is_of_folder(self) -> bool:
        """Whether it is the platform that runs on the folder here."""
        return self.server_origin == FOLDER_ORIGIN


class ClientSettings(BaseSettings):
    """What the environment says about the server."""

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="ignore", frozen=True)

    server: str | None = None
    api_key: SecretStr | None = None
    context: str | None = None
    contexts_file: Path = Field(default_factory=lambda: Path.home() / ".config" / "towpath" / "contexts.json")

    def target(
        self, server: str | None = None, api_key: str | None = None, *, context: str | None = None
    ) -> ClientTarget:
        """Return the platform to ask; what is given is what the code or the command line says.

        Raises ProblemError where a context is named that there isn't, or their file can't be trusted.
        """
        found = self._platform(server, context)
        if api_key is not None:
            return replace(found, api_key=api_key, api_key_origin="given")
        if self.api_key is not None and context is None and found.api_key is None:
            return replace(found, api_key=self.api_key.get_secret_value(), api_key_origin="TOWPATH_API_KEY")
        return found

    def _platform(self, server: str | None, context: str | None) -> ClientTarget:
        if server is not None and context is not None:
            raise ProblemError(problem("request_invalid", "a server and a context are both given: give one of them"))
        if server is not None:
            return ClientTarget(server=server, server_origin="given")
        if context is None and self.server is not None:
            return ClientTarget(server=self.server, server_origin="TOWPATH_SERVER")
        held = ContextFile(self.contexts_file).read()
        name = context or self.context or held.selected
        if name:
            chosen = held.named(name)
            origin = f"context {name}"
            key_origin = origin if chosen.api_key else ""
            return ClientTarget(
                server=chosen.server,
                server_origin=origin,
                api_key=chosen.api_key,
                api_key_origin=key_origin,
                context=name,
                context_origin="given" if context else "TOWPATH_CONTEXT" if self.context else "selected",
            )
        running = running_server_url()
        if running is not None:
            return ClientTarget(server=running, server_origin=FOLDER_ORIGIN)
        return ClientTarget(server=DEFAULT_SERVER, server_origin=DEFAULT_ORIGIN)


def shown_key_origin(target: ClientTarget) -> str:
    """Return where the key of *target* comes from, as whoever gave it would look for it."""
    if target.api_key_origin != "given":
        return target.api_key_origin
    return "--api-key" if is_of_a_command() else "api_key="


def refused_address(target: ClientTarget) -> RefusedError:
    """Return the refusal of an address that is none: nobody was asked, and the one place that has it is named."""
    origin, remedy = target.server_origin, "Correct it, and try again."
    if origin == "given" and is_of_a_command():
        origin, remedy = "--server", "Correct the command and run it again."
    elif origin == "given":
        place = calling_place()
        origin = "server" if place is None else f"{place}: server"
    else:
        remedy = f"Correct {origin}, and try again."
    return RefusedError(problem("request_invalid", f"{origin}: {address_fault(target.server)}", remedy=remedy))

"""The options that every command takes, and where the platform is that it talks to.

What is given on the command line wins over the environment, the environment over the context that is selected, that
over a platform that runs on `./.towpath`, and that over the default address.
"""

import contextlib
import shlex
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from cyclopts import Group, Parameter

from towpath.cli.shared.output import Format, OutputPrinter, print_notice
from towpath.cli.shared.progress import progress_line

if TYPE_CHECKING:
    from towpath.client.client import Client
    from towpath.client.settings import ClientTarget

STATE = Path(".towpath")
REACH_TIMEOUT_S = 3.0
START_TIMEOUT_S = 20.0
"""How long a command waits for the platform on this folder, while that starts."""
START_POLL_S = 0.1
_NOT_HERE = frozenset({"server_unreachable", "unauthenticated"})
"""What is said where no platform runs on this folder: nothing listens at the default address, or another platform."""

_GROUP = Group("Common options", sort_key=90)

JsonOutput = Annotated[Literal["json"] | None, Parameter(name=("--output", "-o"))]
"""`-o json` of commands that write for people, unless they are asked for JSON."""


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How a command prints what it found."""

    output: Annotated[Format | None, Parameter(name=("--output", "-o"))] = None
    "How to print; a table on a terminal, else json."

    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False
    "The same as -o json."

    def out(self) -> OutputPrinter:
        """Return the printer."""
        return OutputPrinter("json" if self.as_json and self.output is None else self.output)


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, kw_only=True)
class PlatformOptions:
    """Which platform a command asks."""

    server: str | None = None
    "Address of the platform; else TOWPATH_SERVER, the selected context, the one running on ./.towpath, 127.0.0.1:8787."

    api_key: str | None = None
    "Key to ask with; else TOWPATH_API_KEY, or that of the context; the platform on ./.towpath needs none."

    context: str | None = None
    "Ask the platform of this context; see towpath context list."

    def target(self) -> "ClientTarget":
        """Return the platform to ask, and the key; raises `server_unreachable` where that here has no address yet."""
        from towpath.client.settings import ClientSettings, starting_platform, still_starting

        found = ClientSettings().target(self.server, self.api_key, context=self.context)
        if found.is_by_place and not found.is_of_folder and (pid := starting_platform()) is not None:
            raise still_starting(pid)  # at the default address another platform may answer
        return found

    def address(self) -> str:
        """Return the address to ask."""
        return self.target().server


@Parameter(name="*", group=_GROUP)
@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(PlatformOptions, OutputOptions):
    """How a command prints, and which platform it asks."""

    @property
    def is_plain(self) -> bool:
        """Whether a text goes out as it is, also into a pipe: unless somebody asks for another form."""
        return not self.as_json and self.output in (None, "table")

    @contextlib.asynccontextmanager
    async def connect(self, *, at_once: bool = False) -> "AsyncIterator[Client]":
        """Connect a client to the platform; raises `server_unreachable` at once where no server listens.

        The client itself retries for long: right for a program, too slow for a person who forgot `towpath up`. It
        does not with *at_once*. One that still starts on ./.towpath is waited for.
        """
        from towpath.cli.shared.command_client import CommandClient
        from towpath.client.contexts import shown_address

        if not at_once:
            await self._wait_for_start()
        target = self.target()
        with progress_line(f"Waiting for {shown_address(target.server)}", shown=self.out().for_people) as line:
            client = CommandClient(target, line, at_once=at_once)  # raises for what is no address
            with _naming_projects_nearby(target):
                with line.working():
                    await _reach(target.server)
                async with client:
                    yield client

    async def _wait_for_start(self) -> None:
        from towpath.client.settings import ClientSettings, starting_platform, wait_for_start

        pid = starting_platform()
        if pid is None or not ClientSettings().target(self.server, self.api_key, context=self.context).is_by_place:
            return
        print_notice(f"the platform on ./{STATE} (pid {pid}) is still starting; waiting for it")
        await wait_for_start(START_TIMEOUT_S, START_POLL_S)


@contextlib.contextmanager
def _naming_projects_nearby(target: "ClientTarget") -> Iterator[None]:
    """Where nothing answers at the default address, or nothing of this folder, say where a project lies instead.

    A key that is refused may be good for such a platform, but is told by itself.
    """
    from towpath_contracts.problems.registry import ProblemError

    try:
        yield
    except ProblemError as error:
        found = error.problem
        if found.code == "unauthenticated" and target.api_key is not None:
            remedy = remedy_of_refused_key(target, found.remedy)
        elif found.code in _NOT_HERE and target.is_by_place and not target.is_of_folder:
            from towpath.project.nearby_projects import remedy_nearby  # reads folders: only where nothing answers

            remedy = remedy_nearby(Path())
        else:
            raise
        if remedy in ("", found.remedy):
            raise
        from towpath.errors import error_from

        raise error_from(found.model_copy(update={"remedy": remedy})) from error


def remedy_of_refused_key(target: "ClientTarget", told: str) -> str:
    """Return what to do about a key that *target* refuses, in place of what it *told* programs that speak HTTP."""
    from towpath.client.settings import local_token
    from towpath_contracts.problems.registry import REGISTRY

    if target.api_key_origin == "TOWPATH_API_KEY" and local_token(target.server) is not None:
        return f"Unset TOWPATH_API_KEY: the platform on ./{STATE} needs no key here."
    if told != REGISTRY["unauthenticated"].remedy:
        return told
    return f"{_another_key(target)}; who runs it makes one: towpath keys create."


def _another_key(target: "ClientTarget") -> str:
    """Return how *target* is asked with another key: that of a context, or that is given, goes before the variable."""
    if target.api_key_origin == "given":
        return "Give --api-key a key of this gateway"
    if target.api_key_origin.startswith("context ") or target.context_origin == "given":
        kept = f"towpath context add {target.context} --server {_typed_address(target.server)} --key-file FILE"
        return f"Keep a key of this gateway in the context: {kept}"
    return "Set TOWPATH_API_KEY to a key of this gateway"


def _typed_address(address: str) -> str:
    """Return *address* as a shell takes it; with a password in it a word for it."""
    from towpath.client.contexts import shown_address

    return shlex.quote(address) if shown_address(address) == address else "ADDRESS"


async def _reach(address: str) -> None:
    import asyncio

    from towpath.client.contexts import shown_address
    from towpath_contracts.problems.registry import ProblemError, problem

    parts = urlsplit(address)
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 4222)
        async with asyncio.timeout(REACH_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname or "", port)
        writer.close()
    except (OSError, TimeoutError, ValueError) as error:  # ValueError: no name of a host
        detail = f"{shown_address(address)}: {_why_unreached(error)}"
        raise ProblemError(problem("server_unreachable", detail)) from error


def _why_unreached(error: Exception) -> str:
    if "Connect call failed" in str(error):  # as asyncio says it, of one address or of several
        return "nothing listens there"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "no answer"


OUTPUT_OPTIONS = OutputOptions()
PLATFORM_OPTIONS = PlatformOptions()
CONNECTION_OPTIONS = ConnectionOptions()
"""What a command has when none of these options is given."""


def examples(*lines: str) -> str:
    """Return the end of a command's help: how it is used."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines)))

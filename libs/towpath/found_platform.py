"""`find_platform`: the address and the key of the platform here, for programs that ask it with a client of others.

OpenAI's client, one of MCP or of A2A is given what `Client()` would use itself, found in the same places; none of it is
read from files by hand, where a platform that was killed still has its old address.
"""

from dataclasses import dataclass
from pathlib import Path

from towpath.client.contexts import BROKER_SCHEMES, is_address, shown_address
from towpath.client.settings import (
    DATA_FOLDER,
    DEFAULT_ORIGIN,
    ClientSettings,
    local_token,
    refused_address,
    starting_platform,
    still_starting,
)
from towpath.errors import RefusedError, UnavailableError
from towpath.project.nearby_projects import remedy_nearby
from towpath_contracts.problems.registry import problem


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FoundPlatform:
    """Where the platform's gateway answers, and the key to ask it with; empty where none is known."""

    url: str
    api_key: str = ""

    def __repr__(self) -> str:
        """Show the address without a password that it may have."""
        return f"FoundPlatform(url={shown_address(self.url)!r})"

    @property
    def headers(self) -> dict[str, str]:
        """The header with the key, for a client of HTTP; none where no key is known."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def find_platform() -> FoundPlatform:
    """Return the address and the key of the platform that `Client()` would ask.

    That is the one of TOWPATH_SERVER, else of the selected context, else the `towpath up` on ./.towpath, else with a
    TOWPATH_API_KEY the one that listens on this machine's usual port. Raises
    UnavailableError `server_unreachable` where none is named and none runs here, or while it still starts, and
    RefusedError for the address of a broker: clients of others ask the gateway.
    """
    target = ClientSettings().target()
    if target.is_by_place and not target.is_of_folder and (pid := starting_platform()) is not None:
        raise still_starting(pid)
    if target.server_origin == DEFAULT_ORIGIN and target.api_key is None:
        raise _none_here()
    if not is_address(target.server):
        raise refused_address(target)
    if target.server.startswith(BROKER_SCHEMES):
        detail = f"{target.server_origin}: {shown_address(target.server)!r} is a broker, and a gateway is asked here"
        remedy = f"Name the gateway in {target.server_origin}: http://…"
        raise RefusedError(problem("request_invalid", detail, remedy=remedy))
    return FoundPlatform(url=target.server.rstrip("/"), api_key=target.api_key or local_token(target.server) or "")


def _none_here() -> UnavailableError:
    detail = f"no platform is named, and none of yours runs on ./{DATA_FOLDER}"
    start = "Start it: towpath up, or name another: TOWPATH_SERVER and TOWPATH_API_KEY."
    return UnavailableError(problem("server_unreachable", detail, remedy=remedy_nearby(Path()) or start))

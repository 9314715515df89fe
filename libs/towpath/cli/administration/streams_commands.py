"""`towpath streams`: what the broker must have before the services can use it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="streams",
    help="Declare the broker's streams and consumers, and who may use them.",
    help_epilogue=examples("towpath streams ensure", "towpath streams authority > deploy/authority.conf"),
)

CONNECT_TIMEOUT_S = 5


@app.command(help_epilogue=examples("towpath streams ensure", "towpath streams ensure --nats-url nats://host:4222"))
async def ensure(
    *,
    nats_url: Annotated[str, Parameter(env_var="TOWPATH_NATS_URL")] = "nats://127.0.0.1:4222",
    nats_user: Annotated[str | None, Parameter(env_var="TOWPATH_NATS_USER")] = None,
    nats_password: Annotated[str | None, Parameter(env_var="TOWPATH_NATS_PASSWORD", show_default=False)] = None,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Create or update every stream and consumer; nothing is deleted.

    With an nkey, credentials or TLS: TOWPATH_NATS_NKEY_FILE, _CREDS_FILE, _TLS_CA, _TLS_CERT, _TLS_KEY.

    Args:
        nats_url: The broker, or the nodes of its cluster with commas between them.
        nats_user: The user that may declare streams: deploy.
        nats_password: Its password.
    """
    from nats.errors import Error, NoServersError

    from towpath_contracts.streams import CONSUMERS, STREAMS
    from towpath_fabric.nats.broker_owner import connect
    from towpath_fabric.nats.streams import ensure_streams

    servers, owner, login = _login(nats_url, nats_user, nats_password)
    with printed.out().progress("Declaring the streams"):
        try:
            connection = await connect(
                servers,
                owner=owner,
                **login,
                inbox_prefix=b"_INBOX_deploy",
                connect_timeout=CONNECT_TIMEOUT_S,
                allow_reconnect=False,
            )
        except (OSError, TimeoutError, NoServersError, Error) as error:
            detail = f"NATS at {_without_login(servers)}: {type(error).__name__} {error}".strip()
            raise ProblemError(
                problem("unavailable", detail, remedy="Check the address, the user and the server.")
            ) from error
        try:
            await ensure_streams(connection)
        finally:
            await connection.close()
    rows = [{"stream": s.name, "consumers": [c.durable for c in CONSUMERS if c.stream == s.name]} for s in STREAMS]
    columns = (Column("stream", "stream"), Column("consumers", lambda row: ", ".join(row["consumers"])))
    printed.out().rows("streams", rows, columns, empty="There are none.")


def _without_login(servers: Iterable[str]) -> str:
    """Return addresses without the users and the passwords that they may hold."""
    parts = (address.rpartition("://") for address in servers)
    return ", ".join(f"{scheme}{mark}{rest.rpartition('@')[2]}" for scheme, mark, rest in parts)


def _login(nats_url: str, user: str | None, password: str | None) -> tuple[tuple[str, ...], int | None, dict[str, Any]]:
    """Return the addresses, the broker's owner, and the options of `nats.connect`.

    Raises ProblemError for a login or an address that can't be one.
    """
    from pydantic import SecretStr, ValidationError

    from towpath_contracts.problems.input_faults import details_of, summary_of
    from towpath_fabric.nats.login import LoginFileError, connect_options
    from towpath_fabric.settings import BrokerSettings

    try:
        secret = None if password is None else SecretStr(password)
        settings = BrokerSettings(nats_url=nats_url, nats_user=user, nats_password=secret)
        return settings.nats_servers, settings.nats_owner, connect_options(settings)
    except ValidationError as error:
        raise ProblemError(problem("request_invalid", summary_of(details_of(error)))) from error
    except LoginFileError as error:
        raise ProblemError(problem("request_invalid", str(error))) from error


@app.command(
    help_epilogue=examples(
        "towpath streams authority > deploy/authority.conf", "towpath streams authority | diff deploy/authority.conf -"
    )
)
def authority(*callers: str, credentials: Path = Path("deploy/credentials.yaml")) -> None:
    """Print the accounts and users of the broker and their rights, for nats-server to include.

    Passwords are not in it: the server reads them from its environment, NATS_PASSWORD_<USER>. Who has an nkey in the
    list of credentials has no password.

    Args:
        callers: More programs that submit tasks over NATS; each becomes a user of that name.
        credentials: The list of workers and of such programs.
    """
    from towpath.cli.administration.broker_user_list import authority_configuration, load

    listed = load(credentials)
    every = listed.model_copy(update={"clients": tuple(dict.fromkeys((*listed.clients, *callers)))})
    print(authority_configuration(every.users(), every.nkeys), end="")

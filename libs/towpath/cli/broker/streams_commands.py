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

TOO_FEW_NODES = (10005, 10074)
"""What the broker answers where a stream is to have more copies than there are nodes, or there is no cluster."""


@app.command(
    help_epilogue=examples(
        "towpath streams ensure",
        "towpath streams ensure --replicas 3 --nats-url nats://one:4222,nats://two:4222,nats://three:4222",
    )
)
async def ensure(
    *,
    nats_url: Annotated[str, Parameter(env_var="TOWPATH_NATS_URL")] = "nats://127.0.0.1:4222",
    nats_user: Annotated[str | None, Parameter(env_var="TOWPATH_NATS_USER")] = None,
    nats_password: Annotated[str | None, Parameter(env_var="TOWPATH_NATS_PASSWORD", show_default=False)] = None,
    replicas: Annotated[int | None, Parameter(env_var="TOWPATH_STREAM_REPLICAS")] = None,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Create every stream and consumer that is missing, update what differs, and say what that was; nothing is deleted.

    What an operator set beside the declaration stays, and so does the number of copies, unless one is given.

    With an nkey, credentials or TLS: TOWPATH_NATS_NKEY_FILE, _CREDS_FILE, _TLS_CA, _TLS_CERT, _TLS_KEY.

    Args:
        nats_url: The broker, or the nodes of its cluster with commas between them.
        nats_user: The user that may declare streams: deploy.
        nats_password: Its password.
        replicas: How many nodes of the cluster keep each stream: 1, 3 or 5. Without it a new stream has one copy.
    """
    from nats.errors import Error, NoServersError
    from nats.js.errors import APIError

    from towpath_fabric.nats.broker_owner import connect
    from towpath_fabric.nats.stream_declaration import declare_streams

    servers, owner, login = _login(nats_url, nats_user, nats_password, replicas)
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
            declared = await declare_streams(connection, replicas=replicas)
        except APIError as error:
            if error.err_code not in TOO_FEW_NODES:
                raise
            detail = f"the broker has no {replicas} nodes for {replicas} copies of a stream: {error.description}"
            remedy = "Start the nodes that are missing, name one in TOWPATH_NATS_URL, or take fewer copies."
            raise ProblemError(problem("unavailable", detail, remedy=remedy)) from error
        except (TimeoutError, Error) as error:  # such as a node that has found no majority of its cluster
            detail = f"the broker at {_without_login(servers)} declares no streams: {error}"
            remedy = (
                "Where it is a cluster, start more than half of its nodes and look whether they find each other: their "
                "logs, and their routes. Then run this again."
            )
            raise ProblemError(problem("unavailable", detail, remedy=remedy)) from error
        finally:
            await connection.close()
    rows = [
        {"stream": one.name, "replicas": one.replicas, "consumers": list(one.consumers), "changes": list(one.changes)}
        for one in declared
    ]
    columns = (
        Column("stream", "stream"),
        Column("replicas", "replicas"),
        Column("consumers", lambda row: ", ".join(row["consumers"])),
        Column("changes", lambda row: ", ".join(row["changes"])),
    )
    printed.out().rows("streams", rows, columns, empty="There are none.")


def _without_login(servers: Iterable[str]) -> str:
    """Return addresses without the users and the passwords that they may hold."""
    parts = (address.rpartition("://") for address in servers)
    return ", ".join(f"{scheme}{mark}{rest.rpartition('@')[2]}" for scheme, mark, rest in parts)


def _login(
    nats_url: str, user: str | None, password: str | None, replicas: int | None
) -> tuple[tuple[str, ...], int | None, dict[str, Any]]:
    """Return the addresses, the broker's owner, and the options of `nats.connect`.

    Raises ProblemError for a login or an address that can't be one.
    """
    from pydantic import SecretStr, ValidationError

    from towpath_contracts.problems.input_faults import details_of, summary_of
    from towpath_fabric.nats.login import LoginFileError, connect_options
    from towpath_fabric.settings import BrokerSettings

    try:
        secret = None if password is None else SecretStr(password)
        settings = BrokerSettings(
            nats_url=nats_url, nats_user=user, nats_password=secret, stream_replicas=1 if replicas is None else replicas
        )
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
    from towpath.cli.broker.broker_user_list import authority_configuration, load

    listed = load(credentials)
    every = listed.model_copy(update={"clients": tuple(dict.fromkeys((*listed.clients, *callers)))})
    print(authority_configuration(every.users(), every.nkeys), end="")

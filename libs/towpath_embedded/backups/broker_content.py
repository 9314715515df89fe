"""Whether the broker that the environment names holds anything, asked as `deploy`, who declares its streams."""

from nats.errors import Error
from nats.js.errors import Error as JetStreamError
from pydantic import ValidationError

from towpath_fabric.nats.broker_owner import connect
from towpath_fabric.nats.login import LoginFileError, connect_options
from towpath_fabric.settings import BrokerSettings

CONNECT_TIMEOUT_S = 3


async def is_broker_empty() -> bool:
    """Return whether no stream of the broker ever had a message; False where none is named, or it does not say."""
    try:
        settings = BrokerSettings()
        if "nats_url" not in settings.model_fields_set:
            return False
        connection = await connect(
            settings.nats_servers,
            owner=settings.nats_owner,
            **connect_options(settings),
            inbox_prefix=b"_INBOX_deploy",
            connect_timeout=CONNECT_TIMEOUT_S,
            allow_reconnect=False,
            error_cb=_ignore,
        )
    except (ValidationError, LoginFileError, OSError, Error):
        return False
    try:
        # Messages that were taken out again are as bad: the broker goes on to drop new ones that have their ids.
        return all(stream.state.last_seq == 0 for stream in await connection.jetstream().streams_info())
    except (OSError, Error, JetStreamError):
        return False
    finally:
        await connection.close()


async def _ignore(_error: Exception) -> None:
    """Leave it to the caller: nats-py would log it with its stack."""

"""What `towpath doctor` finds out about the broker and the database that the environment names, as a service would.

On a machine of a deployment these are the variables of a service: whether it would start there is asked without one.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.output import Column, OutputPrinter
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath_fabric.settings import Settings

CONNECT_TIMEOUT_S = 3
_LETS_IN = "lets this login in"
_LET_IN = "let this login in"


class DoctorCheck(NamedTuple):
    """One check: `good` is None where it is only worth knowing."""

    check: str
    good: bool | None
    detail: str
    remedy: str = ""


def print_checks(out: OutputPrinter, found: Sequence[DoctorCheck]) -> int:
    """Print what was *found*; returns the exit code, which is 1 where something is wrong."""
    marks = {True: "✓", False: "✕", None: "·"}
    columns = (
        Column("", lambda row: marks[row["good"]]),
        Column("check", "check"),
        Column("found", "detail", is_whole=True),
        Column("remedy", "remedy", is_whole=True),
    )
    out.rows("checks", [one._asdict() for one in found], columns, empty="")
    return RUN_FAILED if any(one.good is False for one in found) else OK


async def check_servers() -> list[DoctorCheck]:
    """Try the broker of TOWPATH_NATS_URL and the database of TOWPATH_DATABASE_URL, each where it is set."""
    from pydantic import ValidationError

    from towpath_fabric.settings import Settings, describe_wrong_settings

    try:
        settings = Settings.load()
    except ValidationError as error:
        found = problem("settings_invalid", describe_wrong_settings(error))
        return [DoctorCheck("settings", False, f"{found.code}: {found.detail}", found.remedy)]
    checks = []
    if "nats_url" in settings.model_fields_set:
        checks.append(await _check_broker(settings))
    if settings.database_url is not None:
        database = await _check_database(settings.dsn())
        checks.append(database)
        if settings.read_database_hosts and database.good is not False:
            checks += await _check_replicas(settings)
    return checks


async def _check_broker(settings: "Settings") -> DoctorCheck:
    """Try each node of the address by itself: a client is content with the first one that answers."""
    nodes = settings.nats_servers
    found = await asyncio.gather(*(_check_node(settings, node) for node in nodes))
    failing = [(node, one) for node, one in zip(nodes, found, strict=True) if not one.good]
    if not failing:
        return found[0] if len(nodes) == 1 else found[0]._replace(detail=f"each of its {len(nodes)} nodes {_LETS_IN}")
    if len(failing) == len(nodes):
        return failing[0][1]
    answering = len(nodes) - len(failing)
    places = (f"{urlsplit(node).netloc.rpartition('@')[2]}: {one.detail}" for node, one in failing)
    told = f"{answering} of {len(nodes)} nodes {_LETS_IN if answering == 1 else _LET_IN}; {'; '.join(places)}"
    return DoctorCheck("broker", None, told, "See to the nodes that do not; services use the others meanwhile.")


async def _check_node(settings: "Settings", address: str) -> DoctorCheck:
    from nats.errors import Error

    from towpath_fabric.nats.broker_errors import BROKER_REMEDY, connect_refusal
    from towpath_fabric.nats.broker_owner import connect
    from towpath_fabric.nats.login import LoginFileError, connect_options
    from towpath_fabric.outages.outage import reason_of

    met: list[Exception] = []

    async def note(error: Exception) -> None:
        met.append(error)

    try:
        connection = await connect(
            address,
            owner=settings.nats_owner,
            **connect_options(settings),
            connect_timeout=CONNECT_TIMEOUT_S,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0.1,
            error_cb=note,
        )
    except LoginFileError as error:
        found = problem("settings_invalid", str(error))
        return DoctorCheck("broker", False, f"{found.code}: {found.detail}", found.remedy)
    except (OSError, Error) as error:
        refused = connect_refusal(settings, error)
        if refused is None:
            reason = reason_of(met[-1] if met else error)
            return DoctorCheck("broker", False, f"no broker answers: {reason}", BROKER_REMEDY)
        found = refused.problem
        return DoctorCheck("broker", False, f"{found.code}: {found.detail}", found.remedy)
    await connection.close()
    return DoctorCheck("broker", True, _LETS_IN)


async def _check_database(dsn: str) -> DoctorCheck:
    try:
        from towpath_fabric.postgres.migrations import check_database
    except ModuleNotFoundError:
        return DoctorCheck("database", None, "not asked: asyncpg is not installed here")
    try:
        newer = await check_database(dsn)
    except ProblemError as error:
        found = error.problem
        return DoctorCheck("database", False, f"{found.code}: {found.detail}", found.remedy)
    if newer:
        detail = f"newer than this version, which does not know {', '.join(newer)}"
        return DoctorCheck("database", None, detail, "Go on with the upgrade: services of both versions may run.")
    return DoctorCheck("database", True, "lets this login in, and is migrated")


async def _check_replicas(settings: "Settings") -> list[DoctorCheck]:
    try:
        from towpath_fabric.postgres.replica_check import check_replicas
    except ModuleNotFoundError:
        return []
    found = await check_replicas(settings.dsn(), settings.read_database_hosts, settings.read_max_lag_s)
    return [DoctorCheck(f"read replica {one.host}", one.is_read, one.detail, one.remedy) for one in found]

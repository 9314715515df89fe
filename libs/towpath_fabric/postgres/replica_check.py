"""Whether each replica that lists and history are to be read from would be read now, for whoever asks once."""

import asyncio
from typing import Any, NamedTuple

import asyncpg

from towpath_fabric.clock import monotonic
from towpath_fabric.outages.outage import reason_of
from towpath_fabric.postgres.database_hosts import DatabaseHosts
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.read_replica import ANSWERS_S, COMPARED_EVERY_S, REPLAYED, WRITTEN, at_hosts

FOLLOWING_REMEDY = "See that the replica gets the write-ahead log of its primary. Until then the primary is read."
STANDBY_REMEDY = "Name a standby in TOWPATH_READ_DATABASE_HOSTS. Until then the primary is read."
AWAY_REMEDY = (
    "Start the replica, or correct its address in TOWPATH_READ_DATABASE_HOSTS. Until then the primary is read."
)

TAKES_WRITES = "takes writes: it is read once it is a standby"


class ReplicaCheck(NamedTuple):
    """What was found of one host: `is_read` is None where it lags, or takes writes beside another one that does not."""

    host: str
    is_read: bool | None
    detail: str
    remedy: str = ""


async def check_replicas(dsn: str, hosts: str, max_lag_s: float) -> list[ReplicaCheck]:
    """Ask each of *hosts* whether it replays, within *max_lag_s*, what the primary at *dsn* has written by now."""
    names = hosts.split(",")
    try:
        async with asyncio.timeout(ANSWERS_S):
            primary = await DatabaseHosts(dsn).connect()
            try:
                written: int = await primary.fetchval(WRITTEN)
            finally:
                primary.terminate()
    except DATABASE_DOWN as error:
        return [ReplicaCheck(name, None, f"was not asked: the primary says {reason_of(error)}") for name in names]
    found = await asyncio.gather(*(_check(name, at_hosts(dsn, name), written, max_lag_s) for name in names))
    if all(one.detail == TAKES_WRITES for one in found):
        return [one._replace(is_read=False, remedy=STANDBY_REMEDY) for one in found]
    return list(found)


async def _check(host: str, dsn: str, written: int, max_lag_s: float) -> ReplicaCheck:
    try:
        async with asyncio.timeout(ANSWERS_S + max_lag_s):
            replica = await asyncpg.connect(dsn, timeout=ANSWERS_S)
            try:
                return await _follow(host, replica, written, max_lag_s)
            finally:
                replica.terminate()
    except asyncpg.TargetServerAttributeNotMatched:
        return ReplicaCheck(host, None, TAKES_WRITES)
    except DATABASE_DOWN as error:
        return ReplicaCheck(host, False, f"can't be read: {reason_of(error)}", AWAY_REMEDY)


async def _follow(host: str, replica: Any, written: int, max_lag_s: float) -> ReplicaCheck:
    until = monotonic() + max_lag_s
    while (behind := written - (await replica.fetchrow(REPLAYED))["position"]) > 0:
        if monotonic() > until:
            detail = f"lags: {behind} bytes of the log were not replayed within {max_lag_s:g} s"
            return ReplicaCheck(host, None, detail, FOLLOWING_REMEDY)
        await asyncio.sleep(min(COMPARED_EVERY_S, max_lag_s))
    return ReplicaCheck(host, True, f"has replayed what was written, within {max_lag_s:g} s")

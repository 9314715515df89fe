"""Postgres's time, which is the platform's, and how far this machine's clock is from it."""

from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry

from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.clock_check import ClockCheck
from towpath_fabric.telemetry.logs import Logger


def clock_check(pool: Any, registry: CollectorRegistry, log: Logger) -> ClockCheck:
    """Return what compares this machine's clock with that of *pool*'s server."""

    async def ask() -> tuple[datetime, float]:
        async with pool.acquire() as connection:  # first: waiting for one is no part of the answer's way
            asked = monotonic()
            return await connection.fetchval("SELECT clock_timestamp()"), asked

    return ClockCheck("postgres", ask, DATABASE_DOWN, registry, log)

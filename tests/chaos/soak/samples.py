"""What every part of a platform uses, looked at again and again: memory, files, threads, processor time, disk, queues.

The memory to judge is the anonymous one (`RssAnon`): a page that a forked process shares with the one that it was
forked from counts from the start, so that copying it on a write changes nothing, as it would change the PSS.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import asyncpg
import nats
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from tests.chaos.load.findings import process_tree

from towpath_embedded.chaos.run_watcher import DatabaseReader
from towpath_embedded.platform import Platform
from towpath_fabric.clock import monotonic

KIB: Final = 1024
MIB: Final = 1024 * 1024
TICK: Final = os.sysconf("SC_CLK_TCK")
HARNESS: Final = "harness"
"""The process that submits, watches and starts the others, with the one that forks them."""

_TABLES: Final = (
    "SELECT n.nspname || '.' || coalesce(p.relname, c.relname) AS name,"
    " pg_total_relation_size(c.oid) AS bytes, coalesce(s.n_live_tup, 0) AS rows, coalesce(s.n_dead_tup, 0) AS dead"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
    " LEFT JOIN pg_class p ON p.oid = i.inhparent"
    " WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
)
_DATABASE: Final = (
    "SELECT pg_database_size(current_database()) AS bytes,"
    " (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 AS wal,"
    " (SELECT sum(size)::float8 FROM pg_ls_waldir()) AS wal_files,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions,"
    " (SELECT count(*) FROM runs.dead_letter) AS dead_letters,"
    " (SELECT count(*) FROM runs.gate WHERE status = 'pending') AS gates"
)


def process_use(pids: Sequence[int]) -> dict[str, float]:
    """Return what the processes *pids* use together; those that ended meanwhile count nothing."""
    total: Counter[str] = Counter()
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, KeyError):  # it has just ended, and has no memory any more
            total.update(_use_of(Path("/proc") / str(pid)))
    return {name: round(value, 3) for name, value in total.items()}


def _use_of(process: Path) -> dict[str, float]:
    lines = (line.partition(":") for line in (process / "status").read_text().splitlines())
    status = {name: value.split() for name, _, value in lines}
    times = (process / "stat").read_text().rpartition(")")[2].split()
    found = {
        "processes": 1.0,
        "rss_mib": int(status["VmRSS"][0]) / KIB,
        "anon_mib": int(status["RssAnon"][0]) / KIB,
        "threads": float(status["Threads"][0]),
        "cpu_s": (int(times[11]) + int(times[12])) / TICK,
        "fds": float(len(list((process / "fd").iterdir()))),
    }
    with contextlib.suppress(OSError, IndexError):  # root alone may see it
        found["pss_mib"] = int((process / "smaps_rollup").read_text().partition("\nPss:")[2].split()[0]) / KIB
    return found


class ResourceSampler:
    """Takes samples of *platform* and appends each to *log* as a line of JSON."""

    def __init__(self, platform: Platform, log: TextIO) -> None:
        self._platform = platform
        self._log = log
        self._reader = DatabaseReader(platform.dsn())
        self._nc: NatsClient | None = None
        self._began = monotonic()
        self.samples: list[dict[str, Any]] = []

    def note(self, **what: Any) -> None:
        """Append a line that is no sample: a kill, a phase."""
        self._write({"at": round(monotonic() - self._began, 2), **what})

    async def sample(self, **work: float) -> None:
        """Look at everything once; what is down is left out. *work* is how far the load is."""
        found: dict[str, Any] = {"at": round(monotonic() - self._began, 2), "work": work, "services": {}, "pids": {}}
        for name, state in self._platform.processes.items():
            if state.pid is not None:
                found["services"][name] = process_use(process_tree(state.pid))
                found["pids"][name] = state.pid
        found["services"][HARNESS], found["pids"][HARNESS] = process_use([os.getpid()]), os.getpid()
        found |= await self._database() | await self._broker()
        self.samples.append(found)
        self._write(found)

    async def close(self) -> None:
        """Close the connections."""
        await self._reader.close()
        if self._nc is not None:
            await self._nc.close()

    async def _database(self) -> dict[str, Any]:
        try:
            whole, tables = await self._reader.rows(_DATABASE), await self._reader.rows(_TABLES)
        except asyncpg.PostgresError:  # a table went away between two looks
            return {}
        if not whole or tables is None:
            return {}
        sizes: dict[str, dict[str, int]] = {}
        for row in tables:
            into = sizes.setdefault(row["name"], {"bytes": 0, "rows": 0, "dead": 0})
            for name in into:
                into[name] += row[name]
        return {"database": {name: float(value or 0) for name, value in whole[0].items()}, "tables": sizes}

    async def _broker(self) -> dict[str, Any]:
        try:
            if self._nc is None:
                self._nc = await nats.connect(
                    self._platform.nats_url_of("deploy"),
                    inbox_prefix=b"_INBOX_deploy",
                    max_reconnect_attempts=-1,
                    connect_timeout=5,
                    error_cb=_ignore,
                )
            js = self._nc.jetstream(timeout=5)
            streams: dict[str, Any] = {}
            for one in await js.streams_info():
                name = one.config.name or ""
                consumers = await js.consumers_info(name)
                streams[name] = {
                    "messages": one.state.messages,
                    "bytes": one.state.bytes,
                    "consumers": len(consumers),
                    "unacknowledged": sum(each.num_ack_pending or 0 for each in consumers),
                    "redelivered": sum(_redelivered(each) for each in consumers),
                }
        except (OSError, TimeoutError, NatsError):
            return {}
        return {"streams": streams}

    def _write(self, line: dict[str, Any]) -> None:
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()


def _redelivered(consumer: Any) -> int:
    """Deliveries beyond the first, of a consumer that takes every message of its stream: each has its own number."""
    delivered = consumer.delivered
    return 0 if delivered is None else max(0, (delivered.consumer_seq or 0) - (delivered.stream_seq or 0))


async def _ignore(error: Exception) -> None:
    """The broker is killed on purpose."""

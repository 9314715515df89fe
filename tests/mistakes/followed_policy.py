"""Follows a policy file as the platform does, and shows what `towpath up` shows of it.

The file is that of a project of its own: the policy of the platform that lends its database stays as it is.
"""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import asyncpg
import structlog
from prometheus_client import CollectorRegistry

from towpath_embedded.console import UpConsole
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal.log_notices import policy_notice
from towpath_tas.app.policy.policies import PolicyFileWatcher, PolicyStore
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.metrics import TasMetrics

FILE = Path("policy.yaml")
PROJECT = "mistaken"


def save_in_turn(texts: Iterable[str], dsn: str) -> None:
    """Save each of *texts* as the policy file, and print what is said then."""
    asyncio.run(_save_in_turn(texts, dsn))


async def _save_in_turn(texts: Iterable[str], dsn: str) -> None:
    screen = UpConsole(as_json=False)
    refused = RefusedFiles(screen.refused, lambda _faults: None)

    def show(_logger: Any, _method: str, event: Any) -> NoReturn:
        line = json.dumps(event)
        if not refused.read_log_line("tas", line) and (notice := policy_notice("tas", line)) is not None:
            screen.notice(notice)
        raise structlog.DropEvent

    log = structlog.wrap_logger(None, processors=[show])
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())
        watcher = PolicyFileWatcher(policies, FILE, PROJECT, log)
        for text in texts:
            await asyncio.to_thread(FILE.write_text, text, "utf-8")
            await watcher.check()

"""`towpath doctor` at a gateway that wants a key."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.gateway.keyed_gateway import Servers, keyed_gateway


@pytest.fixture
def servers(postgres_dsn: str, template_database: str, nats_url: str, tmp_path: Path) -> Iterator[Servers]:
    with keyed_gateway(postgres_dsn, template_database, nats_url, tmp_path) as running:
        yield running


async def test_the_doctor_says_once_that_it_has_no_key(servers: Servers, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "towpath.cli", "doctor", "-o", "json"],
        env={**environment, "TOWPATH_SERVER": servers.gateway.url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    wrong = [one for one in json.loads(done.stdout)["checks"] if one["good"] is False]
    told = f"unauthenticated: {servers.gateway.url}: the request carries no key"
    assert [(one["check"], one["detail"]) for one in wrong] == [("key", told)]
    assert "TOWPATH_API_KEY" in wrong[0]["remedy"]

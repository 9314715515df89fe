"""Restate: its server with default settings, a service in a process of its own, a client over HTTP; no Postgres.

A step of W1 is two `ctx.run`. The service is this module again, with `--serve`.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from peers.command import Execute, arguments, main
from workload import answer, call, decision

HOST = "127.0.0.1"
READY_S = 60
UNLIMITED = 2**31 - 1
service = restate.Service("Agent")


async def decide(step: int) -> dict[str, Any]:
    """The model's decision."""
    return decision("echo", step)


async def act(decided: dict[str, Any]) -> dict[str, Any]:
    """The tool call."""
    return call(decided)


@service.handler()
async def loop(ctx: restate.Context, task: dict[str, Any]) -> str:
    """One run."""
    for step in range(task["steps"]):
        decided = await ctx.run_typed("decide", decide, step=step)
        await ctx.run_typed("act", act, decided=decided)
    return answer(task["run_id"], task["steps"])


async def serve_runs(port: int) -> None:
    """Execute runs until the process is stopped; limits that would open connections anew are taken off."""
    config = Config()
    config.bind = [f"{HOST}:{port}"]
    config.h2_max_concurrent_streams = config.keep_alive_max_requests = config.keep_alive_timeout = UNLIMITED
    await serve(restate.app([service], protocol="bidi"), config)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def server_environment(folder: str, ingress: int, admin: int, node: int) -> dict[str, str]:
    """Return the environment of the server: everything on this machine, everything else as it comes."""
    return {
        **os.environ,
        "RESTATE_BASE_DIR": folder,
        "RESTATE_NODE_NAME": "w1",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_ADDRESS": f"{HOST}:{node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://{HOST}:{node}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"{HOST}:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"{HOST}:{admin}",
    }


async def register(client: httpx.AsyncClient, admin: int, port: int) -> None:
    """Tell the server where the service is, as soon as both are up."""
    told, deployment = "nothing", {"uri": f"http://{HOST}:{port}", "force": True}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    reply = await client.post(f"http://{HOST}:{admin}/deployments", json=deployment)
                    if reply.is_success:
                        return
                    told = reply.text
                except httpx.TransportError as error:
                    told = repr(error)
                await asyncio.sleep(0.2)
    raise SystemExit(f"Restate was not ready within {READY_S} s: {told[:300]}")


@contextlib.asynccontextmanager
async def process(*words: str, environment: dict[str, str]) -> AsyncIterator[None]:
    """A process that is stopped at the end; what it prints goes to our standard error."""
    started = await asyncio.create_subprocess_exec(*words, env=environment, stdout=sys.stderr)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.send_signal(signal.SIGKILL)
        await started.wait()


@contextlib.asynccontextmanager
async def opened(options: argparse.Namespace) -> AsyncIterator[Execute]:
    """Start server and service, and register the one with the other."""
    ingress, admin, node, port = free_ports(4)
    folder = tempfile.mkdtemp(prefix="towpath-w1-")
    here = [sys.executable, "-m", "peers.restate", "--serve", str(port)]
    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
    try:
        async with (
            process(options.server, environment=server_environment(folder, ingress, admin, node)),
            process(*here, environment=dict(os.environ)),
            httpx.AsyncClient(timeout=600, limits=limits) as client,
        ):
            await register(client, admin, port)

            async def execute(run_id: str, steps: int) -> str:
                reply = await client.post(
                    f"http://{HOST}:{ingress}/Agent/loop",
                    json={"run_id": run_id, "steps": steps},
                    headers={"idempotency-key": run_id},
                )
                return str(reply.raise_for_status().json())

            yield execute
    finally:
        shutil.rmtree(Path(folder), ignore_errors=True)


if __name__ == "__main__":
    if port := arguments().serve:
        asyncio.run(serve_runs(port))
    else:
        main(opened, ("restate-sdk", "hypercorn", "httpx"))

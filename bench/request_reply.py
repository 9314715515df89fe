"""What one request/reply costs the process that answers it: a loop of our own, and FastStream in three manners.

- `loop`: a subscription of nats-py, the request parsed and the reply published by hand, as on the hot subjects.
- `raw`: a FastStream subscriber that takes the message as it came and parses it itself; nothing is injected.
- `typed`: a FastStream subscriber with typed parameters, its own decoder, and a middleware for problems.
- `bus`: what services use, `Bus.subscriber`: the same with a decoder that validates the JSON at once.

Each variant answers in a process of its own on one broker; they are asked in turns, so that a busy machine is busy for
all of them. CPU is the answering process's own, latency is the asker's.

`uv run python bench/request_reply.py [--requests 3000] [--rounds 5]` prints one JSON line.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import uvloop
from faststream import BaseMiddleware
from faststream.nats import NatsBroker, NatsMessage, NatsResponse
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.rpc import PROBLEM_HEADER
from towpath_contracts.runs.views import ActionDone, GetRun
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.nats.bus import MAX_CONCURRENT_REQUESTS, Bus
from towpath_fabric.nats.replies import problem_from_validation
from towpath_fabric.settings import Settings

VARIANTS = ("loop", "raw", "typed", "bus")
REQUEST = GetRun(project="p", run_id="00000000-0000-0000-0000-000000000001").model_dump_json().encode()
CONCURRENT = 32
"""Requests under way at the same time where CPU is measured; latency is measured with one."""
WARM_UP = 300


async def handle(request: GetRun) -> ActionDone:
    """Answer as a handler that finds everything in memory does."""
    return ActionDone(detail=str(request.run_id))


def answer_of(error: Exception) -> Message:
    """Return the problem that *error* is told as."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, ValidationError):
        return problem_from_validation(error, "GetRun")
    raise error


def headers_of(answer: Message) -> dict[str, str]:
    """Return the headers of *answer*."""
    return {PROBLEM_HEADER: answer.code} if isinstance(answer, Problem) else {}


class ProblemMiddleware(BaseMiddleware[Any, Any]):
    """Makes an answer of what a handler raises, and bytes of every answer."""

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        """Call the handler."""
        try:
            answer: Message = await call_next(msg)
        except Exception as error:  # noqa: BLE001 - whoever asks gets an answer
            answer = answer_of(error)
        return NatsResponse(answer.model_dump_json().encode(), headers=headers_of(answer))


async def undecoded(message: Any) -> Any:
    """Return the message as it is."""
    return message


async def serve_loop(nc: Client, subject: str) -> None:
    """Answer without a framework."""

    async def serve(message: Msg) -> None:
        answer: Message
        try:
            answer = await handle(GetRun.model_validate_json(message.data))
        except Exception as error:  # noqa: BLE001 - whoever asks gets an answer
            answer = answer_of(error)
        await nc.publish(message.reply, answer.model_dump_json().encode(), headers=headers_of(answer) or None)

    async def taken(message: Msg) -> None:
        asyncio.ensure_future(serve(message))  # noqa: RUF006 - nats-py awaits its callbacks one after another

    await nc.subscribe(subject, queue="bench", cb=taken)


def faststream_broker(variant: str, url: str, subject: str) -> NatsBroker:
    """Return a broker that answers on *subject* in the manner of *variant*."""
    if variant == "raw":
        broker = NatsBroker(url, logger=None, apply_types=False, decoder=undecoded)

        async def raw(message: NatsMessage) -> NatsResponse:
            answer: Message
            try:
                answer = await handle(GetRun.model_validate_json(message.body))
            except Exception as error:  # noqa: BLE001 - whoever asks gets an answer
                answer = answer_of(error)
            return NatsResponse(answer.model_dump_json().encode(), headers=headers_of(answer))

        broker.subscriber(subject, queue="bench", max_workers=MAX_CONCURRENT_REQUESTS)(raw)
        return broker
    broker = NatsBroker(url, logger=None, middlewares=(ProblemMiddleware,))
    broker.subscriber(subject, queue="bench", max_workers=MAX_CONCURRENT_REQUESTS)(handle)
    return broker


async def serve(variant: str, url: str) -> None:
    """Answer until the process is ended."""
    subject = f"bench.{variant}"
    if variant == "loop":
        nc = await nats.connect(url)
        await serve_loop(nc, subject)
    elif variant == "bus":
        bus = Bus("bench", Settings.load(nats_url=url))
        bus.subscriber(subject)(handle)
        nc = await bus.connect()
        await bus.broker.start()
    else:
        broker = faststream_broker(variant, url, subject)
        nc = await broker.connect()
        await broker.start()

    async def cpu(message: Msg) -> None:
        await nc.publish(message.reply, str(time.process_time()).encode())

    await nc.subscribe(f"cpu.{variant}", cb=cpu)
    await asyncio.Event().wait()


async def cpu_of(nc: Client, variant: str) -> float:
    """Return the CPU seconds of the process of *variant*."""
    return float((await nc.request(f"cpu.{variant}", b"", timeout=5)).data)


async def ask(nc: Client, variant: str, count: int, concurrent: int) -> list[float]:
    """Ask *count* times; return how long each took."""
    took: list[float] = []

    async def one() -> None:
        for _ in range(count // concurrent):
            began = time.perf_counter()
            await nc.request(f"bench.{variant}", REQUEST, timeout=10)
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(one() for _ in range(concurrent)))
    return took


async def measure(requests: int, rounds: int) -> dict[str, Any]:
    """Start the broker and the variants, ask them in turns, stop them."""
    cpu: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    latency: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    with temporary_folder() as folder:
        server = Nats(Path(folder) / "nats")
        await server.start()
        command = (sys.executable, __file__, "--url", server.url(), "--serve")
        processes = [await asyncio.create_subprocess_exec(*command, variant) for variant in VARIANTS]
        nc = await nats.connect(server.url())
        try:
            for variant in VARIANTS:
                while True:
                    try:
                        await cpu_of(nc, variant)
                        break
                    except nats.errors.Error:
                        await asyncio.sleep(0.2)
                await ask(nc, variant, WARM_UP, CONCURRENT)
            for _ in range(rounds):
                for variant in VARIANTS:
                    latency[variant] += await ask(nc, variant, requests // 10, 1)
                    before = await cpu_of(nc, variant)
                    count = len(await ask(nc, variant, requests, CONCURRENT))
                    cpu[variant].append((await cpu_of(nc, variant) - before) / count * 1e6)
        finally:
            for process in processes:
                process.terminate()
                await process.wait()
            await nc.close()
            await server.stop()
    return {
        variant: {
            "cpu_us": round(statistics.median(cpu[variant]), 1),
            "cpu_us_rounds": [round(value, 1) for value in cpu[variant]],
            "latency_p50_us": round(statistics.median(latency[variant]) * 1e6, 1),
        }
        for variant in VARIANTS
    }


def main() -> None:
    """Measure, or serve one variant in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", choices=VARIANTS)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve, options.url))
    else:
        print(json.dumps(uvloop.run(measure(options.requests, options.rounds))))


if __name__ == "__main__":
    main()

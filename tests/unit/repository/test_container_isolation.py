"""Containers of deploy/compose.yaml have no right and no way to each other that they don't need, without docker.

Each of deploy/open/*.yaml opens the one thing that it is for. Networks are compared as sets of who meets whom.
"""

import itertools
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.attacks.attack import Position
from tests.support.places import ROOT
from tests.unit.repository.test_deploy import DEPLOY, ONCE, ROLES, compose, image_environment

ISOLATED = "com.docker.network.bridge.gateway_mode_ipv4"
MASQUERADE = "com.docker.network.bridge.enable_ip_masquerade"
CORE = {"orchestrator", "decider", "tas", "watchdog", "log_writer", "gateway"}
DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def merged(*names: str) -> dict[str, Any]:
    """Return the compose file as docker merges others of deploy/ into it: maps by key, networks and ports added."""
    base = compose()
    for more in (yaml.safe_load((DEPLOY / name).read_text("utf-8")) for name in names):
        for service, given in more["services"].items():
            if (had := base["services"].get(service)) is None:
                base["services"][service] = given
                continue
            assert set(given) <= {"networks", "environment", "ports"}
            had["environment"] = {**had.get("environment", {}), **given.get("environment", {})}
            for part in ("networks", "ports"):
                had[part] = [*had.get(part, []), *given.get(part, [])]
        base["networks"] |= more.get("networks", {})
    return base


EVERYTHING: dict[str, dict[str, Any]] = merged("monitoring/observability.yaml")["services"]


def members(content: dict[str, Any]) -> dict[str, set[str]]:
    """Return who is in each network; what names none would be in a network that compose makes for all."""
    found: dict[str, set[str]] = {name: set() for name in content["networks"]}
    for name, service in content["services"].items():
        assert ("networks" in service) is not ("network_mode" in service), name
        assert service.get("network_mode", "none") == "none", name
        for network in service.get("networks", ()):
            found[network].add(name)
    return found


def meetings(content: dict[str, Any]) -> set[frozenset[str]]:
    """Return which pairs of containers share a network."""
    return {frozenset(pair) for found in members(content).values() for pair in itertools.combinations(found, 2)}


def can_leave(content: dict[str, Any]) -> set[str]:
    """Return who can open a connection to an address outside."""
    out: set[str] = set()
    for network, found in members(content).items():
        said = content["networks"][network] or {}
        if not said.get("internal") and said.get("driver_opts", {}).get(MASQUERADE) != "false":
            out |= found
    return out


def health_is_heard_beyond_the_container(content: dict[str, Any]) -> set[str]:
    image = image_environment()
    roles = set(ROLES) - {"gateway"}
    environments = {role: content["services"][role]["environment"] for role in roles}
    hosts = {
        role: given.get("TOWPATH_HEALTH_HOST", image["TOWPATH_HEALTH_HOST"]) for role, given in environments.items()
    }
    return {role for role, host in hosts.items() if host != "127.0.0.1"}


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_a_container_has_no_rights_beyond_its_work(name: str) -> None:
    service = EVERYTHING[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].partition(":")[0] not in {"", "0", "root"}
    assert service["pids_limit"] <= 1024
    assert {"privileged", "cap_add", "devices", "pid", "ipc", "userns_mode"} & set(service) == set()
    assert all(str(place).partition(":")[0] == "/tmp" or name == "postgres" for place in service["tmpfs"])


def test_a_container_writes_to_volumes_of_its_own_only() -> None:
    writers: dict[str, set[str]] = {}
    for name, service in EVERYTHING.items():
        for source, _, *mode in (volume.split(":") for volume in service.get("volumes", ())):
            assert "docker.sock" not in source
            if mode != ["ro"]:
                assert not source.startswith((".", "/")), f"{name} writes to the host's {source}"
                writers.setdefault(source, set()).add(name)
    assert writers == {
        "nats": {"nats_store", "nats"},
        "postgres": {"postgres"},
        "tas": {"ticket_key", "seal_key", "tas"},
        "worker": {"worker"},
        "prometheus": {"prometheus"},
        "grafana": {"grafana"},
    }


def test_every_network_is_private_but_the_deciders_way_out_and_the_gateways_way_in() -> None:
    networks = compose()["networks"]
    private = {name for name, said in networks.items() if said.get("internal") is True}
    assert private == {"bus", "data", "tools"}
    assert all(networks[name]["driver_opts"] == {ISOLATED: "isolated"} for name in private)
    assert members(compose())["door"] == {"gateway"}
    assert can_leave(compose()) == {"decider"}
    assert compose()["services"]["gateway"]["dns"] == ["192.0.2.1"], "names are a way out, too"


def test_a_worker_meets_the_broker_and_nobody_else() -> None:
    assert {other for pair in meetings(compose()) if "worker" in pair for other in pair} == {"worker", "nats"}
    assert members(compose())["tools"] == {"nats", "worker"}


def test_postgres_meets_who_keeps_something_in_it_and_nobody_else() -> None:
    meets = {other for pair in meetings(compose()) if "postgres" in pair for other in pair} - {"postgres"}
    assert meets == {"migrate", "orchestrator", "tas", "gateway", "log_writer"}


def test_health_metrics_and_monitoring_are_heard_inside_their_containers_only() -> None:
    assert health_is_heard_beyond_the_container(compose()) == set()
    monitoring = re.findall(r"^https?(?:_port)?: (\S+)", (DEPLOY / "nats.conf").read_text("utf-8"), re.MULTILINE)
    assert monitoring == ["127.0.0.1:8222"]


def test_only_the_gateway_has_an_open_port_and_only_to_this_machine() -> None:
    ports = {name: service["ports"] for name, service in compose()["services"].items() if "ports" in service}
    assert ports == {"gateway": ["127.0.0.1:8787:8787"]}
    assert compose()["services"]["gateway"]["environment"]["TOWPATH_GATEWAY_PORT"] == "8787"


OPENED = {
    "worker-egress": {"leave": {"decider", "worker"}},
    "core-egress": {"leave": {"decider", "orchestrator", "tas"}},
    "broker": {"ports": {"nats": ["127.0.0.1:4222:4222"], "gateway": ["127.0.0.1:8787:8787"]}},
    "metrics": {"health": set(ROLES) - {"gateway"}},
}


def test_there_is_a_choice_for_each_thing_that_can_be_opened() -> None:
    assert {path.stem for path in (DEPLOY / "open").iterdir()} == set(OPENED)


@pytest.mark.parametrize("name", OPENED)
def test_a_choice_opens_one_thing(name: str) -> None:
    content, expected = merged(f"open/{name}.yaml"), OPENED[name]
    ports = {name: service["ports"] for name, service in content["services"].items() if service.get("ports")}
    assert can_leave(content) == expected.get("leave", {"decider"})
    assert ports == expected.get("ports", {"gateway": ["127.0.0.1:8787:8787"]})
    assert health_is_heard_beyond_the_container(content) == expected.get("health", set())
    new = meetings(content) - meetings(compose())
    assert {pair for pair in new if not pair <= CORE} <= {frozenset({"nats", "gateway"})}
    if name == "metrics":
        prometheus = {network for network, found in members(content).items() if network.endswith("metrics") and found}
        assert all(content["networks"][network]["internal"] is True for network in prometheus)
        assert {role for network in prometheus for role in members(content)[network]} == set(ROLES)


def deploy_folder(tmp_path: Path, answer: str) -> tuple[Path, dict[str, str]]:
    """Return a copy of what pin-images reads and writes, and an environment whose `docker` says *answer*."""
    (tmp_path / "monitoring").mkdir()
    for name in ("pin-images", "compose.yaml", "monitoring/observability.yaml", "Dockerfile"):
        (tmp_path / name).write_bytes((DEPLOY / name).read_bytes())
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\necho \"$*\" >> \"{tmp_path}/asked\"\nprintf '%b' '{answer}'\n", "utf-8")
    docker.chmod(0o755)
    return tmp_path, {**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}"}


def pin(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", folder / "pin-images", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


IMAGES = {
    "compose.yaml": {"nats:2.15-alpine", "postgres:18"},
    "monitoring/observability.yaml": {
        "otel/opentelemetry-collector-contrib:0.139.0",
        "prom/prometheus:v3.5.0",
        "grafana/grafana:12.0.2",
    },
}
"""The images of others, by the file that names them."""

ANSWER = f"Name:      x\\nMediaType: y\\nDigest:    {DIGEST}\\n\\nManifests:\\n  Name: x@sha256:{'f' * 64}\\n"


def test_images_are_pinned_to_the_digest_that_the_registry_gives(tmp_path: Path) -> None:
    folder, environment = deploy_folder(tmp_path, ANSWER)
    assert pin(folder, environment, "--check").returncode == 1
    done = pin(folder, environment)
    assert done.returncode == 0, done.stderr
    for file, names in IMAGES.items():
        services = yaml.safe_load((folder / file).read_text("utf-8"))["services"]
        others = {service["image"] for service in services.values() if "image" in service} - {"towpath"}
        assert others == {f"{name}@{DIGEST}" for name in names}, file
    stages = re.findall(r"^FROM (\S+)", (folder / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert stages == [f"python:3.11-slim@{DIGEST}"] * 2
    assert pin(folder, environment, "--check").returncode == 0
    pinned = (folder / "compose.yaml").read_bytes()
    assert pin(folder, environment).returncode == 0, "what is pinned is asked for again by its tag"
    assert (folder / "compose.yaml").read_bytes() == pinned
    asked = set((folder / "asked").read_text("utf-8").splitlines())
    others = {name for names in IMAGES.values() for name in names}
    assert asked == {f"buildx imagetools inspect {name}" for name in {*others, "python:3.11-slim"}}


@pytest.mark.parametrize("answer", ["", "Digest:    sha256:short\\n", "error: no such image\\n"])
def test_nothing_is_pinned_where_a_digest_is_not_found(tmp_path: Path, answer: str) -> None:
    folder, environment = deploy_folder(tmp_path, answer)
    before = (folder / "compose.yaml").read_bytes()
    done = pin(folder, environment)
    assert done.returncode == 1
    assert "no digest was found" in done.stderr
    assert (folder / "compose.yaml").read_bytes() == before


def test_an_image_that_is_written_with_a_digest_has_a_whole_one() -> None:
    text = "".join((DEPLOY / name).read_text("utf-8") for name in (*IMAGES, "Dockerfile"))
    assert re.findall(r"@(?!sha256:[0-9a-f]{64}\b)\S*", "\n".join(re.findall(r"(?:image:|FROM) \S+", text))) == []


def test_nothing_gets_into_the_image_without_a_hash() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    installs = [step.strip() for step in re.split(r"&&|\n", text) if re.search(r"\bpip (?:install|wheel)\b", step)]
    assert len(installs) == 4
    assert all("--require-hashes" in step or "--no-deps" in step for step in installs)
    assert all("--no-build-isolation" in step for step in installs if "pip wheel" in step)
    assert {"nats_store", *ONCE} <= set(compose()["services"])


def table(heading: str) -> dict[str, dict[str, str]]:
    """Return the rows of the table below *heading* of SECURITY.md, by their first cell, and cells by their column."""
    lines = (ROOT / "SECURITY.md").read_text("utf-8").partition(f"## {heading}\n")[2].splitlines()
    rows = [
        line.strip("| ").split(" | ") for line in itertools.takewhile(lambda s: s[:2] != "##", lines) if line[:1] == "|"
    ]
    columns, _, *cells = rows
    return {row[0].strip("`*"): dict(zip(columns, row, strict=True)) for row in cells}


def test_the_security_page_says_of_each_process_what_it_really_may_do() -> None:
    rights = yaml.safe_load((ROOT / "tests" / "authority" / "postgres.yaml").read_text("utf-8"))
    accounts = yaml.safe_load((ROOT / "tests" / "authority" / "nats.yaml").read_text("utf-8"))
    said = table("What each process may do")
    assert set(said) == set(ROLES)
    for role, row in said.items():
        service = compose()["services"][role]
        assert re.findall(r"`(\w+)`", row["networks"]) == service["networks"], role
        schemas = set(rights.get(f"towpath_{role}", {}).get("schemas", ()))
        assert set(re.findall(r"`(\w+)`", row["Postgres: schemas"])) == schemas, role
        account = accounts[role]["account"]
        assert ("account of its own" if role == "worker" else f"`{account}`") in row["NATS"], role
        places = {volume.split(":")[1] for volume in service.get("volumes", ())}
        assert ("its volume" in row["files"]) == ("/var/lib/towpath" in places), role


def test_the_security_page_has_every_position_that_attacks_are_tried_from() -> None:
    assert {position.value for position in Position} <= set(table("Who may attack, and what stops them"))

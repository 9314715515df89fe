"""The chart runs the processes of deploy/compose.yaml: commands, ports, probes, variables, users, roles."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute
from tests.support.deploy.rendered_chart import (
    ALL,
    AUTHORITY,
    FEW,
    NAMESPACE,
    OUTSIDE,
    documents,
    environment,
    of_kind,
    pod_of,
    pods,
    secrets_of,
)
from tests.support.places import ROOT
from tests.unit.repository.test_deploy import ROLES, compose, documented_ports, fields, image_environment

from towpath_contracts.authority import SERVICES
from towpath_contracts.tools.queues import PoolDemand
from towpath_fabric.health import Health
from towpath_fabric.settings import Settings
from towpath_gateway.app.routes import queues

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def containers(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the container of each role, the first pool's as `worker`, and those of the jobs, by compose's names."""
    made = {**of_kind(values, "Deployment"), **of_kind(values, "Job")}
    found = {name.replace("-", "_"): pod_of(one)["containers"][0] for name, one in made.items()}
    named = {re.sub(r"_[0-9a-f]{8}$", "", name): one for name, one in found.items()}
    worker = named.pop("worker_sample", None)
    return {name: one for name, one in named.items() if name != "worker_orders"} | (
        {"worker": worker} if worker else {}
    )


def broker_environment(values: dict[str, Any]) -> dict[str, str]:
    """Return what a node of the broker is given besides users' passwords; that of routes is `secret`."""
    [container] = pod_of(of_kind(values, "StatefulSet")["nats"])["containers"]
    said = {name: text.replace("$(NATS_ROUTE_PASSWORD)", "secret") for name, text in environment(container).items()}
    return {**said, "POD_NAME": "towpath-nats-0", "NATS_ROUTE_PASSWORD": "secret"}


def test_the_chart_runs_every_process_with_the_command_of_the_compose_file() -> None:
    ran = {name: one["args"] for name, one in containers(ALL).items()}
    assert set(ran) == {*ROLES, "migrate", "streams"}
    for name, words in ran.items():
        wanted = compose()["services"][name]["command"]
        assert words[:2] == wanted[:2] and (words[2:] in ([], ["--builtin"]))


def test_the_image_is_the_one_that_the_dockerfile_makes() -> None:
    for one in containers(FEW).values():
        assert one["image"].partition(":")[0] == compose()["services"]["gateway"]["image"]
        assert "command" not in one, "its entry point is towpath"
    [broker] = pod_of(of_kind(FEW, "StatefulSet")["nats"])["containers"]
    assert broker["image"].partition("@")[0] == compose()["services"]["nats"]["image"].partition("@")[0]


def test_processes_read_every_variable_that_they_are_given() -> None:
    for values in (ALL, FEW, OUTSIDE):
        for role, container in containers(values).items():
            given = {name for name in environment(container) if name.startswith("TOWPATH_")}
            known = {f"TOWPATH_{name.upper()}" for name in Settings.model_fields}
            assert given - (fields(role) if role in ROLES else known) == set(), role


def test_probes_ask_for_paths_and_ports_that_the_process_answers() -> None:
    image = image_environment()
    for role, container in containers(ALL).items():
        if role not in ROLES:
            continue
        said = {**image, **environment(container)}
        [port] = container["ports"]
        assert str(port["containerPort"]) == said.get("TOWPATH_GATEWAY_PORT", said["TOWPATH_HEALTH_PORT"])
        assert str(port["containerPort"]) == documented_ports()[role]
        assert said["TOWPATH_GATEWAY_HOST" if role == "gateway" else "TOWPATH_HEALTH_HOST"] == "0.0.0.0"
        asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        assert {kind: one["path"] for kind, one in asked.items()} == {
            "startup": "/readyz",
            "liveness": "/livez",
            "readiness": "/readyz",
        }
        assert all(one["port"] == port["name"] and hasattr(Health, one["path"][1:]) for one in asked.values())
    [endpoint] = of_kind(ALL, "PodMonitor")["towpath"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["path"], endpoint["port"]) == ("/metrics", "http") and hasattr(Health, "metrics")


def test_each_process_is_a_user_of_the_broker_by_its_own_name() -> None:
    known = set(re.findall(r'"user": "(\w+)"', AUTHORITY))
    for role, container in containers(ALL).items():
        user = environment(container).get("TOWPATH_NATS_USER")
        service = compose()["services"][role]
        assert user == service["environment"].get("TOWPATH_NATS_USER") if role != "migrate" else user is None
        assert role == "migrate" or (user in known and (user in SERVICES) is (role != "worker"))


def test_roles_of_postgres_are_those_that_have_rights() -> None:
    spec = of_kind(ALL, "Cluster")["postgres"]["spec"]
    granted = set(yaml.safe_load((ROOT / "tests" / "authority" / "postgres.yaml").read_text("utf-8")))
    made = re.findall(r"for role in (.*); do", (DEPLOY / "roles.sh").read_text("utf-8"))[0].split()
    managed = {one["name"]: one for one in spec["managed"]["roles"]}
    assert set(managed) == granted == {f"towpath_{role}" for role in made}
    limit = re.search(r"^limit=(\d+)$", (DEPLOY / "roles.sh").read_text("utf-8"), re.MULTILINE)
    assert limit is not None
    for name, one in managed.items():
        assert (one["login"], one["connectionLimit"]) == (True, int(limit[1]))
        assert one["passwordSecret"]["name"] == f"towpath-postgres-{name.removeprefix('towpath_').replace('_', '-')}"
    assert int(spec["postgresql"]["parameters"]["max_connections"]) >= len(managed) * int(limit[1]) + 20
    assert spec["postgresql"]["synchronous"]["dataDurability"] == "required"


def test_replicas_are_named_to_those_who_read_from_them() -> None:
    named = {
        pod: environment(pod_of(manifest)["containers"][0]).get("TOWPATH_READ_DATABASE_HOSTS")
        for pod, manifest in pods(ALL).items()
    }
    readers = {f"Deployment/towpath-{role}" for role in ("orchestrator", "tas", "log-writer")}
    assert {pod for pod, hosts in named.items() if hosts} == readers
    assert {named[pod] for pod in readers} == {"towpath-postgres-ro:5432,[2001:db8::7]"}


def test_the_brokers_configuration_is_that_of_the_compose_file_for_each_node(tmp_path: Path) -> None:
    config = of_kind(FEW, "ConfigMap")["nats"]["data"]
    assert config["authority.conf"].strip() == AUTHORITY.strip()
    for name, text in config.items():
        (tmp_path / name).write_text(text.replace("/data", str(tmp_path / "data")), "utf-8")
    passwords = {name: f"p{number}" for number, name in enumerate(re.findall(r"\$(NATS_PASSWORD_\w+)", AUTHORITY))}
    command = [BIN / "nats-server", "-t", "-c", tmp_path / "nats.conf"]
    done = subprocess.run(
        command, env={**broker_environment(FEW), **passwords}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    alone = (DEPLOY / "nats.conf").read_text("utf-8")
    for key in ("port", "http", "max_payload", "write_deadline", "max_file_store", "max_memory_store"):
        said = [re.search(rf"^ *{key}: (\S+)", text, re.MULTILINE) for text in (config["nats.conf"], alone)]
        assert said[0] is not None and said[1] is not None and said[0][1] == said[1][1], key


def test_every_node_of_the_broker_is_named_to_its_clients_and_to_its_peers() -> None:
    broker = of_kind(FEW, "StatefulSet")["nats"]
    service = of_kind(FEW, "Service")["nats"]
    assert broker["spec"]["serviceName"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    nodes = [f"towpath-nats-{number}.towpath-nats" for number in range(broker["spec"]["replicas"])]
    for role, container in containers(FEW).items():
        if role != "migrate":
            said = environment(container)
            assert said["TOWPATH_NATS_URL"] == ",".join(f"nats://{node}:4222" for node in nodes)
            assert said["TOWPATH_STREAM_REPLICAS"] == "3"
    asked = re.findall(r"\$(NATS_ROUTE_\d)", of_kind(FEW, "ConfigMap")["nats"]["data"]["nats.conf"])
    assert [broker_environment(FEW)[name] for name in asked] == [f"nats://route:secret@{node}:6222" for node in nodes]
    assert environment(containers(OUTSIDE)["tas"])["TOWPATH_NATS_URL"] == OUTSIDE["nats"]["url"]


def test_a_node_of_the_broker_is_ready_once_its_streams_are_and_lives_before() -> None:
    [broker] = pod_of(of_kind(FEW, "StatefulSet")["nats"])["containers"]
    asked = {kind: broker[f"{kind}Probe"]["exec"]["command"][-1] for kind in ("startup", "liveness", "readiness")}
    paths = {kind: url.removeprefix("http://127.0.0.1:8222") for kind, url in asked.items()}
    running = "/healthz?js-enabled-only=true"  # a node that still catches up is not killed for it
    assert paths == {"startup": running, "liveness": running, "readiness": "/healthz"}
    assert of_kind(FEW, "Service")["nats"]["spec"]["publishNotReadyAddresses"] is True


def test_a_pool_is_scaled_by_what_the_gateway_says_of_its_toolsets() -> None:
    scaled = of_kind(ALL, "ScaledObject")["worker-orders"]["spec"]
    deployments = of_kind(ALL, "Deployment")
    assert "replicas" not in deployments["worker-orders"]["spec"] and scaled["minReplicaCount"] == 2
    assert deployments["worker-sample"]["spec"]["replicas"] == 0
    assert scaled["scaleTargetRef"]["name"] == deployments["worker-orders"]["metadata"]["name"]
    service = of_kind(ALL, "Service")["gateway"]
    [port] = [one["port"] for one in service["spec"]["ports"]]
    base = f"http://{service['metadata']['name']}.{NAMESPACE}.svc:{port}"
    urls = [one["metadata"]["url"] for one in scaled["triggers"]]
    assert urls == [f"{base}/v1/scaling/{toolset}" for toolset in ALL["toolPools"][0]["toolsets"]]
    assert "/v1/scaling/{pool}" in {route.path for route in queues.router.routes if isinstance(route, APIRoute)}
    for trigger in scaled["triggers"]:
        said = trigger["metadata"]
        assert said["valueLocation"] in PoolDemand.model_fields
        assert (trigger["type"], said["authMode"], said["targetValue"]) == ("metrics-api", "bearer", "8")
        assert trigger["authenticationRef"]["name"] == "towpath-scaling"
    [secret] = of_kind(ALL, "TriggerAuthentication")["scaling"]["spec"]["secretTargetRef"]
    assert secret == {"parameter": "token", "name": "towpath-keda", "key": "token"}


@pytest.mark.parametrize(
    ("values", "upgrade", "hooks"),
    [
        (OUTSIDE, False, {"migrate": "pre-install,pre-upgrade", "streams": "pre-install,pre-upgrade"}),
        (FEW, False, {"migrate": "pre-install,pre-upgrade", "streams": None}),
        (ALL, False, {"migrate": None, "streams": None}),
        (ALL, True, {"migrate": "pre-upgrade", "streams": "pre-upgrade"}),
        ({**OUTSIDE, "migrations": {"mode": "job"}}, True, {"migrate": None, "streams": None}),
        ({**OUTSIDE, "migrations": {"mode": "none"}}, False, {}),
    ],
)
def test_tables_and_streams_come_first_where_their_servers_are_there_already(
    values: dict[str, Any], upgrade: bool, hooks: dict[str, str | None]
) -> None:
    jobs = of_kind(values, "Job", upgrade=upgrade)
    said = {re.sub(r"-[0-9a-f]{8}$", "", name): one["metadata"].get("annotations", {}) for name, one in jobs.items()}
    assert {name: one.get("helm.sh/hook") for name, one in said.items()} == hooks
    if all(hooks.values()) and hooks:
        order = {name: int(one["helm.sh/hook-weight"]) for name, one in said.items()}
        assert order["migrate"] < order["streams"]


def test_the_roles_credential_is_not_the_owners() -> None:
    owners = {secret for job in of_kind(ALL, "Job").values() for secret in secrets_of(pod_of(job)["containers"][0])}
    for name, manifest in pods(ALL).items():
        if not name.startswith("Job/"):
            held = {secret for one in pod_of(manifest)["containers"] for secret in secrets_of(one)}
            assert held & owners == set(), name
    assert owners == {"towpath-migrate", "towpath-streams"}


def test_what_the_operator_is_told_has_its_own_place() -> None:
    [rule] = of_kind(ALL, "PrometheusRule")["towpath"]["spec"]["groups"]
    assert rule["rules"][0]["alert"] == "A"
    boards = [one for one in documents(ALL) if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    told = [{name: text.strip() for name, text in one["data"].items()} for one in boards]
    assert told == [{"runs.json": ALL["monitoring"]["dashboards"]["runs"]}]
    assert of_kind(ALL, "PodMonitor")["towpath"]["metadata"]["labels"]["release"] == "prometheus"

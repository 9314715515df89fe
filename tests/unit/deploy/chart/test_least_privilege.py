"""A pod of the chart may do what its role needs: rights of its process, secrets, and whom it reaches."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.deploy.rendered_chart import (
    ALL,
    AUTHORITY,
    FEW,
    OUTSIDE,
    VALUES,
    documents,
    environment,
    of_kind,
    pod_of,
    pods,
    secrets_of,
)
from tests.support.places import ROOT

from towpath_fabric.settings import Settings

DEPLOY = ROOT / "deploy"
ROLES = {"gateway", "orchestrator", "decider", "tas", "log-writer", "watchdog"}
WITH_TABLES = {"gateway", "orchestrator", "tas", "log-writer"}
POOLS = {"worker-orders", "worker-sample"}
EVERY_POD = [(name, pod) for name in VALUES for pod in pods(VALUES[name])]


@pytest.mark.parametrize(("values", "pod"), EVERY_POD)
def test_every_container_is_restricted(values: str, pod: str) -> None:
    spec = pod_of(pods(VALUES[values])[pod])
    rights = spec["securityContext"]
    assert (rights["runAsNonRoot"], rights["runAsUser"]) == (True, 10001)
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"} & set(spec) == set()
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
    assert all("hostPath" not in volume for volume in spec["volumes"])


@pytest.mark.parametrize(("values", "pod"), [one for one in EVERY_POD if one[1].startswith(("Deployment", "Stateful"))])
def test_every_process_that_stays_has_an_account_labels_and_a_place_of_its_own(values: str, pod: str) -> None:
    manifest = pods(VALUES[values])[pod]
    name = pod.partition("/")[2]
    spec, labels = pod_of(manifest), manifest["spec"]["template"]["metadata"]["labels"]
    accounts = of_kind(VALUES[values], "ServiceAccount")
    assert spec["serviceAccountName"] == name
    assert accounts[name.removeprefix("towpath-")]["automountServiceAccountToken"] is False
    assert labels["app.kubernetes.io/component"] == name.removeprefix("towpath-")
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for spread in spec["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == manifest["spec"]["selector"]["matchLabels"]
    assert "checksum/settings" in manifest["spec"]["template"]["metadata"]["annotations"]


def test_a_pod_is_replaced_when_its_settings_change_and_no_other() -> None:
    def checksums(values: dict[str, Any]) -> dict[str, str]:
        manifests = {**of_kind(values, "Deployment"), **of_kind(values, "StatefulSet")}
        return {n: m["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for n, m in manifests.items()}

    changed = {**FEW, "roles": {"tas": {"env": {"TOWPATH_BATCH_SIZE": 9}}}}
    rights = {**FEW, "broker": {"authority": f"{AUTHORITY}# changed\n"}}
    before = checksums(FEW)
    assert {name for name, one in checksums(changed).items() if one != before[name]} == {"tas"}
    assert {name for name, one in checksums(rights).items() if one != before[name]} == {"nats"}


def test_a_disruption_budget_is_there_where_there_is_more_than_one() -> None:
    assert set(of_kind(FEW, "PodDisruptionBudget")) == (ROLES - {"watchdog"}) | {"nats"}
    one = {**FEW, "roles": {"gateway": {"replicas": 1}}}
    assert "gateway" not in of_kind(one, "PodDisruptionBudget")
    assert set(of_kind(ALL, "PodDisruptionBudget")) & POOLS == {"worker-orders"}


def test_a_process_has_longer_to_end_than_it_takes() -> None:
    given = {**FEW, "stopGraceSeconds": 100}
    for manifest in of_kind(given, "Deployment").values():
        spec = pod_of(manifest)
        [container] = spec["containers"]
        wait = container.get("lifecycle", {"preStop": {"sleep": {"seconds": 0}}})["preStop"]["sleep"]["seconds"]
        assert environment(container)["TOWPATH_STOP_GRACE_S"] == "100"
        assert spec["terminationGracePeriodSeconds"] >= 100 + wait + 5
    [container] = pod_of(of_kind(FEW, "Deployment")["tas"])["containers"]
    assert float(environment(container)["TOWPATH_STOP_GRACE_S"]) >= Settings.model_fields["stop_grace_s"].default


def test_a_pool_has_as_long_to_end_as_its_tools_take() -> None:
    slow = {"name": "slow", "tools": ["x"], "existingSecret": "s", "stopGraceSeconds": 3600}
    deployments = of_kind({**FEW, "toolPools": [slow, {**slow, "name": "quick", "stopGraceSeconds": 7}]}, "Deployment")
    for name, grace in [("worker-slow", 3600), ("worker-quick", 7), ("tas", 20)]:
        spec = pod_of(deployments[name])
        assert environment(spec["containers"][0])["TOWPATH_STOP_GRACE_S"] == str(grace)
        assert spec["terminationGracePeriodSeconds"] == grace + 15


def test_each_role_and_each_pool_has_secrets_that_no_other_has() -> None:
    held: dict[str, set[str]] = {}
    for name, manifest in of_kind(ALL, "Deployment").items():
        spec = pod_of(manifest)
        found = {secret for container in spec["containers"] for secret in secrets_of(container)}
        found |= {v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v and v["name"] != "nats-ca"}
        held[name] = found
    assert held == {
        **{role: {f"towpath-{role}"} for role in ROLES},
        "decider": {"towpath-decider", "towpath-models"},
        "tas": {"towpath-tas", "towpath-tas-keys"},
        "worker-orders": {"towpath-orders", "orders-database"},
        "worker-sample": {"towpath-worker"},
    }


def test_the_key_of_the_brokers_certificate_is_the_brokers_alone() -> None:
    for name, manifest in pods(ALL).items():
        mounted = [volume["secret"] for volume in pod_of(manifest)["volumes"] if "secret" in volume]
        volumes = [secret for secret in mounted if secret["secretName"] == "nats-tls"]
        if name == "StatefulSet/towpath-nats":
            assert ["items" in one for one in volumes] == [False]
        else:
            assert all(one["items"] == [{"key": "ca.crt", "path": "ca.crt"}] for one in volumes)
            said = environment(pod_of(manifest)["containers"][0])
            assert ("TOWPATH_NATS_TLS_CA" in said) is bool(volumes) is ("TOWPATH_NATS_URL" in said), name
            assert said.get("TOWPATH_NATS_URL", "tls://").startswith("tls://")


@pytest.mark.parametrize("prefix", ["towpath", "two"])
def test_what_is_printed_of_the_secrets_is_what_the_chart_names(tmp_path: Path, prefix: str) -> None:
    for name in ("make-secrets", "kubernetes-secrets", "authority.conf"):
        (tmp_path / name).write_bytes((DEPLOY / name).read_bytes())
    subprocess.run(["bash", tmp_path / "make-secrets"], check=True, capture_output=True)
    done = subprocess.run(["bash", tmp_path / "kubernetes-secrets", prefix], capture_output=True, text=True, check=True)
    made = {one["metadata"]["name"]: one for one in yaml.safe_load_all(done.stdout)}
    others = {"towpath-models", "towpath-orders", "orders-database", "towpath-test"}  # made by whoever has them
    named = _secret_names([*documents(ALL)]) - others - {"nats-tls", "tls", "pull", "towpath-keda"}
    assert {name.replace("towpath", prefix, 1) for name in named} == set(made)
    logins = {name.removeprefix(f"{prefix}-"): one for name, one in made.items() if one["type"].endswith("basic-auth")}
    assert set(logins) == {"postgres-owner", *(f"postgres-{role}" for role in WITH_TABLES)}


def _secret_names(found: Any) -> set[str]:
    if isinstance(found, list):
        return {name for one in found for name in _secret_names(one)}
    if not isinstance(found, dict):
        return set()
    names = {name for one in found.values() for name in _secret_names(one)}
    for key in ("secretRef", "secret", "passwordSecret"):
        if isinstance(one := found.get(key), dict):
            names |= {one[part] for part in ("name", "secretName") if part in one}
    return names | ({found["name"]} if "parameter" in found else set())


def reaches(values: dict[str, Any]) -> dict[str, set[str]]:
    """Return whom the pods of each component may open connections to, as `component:port` or an address."""
    found: dict[str, set[str]] = {}
    for policy in of_kind(values, "NetworkPolicy").values():
        chosen = policy["spec"]["podSelector"]["matchLabels"].get("app.kubernetes.io/component")
        for rule in policy["spec"].get("egress", ()) if chosen else ():
            ports = {str(one["port"]) for one in rule["ports"]}
            for peer in rule.get("to", [{}]):
                labels = peer.get("podSelector", {}).get("matchLabels", {})
                address = peer.get("ipBlock", {}).get("cidr", "anywhere")
                who = labels.get("app.kubernetes.io/component", labels.get("cnpg.io/cluster", address))
                found.setdefault(chosen, set()).update(f"{who}:{port}" for port in ports)
    return found


def test_nobody_reaches_more_than_its_role_needs() -> None:
    bus, data = "nats:4222", "towpath-postgres:5432"
    assert reaches(ALL) == {
        **{role: {bus, data} for role in WITH_TABLES},
        "decider": {bus, "0.0.0.0/0:443", "::/0:443"},
        "watchdog": {bus},
        "streams": {bus},
        "migrate": {data},
        "doctor": {"gateway:8787"},
        "nats": {"nats:6222"},
        "worker-orders": {bus, "203.0.113.7/32:443"},
        "worker-sample": {bus},
    }
    assert reaches(OUTSIDE)["tas"] == {"192.0.2.4/32:4222", "192.0.2.5/32:5432"}
    outside = {**OUTSIDE, "toolPools": ALL["toolPools"]}
    assert reaches(outside)["worker-sample"] == {"192.0.2.4/32:4222"}
    found = {one for values in VALUES.values() for whom in reaches(values).values() for one in whom}
    assert not any("anywhere" in one for one in found)


def test_the_models_are_asked_outside_of_private_networks_alone() -> None:
    rules = of_kind(FEW, "NetworkPolicy")["decider"]["spec"]["egress"]
    blocks = {p["ipBlock"]["cidr"]: p["ipBlock"]["except"] for rule in rules for p in rule["to"] if "ipBlock" in p}
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(blocks["0.0.0.0/0"])
    assert {"fc00::/7", "fe80::/10"} <= set(blocks["::/0"])


@pytest.mark.parametrize("name", VALUES)
def test_every_pod_is_shut_until_a_policy_opens_something(name: str) -> None:
    policies = of_kind(VALUES[name], "NetworkPolicy")
    shut = policies["default-deny"]["spec"]
    assert (shut["policyTypes"], "ingress" in shut, "egress" in shut) == (["Ingress", "Egress"], False, False)
    for pod in pods(VALUES[name]).values():
        labels = (pod if pod["kind"] == "Pod" else pod["spec"]["template"])["metadata"]["labels"]
        assert shut["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_way_in_is_the_gateways_and_where_it_is_asked_for_that_to_metrics() -> None:
    def opened(values: dict[str, Any]) -> dict[str, Any]:
        found = {
            name: [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
            for name, policy in of_kind(values, "NetworkPolicy").items()
            if "ingress" in policy["spec"]
        }
        return dict(sorted(found.items()))

    assert opened(FEW) == {"gateway-door": [8787], "nats": [4222, 6222]}
    assert opened(ALL) == {
        "gateway-door": [8787],
        "metrics": ["http"],
        "nats": [4222, 6222],
        "postgres": [5432, 8000, 5432],
    }
    assert "NetworkPolicy" not in {m["kind"] for m in documents({**FEW, "networkPolicy": {"enabled": False}})}

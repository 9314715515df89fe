"""deploy/chart as Helm renders it, with few values and with all of them; and what a role of it is given."""

import functools
import json
from collections.abc import Mapping
from typing import Any

import helm_python
import yaml
from tests.support.places import ROOT

CHART = ROOT / "deploy" / "chart"
NAMESPACE = "agents"
AUTHORITY = (ROOT / "deploy" / "authority.conf").read_text("utf-8")

AT_DATABASE = [{"ipBlock": {"cidr": "192.0.2.5/32"}}]
AT_BROKER = [{"ipBlock": {"cidr": "192.0.2.4/32"}}]

FEW: dict[str, Any] = {"broker": {"authority": AUTHORITY}, "postgres": {"peers": AT_DATABASE}}
"""What an installation has to give."""

ALL: dict[str, Any] = {
    "broker": {"authority": AUTHORITY, "storage": {"size": "12Gi", "className": "fast"}},
    "image": {"repository": "images.example/towpath", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "pull"}],
    "publicUrl": "https://agents.example.com",
    "scheduling": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "p"},
    "roles": {"orchestrator": {"env": {"TOWPATH_MAX_ACTIVE_RUNS": 500, "TOWPATH_MAX_PARALLEL": "2"}}},
    "nats": {"tlsSecret": "nats-tls"},
    "postgres": {
        "readHosts": ["towpath-postgres-ro:5432", "[2001:db8::7]"],
        "cluster": {"enabled": True, "image": "postgresql:18", "storage": {"size": "9Gi", "className": "f"}},
    },
    "monitoring": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "labels": {"release": "prometheus"},
        "rules": "groups: [{name: g, rules: [{alert: A, expr: up == 0}]}]",
        "dashboards": {"runs": '{"title": "Runs"}'},
    },
    "gateway": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "ingress": {
            "enabled": True,
            "host": "agents.example.com",
            "className": "nginx",
            "tlsSecret": "tls",
            "annotations": {"a": "b"},
        },
    },
    "toolPools": [
        {
            "name": "orders",
            "tools": ["/tools/orders.py"],
            "toolsets": ["orders", "invoices"],
            "existingSecret": "towpath-orders",
            "configMap": "orders-tools",
            "secrets": ["orders-database"],
            "env": {"TOWPATH_WORKER_CONCURRENCY": 4},
            "egress": [{"to": [{"ipBlock": {"cidr": "203.0.113.7/32"}}], "ports": [{"protocol": "TCP", "port": 443}]}],
            "keda": {"min": 2, "max": 10, "lagThreshold": 8},
        },
        {
            "name": "sample",
            "user": "worker",
            "project": "shop",
            "tools": ["--builtin"],
            "existingSecret": "towpath-worker",
            "image": "images.example/tools:1",
            "replicas": 0,
        },
    ],
}
"""Every choice taken."""

OUTSIDE: dict[str, Any] = {
    "broker": {"enabled": False},
    "nats": {"url": "nats://one:4222,nats://two:4222", "peers": AT_BROKER},
    "postgres": {"peers": AT_DATABASE},
}
"""The broker and Postgres are somebody else's."""

VALUES = {"few": FEW, "all": ALL, "outside": OUTSIDE}


@functools.cache
def _render(values: str, upgrade: bool) -> dict[str, str]:
    given = json.loads(values)
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(given)
        return chart.render(
            given, name="towpath", namespace=NAMESPACE, is_install=not upgrade, is_upgrade=upgrade, revision=1 + upgrade
        )


def rendered(values: Mapping[str, Any], *, upgrade: bool = False) -> dict[str, str]:
    """Return the text of each template; the values have to follow their schema."""
    return _render(json.dumps(values), upgrade)


@functools.cache
def _documents(values: str, upgrade: bool) -> tuple[dict[str, Any], ...]:
    texts = [text for name, text in _render(values, upgrade).items() if not name.endswith(".txt")]
    return tuple(found for text in texts for found in yaml.load_all(text, yaml.CSafeLoader) if found)


def documents(values: Mapping[str, Any], *, upgrade: bool = False) -> tuple[dict[str, Any], ...]:
    """Return every manifest; they are read once, so nobody changes one."""
    return _documents(json.dumps(values), upgrade)


def of_kind(values: Mapping[str, Any], kind: str, *, upgrade: bool = False) -> dict[str, dict[str, Any]]:
    """Return the manifests of one kind, by their names without that of the release before."""
    found = [one for one in documents(values, upgrade=upgrade) if one["kind"] == kind]
    return {one["metadata"]["name"].removeprefix("towpath-"): one for one in found}


def pod_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod that a manifest makes."""
    spec: dict[str, Any] = manifest["spec"]
    return spec if manifest["kind"] == "Pod" else spec["template"]["spec"]


def pods(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return every manifest that makes pods, by kind and name."""
    kinds = {"Deployment", "StatefulSet", "Job", "Pod"}
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in documents(values) if one["kind"] in kinds}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return what a container is given besides Secrets; what Kubernetes fills in is named by its field."""
    return {
        one["name"]: one["value"] if "value" in one else one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container.get("env", ())
    }


def secrets_of(container: Mapping[str, Any]) -> list[str]:
    """Return the Secrets whose keys a container has in its environment."""
    return [one["secretRef"]["name"] for one in container.get("envFrom", ())]

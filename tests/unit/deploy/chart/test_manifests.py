"""The chart is a good one: Helm finds nothing, values are checked by their schema, manifests by Kubernetes' own."""

import re
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml
from packaging.version import Version
from tests.release.preparation import semantic_version, stated_version
from tests.support.deploy.rendered_chart import ALL, CHART, FEW, OUTSIDE, VALUES, documents, of_kind, rendered
from tests.support.places import ROOT

POOL = {"name": "orders", "tools": ["x"], "existingSecret": "s"}
OLDEST, NEWEST = "1.30", "1.37"
"""What Chart.yaml takes, and what the schemas know."""

OTHERS: dict[str, dict[str, Any]] = {
    "ScaledObject": {
        "apiVersion": "keda.sh/v1alpha1",
        "spec": {
            *("scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod"),
            *("fallback", "triggers", "advanced", "idleReplicaCount"),
        },
        "needs": {"scaleTargetRef", "triggers"},
    },
    "TriggerAuthentication": {"apiVersion": "keda.sh/v1alpha1", "spec": {"secretTargetRef"}, "needs": set()},
    "PodMonitor": {
        "apiVersion": "monitoring.coreos.com/v1",
        "spec": {"selector", "podMetricsEndpoints", "namespaceSelector", "jobLabel"},
        "needs": {"selector", "podMetricsEndpoints"},
    },
    "PrometheusRule": {"apiVersion": "monitoring.coreos.com/v1", "spec": {"groups"}, "needs": {"groups"}},
    "Cluster": {
        "apiVersion": "postgresql.cnpg.io/v1",
        "spec": {
            *("instances", "imageName", "primaryUpdateStrategy", "postgresql", "storage", "resources", "bootstrap"),
            "managed",
        },
        "needs": {"instances", "storage", "bootstrap", "managed"},
    },
}
"""Kinds of operators, which Kubernetes' schemas do not have: the keys of theirs that may be used, and must be."""


@pytest.mark.parametrize("name", VALUES)
def test_helm_finds_nothing(name: str) -> None:
    report = helm_python.lint(CHART, VALUES[name], strict=True)
    told = [one for one in report["messages"] if one["severity"] > 1]  # an icon is recommended; it would be an address
    assert (told, report["errors"]) == ([], [])


@pytest.mark.parametrize(
    ("name", "upgrade", "version"), [("few", False, OLDEST), ("all", False, NEWEST), ("outside", True, NEWEST)]
)
def test_manifests_follow_the_schemas_of_kubernetes(name: str, upgrade: bool, version: str) -> None:
    checked = set()
    for manifest in documents(VALUES[name], upgrade=upgrade):
        if manifest["kind"] not in OTHERS:
            kubernetes_validate.validate(manifest, version, strict=True)
            checked.add(manifest["kind"])
    assert checked >= {"Deployment", "NetworkPolicy", "ServiceAccount", "Service", "Job", "Pod"}


def test_a_manifest_with_an_unknown_key_would_be_found() -> None:
    manifest = of_kind(FEW, "PodDisruptionBudget")["tas"]
    wrong = {**manifest, "spec": {**manifest["spec"], "replicas": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)


def test_manifests_of_operators_have_keys_that_these_know() -> None:
    seen = set()
    for manifest in documents(ALL):
        if (known := OTHERS.get(manifest["kind"])) is not None:
            seen.add(manifest["kind"])
            assert manifest["apiVersion"] == known["apiVersion"]
            assert known["needs"] <= set(manifest["spec"]) <= known["spec"], manifest["kind"]
    assert seen == set(OTHERS)


@pytest.mark.parametrize("name", VALUES)
def test_no_two_manifests_have_one_name(name: str) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in documents(VALUES[name])]
    assert len(names) == len(set(names))
    assert all(len(one) <= 63 for _, one in names)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rolez": {}}, "rolez"),
        ({"roles": {"tas": {"replicas": "two"}}}, "/roles/tas/replicas"),
        ({"roles": {"gateway": {"env": {"TOWPATH_DATABASE_URL": "x"}}}}, "TOWPATH_DATABASE_URL"),
        ({"roles": {"decider": {"env": {"GEMINI_API_KEY": "x"}}}}, "GEMINI_API_KEY"),
        ({"broker": {"replicas": 2}}, "/broker/replicas"),
        ({"toolPools": [{**POOL, "name": "Orders"}]}, "/toolPools/0/name"),
        ({"toolPools": [{**POOL, "keda": {"max": 1, "lagThreshold": 1}}]}, "toolsets"),
        ({"toolPools": [{**POOL, "toolsets": ["t"], "keda": {"min": 0, "max": 1, "lagThreshold": 1}}]}, "keda/min"),
        ({"toolPools": [{**POOL, "stopGraceSeconds": 3601}]}, "/toolPools/0/stopGraceSeconds"),
        ({"nats": {"url": "http://one"}}, "/nats/url"),
        ({"postgres": {"readHosts": ["postgresql://one"]}}, "/postgres/readHosts/0"),
        ({"migrations": {"mode": "sometimes"}}, "/migrations/mode"),
        ({"gateway": {"from": [{"everybody": True}]}}, "everybody"),
        ({"gateway": {"from": []}}, "/gateway/from"),
        ({"networkPolicy": {"dns": []}}, "/networkPolicy/dns"),
        ({"roles": {"tas": {"egress": [{"to": [], "ports": [{"port": 443}]}]}}}, "/roles/tas/egress/0/to"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_their_place(wrong: dict[str, Any], told: str) -> None:
    with helm_python.Chart.load(CHART) as chart, pytest.raises(helm_python.HelmValuesError, match=told):
        chart.validate_schema(wrong)


def test_the_defaults_are_what_the_schema_describes_and_nothing_else() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema({})
        schema = chart.schema
    assert schema is not None and schema["$schema"].endswith("2020-12/schema")
    assert set(schema["properties"]) == set(values) | {"global"}
    closed = [text for text in _objects(schema) if "properties" in text]
    assert closed and all(one["additionalProperties"] is False for one in closed)


def _objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for one in schema for found in _objects(one)]
    if not isinstance(schema, dict):
        return []
    inner = [found for one in schema.values() for found in _objects(one)]
    return [schema, *inner] if schema.get("type") == "object" else inner


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({**FEW, "broker": {}}, "broker.authority"),
        ({**OUTSIDE, "nats": {}}, "nats.url"),
        ({**OUTSIDE, "nats": {"url": "nats://one:4222"}}, "nats.peers"),
        ({**OUTSIDE, "postgres": {}}, "postgres.peers"),
        ({**FEW, "monitoring": {"enabled": True}}, "monitoring.from"),
    ],
)
def test_what_an_installation_must_give_is_asked_for_by_name(values: dict[str, Any], told: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=told):
        rendered(values)


def test_nobody_says_where_servers_are_where_no_policy_asks() -> None:
    url, off = {"url": "nats://one:4222"}, {"enabled": False}
    values = {"broker": off, "nats": url, "networkPolicy": off, "monitoring": {"enabled": True}}
    assert set(of_kind(values, "PodMonitor")) == {"towpath"} and not of_kind(values, "NetworkPolicy")


def test_the_notes_are_three_commands_for_the_services_that_are_there() -> None:
    notes = next(text for name, text in rendered(OUTSIDE).items() if name.endswith("NOTES.txt"))
    commands = [line.strip() for line in notes.splitlines() if re.match(r"   \S", line)]
    assert [line.split()[0] for line in commands] == ["kubectl", "kubectl", "helm"]
    assert "no tool can be called" in notes
    named = set(re.findall(r"(?:deploy|service)/towpath-(\S+)", notes))
    assert named <= set(of_kind(OUTSIDE, "Deployment")) & set(of_kind(OUTSIDE, "Service"))


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    version = stated_version(ROOT)
    assert (chart["version"], chart["appVersion"]) == (semantic_version(Version(version)), version)

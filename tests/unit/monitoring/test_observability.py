"""Containers of deploy/monitoring beside the platform: what they read, whom they reach, and who reaches them."""

import re
from pathlib import Path
from typing import Any

import yaml
from tests.unit.monitoring.test_alert_rules import MONITORING
from tests.unit.monitoring.test_collector import CONFIG, SECTION, VARIABLES
from tests.unit.repository.test_container_isolation import can_leave, meetings, members, merged
from tests.unit.repository.test_deploy import DEPLOY, ROLES, compose

OURS = {"collector", "prometheus", "grafana"}
CONTENT = merged("open/metrics.yaml", "monitoring/observability.yaml")
SERVICES: dict[str, dict[str, Any]] = CONTENT["services"]


def mounts(name: str) -> dict[str, Path]:
    """Return the files of the repository that a container has, by the places where it has them."""
    parts = [volume.split(":") for volume in SERVICES[name]["volumes"]]
    return {place: DEPLOY / source for source, place, *_ in parts if source.startswith("./")}


def provisioned(kind: str) -> dict[str, Any]:
    """Return what Grafana reads of *kind* at its start."""
    loaded = yaml.safe_load(mounts("grafana")[f"/etc/grafana/provisioning/{kind}/towpath.yaml"].read_text("utf-8"))
    assert loaded["apiVersion"] == 1
    [one] = loaded["providers" if kind == "dashboards" else kind]
    return dict(one)


def test_it_adds_three_containers_and_each_reads_files_that_are_there() -> None:
    assert set(SERVICES) - set(compose()["services"]) == OURS
    for name in OURS:
        assert all(path.exists() for path in mounts(name).values()), name
        assert all(volume.endswith(":ro") for volume in SERVICES[name]["volumes"] if volume.startswith("./")), name
    [config] = mounts("collector")
    assert SERVICES["collector"]["command"] == [f"--config={config}"]


def test_prometheus_reads_our_rules_and_keeps_what_objectives_look_back_on() -> None:
    read = mounts("prometheus")
    assert "--config.file=/etc/prometheus/prometheus.yml" in SERVICES["prometheus"]["command"]
    assert read["/etc/prometheus/prometheus.yml"].resolve() == MONITORING / "prometheus.yml"
    rules = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))["rule_files"]
    assert {f"/etc/prometheus/{name}" for name in rules} == set(read) - {"/etc/prometheus/prometheus.yml"}
    assert "--storage.tsdb.retention.time=30d" in SERVICES["prometheus"]["command"]
    assert "/prometheus" in {volume.split(":")[1] for volume in SERVICES["prometheus"]["volumes"]}


def test_grafana_has_the_boards_and_the_prometheus_that_they_read() -> None:
    board = mounts("grafana")[provisioned("dashboards")["options"]["path"]]
    assert board.resolve() == MONITORING / "boards"
    source = provisioned("datasources")
    probe = SERVICES["prometheus"]["healthcheck"]["test"][-1]
    assert source["url"] == probe.removesuffix("/-/ready").replace("127.0.0.1", "prometheus")
    every = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))["global"]["scrape_interval"]
    assert (source["type"], source["isDefault"], source["jsonData"]) == ("prometheus", True, {"timeInterval": every})


def test_every_role_sends_its_spans_to_the_collector_and_can_reach_it() -> None:
    [sent] = re.findall(r"`OTEL_EXPORTER_OTLP_ENDPOINT=(\S+)`", SECTION)
    for role in ROLES:
        assert SERVICES[role]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == sent
        assert frozenset({role, "collector"}) in meetings(CONTENT) and frozenset({role, "prometheus"}) in meetings(
            CONTENT
        )
    limit = CONFIG["processors"]["memory_limiter"]["limit_mib"]
    assert SERVICES["collector"]["mem_limit"] == "512m" and limit < 512


def test_nothing_starts_without_a_password_and_a_receiver_of_traces() -> None:
    assert set(SERVICES["collector"]["environment"]) == VARIABLES
    assert SERVICES["collector"]["environment"]["OTLP_BACKEND_URL"].startswith("${OTLP_BACKEND_URL:?")
    assert SERVICES["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"].startswith("${GRAFANA_PASSWORD:?")


def test_it_opens_the_collectors_way_out_and_grafanas_way_in_and_no_more() -> None:
    before = merged("open/metrics.yaml")
    assert can_leave(CONTENT) - can_leave(before) == {"collector"}
    ports = {name: service["ports"] for name, service in SERVICES.items() if service.get("ports")}
    assert ports == {"gateway": ["127.0.0.1:8787:8787"], "grafana": ["127.0.0.1:3000:3000"]}
    met = {name: {other for pair in meetings(CONTENT) if name in pair for other in pair} - {name} for name in SERVICES}
    assert met["worker"] == {"nats", "collector", "prometheus"}, "a worker still meets no service"
    assert met["grafana"] == {"prometheus"} and met["collector"] == {*ROLES}
    assert met["prometheus"] == {*ROLES, "grafana"}
    new = {pair for pair in meetings(CONTENT) - meetings(before) if not pair & OURS}
    assert {frozenset(pair) for pair in new} <= {
        frozenset({a, b}) for a in ROLES for b in ROLES if "worker" not in (a, b)
    }
    assert all(CONTENT["networks"][one]["internal"] for one in members(CONTENT) if one in {"traces", "boards"})

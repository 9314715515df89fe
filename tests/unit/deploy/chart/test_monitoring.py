"""What Prometheus is told of the pods of the chart has the labels that the rules of deploy/monitoring ask for."""

import re
from typing import Any

import yaml
from tests.support.deploy.rendered_chart import ALL, of_kind, pods
from tests.support.places import ROOT

MONITORING = ROOT / "deploy" / "monitoring"


def labels() -> dict[str, dict[str, Any]]:
    """Return the labels that the PodMonitor gives to every series, with what makes them."""
    [endpoint] = of_kind(ALL, "PodMonitor")["towpath"]["spec"]["podMetricsEndpoints"]
    return {one["targetLabel"]: one for one in endpoint["relabelings"]}


def test_the_rules_ask_for_the_job_that_the_chart_and_prometheus_give() -> None:
    rules = (MONITORING / "rules.yaml").read_text("utf-8")
    [asked] = set(re.findall(r'up\{job="([^"]*)"', rules))
    [scraped] = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert labels()["job"] == {"targetLabel": "job", "replacement": asked}
    assert scraped["job_name"] == asked


def test_a_role_is_told_from_the_others_by_its_component() -> None:
    [source] = labels()["component"]["sourceLabels"]
    key = "app.kubernetes.io/component"
    assert source == f"__meta_kubernetes_pod_label_{re.sub('[./]', '_', key)}"
    asked = {
        name: manifest["spec"]["template"]["metadata"]["labels"][key]
        for name, manifest in pods(ALL).items()
        if name.startswith("Deployment/")
    }
    assert "tas" in asked.values() and any(one.startswith("worker-") for one in asked.values())

"""The configuration of the collector in deploy/monitoring: it is whole, and does what docs/tracing.md says."""

import re
from typing import Any

import yaml
from tests.support.places import ROOT
from tests.unit.monitoring.test_alert_rules import MONITORING

from towpath_fabric.settings import OtelSettings

TEXT = (MONITORING / "otel-collector.yaml").read_text("utf-8")
CONFIG: dict[str, Any] = yaml.safe_load(TEXT)
PAGE = (ROOT / "docs" / "tracing.md").read_text("utf-8")
SECTION = PAGE.partition("\n## A collector\n")[2].partition("\n## ")[0]
VARIABLES = set(re.findall(r"\$\{env:(\w+)", TEXT))


def test_pipelines_name_what_is_declared_and_nothing_is_declared_in_vain() -> None:
    pipelines = CONFIG["service"]["pipelines"]
    assert set(pipelines) == {"traces"}, "metrics are scraped, and logs are read where they are written"
    for kind in ("receivers", "processors", "exporters"):
        named = [name for pipeline in pipelines.values() for name in pipeline[kind]]
        assert set(named) == set(CONFIG[kind]) and len(set(named)) == len(named), kind
    assert set(CONFIG) == {"receivers", "processors", "exporters", "service"}


def test_memory_is_looked_at_first_and_what_is_kept_is_batched_last() -> None:
    assert CONFIG["service"]["pipelines"]["traces"]["processors"] == ["memory_limiter", "tail_sampling", "batch"]
    limits = CONFIG["processors"]["memory_limiter"]
    assert limits == {"check_interval": "1s", "limit_mib": 400, "spike_limit_mib": 100}


def test_it_takes_what_services_send_where_the_page_says() -> None:
    protocols = CONFIG["receivers"]["otlp"]["protocols"]
    assert set(protocols) == {"http"} and "`http/protobuf`" in PAGE
    [sent] = re.findall(r"`OTEL_EXPORTER_OTLP_ENDPOINT=(\S+)`", SECTION)
    port = protocols["http"]["endpoint"].rpartition(":")[2]
    assert OtelSettings(exporter_otlp_endpoint=sent).traces_url == f"http://collector:{port}/v1/traces"


def test_it_sends_on_to_whom_its_environment_names() -> None:
    [exporter] = CONFIG["exporters"].values()
    assert exporter["endpoint"] == "${env:OTLP_BACKEND_URL}", "no default: traces go nowhere unless somebody says so"
    assert exporter["headers"] == {"Authorization": "${env:OTLP_BACKEND_AUTHORIZATION:-}"}
    assert set(re.findall(r"`(OTLP_\w+)`", SECTION)) == VARIABLES


def test_it_keeps_the_traces_that_the_page_says() -> None:
    sampling = CONFIG["processors"]["tail_sampling"]
    policies = {one["name"]: (one["type"], one[one["type"]]) for one in sampling["policies"]}
    assert policies == {
        "errors": ("status_code", {"status_codes": ["ERROR"]}),
        "slow": ("latency", {"threshold_ms": 60_000}),
        "rest": ("probabilistic", {"sampling_percentage": 10}),
    }
    kept = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", SECTION, re.MULTILINE))
    assert kept["a span of it has an error"] == kept["more than 60 s from its first to its last span"] == "all"
    assert kept["any other"] == "10 %"
    assert sampling["decision_wait"] == "300s" and "300 s after" in SECTION
    assert sampling["num_traces"] == 20_000 and "20,000 traces" in SECTION
    remembered = {"sampled_cache_size", "non_sampled_cache_size"}
    assert sampling["decision_cache"] == dict.fromkeys(remembered, 10 * sampling["num_traces"])

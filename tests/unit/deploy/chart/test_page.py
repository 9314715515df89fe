"""What deploy/README.md has people type for Kubernetes: real scripts, and manifests as Helm renders them of its values.

Nothing here is a cluster: `kubectl` is not started, and Helm is its engine in a package of Python.
"""

import argparse
import base64
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.docs_site.taken_blocks import taken
from tests.support.deploy.rendered_chart import CHART, NAMESPACE, rendered
from tests.support.places import ROOT

INSTALL = taken("deploy/README.md: deploy/make-secrets --database").text
VALUES = taken("deploy/README.md: image:").text
MADE_OTHERWISE = {"towpath-orders", "orders-database", "towpath-test"}
"""Secrets that people make by other commands: of a pool of workers, and a key for `helm test`."""


class Asked(NamedTuple):
    """What a command asks Helm for: which chart, and which values."""

    chart: Path
    namespace: str
    values: dict[str, Any]


def asked_of_helm(block: str) -> Asked:
    """Return what the `helm` of *block* asks for, whose values are those of the page."""
    (line,) = [one for one in block.splitlines() if one.startswith("helm ")]
    _, _, *words = shlex.split(line.partition(" > ")[0])
    parser = argparse.ArgumentParser()
    parser.add_argument("release", choices=["towpath"])
    parser.add_argument("chart", type=lambda word: ROOT / word)
    parser.add_argument("--namespace")
    parser.add_argument("--skip-tests", action="store_true")
    parser.add_argument("--values", choices=["values.yaml"])
    for option in ("--set", "--set-file"):
        parser.add_argument(option, type=lambda word: word.split("=", 1), action="append", default=[])
    said = parser.parse_args(words)
    values = yaml.safe_load(VALUES)
    given = [*said.set, *((name, (ROOT / path).read_text("utf-8")) for name, path in said.set_file)]
    for name, value in given:
        *places, last = name.split(".")
        place = values
        for one in places:
            place = place.setdefault(one, {})
        place[last] = value
    return Asked(said.chart, said.namespace, values)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The Secrets that the page's scripts print, by their names."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "deploy", folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
    (folder / "kubectl").write_text('#!/bin/sh\nif [ "$1" = apply ]; then cat >>applied.yaml; fi\n', "utf-8")
    (folder / "kubectl").chmod(0o700)
    commands = "\n".join(line for line in INSTALL.splitlines() if not line.startswith("helm "))
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all((folder / "applied.yaml").read_text("utf-8")) if one]
    return {one["metadata"]["name"]: one["data"] for one in found}


def test_every_secret_that_the_installation_names_was_applied(secrets: dict[str, dict[str, str]]) -> None:
    asked = asked_of_helm(INSTALL)
    assert (asked.chart, asked.namespace != NAMESPACE) == (CHART, True)
    text = "\n".join(rendered(asked.values).values())
    named = {*re.findall(r"secret(?:Ref|Name)?: *\{(?:name|secretName): ([\w-]+)(?!.*optional: true)", text)}
    assert {"towpath-orchestrator", "towpath-tas-keys"} <= named
    assert named - MADE_OTHERWISE <= secrets.keys()
    address = base64.b64decode(secrets["towpath-tas"]["TOWPATH_DATABASE_URL"]).decode()
    assert "@towpath-postgres-rw:5432/towpath" in address


def test_what_an_overlay_is_made_of_has_the_same_values_and_jobs_of_its_own() -> None:
    asked = asked_of_helm(taken("deploy/README.md: helm template").text)
    assert asked.chart == CHART and asked.values["migrations"] == {"mode": "job"}
    texts = rendered(asked.values)
    assert any("kind: Job" in text for text in texts.values())
    assert "registry.example.com/towpath:0.1.0" in "".join(texts.values())

"""The overlay of deploy/kustomize changes what the chart has, and kubectl builds it where there is one."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from tests.support.deploy.rendered_chart import FEW, environment, of_kind, pod_of, rendered
from tests.support.places import ROOT
from tests.unit.repository.test_deploy import fields

KUSTOMIZE = ROOT / "deploy" / "kustomize"


def overlay() -> dict[str, Any]:
    """Return the overlay."""
    read: dict[str, Any] = yaml.safe_load((KUSTOMIZE / "production" / "kustomization.yaml").read_text("utf-8"))
    return read


def test_what_the_overlay_changes_is_in_the_chart() -> None:
    deployments, read = of_kind(FEW, "Deployment"), overlay()
    assert "images" not in read, "it would change jobs whose names do not follow"
    for one in read["replicas"]:
        assert one["name"].removeprefix("towpath-") in deployments
    for one in read["patches"]:
        role = one["target"]["name"].removeprefix("towpath-")
        assert role in of_kind(FEW, one["target"]["kind"])
        for change in yaml.safe_load(one["patch"]):
            assert change["path"] == "/spec/template/spec/containers/0/env/-"
            assert change["value"]["name"] in fields(role)
            assert change["value"]["name"] not in environment(pod_of(deployments[role])["containers"][0])


def test_what_the_overlay_is_of_can_be_applied_again() -> None:
    for text in (KUSTOMIZE / "base" / "kustomization.yaml", ROOT / "deploy" / "README.md"):
        [command] = re.findall(r"helm template (.*?) > ", text.read_text("utf-8"), re.DOTALL)
        assert {"--skip-tests", "migrations.mode=job", "values.yaml"} <= set(command.split())


def test_kubectl_builds_the_overlay_where_it_is_there(tmp_path: Path) -> None:
    base = yaml.safe_load((KUSTOMIZE / "base" / "kustomization.yaml").read_text("utf-8"))
    [name] = base["resources"]
    assert f"deploy/kustomize/base/{name}" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    if (program := shutil.which("kubectl")) is None:
        return
    shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    values = {**FEW, "migrations": {"mode": "job"}, "image": {"repository": "registry.example.com/towpath"}}
    texts = [text for file, text in rendered(values).items() if not file.endswith((".txt", "doctor.yaml"))]
    (tmp_path / "kustomize" / "base" / name).write_text("\n---\n".join(texts), "utf-8")
    command = [program, "kustomize", tmp_path / "kustomize" / "production"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in built}
    replicas = named["Deployment", "towpath-orchestrator"]
    kubernetes_validate.validate(replicas, "1.37", strict=True)
    assert replicas["spec"]["replicas"] == 3 and replicas["metadata"]["namespace"] == "towpath"
    assert {one["kind"] for one in built if "helm.sh/hook" in one["metadata"].get("annotations", {})} == set()
    [container] = replicas["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/towpath:0.1.0"
    assert environment(container)["TOWPATH_CONSOLE_URL"] == "https://agents.example.com"
    assert replicas["spec"]["selector"]["matchLabels"].get("environment") is None, "a selector can't be changed later"

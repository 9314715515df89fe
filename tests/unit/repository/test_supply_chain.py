"""`python -m tests.supply_chain`: the bill of materials of the image, and known vulnerabilities of what it lists."""

import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken
from tests.supply_chain.__main__ import main
from tests.supply_chain.advisories import AdvisoryError, affected, concerns, read_advisories
from tests.supply_chain.bill_of_materials import bill_of_materials, licences
from tests.supply_chain.pins import Pin, PinError, read_pins
from tests.support.places import ROOT

REQUIREMENTS = ROOT / "deploy" / "requirements.txt"
A, B = "a" * 64, "b" * 64


def advisory(name: str = "orders", number: str = "PYSEC-1", **part: Any) -> dict[str, Any]:
    """An advisory of the package *name*; *part* says which versions."""
    package = {"ecosystem": "PyPI", "name": name}
    return {
        "id": number,
        "modified": "2026-01-31T00:00:00Z",
        "summary": "It lies.",
        "affected": [{"package": package, **part}],
    }


def between(*events: dict[str, str], kind: str = "ECOSYSTEM") -> dict[str, Any]:
    return {"ranges": [{"type": kind, "events": list(events)}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one advisory, of orders before 1.5."""
    found = tmp_path / "advisories"
    found.mkdir()
    content = advisory(**between({"introduced": "0"}, {"fixed": "1.5"})) | {"aliases": ["CVE-2026-1"]}
    (found / "PYSEC-1.json").write_text(json.dumps(content), "utf-8")
    return found


@pytest.fixture
def requirements(tmp_path: Path) -> Iterator[Path]:
    """Requirements of one affected package and one other."""
    path = tmp_path / "requirements.txt"
    path.write_text(
        f"orders==1.4 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\nshop==2.0 --hash=sha256:{A}\n", "utf-8"
    )
    yield path


def test_the_bill_of_materials_lists_every_pin_with_every_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sbom"]) == 0
    text = capsys.readouterr().out
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    content = json.loads(text)
    listed = {(c["name"], c["version"], frozenset(h["content"] for h in c["hashes"])) for c in content["components"]}
    pins = read_pins(REQUIREMENTS)
    assert listed == {(pin.name, pin.version, frozenset(pin.sha256)) for pin in pins}
    assert len(content["components"]) == len(pins) > 50
    assert content["metadata"]["component"]["name"] == "towpath"
    assert {c["purl"] for c in content["components"]} == {f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins}


def test_a_licence_is_that_of_the_very_version_that_is_pinned() -> None:
    installed = metadata.version("pyyaml")
    assert [licence.id for licence in licences(Pin("pyyaml", installed, "", (A,)))] == ["MIT"]
    assert licences(Pin("pyyaml", f"{installed}.99", "", (A,))) == []
    assert licences(Pin("no-such-package", "1", "", (A,))) == []


def test_a_package_for_some_environments_says_for_which() -> None:
    pins = [Pin("uvloop", "1", "sys_platform != 'win32'", (A,)), Pin("uvloop", "2", "", (A,))]
    first, second = json.loads(bill_of_materials(pins, ROOT / "pyproject.toml"))["components"]
    assert first["properties"] == [{"name": "towpath:environment-marker", "value": "sys_platform != 'win32'"}]
    assert "properties" not in second


@pytest.mark.parametrize(
    "line",
    [
        "orders==1.4",
        "orders>=1.4 --hash=sha256:" + A,
        "orders==1.* --hash=sha256:" + A,
        "orders==1.4 --hash=md5:abc",
        "# nothing",
    ],
)
def test_a_requirement_without_an_exact_version_and_a_hash_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(line, "utf-8")
    with pytest.raises(PinError):
        read_pins(tmp_path / "requirements.txt")


@pytest.mark.parametrize(
    ("part", "inside", "outside"),
    [
        ({"versions": ["1.0", "1.1"]}, ["1.0", "1.1.0"], ["1.2"]),
        (between({"introduced": "0"}, {"fixed": "1.5"}), ["0.1", "1.4.9", "1.5rc1"], ["1.5", "1.10"]),
        (between({"introduced": "1.2"}, {"last_affected": "1.4"}), ["1.2", "1.4"], ["1.1", "1.4.1"]),
        (
            between({"fixed": "3"}, {"introduced": "2"}, {"fixed": "1"}, {"introduced": "0"}),
            ["0.9", "2.5"],
            ["1.5", "3"],
        ),
        (between({"introduced": "0"}, {"limit": "2"}), ["1.9"], ["2", "3"]),
        (between({"introduced": "2"}), ["2", "99"], ["1.9"]),
        (between({"introduced": "0"}, {"fixed": "1.10"}), ["1.9"], ["1.10"]),
        ({}, ["1", "2"], []),
        (between({"introduced": "abcdef"}, kind="GIT"), ["1"], []),
        (between({"introduced": "no version"}), ["1"], []),
        ({"versions": ["2004d", "1.0"], **between({"introduced": "abcdef"}, kind="GIT")}, ["1.0"], ["1.1"]),
    ],
)
def test_versions_are_compared_as_the_format_says(part: dict[str, Any], inside: list[str], outside: list[str]) -> None:
    assert [version for version in inside if not concerns(part, version)] == []
    assert [version for version in outside if concerns(part, version)] == []


def test_only_advisories_of_pypi_that_hold_are_looked_at(folder: Path) -> None:
    other = advisory(number="NPM-1", versions=["1.4"])
    other["affected"][0]["package"]["ecosystem"] = "npm"
    (folder / "other.json").write_text(json.dumps(other), "utf-8")
    withdrawn = advisory(number="PYSEC-2", versions=["1.4"]) | {"withdrawn": "2026-01-31T00:00:00Z"}
    (folder / "deeper").mkdir()
    (folder / "deeper" / "withdrawn.yaml").write_text(json.dumps(withdrawn), "utf-8")
    (folder / "deeper" / "other-name.yaml").write_text(
        json.dumps(advisory("Shop_Tools", "PYSEC-3", versions=["1"])), "utf-8"
    )
    advisories = read_advisories(folder)
    assert {found["id"] for found in advisories} == {"PYSEC-1", "PYSEC-3"}
    assert [one.advisory for one in affected([("shop.tools", "1"), ("unknown", "1")], advisories)] == ["PYSEC-3"]


def test_an_audit_names_what_is_affected_and_ends_with_one(
    folder: Path, requirements: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the page has it: with a bill of materials or without, and a finding that does not matter is accepted."""
    words = ["--requirements", str(requirements)]
    block = taken("CONTRIBUTING.md: uv run --group dev python -m tests.supply_chain")
    given = {"FOLDER": str(folder), "build/docs/towpath.cdx.json": str(tmp_path / "sbom.json"), "ID": "CVE-2026-1"}
    materials, accepting = (one.words[7:] for one in shell_commands(block.text, given))
    audit = [*words, *accepting[:3]]
    assert main(audit) == 1
    first = capsys.readouterr().out
    assert "orders 1.4: PYSEC-1 (CVE-2026-1): It lies.; fixed in 1.5" in first
    assert "the newest of 2026-01-31: 1 findings, 0 accepted" in first
    assert main([*words, *materials]) == 0
    capsys.readouterr()
    assert main([*audit, str(tmp_path / "sbom.json")]) == 1
    assert capsys.readouterr().out == first
    assert accepting[3] == "SBOM" and main([*audit, str(tmp_path / "sbom.json"), *accepting[4:]]) == 0
    assert main([*audit, "--accept", "PYSEC-1", "--accept", "PYSEC-9"]) == 1, (
        "what affects nothing is not accepted for ever"
    )
    requirements.write_text(f"orders==1.5 --hash=sha256:{A}\n", "utf-8")
    assert main(audit) == 0


@pytest.mark.parametrize("content", ["{", '{"summary": "no id"}', "[]"])
def test_an_audit_that_cannot_read_an_advisory_clears_nothing(folder: Path, requirements: Path, content: str) -> None:
    (folder / "broken.json").write_text(content, "utf-8")
    with pytest.raises(AdvisoryError):
        read_advisories(folder)
    assert main(["--requirements", str(requirements), "audit", "--advisories", str(folder)]) == 2


def test_an_audit_without_advisories_clears_nothing(requirements: Path, tmp_path: Path) -> None:
    words = ["--requirements", str(requirements), "audit", "--advisories"]
    assert main([*words, str(tmp_path / "absent")]) == 2
    (tmp_path / "empty").mkdir()
    assert main([*words, str(tmp_path / "empty")]) == 2


def test_an_sbom_with_something_that_cannot_be_looked_up_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sbom.json").write_text(json.dumps({"components": [{"name": "openssl"}]}), "utf-8")
    assert main(["audit", "--advisories", str(folder), str(tmp_path / "sbom.json")]) == 2

"""The generated documents: complete and valid."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken

from towpath_fabric import schemas
from towpath_fabric.asyncapi import asyncapi_document
from towpath_fabric.schemas import documents, message_adapters, schema

ADAPTERS = message_adapters()
METASCHEMA = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the document is long, and libyaml ten times as fast


def test_every_document_is_built_and_what_no_longer_exists_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "SubmitTask.json").write_text("{}")
    (tmp_path / "schemas" / "Forgotten.json").write_text("{}")
    (command,) = shell_commands(taken("CONTRIBUTING.md: uv run python -m towpath_fabric.schemas").text, {})
    assert command.words == ("uv", "run", "python", "-m", schemas.__name__)
    schemas.main([str(tmp_path)])
    built = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert capsys.readouterr().out == f"wrote {len(built)} documents to {tmp_path}\n"
    assert {"asyncapi.yaml", "openapi.json", "schemas/SubmitTask.json", "schemas/Event.json"} < set(built)
    found = {str(path.relative_to(tmp_path)): path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()}
    assert found == documents()
    assert sorted(found) == built
    assert yaml.load(found["asyncapi.yaml"], LOADER) == asyncapi_document()
    assert json.loads(found["schemas/SubmitTask.json"]) == schema("SubmitTask", ADAPTERS["SubmitTask"])


def test_every_schema_is_json_schema_2020_12() -> None:
    """Many messages have the same definitions, and checking one takes milliseconds: each is checked once."""
    definitions: dict[str, str] = {}
    for name in ADAPTERS:
        found = json.loads(documents()[f"schemas/{name}.json"])
        assert found["$schema"].endswith("2020-12/schema"), name
        for part in ({**found, "$defs": {}}, *found.get("$defs", {}).values()):
            definitions.setdefault(json.dumps(part), name)
    for text, name in definitions.items():
        faults = list(METASCHEMA.iter_errors(json.loads(text)))
        assert not faults, f"{name}: {faults[0].message}"


def test_a_task_is_judged_by_its_schema_as_by_the_platform() -> None:
    validator = jsonschema.Draft202012Validator(schema("SubmitTask", ADAPTERS["SubmitTask"]))
    assert validator.is_valid({"network": "support", "user_message": "hello"})
    assert not validator.is_valid({"network": "support", "surprise": 1})
    assert not validator.is_valid({"network": "no spaces"})

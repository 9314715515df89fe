"""The published schemas of what commands print: every command has one or a reason, and what is written is current."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App
from jsonschema import Draft202012Validator
from tests.docs_site.page_list import DOCS
from tests.docs_site.reference import WRITE, command_schemas_text
from tests.support.cli.printed_documents import PrintedDocuments, command_of, document_faults, printing
from tests.support.places import ROOT

from towpath.cli import main
from towpath.cli.app import make_app
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.output_forms import FORMS, WITHOUT_SCHEMA
from towpath.cli.shared.output_schemas import output_schemas
from towpath_embedded.__main__ import app as embedded_app


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every command below *app* that does something."""
    names = [name for name in app if not name.startswith("-")]
    for name in names:
        yield from commands(app[name], (*path, name))
    if path and (not names or app.default_command):
        yield " ".join(path)


def test_every_command_has_a_schema_or_a_reason_why_not() -> None:
    assert sorted(commands(make_app())) == sorted([*FORMS, *WITHOUT_SCHEMA])


def options_of(command: str) -> set[str]:
    """Return the options of *command*; `up` belongs to the embedded platform, and has its own."""
    app = embedded_app if command == "up" else make_app()
    for word in command.split():
        app = app[word]
    return {name for one in app.assemble_argument_collection() for name in one.names}


def test_every_command_with_a_schema_is_asked_for_json_in_both_ways() -> None:
    ways = {"--output", "-o", "--json"}
    assert {one: ways - options_of(one) for one in FORMS if ways - options_of(one)} == {}


def test_of_the_commands_without_a_schema_only_those_take_a_form_whose_json_others_declare() -> None:
    assert {one for one in WITHOUT_SCHEMA if {"-o", "--json"} & options_of(one)} == {"api", "runs output"}


def test_the_written_document_is_what_the_code_says() -> None:
    written = (DOCS / "schemas" / "cli.json").read_text("utf-8")
    assert written == command_schemas_text(), f"docs/schemas/cli.json is stale; write it again: {WRITE}"


def test_the_document_is_a_schema_that_refers_to_nothing_outside() -> None:
    found = output_schemas()
    Draft202012Validator.check_schema(found)
    text = json.dumps(found)
    references = {part.partition('"')[0] for part in text.split('"$ref": "')[1:]}
    assert {one.removeprefix("#/$defs/") for one in references} <= {*found["$defs"]}
    assert '"additionalProperties": false' not in text
    assert not {name for name in found["$defs"] if name not in FORMS and f'"#/$defs/{name}"' not in text}


def test_lists_are_objects_with_the_rows_and_fields_that_are_left_out_are_missing() -> None:
    found = output_schemas()["$defs"]
    assert found["runs list"] == {
        "type": "object",
        "properties": {"runs": {"type": "array", "items": {"$ref": "#/$defs/RunView"}}},
        "required": ["runs"],
    }
    row = found["networks list"]["properties"]["networks"]["items"]
    assert {"name", "version"} <= {*row["required"]}
    assert not {"snapshot", "spec"} & {*row["properties"]}
    assert found["gates show"] == {"$ref": "#/$defs/GateView"} and "summary" in found["GateView"]["properties"]
    assert {*found["SwitchRow"]["properties"]} - {*found["SwitchRow"]["required"]} == {"warning"}, "it may be left out"


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"towpath": "1", "python": "3"}, ""),
        ({"towpath": "1"}, "'python' is a required property"),
        ({"towpath": "1", "python": 3}, "3 is not of type 'string'"),
        ({"towpath": "1", "python": "3", "os": ""}, "'os' was unexpected"),
    ],
)
def test_a_document_that_is_not_as_published_is_a_fault(document: dict[str, object], fault: str) -> None:
    found = document_faults("version", document)
    assert len(found) == bool(fault)
    assert fault in "".join(found)


@pytest.mark.parametrize("form", ["json", "jsonl", "yaml"])
def test_what_commands_print_is_looked_at(
    form: str, printed_documents: PrintedDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.cli.administration.explain_command.python_version", lambda: 3)
    assert main(["version", "-o", form]) == 0
    assert main(["explain", "-o", form]) == 0
    assert printed_documents.commands == {"version", "explain"}
    faults = [printed_documents.faults.pop() for _ in tuple(printed_documents.faults)]
    assert [fault.partition(": ")[2] for fault in faults] == ["$.python: 3 is not of type 'string'"]


def test_lines_that_a_command_prints_one_by_one_are_looked_at(printed_documents: PrintedDocuments) -> None:
    totals = {"runs": 1, "events": 5, "identical": 0, "diverged": 1, "engine_version": "1"}
    printer = OutputPrinter("json")
    with printing("runs replay"):
        printer.line(totals)
        printer.line({**totals, "runs": "1"})
    (fault,) = printed_documents.faults
    printed_documents.faults.clear()
    assert fault.startswith("towpath runs replay: $.runs: '1' is not of type 'integer'")
    assert printed_documents.commands == {"runs replay"}


@pytest.mark.prints("version")
def test_documents_of_another_process_count_where_they_are_shown(printed_documents: PrintedDocuments) -> None:
    good, bad = {"towpath": "1", "python": "3"}, {"towpath": "1"}
    assert printed_documents.read("version", f"{json.dumps(good, indent=2)}\n") == [good]
    assert printed_documents.read("version", f"{json.dumps(good)}\n{json.dumps(bad)}\n") == [good, bad]
    assert printed_documents.faults == ["towpath version: $: 'python' is a required property"]
    printed_documents.faults.clear()
    assert printed_documents.read("version", "") == []


def test_a_command_line_is_known_by_its_first_words() -> None:
    lines = ("policy profiles list", "runs list --limit 3", "run support hello", "runs", "version -o json")
    assert [command_of(line.split()) for line in lines] == ["policy profiles list", "runs list", "run", "", "version"]


@pytest.mark.prints("schema")
def test_the_document_is_printed_by_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["schema", "cli"], ["schema", "cli", "-o", "json"]):
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out) == output_schemas()
    assert main(["schema", "-o", "json"]) == 0
    assert "cli" in {one["kind"] for one in json.loads(capsys.readouterr().out)["kinds"]}


def test_every_command_has_a_test_that_says_it_printed_a_document_of_it() -> None:
    found = {one for path in (ROOT / "tests").rglob("test_*.py") for one in promised_commands(path)}
    assert found == {*FORMS}


def promised_commands(path: Path) -> Iterator[str]:
    """Yield the commands that the marks `prints` of a file name."""
    text = path.read_text("utf-8")
    if "mark.prints(" in text:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.prints":
                yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))

"""Holds every document that a command prints in the process of a test against the published schema of that command.

Published objects are open, since later versions add fields; here they are closed, so that a field that is printed and
not published is a fault too.
"""

import functools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from towpath.cli import app
from towpath.cli.shared.output import Column, OutputPrinter, Row
from towpath.cli.shared.output_forms import FORMS, WITHOUT_SCHEMA
from towpath.cli.shared.output_schemas import output_schemas
from towpath.cli.shared.text import plain_json

_COMMAND: ContextVar[str] = ContextVar("command", default="")
_ROWS: ContextVar[str] = ContextVar("rows", default="")


class PrintedDocuments:
    """The commands of which a document was seen, and what is wrong with the documents."""

    def __init__(self) -> None:
        self.commands: set[str] = set()
        self.faults: list[str] = []

    def look(self, value: Any, member: str = "") -> None:
        """Validate what the command that runs now prints; with *member* its rows, as JSON lines have them."""
        if (command := _COMMAND.get()) in FORMS:
            self.see(command, value, member)

    def see(self, command: str, value: Any, member: str = "") -> None:
        """Validate what *command* has printed, in a process of its own too."""
        self.commands.add(command)
        self.faults += document_faults(command, json.loads(plain_json(value)), member)

    def read(self, command: str, text: str) -> list[Any]:
        """Validate and return the documents that *command* wrote to its output in a process of its own."""
        found, rest, reader = [], text.strip(), json.JSONDecoder()
        while rest:
            document, end = reader.raw_decode(rest)
            self.see(command, document)
            found.append(document)
            rest = rest[end:].lstrip()
        return found


@contextmanager
def printing(command: str) -> Iterator[None]:
    """Take what is printed in the block for documents of *command*."""
    token = _COMMAND.set(command)
    try:
        yield
    finally:
        _COMMAND.reset(token)


def document_faults(command: str, document: Any, member: str = "") -> list[str]:
    """Return what is wrong with a document of *command*, each with its place."""
    found = []
    for one in document[member] if member else (document,):
        for error in _validator(command, member).iter_errors(one):
            best = min((error, *(error.context or ())), key=lambda fault: -len(fault.absolute_path))
            found.append(f"towpath {command}: {best.json_path}: {best.message[:400]}")
    return found


def watch_printers(monkeypatch: pytest.MonkeyPatch) -> PrintedDocuments:
    """Look at what commands print until *monkeypatch* ends."""
    seen = PrintedDocuments()
    run, data, line, rows = app.run, OutputPrinter.data, OutputPrinter.line, OutputPrinter.rows

    def watched_run(arguments: list[str]) -> int:
        with printing(command_of(arguments)):
            return run(arguments)

    def watched_data(self: OutputPrinter, value: Any) -> None:
        if not self.for_people:
            seen.look(value)
        data(self, value)

    def watched_line(self: OutputPrinter, value: Any) -> None:
        member = _ROWS.get()
        seen.look({member: [value]} if member else value, member)
        line(self, value)

    def watched_rows(
        self: OutputPrinter, name: str, found: Sequence[Row], columns: Sequence[Column], *, empty: str
    ) -> None:
        token = _ROWS.set(name)
        try:
            rows(self, name, found, columns, empty=empty)
        finally:
            _ROWS.reset(token)

    monkeypatch.setattr(app, "run", watched_run)
    monkeypatch.setattr(OutputPrinter, "data", watched_data)
    monkeypatch.setattr(OutputPrinter, "line", watched_line)
    monkeypatch.setattr(OutputPrinter, "rows", watched_rows)
    return seen


def command_of(arguments: Sequence[str]) -> str:
    """Return the command that a command line calls, as `runs list`; nothing where it calls none that is known."""
    words = [" ".join(arguments[:count]) for count in range(3, 0, -1)]
    return next((name for name in words if name in FORMS or name in WITHOUT_SCHEMA), "")


@functools.cache
def _closed_schemas() -> Any:
    return _closed(output_schemas())


@functools.cache
def _validator(command: str, member: str) -> Draft202012Validator:
    definitions = _closed_schemas()["$defs"]
    forms = definitions[command].get("anyOf", [definitions[command]])
    if member:
        objects = [definitions[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in forms]
        forms = [one["properties"][member]["items"] for one in objects if member in one["properties"]]
    return Draft202012Validator(
        {"anyOf": forms, "$defs": definitions} if len(forms) > 1 else {**forms[0], "$defs": definitions}
    )


def _closed(part: Any) -> Any:
    """Return *part* of a schema with every object closed that names its members."""
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _closed(value) for key, value in part.items()}
    if "properties" in part and "type" in part:
        found.setdefault("additionalProperties", False)
    return found

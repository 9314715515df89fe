"""Networks as people write them: a definition as YAML, and YAML that somebody pasted as a definition.

What is pasted is read within bounds: an alias would be a small text that means a large one, so there are none.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from towpath_contracts.networks.spec import NetworkSpec
from towpath_readings.yaml_lines import LineNumbers

MAX_CHARS = 400_000
"""Of a pasted definition: more than the API takes as JSON once it is sent in a form."""

MAX_EVENTS = 50_000
"""Of the parser: values, and begins and ends of lists and mappings."""

_Reader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DefinitionFault(NamedTuple):
    """What is wrong with a definition, and where."""

    line: int
    pointer: str
    detail: str


class DefinitionError(ValueError):
    """A text that is no definition."""

    def __init__(self, *faults: DefinitionFault) -> None:
        super().__init__("; ".join(fault.detail for fault in faults))
        self.faults = faults


class ReadDefinition(NamedTuple):
    """A definition as JSON, and the lines of its parts."""

    spec: dict[str, Any]
    lines: LineNumbers


def read_definition(text: str) -> ReadDefinition:
    """Read YAML or JSON; raises DefinitionError with every fault."""
    if len(text) > MAX_CHARS:
        raise DefinitionError(DefinitionFault(1, "", f"a definition may have {MAX_CHARS:,} characters here"))
    try:
        _look_through(text)
        lines = LineNumbers(yaml.compose(text, Loader=_Reader))
        found = json.loads(json.dumps(yaml.load(text, Loader=_Reader), default=str, allow_nan=False))  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error)
        raise DefinitionError(DefinitionFault(mark.line + 1 if mark else 1, "", f"not YAML: {said}")) from error
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, DefinitionError):
            raise
        raise DefinitionError(DefinitionFault(1, "", f"nothing that JSON can say: {error}")) from error
    if lines.duplicates:
        raise DefinitionError(*(DefinitionFault(line, at, "given twice") for at, line in lines.duplicates.items()))
    if not isinstance(found, dict):
        raise DefinitionError(DefinitionFault(1, "", "a definition is a mapping that begins with kind: Network"))
    return ReadDefinition(found, lines)


def write_definition(spec: Mapping[str, Any]) -> str:
    """Write a network as YAML: without what is left at its default, long texts as blocks."""
    short = NetworkSpec.model_validate(spec).model_dump(mode="json", exclude_defaults=True)
    found = {"kind": "Network", **short}
    return yaml.dump(found, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)


def _look_through(text: str) -> None:
    """Refuse what would be costly to read, before anything is made of it."""
    for number, event in enumerate(yaml.parse(text, Loader=_Reader)):
        if number > MAX_EVENTS:
            raise DefinitionError(DefinitionFault(1, "", f"it has more than {MAX_EVENTS:,} values and signs"))
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise DefinitionError(DefinitionFault(line, "", "aliases (*name) are not read here: write it out"))


class _Writer(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Writer.add_representer(str, _text)

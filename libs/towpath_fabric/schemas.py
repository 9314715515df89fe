"""Builds the documents that programs read: `python -m towpath_fabric.schemas [FOLDER]`, by default into build/docs.

JSON Schemas of every message (2020-12), the AsyncAPI document of the bus, and the OpenAPI document of the gateway.
They are made from the code, never edited and not kept in git: a release attaches them. `tests/golden/wire.txt` holds
what must stay compatible.
"""

import argparse
import functools
import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter

import towpath_contracts
import towpath_readings
from towpath_contracts.base import ClientMessage, JsonObject, Message
from towpath_contracts.decisions.decision import decision_adapter, instruction_adapter
from towpath_contracts.events.log import event_adapter
from towpath_contracts.facts import fact_adapter
from towpath_contracts.networks.spec import NetworkSpec
from towpath_fabric.asyncapi import asyncapi_document

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BUILT = Path("build/docs")

OTHERS: dict[str, TypeAdapter[Any]] = {
    "Decision": decision_adapter,
    "Event": event_adapter,
    "Fact": fact_adapter,
    "Instruction": instruction_adapter,
    "NetworkSpec": TypeAdapter(NetworkSpec),
}
"""Documents without a message class of their own: unions, and the network that a project publishes."""

GATEWAY_OPENAPI = (sys.executable, "-m", "towpath_gateway", "openapi")
"""The gateway describes itself; the fabric doesn't import services."""


_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml writes the same text in a quarter of the time."""


class _Plain(_Dumper):  # type: ignore[misc]
    """Writes YAML without anchors, which few readers of AsyncAPI follow."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def message_types() -> dict[str, type[BaseModel]]:
    """Return every message class of contracts by name; raises ValueError where two have one name."""
    found: dict[str, type[BaseModel]] = {}
    for kind in _classes():
        if found.setdefault(kind.__name__, kind) is not kind:
            msg = f"two messages are called {kind.__name__}"
            raise ValueError(msg)
    return found


def message_adapters() -> dict[str, TypeAdapter[Any]]:
    """Return what validates each document that has a schema, by its name."""
    abstract = {"Message", "ClientMessage", "FactBase"}
    kinds = {name: kind for name, kind in message_types().items() if name not in abstract}
    return dict(sorted(({name: TypeAdapter(kind) for name, kind in kinds.items()} | OTHERS).items()))


def schema(name: str, adapter: TypeAdapter[Any]) -> JsonObject:
    """Return the JSON Schema of what *adapter* validates."""
    return {"$schema": DIALECT, "$id": f"urn:towpath:schema:{name}", **adapter.json_schema()}


@functools.cache
def documents() -> dict[str, str]:
    """Return every document as text, by its path below the folder; made once in a process."""
    texts = {f"schemas/{name}.json": _json(schema(name, kind)) for name, kind in message_adapters().items()}
    texts["asyncapi.yaml"] = yaml.dump(
        asyncapi_document(), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120
    )
    texts["openapi.json"] = subprocess.run(GATEWAY_OPENAPI, check=True, capture_output=True, text=True).stdout
    return texts


def build(folder: Path) -> list[str]:
    """Write every document below *folder*, and remove schemas of messages that no longer exist; returns the paths."""
    wanted = documents()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for path in (folder / "schemas").glob("*.json"):
        if f"schemas/{path.name}" not in wanted:
            path.unlink()
    return sorted(wanted)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build into the given folder and print how much was written."""
    parser = argparse.ArgumentParser(prog="python -m towpath_fabric.schemas", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=BUILT)
    folder = parser.parse_args(arguments).folder
    sys.stdout.write(f"wrote {len(build(folder))} documents to {folder}\n")


def _classes() -> Iterator[type[BaseModel]]:
    for module in (
        *pkgutil.walk_packages(towpath_contracts.__path__, "towpath_contracts."),
        *pkgutil.walk_packages(towpath_readings.__path__, "towpath_readings."),
    ):
        loaded = importlib.import_module(module.name)
        for kind in vars(loaded).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, (Message, ClientMessage))
                and kind.__module__ == loaded.__name__
            ):
                yield kind


def _json(document: JsonObject) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()

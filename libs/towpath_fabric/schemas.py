"""Generated documents: `python -m towpath_fabric.schemas write|check`.

JSON Schemas of every message (2020-12), the AsyncAPI document of the bus, and the OpenAPI document of the gateway.
Law: they are made, never edited; `check` says which are stale and a test runs it.
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
from towpath_contracts.base import ClientMessage, JsonObject, Message
from towpath_contracts.decisions import decision_adapter, instruction_adapter
from towpath_contracts.events import event_adapter
from towpath_contracts.facts import fact_adapter
from towpath_contracts.networks import NetworkSpec
from towpath_fabric.asyncapi import asyncapi_document

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCS = Path(__file__).parents[2] / "docs"

OTHERS: dict[str, TypeAdapter[Any]] = {
    "Decision": decision_adapter,
    "Event": event_adapter,
    "Fact": fact_adapter,
    "Instruction": instruction_adapter,
    "NetworkSpec": TypeAdapter(NetworkSpec),
}
"""What is written down or sent and is no message class of its own."""

GATEWAY_OPENAPI = (sys.executable, "-m", "towpath_gateway", "openapi")
"""The gateway describes itself; the fabric doesn't import services."""


class _Plain(yaml.SafeDumper):
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


@functools.cache
def documents() -> dict[str, str]:
    """Return every document as text, by its path below docs; made once in a process."""
    texts = {f"schemas/{name}.json": _json(schema) for name, schema in sorted(_schemas().items())}
    texts["asyncapi.yaml"] = yaml.dump(
        asyncapi_document(), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120
    )
    texts["openapi.json"] = subprocess.run(GATEWAY_OPENAPI, check=True, capture_output=True, text=True).stdout
    return texts


def stale(folder: Path) -> list[str]:
    """Return the paths below *folder* that are missing, differ, or describe what no longer exists."""
    wanted = documents()
    there = {f"schemas/{path.name}" for path in (folder / "schemas").glob("*.json")}
    differing = [name for name, text in wanted.items() if _read(folder / name) != text]
    return sorted({*differing, *(there - set(wanted))})


def write(folder: Path) -> list[str]:
    """Write what is stale; returns its paths."""
    changed, wanted = stale(folder), documents()
    for name in changed:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in wanted:
            path.write_text(wanted[name], "utf-8")
        else:
            path.unlink()
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check; returns 1 when `check` finds something stale."""
    parser = argparse.ArgumentParser(prog="python -m towpath_fabric.schemas", description=__doc__)
    parser.add_argument("command", choices=("write", "check"))
    parser.add_argument("--docs", type=Path, default=DOCS)
    given = parser.parse_args(arguments)
    if given.command == "write":
        sys.stdout.writelines(f"wrote {name}\n" for name in write(given.docs))
        return 0
    found = stale(given.docs)
    sys.stdout.writelines(f"stale: {name}\n" for name in found)
    return 1 if found else 0


def _classes() -> Iterator[type[BaseModel]]:
    for module in pkgutil.iter_modules(towpath_contracts.__path__):
        loaded = importlib.import_module(f"towpath_contracts.{module.name}")
        for kind in vars(loaded).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, (Message, ClientMessage))
                and kind.__module__ == loaded.__name__
            ):
                yield kind


def _schemas() -> dict[str, JsonObject]:
    kinds = {
        name: kind for name, kind in message_types().items() if name not in {"Message", "ClientMessage", "FactBase"}
    }
    adapters = {name: TypeAdapter[Any](kind) for name, kind in kinds.items()} | OTHERS
    return {
        name: {"$schema": DIALECT, "$id": f"urn:towpath:schema:{name}", **adapter.json_schema()}
        for name, adapter in adapters.items()
    }


def _json(schema: JsonObject) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())

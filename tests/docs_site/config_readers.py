"""Reads a block with settings, or a part of a configuration, by the program that reads such a file."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings
from tests.docs_site.code_blocks import CodeBlock
from tests.docs_site.taken_blocks import settings_of
from tests.support.certificates import Authority
from tests.support.places import ROOT

from towpath_decider.settings import DeciderSettings
from towpath_embedded.servers.postgres_identity import postgres_home
from towpath_fabric.postgres import migrations
from towpath_fabric.settings import Settings
from towpath_gateway.settings import GatewaySettings
from towpath_log_writer.settings import LogWriterSettings
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_tas.settings import TasSettings

SERVICES: tuple[type[BaseSettings], ...] = (
    *(DeciderSettings, GatewaySettings, LogWriterSettings, OrchestratorSettings, Settings, TasSettings),
)

DEPLOYED = {"TOWPATH_AUTH": "on", "TOWPATH_SESSION_SECRET": "s" * 64}
"""What a deployment's gateway has before a page adds settings to it."""


def read_config(block: CodeBlock, folder: Path) -> None:
    """Read *block*; raises where a service, the broker or the database would not start with it."""
    _READERS[block.language](block, folder)


def _settings(block: CodeBlock, folder: Path) -> None:
    if not block.text.startswith("TOWPATH_"):
        _postgres(block.text, folder)
        return
    given = settings_of(block)
    known = set[str]()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (DEPLOYED | given).items():
            patch.setenv(name, value.replace("/run/secrets", str(folder)))
            if name.endswith("_FILE"):
                (folder / Path(value).name).write_text("a-secret", "utf-8")
        for service in SERVICES:
            fields = {f"TOWPATH_{name.upper()}": name for name in service.model_fields}
            read = service()
            for name in given.keys() & fields.keys():
                known.add(name)
                assert fields[name] in read.model_fields_set, name
    assert given.keys() == known, "no service reads the others"


def _postgres(text: str, folder: Path) -> None:
    (folder / "postgresql.conf").write_text(text, "utf-8")
    (folder / "pg_hba.conf").touch()
    for name in re.findall(r"^(\w+) = ", text, re.MULTILINE):
        command = [postgres_home() / "bin" / "postgres", "-C", name, "-D", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout.strip(), f"{name}: {done.stderr}"


def _broker(block: CodeBlock, folder: Path) -> None:
    certificates = Authority.make(folder, "ca")
    certificates.issue("nats")
    rights = (ROOT / "deploy" / "authority.conf").read_text("utf-8")
    (folder / "authority.conf").write_text(rights, "utf-8")
    passwords = dict.fromkeys(re.findall(r"\$(\w+)", rights), "a-password")
    placed = block.text.replace('"/certs/', f'"{folder}/').replace('"/data"', f'"{folder}/data"')
    (folder / "nats.conf").write_text(placed, "utf-8")
    command = [Path(sys.executable).parent / "nats-server", "-t", "-c", folder / "nats.conf"]
    done = subprocess.run(command, env=passwords, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _migration(block: CodeBlock, folder: Path) -> None:
    (path := folder / "0002_page.sql").write_text(f"{block.text}SELECT 1;\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "_files", lambda _owner: [path])
        found, *_ = migrations.discover()
    assert found.oldest and found.rewrites, "its head says which versions can work with it, and what it writes anew"


_READERS: dict[str, Callable[[CodeBlock, Path], None]] = {"ini": _settings, "nats": _broker, "sql": _migration}
CONFIG_LANGUAGES = _READERS.keys()

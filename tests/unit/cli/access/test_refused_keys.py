"""A key that is refused is told with where it came from, and with what to do about it there."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.gateway.web import response, web

from towpath import Client
from towpath.cli import main
from towpath.cli.shared.options import remedy_of_refused_key
from towpath.client.settings import ClientTarget
from towpath.errors import DeniedError
from towpath_contracts.problems.registry import problem
from towpath_fabric.file_owners import write_private

REFUSED = problem("unauthenticated", "this is not a key of Towpath")
NOT_A_KEY = response(401, REFUSED.model_dump_json().encode(), content_type="application/problem+json")


@pytest.mark.parametrize(
    ("words", "origin", "cure"),
    [
        ((), "TOWPATH_API_KEY", "Set TOWPATH_API_KEY to a key of this gateway"),
        (("--api-key", "twp_b"), "--api-key", "Give --api-key a key of this gateway"),
        (("--context", "prod"), "context prod", "Keep a key of this gateway in the context: towpath context add prod "),
    ],
)
async def test_a_command_names_what_its_key_came_from(
    words: tuple[str, ...],
    origin: str,
    cure: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_a")
    monkeypatch.setenv("TOWPATH_CONTEXTS_FILE", str(tmp_path / "contexts.json"))
    async with web(lambda _asked: NOT_A_KEY) as server:
        address = server.url("", "127.0.0.1")
        kept = [{"name": "prod", "server": address, "api_key": "twp_c"}]
        write_private(tmp_path / "contexts.json", json.dumps({"selected": None, "contexts": kept}))
        where = () if "--context" in words else ("--server", address)
        assert await asyncio.to_thread(main, ["runs", "list", *where, *words, "-o", "json"]) == 4
    told = json.loads(capsys.readouterr().err)
    assert told["detail"].endswith(f": {REFUSED.detail} (the key that was sent is that of {origin})")
    assert told["remedy"].startswith(cure)
    assert "twp_" not in json.dumps(told)


async def test_a_program_is_told_which_of_its_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_a")
    async with web(lambda _asked: NOT_A_KEY) as server:
        for given, origin in ((None, "TOWPATH_API_KEY"), ("twp_b", "api_key=")):
            async with Client(server.url("", "127.0.0.1"), api_key=given) as client:
                with pytest.raises(DeniedError, match=f"the key that was sent is that of {origin}"):
                    await client.runs()


def test_where_the_platform_of_the_folder_needs_no_key_the_variable_is_to_be_unset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = ClientTarget(server="http://127.0.0.1:8787", server_origin="", api_key_origin="TOWPATH_API_KEY")
    monkeypatch.setattr("towpath.client.settings.local_token", lambda _server: "token")
    assert remedy_of_refused_key(here, REFUSED.remedy).startswith("Unset TOWPATH_API_KEY: the platform on ./.towpath")

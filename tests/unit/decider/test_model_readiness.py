"""What a model lacks before it can be asked: said without asking it, and without showing a key."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.support.places import EXAMPLES

from towpath_decider.adapters.gemini import GeminiProvider
from towpath_decider.adapters.script_source import FileScriptSource
from towpath_decider.adapters.scripted import ScriptedProvider
from towpath_decider.app.model_readiness import ModelReadiness


def readiness(folder: Path | None, *, key: str = "", allowed: bool = True) -> ModelReadiness:
    """Return the readiness of a decider with these scripts and this key; no script is fetched from anywhere."""
    scripted = ScriptedProvider(blobs=None, files=FileScriptSource(folder), allowed=allowed)  # type: ignore[arg-type]
    gemini = GeminiProvider(api_key=SecretStr(key) if key else None)
    return ModelReadiness(scripted, {"gemini": gemini})


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("gemini:gemini-2.5-flash", "export GEMINI_API_KEY=…"),
        ("scripted:task", "this task has none"),
        (
            "scripted:other",
            "the model scripted:other plays other.json, and the script folder 'support' has only ",
        ),
        ("scripted:suport", "support.json; did you mean scripted:support?"),
        ("scripted:../support/support", ""),
        ("scripted:support", ""),
        ("agent:mine", ""),
        ("unheard:of", ""),
    ],
)
async def test_what_a_model_lacks_is_named(model: str, missing: str) -> None:
    found = await readiness(EXAMPLES / "support").missing(model)
    assert missing in found and bool(found) == bool(missing)


async def test_of_many_scripts_some_are_named_and_of_none_it_is_said(tmp_path: Path) -> None:
    assert (await readiness(tmp_path).missing("scripted:a")).endswith(f"the script folder {tmp_path.name!r} has none")
    for place in range(10):
        (tmp_path / f"{place}.json").write_text("[]")
    assert (await readiness(tmp_path).missing("scripted:other")).endswith(
        "has only 0.json, 1.json, 2.json, 3.json, 4.json, 5.json, 6.json, 7.json and 2 more"
    )


async def test_a_key_is_enough_and_scripts_must_be_allowed() -> None:
    assert await readiness(None, key="k").missing("gemini:x") == ""
    assert "TOWPATH_SCRIPT_DIR is not set" in await readiness(None).missing("scripted:support")
    assert "switched off" in await readiness(EXAMPLES / "support", allowed=False).missing("scripted:support")
